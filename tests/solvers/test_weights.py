from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

from kinfolk import GAMTL
from kinfolk.rows.gram import task_loss
from kinfolk.solvers.krylov import conjugate_gradients
from kinfolk.solvers.weights.cg import PRECONDITIONERS, BlockInverses, solve_cg
from kinfolk.solvers.weights.direct import definite_inverse
from kinfolk.weights import solve_system, solve_weights, weight_system
from problems import clique_graph, gram, knn_graph, random_graph, ring_graph

GAMMAS = (1e-3, 1.0, 1e3, 1e6)


def plain_solution(stats, A, gamma, ridge, anchor=0.0):
    """Kronecker form, as in docs/maths.md."""
    T, d = stats.b.shape
    B = (1 - anchor) * A.toarray() + anchor / (T - 1) * (1 - np.eye(T))
    L = np.diag(B.sum(axis=1)) - B
    M = 2 * gamma * np.kron(L, np.eye(d))
    for t in range(T):
        M[t * d : (t + 1) * d, t * d : (t + 1) * d] += stats.G[t] + ridge * np.eye(d)
    return np.linalg.solve(M, stats.b.ravel()).reshape(T, d)


@pytest.mark.parametrize("method", ["direct", "cg"])
@pytest.mark.parametrize("anchor", [0.0, 0.3, 1.0])
def test_every_method_solves_the_kronecker_system(method, anchor):
    stats, A = gram(2, T=8), random_graph(8)
    for gamma in (0.01, 1.0, 100.0):
        W = solve_weights(stats, A, gamma, ridge=0.5, anchor=anchor, method=method).value
        np.testing.assert_allclose(W, plain_solution(stats, A, gamma, 0.5, anchor), rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("gamma", GAMMAS)
def test_direct_shared_and_cg_agree_on_a_shared_design(gamma):
    rng = np.random.default_rng(4)
    X, Y = rng.normal(size=(12, 5)), rng.normal(size=(12, 30))
    stats = SimpleNamespace(G=np.broadcast_to(X.T @ X, (30, 5, 5)), b=Y.T @ X)
    W = {
        m: solve_weights(stats, random_graph(30), gamma, ridge=0.1, method=m).value for m in ("direct", "shared", "cg")
    }
    np.testing.assert_allclose(W["shared"], W["direct"], atol=1e-7)
    np.testing.assert_allclose(W["cg"], W["direct"], atol=1e-7)


@pytest.fixture(scope="module")
def poor_tasks():
    """2,000 tasks with 5 rows for 20 unknowns."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(2000, 5, 20)), rng.normal(size=(2000, 5))
    return SimpleNamespace(G=X.transpose(0, 2, 1) @ X, b=np.einsum("tnd,tn->td", X, y))


@pytest.mark.parametrize("graph", [knn_graph, ring_graph, clique_graph])
@pytest.mark.parametrize("gamma", [1e-3, 1e-1, 10.0, 1e3, 1e6])
def test_cg_needs_at_most_100_iterations_on_rank_deficient_tasks(poor_tasks, graph, gamma):
    solution = solve_weights(poor_tasks, graph(2000), gamma, ridge=1.0)
    assert solution.method.startswith("cg")
    assert solution.converged and solution.residual < 1e-8
    assert solution.n_iter <= 100


@pytest.mark.parametrize("preconditioner", [p for p in PRECONDITIONERS if p != "auto"])
def test_every_preconditioner_reaches_the_same_answer(preconditioner):
    stats, A = gram(3, T=30), random_graph(30, density=0.1)
    system = weight_system(stats.G, stats.b, A, 2.0, ridge=0.3, anchor=0.1)
    np.testing.assert_allclose(
        solve_cg(system, preconditioner=preconditioner).value, solve_system(system, method="direct").value, atol=1e-8
    )


def test_a_shrunk_unknown_is_coupled_by_the_uniform_part_alone():
    stats, A = gram(5, T=7, d=3), random_graph(7)
    scale, extra = np.array([1.0, 1.0, 0.0]), np.array([0.0, 0.0, 4.0])
    system = weight_system(stats.G, stats.b, A, 1.0, ridge=0.2, scale=scale, extra_uniform=extra)
    direct, cg = (solve_system(system, method=m).value for m in ("direct", "cg"))
    np.testing.assert_allclose(cg, direct, atol=1e-8)
    gradient = (
        np.einsum("tij,tj->ti", stats.G + 0.2 * np.eye(3), direct)
        + 2 * (np.diag(A.sum(axis=1)) - A.toarray()) @ direct * scale
        + extra * (7 * direct - direct.sum(axis=0))
        - stats.b
    )
    np.testing.assert_allclose(gradient, 0, atol=1e-9)


def test_without_coupling_tasks_are_ridge_fits_of_their_own():
    stats = gram(1)
    W = solve_weights(stats, random_graph(6), 0.0, ridge=0.7).value
    np.testing.assert_allclose(W, np.linalg.solve(stats.G + 0.7 * np.eye(4), stats.b[:, :, None])[:, :, 0], atol=1e-9)


def test_endless_coupling_pools_every_component():
    stats = gram(1, T=6)
    A = sparse.csr_array(sparse.block_diag([np.ones((3, 3)) - np.eye(3)] * 2))
    W = solve_weights(stats, A, 1e9, ridge=0.7).value
    pooled = np.linalg.solve(stats.G[:3].sum(axis=0) + 3 * 0.7 * np.eye(4), stats.b[:3].sum(axis=0))
    np.testing.assert_allclose(W[:3], np.tile(pooled, (3, 1)), atol=1e-5)


def test_the_residual_is_the_gradient_of_the_objective():
    stats, A = gram(2), random_graph(6)
    W = np.random.default_rng(0).normal(size=stats.b.shape)

    def value(V):
        pull = sum(A[i, j] * ((V[i] - V[j]) ** 2).sum() for i in range(6) for j in range(6))
        return task_loss(stats, V).sum() + 0.4 * (V**2).sum() + 1.5 * pull

    step = 1e-6 * np.random.default_rng(1).normal(size=W.shape)
    numeric = value(W + step) - value(W - step)
    system = weight_system(stats.G, stats.b, A, 1.5, ridge=0.4)
    analytic = 2 * np.vdot(2 * (system.apply(W) - stats.b), step)
    assert numeric == pytest.approx(analytic, rel=1e-6)
    solved = solve_weights(stats, A, 1.5, ridge=0.4).value
    assert system.residual(solved) < 1e-12 < system.residual(W)


def test_auto_tells_what_it_chose():
    shared = SimpleNamespace(G=np.broadcast_to(np.eye(2), (5, 2, 2)), b=np.ones((5, 2)))
    assert solve_weights(shared, random_graph(5), 1.0, ridge=0.1).method == "shared"
    assert solve_weights(gram(), random_graph(6), 1.0, ridge=0.1).method == "direct"


def test_unknown_methods_and_unshared_designs_are_refused():
    with pytest.raises(ValueError, match="unknown weights method 'lu'"):
        solve_weights(gram(), random_graph(6), 1.0, ridge=0.1, method="lu")
    with pytest.raises(ValueError, match="unknown preconditioner 'ilu'"):
        solve_cg(weight_system(gram().G, gram().b, random_graph(6), 1.0, ridge=0.1), preconditioner="ilu")
    with pytest.raises(ValueError, match="same inputs"):
        solve_weights(gram(), random_graph(6), 1.0, ridge=0.1, method="shared")


def test_conjugate_gradients_end_where_the_preconditioner_sees_nothing():
    found = conjugate_gradients(lambda v: v, np.ones(3), np.zeros_like, tol=1e-9, max_iter=9)
    assert (found.n_iter, found.residual, found.converged) == (0, 1.0, False)


def test_multigrid_can_be_asked_for_by_its_name():
    stats, A = gram(3, T=60), random_graph(60, density=0.05)
    found = solve_weights(stats, A, 20.0, ridge=0.3, method="cmg")
    assert found.method == "cg (sum, cmg)" and found.converged
    np.testing.assert_allclose(found.value, solve_weights(stats, A, 20.0, ridge=0.3, method="direct").value, atol=1e-7)
    by_multigrid = GAMTL(weights_solver="cmg").fit_gram(stats)
    np.testing.assert_allclose(by_multigrid.coef_, GAMTL().fit_gram(stats).coef_, atol=1e-5)


def test_kept_blocks_are_inverted_anew_only_where_the_pull_has_changed_and_change_no_answer():
    stats, A = gram(4, T=80), random_graph(80)
    changed = A.copy()
    changed[0, 1] = changed[1, 0] = 1e3
    kept = BlockInverses()
    for graph in (A, changed):
        system = weight_system(stats.G, stats.b, graph, 1.0, ridge=0.5)
        before = kept.inverses.copy()
        found = solve_cg(system, preconditioner="blocks", blocks=kept)
        np.testing.assert_allclose(found.value, solve_cg(system).value, rtol=1e-6, atol=1e-8)
    touched = (kept.inverses != before).any(axis=(1, 2))
    assert np.flatnonzero(touched).tolist() == [0, 1]


def test_after_many_steps_blocks_follow_the_coupling_where_rows_leave_directions_free():
    stats = gram(4, T=80, d=30, n=(4, 6))
    kept = BlockInverses()
    for gamma in (1e-3, 2e-3):  # doubled, it is next to nothing beside the rows
        system = weight_system(stats.G, stats.b, random_graph(80), gamma, ridge=1e-8)
        kept.steps = 31
        found = solve_cg(system, preconditioner="blocks", blocks=kept)
    assert found.n_iter == kept.steps == solve_cg(system, preconditioner="blocks").n_iter


def test_blocks_are_inverted_part_by_part(monkeypatch):
    monkeypatch.setattr("kinfolk.solvers.weights.cg.AT_ONCE", 100)
    stats = gram(4, T=80, d=3)
    system = weight_system(stats.G, stats.b, random_graph(80), 1.0, ridge=0.5)
    blocks = stats.G + (0.5 + system.L.diagonal()[:, None, None]) * np.eye(3)
    np.testing.assert_allclose(BlockInverses().of(system), np.linalg.inv(blocks), rtol=1e-10)


def test_blocks_that_take_much_memory_are_not_kept(monkeypatch):
    monkeypatch.setattr("kinfolk.solvers.weights.cg.MOST_KEPT", 100)
    stats, kept = gram(4, T=80), BlockInverses()
    solve_cg(weight_system(stats.G, stats.b, random_graph(80), 1.0, ridge=0.5), preconditioner="blocks", blocks=kept)
    assert kept.inverses.size == 0


def test_an_unknown_that_the_graph_leaves_out_does_not_slow_the_others_down():
    T = 600
    stats, A = gram(5, T=T), clique_graph(T)
    d = stats.b.shape[1]
    scale = np.append(np.ones(d - 1), 0.0)
    shrinkage = np.append(np.zeros(d - 1), 1.0) / T
    system = weight_system(stats.G, stats.b, A, 1e3, ridge=0.1, scale=scale, extra_uniform=shrinkage)
    found = solve_cg(system)
    assert found.converged and found.method.startswith("cg (sum")
    assert found.n_iter < 0.6 * solve_cg(system, preconditioner="laplacian").n_iter


def test_the_inverse_is_that_of_the_kronecker_matrix():
    stats = gram(3, T=200, d=3)
    system = weight_system(stats.G, stats.b, random_graph(200), 2.0, ridge=0.5)
    M = np.kron(system.L.toarray(), np.eye(3))
    for t in range(200):
        M[3 * t : 3 * t + 3, 3 * t : 3 * t + 3] += system.H[t]
    np.testing.assert_allclose(definite_inverse(system), np.linalg.inv(M), atol=1e-12)


@pytest.mark.parametrize("lower", [1.0 + 1e-9, 1.0 - 1e-9])
def test_a_matrix_that_rounding_made_indefinite_has_a_definite_inverse(lower):
    H = np.array([[[1.0, 1.0 + 1e-9], [lower, 1.0]]])
    system = weight_system(H, np.ones((1, 2)), sparse.csr_array((1, 1)), 1.0, ridge=0.0)
    found = definite_inverse(system)
    assert (np.linalg.eigvalsh(found) > 0).all()
    np.testing.assert_allclose(found.sum(), 1.0, rtol=1e-6)  # the direction that H does tell about
