"""Rows far beyond the training rows: clipped at every door, told once, uncertain; honest trends go on."""

import warnings
from itertools import product

import dask.dataframe as dd
import duckdb
import numpy as np
import polars as pl
import pytest
from sklearn.preprocessing import StandardScaler

from kinfolk import GAMTL, GAMTLCV, RBFGAMTL, load
from kinfolk.baselines import Pooled, RandomSlopes
from kinfolk.export.onnx import to_onnx
from kinfolk.large import fit_file, gram_of_file
from kinfolk.methods.extrapolation import CLIPPED_AT, RIDGE, TRUSTED, _Trial, trusted_limits


def noise_table(seed=0, T=6, n=30):
    """A column without effect and one with: nothing says that a line goes on beyond them."""
    rng = np.random.default_rng(seed)
    frame = pl.DataFrame(
        {"task": np.repeat(np.arange(T), n), "x": rng.uniform(size=T * n), "z": rng.normal(size=T * n)}
    )
    return frame, np.abs(frame["x"].to_numpy() - 0.5) + 0.1 * rng.normal(size=T * n)


def trend_table(T=6, n=30):
    rng = np.random.default_rng(0)
    time = np.tile(np.arange(n), T).astype(float)
    return np.column_stack([np.repeat(np.arange(T), n), time]), 2 * time + rng.normal(size=T * n)


FAR = pl.DataFrame({"task": [0, 1], "x": [30.0, 0.5], "z": [0.0, 0.0]})


def test_rows_far_out_are_predicted_at_the_limit_and_told():
    X, y = noise_table()
    model = Pooled(task="task", penalty=0.1).fit(X, y)
    limit = model.model_.columns.limits[1, 0]
    assert limit == pytest.approx(X["x"].max() + CLIPPED_AT * (X["x"].max() - X["x"].min()))
    with pytest.warns(UserWarning, match="far beyond the training rows.*'x'.*extrapolate=\"linear\""):
        prediction = model.predict(FAR)
    np.testing.assert_allclose(prediction, model.predict(FAR.with_columns(x=pl.Series([limit, 0.5]))))


def test_linear_goes_along_the_line():
    X, y = noise_table()
    model = Pooled(task="task", penalty=0.1, extrapolate="linear").fit(X, y)
    expected = model.intercept_[0] + 30 * model.coef_[0, 0]
    assert model.predict(FAR)[0] == pytest.approx(expected)


def test_training_rows_are_never_clipped():
    X, y = noise_table()
    model = RandomSlopes(task="task").fit(X, y)
    direct = model.intercept_[X["task"]] + (X[["x", "z"]].to_numpy() * model.coef_[X["task"]]).sum(axis=1)
    np.testing.assert_allclose(model.predict(X), direct)


def test_a_trend_is_followed_as_far_again():
    X, y = trend_table()
    np.testing.assert_allclose(
        trusted_limits(X[:, 1:], y, X[:, 0].astype(int)), [[-29 * TRUSTED], [29 * (1 + TRUSTED)]]
    )
    model = RandomSlopes(task=0).fit(X, y)
    assert model.predict([[0, 50.0]])[0] == pytest.approx(100, abs=3)


def test_lines_of_the_trial_are_ridge_lines_of_the_rows_that_are_kept():
    rng = np.random.default_rng(2)
    codes = rng.permutation(np.repeat(np.arange(5), (1, 4, 9, 9, 30)))
    X = 1e3 + rng.normal(size=(len(codes), 2))
    y = 1e4 + X @ [1.0, -2.0] + rng.normal(size=len(codes))
    outer = X[:, 0] > 1e3 + 0.7
    kept = [(codes == t) & ~outer for t in range(5)]
    W, c = _Trial(X, y, codes).lines(~outer)
    apart = [(X[rows] - X[rows].mean(axis=0), y[rows] - y[rows].mean()) for rows in kept]
    G = [x.T @ x for x, _ in apart]
    b = [x.T @ v for x, v in apart]
    pull = np.mean([np.trace(g) / 2 for g in G])
    common = np.linalg.solve(sum(G) / 5 + RIDGE * pull * np.eye(2), sum(b) / 5)
    for t in np.flatnonzero([rows.any() for rows in kept]):
        w = np.linalg.solve(G[t] + pull * np.eye(2), b[t] + pull * common)
        np.testing.assert_allclose(W[t], w, rtol=1e-8)
        assert c[t] == pytest.approx(y[kept[t]].mean() - X[kept[t]].mean(axis=0) @ w, rel=1e-9)


def test_columns_that_never_vary_have_no_limits():
    X = np.column_stack([np.ones(20), np.arange(20.0)])
    limits = trusted_limits(X, np.arange(20.0), np.zeros(20, int))
    np.testing.assert_array_equal(limits[:, 0], [-np.inf, np.inf])


def test_wide_tables_have_the_same_margin_at_every_end():
    """Trying every end of 150 columns would take longer than the fit."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(1200, 150))
    codes = np.repeat(np.arange(4), 300)
    low, high = trusted_limits(X, X.sum(axis=1), codes)
    size = np.ptp(X, axis=0)
    np.testing.assert_allclose([low, high], [X.min(axis=0) - CLIPPED_AT * size, X.max(axis=0) + CLIPPED_AT * size])


def test_standard_deviations_grow_with_the_distance():
    X, y = noise_table()
    model = RandomSlopes(task="task").fit(X, y)
    rows = pl.DataFrame({"task": [0] * 4, "x": [0.5, 1.2, 3.0, 30.0], "z": [0.0] * 4})
    with pytest.warns(UserWarning, match="beyond"):
        _, std = model.predict(rows, return_std=True)
    assert (np.diff(std) > 0).all()


def test_wide_targets_are_clipped_too():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(40, 1))
    model = GAMTL().fit(X, np.abs(X - 0.5) + 0.1 * rng.normal(size=(40, 3)))
    with pytest.warns(UserWarning, match="beyond"):
        prediction, std = model.predict([[50.0], [0.5]], return_std=True)
    assert prediction.shape == std.shape == (2, 3)
    np.testing.assert_allclose(prediction[0], model.predict(model.model_.columns.limits[1:])[0])
    assert (std[0] > std[1]).all()


def test_bumps_do_not_vanish_far_out():
    X, y = noise_table(T=3, n=20)
    model = RBFGAMTL(task="task", strengths=(1.0,)).fit(X, y)
    limit = model.model_.columns.limits[1, 0]
    with pytest.warns(UserWarning, match="beyond"):
        far = model.predict(FAR)
    np.testing.assert_allclose(far, model.predict(FAR.with_columns(x=pl.Series([limit, 0.5]))))


def test_every_door_clips_alike(tmp_path):
    X, y = noise_table()
    model = GAMTL(task="task", extrapolate="clip").fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        expected = model.predict(FAR)
        again = load(model.save(tmp_path / "model.kin")).predict(FAR)
        lazy = model.predict(FAR.lazy()).collect()["prediction"].to_numpy()
    np.testing.assert_array_equal(again, expected)
    np.testing.assert_allclose(lazy, expected)
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(to_onnx(model, tmp_path / "model.onnx"))
    found = session.run(None, {"task": FAR["task"].to_numpy(), "features": FAR[["x", "z"]].to_numpy()})[0]
    np.testing.assert_allclose(found, expected)


def test_new_rows_widen_the_limits():
    X, y = noise_table()
    model = GAMTL(task="task").fit(X, y)
    model.partial_fit(FAR, [1.0, 0.2])
    assert model.model_.columns.limits[1, 0] == 30
    model.adopt(FAR.with_columns(task=pl.Series([8, 8]), x=pl.Series([40.0, 1.0])), [1.0, 2.0])
    assert model.model_.columns.limits[1, 0] == 40


def _doors(X, y, tmp_path):
    """The same rows where only statistics of them are seen, each with the model that is to be fitted to it."""
    table = X.with_columns(y=y)
    file = tmp_path / "rows.parquet"
    table.write_parquet(file)
    names = {"task": "task", "target": "y"}
    return {
        "file": lambda model: fit_file(model, file, target="y"),
        "lazy": lambda model: model.fit(table.lazy(), "y"),
        "DuckDB": lambda model: model.fit(duckdb.from_arrow(table.to_arrow()), "y"),
        "Dask": lambda model: model.fit(dd.from_pandas(table.to_pandas(), npartitions=3), "y"),
        "statistics": lambda model: model.fit_gram(gram_of_file(file, **names)),
    }


@pytest.mark.parametrize(
    ("door", "features"),
    [("statistics", None), *product(["file", "lazy", "DuckDB", "Dask"], [None, StandardScaler()])],
)
def test_statistics_know_their_range_and_clip_beyond_it(door, features, tmp_path):
    """Lines cannot be tried without rows, so both ends have the margin of an end where they hold."""
    X, y = noise_table()
    fit = _doors(X, y, tmp_path)[door]
    model = fit(Pooled(task="task", penalty=0.1, features=features))
    ends = np.array([X["x"].min(), X["x"].max()])
    limit = ends[1] + TRUSTED * (ends[1] - ends[0])
    with pytest.warns(UserWarning, match="far beyond the training rows"):
        prediction = model.predict(FAR)
    np.testing.assert_allclose(prediction, model.predict(FAR.with_columns(x=pl.Series([limit, 0.5]))), rtol=1e-9)
    assert model.predict(FAR.lazy()).collect()["prediction"].to_list() == pytest.approx(prediction.tolist())
    linear = fit(Pooled(task="task", penalty=0.1, features=features, extrapolate="linear"))
    assert linear.model_.columns.limits is None


def test_folds_of_a_file_know_their_range(tmp_path):
    X, y = noise_table()
    X.with_columns(y=y).write_parquet(tmp_path / "rows.parquet")
    model = fit_file(GAMTLCV(task="task"), tmp_path / "rows.parquet", target="y")
    np.testing.assert_allclose(np.mean(model.model_.columns.limits[:, 0]), (X["x"].min() + X["x"].max()) / 2)


def test_a_stream_that_begins_with_few_rows_has_limits_when_there_are_enough():
    X, y = noise_table()
    model = GAMTL(task="task").partial_fit(X[::10], y[::10])
    assert not np.isfinite(model.model_.columns.limits).any()
    model.partial_fit(X, y)
    assert np.isfinite(model.model_.columns.limits).all()
