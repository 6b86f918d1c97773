import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from kinfolk import GAMTL
from problems import frame, rows

TABLE, Y = frame(3, T=4)


def fitted(X=TABLE, y=Y, **kwargs):
    return GAMTL(task="who", **kwargs).fit(X, y)


@pytest.mark.parametrize(
    "convert",
    [
        pl.from_pandas,
        pa.Table.from_pandas,
        lambda t: t.assign(who=t.who.astype("category")),
        lambda t: pl.from_pandas(t).with_columns(pl.col("who").cast(pl.Categorical)),
        lambda t: pa.Table.from_pandas(t.assign(who=t.who.astype("category"))),
        lambda t: t.convert_dtypes(),
    ],
    ids=["polars", "pyarrow", "pandas category", "polars category", "pyarrow dictionary", "pandas nullable"],
)
def test_every_kind_of_table_gives_the_same_fit(convert):
    plain, other = fitted(), fitted(convert(TABLE))
    np.testing.assert_array_equal(plain.tasks_, other.tasks_)
    np.testing.assert_allclose(other.coef_, plain.coef_, atol=1e-10)
    np.testing.assert_allclose(other.predict(convert(TABLE)), plain.predict(TABLE), atol=1e-10)


def test_numpy_tables_take_the_task_by_position():
    X, y, task = rows(3, T=4)
    with_task = np.column_stack([X[:, 0], task, X[:, 1:]])
    model = GAMTL(task=1).fit(with_task, y)
    np.testing.assert_allclose(model.coef_, fitted().coef_, atol=1e-10)
    assert model.tasks_.dtype.kind == "i"
    np.testing.assert_allclose(model.predict(with_task.astype(object)), model.predict(with_task))


def test_string_labels_in_a_numpy_table_of_objects():
    as_objects = TABLE.to_numpy(dtype=object)
    np.testing.assert_allclose(GAMTL(task=1).fit(as_objects, Y).coef_, fitted().coef_, atol=1e-10)


def test_wide_targets_take_their_names_from_the_columns():
    rng = np.random.default_rng(0)
    X, values = rng.normal(size=(25, 3)), rng.normal(size=(25, 4))
    model = GAMTL().fit(X, pd.DataFrame(values, columns=["d", "b", "a", "c"]))
    assert model.tasks_.tolist() == ["a", "b", "c", "d"]
    numbered = GAMTL().fit(X, values[:, [2, 1, 3, 0]])
    np.testing.assert_allclose(model.coef_, numbered.coef_, atol=1e-10)


def test_wide_predictions_come_back_in_the_order_of_the_columns():
    rng = np.random.default_rng(0)
    X, values = rng.normal(size=(40, 3)), rng.normal(size=(40, 3)) + np.array([0.0, 100.0, 200.0])
    model = GAMTL().fit(X, pd.DataFrame(values, columns=["z", "m", "a"]))
    np.testing.assert_allclose(model.predict(X).mean(axis=0), values.mean(axis=0))


def test_row_order_and_relabelling_change_nothing():
    order = np.random.default_rng(1).permutation(len(Y))
    names = {f"task_{t:02d}": f"z{9 - t}" for t in range(4)}
    shuffled = fitted(TABLE.iloc[order], Y[order])
    renamed = fitted(TABLE.assign(who=TABLE.who.map(names)), Y)
    np.testing.assert_allclose(shuffled.coef_, fitted().coef_, atol=1e-9)
    np.testing.assert_allclose(renamed.coef_[::-1], fitted().coef_, atol=1e-7)
    np.testing.assert_allclose(renamed.adjacency_.toarray()[::-1, ::-1], fitted().adjacency_.toarray(), atol=1e-6)


def broken(**columns):
    return TABLE.assign(**columns)


BAD_TABLES = {
    "missing value": (broken(x2=TABLE.x2.where(TABLE.index != 5)), "contains NaN .column 'x2', row 5"),
    "infinite value": (broken(x0=TABLE.x0.where(TABLE.index != 2, np.inf)), "infinity.*column 'x0', row 2"),
    "text": (broken(x1="tall"), "column 'x1' of X is not numeric.*'tall'.*OneHotEncoder"),
    "dates": (broken(x1=pd.Timestamp("2024-01-01")), "column 'x1' of X holds dates"),
    "no task column": (TABLE.rename(columns={"who": "whom"}), "X has no column 'who'. Its columns are 'x0', 'whom'"),
    "only the task column": (TABLE[["who"]], "only the task column"),
    "no rows": (TABLE.iloc[:0], "0 sample"),
    "missing label": (broken(who=TABLE.who.where(TABLE.index != 3)), "missing label in row 3"),
    "mixed labels": (broken(who=TABLE.who.where(TABLE.index != 3, 7)), "mixes labels of type int and str"),
    "fractions for labels": (broken(who=np.arange(len(Y)) / 2), "holds fractions like 0.5: is it a feature"),
    "two columns of one name": (TABLE.rename(columns={"x0": "x1"}), "two columns named 'x1'"),
    "mixed column names": (TABLE.rename(columns={"x0": 0}), "string names"),
    "one-row task": (broken(who=TABLE.who.where(TABLE.index != 0, "lonely")), "task 'lonely' has 1 row, but a free"),
}


@pytest.mark.parametrize("name", BAD_TABLES)
def test_bad_tables_are_refused_with_the_place_and_the_remedy(name):
    table, message = BAD_TABLES[name]
    with pytest.raises((ValueError, TypeError), match=message):
        fitted(table, Y[: len(table)])


BAD_TARGETS = {
    "length": (Y[:-1], "inconsistent numbers of samples"),
    "infinite": (np.where(np.arange(len(Y)) == 4, np.inf, Y), "infinity .*task 'task_0.', row 4"),
    "some missing": (np.where(np.arange(len(Y)) == 4, np.nan, Y), "contains NaN .task 'task_0.', row 4.*Drop the rows"),
    "all missing": (np.full(len(Y), np.nan), "contains NaN"),
    "two columns": (np.column_stack([Y, Y]), "2 columns although task='who'"),
    "none": (None, "y is None"),
}


@pytest.mark.parametrize("name", BAD_TARGETS)
def test_bad_targets_are_refused(name):
    y, message = BAD_TARGETS[name]
    with pytest.raises(ValueError, match=message):
        fitted(TABLE, y)


@pytest.mark.parametrize(
    ("weight", "message"),
    [(np.ones(3), "expected"), (-np.ones(len(Y)), "negative"), (np.zeros(len(Y)), "zero everywhere")],
)
def test_bad_weights_are_refused(weight, message):
    with pytest.raises(ValueError, match=message):
        GAMTL(task="who").fit(TABLE, Y, sample_weight=weight)


BAD_PREDICTIONS = {
    "other order": (TABLE[["who", "x0", "x1", "x2", "x3"]], "same order as they were in fit.*feature_names_in_"),
    "missing column": (TABLE.drop(columns="x3"), "now missing:\n- x3"),
    "new column": (TABLE.assign(x9=1.0), "unseen at fit time:\n- x9"),
    "fewer columns": (TABLE.drop(columns="x3").to_numpy(), "has 4 features, but GAMTL is expecting 5"),
    "unseen task": (broken(who="lot_31"), r"got task 'lot_31', not seen in fit \(4 tasks: 'task_00'.*unseen=\"mean\""),
    "labels of another type": (broken(who=7), "labels were like .*task_00.* in fit but are like"),
}


@pytest.mark.parametrize("name", BAD_PREDICTIONS)
def test_predict_holds_the_table_against_that_of_fit(name):
    table, message = BAD_PREDICTIONS[name]
    with pytest.raises(ValueError, match=f"(?s){message}"):
        fitted().predict(table)


def test_unseen_tasks_may_get_the_mean_of_all_tasks_predictions():
    model = fitted(unseen="mean")
    strangers = TABLE.assign(who="stranger")
    every = [model.predict(TABLE.assign(who=t)) for t in model.tasks_]
    np.testing.assert_allclose(model.predict(strangers), np.mean(every, axis=0))


def test_a_task_without_any_target_is_legal_and_gets_the_population_model():
    silent = np.where(TABLE.who == "task_02", np.nan, Y)
    model = fitted(y=silent)
    rest = fitted(TABLE[TABLE.who != "task_02"], Y[TABLE.who != "task_02"], unseen="mean")
    assert model.tasks_.tolist() == [f"task_0{t}" for t in range(4)]
    assert model.graph_.degree[2] == 0
    np.testing.assert_allclose(model.predict(TABLE), rest.predict(TABLE), atol=1e-10)


def test_a_wide_column_without_any_target_gets_the_population_model():
    rng = np.random.default_rng(0)
    X, values = rng.normal(size=(25, 3)), rng.normal(size=(25, 4))
    values[:, 1] = np.nan
    model = GAMTL().fit(X, values)
    np.testing.assert_allclose(model.coef_[1], model.coef_[[0, 2, 3]].mean(axis=0))


def test_features_constant_within_every_task_are_pointed_out():
    ages = TABLE.who.map({f"task_{t:02d}": 50.0 + t for t in range(4)})
    with pytest.warns(UserWarning, match="feature 'age' is constant within every task"):
        model = fitted(TABLE.assign(age=ages))
    np.testing.assert_allclose(model.coef_[:, -1], 0, atol=1e-12)


def test_inputs_are_never_modified():
    table, y = TABLE.copy(), Y.copy()
    fitted(table, y).predict(table)
    pd.testing.assert_frame_equal(table, TABLE)
    np.testing.assert_array_equal(y, Y)


def test_sparse_tables_are_refused():
    from scipy import sparse

    with pytest.raises(TypeError, match="dense data is required"):
        GAMTL().fit(sparse.eye_array(5), np.ones(5))
