"""Models of files are the models of the rows in memory, and predict tables and files alike."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow.parquet as pq
import pytest
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from source_tables import sales

import kinfolk.methods.model
from kinfolk import GAMTL, GAMTLCV, RBFGAMTL, RBFFeatures
from kinfolk.baselines import METHODS, Independent, RandomSlopes
from kinfolk.large import fit_file, predict_file

X = ["x0", "shop", "x1", "x2"]  # columns of the table without its target


@pytest.fixture
def rows(tmp_path):
    frame = sales(n=400, tasks=8)
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=70)
    return frame, tmp_path / "rows.parquet"


MODELS = [
    GAMTL(task="shop"),
    GAMTL(task="shop", metric="learned", intercept="shrunk"),
    GAMTL(task="shop", features=StandardScaler()),
    GAMTL(task="shop", features=StandardScaler(with_mean=False)),
    GAMTL(task="shop", features=StandardScaler(with_std=False)),
    GAMTL(task="shop", features=FunctionTransformer(np.arctan)),
    Independent(task="shop", penalty=1.0),
    RandomSlopes(task="shop"),
]


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_a_file_gives_the_model_of_its_rows(rows, model):
    frame, path = rows
    fitted = fit_file(model, path, target="sales", batch_rows=90).predict(frame[X])
    in_memory = model.fit(frame[X], frame["sales"]).predict(frame[X])
    # Both stop when the objective falls by less than `tol`; statistics agree to rounding, so the steps are the same.
    # Predictions near 0 are differences of large numbers: what counts there is the range of all.
    np.testing.assert_allclose(fitted, in_memory, rtol=1e-6, atol=1e-9 * np.ptp(in_memory))


def test_the_scaler_from_statistics_is_the_scaler_of_the_rows(rows):
    frame, path = rows
    frame.assign(x1=7.0).to_parquet(path)
    model = fit_file(Independent(task="shop", features=StandardScaler(), penalty=1.0), path, target="sales")
    scaler = StandardScaler().fit(frame.assign(x1=7.0)[["x0", "x1", "x2"]])
    for name in ("mean_", "var_", "scale_"):
        np.testing.assert_allclose(getattr(model.features_, name), getattr(scaler, name), rtol=1e-12)
    assert model.features_.n_samples_seen_ == scaler.n_samples_seen_


def test_a_frozen_transformer_may_take_text(rows):
    frame, path = rows
    frame = frame.assign(city=np.resize(["Bonn", "Rome", "Oslo"], len(frame)))
    encoder = make_column_transformer((OneHotEncoder(drop="first"), ["city"]), remainder="passthrough")
    columns = [*X, "city"]
    model = Independent(task="shop", features=encoder, penalty=1.0)
    in_memory = model.fit(frame[columns], frame["sales"]).predict(frame[columns])
    model.set_params(features=FrozenEstimator(model.features_))
    for name in ("parquet", "csv"):
        path = path.with_suffix(f".{name}")
        {"parquet": frame.to_parquet, "csv": frame.to_csv}[name](path, index=False)
        fitted = fit_file(model, path, target="sales", batch_rows=90)
        table = frame.assign(shop=frame["shop"].astype(fitted.tasks_.dtype.type))
        np.testing.assert_allclose(fitted.predict(table[columns]), in_memory)


def test_a_tuned_model_is_tuned_on_folds_of_the_file(rows):
    frame, path = rows
    grid = {"strengths": (1.0,), "ridges": (1.0,), "anchors": (0.0,), "metrics": ("identity",)}
    model = fit_file(GAMTLCV(task="shop", cv=3, features=StandardScaler(), **grid), path, target="sales")
    truth = frame["sales"]
    assert model.score(frame[X], truth) > 0.99
    assert len(model.cv_results_) > 1


def test_groups_reach_the_folds_and_are_no_feature(rows):
    frame, path = rows
    frame.assign(day=np.resize(np.arange(9), len(frame))).to_parquet(path)
    model = fit_file(Independent(task="shop", penalty="cv"), path, target="sales", groups="day")
    assert model.feature_names_in_.tolist() == X
    assert fit_file(GAMTL(task="shop"), path, target="sales", groups="day").feature_names_in_.tolist() == X


def test_chosen_columns_come_in_the_order_of_the_file(rows):
    frame, path = rows
    model = fit_file(Independent(task="shop", penalty=1.0), path, target="sales", columns=["x2", "x0"])
    assert model.feature_names_in_.tolist() == ["x0", "shop", "x2"]
    np.testing.assert_allclose(model.predict(pl.from_pandas(frame[["x0", "shop", "x2"]]))[:3].shape, (3,))


def test_new_rows_are_merged_into_a_model_of_a_file(rows):
    frame, path = rows
    model = fit_file(GAMTL(task="shop"), path, target="sales").partial_fit(frame[X], frame["sales"])
    assert model.gram_.n.sum() == 2 * len(frame)


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (GAMTL(), r"GAMTL\(task=None\).*GAMTL\(task='x0'\)"),
        (GAMTL(task="shop", features=PCA()), r"features=PCA\(\) has to be fitted on rows.*FrozenEstimator"),
        (RBFGAMTL(task="shop"), "RBFGAMTL goes over its rows many times.*RBFFeatures"),
        (GAMTLCV(task="shop", cv=[([0], [1])]), "must be a whole number of folds"),
    ],
    ids=["no task", "transformer", "basis functions", "given folds"],
)
def test_what_needs_rows_is_refused_before_reading(rows, model, text):
    with pytest.raises(ValueError, match=text):
        fit_file(model, rows[1], target="sales")


def test_a_task_with_one_row_gets_the_slopes_of_the_others(tmp_path):
    table = pd.concat([sales(n=50, tasks=2), sales(n=1, label=lambda s: "alone")], ignore_index=True)
    table.to_parquet(tmp_path / "rows.parquet")
    model = fit_file(GAMTL(task="shop"), tmp_path / "rows.parquet", target="sales")
    assert model.tasks_[-1] == "alone"
    np.testing.assert_allclose(model.coef_[-1], model.population_coef_)
    np.testing.assert_allclose(model.predict(table.tail(1)), table["sales"].tail(1), rtol=1e-9)


@pytest.mark.parametrize("name", sorted(METHODS))
def test_every_method_may_be_asked(name):
    assert METHODS[name].fit.__module__ == "kinfolk.methods.method"


READERS = {"out.parquet": pd.read_parquet, "out.csv": pd.read_csv}


@pytest.mark.parametrize("out", READERS)
@pytest.mark.parametrize("source", ["rows.parquet", "rows.csv"])
@pytest.mark.parametrize("label", [int, lambda s: f"no. {s}"], ids=["integers", "words"])
def test_predictions_of_a_file_are_those_of_its_rows(tmp_path, source, out, label):
    frame = sales(n=300, tasks=5, label=label).assign(receipt=[f"r{k}" for k in range(300)])
    {"rows.parquet": frame.to_parquet, "rows.csv": frame.to_csv}[source](tmp_path / source, index=False)
    model = Independent(task="shop", penalty=1.0).fit(frame[X], frame["sales"])
    predict_file(model, tmp_path / source, tmp_path / out, keep="receipt", return_std=True, batch_rows=70)
    table = READERS[out](tmp_path / out)
    assert table.columns.tolist() == ["receipt", "shop", "prediction", "std"]
    assert table["receipt"].tolist() == frame["receipt"].tolist()
    assert table["shop"].tolist() == frame["shop"].tolist()
    mean, std = model.predict(frame[X], return_std=True)
    np.testing.assert_allclose(table["prediction"], mean, rtol=1e-12)
    np.testing.assert_allclose(table["std"], std, rtol=1e-9)


def test_blocks_of_a_file_share_one_computation_of_the_uncertainty(tmp_path, monkeypatch):
    frame = sales(n=300, tasks=5)
    frame.to_parquet(tmp_path / "rows.parquet", index=False)
    model = Independent(task="shop", penalty=1.0).fit(frame[X], frame["sales"])
    calls = []
    plain = kinfolk.methods.model.uncertainty
    monkeypatch.setattr("kinfolk.methods.model.uncertainty", lambda *given: calls.append(1) or plain(*given))
    predict_file(model, tmp_path / "rows.parquet", tmp_path / "out.csv", return_std=True, batch_rows=70)
    assert len(calls) == 1


def test_leading_zeros_stay_from_fit_to_prediction(tmp_path):
    frame = sales(n=100, tasks=3, label=lambda s: f"00{s}")
    frame.to_csv(tmp_path / "rows.csv", index=False)
    model = fit_file(Independent(task="shop", penalty=1.0), tmp_path / "rows.csv", target="sales")
    predict_file(model, tmp_path / "rows.csv", tmp_path / "out.parquet")
    assert model.tasks_.tolist() == ["000", "001", "002"]
    assert pd.read_parquet(tmp_path / "out.parquet")["shop"].tolist() == frame["shop"].tolist()


@pytest.mark.parametrize("label", [lambda s: f"00{s}", lambda s: f"{s}.0"], ids=["zeros", "points"])
def test_a_model_whose_tasks_are_integers_knows_them_however_they_are_written(tmp_path, label):
    frame = sales(n=100, tasks=3, label=int)
    model = Independent(task="shop", penalty=1.0).fit(frame[X], frame["sales"])
    frame.assign(shop=[label(s) for s in frame["shop"]]).to_csv(tmp_path / "rows.csv", index=False)
    predict_file(model, tmp_path / "rows.csv", tmp_path / "out.parquet")
    out = pd.read_parquet(tmp_path / "out.parquet")
    assert out["shop"].tolist() == frame["shop"].tolist()
    np.testing.assert_allclose(out["prediction"], model.predict(frame[X]), rtol=1e-12)


def test_predictions_go_through_the_transformer(rows, tmp_path):
    frame, path = rows
    bumps = make_pipeline(StandardScaler(), RBFFeatures(5, random_state=0))
    model = Independent(task="shop", features=bumps, penalty=1.0).fit(frame[X], frame["sales"])
    predict_file(model, path, tmp_path / "out.parquet", batch_rows=90)
    predicted = pq.read_table(tmp_path / "out.parquet")["prediction"].to_numpy()
    np.testing.assert_allclose(predicted, model.predict(frame[X]))


def test_progress_is_told_while_predicting(rows, tmp_path):
    frame, path = rows
    model = Independent(task="shop", penalty=1.0).fit(frame[X], frame["sales"])
    seen = []
    predict_file(model, path, tmp_path / "out.csv", batch_rows=70, callback=seen.append)
    assert seen[-1].done == seen[-1].total and len(seen) > 3


def test_a_failed_prediction_leaves_what_was_there(rows, tmp_path):
    frame, path = rows
    model = Independent(task="shop", penalty=1.0).fit(frame[X], frame["sales"])
    (tmp_path / "out.csv").write_text("old")
    frame.assign(x1=[*[1.0] * 399, np.inf]).to_parquet(path)
    with pytest.raises(ValueError, match="rows.parquet, rows from .* on: .*infinity.*column 'x1'"):
        predict_file(model, path, tmp_path / "out.csv", batch_rows=90)
    assert (tmp_path / "out.csv").read_text() == "old"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["out.csv", "rows.parquet"]


def test_prediction_says_what_it_cannot_do(rows, tmp_path):
    frame, path = rows
    model = Independent(task="shop", penalty=1.0).fit(frame[X], frame["sales"])
    with pytest.raises(ValueError, match="cannot write .xlsx: choose .csv or .parquet"):
        predict_file(model, path, tmp_path / "out.xlsx")
    with pytest.raises(ValueError, match="is the table to predict for"):
        predict_file(model, path, path)
    nameless = Independent(task=0, penalty=1.0).fit(frame[["shop", "x0"]].to_numpy(float), frame["sales"])
    with pytest.raises(ValueError, match="fitted without names of columns"):
        predict_file(nameless, path, tmp_path / "out.csv")
    frame.assign(shop=range(len(frame))).to_parquet(path)
    with pytest.raises(ValueError, match="task labels were like '0' in fit but are like 0 now"):
        predict_file(model, path, tmp_path / "out.csv")
    frame.assign(shop="new").to_parquet(path)
    model.set_params(unseen="error")
    with pytest.raises(ValueError, match="predict got task 'new', not seen in fit"):
        predict_file(model, path, tmp_path / "out.csv")


@pytest.mark.filterwarnings("ignore::UserWarning")  # what was done with the columns: compared below
@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet", "rows.ndjson"])
def test_a_file_goes_by_the_rules_of_frames(tmp_path, name):
    """Text, dates, truth, gaps, row numbers and rows without a target: the same notes and the same predictions."""
    rng = np.random.default_rng(5)
    frame = sales(600, label="shop {}".format).drop(columns="x2")
    frame["row"] = np.arange(600)
    frame["town"] = rng.choice(["Bonn", "Rome", "Oslo"], 600)
    frame["day"] = pd.date_range("2024-01-01", periods=600, freq="7h").astype("datetime64[us]")
    frame["open"] = rng.random(600) > 0.5
    frame["size"] = np.where(rng.random(600) < 0.1, np.nan, rng.normal(size=600))
    frame.loc[7, "sales"] = np.nan
    frame["sales"] += 3 * (frame.town == "Rome")
    file = tmp_path / name
    writers = {
        "rows.csv": lambda: frame.to_csv(file, index=False),
        "rows.parquet": lambda: frame.to_parquet(file),
        "rows.ndjson": lambda: frame.assign(day=frame.day.astype(str)).to_json(file, orient="records", lines=True),
    }
    writers[name]()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model = fit_file(GAMTL(task="shop"), file, target="sales")
    with warnings.catch_warnings(record=True) as told_in_memory:
        warnings.simplefilter("always")
        same = GAMTL(task="shop").fit(frame.drop(columns="sales"), frame.sales)
    assert {str(note.message) for note in told} == {str(note.message) for note in told_in_memory}
    assert model.gram_.feature_names == same.gram_.feature_names
    new = frame.head(50)
    np.testing.assert_allclose(model.predict(new), same.predict(new), rtol=1e-8)
    out = predict_file(model, file, tmp_path / "out.parquet")
    np.testing.assert_allclose(pd.read_parquet(out)["prediction"].head(50), same.predict(new), rtol=1e-8)


def test_a_file_of_numbers_with_gaps_is_filled_in_and_one_with_problems_is_told_at_once(tmp_path):
    frame = sales(400)
    frame.loc[5, "x1"] = np.nan
    frame.to_parquet(tmp_path / "gaps.parquet")
    with pytest.warns(UserWarning, match="missing values are filled in, and a column says where they were: 'x1'"):
        model = fit_file(GAMTL(task="shop"), tmp_path / "gaps.parquet", target="sales")
    assert model.gram_.feature_names == ("x0", "x1", "x1_missing", "x2")
    frame["x0"] = frame["x0"].astype(str).where(frame.index != 9, "broken")
    frame["x2"] = frame["x2"].where(frame.index != 3, np.inf)
    frame.to_csv(tmp_path / "bad.csv", index=False)
    text = r"bad.csv, line 11: column 'x0' .* 'broken'. bad.csv, line 5: column 'x2' is infinite.* drop=\['x0', 'x2'\]"
    with pytest.raises(ValueError, match=text):
        fit_file(GAMTL(task="shop"), tmp_path / "bad.csv", target="sales")
