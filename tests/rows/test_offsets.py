"""Exposure and offset: columns of X that are no features."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import PoissonRegressor
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from kinfolk import GAMTL, load
from kinfolk.baselines import Independent, Pooled


@pytest.fixture
def counts():
    rng = np.random.default_rng(3)
    X = pd.DataFrame(rng.normal(size=(200, 2)), columns=["a", "b"])
    X["county"] = np.repeat(["north", "south", "east", "west"], 50)
    X["people"] = rng.uniform(100, 10_000, size=200)
    return X, rng.poisson(X["people"] * np.exp(0.4 * X["a"] - 5)).astype(float)


def test_a_count_over_its_exposure_is_scikit_learns_rate(counts):
    X, y = counts
    model = Independent(task="county", family="poisson", exposure="people", penalty=0.5).fit(X, y)
    here = X.county == "north"
    people = X.people[here]
    rate = PoissonRegressor(alpha=0.5 / people.sum(), tol=1e-10, max_iter=10_000).fit(
        X.loc[here, ["a", "b"]], y[here] / people, sample_weight=people
    )
    np.testing.assert_allclose(model.coef_[1], rate.coef_, atol=1e-5)
    assert list(model.feature_names_in_) == ["a", "b", "county", "people"] and model.coef_.shape == (4, 2)


def test_predict_gives_the_count_for_the_exposure_of_the_row(counts):
    X, y = counts
    model = GAMTL(task="county", family="poisson", exposure="people").fit(X, y)
    np.testing.assert_allclose(model.predict(X.assign(people=2 * X.people)), 2 * model.predict(X))
    assert model.predict(X).sum() == pytest.approx(y.sum(), rel=1e-6)


def test_an_offset_is_the_logarithm_of_an_exposure(counts):
    X, y = counts
    one = Pooled(task="county", family="poisson", exposure="people").fit(X, y)
    logs = X.assign(people=np.log(X.people))
    two = Pooled(task="county", family="poisson", offset="people").fit(logs, y)
    np.testing.assert_allclose(one.predict(X), two.predict(logs))
    both = X.assign(half=np.log(X.people) / 2, people=np.sqrt(X.people))
    three = Pooled(task="county", family="poisson", exposure="people", offset="half").fit(both, y)
    np.testing.assert_allclose(one.predict(X), three.predict(both))


def test_positions_of_an_array_serve_as_names_do(counts):
    X, y = counts
    one = Pooled(task="county", family="poisson", exposure="people").fit(X, y)
    array = X[["a", "people", "b"]].assign(t=X.county.factorize()[0]).to_numpy(float)
    two = Pooled(task=2, family="poisson", exposure=1).fit(array, y)
    np.testing.assert_allclose(one.predict(X), two.predict(array))


def test_it_stays_beside_its_rows_in_clones_pipelines_folds_and_files(counts, tmp_path):
    X, y = counts
    model = Pooled(task="county", family="poisson", exposure="people")
    pipeline = make_pipeline(FunctionTransformer(), clone(model)).fit(X, y)
    np.testing.assert_array_equal(pipeline.predict(X), model.fit(X, y).predict(X))
    folds = KFold(4, shuffle=True, random_state=0)
    held_out = cross_val_predict(clone(model), X, y, cv=folds)
    assert np.corrcoef(np.log(held_out), np.log(X.people))[0, 1] > 0.8
    search = GridSearchCV(clone(model), {"penalty": [0.1, 10.0]}, scoring="neg_mean_poisson_deviance", cv=folds).fit(
        X, y
    )
    assert search.best_estimator_.exposure == "people"
    path = model.save(tmp_path / "counts.kin")
    again = load(path)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert again.family == "poisson" and again.exposure == "people" and again.model_.family == "poisson"


def test_a_missing_column_is_named(counts):
    X, y = counts
    model = Pooled(task="county", family="poisson", exposure="people")
    with pytest.raises(ValueError, match="exposure='people' is a column that X must have"):
        model.fit(X.drop(columns="people"), y)
    model.fit(X, y)
    with pytest.raises(ValueError, match="exposure='people' is a column that X must have"):
        model.predict(X.drop(columns="people"))


@pytest.mark.parametrize("value", [0.0, -2.0, np.nan, np.inf])
def test_an_exposure_that_is_none_is_named_with_its_row(counts, value):
    X, y = counts
    X.loc[17, "people"] = value
    with pytest.raises(ValueError, match=r"column 'people' of X must be greater than 0, but is .* in row 17"):
        Pooled(task="county", family="poisson", exposure="people").fit(X, y)


def test_numbers_have_no_exposure(counts):
    X, y = counts
    with pytest.raises(ValueError, match="exposure='people' is for counts and amounts"):
        Pooled(task="county", exposure="people").fit(X, y)


@pytest.mark.filterwarnings("ignore")
def test_exposures_over_twelve_orders_and_huge_offsets_are_certified(counts):
    X, _ = counts
    rng = np.random.default_rng(0)
    people = 10 ** rng.uniform(-6, 6, size=200)
    y = rng.poisson(people / 100).astype(float)
    wide = GAMTL(task="county", family="poisson", exposure="people").fit(X.assign(people=people), y)
    assert np.isfinite(wide.predict(X)).all() and wide.optimality_["gradient"] <= 1e-8
    far = X.assign(people=500 + rng.normal(size=200))
    huge = GAMTL(task="county", family="poisson", offset="people").fit(far, rng.poisson(3.0, size=200))
    assert np.isfinite(huge.predict(far)).all() and huge.optimality_["gradient"] <= 1e-8


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("family", ["poisson", "binomial"])
def test_a_lazy_frame_is_predicted_by_its_engine(counts, family):
    pl = pytest.importorskip("polars")
    X, y = counts
    y = y if family == "poisson" else np.minimum(y, 1.0)
    exposure = "people" if family == "poisson" else None
    model = Pooled(task="county", family=family, exposure=exposure).fit(X, y)
    lazy = model.predict(pl.from_pandas(X).lazy()).collect()["prediction"].to_numpy()
    np.testing.assert_allclose(lazy, model.predict(X), rtol=1e-12)


@pytest.mark.filterwarnings("ignore:the targets vary")
def test_onnx_has_the_mean_and_says_what_it_has_not(counts, tmp_path):
    pytest.importorskip("onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    from kinfolk.export.onnx import to_onnx

    X, y = counts
    model = Pooled(task="county", family="poisson").fit(X, y)
    path = to_onnx(model, tmp_path / "counts.onnx")
    given = {"task": X["county"].to_numpy(object), "features": X[["a", "b", "people"]].to_numpy()}
    found = onnxruntime.InferenceSession(path).run(None, given)[0]
    np.testing.assert_allclose(found, model.predict(X), rtol=1e-10)
    with pytest.raises(ValueError, match="exposure and offset have no ONNX form"):
        to_onnx(Pooled(task="county", family="poisson", exposure="people").fit(X, y), tmp_path / "no.onnx")
