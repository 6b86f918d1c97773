"""From columns to features where rows pass by: scalers from statistics, bases, and labels as those of the model."""

import dask.dataframe as dd
import numpy as np
import polars as pl
import pytest
from sklearn.preprocessing import FunctionTransformer, PolynomialFeatures, StandardScaler
from source_tables import FEATURES, assert_same, by_numpy, sales

from kinfolk import GramStats
from kinfolk.baselines import Independent
from kinfolk.large import fit_dask, fit_file
from kinfolk.rows.folds import Folds
from kinfolk.sources.files import open_source
from kinfolk.sources.plan import FeaturePlan, standardised
from kinfolk.sources.roles import choose_roles
from kinfolk.sources.stream import labels_like, sum_source


@pytest.mark.parametrize(
    "scaler", [StandardScaler(), StandardScaler(with_mean=False), StandardScaler(with_std=False)], ids=repr
)
def test_a_scaler_of_statistics_is_that_of_the_rows(scaler):
    frame = sales(n=500, tasks=9).assign(x2=0.1)
    X = frame[list(FEATURES)]
    expected = StandardScaler(with_mean=scaler.with_mean, with_std=scaler.with_std).fit(X)
    gram = GramStats.from_rows(X, frame["sales"], frame["shop"], feature_names=FEATURES)
    moved, folds, fitted = standardised(gram, None, scaler)
    assert folds is None and fitted.n_samples_seen_ == 500
    assert fitted.feature_names_in_.tolist() == expected.feature_names_in_.tolist()
    np.testing.assert_allclose(fitted.transform(X), expected.transform(X), rtol=1e-12, atol=1e-12)
    reference = GramStats.from_rows(expected.transform(X), frame["sales"], frame["shop"], feature_names=FEATURES)
    assert_same(moved, reference, rtol=1e-10)


def test_folds_are_standardised_as_their_sum_is():
    frame = sales(n=300, tasks=4)
    codes = np.unique(frame["shop"], return_inverse=True)[1]
    X, y = frame[list(FEATURES)].to_numpy(), frame["sales"].to_numpy()
    folds = Folds.of_rows(X, y, codes, np.unique(frame["shop"]), np.arange(300) % 3, feature_names=FEATURES, k=3)
    total, parts, _ = standardised(folds.total, folds, StandardScaler())
    assert_same(total, parts.held_out[0] + parts.held_out[1] + parts.held_out[2], rtol=1e-9)


def test_a_basis_takes_the_place_of_the_features(tmp_path):
    frame = sales()
    frame.to_parquet(tmp_path / "rows.parquet")
    source = open_source(tmp_path / "rows.parquet")
    roles = choose_roles(source.names(), source.name, task="shop", target="sales")
    first = FunctionTransformer(lambda rows: np.asarray(rows) / 10)
    basis = PolynomialFeatures(2, include_bias=False).fit(np.zeros((1, 3)))
    names = tuple(f"b{j}" for j in range(9))
    gram = sum_source(source, roles, FeaturePlan(first, basis=basis, names=names), batch_rows=100)[0]
    functions = basis.transform(frame[list(FEATURES)].to_numpy() / 10)
    assert_same(gram, by_numpy(frame.assign(**dict(zip(names, functions.T, strict=True))), names), rtol=1e-9)


def test_labels_are_written_as_those_of_the_model():
    numbers, words = np.array([7, 12]), np.array(["7", "12"])
    assert labels_like(numbers, pl.Series(["007", "7.0", "12"])).to_list() == [7, 7, 12]
    assert labels_like(numbers, pl.Series(["007", "new"])).to_list() == ["007", "new"]
    assert labels_like(words, pl.Series(["007", "12"])).to_list() == ["007", "12"]


def test_partitions_of_dask_are_refused_what_no_lazy_frame_can_have_and_take_the_columns_that_were_chosen():
    frame = sales(n=200, tasks=3)
    ddf = dd.from_pandas(frame, npartitions=2)
    with pytest.raises(ValueError, match="a lazy frame has numbers alone"):
        fit_dask(Independent(task="shop", categorical=["x0"]), ddf, target="sales")
    model = fit_dask(Independent(task="shop", penalty=1.0), ddf, target="sales", columns=["x2", "x0"])
    assert model.feature_names_in_.tolist() == ["x0", "shop", "x2"]


@pytest.mark.parametrize("name", ["rows.parquet", "rows.csv"])
def test_several_task_columns_of_a_file_are_called_as_in_memory(name, tmp_path):
    frame = sales(n=200, tasks=3).assign(open=np.arange(200) % 2 == 0)
    {"rows.parquet": frame.to_parquet, "rows.csv": lambda path: frame.to_csv(path, index=False)}[name](tmp_path / name)
    model = Independent(task=["open", "shop"], penalty=1.0)
    in_memory = model.fit(frame.drop(columns="sales"), frame["sales"]).tasks_.tolist()
    assert in_memory[0] == "False / 0"
    assert fit_file(model, tmp_path / name, target="sales").tasks_.tolist() == in_memory
