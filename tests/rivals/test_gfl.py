"""GFL against a conic solver, its duality gap, the graph of the responses, and its limits."""

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from kinfolk import GramStats, TaskGraph
from kinfolk.baselines import GFL
from kinfolk.rivals.responses import pairwise_correlation
from kinfolk.rivals.solvers.fused_lasso import FusedProblem, solve_fused
from problems import frame, gram, rows


def signed(T, seed=0, density=0.6):
    """Signed relations between T tasks."""
    rng = np.random.default_rng(seed)
    R = np.triu(rng.uniform(-1, 1, size=(T, T)) * (rng.uniform(size=(T, T)) < density), k=1)
    return R + R.T


def wide(seed=0, n=30, T=5, d=4):
    """Shared inputs and correlated responses."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    W = np.outer([1.0, 1.0, -1.0, 0.5, 0.0][:T], rng.normal(size=d)) + 0.2 * rng.normal(size=(T, d))
    return X, X @ W.T + 0.3 * rng.normal(size=(n, T))


def long(X, Y):
    """The same as a table with a task column."""
    n, T = Y.shape
    return np.column_stack([np.repeat(np.arange(T), n), np.tile(X, (T, 1))]), Y.T.ravel()


def value(stats, W, R, lam, gamma):
    """The formula of the docstring, from statistics."""
    loss = stats.yy - 2 * (stats.b * W).sum(axis=1) + np.einsum("ti,tij,tj->t", W, stats.G, W)
    i, j = np.nonzero(np.triu(R, k=1))
    fusion = np.abs(R[i, j]) @ np.abs(W[i] - np.sign(R[i, j])[:, None] * W[j]).sum(axis=1)
    return loss.sum() / 2 + lam * np.abs(W).sum() + gamma * fusion


def conic(X, y, task, R, lam, gamma):
    """The optimal value from rows, by an interior point method."""
    T, d = len(R), X.shape[1]
    W = cp.Variable((T, d))
    total = lam * cp.sum(cp.abs(W))
    for t in range(T):
        x, target = X[task == t], y[task == t]
        total += cp.sum_squares((x - x.mean(axis=0)) @ W[t] - (target - target.mean())) / 2
    for i, j in np.argwhere(np.triu(R, k=1)):
        total += gamma * abs(R[i, j]) * cp.norm1(W[i] - np.sign(R[i, j]) * W[j])
    return cp.Problem(cp.Minimize(total)).solve(solver=cp.CLARABEL)


@pytest.mark.parametrize(("T", "d"), [(2, 1), (5, 4), (4, 9)])
@pytest.mark.parametrize(("lam", "gamma"), [(0.1, 0.5), (2.0, 0.1), (0.01, 5.0), (1.0, 0.0)])
def test_reaches_the_optimum(T, d, lam, gamma):
    X, y, task = rows(seed=2, T=T, d=d)
    stats, R = GramStats.from_rows(X, y, task), signed(T)
    model = GFL(sparsity=lam, fusion=gamma, absolute=True, graph=R, tol=1e-6).fit_gram(stats)
    best = conic(X, y, task, R, lam, gamma)
    np.testing.assert_allclose(value(stats, model.coef_, R, lam, gamma), best, rtol=1e-5)
    np.testing.assert_allclose(model.objective_history_[-1], best, rtol=1e-5)


def test_reaches_the_optimum_for_shared_inputs_and_correlated_responses():
    X, Y = wide()
    model = GFL(tol=1e-6).fit(X, Y)
    table, y = long(X, Y)
    best = conic(table[:, 1:], y, table[:, 0], model.correlation_, model.lambda_, model.gamma_)
    np.testing.assert_allclose(model.objective_history_[-1], best, rtol=1e-5)


@pytest.mark.parametrize("seed", range(4))
def test_the_gap_bounds_the_distance_to_the_optimum_at_every_accuracy(seed):
    stats = gram(seed, T=5, d=4)
    problem = FusedProblem.of(stats, 0.3, 0.5, signed(5, seed))
    best = solve_fused(problem, tol=1e-10, max_iter=20_000).history[-1]
    for max_iter in (10, 30, 100):
        rough = solve_fused(problem, tol=0.0, max_iter=max_iter)
        assert rough.history[-1] - best <= rough.residual * rough.history[-1] + 1e-9 * best


def test_the_best_objective_never_rises_and_ends_with_a_certificate():
    model = GFL(graph=signed(6)).fit_gram(gram())
    assert (np.diff(model.objective_history_) <= 0).all()
    assert model.converged_
    assert model.optimality_["duality_gap"] <= 1e-5


def test_dense_shared_and_iterative_solvers_agree(monkeypatch):
    X, Y = wide()
    R = signed(5)
    shared = FusedProblem.of(GramStats.from_rows(X, Y), 1.0, 0.5, R)
    table, y = long(X, Y)
    own = FusedProblem.of(GramStats.from_rows(table[:, 1:], y, table[:, 0].astype(int)), 1.0, 0.5, R)
    B, guess = np.random.default_rng(3).normal(size=(5, 4)), np.zeros((5, 4))
    by_spectrum = shared.solver(0.7)(B, guess)
    monkeypatch.setattr("kinfolk.rivals.solvers.fused_lasso.is_shared", lambda G: False)
    dense = own.solver(0.7)(B, guess)
    monkeypatch.setattr("kinfolk.rivals.solvers.fused_lasso.DENSE_UNKNOWNS", 0)
    iterative = own.solver(0.7)(B, guess)
    np.testing.assert_allclose(dense, by_spectrum, atol=1e-10)
    np.testing.assert_allclose(iterative, by_spectrum, atol=1e-8)


def test_the_graph_holds_the_correlations_above_the_threshold():
    X, Y = wide()
    expected = np.corrcoef(Y.T)
    np.fill_diagonal(expected, 0.0)
    model = GFL(threshold=0.6).fit(X, Y)
    np.testing.assert_allclose(model.correlation_, np.where(np.abs(expected) > 0.6, expected, 0.0), atol=1e-12)
    np.testing.assert_allclose(model.structure_.adjacency.toarray(), np.abs(model.correlation_))
    assert (model.correlation_ < 0).any()


def test_a_long_table_with_shared_inputs_is_the_same_as_wide_targets():
    X, Y = wide()
    table, y = long(X, Y)
    order = np.random.default_rng(4).permutation(len(y))
    one, two = GFL(tol=1e-8).fit(X, Y), GFL(task=0, tol=1e-8).fit(table[order], y[order])
    np.testing.assert_allclose(two.correlation_, one.correlation_, atol=1e-12)
    np.testing.assert_allclose(two.coef_, one.coef_, atol=1e-4)


def test_correlations_use_the_rows_that_two_tasks_share():
    X, Y = wide()
    Y[:10, 0], Y[20:, 1] = np.nan, np.nan
    expected = pd.DataFrame(Y).corr().to_numpy()
    R, common = pairwise_correlation(Y)
    np.testing.assert_allclose(R, expected, atol=1e-12)
    assert common[0, 1] == 10
    table, y = long(X, Y)
    seen = ~np.isnan(y)
    model = GFL(task=0, threshold=0.0).fit(table[seen], y[seen])
    np.testing.assert_allclose(model.correlation_, expected - np.eye(5), atol=1e-12)


def test_a_weight_of_two_counts_as_two_rows():
    Y = wide()[1]
    weight = np.random.default_rng(5).integers(0, 3, size=len(Y))
    one, _ = pairwise_correlation(Y, weight.astype(float))
    two, _ = pairwise_correlation(np.repeat(Y, weight, axis=0))
    np.testing.assert_allclose(one, two, atol=1e-12)


def test_a_large_level_of_the_responses_does_not_spoil_the_correlations():
    Y = wide()[1]
    np.testing.assert_allclose(pairwise_correlation(Y + 1e6)[0], pairwise_correlation(Y)[0], atol=1e-8)


def test_tasks_without_common_rows_are_refused_with_the_remedy():
    table, y = frame()
    with pytest.raises(ValueError, match=r"no two tasks with at least 3 rows of the same inputs.*graph=") as error:
        GFL(task="who").fit(table, y)
    assert "TaskGraph" in str(error.value)


def test_statistics_alone_need_a_graph_even_after_a_fit_on_rows():
    X, Y = wide()
    model = GFL().fit(X, Y)
    with pytest.raises(ValueError, match="graph="):
        model.fit_gram(GramStats.from_rows(X, Y))


def test_a_given_graph_is_taken_by_label():
    table, y = frame(T=3)
    labels = np.array(["task_02", "task_00", "task_01"])
    A = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    model = GFL(task="who", graph=TaskGraph(sparse.csr_array(A), labels)).fit(table, y)
    np.testing.assert_array_equal(model.correlation_, [[0, 0, 1], [0, 0, 0], [1, 0, 0]])


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (np.zeros((2, 2)), r"graph has shape \(2, 2\), but there are 6 tasks: give a \(6, 6\) array"),
        (np.triu(np.ones((6, 6))), "graph must be symmetric with finite weights"),
        (np.full((6, 6), np.nan), "graph must be symmetric with finite weights"),
    ],
)
def test_an_unfit_graph_is_refused(graph, message):
    with pytest.raises(ValueError, match=message):
        GFL(graph=graph).fit_gram(gram())


def test_without_fusion_it_is_a_lasso_per_task():
    stats = gram(T=3)
    model = GFL(sparsity=0.05, fusion=0.0, graph=signed(3), tol=1e-9).fit_gram(stats)
    alone = GFL(sparsity=model.lambda_, fusion=0.0, absolute=True, tol=1e-9).fit_gram(stats.select([1]))
    np.testing.assert_allclose(model.coef_[1], alone.coef_[0], atol=1e-4)


def test_a_strong_fusion_merges_tasks_up_to_their_sign():
    X, Y = wide(T=3)
    model = GFL(sparsity=1e-4, fusion=10.0, graph=np.array([[0, 1.0, -1.0], [1.0, 0, 0], [-1.0, 0, 0]])).fit(X, Y)
    np.testing.assert_allclose(model.coef_[1], model.coef_[0], atol=1e-3)
    np.testing.assert_allclose(model.coef_[2], -model.coef_[0], atol=1e-3)


def test_from_sparsity_one_on_all_coefficients_are_exactly_zero():
    X, Y = wide()
    np.testing.assert_array_equal(GFL(sparsity=1.0).fit(X, Y).coef_, 0.0)
    assert 0 < np.count_nonzero(GFL(sparsity=0.3).fit(X, Y).coef_) < 20


def test_the_scale_of_the_target_scales_the_weights():
    X, Y = wide()
    one, two = GFL(tol=1e-8).fit(X, Y), GFL(tol=1e-8).fit(X, 1e3 * Y)
    np.testing.assert_allclose(two.coef_, 1e3 * one.coef_, atol=0.1)


def test_relabelling_tasks_permutes_the_results():
    X, y, task = rows(T=6)
    other, R = np.array([3, 0, 5, 1, 4, 2]), signed(6)
    back = np.argsort(other)
    one = GFL(task=0, graph=R, tol=1e-8).fit(np.column_stack([task, X]), y)
    two = GFL(task=0, graph=R[np.ix_(back, back)], tol=1e-8).fit(np.column_stack([other[task], X]), y)
    np.testing.assert_allclose(two.coef_[other], one.coef_, atol=1e-4)


def test_copies_of_a_task_get_equal_weights():
    X, Y = wide(T=3)
    model = GFL(tol=1e-8).fit(X, Y[:, [0, 1, 2, 0]])
    np.testing.assert_allclose(model.correlation_[0, 3], 1.0)
    np.testing.assert_allclose(model.coef_[0], model.coef_[3], atol=1e-4)


def test_a_constant_target_has_no_edges_and_zero_weights():
    X, Y = wide(T=3)
    Y[:, 1] = 4.0
    model = GFL().fit(X, Y)
    np.testing.assert_array_equal(model.correlation_[1], 0.0)
    np.testing.assert_allclose(model.coef_[1], 0.0, atol=1e-9)
    np.testing.assert_array_equal(GFL().fit(X, np.ones_like(Y)).coef_, 0.0)


def test_a_target_without_values_is_predicted_by_the_population_and_has_no_edges():
    X, Y = wide()
    Y[:, 2] = np.nan
    model = GFL().fit(X, Y)
    np.testing.assert_allclose(model.coef_[2], model.population_coef_)
    assert model.structure_.degree[2] == 0
    assert model.correlation_.shape == (5, 5)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"sparsity": 0.0}, "sparsity=0.0 must be greater than 0 and finite: it may be tiny"),
        ({"fusion": -1.0}, "fusion=-1.0 must be at least 0 and finite"),
        ({"threshold": 1.0}, "threshold=1.0 must be at least 0 and below 1"),
    ],
)
def test_bad_parameters_are_named(parameters, message):
    with pytest.raises(ValueError, match=message):
        GFL(**parameters, graph=signed(6)).fit_gram(gram())


def test_too_few_iterations_warn_with_remedies():
    with pytest.warns(ConvergenceWarning, match="duality gap .* raise sparsity, max_iter or tol"):
        GFL(graph=signed(6), max_iter=3).fit_gram(gram())


@pytest.mark.parametrize("unit", [1e-150, 1e150])
def test_correlations_of_responses_in_any_unit(unit):
    Y = np.random.default_rng(3).normal(size=(9, 3))
    np.testing.assert_allclose(pairwise_correlation(unit * Y)[0], pairwise_correlation(Y)[0], rtol=1e-12)


def test_rows_far_beyond_the_training_rows_are_clipped_as_in_every_method():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2))
    model = GFL().fit(X, X @ rng.normal(size=(2, 3)) + 0.1 * rng.normal(size=(30, 3)))
    with pytest.warns(UserWarning, match="some rows lie far beyond the training rows"):
        far = model.predict(1e6 * X[:1])
    assert np.abs(far).max() < 100
