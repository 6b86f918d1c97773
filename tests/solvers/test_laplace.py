"""Laplace's approximation against a plain reference, quadrature, finite differences, and limits that are known."""

import time
from itertools import product

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, gammaln, log_expit, logsumexp, roots_hermitenorm
from scipy.stats import binom, gamma, poisson

from kinfolk.rows.families import FAMILIES
from kinfolk.solvers.mixed import laplace
from kinfolk.solvers.mixed.laplace import _evaluated, _Problem

NAMES = ("binomial", "poisson", "gamma")
TRIALS = 3
TOL = 1e-6


def draw(family, T=12, n=7, sd=0.7, seed=0):
    """Rows of T tasks with two features, of which the second has slopes by task: X, y, task, weight, offset, random."""
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(T), n)
    X = rng.normal(size=(T * n, 2)) + np.arange(2.0)
    effects = sd * rng.normal(size=(T, 2))
    offset = np.linspace(-0.3, 0.3, T * n)
    eta = offset - 0.3 + X @ [0.5, -0.4] + X[:, 1] * effects[task, 0] + effects[task, 1]
    targets = {
        "binomial": lambda: rng.binomial(TRIALS, expit(eta)) / TRIALS,
        "poisson": lambda: rng.poisson(np.exp(eta)).astype(float),
        "gamma": lambda: rng.gamma(3.0, np.exp(eta) / 3),
    }
    weight = np.full(T * n, float(TRIALS) if family == "binomial" else 1.0)
    return X, targets[family](), task, weight, offset, np.array([False, True])


def fitted(data, family, **options):
    X, y, task, weight, offset, random = data
    return laplace(X, y, task, FAMILIES[family], weight=weight, offset=offset, random=random, **options)


def means(model, X, task, offset=0.0):
    """Of the targets, at the modes."""
    W, c = model.conditional
    return model.family.mean(np.einsum("nd,nd->n", X, W[task]) + c[task] + offset)


def log_density(family, y, eta, weight, dispersion):
    """Row by row, from the formulas of the three distributions."""
    if family == "binomial":
        orders = gammaln(weight + 1) - gammaln(weight * y + 1) - gammaln(weight * (1 - y) + 1)
        return orders + weight * (y * log_expit(eta) + (1 - y) * log_expit(-eta))
    if family == "poisson":
        return weight * (y * eta - np.exp(eta) - gammaln(y + 1))
    shape = weight / dispersion
    return shape * (np.log(shape) - eta) - gammaln(shape) + (shape - 1) * np.log(y) - shape * y * np.exp(-eta)


def derivatives(family, y, eta, weight, dispersion):
    """Of the log density: the first, and minus the second."""
    if family == "binomial":
        mean = expit(eta)
        return weight * (y - mean), weight * mean * (1 - mean)
    if family == "poisson":
        return weight * (y - np.exp(eta)), weight * np.exp(eta)
    ratio = y * np.exp(-eta) * weight / dispersion
    return ratio - weight / dispersion, ratio


def dense(data, family, beta, intercept, sd, dispersion=1.0):
    """Laplace's approximation written out: one task at a time, its modes by plain Newton steps with halving."""
    X, y, task, weight, offset, random = data
    Z = np.column_stack([X[:, random], np.ones(len(y))])
    total = 0.0
    for t in np.unique(task):
        here = task == t
        z = Z[here] * sd
        fixed = offset[here] + X[here] @ beta + intercept

        def h(b, here=here, z=z, fixed=fixed):
            return log_density(family, y[here], fixed + z @ b, weight[here], dispersion).sum() - b @ b / 2

        b = np.zeros(len(sd))
        for _ in range(60):
            r, W = derivatives(family, y[here], fixed + z @ b, weight[here], dispersion)
            H = np.eye(len(sd)) + z.T @ (W[:, None] * z)
            step = np.linalg.solve(H, z.T @ r - b)
            while h(b + step) < h(b) - 1e-12 * abs(h(b)):
                step = step / 2
            b = b + step
        total += h(b) - np.linalg.slogdet(H)[1] / 2
    return total


def quadrature(data, family, beta, intercept, sd, nodes=25, dispersion=1.0):
    """The log-likelihood with random levels, by adaptive Gauss-Hermite quadrature."""
    X, y, task, weight, offset, _ = data
    x, w = roots_hermitenorm(nodes)
    grid = np.linspace(-8, 8, 2001)
    total = 0.0
    for t in np.unique(task):
        here = task == t
        fixed = offset[here] + X[here] @ beta + intercept

        def h(b, here=here, fixed=fixed):
            eta = fixed[:, None] + sd * np.atleast_1d(b)
            rows = log_density(family, y[here][:, None], eta, weight[here][:, None], dispersion)
            return rows.sum(axis=0) - np.atleast_1d(b) ** 2 / 2

        density = np.exp(h(grid) - h(grid).max())
        centre = grid @ density / density.sum()
        width = np.sqrt((grid - centre) ** 2 @ density / density.sum())
        at = centre + width * x
        total += logsumexp(h(at) + x**2 / 2, b=w * width / np.sqrt(2 * np.pi))
    return total


def own(model):
    """The parameters that the reference takes."""
    sd = np.sqrt([*model.variances, model.intercept_variance])
    return model.beta, model.intercept, sd, model.dispersion


def test_densities_of_the_reference_are_those_of_scipy():
    eta = np.array([-0.5, 1.0])
    weight = np.array([4.0, 2.0])
    np.testing.assert_allclose(
        log_density("binomial", np.array([0.25, 1.0]), eta, weight, 1), binom.logpmf([1, 2], [4, 2], expit(eta))
    )
    np.testing.assert_allclose(
        log_density("poisson", np.array([0.0, 5.0]), eta, np.ones(2), 1), poisson.logpmf([0, 5], np.exp(eta))
    )
    np.testing.assert_allclose(
        log_density("gamma", np.array([0.2, 3.0]), eta, weight, 2.0),
        gamma.logpdf([0.2, 3.0], weight / 2, scale=np.exp(eta) * 2 / weight),
    )


@pytest.mark.parametrize("family", NAMES)
def test_the_log_likelihood_is_that_of_a_plain_reference(family):
    data = draw(family)
    model = fitted(data, family)
    assert model.converged
    np.testing.assert_allclose(model.loglik, dense(data, family, *own(model)), rtol=1e-9)


@pytest.mark.parametrize("family", NAMES)
def test_a_general_optimiser_finds_no_higher_likelihood_of_the_reference(family):
    data = draw(family, T=8, n=5)
    model = fitted(data, family)
    free = family == "gamma"

    def deviance(x):
        return -dense(data, family, x[:2], x[2], x[3:5], np.exp(x[5]) if free else 1.0)

    start = np.array([0.0, 0.0, 0.0, 0.5, 0.5, -1.0][: 5 + free])
    best = minimize(deviance, start, method="BFGS", options={"gtol": 1e-5})
    np.testing.assert_allclose(model.loglik, -best.fun, atol=1e-5)
    np.testing.assert_allclose([*model.beta, model.intercept], best.x[:3], atol=2e-3)


@pytest.mark.parametrize(("family", "zero"), list(product(NAMES, [False, True])))
def test_the_gradient_is_that_of_finite_differences(family, zero):
    X, y, task, weight, offset, random = draw(family)
    Z = np.column_stack([X[:, random], np.ones(len(y))])
    problem = _Problem.of(X, Z, offset, task, (FAMILIES[family], y, weight))
    x = np.array([0.3, -0.2, 0.4, 0.0 if zero else 0.4, -0.8, 0.5])[: 5 + (family == "gamma")]
    steps = 1e-5 * np.eye(len(x))
    numeric = [(_evaluated(problem, x + e).value - _evaluated(problem, x - e).value) / 2e-5 for e in steps]
    np.testing.assert_allclose(_evaluated(problem, x).slope, numeric, rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("family", NAMES)
def test_at_zero_a_variance_has_the_derivative_of_a_small_one(family):
    X, y, task, weight, offset, random = draw(family)
    Z = np.column_stack([X[:, random], np.ones(len(y))])
    problem = _Problem.of(X, Z, offset, task, (FAMILIES[family], y, weight))
    x = np.array([0.3, -0.2, 0.4, 0.0, 0.8, 0.5])[: 5 + (family == "gamma")]
    small = 1e-6
    numeric = (_evaluated(problem, x + np.sqrt(small) * np.eye(len(x))[3]).value - _evaluated(problem, x).value) / small
    np.testing.assert_allclose(_evaluated(problem, x).rise[0], numeric, rtol=1e-3)


@pytest.mark.parametrize("family", NAMES)
def test_what_is_maximised_never_falls(family):
    history = fitted(draw(family), family).history
    assert len(history) > 3
    assert (np.diff(history) >= -1e-9 * np.abs(history[0])).all()


@pytest.mark.parametrize(("family", "error"), [("binomial", 0.02), ("poisson", 0.01)])
def test_the_error_of_the_approximation_is_small_beside_quadrature(family, error):
    X, y, task, weight, offset, _ = data = draw(family, T=40, n=6)
    model = laplace(X, y, task, FAMILIES[family], weight=weight, offset=offset)
    exact = quadrature(data, family, model.beta, model.intercept, np.sqrt(model.intercept_variance))
    assert 1e-8 < abs(exact - model.loglik) / 40 < error

    def deviance(x):
        return -quadrature(data, family, x[:2], x[2], x[3])

    x = minimize(deviance, [*model.beta, model.intercept, 1.0], options={"gtol": 1e-4}).x
    np.testing.assert_allclose(model.beta, x[:2], atol=0.02)
    np.testing.assert_allclose(np.sqrt(model.intercept_variance), abs(x[3]), rtol=0.1)


def test_quadrature_of_the_test_is_exact_for_one_trial_in_closed_form():
    """One binary row at its centre: half, whatever the variance."""
    data = (np.zeros((1, 1)), np.ones(1), np.zeros(1, int), np.ones(1), np.zeros(1), None)
    np.testing.assert_allclose(quadrature(data, "binomial", np.zeros(1), 0.0, 1.5), np.log(0.5), rtol=1e-6)


def plain_fit(data, family):
    """The same model without tasks, by a general optimiser."""
    X, y, _, weight, offset, _ = data

    def deviance(x):
        return -log_density(family, y, offset + X @ x[:2] + x[2], weight, 1.0).sum()

    return minimize(deviance, np.zeros(3), method="BFGS", options={"gtol": 1e-8})


@pytest.mark.parametrize("family", ["binomial", "poisson"])
def test_tasks_that_do_not_differ_have_variances_of_exactly_zero(family):
    X, y, task, weight, offset, random = draw(family, T=30, n=10, sd=0.0, seed=3)
    order = np.argsort(y - means(fitted((X, y, 0 * task, weight, offset, random), family), X, 0 * task, offset))
    alike = np.empty_like(task)
    alike[order] = np.arange(len(y)) % 30  # residuals of all sizes in every task: less than chance
    data = (X, y, alike, weight, offset, random)
    model = fitted(data, family)
    assert model.converged
    assert model.variances[0] == 0
    assert model.intercept_variance == 0
    assert (model.u == 0).all()
    assert (model.v == 0).all()
    plain = plain_fit(data, family)
    np.testing.assert_allclose([*model.beta, model.intercept], plain.x, atol=1e-4)
    np.testing.assert_allclose(model.loglik, -plain.fun, rtol=1e-9)


@pytest.mark.parametrize("family", NAMES)
def test_one_task_is_the_model_without_tasks(family):
    X, y, task, weight, offset, random = draw(family)
    model = fitted((X, y, 0 * task, weight, offset, random), family)
    assert model.converged
    assert model.intercept_variance == 0
    assert (model.variances == 0).all()


@pytest.mark.parametrize("family", NAMES)
def test_tasks_of_one_row_are_fitted(family):
    X, y, task, weight, offset, random = draw(family, T=300, n=1)
    model = fitted((X, y, task, weight, offset, random), family)
    assert model.converged
    np.testing.assert_allclose(model.loglik, dense((X, y, task, weight, offset, random), family, *own(model)))


def test_a_task_of_zeros_alone_has_a_finite_level_below_that_of_all():
    X, y, task, *_ = draw("binomial", T=20)
    y = np.where(task == 4, 0.0, np.round(y))
    model = laplace(X, y, task, FAMILIES["binomial"])
    assert model.converged
    assert -10 < model.v[4] < 0
    assert model.v[4] == model.v.min()


@pytest.mark.parametrize(("family", "value"), [("binomial", 0.0), ("binomial", 1.0), ("poisson", 0.0)])
def test_targets_of_one_value_alone_have_a_finite_fit(family, value):
    X, y, task, *_ = draw(family)
    model = laplace(X, np.full_like(y, value), task, FAMILIES[family], random=np.array([True, True]))
    assert model.converged
    np.testing.assert_allclose(means(model, X, task), value, atol=1e-4)
    assert abs(model.intercept) < 30


def separated(task, X):
    return {
        "by a column": X[:, 0] > 0,
        "by the task": task % 2 == 0,
        "by slopes that differ": (X[:, 0] > 0) ^ (task % 2 == 0),
    }


def test_classes_that_a_column_separates_have_a_finite_certified_fit():
    X, _, task, *_ = draw("binomial", T=30, n=10)
    y = separated(task, X)["by a column"].astype(float)
    model = laplace(X, y, task, FAMILIES["binomial"], random=np.array([True, False]))
    assert model.converged
    assert model.holds
    assert ((means(model, X, task) > 0.5) == (y > 0.5)).all()


@pytest.mark.parametrize("how", ["by the task", "by slopes that differ"])
def test_a_search_stops_where_the_approximation_is_none(how):
    X, _, task, *_ = draw("binomial", T=30, n=10)
    y = separated(task, X)[how].astype(float)
    model = laplace(X, y, task, FAMILIES["binomial"], random=np.array([True, False]))
    assert not model.holds
    assert np.isfinite([*model.beta, model.intercept, *model.variances, model.intercept_variance]).all()
    assert ((means(model, X, task) > 0.5) == (y > 0.5)).mean() > 0.95
    assert len(model.history) < 30


def test_more_effects_than_rows_are_found_out():
    """Five rows and nine effects per task: the likelihood becomes that of a perfect fit, far above its bound."""
    rng = np.random.default_rng(1)
    task = np.repeat(np.arange(30), 5)
    X = rng.normal(size=(150, 8))
    y = (rng.random(150) < expit(X @ rng.normal(size=8) * 2)).astype(float)
    found = [laplace(X, y, task, FAMILIES["binomial"], random=np.full(8, some)) for some in (True, False)]
    assert [model.holds for model in found] == [False, True]


@pytest.mark.parametrize("family", NAMES)
def test_the_lower_bound_is_below_the_likelihood_by_quadrature(family):
    X, y, task, weight, offset, _ = draw(family, T=20, n=6)
    data = (X, y, task, weight, offset, np.zeros(2, bool))
    model = fitted(data, family)
    sd = np.sqrt(model.intercept_variance)
    exact = quadrature(data, family, model.beta, model.intercept, sd, dispersion=model.dispersion)
    bound = model.loglik - 20 * model.above_bound
    assert exact - 20 * 0.2 < bound < exact


def test_weights_of_counts_are_rows_that_repeat():
    X, y, task, _, offset, random = draw("poisson")
    times = np.arange(len(y)) % 3 + 1
    weighted = fitted((X, y, task, times.astype(float), offset, random), "poisson")
    parts = [np.repeat(part, times, axis=0) for part in (X, y, task, np.ones(len(y)), offset)]
    repeated = fitted((*parts, random), "poisson")
    np.testing.assert_allclose(weighted.loglik, repeated.loglik, rtol=1e-9)
    np.testing.assert_allclose(weighted.beta, repeated.beta, atol=1e-6)


def test_trials_of_a_share_are_as_many_rows_but_for_the_orders_they_may_come_in():
    X, y, task, weight, offset, random = data = draw("binomial")
    shares = fitted(data, "binomial")
    hits = np.round(weight * y).astype(int)
    single = np.concatenate([[1.0] * k + [0.0] * (TRIALS - k) for k in hits])
    parts = [np.repeat(part, TRIALS, axis=0) for part in (X, task, offset)]
    rows = fitted((parts[0], single, parts[1], np.ones(len(single)), parts[2], random), "binomial")
    orders = np.log([1.0, 3.0, 3.0, 1.0])[hits].sum()
    np.testing.assert_allclose(shares.loglik, rows.loglik + orders, rtol=1e-9)
    np.testing.assert_allclose(shares.v, rows.v, atol=1e-6)


def test_an_offset_of_all_rows_moves_the_intercept_alone():
    X, y, task, weight, offset, random = draw("poisson")
    model = fitted((X, y, task, weight, offset, random), "poisson")
    moved = fitted((X, y, task, weight, offset + 3, random), "poisson")
    np.testing.assert_allclose(moved.intercept, model.intercept - 3, atol=1e-4)
    np.testing.assert_allclose(moved.loglik, model.loglik, rtol=1e-7)


@pytest.mark.parametrize("level", [np.log(1e6), np.log(1e9)])
def test_huge_counts_are_fitted_to_the_last_digits_that_they_have(level):
    rng = np.random.default_rng(1)
    task = np.repeat(np.arange(50), 10)
    X = rng.normal(size=(500, 2))
    v = 0.3 * rng.normal(size=50)
    y = rng.poisson(np.exp(level + X @ [0.1, -0.1] + v[task])).astype(float)
    model = laplace(X, y, task, FAMILIES["poisson"])
    assert model.converged
    np.testing.assert_allclose(model.beta, [0.1, -0.1], atol=1e-3)
    np.testing.assert_allclose(model.conditional[1] - level, v, atol=1e-2)


def test_units_and_order_of_columns_and_tasks_do_not_matter():
    X, y, task, weight, offset, random = data = draw("binomial")
    model = fitted(data, "binomial")
    units = np.array([1e4, 1e-5])
    other = np.random.default_rng(0).permutation(len(y))
    renamed = 11 - task
    moved = (X * units, y, renamed, weight, offset, random)
    again = fitted((*(part[other] for part in moved[:-1]), random), "binomial")
    np.testing.assert_allclose(again.loglik, model.loglik, rtol=1e-9)
    np.testing.assert_allclose(again.beta * units, model.beta, atol=1e-5)
    np.testing.assert_allclose(again.v[::-1], model.v, atol=1e-4)
    np.testing.assert_allclose(again.variances * units[1] ** 2, model.variances, rtol=1e-3)


def test_columns_that_repeat_or_never_vary_change_nothing():
    X, y, task, weight, offset, _ = data = draw("binomial")
    model = fitted(data, "binomial")
    wide = np.column_stack([X, X[:, 0], np.full(len(y), 3.0)])
    again = laplace(
        wide, y, task, FAMILIES["binomial"], weight=weight, offset=offset, random=np.array([False, True, False, False])
    )
    np.testing.assert_allclose(again.loglik, model.loglik, rtol=1e-8)
    np.testing.assert_allclose(means(again, wide, task, offset), means(model, X, task, offset), atol=1e-4)


def test_a_number_without_rows_is_a_task_of_average_effects():
    X, y, task, weight, offset, random = data = draw("binomial")
    model = fitted((X, y, task + (task > 3), weight, offset, random), "binomial")
    assert model.v[4] == 0
    np.testing.assert_allclose(
        model.covariance(np.array([4]))[0], np.diag([*model.variances, model.intercept_variance])
    )
    np.testing.assert_allclose(np.delete(model.v, 4), fitted(data, "binomial").v)


def test_covariances_are_inverses_of_the_curvature_of_each_task():
    X, y, task, weight, offset, random = data = draw("binomial")
    model = fitted(data, "binomial")
    here = task == 3
    Z = np.column_stack([X[here][:, random], np.ones(here.sum())])
    _, W = derivatives("binomial", y[here], np.log(1 / (1 / means(model, X, task, offset)[here] - 1)), weight[here], 1)
    prior = np.diag([*model.variances, model.intercept_variance])
    expected = np.linalg.inv(Z.T @ (W[:, None] * Z) + np.linalg.inv(prior))
    np.testing.assert_allclose(model.covariance(np.array([3]))[0], expected, rtol=1e-6)


def linear_mixed_model(data, model):
    """Effects (T, k) and fixed effects of the mixed model of numbers with the working targets, solved densely."""
    X, _, task, _, offset, random = data
    z = model.response - offset
    X1 = np.column_stack([X, np.ones(len(z))])
    Z = np.column_stack([X[:, random], np.ones(len(z))])
    T = len(model.v)
    joint = np.zeros((len(z), T * Z.shape[1]))
    for i, t in enumerate(task):
        joint[i, t * Z.shape[1] : (t + 1) * Z.shape[1]] = Z[i]
    prior = np.tile([*model.variances, model.intercept_variance], T)
    V = np.diag(model.dispersion / model.weight) + (joint * prior) @ joint.T
    fixed = np.linalg.solve(X1.T @ np.linalg.solve(V, X1), X1.T @ np.linalg.solve(V, z))
    return (prior * (joint.T @ np.linalg.solve(V, z - X1 @ fixed))).reshape(T, -1), fixed


@pytest.mark.parametrize("family", NAMES)
def test_the_mixed_model_of_the_working_targets_has_the_same_fixed_effects(family):
    data = draw(family)
    model = fitted(data, family, tol=1e-9)
    _, fixed = linear_mixed_model(data, model)
    np.testing.assert_allclose(fixed, [*model.beta, model.intercept], atol=1e-4)


def posterior_means(data, family, model):
    """Of random levels given the rows, by sums over a fine grid."""
    X, y, task, weight, offset, _ = data
    u = np.linspace(-8, 8, 4001) * np.sqrt(model.intercept_variance)
    found = []
    for t in np.unique(task):
        here = task == t
        eta = (offset[here] + X[here] @ model.beta + model.intercept)[:, None] + u
        h = log_density(family, y[here][:, None], eta, weight[here][:, None], model.dispersion).sum(axis=0)
        density = np.exp(h - u**2 / (2 * model.intercept_variance) - h.max())
        found.append(u @ density / density.sum())
    return np.array(found)


@pytest.mark.parametrize("family", NAMES)
def test_its_random_effects_are_nearer_to_the_means_than_the_modes_are(family):
    X, y, task, weight, offset, _ = draw(family, T=40, n=6)
    data = (X, y, task, weight, offset, np.zeros(2, bool))
    model = fitted(data, family)
    effects, _ = linear_mixed_model(data, model)
    means = posterior_means(data, family, model)
    assert np.abs(effects[:, 0] - means).mean() < 0.5 * np.abs(model.v - means).mean()


def test_errors_of_fixed_effects_are_those_of_repeated_draws():
    draws = [fitted(draw("binomial", T=20, n=10, seed=seed), "binomial") for seed in range(60)]
    effects = np.array([[*model.beta, model.intercept] for model in draws])
    told = np.mean([np.diagonal(model.fixed_covariance) for model in draws], axis=0)
    np.testing.assert_allclose(np.sqrt(told), effects.std(axis=0), rtol=0.25)


def test_an_exact_fit_of_amounts_ends_at_the_least_dispersion():
    X, _, task, *_ = draw("gamma")
    model = laplace(X, np.exp(X @ [0.5, -0.5] + np.sin(task)), task, FAMILIES["gamma"])
    assert model.dispersion < 1e-6
    np.testing.assert_allclose(model.beta, [0.5, -0.5], atol=1e-4)


def test_a_hundred_thousand_tasks_take_seconds():
    rng = np.random.default_rng(0)
    T = 125_000
    task = np.repeat(np.arange(T), 4)
    X = rng.normal(size=(4 * T, 2))
    y = (rng.random(4 * T) < expit(-0.5 + X @ [0.5, -0.3] + rng.normal(size=T)[task])).astype(float)
    started = time.process_time()
    model = laplace(X, y, task, FAMILIES["binomial"])
    assert time.process_time() - started < 8
    assert model.converged
    np.testing.assert_allclose(model.beta, [0.5, -0.3], atol=0.02)
