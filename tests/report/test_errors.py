"""Errors beside the page's baselines are held-out errors, by a plain reference."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from kinfolk import GAMTL, GAMTLCV
from kinfolk.baselines import Independent, Pooled
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
