from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from kinfolk import GAMTLCV, load
from kinfolk.baselines import RandomSlopes
from kinfolk.methods.splines import FADE, KNOTS, SplineFeatures
from kinfolk.report.summary import summarize
from kinfolk.rows.folds import Folds, refilled
from kinfolk.rows.gram import GramStats
from kinfolk.rows.schema import Columns, ruled
from kinfolk.rows.table import read_rows
from kinfolk.search.curves import MOST_CURVES, BentSlopes
from kinfolk.search.rbf_search import TaskRows

TERMS = KNOTS - 2
QUICK = {"trunk": None, "strengths": (1.0,), "ridges": (0.1,), "anchors": (0.0,)}


def rows(seed, T, n, d):
    rng = np.random.default_rng(seed)
    return np.column_stack([np.repeat(np.arange(T), n), rng.uniform(-1, 1, (T * n, d))]), rng


def bent(seed=0, T=12, n=25):
    """Curves that tasks share up to a factor, beside a line."""
    table, rng = rows(seed, T, n, 2)
    factor = 1 + 0.3 * rng.normal(size=T)[table[:, 0].astype(int)]
    return table, np.sin(3 * table[:, 1]) * factor + 0.5 * table[:, 2] + 0.2 * rng.normal(size=len(table))


def test_terms_are_the_natural_spline_of_the_textbook_without_its_line():
    """Least squares on the terms and the input fit any natural spline with the same knots: here the basis of a book."""
    x = np.sort(np.random.default_rng(0).uniform(2, 5, 60))
    features = SplineFeatures().fit(x[:, None])
    k = features.ends_[0, 0] + features.knots_[0] * (features.ends_[1, 0] - features.ends_[0, 0])

    def d(j):
        return (np.maximum(x - k[j], 0) ** 3 - np.maximum(x - k[-1], 0) ** 3) / (k[-1] - k[j])

    book = np.column_stack([d(j) - d(KNOTS - 2) for j in range(TERMS)])
    own = np.column_stack([np.ones(60), features.transform(x[:, None])])
    fitted = own @ np.linalg.lstsq(own, book, rcond=None)[0]
    np.testing.assert_allclose(fitted, book, atol=1e-9 * np.abs(book).max())
    line = np.column_stack([np.ones(60), x])
    np.testing.assert_allclose(line.T @ own[:, 1:-1], 0.0, atol=1e-8)


def test_terms_are_uncorrelated_and_the_smoothest_come_first():
    """The j-th turns j times, on an input so skewed that products of cubes have lost their digits."""
    x = np.sort(np.exp(2 * np.random.default_rng(0).normal(size=500)))
    terms = SplineFeatures(8).fit(x[:, None]).transform(x[:, None])[:, :-1]
    np.testing.assert_allclose(terms.T @ terms / len(x), np.eye(6), atol=1e-6)
    turns = np.count_nonzero(np.diff(np.sign(np.diff(terms, axis=0)), axis=0), axis=0)
    assert turns.tolist() == [1, 2, 3, 4, 5, 6]
    assert (terms[-1] > 0).all()


def test_tasks_that_differ_by_a_wide_bend_differ_in_the_first_term():
    """Random effects of the terms are independent, and one of them is enough here."""
    table, rng = rows(3, 30, 12, 1)
    x = table[:, 1:]
    y = rng.normal(size=30)[table[:, 0].astype(int)] * np.cos(2.5 * x[:, 0]) + 0.1 * rng.normal(size=len(x))
    terms = SplineFeatures(8).fit(x).transform(x)[:, :6]
    model = RandomSlopes(task=0, tol=1e-3).fit(np.column_stack([table[:, 0], terms]), y)
    assert model.relevance_[0] > 5 * model.relevance_[1:].max()


def test_beyond_its_range_a_curve_returns_to_its_line():
    x = np.linspace(0, 1, 20)[:, None]
    features = SplineFeatures().fit(x)
    end, beyond, far = features.transform(np.array([[1.0], [1.0 + FADE], [50.0]]))
    np.testing.assert_allclose(beyond[:TERMS], end[:TERMS] * np.exp(-1), rtol=1e-12)
    np.testing.assert_allclose(far[:TERMS], 0.0, atol=1e-12)
    assert far[TERMS] == 50.0


def test_units_and_copies_of_rows_change_nothing():
    table, _ = rows(1, 3, 20, 2)
    X = table[:, 1:]
    plain = SplineFeatures().fit(X).transform(X)[:, : 2 * TERMS]
    np.testing.assert_allclose(SplineFeatures().fit(7 * X - 3).transform(7 * X - 3)[:, : 2 * TERMS], plain, atol=1e-8)
    twice = SplineFeatures().fit(np.vstack([X, X[:30]])).transform(X)[:, : 2 * TERMS]
    np.testing.assert_allclose(twice, plain, atol=1e-12)
    weight = np.repeat([1.0, 0.0], [40, 20])
    some = SplineFeatures().fit(X[:40]).transform(X)
    np.testing.assert_allclose(SplineFeatures().fit(X, sample_weight=weight).transform(X), some, atol=1e-12)


def test_inputs_with_few_values_have_no_curve_and_names_say_which_have():
    X = np.column_stack([np.arange(12) % 2, np.arange(12.0), np.arange(12) % 4])
    features = SplineFeatures().fit(X)
    assert features.columns_.tolist() == [1]
    names = [f"curve {j} of x1" for j in (1, 2, 3)]
    assert features.get_feature_names_out().tolist() == [*names, "x0", "x1", "x2"]


@pytest.mark.parametrize("top", [1e300, np.nextafter(1.0, 2.0)])
def test_inputs_that_are_nearly_one_value_have_no_curve(top):
    x = np.append(np.linspace(0, 1, 30) if top > 2 else 1 - np.arange(30) * 1e-16, [top, 0.0])
    features = SplineFeatures().fit(x[:, None])
    assert not len(features.columns_)
    np.testing.assert_array_equal(features.transform(x[:, None]), x[:, None])


def test_only_the_inputs_that_bend_most_are_bent():
    table, rng = rows(2, 6, 60, MOST_CURVES + 3)
    X = table[:, 1:]
    y = np.square(X[:, 2]) + np.abs(X[:, 5]) + 0.1 * rng.normal(size=len(X))
    phi = SplineFeatures().fit(X).transform(X)
    gram = GramStats.from_rows(phi, y, table[:, 0])
    columns = BentSlopes(X.shape[1], TERMS).columns(gram)
    assert len(columns) == MOST_CURVES * TERMS + X.shape[1]
    assert set(range(2 * TERMS, 3 * TERMS)) | set(range(5 * TERMS, 6 * TERMS)) < set(columns.tolist())
    W = BentSlopes(X.shape[1], TERMS).learn(gram).coef
    np.testing.assert_array_equal(np.delete(W, columns, axis=1), 0.0)


def test_curves_of_tasks_are_found_and_halve_the_squared_error():
    table, y = bent(n=50)
    train = np.arange(len(y)) % 2 == 0
    model, lines = (
        GAMTLCV(task=0, nonlinear=asked, **QUICK).fit(table[train], y[train]) for asked in ("splines", False)
    )
    assert model.nonlinear_helps_ and model.coef_.shape == (12, 2)
    slopes = RandomSlopes(task=0).fit(table[train], y[train])
    own, *others = (np.mean((m.predict(table[~train]) - y[~train]) ** 2) for m in (model, lines, slopes))
    assert own < 0.5 * min(others)
    assert model.gains_["curves"].mean + model.gains_["sharing"].mean > 0.3
    assert "The curves are splines of the features." in model.summary().verdict


def test_slopes_are_those_of_the_inputs_and_the_curves_have_coefficients_of_their_own():
    table, y = bent()
    model = GAMTLCV(task=0, **QUICK).fit(table, y)
    task = table[:, 0].astype(int)
    phi = model.splines_.transform(table[:, 1:])
    assert model.curve_coef_.shape == (12, 2 * model.splines_.terms)
    both = np.column_stack([model.curve_coef_, model.coef_])
    np.testing.assert_allclose(np.sum(phi * both[task], axis=1) + model.intercept_[task], model.predict(table))
    assert list(model.coef_frame()) == ["intercept", *model.get_feature_names_out()] == ["intercept", "x0", "x1"]


@pytest.mark.parametrize("seed", range(4))
def test_where_relations_are_straight_lines_predict_alone(seed):
    table, rng = rows(seed, 8, 12, 3)
    y = table[:, 1] + rng.normal(size=8)[table[:, 0].astype(int)] * table[:, 2] + rng.normal(size=len(table))
    model = GAMTLCV(task=0, nonlinear="splines", **QUICK).fit(table, y)
    assert not model.nonlinear_helps_
    lines = GAMTLCV(task=0, nonlinear=False, **QUICK).fit(table, y)
    np.testing.assert_allclose(model.predict(table), lines.predict(table), rtol=1e-9)


@pytest.mark.parametrize("seed", [4, 14])
def test_curves_that_lose_on_two_folds_are_judged_on_all(seed):
    """A common parabola under noise with heavy tails: on the last two of five folds it seems to be of no use."""
    table, rng = rows(seed, 10, 10, 2)
    y = 1.6 * np.square(table[:, 1]) + table[:, 2] + 0.5 * rng.standard_t(3, size=len(table))
    assert GAMTLCV(task=0, **QUICK).fit(table, y).nonlinear_helps_


def test_statistics_alone_give_lines():
    table, y = bent()
    gram = GramStats.from_rows(table[:, 1:], y, table[:, 0])
    folds = Folds.of_rows(table[:, 1:], y, table[:, 0].astype(int), gram.labels, np.arange(len(y)) % 5)
    model = GAMTLCV(nonlinear="splines", **QUICK).fit_folds(folds)
    assert model.coef_.shape == (12, 2)


def test_a_model_of_splines_is_stored_and_goes_on_with_more_rows(tmp_path):
    table, y = bent()
    model = GAMTLCV(task=0, nonlinear="splines", **QUICK)
    model.partial_fit(table[::2], y[::2])
    model.partial_fit(table[1::2], y[1::2])
    assert model.nonlinear_helps_ and model.score(table, y) > 0.85
    model.save(tmp_path / "bent.kin")
    again = load(tmp_path / "bent.kin")
    np.testing.assert_array_equal(again.predict(table), model.predict(table))
    again.partial_fit(table[:50], y[:50])
    assert np.isfinite(again.predict(table)).all()


def test_the_better_of_splines_and_bumps_takes_part():
    table, y = bent()
    model = GAMTLCV(task=0, nonlinear="auto", **QUICK).fit(table, y)
    alone = GAMTLCV(task=0, nonlinear="splines", **QUICK).fit(table, y)
    assert model.nonlinear_gain_.mean >= alone.nonlinear_gain_.mean
    assert clone(model).nonlinear == "auto"


def test_groups_are_told_by_slopes_and_curves_are_noise_to_these():
    table, rng = rows(3, 12, 30, 2)
    task = table[:, 0].astype(int)
    y = np.sin(3 * table[:, 1]) * np.where(task < 6, 1.0, -1.0) + 0.5 * table[:, 2] + 0.1 * rng.normal(size=len(table))
    model = GAMTLCV(task=0, **QUICK).fit(table, y)
    assert model.nonlinear_helps_
    said = model.summary().groups
    assert all("x0 works the other way" in line and "x1" not in line for line in said)
    assert len(said) == 2
    page = summarize(model, table, y)
    assert model.summary().verdict[0] in page["headline"][0]


def test_inputs_with_gaps_are_bent_and_folds_fill_them_in_by_their_own_rows():
    table, y = bent()
    gaps = np.random.default_rng(5).random(len(y)) < 0.1
    frame = pd.DataFrame(table, columns=["task", "a", "b"]).assign(a=np.where(gaps, np.nan, table[:, 1]))
    with pytest.warns(UserWarning, match="missing values are filled in"):
        model = GAMTLCV(task="task", **QUICK).fit(frame, y)
    assert model.nonlinear_helps_
    lines = np.sin(3 * table[:, 1]) - np.polynomial.Polynomial.fit(table[:, 1], np.sin(3 * table[:, 1]), 1)(table[:, 1])
    assert model.nonlinear_gain_.mean > 0.1
    assert np.abs(model.predict(frame) - y)[~gaps].mean() < 0.8 * np.abs(lines).mean()


def test_filled_in_rows_have_the_statistics_of_refilled_folds():
    table, y = bent()
    frame = pd.DataFrame(table, columns=["task", "a", "b"])
    frame.loc[::7, "a"] = np.nan
    rows = read_rows(frame, y, task="task")
    columns = ruled(Columns(rows.schema), rows)
    X = columns.features(rows.table)
    fold = np.arange(len(y)) % 4
    data = TaskRows.of(rows, X, rows.gram(X, None), fold, in_time=False, columns=columns)
    by_rows = data.folds()
    by_statistics = refilled(replace(data, gaps=()).folds(), columns.gaps)
    for f in range(4):
        np.testing.assert_allclose(by_rows.training(f).G, by_statistics.training(f).G, atol=1e-9)
        np.testing.assert_allclose(by_rows.held_out[f].b, by_statistics.held_out[f].b, atol=1e-9)


def test_a_table_too_large_for_curves_says_so(monkeypatch):
    table, y = bent()
    monkeypatch.setattr("kinfolk.search.curves.MOST_VALUES", 10)
    model = GAMTLCV(task=0, **QUICK).fit(table, y)
    assert model.nonlinear_helps_ is False and model.nonlinear_gain_ is None
    assert "Curves were not tried: the table is too large for them." in model.summary().verdict


def test_in_time_knots_are_those_of_the_past():
    """Growth that slows down: knots of all rows would leave the curves of early folds unknown where they are judged."""
    when = np.tile(np.arange(24.0), 12)
    task = np.repeat(np.arange(12), 24)
    rng = np.random.default_rng(0)
    slowness = np.linspace(3.0, 20.0, 12)[task]  # no mixture of lines that are too high and too low fits all tasks
    y = 5 * (1 - np.exp(-when / slowness)) + 0.02 * rng.normal(size=len(when))
    # Tasks share their times, so that five folds are five observations: too few for a gain of two standard errors.
    model = GAMTLCV(task=0, guard=0.0, **QUICK).fit(np.column_stack([task, when]), y, time=when)
    assert model.nonlinear_helps_
    lines, curves = (
        next(row["rmse_tasks"] for row in model.cv_results_ if row["name"] == name)
        for name in ("random slopes, random intercepts", "curves, random slopes, random intercepts")
    )
    assert curves < lines


def test_curves_among_other_rows_have_the_knots_of_these_and_none_where_values_are_too_few():
    X = np.column_stack([np.arange(40.0), np.repeat([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], 5)])
    features = SplineFeatures().fit(X)
    there = features.among(X[:10])
    alone = SplineFeatures().fit(X[:10, :1])
    moved = there.transform(X)
    assert moved.shape == features.transform(X).shape
    np.testing.assert_array_equal(moved[:, :TERMS], alone.transform(X[:, :1])[:, :TERMS])
    np.testing.assert_array_equal(moved[:, TERMS : 2 * TERMS], 0.0)
    np.testing.assert_array_equal(moved[:, 2 * TERMS :], X)


@pytest.mark.filterwarnings("ignore:dates become days:UserWarning")
def test_dates_as_time_may_carry_curves_in_the_past_that_all_rows_do_not():
    """Waves of the week have seven values; among few rows knots fall between them, among many on ties."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "task": np.repeat(np.arange(8), 20),
            "x": rng.normal(size=160),
            "date": np.tile(pd.date_range("2020-01-01", periods=20), 8),
        }
    )
    model = GAMTLCV(task="task").fit(table, table["x"] + rng.normal(size=160), time="date")
    assert np.isfinite(model.predict(table)).all()
