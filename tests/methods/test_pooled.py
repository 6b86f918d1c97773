"""One ridge for all tasks, against scikit-learn's."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from kinfolk.baselines import Pooled
from kinfolk.rows.splits import fold_of_rows
from kinfolk.rows.table import read_rows


def draw(sizes=(8, 15, 30), d=4, seed=0):
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(len(sizes)), sizes)
    X = rng.normal(size=(len(task), d)) + task[:, None]
    return np.column_stack([task, X]), X @ np.arange(d) + 10 * task + rng.normal(size=len(task))


@pytest.mark.parametrize("penalty", [0.1, 20.0])
def test_own_intercepts_are_within_task_centring(penalty):
    X, y = draw()
    model = Pooled(task=0, penalty=penalty).fit(X, y)
    Z, target = X[:, 1:].copy(), y.copy()
    for t in range(3):
        Z[X[:, 0] == t] -= Z[X[:, 0] == t].mean(axis=0)
        target[X[:, 0] == t] -= target[X[:, 0] == t].mean()
    reference = Ridge(alpha=penalty, fit_intercept=False).fit(Z, target)
    np.testing.assert_allclose(model.coef_, np.tile(reference.coef_, (3, 1)), rtol=1e-8)
    residual = y - model.predict(X)
    np.testing.assert_allclose([residual[X[:, 0] == t].mean() for t in range(3)], 0.0, atol=1e-10)


@pytest.mark.parametrize("penalty", [0.1, 20.0])
def test_one_intercept_is_scikit_learns_ridge_on_all_rows(penalty):
    X, y = draw()
    model = Pooled(task=0, penalty=penalty, own_intercepts=False).fit(X, y)
    reference = Ridge(alpha=penalty).fit(X[:, 1:], y)
    np.testing.assert_allclose(model.predict(X), reference.predict(X[:, 1:]), rtol=1e-8)
    assert model.optimality_["residual"] < 1e-12


@pytest.mark.parametrize("own", [True, False])
def test_cross_validation_equals_direct_fold_fits(own):
    X, y = draw()
    model = Pooled(task=0, penalty="cv", own_intercepts=own).fit(X, y)
    rows = read_rows(X, y, task=0)
    fold = fold_of_rows(rows, X[:, 1:], rows.gram(X[:, 1:], None), cv=5, random_state=0)
    direct = Pooled(task=0, penalty=model.penalty_, own_intercepts=own, extrapolate="linear")
    squares = [(direct.fit(X[fold != f], y[fold != f]).predict(X[fold == f]) - y[fold == f]) ** 2 for f in range(5)]
    np.testing.assert_allclose(model.penalty_errors_.min(), np.sqrt(np.concatenate(squares).mean()), rtol=1e-8)


def test_tasks_of_one_row_go_through_it_with_the_common_slopes():
    X, y = draw(sizes=(1, 15, 30))
    model = Pooled(task=0).fit(X, y)
    np.testing.assert_allclose(model.coef_, model.coef_[[1, 1, 1]])
    np.testing.assert_allclose(model.predict(X[:1]), y[:1])
    assert np.isfinite(Pooled(task=0, own_intercepts=False).fit(X, y).predict(X)).all()


def test_wrong_penalties_are_errors():
    X, y = draw()
    with pytest.raises(ValueError, match="penalty=nan must be at least 0 and finite"):
        Pooled(task=0, penalty=np.nan).fit(X, y)


def test_shrunken_intercepts_are_a_ridge_on_one_hot_ids():
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(6), [2, 3, 5, 8, 13, 1])
    X = np.column_stack([rng.normal(size=len(task)), rng.normal(size=6)[task]])  # the second is constant within tasks
    y = X @ [1.0, 2.0] + rng.normal(size=6)[task] + 5 + 0.1 * rng.normal(size=len(task))
    model = Pooled(task=0, penalty=0.7, shrinkage=2.0).fit(np.column_stack([task, X]), y)
    # min ||y - X w - m - Z c||^2 + 0.7 ||w||^2 + 2 ||c||^2
    design = np.column_stack([X, np.ones(len(y)), np.eye(6)[task]])
    H = design.T @ design + np.diag([0.7, 0.7, 0.0, *[2.0] * 6])
    expected = np.linalg.solve(H, design.T @ y)
    np.testing.assert_allclose(model.coef_[0], expected[:2])
    np.testing.assert_allclose(model.intercept_, expected[2] + expected[3:])
    np.testing.assert_allclose(model.contributions().coef.sum(axis=1), model.coef_)
    assert abs(model.coef_[0, 1]) > 0.5


def test_shrinkage_lies_between_own_and_common_intercepts():
    rng = np.random.default_rng(1)
    X = np.column_stack([np.repeat(np.arange(4), 5), rng.normal(size=(20, 2))])
    y = rng.normal(size=20) + X[:, 0]
    none, own = (Pooled(task=0, **given).fit(X, y) for given in ({}, {"shrinkage": 1e-9}))
    one, common = (Pooled(task=0, **given).fit(X, y) for given in ({"own_intercepts": False}, {"shrinkage": 1e9}))
    np.testing.assert_allclose(own.intercept_, none.intercept_, atol=1e-6)
    np.testing.assert_allclose(common.intercept_, one.intercept_, atol=1e-6)
