"""The share of a trunk beyond the rows of fit, tried on the rows at an end of a feature."""

import numpy as np
import pytest

from kinfolk.methods.extrapolation import trusted_limits, where_lines_hold
from kinfolk.search.rbf_search import TaskRows
from kinfolk.search.trunk_ends import shares_beyond

UPPER = np.array([[-np.inf, -np.inf], [1.0, np.inf]])


def trends(weight=None, rows=40):
    """Six tasks, each with its own trend in the first input."""
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(6), rows)
    X = np.column_stack([np.tile(np.linspace(0, 1, rows), 6), rng.uniform(-1, 1, 6 * rows)])
    y = (2 + codes) * X[:, 0] + 0.1 * rng.standard_normal(len(X))
    return TaskRows(X, y, codes, np.arange(6), np.arange(len(X)) % 5, weight)


def test_a_trunk_that_is_right_at_the_end_has_the_whole_share_there():
    data = trends()
    found = shares_beyond(data, UPPER, lambda inner, judged: data.y[judged])
    assert found[1, 0] == pytest.approx(1)
    assert np.isnan(found[0]).all() and np.isnan(found[1, 1])


def test_a_trunk_that_stays_at_the_edge_of_a_trend_has_no_share():
    data = trends()

    def flat(inner, judged):
        assert data.X[inner, 0].max() < data.X[judged, 0].min()
        return (2 + data.codes[judged]) * data.X[inner, 0].max()

    assert shares_beyond(data, UPPER, flat)[1, 0] < 0.05


def test_a_row_of_weight_two_counts_as_two():
    guess = np.random.default_rng(1).standard_normal(240)
    twice = np.append(np.arange(240), np.flatnonzero(np.arange(240) % 3 == 0))
    one = trends(np.where(np.arange(240) % 3 == 0, 2.0, 1.0))
    two = TaskRows(one.X[twice], one.y[twice], one.codes[twice], one.labels, one.fold[twice])
    share = shares_beyond(one, UPPER, lambda inner, judged: (one.y + guess)[judged])[1, 0]
    again = shares_beyond(two, UPPER, lambda inner, judged: (one.y + guess)[twice][judged])[1, 0]
    plain = shares_beyond(trends(), UPPER, lambda inner, judged: (one.y + guess)[judged])[1, 0]
    assert 0 < share < 0.2  # lines are off by 0.1, the guesses by 1
    assert share == pytest.approx(again, rel=1e-6) != pytest.approx(plain, rel=1e-6)


def test_an_end_of_too_few_rows_is_not_tried():
    data = trends(rows=3)  # one row of every task is in the outer third
    assert np.isnan(shares_beyond(data, UPPER, lambda inner, judged: data.y[judged])).all()


def test_the_ends_with_the_most_rows_are_tried(monkeypatch):
    monkeypatch.setattr("kinfolk.search.trunk_ends.MOST_ENDS", 1)
    data = trends()
    data.X[:, 1] = data.X[:, 0] ** 4  # few rows lie at its upper end
    found = shares_beyond(data, np.array([[-np.inf, -np.inf], [1.0, 1.0]]), lambda inner, judged: data.y[judged])
    assert np.isfinite(found[1, 0]) and np.isnan(found[1, 1])


def test_many_rows_are_represented_by_some_tasks(monkeypatch):
    monkeypatch.setattr("kinfolk.search.trunk_ends.MOST_ROWS", 120)
    data = trends()

    def predict(inner, judged):
        assert set(data.codes[inner]) == set(data.codes[judged]) == {0, 2, 4}
        return data.y[judged]

    assert shares_beyond(data, UPPER, predict)[1, 0] == pytest.approx(1)


def test_a_feature_that_never_varies_has_no_end():
    data = trends()
    data.X[:, 1] = 3.0
    reach = where_lines_hold(data.X, trusted_limits(data.X, data.y, data.codes))
    assert reach[:, 1].tolist() == [-np.inf, np.inf]
    assert reach[1, 0] == 1.0
