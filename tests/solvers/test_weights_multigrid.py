import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from kinfolk.graph import laplacian
from kinfolk.solvers.krylov import conjugate_gradients
from kinfolk.solvers.weights import cmg, weight_system
from kinfolk.solvers.weights.cg import choose_solver, solve_cg
from kinfolk.solvers.weights.cmg import combinatorial_multigrid
from kinfolk.solvers.weights.direct import dense_matrix
from problems import clique_graph, gram, knn_graph, random_graph, ring_graph


def grid_graph(T):
    n = int(np.sqrt(T))
    path = sparse.diags_array([np.ones(n - 1), np.ones(n - 1)], offsets=[-1, 1])
    return sparse.csr_array(sparse.kron(path, sparse.eye_array(n)) + sparse.kron(sparse.eye_array(n), path))


def star_graph(T):
    spokes = sparse.coo_array((np.ones(T - 1), (np.zeros(T - 1, int), np.arange(1, T))), shape=(T, T))
    return sparse.csr_array(spokes + spokes.T)


def expander_graph(T, k=4):
    rng = np.random.default_rng(3)
    ends = np.concatenate([rng.permutation(T) for _ in range(k)])
    A = sparse.csr_array((np.ones(k * T), (np.tile(np.arange(T), k), ends)), shape=(T, T))
    return sparse.csr_array(A + A.T)


def many_components(T):
    return sparse.csr_array(
        sparse.block_diag([ring_graph(7)] * (T // 28) + [grid_graph(T // 4), expander_graph(T // 2)])
    )


def wild_graph(T):
    """Weights over eight orders of magnitude."""
    half = sparse.triu(grid_graph(T), k=1).tocsr()
    half.data = 10 ** np.random.default_rng(5).uniform(-4, 4, half.nnz)
    return sparse.csr_array(half + half.T)


GRAPHS = [ring_graph, grid_graph, star_graph, expander_graph, many_components, wild_graph, knn_graph]


def matrix(A, excess):
    return sparse.csr_array(laplacian(A) + sparse.diags_array(excess))


def iterations(A, excess, tol=1e-8):
    M, b = matrix(A, excess), np.random.default_rng(0).normal(size=(A.shape[0], 3))
    cycle = combinatorial_multigrid(A, excess)
    solution = conjugate_gradients(M.__matmul__, b, cycle.solve, tol=tol, max_iter=500)
    assert solution.converged
    return solution.n_iter


@pytest.fixture
def always_coarsen(monkeypatch):
    """Several levels on graphs small enough for dense eigenvalues."""
    monkeypatch.setattr(cmg, "SMALL", 8)


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("size", [1e-6, 1.0])
def test_a_cycle_is_symmetric_and_its_spectrum_lies_between_0_and_1(graph, size, always_coarsen):
    A = graph(256)
    excess = size * np.random.default_rng(1).uniform(0.5, 2, A.shape[0])
    cycle = combinatorial_multigrid(A, excess)
    B = cycle.solve(np.eye(A.shape[0]))
    np.testing.assert_allclose(B, B.T, atol=1e-9 * abs(B).max())
    values, vectors = np.linalg.eigh(matrix(A, excess).toarray())
    root = vectors * np.sqrt(values)
    spectrum = np.linalg.eigvalsh(root.T @ ((B + B.T) / 2) @ root)
    assert len(cycle.levels) >= 1
    assert spectrum.min() > 0.02 and spectrum.max() < 1 + 1e-6


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("size", [1e-6, 1e-2, 10.0])
def test_iterations_stay_few(graph, size):
    A = graph(4000)
    assert iterations(A, np.full(A.shape[0], size)) <= 60


@pytest.mark.parametrize("graph", [ring_graph, grid_graph, expander_graph, wild_graph])
def test_iterations_hardly_grow_with_the_graph(graph):
    few, many = graph(2500), graph(22_500)
    assert iterations(many, np.full(many.shape[0], 1e-3)) <= 1.6 * iterations(few, np.full(few.shape[0], 1e-3)) + 5


def test_small_components_are_solved_exactly_beside_a_large_one():
    A = many_components(4000)
    excess = np.ones(A.shape[0])
    size = np.bincount(connected_components(A, directed=False)[1])
    small = (size < 700)[connected_components(A, directed=False)[1]]
    b = np.random.default_rng(0).normal(size=(A.shape[0], 2)) * small[:, None]
    cycle = combinatorial_multigrid(A, excess)
    assert cycle.levels
    np.testing.assert_allclose(matrix(A, excess) @ cycle.solve(b), b, atol=1e-10)


def test_a_small_excess_survives_a_strong_coupling():
    x = combinatorial_multigrid(1e10 * expander_graph(2000), np.ones(2000)).solve(np.ones((2000, 1)))
    np.testing.assert_allclose(x, 1, rtol=1e-3)


def test_columns_do_not_meet():
    A, b = grid_graph(2500), np.random.default_rng(2).normal(size=(2500, 3))
    cycle = combinatorial_multigrid(A, np.ones(2500))
    np.testing.assert_allclose(cycle.solve(b)[:, 1:2], cycle.solve(b[:, 1:2]), atol=1e-13)


def test_a_component_without_excess_is_refused():
    with pytest.raises(ValueError, match="component of node 1 has no excess"):
        combinatorial_multigrid(sparse.csr_array((2, 2)), [1.0, 0.0])


@pytest.mark.parametrize("solver", ["splu", "cmg"])
@pytest.mark.parametrize("preconditioner", ["laplacian", "sum"])
def test_every_laplacian_solver_reaches_the_same_weights(solver, preconditioner, always_coarsen):
    stats, A = gram(3, T=60), random_graph(60, density=0.05)
    system = weight_system(stats.G, stats.b, A, 50.0, ridge=0.3)
    solution = solve_cg(system, preconditioner=preconditioner, laplacian_solver=solver)
    assert solution.method == f"cg ({preconditioner}, {solver})"
    np.testing.assert_allclose(solution.value, solve_cg(system, preconditioner="blocks").value, atol=1e-7)


def test_graphs_with_small_separators_are_factorised_and_others_are_not():
    assert [choose_solver(laplacian(graph(20_000))) for graph in (ring_graph, clique_graph)] == ["splu", "splu"]
    assert choose_solver(laplacian(expander_graph(20_000))) == "cmg"
    assert choose_solver(sparse.csr_array((5, 5))) == "splu"


def test_an_unknown_laplacian_solver_is_refused():
    system = weight_system(gram().G, gram().b, random_graph(6), 1.0, ridge=0.1)
    with pytest.raises(ValueError, match="unknown Laplacian solver 'amg'"):
        solve_cg(system, laplacian_solver="amg")


def test_a_task_without_data_and_ridge_still_has_a_preconditioner():
    stats, A = gram(3, T=40), ring_graph(40)
    G, b = stats.G.copy(), stats.b.copy()
    G[:10], b[:10] = 0, 0
    system = weight_system(G, b, A, 5.0, ridge=0.0)
    reference = np.linalg.solve(dense_matrix(system), b.ravel()).reshape(b.shape)
    for preconditioner in ("blocks", "laplacian", "sum"):
        np.testing.assert_allclose(solve_cg(system, preconditioner=preconditioner).value, reference, atol=1e-6)


def test_auto_follows_the_coupling():
    stats, A, unit = gram(3, T=200, d=12), ring_graph(200), np.r_[5.0, np.ones(11)]
    G, b = stats.G * np.outer(unit, unit), stats.b * unit  # one direction of the data is stiff
    own = np.median(np.trace(G, axis1=1, axis2=2)) / 12
    gammas = own * np.array([1e-3, 1.5, 1e4])  # a ring has degree 2: the pull is 4 gamma
    chosen = [solve_cg(weight_system(G, b, A, gamma, ridge=1.0)).method for gamma in gammas]
    assert chosen == ["cg (blocks)", "cg (sum, splu)", "cg (laplacian, splu)"]
