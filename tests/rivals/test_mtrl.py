"""MTRL against a conic solver of ridge + squared trace norm, its certificate, and its limits."""

import cvxpy as cp
import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from kinfolk import GramStats
from kinfolk.baselines import MTRL
from kinfolk.datasets import make_groups
from kinfolk.rivals.mtrl import shrink_squared_trace_norm, task_covariance
from problems import gram, rows

TOL = 1e-6


def value(stats, W, ridge, coupling):
    """Ridge + squared trace norm, from statistics."""
    loss = (stats.yy - 2 * (stats.b * W).sum(axis=1) + np.einsum("ti,tij,tj->t", W, stats.G, W)) / stats.n
    return loss.sum() + ridge / 2 * (W**2).sum() + coupling / 2 * np.linalg.norm(W, "nuc") ** 2


def conic(X, y, task, ridge, coupling):
    """The optimal value from rows, by an interior point method."""
    T, d = task.max() + 1, X.shape[1]
    W = cp.Variable((T, d))
    loss = 0
    for t in range(T):
        x, target = X[task == t], y[task == t]
        loss += cp.sum_squares((x - x.mean(axis=0)) @ W[t] - (target - target.mean())) / len(x)
    penalty = ridge / 2 * cp.sum_squares(W) + coupling / 2 * cp.square(cp.norm(W, "nuc"))
    return cp.Problem(cp.Minimize(loss + penalty)).solve(solver=cp.CLARABEL)


@pytest.mark.parametrize(("T", "d"), [(1, 3), (2, 1), (6, 4), (4, 7)])
@pytest.mark.parametrize(("ridge", "coupling"), [(0.1, 0.01), (0.01, 1.0), (0.0, 0.1)])
def test_reaches_the_optimum_of_ridge_plus_squared_trace_norm(T, d, ridge, coupling):
    X, y, task = rows(seed=3, T=T, d=d)
    stats = GramStats.from_rows(X, y, task)
    model = MTRL(ridge=ridge, coupling=coupling).fit_gram(stats)
    best = conic(X, y, task, ridge, coupling)
    np.testing.assert_allclose(value(stats, model.coef_, ridge, coupling), best, rtol=1e-5)
    np.testing.assert_allclose(model.objective_history_[-1], best, rtol=1e-5)


def test_the_joint_objective_in_weights_and_covariance_is_the_reduced_one():
    stats = gram(T=5, d=8)
    model = MTRL(ridge=0.1, coupling=0.05).fit_gram(stats)
    W, Om = model.coef_, model.structure_.covariance
    joint = value(stats, W, 0.1, 0.0) + 0.05 / 2 * np.trace(W.T @ np.linalg.pinv(Om, rcond=1e-10) @ W)
    np.testing.assert_allclose(joint, value(stats, W, 0.1, 0.05), rtol=1e-9)


def test_no_covariance_of_trace_one_does_better_for_these_weights():
    model = MTRL(ridge=0.1, coupling=0.05).fit_gram(gram(T=5, d=8))
    W, Om = model.coef_, model.structure_.covariance
    np.testing.assert_allclose(np.trace(Om), 1.0)
    rng = np.random.default_rng(1)
    for _ in range(20):
        M = rng.normal(size=(5, 5))
        other = 0.9 * Om + 0.1 * M @ M.T / np.trace(M @ M.T)
        assert np.trace(W.T @ np.linalg.solve(other, W)) >= np.linalg.norm(W, "nuc") ** 2


def test_the_weights_solve_their_system_for_the_learned_covariance():
    stats, ridge, coupling = gram(T=4, d=6), 0.1, 0.02
    model = MTRL(ridge=ridge, coupling=coupling, tol=1e-10).fit_gram(stats)
    Om = model.structure_.covariance
    M = Om @ np.linalg.inv(ridge * Om + coupling * np.eye(4))
    pull = 2 * (stats.b - np.einsum("tij,tj->ti", stats.G, model.coef_)) / stats.n[:, None]
    np.testing.assert_allclose(M @ pull, model.coef_, atol=1e-4 * np.abs(model.coef_).max())
    assert model.optimality_["weights_residual"] < 1e-4


@pytest.mark.parametrize("seed", range(5))
def test_the_objective_never_rises_and_ends_with_a_certificate(seed):
    model = MTRL(ridge=0.01, coupling=0.01).fit_gram(gram(seed, T=9, d=5, n=(2, 8)))
    assert (np.diff(model.objective_history_) <= 0).all()
    assert model.converged_
    assert model.optimality_["duality_gap"] <= TOL


@pytest.mark.parametrize("n", [2, 3, 5])
@pytest.mark.parametrize("coupling", [1e-3, 1e-1])
def test_few_rows_and_many_features_do_not_blow_up(n, coupling):
    syn = make_groups(n, random_state=1)
    model = MTRL(task=syn.task, ridge=0.01, coupling=coupling).fit(syn.data, syn.target)
    assert model.converged_
    assert np.linalg.norm(model.coef_) < np.linalg.norm(syn.coef)
    assert np.linalg.eigvalsh(model.structure_.covariance).min() > -1e-12


def test_more_tasks_than_features_give_a_singular_covariance():
    model = MTRL(coupling=0.1).fit_gram(gram(T=12, d=3))
    assert np.linalg.matrix_rank(model.structure_.covariance, tol=1e-9) <= 3


def test_a_tiny_coupling_is_a_ridge_per_task():
    stats = gram(T=5, d=3)
    model = MTRL(ridge=0.2, coupling=1e-7, tol=1e-9).fit_gram(stats)
    H = 2 * stats.G / stats.n[:, None, None] + 0.2 * np.eye(3)
    own = np.linalg.solve(H, 2 * stats.b[:, :, None] / stats.n[:, None, None])[:, :, 0]
    np.testing.assert_allclose(model.coef_, own, atol=1e-4)


def test_a_strong_coupling_leaves_one_common_direction():
    model = MTRL(coupling=10.0).fit_gram(gram(T=6, d=4))
    assert np.linalg.matrix_rank(model.coef_, tol=1e-9) == 1


def test_copies_of_a_task_get_equal_weights_and_correlation_one():
    X, y, task = rows(T=3, d=4)
    again = task == 0
    table = np.column_stack([np.append(task, np.full(again.sum(), 3)), np.vstack([X, X[again]])])
    model = MTRL(task=0).fit(table, np.append(y, y[again]))
    np.testing.assert_allclose(model.coef_[0], model.coef_[3], atol=1e-8)
    np.testing.assert_allclose(model.structure_.correlation[0, 3], 1.0)


def test_opposite_tasks_are_anticorrelated():
    x = np.linspace(-1, 1, 9)[:, None]
    model = MTRL().fit(np.hstack([x, x**2]), np.hstack([2 * x, -2 * x]))
    np.testing.assert_allclose(model.structure_.correlation[0, 1], -1.0, atol=1e-6)


def test_constant_targets_give_zero_weights_and_no_preference_among_tasks():
    model = MTRL(task=0).fit(np.column_stack([[0, 0, 1, 1], [1.0, 2.0, 3.0, 5.0]]), [4.0, 4.0, 7.0, 7.0])
    np.testing.assert_array_equal(model.coef_, 0.0)
    np.testing.assert_allclose(model.intercept_, [4.0, 7.0])
    np.testing.assert_allclose(model.structure_.covariance, np.eye(2) / 2)


def test_the_scale_of_the_target_scales_the_weights():
    X, y, task = rows()
    one, two = (MTRL(tol=1e-9).fit_gram(GramStats.from_rows(X, s * y, task)) for s in (1.0, 1e3))
    np.testing.assert_allclose(two.coef_, 1e3 * one.coef_, rtol=1e-3, atol=1e-2)
    np.testing.assert_allclose(two.structure_.covariance, one.structure_.covariance, atol=1e-5)


def test_relabelling_tasks_permutes_the_results():
    X, y, task = rows(T=6)
    other = np.array([3, 0, 5, 1, 4, 2])
    one = MTRL(task=0, tol=1e-9).fit(np.column_stack([task, X]), y)
    two = MTRL(task=0, tol=1e-9).fit(np.column_stack([other[task], X]), y)
    np.testing.assert_allclose(two.coef_[other], one.coef_, atol=1e-4)
    np.testing.assert_allclose(two.structure_.covariance[np.ix_(other, other)], one.structure_.covariance, atol=1e-4)


def test_a_task_without_targets_is_predicted_by_the_population_and_related_to_none():
    X, y, task = rows(T=4)
    model = MTRL(task=0).fit(np.column_stack([task, X]), np.where(task == 2, np.nan, y))
    np.testing.assert_allclose(model.coef_[2], model.population_coef_)
    np.testing.assert_array_equal(model.structure_.correlation[2], [0.0, 0.0, 1.0, 0.0])


def test_proximal_step_minimises_its_function():
    rng = np.random.default_rng(2)
    V, c = rng.normal(size=(4, 3)), 0.3
    W = cp.Variable((4, 3))
    best = cp.Problem(cp.Minimize(cp.sum_squares(W - V) / 2 + c / 2 * cp.square(cp.norm(W, "nuc"))))
    best.solve(solver=cp.CLARABEL)
    np.testing.assert_allclose(shrink_squared_trace_norm(V, c), W.value, atol=1e-5)


def test_the_covariance_squares_to_the_products_of_the_weights():
    W = np.random.default_rng(3).normal(size=(5, 3))
    Om = task_covariance(W) * np.linalg.norm(W, "nuc")
    np.testing.assert_allclose(Om @ Om, W @ W.T, atol=1e-12)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"ridge": -1.0}, "ridge=-1.0 must be at least 0 and finite"),
        ({"coupling": 0.0}, "coupling=0.0 must be greater than 0 and finite: without coupling use Independent"),
    ],
)
def test_bad_parameters_are_named(parameters, message):
    with pytest.raises(ValueError, match=message):
        MTRL(**parameters).fit_gram(gram())


def test_too_few_steps_warn_with_remedies():
    with pytest.warns(
        ConvergenceWarning, match="stopped after 2 steps .duality gap .* Scale the features, raise ridge, max_iter"
    ):
        MTRL(max_iter=2).fit_gram(gram())
