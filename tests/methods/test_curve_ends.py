"""Curves beyond the rows of fit: where they return to their line, and where they go on as steeply as they ended."""

from dataclasses import replace

import numpy as np
import pytest

from kinfolk import GAMTLCV, load
from kinfolk.methods import curve_ends
from kinfolk.methods.curve_ends import with_ends
from kinfolk.methods.ends import ends_of
from kinfolk.methods.rbf_search import TaskRows
from kinfolk.methods.splines import FADE, FURTHER, KNOTS, SplineFeatures

TERMS = KNOTS - 2
QUICK = {"strengths": (1.0,), "ridges": (0.1,), "anchors": (0.0,)}


def world(shape, weight=None, rows=30):
    """Ten tasks that follow one shape up to a factor, over times from 0 to 1, and what comes until 1.5."""
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(10), rows)
    time = np.tile(np.linspace(0, 1, rows), 10)
    factor = 1 + 0.2 * rng.standard_normal(10)
    y = factor[codes] * shape(time) + 0.02 * rng.standard_normal(len(codes))
    later = np.column_stack([np.repeat(np.arange(10), 5), np.tile(np.linspace(1.1, 1.5, 5), 10)])
    truth = factor[later[:, 0].astype(int)] * shape(later[:, 1])
    return np.column_stack([codes, time]), y, later, truth


def growth(x):
    return 4 * x**2


def saturation(x):
    """Steep in the middle third, flat in the last."""
    return np.tanh(6 * (x - 0.45))


def fitted(shape):
    table, y, later, truth = world(shape)
    return GAMTLCV(task=0, **QUICK).fit(table, y), later, truth


def without_ends(model, monkeypatch):
    """What the same model predicts if all its curves return to their lines."""
    monkeypatch.setattr(model.splines_, "reach_", SplineFeatures.reach_)
    return model


def test_growth_goes_on_as_steeply_as_it_ended(monkeypatch):
    model, later, truth = fitted(growth)
    assert model.splines_.reach_[1].tolist() == [1 + FURTHER]
    off = np.sqrt(np.mean((model.predict(later) - truth) ** 2))
    before = np.sqrt(np.mean((without_ends(model, monkeypatch).predict(later) - truth) ** 2))
    assert off < 0.5 * before


def test_a_curve_that_flattens_is_not_followed():
    model, later, truth = fitted(saturation)
    assert model.nonlinear_helps_
    assert np.broadcast_to(model.splines_.reach_, (2, 1))[1].tolist() == [1.0]


def test_where_it_is_to_go_on_a_curve_is_a_line_for_one_range_and_then_fades():
    x = np.linspace(2, 6, 20)[:, None]
    features = SplineFeatures().fit(x).going_on(np.array([[False], [True]]))
    inside, end, near, last, far, below = features.transform(np.array([[5.999], [6], [7], [10], [14], [0]]))[:, :TERMS]
    slope = (end - inside) / 0.001
    np.testing.assert_allclose(near, end + slope, rtol=1e-8)
    np.testing.assert_allclose(last, end + 4 * slope, rtol=1e-8)
    np.testing.assert_allclose(far, last * np.exp(-1 / FADE), rtol=1e-12)
    plain = SplineFeatures().fit(x)
    np.testing.assert_array_equal(below, plain.transform(np.array([[0.0]]))[0, :TERMS])
    np.testing.assert_array_equal(features.transform(x), plain.transform(x))


def before_the_trial():
    """Rows, and the model of them whose curves all return to their lines yet."""
    table, y, *_ = world(growth)
    model = GAMTLCV(task=0, **QUICK).fit(table, y).model_
    data = TaskRows(table[:, 1:], y, table[:, 0].astype(int), model.labels, np.zeros(len(y), np.intp))
    features = SplineFeatures(model.details["splines_"].knots).fit(data.X)
    return data, replace(model, details=model.details | {"splines_": features})


def tried(monkeypatch, data, model):
    """Every comparison that is made: the end, one prediction and the other, and what came out."""
    seen = []
    clearly = curve_ends._clearly

    def remembered(rows, end, one, other):
        seen.append((end, one, other, clearly(rows, end, one, other)))
        return seen[-1][-1]

    monkeypatch.setattr(curve_ends, "_clearly", remembered)
    return with_ends(data, model), seen


def test_predictions_at_an_end_are_those_of_the_mixed_model_by_generalised_least_squares(monkeypatch):
    """The textbook's BLUP with the variances of all rows, from matrices of rows and no statistics."""
    data, model = before_the_trial()
    codes, y = data.codes, data.y
    _, seen = tried(monkeypatch, data, model)
    end, follows, returns, _ = next(one for one in seen if one[0].side == 1)
    part = next(part for part in model.parts if part.name.startswith("curves"))
    there = SplineFeatures(model.details["splines_"].knots).fit(data.X[end.inner])

    def design(features, rows):
        """Features about the origin of the part, and a column of ones."""
        return np.column_stack([features.transform(data.X[rows]) - part.origin[0], np.ones(rows.sum())])

    Z = design(there, end.inner)
    S = part.coupling.covariance
    same = codes[end.inner][:, None] == codes[end.inner]
    V = np.eye(len(Z)) + same * (Z @ S @ Z.T)
    mean = np.linalg.solve(Z.T @ np.linalg.solve(V, Z), Z.T @ np.linalg.solve(V, y[end.inner]))
    rest = np.linalg.solve(V, y[end.inner] - Z @ mean)
    ties = codes[end.judged][:, None] == codes[end.inner]
    for features, found in ((there, returns), (there.going_on(np.array([[False], [True]])), follows)):
        new = design(features, end.judged)
        np.testing.assert_allclose(found, new @ mean + ties * (new @ S @ Z.T) @ rest, rtol=1e-5)


def test_the_slope_must_beat_both_rivals_at_both_cuts(monkeypatch):
    data, model = before_the_trial()
    features, seen = tried(monkeypatch, data, model)
    upper = [one for one in seen if one[0].side == 1]
    assert [won for *_, won in upper] == [True] * 4 and features.reach_[1].tolist() == [1 + FURTHER]
    assert upper[0][0].judged.sum() > upper[2][0].judged.sum() > 0
    for k in range(4):
        answers = [True] * k + [False] * 9
        monkeypatch.setattr(curve_ends, "_clearly", lambda *_, left=answers: left.pop(0))
        monkeypatch.setattr(curve_ends, "ends_of", lambda d, wanted, *share: ends_of(d, [(1, 0)], *share))
        assert with_ends(data, model) is model.details["splines_"]


@pytest.mark.parametrize(("fall", "expected"), [(0.15, False), (0.25, True)])
def test_a_fall_of_a_fifth_is_clear_if_tasks_agree(fall, expected):
    codes = np.repeat(np.arange(6), 10)
    off = np.ones(60)
    data = TaskRows(np.zeros((60, 1)), np.zeros(60), codes, np.arange(6), codes)
    end = curve_ends.End(1, 0, codes < 0, codes >= 0)
    assert curve_ends._clearly(data, end, (1 - fall) * off, off) is expected
    lone = np.where(codes == 0, 0.0, 1.0)  # one task of six makes no standard error
    assert not curve_ends._clearly(data, end, 5 * lone, 5 * np.where(codes == 0, 9.0, 1.0))


def test_a_row_of_weight_two_counts_as_two():
    rng = np.random.default_rng(1)
    codes = np.repeat(np.arange(6), 10)
    one = rng.standard_normal(60)
    other = np.where(np.arange(60) % 3 == 0, 2.0, 0.9) * one
    twice = np.append(np.arange(60), np.flatnonzero(np.arange(60) % 3 == 0))
    X = np.zeros((60, 1))
    heavy = TaskRows(X, np.zeros(60), codes, np.arange(6), codes, np.where(np.arange(60) % 3 == 0, 2.0, 1.0))
    double = TaskRows(X[twice], np.zeros(80), codes[twice], np.arange(6), codes[twice])
    plain = TaskRows(X, np.zeros(60), codes, np.arange(6), codes)

    def told(data, at):
        end = curve_ends.End(1, 0, data.codes < 0, data.codes >= 0)
        return curve_ends._clearly(data, end, one[at], 0.75 * other[at])

    everyone = np.arange(60)
    assert told(heavy, everyone) == told(double, twice) != told(plain, everyone)


def test_a_stored_model_goes_on_as_well_and_keeps_its_ends_with_more_rows(tmp_path):
    table, y, later, _ = world(growth)
    model = GAMTLCV(task=0, **QUICK).partial_fit(table, y)
    assert model.splines_.reach_[1].tolist() == [1 + FURTHER]
    model.save(tmp_path / "growth.kin")
    again = load(tmp_path / "growth.kin")
    np.testing.assert_array_equal(again.predict(later), model.predict(later))
    again.partial_fit(table[::3], y[::3])
    assert again.splines_.reach_[1].tolist() == [1 + FURTHER]


def test_files_of_before_have_curves_that_return_to_their_lines():
    """They hold no `reach_`, and neither do files of today where no curve goes on."""
    x = np.linspace(0, 1, 20)[:, None]
    assert "reach_" not in vars(SplineFeatures().fit(x))
