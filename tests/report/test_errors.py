"""Errors beside the page's baselines are held-out errors, by a plain reference."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import log_expit, xlogy
from sklearn.base import clone

from kinfolk import GAMTL, GAMTLCV, GAMTLClassifier, GAMTLClassifierCV
from kinfolk.baselines import Independent, Pooled
from kinfolk.report import summarize
from kinfolk.report.errors import same_rows, task_errors
from kinfolk.rows.splits import fold_of_rows, in_order
from kinfolk.rows.table import read_rows
from problems import frame


def errors_of(model, table, y, **options):
    record = model.model_
    rows, X = record.columns.read_with_targets(table, y, record.name)
    return task_errors(record, rows, X, rows.gram(X, record.gram.feature_names), **options)


@pytest.fixture(scope="module")
def data():
    return frame(seed=3, T=5, d=3, n=(15, 30))


def test_rows_of_the_fit_are_cross_validated(data):
    """As if every fold had been cut out of the table by hand, and rows far out followed the line."""
    table, y = data
    model = GAMTL(task="who", extrapolate="linear").fit(table, y)
    rows = read_rows(table, y, task="who")
    X = rows.table.features()
    fold = fold_of_rows(rows, X, rows.gram(X, None), cv=5, random_state=0)
    left = np.empty(len(y))
    for f in range(5):
        part = fold == f
        left[part] = clone(model).fit(table[~part], y[~part]).predict(table[part]) - y[part]
    expected = np.sqrt(np.bincount(rows.codes, left**2) / np.bincount(rows.codes))
    found = errors_of(model, table, y)
    np.testing.assert_allclose(found.model, expected, rtol=1e-5)
    assert "5-fold cross-validation" in found.protocol


def test_other_rows_are_a_test_set(data):
    table, y = data
    half = np.arange(len(y)) % 2 == 0
    model = GAMTL(task="who").fit(table[half], y[half])
    left = model.predict(table[~half]) - y[~half]
    codes = np.searchsorted(model.tasks_, table["who"][~half])
    found = errors_of(model, table[~half], y[~half])
    np.testing.assert_allclose(found.model, np.sqrt(np.bincount(codes, left**2) / np.bincount(codes)))
    assert "test set" in found.protocol


def test_the_own_ridge_of_a_test_set_is_trained_on_the_training_rows(data):
    table, y = data
    half = np.arange(len(y)) % 2 == 0
    model = GAMTL(task="who").fit(table[half], y[half])
    found = errors_of(model, table[~half], y[~half])
    best = np.inf
    for penalty in 10.0 ** np.arange(-6, 6, 0.25):
        own = Independent(task="who", penalty=penalty).fit(table[half], y[half])
        left = own.predict(table[~half]) - y[~half]
        codes = np.searchsorted(model.tasks_, table["who"][~half])
        best = min(best, np.sqrt(np.bincount(codes, left**2) / np.bincount(codes)).mean())
    assert found.own.mean() == pytest.approx(best, rel=0.02)


def test_a_model_that_searched_brings_its_own_errors(data):
    table, y = data
    model = GAMTLCV(task="who", strengths=(1.0,), ridges=(1.0,), anchors=(0.0,), metrics=("identity",)).fit(table, y)
    found = errors_of(model, table, y)
    np.testing.assert_array_equal(found.model, model.cv_errors_)
    np.testing.assert_array_equal(found.others["without graph"], model.limit_errors_)
    np.testing.assert_array_equal(found.own, model.own_errors_)


def test_a_model_that_searched_stands_beside_common_slopes_on_its_own_folds(data):
    table, y = data
    fold = np.arange(len(y)) % 3
    cv = [(np.flatnonzero(fold != f), np.flatnonzero(fold == f)) for f in range(3)]
    left = np.empty(len(y))
    grid = {"strengths": (1.0,), "ridges": (1.0,), "anchors": (0.0,), "metrics": ("identity",)}
    model = GAMTLCV(task="who", cv=cv, trunk=None, nonlinear=False, **grid).fit(table, y)
    (row,) = [row for row in model.cv_results_ if row["name"] == "pooled, own intercepts"]
    for train, test in cv:
        pooled = Pooled(task="who", penalty=row["penalty"], extrapolate="linear").fit(table.iloc[train], y[train])
        left[test] = pooled.predict(table.iloc[test]) - y[test]
    codes = np.searchsorted(model.tasks_, table["who"])
    expected = np.sqrt(np.bincount(codes, left**2) / np.bincount(codes))
    pooled = errors_of(model, table, y).pooled
    np.testing.assert_allclose(pooled, expected, rtol=0.01)  # features have other units in the search
    assert pooled.mean() == pytest.approx(row["rmse_tasks"])


def test_a_penalty_by_folds_is_chosen_inside_every_fold(data):
    table, y = data
    chosen = errors_of(Independent(task="who", penalty="cv").fit(table, y), table, y).model
    fixed = [errors_of(Independent(task="who", penalty=p).fit(table, y), table, y).model for p in (1e-8, 1e8)]
    assert chosen.mean() < max(errors.mean() for errors in fixed)


def test_groups_stay_on_one_side(data):
    table, y = data
    groups = np.arange(len(y)) % 3
    found = errors_of(GAMTL(task="who").fit(table, y), table, y, groups=groups)
    assert "3-fold cross-validation on the rows given, whole groups" in found.protocol


def test_the_same_rows_in_another_order_are_the_same_rows(data):
    table, y = data
    order = np.random.default_rng(0).permutation(len(y))
    one, two = (GAMTL(task="who").fit(table.iloc[k], y[k]).gram_ for k in (slice(None), order))
    assert same_rows(one, two)
    assert not same_rows(one, GAMTL(task="who").fit(table, y + 0.01).gram_)


def test_a_model_fitted_in_time_stands_beside_a_ridge_on_its_own_folds(data):
    """Drawn at random, the folds of the report would flatter the ridge: it would fill gaps, the model looks ahead."""
    table, y = data
    day = np.arange(len(y))
    model = GAMTLCV(task="who").fit(table, y, time=day)
    found = errors_of(model, table, y)
    np.testing.assert_array_equal(found.model, model.cv_errors_)
    np.testing.assert_array_equal(found.own, model.own_errors_)
    assert "on the folds of the fit" in found.protocol


@pytest.mark.filterwarnings("ignore::UserWarning")  # few times, and one line for all
def test_two_times_are_too_few_to_judge_a_model_that_chooses_by_folds():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"who": np.repeat(np.arange(8), 2), "x": rng.normal(size=16)})
    y = table["x"].to_numpy() + rng.normal(size=16)
    year = np.tile([2000, 2005], 8)
    model = GAMTLCV(task="who").fit(table, y, time=year)
    found = errors_of(model, table, y, groups=in_order(None, year, table, 16))
    assert np.isnan(found.model).all() and "too few times" in found.protocol


def counts(seed, n=30, T=4):
    rng = np.random.default_rng(seed)
    code = np.repeat(np.arange(T), n)
    table = pd.DataFrame({"who": code, "x": rng.normal(size=T * n), "years": rng.uniform(0.5, 3.0, T * n)})
    return table, rng.poisson(table.years * np.exp(0.3 * code + 0.5 * table.x)).astype(float)


def mean_deviances(y, mean, code):
    each = 2 * (xlogy(y, y / mean) - (y - mean))
    return np.bincount(code, each) / np.bincount(code)


def page_errors(model, table, y):
    page = summarize(model, table, y)
    return page, np.array(page["tasks"]["error"])


def test_counts_of_the_fit_are_cross_validated_by_their_deviance_with_exposure():
    table, y = counts(0)
    model = GAMTL(task="who", family="poisson", exposure="years", extrapolate="linear").fit(table, y)
    rows = read_rows(table.drop(columns="years"), y, task="who")
    X = rows.table.features()
    fold = fold_of_rows(rows, X, rows.gram(X, None), cv=5, random_state=0)
    mean = np.empty(len(y))
    for f in range(5):
        mean[fold == f] = clone(model).fit(table[fold != f], y[fold != f]).predict(table[fold == f])
    page, errors = page_errors(model, table, y)
    np.testing.assert_allclose(errors, mean_deviances(y, mean, table.who.to_numpy()), rtol=1e-3)
    assert page["loss"] == "deviance"
    assert "cross-validation" in page["errors"]
    observed, predicted = page["points"][0]
    np.testing.assert_allclose(predicted, model.predict(table[:30]), rtol=1e-3)


def test_other_rows_of_counts_are_judged_by_the_deviance_without_ridges():
    (table, y), (fresh, y_fresh) = counts(0), counts(1)
    model = GAMTL(task="who", family="poisson", exposure="years").fit(table, y)
    page, errors = page_errors(model, fresh, y_fresh)
    expected = mean_deviances(y_fresh, model.predict(fresh), fresh.who.to_numpy())
    np.testing.assert_allclose(errors, expected, rtol=1e-3)
    assert "test set" in page["errors"]
    assert page["tasks"]["own"] == [None] * 4
    assert not any("ridge" in said for said in page["headline"])


def test_a_search_of_counts_brings_its_own_losses_to_the_page_of_its_rows():
    table, y = counts(2)
    model = GAMTLCV(task="who", family="poisson", exposure="years", nonlinear=False, trunk=None).fit(table, y)
    page, errors = page_errors(model, table, y)
    np.testing.assert_allclose(errors, model.cv_errors_, rtol=1e-3)
    assert "test set" not in page["errors"]


@pytest.fixture(scope="module")
def three():
    rng = np.random.default_rng(4)
    code = np.repeat(np.arange(4), 40)
    table = pd.DataFrame({"who": code, "x": rng.uniform(-2, 2, 160), "z": rng.normal(size=160)})
    eta = np.column_stack([2 * table.x**2 - 2, np.zeros(160), 1.5 * table.z])
    drawn = (eta + rng.gumbel(size=(160, 3))).argmax(axis=1)
    return table, np.array(["bus", "car", "on foot"])[drawn]


@pytest.mark.parametrize("method", [GAMTLClassifier, GAMTLClassifierCV])
def test_a_page_about_several_classes_is_about_the_first_versus_the_others(method, three):
    table, y = three
    half = np.arange(160) % 2 == 0
    model = method(task="who").fit(table[half], y[half])
    page, errors = page_errors(model, table[~half], y[~half])
    p = model.decision_function(table[~half])
    p = np.exp(log_expit(p) if method is GAMTLClassifierCV else p)
    p = (p / p.sum(axis=1, keepdims=True))[:, 0]
    loss = -np.log(np.where(y[~half] == "bus", p, 1 - p))
    np.testing.assert_allclose(errors, np.bincount(table.who[~half], loss) / 20, rtol=1e-3)
    assert any(said.startswith("Of 3 classes this page is about") for said in page["headline"])
    assert "test set" not in page_errors(model, table[half], y[half])[0]["errors"]


@pytest.mark.filterwarnings("ignore:text with many categories")
def test_every_class_versus_the_rest_is_the_fit_of_two_classes_with_codes_of_its_own(three):
    table, y = three
    city = pd.Series(np.arange(160) % 60).map("city {}".format)
    table = table.assign(city=city)
    model = GAMTLClassifierCV(task="who", trunk=None).fit(table, y)
    eta = model.decision_function(table)
    for k, label in enumerate(model.classes_):
        two = GAMTLClassifierCV(task="who", trunk=None).fit(table, y == label)
        np.testing.assert_allclose(eta[:, k], two.decision_function(table))
    assert model.coef_.shape == (3, 4, 3)
    assert model.summary().title.startswith("GAMTLClassifierCV: 4 tasks")
