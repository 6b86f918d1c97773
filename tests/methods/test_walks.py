"""Walks along an input such as the year: terms of a Wiener process, and where a table has one."""

import numpy as np
import pandas as pd
import pytest

from kinfolk import GAMTLCV, load
from kinfolk.baselines import RandomSlopes
from kinfolk.export import to_onnx
from kinfolk.methods.splines import FADE, KNOTS, SplineFeatures
from kinfolk.methods.walks import MOST_KNOTS, MOST_TERMS, Walk, shared_values, walk_column
from kinfolk.rows.gram import GramStats
from kinfolk.search.curves import BentSlopes

QUICK = {"trunk": None, "strengths": (1.0,), "ridges": (0.1,), "anchors": (0.0,)}


def panel(seed=0, T=20, years=16, keep=0.6):
    """Tasks whose level walks at random, with steps partly in common; and one more input; some years are missing."""
    rng = np.random.default_rng(seed)
    steps = rng.normal(size=years) + 0.7 * rng.normal(size=(T, years))
    level = 2 * rng.normal(size=T)[:, None] + np.cumsum(steps, axis=1)
    task, year = (part.ravel() for part in np.meshgrid(np.arange(T), np.arange(years), indexing="ij"))
    x = rng.normal(size=T * years)
    y = level.ravel() + 0.5 * x + 0.2 * rng.normal(size=T * years)
    train = rng.random(T * years) < keep
    return np.column_stack([task, 2000.0 + year, x]), y, train


def test_terms_have_the_covariance_of_a_wiener_process_beside_its_line():
    """Against the definition: the covariance min(u, v) with lines projected out, on uneven times."""
    u = np.array([0.0, 0.1, 0.15, 0.5, 0.7, 1.0])
    line = np.column_stack([np.ones(6), u])
    beside = np.eye(6) - line @ np.linalg.solve(line.T @ line, line.T)
    expected = beside @ np.minimum.outer(u, u) @ beside
    walk = Walk.along(np.tile(3 + 20 * u, 3))
    found = walk.values @ walk.values.T
    np.testing.assert_allclose(found / found[0, 0], expected / expected[0, 0], atol=1e-12)
    np.testing.assert_allclose(line.T @ walk.values, 0.0, atol=1e-12)
    assert (np.diff(np.square(walk.values).sum(axis=0)) < 0).all() and (walk.values[-1] > 0).all()


def test_between_knots_terms_are_linear_and_beyond_them_they_fade():
    walk = Walk.along(np.tile([0.0, 1.0, 2.0, 4.0], 3))
    first, middle, second = walk.terms(np.array([2.0, 3.0, 4.0]))
    np.testing.assert_allclose(middle, (first + second) / 2)
    np.testing.assert_allclose(walk.terms(np.array([4.0 + 4 * FADE])), [second * np.exp(-1)])
    np.testing.assert_allclose(walk.terms(walk.knots), walk.values)


def test_many_values_have_so_many_knots_and_terms_at_most():
    walk = Walk.along(np.repeat(np.arange(1000.0), 3))
    assert walk.knots.shape == (MOST_KNOTS,) and walk.values.shape == (MOST_KNOTS, MOST_TERMS)
    assert walk.knots[0] == 0 and walk.knots[-1] == 999


def test_values_of_a_single_row_are_no_knots():
    x = np.append(np.tile(np.arange(5.0), 4), [2.001, 9.0])
    np.testing.assert_array_equal(shared_values(x), np.arange(5.0))
    assert np.isfinite(Walk.along(x).terms(np.array([2.001, 9.0]))).all()


def test_an_input_with_few_values_has_no_walk():
    with pytest.raises(ValueError, match="a walk needs 4 values that 3 rows share each, and there are 3"):
        SplineFeatures(walk=0).fit(np.tile([[1.0], [2.0], [3.0]], (5, 1)))


def test_among_fewer_values_the_missing_terms_are_zero():
    walk = Walk.along(np.tile(np.arange(10.0), 3))
    fewer = walk.among(np.tile(np.arange(5.0), 3))
    assert fewer.values.shape == (5, 8) and not fewer.values[:, 3:].any()
    np.testing.assert_allclose(fewer.values[:, :3], Walk.along(np.tile(np.arange(5.0), 3)).values)
    assert not walk.among(np.zeros(30)).terms(np.arange(10.0)).any()


@pytest.mark.parametrize(
    ("name", "expected"), [("panel", 0), ("twice a year", None), ("shared", None), ("continuous", None), ("time", 0)]
)
def test_the_time_of_a_panel_is_found_by_its_values_alone(name, expected):
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(6), 10)
    year = np.tile(np.arange(10.0), 6)
    inputs = {
        "panel": np.column_stack([year, rng.normal(size=60)]),
        "twice a year": np.column_stack([year // 2, rng.normal(size=60)]),
        "shared": np.tile(rng.normal(size=(10, 4)), (6, 1)),
        "continuous": rng.normal(size=(60, 2)),
        "time": year[:, None],
    }
    assert walk_column(inputs[name], codes) == expected


def test_levels_that_walk_are_found_and_halve_the_error_of_lines():
    X, y, train = panel()
    model, lines = (GAMTLCV(task=0, nonlinear=asked, **QUICK).fit(X[train], y[train]) for asked in ("splines", False))
    own, without = (np.sqrt(np.mean((m.predict(X[~train]) - y[~train]) ** 2)) for m in (model, lines))
    assert model.nonlinear_helps_ and any(name.startswith("walk, ") for name in model.mixture_)
    assert own < 0.5 * without
    held_out = np.sqrt(np.mean(model.cv_errors_**2))
    assert 0.7 * own < held_out < 1.5 * own
    _, std = model.predict(X[~train], return_std=True)
    assert 0.75 < np.mean(np.abs(model.predict(X[~train]) - y[~train]) < 1.645 * std) < 0.98


def test_a_walk_seldom_takes_part_where_levels_stay_and_does_little_harm():
    """Straight panels: the guard is one standard error, which one table in six passes by chance."""
    passed = 0
    error = {"splines": 0.0, False: 0.0}
    for seed in range(12):
        X, _, _ = panel(seed, T=10, years=8)
        truth = X[:, 2] + 0.1 * X[:, 1] * (X[:, 0] % 3)
        y = truth + np.random.default_rng(100 + seed).normal(size=len(X))
        for nonlinear in error:
            model = GAMTLCV(task=0, nonlinear=nonlinear, **QUICK).fit(X, y)
            error[nonlinear] += np.mean((model.predict(X) - truth) ** 2)
            passed += model.nonlinear_helps_
    assert passed <= 4
    assert error["splines"] < 1.05 * error[False]


def test_a_walk_keeps_the_slopes_of_the_inputs_and_survives_every_way_out(tmp_path):
    X, y, train = panel()
    table = pd.DataFrame(X, columns=["who", "year", "x"]).astype({"who": int})
    model = GAMTLCV(task="who", **QUICK).fit(table[train], y[train])
    assert model.coef_.shape == (20, 2)
    terms = model.splines_.walk_terms
    names = model.splines_.get_feature_names_out(["year", "x"]).tolist()
    assert names[0] == "walk 1 of year" and names[terms] == "curve 1 of year" and names[-2:] == ["year", "x"]
    both = np.column_stack([model.curve_coef_, model.coef_])
    phi = model.splines_.transform(X[:, 1:])
    by_hand = np.sum(phi * both[table.who], axis=1) + model.intercept_[table.who]
    np.testing.assert_allclose(by_hand, model.predict(table), atol=1e-9)
    again = load(model.save(tmp_path / "model.kin"))
    beyond = table.assign(year=table.year + 7.3)
    np.testing.assert_array_equal(again.predict(beyond), model.predict(beyond))
    pytest.importorskip("onnx")
    import onnxruntime

    session = onnxruntime.InferenceSession(to_onnx(model, tmp_path / "m.onnx"))
    feed = {"features": beyond[["year", "x"]].to_numpy(), "task": beyond.who.to_numpy()}
    np.testing.assert_allclose(session.run(["prediction"], feed)[0], model.predict(beyond), rtol=1e-8, atol=1e-8)


def test_the_mixed_model_of_a_walk_is_that_of_its_terms_and_the_inputs():
    X, y, train = panel()
    features = SplineFeatures(walk=0).fit(X[train, 1:])
    phi = features.transform(X[train, 1:])
    gram = GramStats.from_rows(phi, y[train], X[train, 0])
    columns = np.r_[: features.walk_terms, features.n_terms : phi.shape[1]]
    plain = RandomSlopes(task=0, tol=1e-3).fit(np.column_stack([X[train, 0], phi[:, columns]]), y[train])
    assert plain.relevance_[0] > plain.relevance_[-1]
    curves = BentSlopes(2, KNOTS - 2, features.walk_terms).columns(gram)
    np.testing.assert_array_equal(curves, np.arange(features.walk_terms, phi.shape[1]))


def test_in_time_a_walk_knows_its_past_alone():
    X, y, _ = panel(years=20)
    model = GAMTLCV(task=0, **QUICK).fit(X, y, time=X[:, 1])
    assert np.isfinite(model.predict(X)).all() and model.n_splits_ == 2  # the last third of six parts is judged


def test_rows_without_weight_are_no_values_of_a_walk():
    X, y, _ = panel(years=6)
    weight = (X[:, 1] < 2003).astype(float)
    model = GAMTLCV(task=0, **QUICK).fit(X, y, sample_weight=weight)
    assert np.isfinite(model.predict(X[weight > 0])).all()
    assert not any(name.startswith("walk, ") for name in model.mixture_)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda splines: setattr(splines, "walk", 7),
        lambda splines: setattr(splines, "walk_", None),
        lambda splines: setattr(splines, "walk_", splines.walk_._replace(knots=splines.walk_.knots[::-1].copy())),
        lambda splines: setattr(splines, "walk_", splines.walk_._replace(values=splines.walk_.values[1:])),
    ],
)
def test_a_spoiled_walk_is_refused_when_it_is_loaded(spoil, tmp_path):
    X, y, train = panel()
    model = GAMTLCV(task=0, **QUICK).fit(X[train], y[train])
    spoil(model.model_.columns.basis)
    with pytest.raises(ValueError, match="walk"):
        load(model.save(tmp_path / "model.kin"))
