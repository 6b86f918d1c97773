import importlib

import cvxpy as cp
import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.linalg import splu

from kinfolk.datasets import make_groups
from kinfolk.graph import EdgeList, laplacian, learn_graph, squared_distances, theta_for_neighbors
from kinfolk.methods.gamtl.objective import duality_gap, graph_residual, graph_terms
from kinfolk.solvers.graph.candidates import by_candidates
from problems import gaussian_distances

CANONICAL = {"alpha": 1.0, "beta": 0.5}


def primal(A, Z, alpha, beta, gamma):
    return gamma * (A.toarray() * Z).sum() + sum(graph_terms(A, alpha=alpha, beta=beta))


def conic_solution(Z, alpha, beta, gamma):
    """min gamma <A, Z> - alpha 1'log(A1) + beta ||A||_F^2, in cvxpy's own words."""
    T = len(Z)
    A = cp.Variable((T, T), symmetric=True)
    value = gamma * cp.sum(cp.multiply(A, Z)) - alpha * cp.sum(cp.log(cp.sum(A, axis=1))) + beta * cp.sum_squares(A)
    problem = cp.Problem(cp.Minimize(value), [A >= 0, cp.diag(A) == 0])
    problem.solve(solver=cp.CLARABEL)
    return A.value, problem.value


@pytest.mark.parametrize("T", [2, 3, 7, 15])
@pytest.mark.parametrize("letters", [(1.0, 0.5, 0.1), (2.0, 0.05, 1.0), (0.3, 4.0, 0.02)])
def test_newton_equals_a_conic_solver(T, letters):
    alpha, beta, gamma = letters
    Z = gaussian_distances(T, d=5, seed=T)
    A, value = conic_solution(Z, alpha, beta, gamma)
    ours = learn_graph(Z, alpha=alpha, beta=beta, gamma=gamma).value
    assert primal(ours, Z, alpha, beta, gamma) == pytest.approx(value, rel=1e-6, abs=1e-6)
    np.testing.assert_allclose(ours.toarray(), A, atol=1e-4 * max(A.max(), 1e-6))


def outlier_task():
    syn = make_groups(random_state=5)
    return squared_distances(syn.coef + 0.2 * np.random.default_rng(0).normal(size=syn.coef.shape))


def duplicates():
    return squared_distances(np.repeat(np.random.default_rng(3).normal(size=(10, 5)), 3, axis=0))


def one_far_away(T):
    W = np.random.default_rng(T).normal(size=(T, 20))
    W[-1] *= 1e6
    return squared_distances(W)


@pytest.mark.parametrize("T", [20, 300])
def test_one_task_that_is_far_but_not_out_of_reach_of_rounding_needs_no_interior_point(T):
    W = np.random.default_rng(T).normal(size=(T, 5))
    W[-1] *= 30
    Z = squared_distances(W)
    solution = learn_graph(Z, **CANONICAL, gamma=0.2)
    assert solution.method == "newton" and solution.converged
    assert duality_gap(solution.value, Z, **CANONICAL, gamma=0.2) < 1e-10


HARD = {"outlier": outlier_task(), "duplicates": duplicates(), "far 20": one_far_away(20), "far 300": one_far_away(300)}


@pytest.mark.parametrize("name", HARD)
@pytest.mark.parametrize("theta", [1e-3, 0.1, 1.0, 700.0])
def test_hard_problems_are_certified_in_20_newton_steps(name, theta):
    Z = HARD[name]
    solution = learn_graph(Z, gamma=theta, **CANONICAL)
    assert solution.converged and solution.n_iter <= 20
    assert duality_gap(solution.value, Z, gamma=theta, dual=solution.dual, **CANONICAL) <= 1e-10


@pytest.mark.parametrize("T", [3, 20, 200, 2000])
@pytest.mark.parametrize("k", [2, 5, 20])
def test_gaussian_problems_are_certified_in_20_newton_steps(T, k):
    Z = gaussian_distances(T)
    theta = theta_for_neighbors(Z, min(k, T - 1))
    solution = learn_graph(Z, gamma=theta, **CANONICAL)
    assert solution.n_iter <= 20
    assert duality_gap(solution.value, Z, gamma=theta, **CANONICAL) <= 1e-10
    assert graph_residual(solution.value, Z, gamma=theta, **CANONICAL) <= 1e-6


@pytest.mark.parametrize("beta", [1e-6, 1e-3, 1.0, 1e3, 1e6])
def test_beta_over_twelve_orders_of_magnitude(beta):
    Z = gaussian_distances(50)
    solution = learn_graph(Z, alpha=1.0, beta=beta)
    assert solution.n_iter <= 20
    assert duality_gap(solution.value, Z, alpha=1.0, beta=beta, dual=solution.dual) <= 1e-10


def test_candidates_give_the_answer_of_all_pairs(monkeypatch):
    Z = gaussian_distances(300, d=6)
    by_candidates = learn_graph(Z, gamma=0.3, **CANONICAL).value
    monkeypatch.setattr("kinfolk.solvers.graph.learn.CANDIDATES", 100)  # 300 <= 4 * 100: all pairs at once
    np.testing.assert_allclose(
        by_candidates.toarray(), learn_graph(Z, gamma=0.3, **CANONICAL).value.toarray(), atol=1e-8
    )


def test_the_papers_algorithm_reaches_the_same_graph():
    Z = gaussian_distances(12, d=4)
    newton = learn_graph(Z, alpha=1.0, beta=0.4, gamma=0.2).value
    paper = learn_graph(Z, alpha=1.0, beta=0.4, gamma=0.2, method="primal_dual", tol=1e-10)
    assert paper.converged
    np.testing.assert_allclose(paper.value.toarray(), newton.toarray(), atol=1e-6)


def test_the_printed_step_of_the_paper_minimises_half_its_beta():
    """E3: with gradient 2 beta a the printed algorithm solves the problem of beta / 2, not of beta."""
    Z = gaussian_distances(10, d=4)
    as_printed = learn_graph(Z, alpha=1.0, beta=0.2, gamma=0.3).value  # (beta / 2)||A||_F^2 with beta = 0.4
    ours = learn_graph(Z, alpha=1.0, beta=0.4, gamma=0.3).value
    assert primal(ours, Z, 1.0, 0.4, 0.3) < primal(as_printed, Z, 1.0, 0.4, 0.3) - 1e-3


def test_two_numbers_set_the_graph_not_three():
    """A*(Z) = delta K(theta Z) with delta = sqrt(alpha / 2 beta), theta = gamma / sqrt(2 alpha beta)."""
    Z, (alpha, beta, gamma) = gaussian_distances(15), (3.0, 0.2, 0.7)
    K = learn_graph(Z, gamma=gamma / np.sqrt(2 * alpha * beta), **CANONICAL).value
    A = learn_graph(Z, alpha=alpha, beta=beta, gamma=gamma).value
    np.testing.assert_allclose(A.toarray(), np.sqrt(alpha / (2 * beta)) * K.toarray(), atol=1e-10)


def test_a_pair_of_tasks_has_the_edge_that_calculus_gives():
    """2 gamma z a + 2 beta a^2 - 2 alpha log a: a = (-gamma z + sqrt(gamma^2 z^2 + 8 alpha beta)) / (4 beta)."""
    alpha, beta, gamma, z = 1.5, 0.3, 0.8, 2.0
    a = learn_graph(np.array([[0, z], [z, 0]]), alpha=alpha, beta=beta, gamma=gamma).value[0, 1]
    assert a == pytest.approx((-gamma * z + np.sqrt((gamma * z) ** 2 + 8 * alpha * beta)) / (4 * beta), rel=1e-9)


def test_a_single_task_has_no_edges():
    solution = learn_graph(np.zeros((1, 1)), alpha=1.0, beta=1.0)
    assert solution.value.shape == (1, 1) and solution.value.nnz == 0 and solution.converged


def test_the_answer_is_symmetric_with_exact_zeros():
    A = learn_graph(gaussian_distances(40), gamma=0.2, **CANONICAL).value
    assert isinstance(A, sparse.csr_array)
    assert (A != A.T).nnz == 0 and A.diagonal().sum() == 0
    assert A.nnz == np.count_nonzero(A.toarray()) < 40 * 39


def test_relabelling_tasks_permutes_the_graph():
    Z, order = gaussian_distances(25), np.random.default_rng(2).permutation(25)
    A = learn_graph(Z, gamma=0.2, **CANONICAL).value.toarray()
    permuted = learn_graph(Z[np.ix_(order, order)], gamma=0.2, **CANONICAL).value.toarray()
    np.testing.assert_allclose(permuted, A[np.ix_(order, order)], atol=1e-10)


def test_a_warm_start_needs_fewer_steps():
    Z = gaussian_distances(100)
    cold = learn_graph(Z, gamma=0.05, **CANONICAL)
    warm = learn_graph(1.01 * Z, gamma=0.05, start=cold.dual, **CANONICAL)
    assert warm.n_iter < cold.n_iter
    np.testing.assert_allclose(
        warm.value.toarray(), learn_graph(1.01 * Z, gamma=0.05, **CANONICAL).value.toarray(), atol=1e-6
    )


@pytest.mark.parametrize("T", [20, 60, 100])
def test_a_start_at_which_tasks_have_no_edge_takes_no_more_steps_than_none(T):
    W = np.random.default_rng(0).normal(size=(T, 6))
    W[0] += 10.0
    W[1] -= 10.0
    Z = squared_distances(W)
    near = learn_graph(Z, gamma=0.05, **CANONICAL)
    cold = learn_graph(3 * Z, gamma=0.05, **CANONICAL)
    warm = learn_graph(3 * Z, gamma=0.05, start=near.dual, **CANONICAL)
    assert warm.n_iter <= cold.n_iter  # it was 9 to 12 steps instead of 5 or 6
    np.testing.assert_allclose(warm.value.toarray(), cold.value.toarray(), atol=1e-6)


@pytest.mark.parametrize("k", [2, 3, 5, 10, 20])
def test_the_wanted_number_of_neighbours_is_met(k):
    Z = gaussian_distances(150)
    A = learn_graph(Z, gamma=theta_for_neighbors(Z, k), **CANONICAL).value
    assert A.nnz / 150 == pytest.approx(k, rel=0.06)


@pytest.mark.parametrize(
    "Z", [np.zeros((5, 5)), duplicates(), 1 - np.eye(6)], ids=["all equal", "duplicates", "simplex"]
)
def test_theta_is_finite_on_degenerate_distances(Z):
    theta = theta_for_neighbors(Z, 3)
    assert 0 < theta < np.inf
    assert learn_graph(Z, gamma=theta, **CANONICAL).converged


@pytest.mark.parametrize(
    ("Z", "message"),
    [
        (np.zeros((2, 3)), "square"),
        (np.array([[0.0, np.nan], [np.nan, 0.0]]), "NaN"),
        (np.array([[0.0, -1.0], [-1.0, 0.0]]), "negative"),
        (np.array([[0.0, 1.0], [2.0, 0.0]]), "symmetric"),
        (np.array([[1.0, 1.0], [1.0, 0.0]]), "zero diagonal"),
    ],
)
def test_bad_distances_are_refused(Z, message):
    with pytest.raises(ValueError, match=message):
        learn_graph(Z, alpha=1.0, beta=1.0)


def test_bad_letters_and_methods_are_refused():
    with pytest.raises(ValueError, match="alpha > 0"):
        learn_graph(np.zeros((2, 2)), alpha=0.0, beta=1.0)
    with pytest.raises(ValueError, match="unknown graph method"):
        learn_graph(np.zeros((2, 2)), alpha=1.0, beta=1.0, method="admm")


def test_squared_distances_keep_their_digits_for_near_pairs():
    W = np.array([[1e8, 0.0], [1e8 + 1e-3, 0.0], [0.0, 5.0]])
    Z = squared_distances(W)
    assert Z[0, 1] == pytest.approx((W[1, 0] - W[0, 0]) ** 2, rel=1e-12)
    np.testing.assert_array_equal(Z, Z.T)


def test_the_laplacian_form_of_the_coupling():
    """E7: sum_ij A_ij ||w_i - w_j||^2 = 2 tr(W'LW) for W with one row per task."""
    rng = np.random.default_rng(0)
    W, edges = rng.normal(size=(5, 3)), EdgeList.complete(5)
    A = edges.adjacency(rng.uniform(size=10))
    assert (A.toarray() * squared_distances(W)).sum() == pytest.approx(2 * np.trace(W.T @ (laplacian(A) @ W)))


def conic_with_loops(Z, alpha, beta, gamma, price):
    """min gamma <A, Z> - alpha 1'log(A1 + s) + beta ||A||_F^2 + price 1's over A, s >= 0."""
    A = cp.Variable(Z.shape, symmetric=True)
    s = cp.Variable(len(Z))
    value = gamma * cp.sum(cp.multiply(A, Z)) - alpha * cp.sum(cp.log(cp.sum(A, axis=1) + s)) + beta * cp.sum_squares(A)
    problem = cp.Problem(cp.Minimize(value + price * cp.sum(s)), [A >= 0, s >= 0, cp.diag(A) == 0])
    problem.solve(solver=cp.CLARABEL)
    return A.value, s.value, problem.value


@pytest.mark.parametrize("T", [3, 7, 15])
@pytest.mark.parametrize("ratio", [0.5, 1.2, 3.0])
@pytest.mark.parametrize("letters", [(1.0, 0.5, 0.1), (2.0, 0.05, 1.0)])
def test_self_loops_equal_a_conic_solver(T, ratio, letters):
    numbers = dict(zip(("alpha", "beta", "gamma"), letters, strict=True))
    Z = gaussian_distances(T, d=5, seed=T)
    Z[-1] *= 30
    Z[:, -1] *= 30
    price = ratio * float(np.median(learn_graph(Z, **numbers).dual))
    A, s, value = conic_with_loops(Z, *letters, price)
    ours = learn_graph(Z, self_loops=price, **numbers)
    assert ours.converged and ours.dual.max() <= price
    terms = graph_terms(ours.value, alpha=letters[0], beta=letters[1], self_loops=price)
    assert letters[2] * (ours.value.toarray() * Z).sum() + sum(terms) == pytest.approx(value, rel=1e-6, abs=1e-6)
    np.testing.assert_allclose(ours.value.toarray(), A, atol=1e-4 * max(A.max(), s.max()))
    np.testing.assert_allclose(ours.details["self_loops"], s, atol=1e-3 * s.max())
    assert duality_gap(ours.value, Z, self_loops=price, dual=ours.dual, **numbers) <= 1e-10
    assert graph_residual(ours.value, Z, self_loops=price, **numbers) <= 1e-6


@pytest.mark.parametrize("name", HARD)
@pytest.mark.parametrize("theta", [1e-3, 0.1, 1.0])
def test_a_price_keeps_multipliers_together(name, theta):
    """A far task asks for no more than the price, has no edge, and the steps stay few without an interior point."""
    Z = HARD[name]
    price = 3 * float(np.median(learn_graph(Z, gamma=theta, **CANONICAL).dual))
    solution = learn_graph(Z, gamma=theta, self_loops=price, **CANONICAL)
    assert solution.converged and solution.n_iter <= 30
    assert duality_gap(solution.value, Z, gamma=theta, self_loops=price, dual=solution.dual, **CANONICAL) <= 1e-10


def test_candidates_with_self_loops_give_the_answer_of_all_pairs():
    W = np.random.default_rng(8).normal(size=(300, 6))
    W[:3] *= 20
    Z = squared_distances(W)
    theta = theta_for_neighbors(Z, 5)
    price = 3 * float(np.median(learn_graph(Z, gamma=theta, **CANONICAL).dual))
    near = by_candidates(W, gamma=theta, self_loops=price, **CANONICAL)
    assert near.certified == 1
    everything = learn_graph(Z, gamma=theta, self_loops=price, **CANONICAL)
    np.testing.assert_allclose(near.value.toarray(), everything.value.toarray(), atol=1e-8)
    assert not np.diff(near.value.indptr)[:3].any() and np.diff(near.value.indptr)[3:].mean() > 4


def test_a_price_that_nobody_pays_changes_nothing():
    Z = gaussian_distances(30)
    free = learn_graph(Z, gamma=0.2, **CANONICAL)
    with_price = learn_graph(Z, gamma=0.2, self_loops=1.01 * float(free.dual.max()), **CANONICAL)
    np.testing.assert_allclose(with_price.value.toarray(), free.value.toarray(), atol=1e-9)
    assert with_price.details["self_loops"].max() == 0


def test_a_price_must_be_positive():
    with pytest.raises(ValueError, match="self_loops=-1.0 must be greater than 0"):
        learn_graph(np.zeros((3, 3)), alpha=1.0, beta=1.0, self_loops=-1.0)


def uneven(T=450, seed=0):
    """Squared distances of tasks whose places differ by orders of magnitude."""
    rng = np.random.default_rng(seed)
    return squared_distances(rng.normal(size=(T, 2)) * 10.0 ** rng.uniform(-2, 2, size=(T, 1)))


@pytest.mark.parametrize("fill", [0, 50])
def test_slow_systems_of_newton_have_the_solution_of_the_dense_matrix(monkeypatch, fill):
    module = importlib.import_module("kinfolk.solvers.graph.newton")
    monkeypatch.setattr(module, "FILL", fill)
    monkeypatch.setattr(module, "SLOW", 2)
    rng = np.random.default_rng(1)
    edges = EdgeList(np.arange(499), np.arange(1, 500), 500)  # a path
    upper = edges.upper(rng.uniform(0.3, 0.499, 499))
    g = rng.normal(size=500)
    exact = np.linalg.solve(np.eye(500) + upper.toarray() + upper.toarray().T, g)
    for slow in (False, True):
        found, again = module._solve_sparse(upper, g, 1e-12, 3000, slow)
        assert again
        np.testing.assert_allclose(found, exact, rtol=1e-8, atol=1e-9)


def test_factorised_and_iterated_newton_steps_end_at_one_graph(monkeypatch):
    module = importlib.import_module("kinfolk.solvers.graph.newton")
    calls = []

    def counted(*args, **options):
        calls.append(1)
        return splu(*args, **options)

    monkeypatch.setattr(module, "splu", counted)
    Z = uneven()
    numbers = {"alpha": 1.0, "beta": 0.5, "gamma": theta_for_neighbors(Z, 5)}
    found = learn_graph(Z, **numbers)
    assert calls
    monkeypatch.setattr(module, "FILL", 0)
    seen = len(calls)
    iterated = learn_graph(Z, **numbers)
    assert len(calls) == seen
    assert found.residual <= 1e-12 and iterated.residual <= 1e-12
    assert abs(found.value - iterated.value).max() <= 1e-6 * found.value.max()
