"""Lazy and remote frames: their engines give the statistics, folds and predictions of the rows in memory."""

import dask
import dask.dataframe as dd
import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from source_tables import assert_same, by_numpy, folds_of_frame, gram_of_frame, sales

from kinfolk import GAMTL, GAMTLCV
from kinfolk.baselines import Independent
from kinfolk.large import predict_dask
from kinfolk.sources.frames import is_lazy

X = ["x0", "shop", "x1", "x2"]


@pytest.fixture(autouse=True)
def in_this_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def far(label=str, n=600):
    """Rows with means of a million, and days that groups are made of."""
    frame = sales(n=n, tasks=7, label=label)
    frame[["x0", "x1", "x2", "sales"]] += 1e6
    return frame.assign(day=[f"day {k % 23}" for k in range(n)])


def by_duckdb(frame):
    connection = duckdb.connect()
    connection.register("rows_of_test", pl.from_pandas(frame).to_arrow())
    return connection.sql("select * from rows_of_test")


ENGINES = {
    "polars": lambda frame: pl.from_pandas(frame).lazy(),
    "duckdb": by_duckdb,
    "dask": lambda frame: dd.from_pandas(frame, npartitions=3),
}


def collected(frame):
    """The rows of a lazy frame, as pandas has them."""
    if isinstance(frame, pl.LazyFrame):
        return frame.collect().to_pandas()
    return frame.pl().to_pandas() if isinstance(frame, duckdb.DuckDBPyRelation) else frame.compute()


@pytest.fixture(params=ENGINES)
def engine(request):
    return ENGINES[request.param]


@pytest.mark.parametrize("label", [str, int, lambda s: f"no. {s}"], ids=["digits", "integers", "words"])
def test_the_engine_gives_the_statistics_of_the_rows(engine, label):
    frame = far(label)
    gram = gram_of_frame(engine(frame), task="shop", target="sales", drop="day")
    order = gram.labels[np.argsort(gram.labels.astype(str))]
    reference = by_numpy(frame)
    assert_same(gram.reindex(order), reference, rtol=1e-10)
    np.testing.assert_allclose(gram.reindex(order).G, reference.G, rtol=1e-8, atol=1e-8)


def test_coefficients_are_those_of_the_rows_in_memory(engine):
    frame = far().drop(columns="day")
    for model in (GAMTL(task="shop", features=StandardScaler(), tol=1e-12), Independent(task="shop", penalty=1.0)):
        here = model.fit(frame[X], frame["sales"]).coef_
        there = model.fit(engine(frame), "sales").coef_
        np.testing.assert_allclose(there, here, rtol=1e-8, atol=1e-8 * np.abs(here).max())


def test_folds_are_the_same_on_every_engine_and_hold_all_rows():
    frame = far()
    one, *others = (
        folds_of_frame(make(frame), task="shop", target="sales", drop="day", cv=3) for make in ENGINES.values()
    )
    assert_same(one.total, by_numpy(frame), rtol=1e-10)
    assert min(part.n.sum() for part in one.held_out) > 150
    for other in others:
        for mine, theirs in zip(one.held_out, other.held_out, strict=True):
            np.testing.assert_array_equal(mine.n, theirs.n)
            np.testing.assert_allclose(mine.G, theirs.G, rtol=1e-8, atol=1e-6)


def test_whole_groups_go_to_one_fold(engine):
    frame = far()
    days = pd.get_dummies(frame["day"], dtype=float).assign(day=frame["day"], shop=frame["shop"], sales=frame["sales"])
    folds = folds_of_frame(engine(days), task="shop", target="sales", groups="day", cv=4)
    rows_of_day = np.array([part.n @ part.x_mean for part in folds.held_out])
    assert ((rows_of_day > 0.5).sum(axis=0) == 1).all()
    assert (rows_of_day > 0.5).sum(axis=1).min() >= 3
    with pytest.warns(UserWarning, match="column 'day' has 23 groups: 23 folds in place of cv=40"):
        assert len(folds_of_frame(engine(frame), task="shop", target="sales", groups="day", cv=40)) == 23


def test_a_model_that_cross_validates_is_tuned_by_the_engine():
    frame = far().drop(columns="day")
    grid = {"strengths": (1.0,), "ridges": (1.0,), "anchors": (0.0,), "metrics": ("identity",)}
    model = GAMTLCV(task="shop", cv=3, random_state=0, features=StandardScaler(), **grid)
    coef = [model.fit(ENGINES[name](frame), "sales").coef_ for name in ("polars", "duckdb")]
    np.testing.assert_allclose(coef[0], coef[1], rtol=1e-8, atol=1e-8)
    assert model.fit(ENGINES["polars"](frame), "sales").score(frame[X], frame["sales"]) > 0.99


@pytest.mark.parametrize("features", [None, StandardScaler(), StandardScaler(with_mean=False)], ids=repr)
def test_predictions_are_a_column_of_a_frame_that_is_still_lazy(engine, features):
    frame = far().drop(columns="day")
    model = Independent(task="shop", features=features, penalty=1.0).fit(engine(frame), "sales")
    lazy = model.predict(engine(frame.assign(day=range(len(frame)))))
    assert is_lazy(lazy)
    found = collected(lazy).sort_values("day")
    np.testing.assert_allclose(found["prediction"], model.predict(frame[X]), rtol=1e-9)


def test_unseen_tasks_are_predicted_by_the_population_or_not_at_all():
    frame = far().drop(columns="day")
    new = ENGINES["duckdb"](frame.head(2).assign(shop="new"))
    model = Independent(task="shop", penalty=1.0).fit(ENGINES["duckdb"](frame), "sales")
    assert collected(model.set_params(unseen="error").predict(new))["prediction"].isna().all()
    model.set_params(unseen="mean")
    expected = model.predict(frame.head(2).assign(shop="new")[X])
    np.testing.assert_allclose(collected(model.predict(new))["prediction"], expected, rtol=1e-9)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"x1": None}, "column 'x1' has missing or infinite values"),
        ({"x1": np.inf}, "column 'x1' has missing or infinite values"),
        ({"city": "Bonn"}, r"columns that are not numbers: 'city' \(String\).*select the others, or collect the rows"),
        ({"shop": None}, "column 'shop' has rows without a label"),
    ],
)
def test_what_cannot_be_summed_is_named(change, text):
    frame = far().drop(columns="day")
    for name, value in change.items():
        frame[name] = [value, *(frame[name][1:] if name in frame else [value] * (len(frame) - 1))]
    for make in (ENGINES["polars"], ENGINES["duckdb"]):
        with pytest.raises(ValueError, match=text):
            gram_of_frame(make(frame), task="shop", target="sales")


def test_a_wrong_request_is_told_what_to_do():
    frame = ENGINES["polars"](far().drop(columns="day"))
    with pytest.raises(ValueError, match=r"fit\(frame, 'name of the target'"):
        GAMTL(task="shop").fit(frame, np.ones(600))
    with pytest.raises(ValueError, match="Did you mean 'sales'"):
        GAMTL(task="shop").fit(frame, "sale")
    with pytest.raises(ValueError, match="the engine behind a lazy frame cannot run it"):
        GAMTL(task="shop", features=FunctionTransformer(np.arctan)).fit(frame, "sales")
    with pytest.raises(ValueError, match="has no rows"):
        GAMTL(task="shop").fit(frame.head(0), "sales")
    model = Independent(task="shop", penalty=1.0).fit(frame, "sales")
    with pytest.raises(ValueError, match="without standard deviations"):
        model.predict(frame, return_std=True)


@pytest.mark.parametrize("wide", [False, True])
def test_a_model_without_names_does_not_predict_a_lazy_frame(wide):
    rng = np.random.default_rng(0)
    X = np.column_stack([np.repeat(np.arange(4), 10), rng.normal(size=(40, 2))])
    y = rng.normal(size=(40, 3))
    model = GAMTL().fit(X[:, 1:], y) if wide else GAMTL(task=0).fit(X, y[:, 0])
    with pytest.raises(ValueError, match="GAMTL was fitted without names or without a task column"):
        model.predict(pl.LazyFrame(X, schema=["shop", "x0", "x1"]))


KINDS_OF_PARTS = {
    "integers": lambda frame: frame,
    "whole floats": lambda frame: frame.assign(city=frame.city.astype(float)),
    "truth": lambda frame: frame.assign(city=frame.city > 0),
    "categories": lambda frame: frame.assign(shop=frame.shop.astype("category")),
}


def in_two_cities():
    frame = sales(n=300, tasks=3, label=lambda s: f"no. {s}").drop(columns=["day"], errors="ignore")
    return frame.assign(city=np.arange(300) // 3 % 2)[["city", *X, "sales"]]


@pytest.mark.parametrize("kind", KINDS_OF_PARTS)
def test_several_task_columns_are_joined_by_the_engine_as_they_are_in_memory(engine, kind):
    frame = KINDS_OF_PARTS[kind](in_two_cities())
    here = Independent(task=["city", "shop"], penalty=1.0).fit(frame[["city", *X]], frame["sales"])
    there = Independent(task=["city", "shop"], penalty=1.0).fit(engine(frame), "sales")
    assert there.tasks_.tolist() == here.tasks_.tolist()
    np.testing.assert_allclose(there.coef_, here.coef_, rtol=1e-9, atol=1e-9)
    found = collected(there.predict(engine(frame)))
    assert list(found.columns) == [*frame.columns, "prediction"]
    order = ["x0", "x1", "x2"]
    expected = frame.assign(prediction=here.predict(frame)).sort_values(order)["prediction"]
    np.testing.assert_allclose(found.sort_values(order)["prediction"], expected, rtol=1e-9)


def test_a_cluster_predicts_by_several_task_columns():
    frame = in_two_cities()
    model = Independent(task=["city", "shop"], penalty=1.0).fit(frame[["city", *X]], frame["sales"])
    found = predict_dask(model, ENGINES["dask"](frame)).compute()
    np.testing.assert_allclose(found, model.predict(frame), rtol=1e-12)


def test_joint_labels_that_would_be_called_alike_are_refused_by_every_engine(engine):
    frame = pd.DataFrame({"a": ["p / q", "p"] * 10, "b": ["r", "q / r"] * 10, "x": np.arange(20.0), "y": 1.0})
    with pytest.raises(ValueError, match="hold ' / ' themselves.*write another mark"):
        Independent(task=["a", "b"]).fit(engine(frame), "y")


@pytest.mark.parametrize("features", [None, StandardScaler()], ids=["as they are", "scaled"])
def test_a_gap_in_a_lazy_frame_is_filled_by_the_mean_of_fit(engine, features):
    frame = far().drop(columns="day")
    model = Independent(task="shop", features=features, penalty=1.0).fit(engine(frame), "sales")
    gap = frame.assign(x1=frame.x1.where(frame.index != 7))
    filled = model.predict(gap.fillna({"x1": frame.x1.mean()})[X])
    found = collected(model.predict(engine(gap))).sort_values(["x0"])["prediction"]
    np.testing.assert_allclose(found, filled[np.argsort(frame.x0.to_numpy())], rtol=1e-9)
