"""Columns that are categories: because their type says so, or because the user does."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kinfolk import GAMTLCV, load
from kinfolk.baselines import Pooled
from kinfolk.cli import main
from kinfolk.large import fit_file

RNG = np.random.default_rng(0)
N = 300
CODES = RNG.integers(1, 7, N)
TABLE = pd.DataFrame({"who": np.arange(N) % 5, "x": RNG.normal(size=N), "kind": CODES})
Y = TABLE.x + np.array([0, 5, -3, 4, -6, 2, 8.0])[CODES] + TABLE.who + 0.3 * RNG.normal(size=N)
NOTE = "column 'kind' holds categories and is one-hot encoded .6 categories"
LEVELS = [str(code) for code in range(1, 7)]

TYPES = {
    "pandas": TABLE.assign(kind=pd.Categorical(CODES)),
    "pandas, text": TABLE.assign(kind=pd.Categorical(CODES.astype(str))),
    "pandas, numbers and text": TABLE.assign(
        kind=pd.Categorical(np.where(CODES < 6, CODES.astype(str), "none of them"))
    ),
    "polars": pl.DataFrame(TABLE).with_columns(pl.col("kind").cast(pl.String).cast(pl.Categorical)),
    "polars, Enum": pl.DataFrame(TABLE).with_columns(pl.col("kind").cast(pl.String).cast(pl.Enum(LEVELS))),
    "arrow": pa.table({**TABLE, "kind": pa.array(CODES.astype(str)).dictionary_encode()}),
}


def error(model, X):
    return np.sqrt(np.mean((model.predict(X) - Y) ** 2))


@pytest.mark.parametrize("name", TYPES)
def test_a_type_that_says_category_is_one_whatever_its_labels(name):
    with pytest.warns(UserWarning, match=NOTE):
        model = Pooled(task="who").fit(TYPES[name], Y)
    assert error(model, TYPES[name]) < 0.35


def test_a_file_with_a_category_type_has_categories(tmp_path, capsys):
    TYPES["polars"].with_columns(y=pl.Series(Y)).write_parquet(tmp_path / "t.parquet")
    main(["fit", str(tmp_path / "t.parquet"), "--task", "who", "--target", "y", "--method", "pooled"])
    said = capsys.readouterr()
    assert "column 'kind' holds categories" in said.out + said.err


def fitted(**options):
    with pytest.warns(UserWarning, match=NOTE):
        return Pooled(task="who", categorical=["kind"], **options).fit(TABLE, Y)


def test_columns_named_categorical_are_categories_and_stay_so_in_copies_and_files(tmp_path):
    model = fitted()
    assert error(model, TABLE) < 0.35
    model.save(tmp_path / "m.kin")
    stored = load(tmp_path / "m.kin")
    np.testing.assert_array_equal(stored.predict(TABLE), model.predict(TABLE))
    assert clone(stored).get_params()["categorical"] == ["kind"]


def test_categories_are_named_inside_a_pipeline_too():
    pipeline = make_pipeline("passthrough", Pooled(task="who")).set_params(pooled__categorical=["kind"])
    with pytest.warns(UserWarning, match=NOTE):
        pipeline.fit(TABLE, Y)
    assert error(pipeline, TABLE) < 0.35


def test_the_tuned_estimator_takes_categories():
    quick = {"strengths": (1.0,), "ridges": (0.1,), "anchors": (0.0,), "nonlinear": False}
    with pytest.warns(UserWarning, match=NOTE):
        model = GAMTLCV(task="who", categorical=["kind"], **quick).fit(TABLE, Y)
    assert model.cv_errors_.max() < 0.4


def test_a_file_read_in_blocks_takes_categories(tmp_path):
    TABLE.assign(y=Y).to_csv(tmp_path / "t.csv", index=False)
    with pytest.warns(UserWarning, match=NOTE):
        model = fit_file(Pooled(task="who", categorical=["kind"]), tmp_path / "t.csv", target="y")
    np.testing.assert_allclose(model.predict(TABLE), fitted().predict(TABLE), rtol=1e-9)


@pytest.mark.parametrize(
    ("categorical", "message"),
    [
        ("kind", "categorical='kind' must be a list of names of columns"),
        ([2], "must be a list of names of columns"),
        (["sort"], "X has no input 'sort'. Its inputs are 'x', 'kind'"),
        (["who"], "X has no input 'who'"),
    ],
)
def test_what_names_no_input_is_refused(categorical, message):
    with pytest.raises(ValueError, match=message):
        Pooled(task="who", categorical=categorical).fit(TABLE, Y)


def test_categories_need_names_the_rows_and_the_rules_of_the_package():
    with pytest.raises(ValueError, match="X has no names of columns"):
        Pooled(task=0, categorical=["kind"]).fit(TABLE.to_numpy(), Y)
    with pytest.raises(ValueError, match="give one of the two"):
        Pooled(task="who", categorical=["kind"], features=StandardScaler()).fit(TABLE, Y)
    with pytest.raises(ValueError, match="a lazy frame has numbers alone"):
        Pooled(task="who", categorical=["kind"]).fit(pl.DataFrame(TABLE.assign(y=Y)).lazy(), "y")


def test_whole_numbers_that_look_like_codes_are_named_with_the_option(tmp_path, capsys):
    with pytest.warns(UserWarning, match=r"'kind' has 6 different whole numbers.*categorical=\['kind'\]"):
        Pooled(task="who").fit(TABLE, Y)
    with pytest.warns(UserWarning) as told:  # beside a column that needs rules
        Pooled(task="who").fit(TABLE.assign(town=np.where(TABLE.x > 0, "Bonn", "Rome")), Y)
    assert sum("--categorical kind" in str(note.message) for note in told) == 1
    TABLE.assign(y=Y).to_csv(tmp_path / "t.csv", index=False)
    main(["fit", str(tmp_path / "t.csv"), "--task", "who", "--target", "y", "--method", "pooled"])
    said = capsys.readouterr()
    assert "(--categorical kind) makes categories" in said.out + said.err


@pytest.mark.parametrize(
    "values", [TABLE.x, TABLE.x > 0, np.arange(N) % 2, np.arange(N) // 2], ids=["fractions", "truth", "two", "many"]
)
def test_numbers_that_are_no_codes_are_not_named(values, recwarn):
    Pooled(task="who").fit(TABLE[["who", "x"]].assign(kind=values), Y)
    assert not [note for note in recwarn if "codes" in str(note.message)]
