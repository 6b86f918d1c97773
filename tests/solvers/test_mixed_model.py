"""The mixed model against dense likelihoods, statsmodels and planted truth."""

import time
import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from kinfolk.methods.gamtl.calibrate import unit_of_levels
from kinfolk.rows.gram import GramStats
from kinfolk.solvers.mixed import likelihood, maximum, mixed_model

COVARIANCES = ("diagonal", "full")
CHOICES = [(covariance, intercept) for covariance in COVARIANCES for intercept in ("random", "free")]
TOL = 1e-5


def draw(T=12, n=15, d=2, sd=0.7, noise=1.0, seed=0):
    """Rows of T tasks whose slopes vary with `sd` about 1, and whose intercepts vary with 1 about 2."""
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(T), n)
    X = rng.normal(size=(T * n, d)) @ (np.eye(d) + 0.3)
    W = 1 + np.broadcast_to(sd, d) * rng.normal(size=(T, d))
    c = 2 + rng.normal(size=T)
    return X, (X * W[task]).sum(axis=1) + c[task] + noise * rng.normal(size=T * n), task


def fitted(rows, *, tol=TOL, **options):
    return mixed_model(GramStats.from_rows(*rows), tol=tol, **options)


def dense_random(rows, model, joint):
    """The marginal log-density of all rows, task by task, with the intercept at the average input."""
    X, y, task = rows
    Z = np.column_stack([X - X.mean(axis=0), np.ones(len(y))])
    mean = model.intercept_mean + X @ model.mean
    return sum(
        multivariate_normal.logpdf(
            y[task == t],
            mean[task == t],
            Z[task == t] @ joint @ Z[task == t].T + model.sigma2 * np.eye((task == t).sum()),
        )
        for t in np.unique(task)
    )


def dense_free(rows, model):
    """The log-density of orthonormal contrasts of every task's rows, which know nothing of its intercept."""
    X, y, task = rows
    total = 0.0
    for t in np.unique(task):
        Xt, yt = X[task == t], y[task == t]
        n = len(yt)
        contrasts = np.linalg.qr(np.column_stack([np.ones(n), np.eye(n)[:, 1:]]))[0][:, 1:].T
        A = contrasts @ Xt
        total += multivariate_normal.logpdf(
            contrasts @ yt, A @ model.mean, A @ model.covariance @ A.T + model.sigma2 * np.eye(n - 1)
        )
    return total


def mixed_lm(rows, covariance):
    """The log-likelihood by statsmodels, whether it converged, and how many warnings it gave."""
    mixed = pytest.importorskip("statsmodels.regression.mixed_linear_model")
    X, y, task = rows
    Z = np.column_stack([X - X.mean(axis=0), np.ones(len(y))])
    p = Z.shape[1]
    pattern = {"diagonal": mixed.MixedLMParams.from_components(np.ones(p), np.eye(p)), "full": None}[covariance]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = mixed.MixedLM(y, Z, task, exog_re=Z).fit(reml=False, free=pattern, method=["bfgs", "lbfgs"])
    return result.llf, result.converged, len(caught)


@pytest.mark.parametrize("intercept_sd", [0.0, 1e-9])
def test_levels_that_do_not_vary_have_a_hundredth_of_the_unit_of_slopes(intercept_sd):
    effects = fitted(draw(), intercept="random")
    flat = replace(effects, intercept_sd=intercept_sd)
    assert unit_of_levels(flat) == pytest.approx(0.01 * (effects.relevance * effects.scale).max())
    assert unit_of_levels(replace(effects, intercept_sd=7.0)) == 7.0


def test_log_likelihood_with_random_intercepts_is_the_dense_marginal_density():
    rows = draw()
    model = fitted(rows, covariance="diagonal")
    joint = np.diag([*model.relevance**2, model.intercept_sd**2])
    np.testing.assert_allclose(model.history[-1], dense_random(rows, model, joint), rtol=1e-10)


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_log_likelihood_with_free_intercepts_is_the_dense_density_of_contrasts(covariance):
    rows = draw(seed=3)
    model = fitted(rows, covariance=covariance, intercept="free")
    np.testing.assert_allclose(model.history[-1], dense_free(rows, model), rtol=1e-10)


@pytest.mark.parametrize("costs", [0, likelihood.BLOCK_COSTS])
def test_tasks_of_few_rows_beside_a_long_one_have_the_dense_density(costs, monkeypatch):
    """Matrices are as large as the rank of a task: of two to four rows beside 4 features, and of forty."""
    monkeypatch.setattr(likelihood, "BLOCK_COSTS", costs)
    X, y, task = draw(T=20, n=40, d=4, seed=3)
    row = np.tile(np.arange(40), 20)
    some = (row < 2 + task % 3) | (task == 7)
    rows = X[some], y[some], task[some]
    model = fitted(rows, covariance="diagonal", intercept="free")
    np.testing.assert_allclose(model.history[-1], dense_free(rows, model), rtol=1e-9)


def test_predicted_coefficients_are_the_conditional_means():
    X, y, task = draw(n=4, d=3)
    model = fitted((X, y, task))
    prior = np.diag([*model.relevance**2, model.intercept_sd**2])
    Z = np.column_stack([X - X.mean(axis=0), np.ones(len(y))])
    e = y - model.intercept_mean - X @ model.mean
    for t in range(12):
        Zt = Z[task == t]
        u = prior @ Zt.T @ np.linalg.solve(Zt @ prior @ Zt.T + model.sigma2 * np.eye(4), e[task == t])
        np.testing.assert_allclose(model.coef[t], model.mean + u[:3], atol=1e-9)
        np.testing.assert_allclose(model.intercept[t], model.intercept_mean + u[3] - X.mean(axis=0) @ u[:3], atol=1e-9)


@pytest.mark.parametrize("covariance", COVARIANCES)
@pytest.mark.parametrize(("d", "sd", "seed"), [(1, 1.0, 0), (2, 0.7, 1), (2, 0.7, 2)])
def test_agrees_with_statsmodels_where_that_converges(covariance, d, sd, seed):
    rows = draw(d=d, sd=sd, seed=seed)
    reference, converged, _ = mixed_lm(rows, covariance)
    assert converged
    np.testing.assert_allclose(fitted(rows, covariance=covariance).history[-1], reference, atol=1e-3)


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_converges_to_a_higher_likelihood_where_statsmodels_gives_up_on_zero_variances(covariance):
    rows = draw(d=2, sd=0.0, seed=0)
    reference, converged, n_warnings = mixed_lm(rows, covariance)
    model = fitted(rows, covariance=covariance)
    assert not converged
    assert n_warnings > 0
    assert model.converged
    assert model.history[-1] > reference + 1.0


@pytest.mark.parametrize(("covariance", "intercept"), CHOICES)
def test_log_likelihood_never_falls(covariance, intercept):
    model = fitted(draw(T=20, n=8, d=6, sd=[0.0, 0.0, 1.0, 1.0, 0.3, 0.3]), covariance=covariance, intercept=intercept)
    assert model.converged
    assert np.diff(model.history).min() >= -1e-12 * abs(model.history[-1])


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_no_small_change_of_the_parameters_raises_the_dense_likelihood(covariance):
    """EM and L-BFGS stop at a maximum, seen from outside: scaling Sigma or sigma2 by 3 % loses likelihood."""
    rows = draw(d=2, seed=5)
    model = fitted(rows, covariance=covariance, intercept="free")
    best = dense_free(rows, model)
    for field in ("covariance", "sigma2", "mean"):
        for factor in (0.97, 1.03):
            changed = {**vars(model), field: getattr(model, field) * factor}
            assert dense_free(rows, type(model)(**changed)) < best


def test_recovers_planted_standard_deviations():
    truth = np.array([2.0, 1.0, 0.3, 0.0])
    model = fitted(draw(T=600, n=20, d=4, sd=truth, noise=0.5, seed=7))
    np.testing.assert_allclose(model.relevance, truth, atol=0.12)
    np.testing.assert_allclose([model.intercept_sd, model.sigma2], [1.0, 0.25], rtol=0.1)
    np.testing.assert_allclose(model.mean, 1.0, atol=0.3)


def test_recovers_a_planted_correlation():
    rng = np.random.default_rng(2)
    Sigma = np.array([[1.0, -0.8], [-0.8, 1.0]])
    task = np.repeat(np.arange(500), 10)
    X = rng.normal(size=(5000, 2))
    W = rng.multivariate_normal([3.0, 0.0], Sigma, size=500)
    model = fitted((X, (X * W[task]).sum(axis=1) + rng.normal(size=5000), task), covariance="full")
    np.testing.assert_allclose(model.covariance, Sigma, atol=0.12)


def test_variances_that_the_likelihood_drives_to_zero_are_exactly_zero():
    """With a true variance of zero the maximum lies on the boundary about every other time."""
    model = fitted(draw(T=30, n=30, d=7, sd=[1.0, *6 * [0.0]], seed=11))
    common = model.relevance == 0.0
    assert 1 <= common.sum() <= 6
    np.testing.assert_allclose(model.coef[:, common], np.tile(model.mean[common], (30, 1)), rtol=1e-12)


@pytest.mark.parametrize(("covariance", "intercept"), CHOICES)
def test_units_of_features_and_target_do_not_matter(covariance, intercept):
    X, y, task = draw(d=3, seed=1)
    unit, target = np.array([1e5, 1.0, 1e-4]), 1e3
    one = fitted((X, y, task), covariance=covariance, intercept=intercept)
    two = fitted((X * unit + 7, y * target - 5, task), covariance=covariance, intercept=intercept)
    np.testing.assert_allclose(two.coef * unit / target, one.coef, rtol=100 * TOL, atol=100 * TOL)
    np.testing.assert_allclose(two.relevance * unit / target, one.relevance, rtol=100 * TOL, atol=100 * TOL)


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_the_root_whitens_the_covariance(covariance):
    model = fitted(draw(T=40, d=3, sd=[2.0, 1.0, 0.5], seed=4), covariance=covariance)
    M = np.linalg.inv(model.root(floor=0.0))
    np.testing.assert_allclose(M @ model.covariance @ M.T, np.eye(3), atol=1e-8)


def test_the_root_has_a_floor_in_scale_free_units():
    model = fitted(draw(T=30, n=30, d=7, sd=[1.0, *6 * [0.0]], seed=11))
    weight = np.diagonal(model.root(floor=0.1)) * model.scale
    np.testing.assert_allclose(weight.max(), 10 * weight.min(), rtol=1e-10)


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_one_task_is_least_squares(covariance):
    X, y, task = draw(T=1, n=30, d=3)
    model = fitted((X, y, task), covariance=covariance)
    expected = np.linalg.lstsq(np.column_stack([X, np.ones(30)]), y)[0]
    np.testing.assert_allclose([*model.coef[0], model.intercept[0]], expected, rtol=1e-8)
    assert model.relevance.max() == 0.0


@pytest.mark.parametrize(("covariance", "intercept"), CHOICES)
@pytest.mark.parametrize(
    "case", ["few rows", "repeated column", "constant target", "constant inputs", "no noise", "two"]
)
def test_hard_cases_converge_to_finite_answers(case, covariance, intercept):
    X, y, task = draw(T=10, n=20, d=3)
    rows = {
        "few rows": draw(T=20, n=4, d=6),
        "repeated column": (np.column_stack([X, X[:, 0]]), y, task),
        "constant target": (X, np.full(len(y), 3.0), task),
        "constant inputs": (np.ones_like(X), y, task),
        "no noise": draw(T=10, n=20, d=3, noise=0.0),
        "two": draw(T=2),
    }[case]
    model = fitted(rows, covariance=covariance, intercept=intercept)
    assert model.converged
    assert np.isfinite([*model.coef.ravel(), *model.intercept, model.sigma2]).all()
    assert np.isfinite(model.root()).all()


def test_shared_inputs_take_the_short_way_to_the_same_answer():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(20, 3)), rng.normal(size=(20, 8)) + np.arange(8)
    wide = GramStats.from_rows(X, Y)
    one = mixed_model(wide, tol=TOL)
    nearly = wide.G * (1 + 1e-9 * np.arange(8))[:, None, None]
    two = mixed_model(type(wide)(wide.labels, wide.n, wide.x_mean, wide.y_mean, nearly, wide.b, wide.yy), tol=TOL)
    np.testing.assert_allclose(one.coef, two.coef, atol=1e-5)


def test_forty_two_tasks_of_nineteen_features_are_fast():
    gram = GramStats.from_rows(*draw(T=42, n=140, d=19, sd=np.linspace(0, 0.5, 19)))
    start = time.process_time()
    mixed_model(gram, tol=TOL)
    assert time.process_time() - start < 1.0  # measured 0.1 s on one quiet core


@pytest.mark.parametrize("intercept", ["random", "free"])
def test_many_tasks_by_scoring_reach_the_maximum_of_em_and_quasi_newton_steps(intercept, monkeypatch):
    rows = draw(T=1200, n=6, d=4, sd=(1.0, 0.3, 0.0, 0.0), noise=0.5, seed=5)
    scoring = fitted(rows, intercept=intercept, tol=1e-7)
    monkeypatch.setattr(maximum, "MANY", 10**9)
    steps = fitted(rows, intercept=intercept, tol=1e-7)
    assert scoring.converged and len(scoring.history) < len(steps.history) / 2
    assert (np.diff(scoring.history) >= 0).all()
    np.testing.assert_allclose(scoring.history[-1], steps.history[-1], rtol=1e-10)
    np.testing.assert_allclose(scoring.coef, steps.coef, atol=1e-5)


def test_free_intercepts_need_more_than_one_row_per_task():
    with pytest.raises(ValueError, match=r"no degrees of freedom: every task has at most 1 row"):
        fitted(draw(n=1), intercept="free")


def test_slopes_that_differ_by_less_than_targets_are_rounded_do_not_differ():
    rng = np.random.default_rng(0)
    X = 1e6 + rng.normal(size=(9, 1)) * [1.0, 1.0]  # two copies of a column, far from zero
    found = fitted((X, np.full(9, -2e6), np.repeat([0, 1], [4, 5])), covariance="full", intercept="free")
    assert (found.relevance == 0).all()
    assert 1e-2 < np.abs(found.root()).max() < 1e2  # distances in a metric of 1e-160 would overflow


def test_small_tasks_beside_a_large_one_have_levels_of_their_own():
    rng = np.random.default_rng(2)
    task = np.repeat(np.arange(3), (20_000, 2, 1))
    X = rng.normal(size=(len(task), 2))
    y = 2 * X[:, 0] + np.array([0.0, 1.0, 2.0])[task] + 0.1 * rng.normal(size=len(task))
    found = mixed_model(GramStats.from_rows(X, y, task), tol=TOL)
    assert (np.diff(found.history) >= -1e-6).all()
    assert np.allclose(found.intercept, [0.0, 1.0, 2.0], atol=0.3)


@pytest.mark.parametrize("size", [1e-8, 1e8])
def test_a_start_with_a_feature_that_never_varies_is_a_start_at_any_size(size):
    rng = np.random.default_rng(4)
    task = np.repeat(np.arange(12), 9)
    X = rng.normal(size=(108, 3)) * [1.0, size, 0.0]
    y = X[:, 0] * (1 + task / 9) + X[:, 1] / size + 0.1 * rng.normal(size=108)
    gram = GramStats.from_rows(X, y, task)
    near = mixed_model(gram, tol=TOL)
    started = mixed_model(gram, "full", tol=TOL, near=near)
    once = mixed_model(gram, "full", tol=TOL)
    assert len(started.history) < len(once.history)
    np.testing.assert_allclose(started.history[-1], once.history[-1], rtol=1e-6)
