"""CCMTL against a conic solver, a certificate checked by hand, and its limits."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from kinfolk import GramStats, TaskGraph
from kinfolk.baselines import CCMTL
from kinfolk.rivals.ccmtl import edge_list, nearest_neighbors
from kinfolk.rivals.solvers.fusion import Fusion, preconditioner
from kinfolk.solvers.batched import ridge_alone
from kinfolk.solvers.krylov import conjugate_gradients


def draw(seed=0, T=12, d=4, n=(8, 16), groups=3, spread=0.1):
    """A table with its task in column 0: tasks of unequal size in groups of like slopes."""
    rng = np.random.default_rng(seed)
    task = rng.permutation(np.repeat(np.arange(T), rng.integers(*n, size=T)))
    W = rng.normal(size=(groups, d))[np.arange(T) % groups] + spread * rng.normal(size=(T, d))
    X = rng.normal(size=(len(task), d))
    y = np.einsum("nd,nd->n", X, W[task]) + task + 0.3 * rng.normal(size=len(task))
    return np.column_stack([task, X]), y


def stats(X, y):
    return GramStats.from_rows(X[:, 1:], y, X[:, 0].astype(int))


def objective(gram, W, A, lam, rho):
    """The formula of the docstring, from statistics."""
    loss = gram.yy.sum() + np.einsum("ti,tij,tj->", W, gram.G, W) - 2 * (gram.b * W).sum()
    upper = sparse.triu(sparse.csr_array(A), k=1, format="coo")
    i, j = upper.coords
    return loss + rho * (W**2).sum() + lam * (upper.data @ np.linalg.norm(W[i] - W[j], axis=1))


def conic(X, y, A, lam, rho):
    """The optimal value from rows, by an interior point method."""
    task = X[:, 0].astype(int)
    T, d = A.shape[0], X.shape[1] - 1
    W = cp.Variable((T, d))
    loss = 0
    for t in range(T):
        x, target = X[task == t, 1:], y[task == t]
        loss += cp.sum_squares((x - x.mean(axis=0)) @ W[t] - (target - target.mean()))
    upper = sparse.triu(sparse.csr_array(A), k=1, format="coo")
    i, j = upper.coords
    pull = cp.sum(cp.multiply(upper.data, cp.norm(W[i] - W[j], 2, axis=1)))
    problem = cp.Problem(cp.Minimize(loss + rho * cp.sum_squares(W) + lam * pull))
    return problem.solve(solver=cp.CLARABEL)


def rho_of(model, gram):
    return model.ridge * np.trace(gram.G, axis1=1, axis2=2).mean() / gram.n_features


@pytest.mark.parametrize("strength", [0.03, 0.3, 3.0, 100.0])
@pytest.mark.parametrize("n", [(8, 16), (2, 5)], ids=["n > d", "n <= d"])
def test_reaches_the_value_of_a_conic_solver(strength, n):
    X, y = draw(n=n)
    gram = stats(X, y)
    model = CCMTL(task=0, strength=strength, neighbors=3).fit(X, y)
    rho = rho_of(model, gram)
    best = conic(X, y, model.structure_.adjacency, model.lam_, rho)
    ours = objective(gram, model.coef_, model.structure_.adjacency, model.lam_, rho)
    assert best * (1 - 1e-6) <= ours <= best * (1 + 1e-4)
    np.testing.assert_allclose(model.objective_history_[-1], ours, rtol=1e-10)


def test_the_duality_gap_bounds_the_distance_to_the_conic_value():
    X, y = draw(seed=3)
    gram = stats(X, y)
    model = CCMTL(task=0, neighbors=4, tol=1e-7).fit(X, y)
    best = conic(X, y, model.structure_.adjacency, model.lam_, rho_of(model, gram))
    assert model.optimality_["duality_gap"] <= 1e-7
    np.testing.assert_allclose(model.objective_history_[-1], best, rtol=1e-6)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000), st.floats(-3, 3), st.integers(1, 7), st.integers(1, 5))
def test_the_objective_never_rises(seed, exponent, T, d):
    X, y = draw(seed, T=T, d=d, n=(2, 9))
    history = CCMTL(task=0, strength=10.0**exponent, neighbors=2).fit(X, y).objective_history_
    assert (np.diff(history) <= 1e-10 * history[0]).all()


def test_no_dual_point_exceeds_the_objective():
    X, y = draw()
    gram = stats(X, y)
    rng = np.random.default_rng(1)
    edges, a = edge_list(nearest_neighbors(ridge_alone(gram.G, gram.b, 1.0), 3))
    problem = Fusion(gram.G + 0.1 * np.eye(4), gram.b, gram.yy.sum(), edges, 2.0 * a)
    for scale in (0.01, 1.0, 100.0):
        p, W = scale * rng.normal(size=(len(edges), 4)), scale * rng.normal(size=gram.b.shape)
        assert problem.dual_bound(p) <= problem.objective(W)


def test_nearly_fused_pairs_cost_few_inner_iterations():
    X, y = draw(T=60, groups=3, spread=0.0)
    gram = stats(X, y)
    edges, a = edge_list(nearest_neighbors(ridge_alone(gram.G, gram.b, 1.0), 5))
    problem = Fusion(gram.G + 1e-3 * np.eye(4), gram.b, gram.yy.sum(), edges, 2.0 * a)
    lengths = np.random.default_rng(0).choice([1e-7, 1.0], size=len(edges))
    system = problem.system(lengths, 1e-8)
    solution = conjugate_gradients(system.apply, gram.b, preconditioner(problem, system), tol=1e-8, max_iter=200)
    assert solution.converged and solution.n_iter < 60


def test_no_pull_is_independent_least_squares():
    X, y = draw()
    gram = stats(X, y)
    model = CCMTL(task=0, strength=0.0, ridge=0.0).fit(X, y)
    np.testing.assert_allclose(model.coef_, np.linalg.solve(gram.G, gram.b[:, :, None])[:, :, 0], rtol=1e-6)
    assert len(np.unique(model.clusters_)) == 12


def test_a_strong_pull_pools_every_connected_component():
    X, y = draw(T=6)
    gram = stats(X, y)
    halves = np.kron(np.eye(2), np.ones((3, 3)) - np.eye(3))
    model = CCMTL(task=0, lam=1e4, ridge=0.0, graph=halves).fit(X, y)
    pooled = [np.linalg.solve(gram.G[part].sum(axis=0), gram.b[part].sum(axis=0)) for part in (slice(3), slice(3, 6))]
    np.testing.assert_allclose(model.coef_, np.repeat(pooled, 3, axis=0), rtol=1e-3, atol=1e-4)
    assert model.clusters_.tolist() == [0, 0, 0, 1, 1, 1]
    assert np.ptp(model.coef_[:3], axis=0).max() == 0.0


def test_two_tasks_fuse_at_the_pull_that_can_be_worked_out_by_hand():
    # With G = 2 and least squares slopes 1 and 2 the tasks meet at 1.5 once lam >= 2 (G 0.5) = 2.
    X = np.array([[0.0, -1.0], [0.0, 1.0], [1.0, -1.0], [1.0, 1.0]])
    y = np.array([-1.0, 1.0, -2.0, 2.0])
    apart = CCMTL(task=0, lam=1.0, ridge=0.0, tol=1e-9).fit(X, y)
    together = CCMTL(task=0, lam=2.2, ridge=0.0, tol=1e-9).fit(X, y)
    np.testing.assert_allclose(apart.coef_.ravel(), [1.25, 1.75], atol=1e-4)
    np.testing.assert_allclose(together.coef_.ravel(), [1.5, 1.5], atol=1e-4)
    assert apart.clusters_.tolist() == [0, 1] and together.clusters_.tolist() == [0, 0]


def test_groups_without_spread_become_the_clusters():
    X, y = draw(T=30, n=(20, 40), spread=0.0)
    model = CCMTL(task=0, neighbors=9, strength=3.0).fit(X, y)
    assert len({(g, c) for g, c in zip(np.arange(30) % 3, model.clusters_, strict=True)}) == 3


def test_identical_tasks_get_identical_coefficients():
    X, y = draw(T=4)
    twin = X + np.array([4.0, 0, 0, 0, 0])
    model = CCMTL(task=0, neighbors=2).fit(np.vstack([X, twin]), np.concatenate([y, y]))
    np.testing.assert_allclose(model.coef_[:4], model.coef_[4:], atol=1e-4)


def test_the_fit_follows_the_units_of_y_and_x():
    X, y = draw()
    one = CCMTL(task=0).fit(X, y)
    two = CCMTL(task=0).fit(X * [1, 10, 10, 10, 10], 1000 * y)
    np.testing.assert_allclose(two.coef_, 100 * one.coef_, rtol=1e-6)


def test_a_given_graph_is_matched_by_name_and_its_weights_count():
    X, y = draw(T=3)
    A = np.array([[0.0, 5.0, 0.0], [5.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    by_position = CCMTL(task=0, lam=2.0, graph=A).fit(X, y)
    swapped = [2, 0, 1]
    graph = TaskGraph(sparse.csr_array(A[swapped][:, swapped]), np.array(swapped))
    by_name = CCMTL(task=0, lam=2.0, graph=graph).fit(X, y)
    unit = CCMTL(task=0, lam=10.0, graph=(A > 0).astype(float)).fit(X, y)
    np.testing.assert_allclose(by_name.coef_, by_position.coef_, atol=1e-6)
    np.testing.assert_allclose(unit.coef_, by_position.coef_, atol=1e-6)
    assert by_name.structure_.edges()[0][:2] == (0, 1)


@pytest.mark.parametrize("T", [1, 2])
def test_one_feature_and_few_tasks_work(T):
    X, y = draw(T=T, d=1)
    assert CCMTL(task=0).fit(X, y).coef_.shape == (T, 1)


def test_constant_targets_have_no_slope():
    X, y = draw(T=3)
    model = CCMTL(task=0).fit(X, np.ones_like(y))
    np.testing.assert_allclose(model.coef_, 0.0, atol=1e-12)
    np.testing.assert_allclose(model.predict(X), 1.0)


def test_shared_inputs_equal_the_same_rows_as_a_long_table():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(15, 3)), rng.normal(size=(15, 5))
    long = np.column_stack([np.repeat(np.arange(5), 15), np.tile(X, (5, 1))])
    one, two = CCMTL(neighbors=2, tol=1e-7).fit(X, Y), CCMTL(task=0, neighbors=2, tol=1e-7).fit(long, Y.T.ravel())
    np.testing.assert_allclose(one.coef_, two.coef_, atol=1e-4)


def test_stopping_early_is_told():
    X, y = draw()
    with pytest.warns(ConvergenceWarning, match="stopped after max_iter=2 reweightings .duality gap "):
        CCMTL(task=0, max_iter=2).fit(X, y)


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"strength": -1.0}, "strength=-1.0 must be at least 0 and finite"),
        ({"tol": 0.0}, "tol=0.0 must be greater than 0 and finite"),
        ({"neighbors": 0}, "neighbors=0 must be at least 1"),
        ({"unseen": "guess"}, "unseen='guess': choose"),
        ({"graph": np.eye(3)}, "graph has shape .3, 3., but there are 12 tasks"),
        ({"graph": np.triu(np.ones((12, 12)))}, "graph must be symmetric"),
    ],
)
def test_texts_of_errors(parameters, text):
    X, y = draw()
    with pytest.raises(ValueError, match=text):
        CCMTL(task=0, **parameters).fit(X, y)
