"""The mixed model as an estimator; its likelihood is tested in test_mixed_model."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from kinfolk import load
from kinfolk.baselines import RandomSlopes
from kinfolk.methods.change import adopted, dropped
from kinfolk.methods.part import Scatter


@pytest.fixture
def table():
    """Twelve tasks of unequal size; slopes vary in the first feature only."""
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(12), np.arange(5, 29, 2))
    X = rng.normal(size=(len(task), 3))
    slope = np.array([1.0, 2.0, 0.0]) + rng.normal(size=(12, 3)) * [1.0, 0.0, 0.0]
    y = (X * slope[task]).sum(axis=1) + rng.normal(size=12)[task] + 0.5 * rng.normal(size=len(task))
    return np.column_stack([task, X]), y


@pytest.mark.parametrize("covariance", ["diagonal", "full"])
def test_coefficients_minimise_the_penalised_squares_of_the_docstring(table, covariance):
    X, y = table
    model = RandomSlopes(task=0, covariance=covariance, intercept="free").fit(X, y)
    Z = X[:, 1:]
    for t in range(12):
        rows = X[:, 0] == t
        Zc, yc = Z[rows] - Z[rows].mean(axis=0), y[rows] - y[rows].mean()
        # Multiplied by Sigma, the optimality condition also holds for zero variances.
        pull = model.sigma2_ * (model.coef_[t] - model.population_coef_)
        np.testing.assert_allclose(model.covariance_ @ Zc.T @ (yc - Zc @ model.coef_[t]), pull, atol=1e-9)


def test_fitted_attributes_say_what_varies(table):
    model = RandomSlopes(task=0).fit(*table)
    assert model.relevance_[0] > 5 * model.relevance_[1:].max()
    assert model.structure_ is None
    assert model.converged_
    assert model.optimality_["gradient"] <= model.tol
    assert np.diff(model.objective_history_).max() <= 1e-9
    assert model.n_iter_ == len(model.objective_history_)
    np.testing.assert_allclose(model.sigma2_, 0.25, rtol=0.3)


def test_a_task_without_targets_gets_the_fixed_effects(table):
    X, y = table
    y = np.where(X[:, 0] == 3, np.nan, y)
    model = RandomSlopes(task=0).fit(X, y)
    np.testing.assert_array_equal(model.coef_[3], model.population_coef_)
    assert model.intercept_[3] == model.population_intercept_


def test_tasks_of_one_row_get_the_slopes_of_the_population_next_to_own_intercepts(table):
    X, y = table
    one = np.vstack([X, [[50, 1.0, 1.0, 1.0]]]), np.append(y, 3.0)
    assert np.isfinite(RandomSlopes(task=0).fit(*one).coef_).all()
    model = RandomSlopes(task=0, intercept="free").fit(*one)
    np.testing.assert_allclose(model.coef_[-1], model.population_coef_)
    np.testing.assert_allclose(model.predict(one[0][-1:]), [3.0])
    np.testing.assert_allclose(model.coef_[:-1], RandomSlopes(task=0, intercept="free").fit(X, y).coef_)


def test_wrong_choices_are_named(table):
    with pytest.raises(ValueError, match='covariance=\'spherical\': choose "diagonal" or "full"'):
        RandomSlopes(task=0, covariance="spherical").fit(*table)


def test_too_few_steps_warn_with_remedies(table):
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        RandomSlopes(task=0, max_iter=3).fit(*table)


@pytest.mark.parametrize("intercept", ["random", "free"])
def test_rows_that_do_not_tell_the_noise_warn_instead_of_running_off_to_an_exact_fit(intercept):
    rng = np.random.default_rng(1)
    task = np.repeat(np.arange(20), 8)  # 8 rows for 10 slopes: every task alone is fitted exactly
    X = rng.normal(size=(160, 10))
    y = (X * (1 + rng.normal(size=(20, 10)))[task]).sum(axis=1) + rng.normal(size=160)
    within = np.mean([y[task == t].var(ddof=1) for t in range(20)])
    model = RandomSlopes(task=0, covariance="full", intercept=intercept)
    with pytest.warns(ConvergenceWarning, match='do not tell the noise.*covariance="diagonal"'):
        model.fit(np.column_stack([task, X]), y)
    assert model.sigma2_ == pytest.approx(0.01 * within, rel=1e-6)
    assert not model.converged_ and model.optimality_["gradient"] <= model.tol


def noisy(seed=0, T=40, n=8):
    """Half of the tasks have ten times the noise of the others."""
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(T), n)
    X = rng.normal(size=(T * n, 2))
    slope = 1 + 0.5 * rng.normal(size=(T, 2))
    sd = np.where(np.arange(T) < T // 2, 0.2, 2.0)
    y = (X * slope[task]).sum(axis=1) + rng.normal(size=T)[task] + sd[task] * rng.normal(size=T * n)
    return np.column_stack([task, X]), y, slope, sd


def test_noise_by_task_is_found_and_coefficients_are_nearer_to_the_true_ones():
    X, y, slope, sd = noisy()
    common, own = (RandomSlopes(task=0, noise=noise).fit(X, y) for noise in ("common", "task"))
    np.testing.assert_allclose(common.noise_, common.sigma2_)
    assert np.median(own.noise_[sd > 1]) > 5 * np.median(own.noise_[sd < 1])
    away = [np.sqrt(np.mean((model.coef_ - slope) ** 2)) for model in (common, own)]
    assert away[1] < 0.85 * away[0]


def test_coefficients_with_noise_by_task_minimise_the_squares_over_the_noise():
    """The optimality condition of every task, its rows divided by its own noise."""
    X, y, _, _ = noisy()
    model = RandomSlopes(task=0, noise="task", intercept="free").fit(X, y)
    for t in range(40):
        Z, z = X[X[:, 0] == t, 1:], y[X[:, 0] == t]
        Z, z = Z - Z.mean(axis=0), z - z.mean()
        pull = model.noise_[t] * (model.coef_[t] - model.population_coef_)
        np.testing.assert_allclose(model.covariance_ @ Z.T @ (z - Z @ model.coef_[t]), pull, atol=1e-9)


def test_the_likelihood_with_known_noise_is_that_of_a_plain_reference():
    """Rows of all tasks as one normal vector whose covariance is written down in full."""
    X, y, _, _ = noisy(T=24, n=6)
    model = RandomSlopes(task=0, noise="task").fit(X, y)
    assert np.ptp(model.noise_) > 0
    mean = X[:, 1:].mean(axis=0)

    def log_likelihood(scale):
        total = 0.0
        for t in range(24):
            Z = X[X[:, 0] == t, 1:]
            away = Z - mean
            V = away @ (scale * model.covariance_) @ away.T + model.intercept_sd_**2 + model.noise_[t] * np.eye(len(Z))
            off = y[X[:, 0] == t] - Z @ model.population_coef_ - model.population_intercept_
            total -= (np.linalg.slogdet(V)[1] + off @ np.linalg.solve(V, off)) / 2
        return total

    best = log_likelihood(1.0)
    assert best > max(log_likelihood(0.97), log_likelihood(1.03)) - 1e-3


def test_tasks_of_like_noise_get_the_model_with_common_noise():
    rng = np.random.default_rng(0)
    X = np.column_stack([np.repeat(np.arange(30), 10), np.tile(rng.normal(size=(10, 2)), (30, 1))])
    y = X[:, 1] + X[:, 0] + np.tile(rng.normal(size=10), 30)  # levels differ, and the noise is the same
    common, own = (RandomSlopes(task=0, noise=noise).fit(X, y) for noise in ("common", "task"))
    np.testing.assert_array_equal(own.coef_, common.coef_)
    assert own.model_.parts[0].coupling.weights is None


def test_the_map_of_the_targets_counts_rows_by_the_noise_of_their_task():
    X, y, _, _ = noisy(T=24)
    (part,) = RandomSlopes(task=0, noise="task").fit(X, y).model_.maps
    G, b = part.equations.G, part.equations.b
    columns = np.stack([part.inverse.columns(t) for t in range(24)])
    np.testing.assert_allclose(np.einsum("tspq,sp->tq", columns, b), part.inverse.unknowns(b), atol=1e-9)
    p = G.shape[1]
    found = part.inverse.diagonal(np.arange(24), Scatter(np.ones(p), np.eye(p)))
    plain = np.einsum("tspq,spr,tsrk->tqk", columns, G, columns)
    np.testing.assert_allclose(found.noise, plain, atol=1e-9)
    np.testing.assert_allclose(found.whole.transpose(0, 2, 1), columns[np.arange(24), np.arange(24)], atol=1e-9)


def test_an_exact_fit_has_no_noise_to_tell_apart():
    rng = np.random.default_rng(1)
    X = np.column_stack([np.repeat(np.arange(24), 5), rng.normal(size=(120, 1))])
    model = RandomSlopes(task=0, noise="task").fit(X, 2 * X[:, 1] + X[:, 0])
    np.testing.assert_allclose(model.coef_, 2.0, atol=1e-6)


def test_weights_of_tasks_follow_them_when_tasks_come_go_and_are_stored(tmp_path):
    X, y, _, _ = noisy()
    model = RandomSlopes(task=0, noise="task").fit(X, y)
    load_again = load(model.save(tmp_path / "m.kin"))
    np.testing.assert_array_equal(load_again.predict(X), model.predict(X))
    np.testing.assert_array_equal(load_again.predict(X, return_std=True)[1], model.predict(X, return_std=True)[1])
    fewer = dropped(model.model_, np.arange(5))
    assert len(fewer.parts[0].coupling.weights) == 35
    more = adopted(fewer, model.model_.gram.select(np.arange(5)))
    weights = more.parts[0].coupling.weights
    np.testing.assert_array_equal(weights[:5], 1.0)
    np.testing.assert_array_equal(weights[5:], fewer.parts[0].coupling.weights)
