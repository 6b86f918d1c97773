"""MSSL: both blocks against independent references at the end, a falling objective, its limits."""

import cvxpy as cp
import numpy as np
import pytest
from sklearn.covariance import graphical_lasso as reference
from sklearn.exceptions import ConvergenceWarning

from kinfolk import GramStats
from kinfolk.baselines import MSSL
from kinfolk.rivals.solvers.structured import StructuredProblem
from problems import gram, rows

TOL = 1e-6


def parts(model):
    """W and Om in the units of the objective: y over its pooled standard deviation."""
    return model.coef_ / model.target_scale_, model.structure_.precision * model.target_scale_**2


def objective(stats, model, W, Om):
    """The formula of the docstring, from statistics."""
    d = W.shape[1]
    s = model.target_scale_
    loss = (stats.yy / s**2 - 2 * (stats.b * W).sum(axis=1) / s + np.einsum("ti,tij,tj->t", W, stats.G, W)) / stats.n
    size = np.abs(Om).sum() - (not model.penalise_diagonal) * np.trace(np.abs(Om))
    prior = np.trace(W @ W.T @ Om) / d - np.linalg.slogdet(Om)[1] + model.sparsity_ * size
    return loss.sum() + model.lasso * np.abs(W).sum() + model.strength * d / 2 * prior


CASES = [
    {"strength": 0.01, "sparsity": 0.3},
    {"strength": 0.1, "sparsity": 0.1},
    {"strength": 0.001, "sparsity": 1.0, "lasso": 0.02},
    {"strength": 0.01, "sparsity": 0.1, "lasso": 0.2},
    {"strength": 0.001, "sparsity": 0.3, "penalise_diagonal": False},
]


@pytest.mark.parametrize("parameters", CASES)
def test_the_precision_is_the_graphical_lasso_of_the_weights(parameters):
    model = MSSL(**parameters, tol=1e-8).fit_gram(gram(T=5, d=7, n=(10, 20)))
    W, Om = parts(model)
    S = W @ W.T / 7 + model.penalise_diagonal * model.sparsity_ * np.eye(5)
    _, expected = reference(S, alpha=model.sparsity_, tol=1e-9, enet_tol=1e-11, max_iter=5000)
    np.testing.assert_allclose(Om, expected, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize("parameters", CASES)
def test_the_weights_are_the_best_for_the_precision(parameters):
    X, y, task = rows(T=5, d=7, n=(10, 20))
    stats = GramStats.from_rows(X, y, task)
    model = MSSL(**parameters).fit_gram(stats)
    found, Om = parts(model)
    root = np.linalg.cholesky(Om)
    W = cp.Variable((5, 7))
    loss = 0
    for t in range(5):
        x, target = X[task == t], y[task == t] / model.target_scale_
        loss += cp.sum_squares((x - x.mean(axis=0)) @ W[t] - (target - target.mean())) / len(x)
    prior = model.strength / 2 * cp.sum_squares(root.T @ W) + model.lasso * cp.sum(cp.abs(W))
    cp.Problem(cp.Minimize(loss + prior)).solve(solver=cp.CLARABEL)
    np.testing.assert_allclose(found, W.value, atol=1e-4 * np.abs(found).max())


@pytest.mark.parametrize("parameters", CASES)
@pytest.mark.parametrize("seed", range(2))
def test_the_objective_never_rises_and_both_blocks_end_stationary(parameters, seed):
    stats = gram(seed, T=8, d=4, n=(6, 12))
    model = MSSL(**parameters).fit_gram(stats)
    assert (np.diff(model.objective_history_) <= 0).all()
    np.testing.assert_allclose(model.objective_history_[-1], objective(stats, model, *parts(model)), rtol=1e-9)
    assert model.optimality_["weights_residual"] <= 1e-8
    assert model.optimality_["precision_gap"] <= TOL
    assert model.converged_


def test_no_small_move_of_both_blocks_improves_the_objective():
    stats = gram(T=4, d=6, n=(10, 20))
    model = MSSL(tol=1e-9).fit_gram(stats)
    W, Om = parts(model)
    best = objective(stats, model, W, Om)
    rng = np.random.default_rng(0)
    for _ in range(30):
        dW, dOm = rng.normal(size=W.shape), rng.normal(size=Om.shape)
        scale = 10.0 ** rng.uniform(-4, -2)
        moved = objective(stats, model, W + scale * dW, Om + scale * Om.max() * (dOm + dOm.T))
        assert moved >= best


def test_the_papers_coupling_is_redundant():
    T, d, c = 4, 6, 7.0
    stats = gram(T=T, d=d)
    rng = np.random.default_rng(1)
    W, M = rng.normal(size=(T, d)), rng.normal(size=(T, T))
    Om = M @ M.T + np.eye(T)

    def papers(Om, l0, l1):
        loss = (stats.yy - 2 * (stats.b * W).sum(axis=1) + np.einsum("ti,tij,tj->t", W, stats.G, W)) / stats.n
        return loss.sum() + l0 * np.trace(W.T @ Om @ W) - d / 2 * np.linalg.slogdet(Om)[1] + l1 * np.abs(Om).sum()

    shift = d / 2 * T * np.log(c)
    np.testing.assert_allclose(papers(Om / c, c * 0.5, c * 0.2), papers(Om, 0.5, 0.2) + shift)


def test_the_stated_parameters_give_the_papers_objective_in_raw_units():
    stats = gram(T=4, d=6, n=(10, 20))
    s = np.sqrt(stats.yy.sum() / stats.n.sum())
    trial = MSSL(strength=1 / s**2).fit_gram(stats)
    l1 = trial.sparsity_ * 6 * s**2 / 2
    W, Om = trial.coef_, trial.structure_.precision
    loss = (stats.yy - 2 * (stats.b * W).sum(axis=1) + np.einsum("ti,tij,tj->t", W, stats.G, W)) / stats.n
    raw = loss.sum() + np.trace(W.T @ Om @ W) / 2 - 3 * np.linalg.slogdet(Om)[1] + l1 * np.abs(Om).sum()
    np.testing.assert_allclose(raw / s**2, trial.objective_history_[-1] + 3 * 4 * np.log(s**2) / s**2, rtol=1e-9)


@pytest.mark.parametrize("lasso", [0.0, 0.05])
def test_the_weight_step_is_the_same_dense_iterative_and_shared(lasso, monkeypatch):
    X, y, _ = rows(T=6, d=5, n=(8, 9))
    Y = y.reshape(6, -1).T
    shared = StructuredProblem.of(
        GramStats.from_rows(X[:8], Y), 1.0, strength=0.1, sparsity=0.1, lasso=lasso, penalise_diagonal=True
    )
    M = np.random.default_rng(2).normal(size=(6, 6))
    Om, start = M @ M.T + np.eye(6), np.zeros((6, 5))
    by_spectrum = shared.weight_step(start, Om).value
    monkeypatch.setattr("kinfolk.solvers.weights.SHARED_TASKS", 0)
    dense = shared.weight_step(start, Om).value
    monkeypatch.setattr("kinfolk.solvers.weights.DIRECT_UNKNOWNS", 0)
    iterative = shared.weight_step(start, Om).value
    np.testing.assert_allclose(dense, by_spectrum, atol=1e-7)
    np.testing.assert_allclose(iterative, by_spectrum, atol=1e-7)


def test_kin_tasks_depend_on_each_other_and_strangers_do_not():
    rng = np.random.default_rng(3)
    W = np.repeat(rng.normal(size=(3, 40)), 2, axis=0) + 0.1 * rng.normal(size=(6, 40))
    X = rng.normal(size=(200, 40))
    model = MSSL(strength=1e-3).fit(X, X @ W.T + 0.1 * rng.normal(size=(200, 6)))
    edges = model.structure_.graph(above=0.1).edges()
    assert {(e.task, e.neighbor) for e in edges} == {(0, 1), (2, 3), (4, 5)}


def test_more_tasks_than_features_give_a_definite_precision():
    model = MSSL().fit_gram(gram(T=15, d=2))
    assert np.linalg.eigvalsh(model.structure_.precision).min() > 0


def test_a_large_sparsity_leaves_no_dependence():
    model = MSSL(sparsity=100.0).fit_gram(gram(T=5, d=4))
    np.testing.assert_array_equal(model.structure_.graph().adjacency.toarray(), 0.0)


def test_a_tiny_strength_is_least_squares_per_task():
    stats = gram(T=4, d=3, n=(10, 20))
    model = MSSL(strength=1e-9).fit_gram(stats)
    np.testing.assert_allclose(model.coef_, np.linalg.solve(stats.G, stats.b[:, :, None])[:, :, 0], rtol=1e-4)


def test_a_large_lasso_gives_zero_weights():
    np.testing.assert_array_equal(MSSL(lasso=100.0).fit_gram(gram()).coef_, 0.0)


@pytest.mark.parametrize(("T", "d"), [(1, 3), (2, 1), (1, 1)])
def test_one_or_two_tasks_or_one_feature_work(T, d):
    stats = gram(T=T, d=d)
    model = MSSL().fit_gram(stats)
    assert model.converged_
    assert model.structure_.precision.shape == (T, T)


def test_copies_of_a_task_get_equal_weights():
    X, y, task = rows(T=3, d=4)
    again = task == 0
    table = np.column_stack([np.append(task, np.full(again.sum(), 3)), np.vstack([X, X[again]])])
    model = MSSL(task=0, tol=1e-9).fit(table, np.append(y, y[again]))
    np.testing.assert_allclose(model.coef_[0], model.coef_[3], atol=1e-4)


def test_constant_targets_give_zero_weights():
    model = MSSL(task=0).fit(np.column_stack([[0, 0, 1, 1], [1.0, 2.0, 3.0, 5.0]]), [4.0, 4.0, 7.0, 7.0])
    np.testing.assert_array_equal(model.coef_, 0.0)
    np.testing.assert_allclose(model.intercept_, [4.0, 7.0])


def test_without_a_penalty_on_the_diagonal_a_vanishing_task_is_named():
    table = np.column_stack([[0, 0, 0, 1, 1, 1], [1.0, 2.0, 3.0, 5.0, 6.0, 8.0]])
    with pytest.raises(ValueError, match=r"task 1\.?0? have shrunk to zero.*penalise_diagonal=True"):
        MSSL(task=0, penalise_diagonal=False).fit(table, [1.0, 2.0, 4.0, 7.0, 7.0, 7.0])


def test_the_scale_of_the_target_scales_the_weights():
    X, y, task = rows(n=(8, 12))
    one, two = (MSSL(tol=1e-9).fit_gram(GramStats.from_rows(X, s * y, task)) for s in (1.0, 1e3))
    np.testing.assert_allclose(two.coef_, 1e3 * one.coef_, rtol=1e-4)
    np.testing.assert_allclose(two.structure_.partial_correlation, one.structure_.partial_correlation, atol=1e-5)


def test_relabelling_tasks_permutes_the_results():
    X, y, task = rows(T=6, n=(8, 12))
    other = np.array([3, 0, 5, 1, 4, 2])
    one = MSSL(task=0, tol=1e-9).fit(np.column_stack([task, X]), y)
    two = MSSL(task=0, tol=1e-9).fit(np.column_stack([other[task], X]), y)
    np.testing.assert_allclose(two.coef_[other], one.coef_, atol=1e-4)
    np.testing.assert_allclose(
        two.structure_.partial_correlation[np.ix_(other, other)], one.structure_.partial_correlation, atol=1e-4
    )


def test_a_task_without_targets_is_predicted_by_the_population_and_depends_on_none():
    X, y, task = rows(T=4)
    model = MSSL(task=0).fit(np.column_stack([task, X]), np.where(task == 2, np.nan, y))
    np.testing.assert_allclose(model.coef_[2], model.population_coef_)
    np.testing.assert_array_equal(model.structure_.partial_correlation[2], [0.0, 0.0, 1.0, 0.0])


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"strength": 0.0}, "strength=0.0 must be greater than 0 and finite"),
        ({"sparsity": -1.0}, "sparsity=-1.0 must be greater than 0 and finite"),
        ({"lasso": np.nan}, "lasso=nan must be at least 0 and finite"),
        ({"max_iter": 0}, "max_iter=0 must be at least 1"),
    ],
)
def test_bad_parameters_are_named(parameters, message):
    with pytest.raises(ValueError, match=message):
        MSSL(**parameters).fit_gram(gram())


def test_too_few_rounds_warn_with_remedies():
    with pytest.warns(
        ConvergenceWarning, match="MSSL stopped after 1 rounds .weights residual .*raise sparsity, max_iter or tol"
    ):
        MSSL(max_iter=1).fit_gram(gram())


def test_few_rows_of_huge_inputs_and_a_target_that_never_varies_give_zeros():
    rng = np.random.default_rng(0)
    task, X = np.repeat(np.arange(40), 2), 1e38 * rng.normal(size=(80, 8))
    model = MSSL(task=0).fit(np.column_stack([task, X]), np.full(80, 3.0))
    np.testing.assert_array_equal(model.coef_, 0)
    assert (model.intercept_ == 3).all()
