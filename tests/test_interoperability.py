"""What docs/interoperability.md promises: other libraries take kinfolk's estimators as any regressor."""

import re
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
from distributed import Client
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.inspection import permutation_importance
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import kinfolk
from kinfolk import GAMTL, GAMTLCV, datasets
from kinfolk.explain import communities, contributions, edge_confidence, shared_features, task_gains


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    shop = np.repeat([f"shop {k}" for k in range(8)], 20)
    X = pd.DataFrame({"price": rng.normal(size=160), "rain": rng.normal(size=160), "shop": shop})
    slope = np.where(X["shop"] < "shop 4", 2.0, -2.0)
    return X, slope * X["price"] + 0.1 * rng.normal(size=160)


def test_permutation_importance_finds_the_feature_and_the_task(table):
    X, y = table
    found = permutation_importance(GAMTL(task="shop").fit(X, y), X, y, n_repeats=3, random_state=0)
    importance = dict(zip(X.columns, found.importances_mean, strict=True))
    assert importance["price"] > 0.5 and importance["shop"] > 0.5 and importance["rain"] < 0.1


def test_targets_may_be_logged(table):
    X, y = table
    model = TransformedTargetRegressor(GAMTL(task="shop"), func=np.log, inverse_func=np.exp).fit(X, np.exp(y))
    np.testing.assert_allclose(model.predict(X), np.exp(GAMTL(task="shop").fit(X, y).predict(X)))


@pytest.mark.parametrize("container", ["pandas", "polars"])
def test_a_pipeline_with_the_task_column_and_set_output(table, container):
    X, y = table
    scale = make_column_transformer(
        (StandardScaler(), ["price", "rain"]), remainder="passthrough", verbose_feature_names_out=False
    )
    model = make_pipeline(scale.set_output(transform=container), GAMTL(task="shop")).fit(X, y)
    inside = GAMTL(task="shop", features=StandardScaler()).fit(X, y)
    np.testing.assert_allclose(model.predict(X), inside.predict(X))


@pytest.fixture
def cluster():
    with Client(processes=False, n_workers=1, threads_per_worker=2, dashboard_address=None) as client:
        yield client


@pytest.mark.parametrize("backend", ["loky", "threading", "dask"])
def test_joblib_backends_give_the_same_model(table, cluster, backend):
    X, y = table
    quick = {"strengths": (1.0,), "ridges": (1.0,), "metrics": ("identity",), "anchors": (0.0,)}
    alone = GAMTLCV(task="shop", **quick).fit(X, y)
    with joblib.parallel_config(backend=backend):
        together = GAMTLCV(task="shop", n_jobs=2, **quick).fit(X, y)
    np.testing.assert_array_equal(alone.coef_, together.coef_)


def test_shapley_values_are_exact_without_sampling(table):
    X, y = table
    model = GAMTL(task="shop").fit(X, y)
    rows = X[X["shop"] == "shop 2"]
    numbers = rows[["price", "rain"]].to_numpy()
    values = model.coef_frame().loc["shop 2", ["price", "rain"]].to_numpy() * (numbers - numbers.mean(axis=0))
    np.testing.assert_allclose(values.sum(axis=1), model.predict(rows) - model.predict(rows).mean())


def test_only_public_names_are_listed():
    assert dir(kinfolk) == sorted(kinfolk.__all__)
    assert not [name for name in dir(datasets) if name.startswith("_") or name == "import_module"]


def test_no_output_shows_types_of_numpy(table):
    X, y = table
    model = GAMTL(task="shop").fit(X, y)
    said = [
        *(communities(model), model.edges(), model.graph_.edges(), model.graph_.outliers()),
        *(edge_confidence(model, n=2).table()[:2], shared_features(model, "shop 0", "shop 1").table()),
        *(task_gains(model, X, y, cv=2).table(), contributions(model).of("shop 0"), model.summary()),
        *(model.summary().columns, model.get_feature_names_out().tolist()),
    ]
    assert not re.findall(r"np\.\w+\(", " ".join(map(repr, said)))


def test_the_page_names_every_example():
    page = (Path(__file__).parents[1] / "docs" / "interoperability.md").read_text()
    for word in (
        "permutation_importance",
        "TransformedTargetRegressor",
        "set_output",
        "joblib",
        "SHAP",
        "MLflow",
        "skops",
    ):
        assert word in page
