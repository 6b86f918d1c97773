import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.preprocessing import StandardScaler

from kinfolk import GAMTL, GAMTLCV, load
from kinfolk.baselines import Independent
from kinfolk.rows.table import read_rows, task_codes
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
    "infinite value": (broken(x0=TABLE.x0.where(TABLE.index != 2, np.inf)), "infinity.*column 'x0', row 2"),
    "text among numbers": (
        broken(x1=[*map(str, range(len(Y) - 1)), "tall"], x2=["oops", *map(str, range(len(Y) - 1))]),
        "column 'x1' holds numbers, but here 'tall'. column 'x2' holds numbers, .*categorical=..x1., .x2..,",
    ),
    "no task column": (TABLE.rename(columns={"who": "whom"}), "X has no column 'who'. Its columns are 'x0', 'whom'"),
    "only the task column": (TABLE[["who"]], "only the task column"),
    "no rows": (TABLE.iloc[:0], "0 sample"),
    "no label": (broken(who=None), "missing label in row 0"),
    "mixed labels": (broken(who=TABLE.who.where(TABLE.index != 3, 7)), "mixes labels of type int and str"),
    "fractions for labels": (broken(who=np.arange(len(Y)) / 2), "holds fractions like 0.5: is it a feature"),
    "two columns of one name": (TABLE.rename(columns={"x0": "x1"}), "two columns named 'x1'"),
    "mixed column names": (TABLE.rename(columns={"x0": 0}), "string names"),
}


@pytest.mark.parametrize("name", BAD_TABLES)
def test_bad_tables_are_refused_with_the_place_and_the_remedy(name):
    table, message = BAD_TABLES[name]
    with pytest.raises((ValueError, TypeError), match=message):
        fitted(table, Y[: len(table)])


NUMBERS = pd.factorize(TABLE.who)[0]
LABELS = {
    "text": TABLE.who,
    "numbers": 1.0 * NUMBERS,
    "dates": pd.Timestamp("2024-01-01") + pd.to_timedelta(NUMBERS, "D"),
}


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
def test_rows_without_a_task_are_left_out_and_counted(labels):
    table = TABLE.assign(who=pd.Series(labels).where(~TABLE.index.isin([3, 7])))
    with pytest.warns(UserWarning, match=f"left out 2 of {len(Y)} rows without a task, the first is row 3"):
        model = Independent(task="who").fit(table, Y)
    whole = Independent(task="who").fit(table.dropna(), Y[table.who.notna()])
    np.testing.assert_allclose(model.coef_, whole.coef_, atol=1e-10)
    with pytest.raises(ValueError, match="missing label in row 3"):
        model.predict(table)


def test_rows_without_a_task_keep_their_place_beside_groups_weights_and_folds():
    table = TABLE.assign(who=TABLE.who.where(TABLE.index != 3))
    n = np.arange(len(Y))
    folds = [(n[n % 3 != f], n[n % 3 == f]) for f in range(3)]
    for options, fit in (({}, {"groups": n % 7}), ({}, {"time": n}), ({"cv": folds}, {"sample_weight": n + 1.0})):
        with pytest.warns(UserWarning, match="rows without a task"):
            model = GAMTLCV(task="who", strengths=(1.0,), ridges=(1.0,), nonlinear=False, **options).fit(
                table, Y, **fit
            )
        assert np.isfinite(model.coef_).all()


def test_a_row_without_one_of_several_task_columns_has_no_task():
    with pytest.warns(UserWarning, match="rows without a task, the first is row 3"):
        model = Independent(task=["who", "part"]).fit(TABLE.assign(part=[*"aaa", None, *"a" * (len(Y) - 4)]), Y)
    assert len(model.tasks_) == TABLE.who.nunique()


BAD_TARGETS = {
    "length": (Y[:-1], "inconsistent numbers of samples"),
    "infinite": (np.where(np.arange(len(Y)) == 4, np.inf, Y), "infinity .*task 'task_0.', row 4"),
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
    "missing column": (TABLE.drop(columns="x3"), "now missing:\n- x3"),
    "fewer columns": (TABLE.drop(columns="x3").to_numpy(), "has 4 features, but GAMTL is expecting 5"),
    "unseen task": (broken(who="lot_31"), r"got task 'lot_31', not seen in fit \(4 tasks: 'task_00'.*unseen=\"mean\""),
    "labels of another type": (broken(who=7), "labels were like .*task_00.* in fit but are like"),
}


@pytest.mark.parametrize("name", BAD_PREDICTIONS)
def test_predict_holds_the_table_against_that_of_fit(name):
    table, message = BAD_PREDICTIONS[name]
    with pytest.raises(ValueError, match=f"(?s){message}"):
        fitted(unseen="error").predict(table)


def test_columns_are_found_by_their_names_and_others_are_ignored():
    model = fitted()
    turned = TABLE[["who", "x3", "x2", "x1", "x0"]].assign(x9="new")
    np.testing.assert_array_equal(model.predict(turned), model.predict(TABLE))
    assert model.score(turned, Y) == model.score(TABLE, Y)


def with_row_numbers():
    rng = np.random.default_rng(5)
    inputs = pd.DataFrame({"row_id": np.arange(40) + 500, "a": rng.normal(size=40), "who": np.resize(["p", "q"], 40)})
    return inputs.assign(b=rng.normal(size=40))


def test_the_table_of_fit_is_predicted_where_fit_left_a_column_out_and_targets_are_wide():
    inputs = with_row_numbers().drop(columns="who")
    targets = pd.DataFrame({"s": inputs.a, "t": inputs.a - inputs.b})
    with pytest.warns(UserWarning, match="it numbers or names the rows.*'row_id'"):
        model = GAMTL().fit(inputs, targets)
    plain = GAMTL().fit(inputs[["a", "b"]], targets)
    turned = inputs[["b", "row_id", "a"]].assign(more="new")
    for table in (inputs, turned, inputs[["a", "b"]]):
        np.testing.assert_allclose(model.predict(table), plain.predict(inputs[["a", "b"]]), rtol=1e-9, atol=1e-9)
    assert model.score(inputs, targets) == pytest.approx(plain.score(inputs[["a", "b"]], targets))
    with pytest.raises(ValueError, match="now missing:\n- a"):
        model.predict(inputs.drop(columns="a"))


def test_wide_inputs_of_plain_numbers_are_held_against_those_of_fit():
    inputs = with_row_numbers()[["a", "b"]]
    model = GAMTL().fit(inputs, np.column_stack([inputs.a, inputs.b]))
    with pytest.raises(ValueError, match="unseen at fit time:\n- more"):
        model.predict(inputs.assign(more=1.0))


@pytest.mark.parametrize("task", [2, -2])
def test_a_task_given_by_position_keeps_its_column_where_fit_leaves_another_out(task):
    inputs = with_row_numbers()
    y = np.where(inputs.who == "p", 3.0, -1.0) * inputs.a + inputs.b
    with pytest.warns(UserWarning, match="it numbers or names the rows.*'row_id'"):
        model = GAMTL(task=task).fit(inputs, y)
    expected = GAMTL(task="who").fit(inputs.drop(columns="row_id"), y).predict(inputs)
    np.testing.assert_allclose(model.predict(inputs), expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(
        model.predict(inputs[["b", "who", "a"]].assign(more=1.0)), expected, rtol=1e-9, atol=1e-9
    )


def test_an_array_with_more_columns_than_that_of_fit_is_refused():
    inputs = with_row_numbers()[["who", "a", "b"]].to_numpy()
    model = GAMTL(task=0).fit(inputs, inputs[:, 1].astype(float))
    with pytest.raises(ValueError, match="X has 4 features, but GAMTL is expecting 3"):
        model.predict(np.column_stack([inputs, inputs[:, 2]]))


def test_the_target_may_be_a_column_of_the_table():
    together = TABLE.assign(target=Y)
    for convert in (lambda t: t, pl.from_pandas, pa.Table.from_pandas):
        model = GAMTL(task="who").fit(convert(together), "target")
        np.testing.assert_allclose(model.coef_, fitted().coef_, atol=1e-10)
        np.testing.assert_allclose(model.predict(convert(together)), fitted().predict(TABLE), atol=1e-10)


def test_rows_without_a_target_are_left_out_and_told():
    gaps = np.where(np.arange(len(Y)) == 4, np.nan, Y)
    with pytest.warns(UserWarning, match=f"left out 1 of {len(Y)} rows without a target"):
        model = fitted(y=gaps)
    np.testing.assert_allclose(model.coef_, fitted(TABLE.drop(index=4), np.delete(Y, 4)).coef_, atol=1e-10)


ROW = np.arange(len(Y))
RULED = {
    "missing value": (
        {"x2": TABLE.x2.where(TABLE.index != 5)},
        ["x0", "x1", "x2", "x2_missing", "x3"],
        "missing values are filled in, and a column says where they were: 'x2'",
    ),
    "text": (
        {"x1": np.resize(["tall", "small", "wide"], len(Y))},
        ["x0", "x1_small", "x1_tall", "x1_wide", "x2", "x3"],
        r"column 'x1' is text and is one-hot encoded \(3 categories\)",
    ),
    "categories of two": (
        {"x1": pd.Categorical(np.resize(["tall", "small"], len(Y)))},
        ["x0", "x1_tall", "x2", "x3"],
        r"one-hot encoded \(2 categories\)",
    ),
    "dates": (
        {"x1": pd.Timestamp("2024-01-01") + pd.to_timedelta(ROW, "h")},
        ["x0", "x1_days", "x2", "x3"],
        "dates become days since the first",
    ),
    "dates of years": (
        {"x1": pd.Timestamp("2020-01-01") + pd.to_timedelta(97 * ROW, "D")},
        [
            *("x0", "x1_days", "x1_sin_of_year", "x1_cos_of_year", "x1_sin_of_week", "x1_cos_of_week", "x2", "x3"),
        ],
        "dates become days since the first",
    ),
    "dates as text": (
        {"x1": [f"{1 + k // 28}/{1 + k % 28}/2024" for k in ROW]},
        ["x0", "x1_days", "x1_sin_of_week", "x1_cos_of_week", "x2", "x3"],
        "dates become days since the first",
    ),
    "one value": ({"x1": "tall"}, ["x0", "x2", "x3"], "left out, since the same in all rows: 'x1'"),
}


@pytest.mark.filterwarnings("ignore:feature .* is constant")
@pytest.mark.parametrize(
    "convert", [lambda t: t, pl.from_pandas, pa.Table.from_pandas], ids=["pandas", "polars", "pyarrow"]
)
@pytest.mark.parametrize("name", RULED)
def test_columns_that_are_no_plain_numbers_follow_the_rules_and_are_told(name, convert):
    columns, features, note = RULED[name]
    table = convert(TABLE.assign(**columns))
    with pytest.warns(UserWarning, match=note):
        model = fitted(table, intercept="coupled")
    assert list(model.gram_.feature_names) == features
    assert np.isfinite(model.predict(table)).all()
    assert model.score(table, Y) > 0.5


def test_a_column_that_counts_the_rows_is_left_out_and_told():
    big, y = frame(3, T=4, n=(10, 20))
    with pytest.warns(UserWarning, match="numbers or names the rows and tells nothing about others: 'number'"):
        model = GAMTL(task="who").fit(big.assign(number=np.arange(len(y))), y)
    np.testing.assert_allclose(model.coef_, GAMTL(task="who").fit(big, y).coef_, atol=1e-10)
    assert "number" not in model.feature_names_in_


@pytest.mark.parametrize("scoring", [None, "neg_root_mean_squared_error"])
def test_a_task_left_out_of_a_fold_is_scored_by_the_population(scoring):
    by_task = TABLE.sort_values("who", kind="stable")
    y = Y[by_task.index]
    with pytest.warns(UserWarning, match="not seen in fit .* (is|are) predicted by the population"):
        scores = cross_val_score(GAMTL(task="who"), by_task, y, cv=KFold(4), scoring=scoring)
    assert np.isfinite(scores).all()
    with pytest.warns(UserWarning, match="not seen in fit"):
        search = GridSearchCV(GAMTL(task="who"), {"strength": [0.01, 1.0]}, cv=4, scoring=scoring).fit(by_task, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_a_task_of_one_row_takes_part_later():
    lonely = TABLE.who.where(TABLE.index != 0, "lonely")
    model = fitted(TABLE.assign(who=lonely))
    assert model.tasks_[0] == "lonely"
    np.testing.assert_allclose(model.coef_[0], model.population_coef_)
    np.testing.assert_allclose(model.predict(TABLE.assign(who=lonely))[0], Y[0])
    assert model.graph_.degree[0] == 0
    assert np.isfinite(model.predict(TABLE.assign(who=lonely), return_std=True)[1]).all()
    adopted = fitted(TABLE[1:], Y[1:]).adopt(TABLE[:1].assign(who="lonely"), Y[:1])
    np.testing.assert_allclose(adopted.coef_, model.coef_)
    model.partial_fit(TABLE[1:8].assign(who="lonely"), Y[1:8])
    assert model.graph_.degree[0] > 0


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


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_labels_that_arrays_would_merge_are_refused(kind):
    table = kind({"task": ["a", "a\0", "b"] * 4, "x": np.arange(12.0)})
    with pytest.raises(ValueError, match=r"task column 'task' has the label 'a\\x00'.*strip it"):
        read_rows(table, np.ones(12), task="task")
    with pytest.raises(ValueError, match=r"has the label 'a\\x00'"):
        GAMTL(task="task").fit(pl.DataFrame(table).with_columns(y=1.0).lazy(), "y")
    with pytest.raises(ValueError, match=r"y has the label 'b\\x00'"):
        read_rows(np.ones((4, 1)), pd.DataFrame(np.ones((4, 2)), columns=["b", "b\0"]), task=None)


@pytest.mark.parametrize(
    "convert", [lambda t: t, pl.from_pandas, pa.Table.from_pandas], ids=["pandas", "polars", "pyarrow"]
)
def test_several_task_columns_make_a_task_per_combination(convert, tmp_path):
    half = np.where(np.arange(len(Y)) % 2, 1, 2)
    several = TABLE.assign(half=half)
    one = TABLE.assign(who=[f"{who} / {number}" for who, number in zip(TABLE.who, half, strict=True)])
    model = GAMTL(task=["who", "half"]).fit(convert(several), Y)
    expected = GAMTL(task="who").fit(one, Y)
    assert list(model.tasks_) == list(expected.tasks_)
    np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-9)
    np.testing.assert_allclose(model.predict(convert(several[several.columns[::-1]])), expected.predict(one))
    model.save(tmp_path / "model.kin")
    np.testing.assert_allclose(load(tmp_path / "model.kin").predict(convert(several)), model.predict(convert(several)))
    np.testing.assert_allclose(clone(model).fit(convert(several.iloc[::-1]), Y[::-1]).coef_, model.coef_, atol=1e-6)


def test_several_task_columns_are_checked():
    with pytest.raises(ValueError, match="task=.0, 1.: several task columns are given by their names"):
        GAMTL(task=[0, 1]).fit(TABLE, Y)
    with pytest.raises(ValueError, match="X has no column 'who / whom'"):
        GAMTL(task=["who", "whom"]).fit(TABLE, Y)
    alike = TABLE.assign(who=np.resize(["a / b", "a"], len(Y)), part=np.resize(["c", "b / c"], len(Y)))
    with pytest.raises(ValueError, match="hold ' / ' themselves"):
        GAMTL(task=["who", "part"]).fit(alike, Y)


def test_categories_and_gaps_that_fit_has_not_seen_are_counted():
    town = np.resize(["Bonn", "Rome", "Oslo"], len(Y))
    with pytest.warns(UserWarning, match="one-hot"):
        model = fitted(TABLE.assign(town=town))
    new = TABLE.assign(town=np.where(TABLE.index < 3, "Kyiv", town), x2=TABLE.x2.where(TABLE.index != 5))
    with pytest.warns(UserWarning) as told:
        prediction = model.predict(new)
    assert np.isfinite(prediction).all()
    assert sorted(str(warning.message) for warning in told) == [
        "column 'town': 3 rows with categories that fit has not seen ('Kyiv'), which count as none of the known ones",
        "column 'x2': 1 missing value, filled in as the mean of fit",
    ]


GAPPED = TABLE.assign(x2=TABLE.x2.where(TABLE.index != 5))


@pytest.mark.parametrize(
    "convert", [lambda t: t, pl.from_pandas, pa.Table.from_pandas], ids=["pandas", "polars", "arrow"]
)
@pytest.mark.parametrize("features", [None, StandardScaler()], ids=["as they are", "scaled"])
def test_a_gap_in_new_rows_is_filled_by_the_mean_of_fit_and_told(features, convert, tmp_path):
    model = GAMTL(task="who", features=features).fit(convert(TABLE), Y)
    filled = model.predict(convert(GAPPED.fillna({"x2": TABLE.x2.mean()})))
    model.save(tmp_path / "m.kin")
    for one in (model, load(tmp_path / "m.kin")):
        with pytest.warns(UserWarning, match="^column 'x2': 1 missing value, filled in as the mean of fit$"):
            found = one.predict(convert(GAPPED))
        np.testing.assert_allclose(found, filled, rtol=1e-12)


def test_a_model_with_curves_fills_gaps_before_it_bends_them():
    rng = np.random.default_rng(2)
    table = pd.DataFrame({"who": np.resize(["a", "b"], 200), "x": rng.normal(size=200)})
    model = GAMTLCV(task="who", cv=3, trunk=None, strengths=(1.0,), ridges=(1.0,)).fit(table, np.square(table.x))
    assert model.nonlinear_helps_
    with pytest.warns(UserWarning, match="filled in as the mean of fit"):
        found = model.predict(pd.DataFrame({"who": ["a"], "x": [np.nan]}))
    np.testing.assert_allclose(found, model.predict(pd.DataFrame({"who": ["a"], "x": [table.x.mean()]})), rtol=1e-9)


def test_arrays_with_gaps_are_refused_and_so_is_infinity():
    model = GAMTL(task="who").fit(TABLE, Y)
    with pytest.raises(ValueError, match="contains infinity.*column 'x2', row 5"):
        model.predict(TABLE.assign(x2=TABLE.x2.where(TABLE.index != 5, np.inf)))
    with pytest.raises(ValueError, match="contains NaN"):
        GAMTL().fit(TABLE[["x0", "x1"]].to_numpy(), np.column_stack([Y, Y])).predict([[np.nan, 1.0]])


def test_strange_tasks_are_told_in_the_right_number():
    known = np.array(["a", "b"])
    with pytest.warns(UserWarning, match="^task 'c', not seen in fit .* is predicted"):
        task_codes(np.array(["a", "c"]), known, "warn")
    with pytest.warns(UserWarning, match="^tasks 'c' and 1 more, not seen in fit .* are predicted"):
        task_codes(np.array(["d", "c"]), known, "warn")
