"""The graphical lasso against scikit-learn, against its optimality conditions, and in its limits."""

import numpy as np
import pytest
from sklearn.covariance import graphical_lasso as reference

from kinfolk.rivals.solvers.graphical_lasso import gap_per_variable, graphical_lasso, objective


def covariance(T, d, seed=0, spread=0.5):
    """W W'/d for W with common factors and rows of unequal size; singular if d < T."""
    rng = np.random.default_rng(seed)
    W = rng.normal(size=(T, d)) + rng.normal(size=(T, 2)) @ rng.normal(size=(2, d))
    W *= np.exp(spread * rng.normal(size=(T, 1)))
    return W @ W.T / d


@pytest.mark.parametrize(("T", "d", "penalty"), [(2, 9, 0.1), (6, 30, 0.05), (12, 8, 0.3), (15, 40, 0.6)])
def test_equals_scikit_learn(T, d, penalty):
    S = covariance(T, d)
    _, expected = reference(S, alpha=penalty, tol=1e-9, enet_tol=1e-11, max_iter=5000)
    found = graphical_lasso(S, penalty, penalise_diagonal=False, tol=1e-10)
    np.testing.assert_allclose(found.value, expected, atol=1e-4 * np.abs(expected).max())
    assert found.converged


def test_a_penalised_diagonal_is_a_larger_variance():
    S = covariance(8, 5)
    _, expected = reference(S + 0.2 * np.eye(8), alpha=0.2, tol=1e-9, enet_tol=1e-11, max_iter=5000)
    found = graphical_lasso(S, 0.2, penalise_diagonal=True, tol=1e-10).value
    np.testing.assert_allclose(found, expected, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize("T", [1, 5, 30])
@pytest.mark.parametrize("penalty", [0.03, 0.3])
def test_optimality_conditions_hold(T, penalty):
    S = covariance(T, 12)
    Om = graphical_lasso(S, penalty, penalise_diagonal=True, tol=1e-11).value
    slack = np.linalg.inv(Om) - S
    assert np.abs(slack).max() <= penalty * (1 + 1e-4)
    active = Om != 0
    np.testing.assert_allclose(slack[active], penalty * np.sign(Om[active]), atol=1e-3 * penalty)


def test_a_solution_of_a_similar_problem_shortens_the_way():
    S = covariance(20, 30)
    near = graphical_lasso(S, 0.1, penalise_diagonal=True)
    warm = graphical_lasso(1.001 * S, 0.1, penalise_diagonal=True, start=near.value)
    cold = graphical_lasso(1.001 * S, 0.1, penalise_diagonal=True)
    assert warm.n_iter < cold.n_iter
    np.testing.assert_allclose(warm.value, cold.value, atol=1e-3 * np.abs(cold.value).max())


def test_the_scale_of_the_variables_does_not_matter():
    S, s = covariance(6, 20), 1e4
    one = graphical_lasso(S, 0.1, penalise_diagonal=False, tol=1e-11).value
    two = graphical_lasso(s * S, s * 0.1, penalise_diagonal=False, tol=1e-11).value
    np.testing.assert_allclose(s * two, one, atol=1e-5 * np.abs(one).max())


def test_a_large_penalty_leaves_a_diagonal_and_none_the_inverse():
    S = covariance(5, 40)
    np.testing.assert_allclose(
        graphical_lasso(S, 100.0, penalise_diagonal=False).value, np.diag(1 / np.diagonal(S)), rtol=1e-6
    )
    np.testing.assert_allclose(
        graphical_lasso(S, 0.0, penalise_diagonal=False, tol=1e-12).value, np.linalg.inv(S), rtol=1e-4
    )


def test_the_gap_bounds_the_distance_to_the_best_objective():
    S, R = covariance(7, 9) + 0.1 * np.eye(7), 0.2 * (1 - np.eye(7))
    best = graphical_lasso(S, 0.2, penalise_diagonal=False, tol=1e-12).value
    rough = np.diag(1 / np.diagonal(S))
    excess = (objective(rough, S, R) - objective(best, S, R)) / 7
    assert 0 < excess <= gap_per_variable(rough, S, R)


def test_a_variable_without_variance_needs_a_penalty_on_its_diagonal():
    S = np.diag([1.0, 0.0])
    with pytest.raises(ValueError, match=r"variable 1 has no variance.*penalise_diagonal=True"):
        graphical_lasso(S, 0.1, penalise_diagonal=False)
    np.testing.assert_allclose(graphical_lasso(S, 0.1, penalise_diagonal=True).value, np.diag([1 / 1.1, 10.0]))


@pytest.mark.parametrize("T", [6, 8])
def test_rounding_of_the_least_eigenvalues_is_told(T):
    w = np.arange(1.0, T + 1)
    found = graphical_lasso(np.outer(w, w), 1e-13, penalise_diagonal=True, max_iter=300)
    assert np.isfinite(found.value).all() and found.residual > 1e-3 and not found.converged


@pytest.mark.parametrize("d", [1, 2, 4])
def test_a_covariance_of_low_rank_and_a_weak_penalty_take_few_steps(d):
    S = covariance(20, d, spread=1.0)
    penalty = 0.05 * float(np.median(np.diagonal(S)))
    found = graphical_lasso(S, penalty, penalise_diagonal=True, tol=1e-7)
    again = graphical_lasso(1.02 * S, penalty, penalise_diagonal=True, start=found.value, tol=1e-7)
    assert found.converged and again.converged
    assert max(found.n_iter, again.n_iter) <= 50
