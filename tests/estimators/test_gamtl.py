import itertools
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kinfolk import GAMTL, GramStats
from kinfolk.datasets import make_circle, make_groups
from kinfolk.graph import squared_distances
from kinfolk.methods.gamtl.alternate import Alternation, alternate
from kinfolk.methods.gamtl.problem import Problem, independent
from kinfolk.solvers.equations import normal_equations
from kinfolk.solvers.mixed import mixed_model
from kinfolk.solvers.solution import Solution
from problems import frame, gram, rows

PAPER = {"alpha": 1.0, "beta": 0.5, "gamma": 0.4}
TABLE, Y = frame(7, T=8, n=(6, 12))


@pytest.mark.parametrize("intercept", ["free", "shrunk", "coupled", None])
@pytest.mark.parametrize("anchor", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("metric", ["identity", "learned", "learned_full"])
@pytest.mark.parametrize("letters", [PAPER, {"neighbors": 3, "strength": 2.0}])
def test_the_objective_never_rises_and_both_steps_are_optimal_at_the_end(intercept, anchor, metric, letters):
    model = GAMTL(
        task="who", intercept=intercept, anchor=anchor, metric=metric, tol=1e-10, max_iter=2000, **letters
    ).fit(TABLE, Y)
    history = model.objective_history_
    assert model.converged_ and model.n_iter_ == len(history)
    assert (np.diff(history) <= 1e-10 * np.abs(history[:-1])).all()
    assert model.optimality_["weights_residual"] < 1e-10
    assert model.optimality_["duality_gap"] <= 1e-8
    assert model.optimality_["graph_residual"] < 1e-3


def test_the_objective_is_eq_8_written_out_over_rows():
    X, y, task = rows(2, T=5)
    model = GAMTL(task=0, ridge=0.3, intercept=None, **PAPER).fit(np.column_stack([task, X]), y)
    W, A = model.coef_, model.adjacency_.toarray()
    loss = sum(((X[task == t] @ W[t] - y[task == t]) ** 2).sum() for t in range(5))
    pull = 0.4 * sum(A[i, j] * ((W[i] - W[j]) ** 2).sum() for i in range(5) for j in range(5))
    graph = -1.0 * np.log(A.sum(axis=1)).sum() + 0.5 * (A**2).sum()
    assert model.objective_history_[-1] == pytest.approx(loss + 0.3 * (W**2).sum() + pull + graph, rel=1e-10)


def test_the_anchor_is_a_complete_graph():
    stats, rng = gram(3), np.random.default_rng(0)
    part = GAMTL(**PAPER).fit_gram(stats).model_.graph_part
    W, A = rng.normal(size=stats.b.shape), part.coupling.adjacency
    problem = replace(part.coupling.problem(part.equations(stats)), anchor=0.25)
    coupling = problem.objective(W, A) - replace(problem, gamma=0.0).objective(W, A)
    B = 0.75 * A.toarray() + 0.25 / 5 * (1 - np.eye(6))
    assert coupling == pytest.approx(0.4 * (B * squared_distances(W)).sum())


def test_no_coupling_is_one_ridge_per_task():
    model = GAMTL(task="who", alpha=1.0, beta=1.0, gamma=0.0, ridge=0.8).fit(TABLE, Y)
    for t, name in enumerate(model.tasks_):
        own = TABLE.who == name
        ridge = Ridge(alpha=0.8).fit(TABLE[own].drop(columns="who"), Y[own])
        np.testing.assert_allclose(model.coef_[t], ridge.coef_, atol=1e-9)
        assert model.intercept_[t] == pytest.approx(ridge.intercept_)


def test_endless_strength_on_a_connected_graph_is_the_pooled_fit_with_own_intercepts():
    model = GAMTL(task="who", strength=1e9, neighbors=7, ridge=1e-9).fit(TABLE, Y)
    dummies = pd.get_dummies(TABLE.who, dtype=float)
    pooled = LinearRegression(fit_intercept=False).fit(np.hstack([TABLE.drop(columns="who"), dummies]), Y)
    np.testing.assert_allclose(model.coef_, np.tile(pooled.coef_[:4], (8, 1)), atol=1e-5)
    np.testing.assert_allclose(model.intercept_, pooled.coef_[4:], atol=1e-5)


def test_full_anchor_shrinks_to_the_mean_of_all_tasks():
    stats = gram(4)
    model = GAMTL(alpha=1.0, beta=1.0, gamma=3.0, anchor=1.0, ridge=0.5).fit_gram(stats)
    W, T = model.coef_, 6
    gradient = np.einsum("tij,tj->ti", stats.G, W) - stats.b + 0.5 * W + 2 * 3.0 * T / (T - 1) * (W - W.mean(axis=0))
    np.testing.assert_allclose(gradient, 0, atol=1e-8)


def test_identical_tasks_get_identical_rows():
    X, y, task = rows(1, T=4)
    first = task == 0
    X, y, task = np.vstack([X, X[first]]), np.append(y, y[first]), np.append(task, np.full(first.sum(), 9))
    model = GAMTL(task=0).fit(np.column_stack([task, X]), y)
    np.testing.assert_allclose(model.coef_[0], model.coef_[-1], atol=1e-8)


@pytest.mark.parametrize("T", [1, 2, 3])
@pytest.mark.parametrize("intercept", ["free", "coupled", None])
def test_one_two_and_three_tasks(T, intercept):
    table, y = frame(T, T=T, n=(5, 9))
    model = GAMTL(task="who", intercept=intercept).fit(table, y)
    assert model.coef_.shape == (T, 4) and np.isfinite(model.predict(table)).all()
    assert (model.graph_.degree > 0).sum() == {1: 0, 2: 2, 3: 3}[T]


def test_a_single_task_is_ridge():
    X, y, _ = rows(0, T=1, n=(20, 21))
    model, ridge = GAMTL(ridge=2.0).fit(X, y), Ridge(alpha=2.0).fit(X, y)
    np.testing.assert_allclose(model.predict(X), ridge.predict(X))
    assert model.predict(X).shape == (20,)


def test_coupled_intercepts_do_not_depend_on_where_zero_is():
    moved = TABLE.copy()
    moved[["x0", "x1", "x2", "x3"]] += 100.0
    here, there = (GAMTL(task="who", intercept="coupled").fit(t, Y).predict(t) for t in (TABLE, moved))
    np.testing.assert_allclose(here, there, atol=1e-6)


def test_strength_one_means_that_neighbours_pull_as_hard_as_own_data():
    syn = make_groups(random_state=11)
    model = GAMTL(task=syn.task, strength=1.0).fit(syn.data, syn.target)
    stats = GramStats.from_rows(syn.data.drop(columns="task"), syn.target, syn.data.task)
    own = np.trace(stats.G, axis1=1, axis2=2).mean() / 30
    assert 2 * model.gamma_ * model.coupling_.sum() / len(model.tasks_) == pytest.approx(own, rel=0.1)


def test_units_of_the_target_change_nothing_but_units():
    one, thousand = (GAMTL(task="who", ridge=0.0).fit(TABLE, c * Y) for c in (1.0, 1000.0))
    np.testing.assert_allclose(thousand.coef_, 1000 * one.coef_, rtol=1e-4)
    np.testing.assert_allclose(thousand.adjacency_.toarray(), one.adjacency_.toarray(), atol=1e-3)


def test_statistics_alone_give_the_fit_of_the_rows():
    X, y, task = rows(5)
    stats = GramStats.from_rows(X, y, task)
    of_rows = GAMTL(task=0).fit(np.column_stack([task, X]), y)
    of_statistics = GAMTL(task=0).fit_gram(stats)
    np.testing.assert_allclose(of_statistics.coef_, of_rows.coef_, atol=1e-12)
    np.testing.assert_allclose(
        of_statistics.predict(np.column_stack([task, X])), of_rows.predict(np.column_stack([task, X]))
    )


@pytest.mark.parametrize("solver", ["direct", "cg"])
@pytest.mark.parametrize("graph", ["newton", "primal_dual"])
def test_all_solvers_lead_to_the_same_model(solver, graph):
    reference = GAMTL(task="who", tol=1e-9, **PAPER).fit(TABLE, Y)
    model = GAMTL(task="who", tol=1e-9, weights_solver=solver, graph_solver=graph, **PAPER).fit(TABLE, Y)
    np.testing.assert_allclose(model.coef_, reference.coef_, atol=1e-4)


def test_planted_groups_and_outliers_are_found():
    syn = make_groups(random_state=2)
    graph = GAMTL(task=syn.task).fit(syn.data, syn.target).graph_
    assert graph.outliers() == [19, 20]
    assert graph.communities() == [list(range(1, 13)), list(range(13, 19)), [19], [20]]


def test_grouped_tasks_predict_far_better_together():
    syn = make_groups(random_state=2)
    together = GAMTL(task=syn.task).fit(syn.data, syn.target)
    alone = GAMTL(task=syn.task, strength=0.0).fit(syn.data, syn.target)
    grouped = syn.test_data.task <= 18
    error = [((m.predict(syn.test_data) - syn.test_target)[grouped] ** 2).mean() for m in (together, alone)]
    assert error[0] < 0.3 * error[1]


def test_weights_count_like_repeated_rows():
    w = np.random.default_rng(0).integers(1, 4, size=len(Y))
    weighted = GAMTL(task="who").fit(TABLE, Y, sample_weight=w)
    repeated = GAMTL(task="who").fit(TABLE.loc[TABLE.index.repeat(w)], np.repeat(Y, w))
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-8)


def test_pipelines_grids_and_cross_validation_work_with_a_string_task_column():
    table, y = frame(3, T=4, n=(20, 25))
    model = GAMTL(task="who", features=make_pipeline(StandardScaler()), strength=0.01, unseen="mean")
    scores = cross_val_score(model, table, y, cv=KFold(3, shuffle=True, random_state=0))
    assert (scores > 0.9).all()
    grid = GridSearchCV(model, {"strength": [0.01, 10.0], "ridge": [0.1]}, cv=3).fit(table, y)
    assert grid.best_params_["strength"] == 0.01  # the tasks are unrelated
    assert grid.predict(table).shape == y.shape


def test_features_are_fitted_on_the_columns_without_the_task():
    scaled = TABLE.copy()
    columns = ["x0", "x1", "x2", "x3"]
    scaled[columns] = StandardScaler().fit_transform(TABLE[columns])
    inside = GAMTL(task="who", features=StandardScaler()).fit(TABLE, Y)
    outside = GAMTL(task="who").fit(scaled, Y)
    np.testing.assert_allclose(inside.predict(TABLE), outside.predict(scaled), atol=1e-9)


def test_wide_and_long_form_are_one_model():
    rng = np.random.default_rng(1)
    X, values = rng.normal(size=(20, 3)), rng.normal(size=(20, 4))
    long = np.column_stack([np.repeat(np.arange(4), 20), np.tile(X, (4, 1))])
    wide, table = GAMTL().fit(X, values), GAMTL(task=0).fit(long, values.T.ravel())
    np.testing.assert_allclose(wide.coef_, table.coef_, atol=1e-8)
    assert wide.solvers_["weights"] == "shared"
    np.testing.assert_allclose(wide.predict(X).T.ravel(), table.predict(long), atol=1e-8)


def test_the_score_of_wide_targets_skips_what_was_not_observed():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(40, 3))
    values = X @ rng.normal(size=(3, 4)) + 0.01 * rng.normal(size=(40, 4))
    values[::3, 2] = np.nan
    assert GAMTL(ridge=1e-3, strength=0.01).fit(X, values).score(X, values) > 0.95


def test_progress_is_reported_after_every_round():
    seen = []
    model = GAMTL(task="who", callback=seen.append, tol=1e-9).fit(TABLE, Y)
    assert [p.done for p in seen] == list(range(2, model.n_iter_ + 1))
    assert seen[-1].value == model.objective_history_[-1]


def test_too_few_rounds_are_a_warning_with_remedies():
    from sklearn.exceptions import ConvergenceWarning

    with pytest.warns(ConvergenceWarning, match="has not converged in 2 rounds.*raise max_iter"):
        model = GAMTL(task="who", max_iter=2, tol=1e-14).fit(TABLE, Y)
    assert not model.converged_


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"alpha": 1.0}, "all of alpha, beta, gamma"),
        ({"alpha": 0.0, "beta": 1.0, "gamma": 1.0}, "alpha=0.0 must be greater than 0"),
        ({"ridge": -1.0}, "ridge=-1.0 must be at least 0"),
        ({"strength": np.inf}, "strength=inf"),
        ({"neighbors": 0}, "neighbors=0"),
        ({"anchor": 2.0}, "anchor=2.0 must be between 0 and 1"),
        ({"intercept": "own"}, "intercept='own'"),
        ({"metric": "cosine"}, "metric='cosine'"),
        ({"unseen": "ignore"}, "unseen='ignore'"),
        ({"weights_solver": "lu"}, "unknown weights method"),
        ({"graph_solver": "lu"}, "unknown graph method"),
    ],
)
def test_bad_parameters_are_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        GAMTL(task="who", **parameters).fit(TABLE, Y)


def test_few_rows_many_features_and_constant_targets_stay_finite():
    table, y = frame(5, T=5, d=30, n=(2, 4))
    model = GAMTL(task="who").fit(table, np.where(table.who == "task_00", 3.0, y))
    assert np.isfinite(model.coef_).all() and model.converged_


def test_with_a_learned_metric_the_full_anchor_is_the_mixed_model():
    """gamma M'M at the variances of the mixed model, with B uniform, is its penalty: same slopes."""
    X, y, task = rows(6, T=12, n=(8, 14))
    stats = GramStats.from_rows(X, y, task)
    effects = mixed_model(stats, intercept="free", tol=1e-8)
    gamma = effects.sigma2 * (12 - 1) / (2 * 12)  # 2 gamma T / (T - 1) = sigma2, in units where Sigma is the identity
    model = GAMTL(metric="learned", anchor=1.0, alpha=1.0, beta=1.0, gamma=gamma, ridge=0.0).fit_gram(stats)
    np.testing.assert_allclose(model.coef_, effects.coef, rtol=0.02, atol=0.02)
    np.testing.assert_allclose(model.relevance_, effects.relevance, rtol=0.05)


def test_a_learned_metric_does_not_depend_on_the_units_of_features():
    scaled = TABLE.assign(x1=1e3 * TABLE.x1)
    one, two = (GAMTL(task="who", metric="learned", ridge=0.0).fit(t, Y) for t in (TABLE, scaled))
    np.testing.assert_allclose(two.predict(scaled), one.predict(TABLE), rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(two.adjacency_.toarray(), one.adjacency_.toarray(), atol=1e-2)


def test_shrunk_intercepts_lie_between_their_mean_and_the_free_ones():
    table, y = frame(4, T=10, n=(3, 5), noise=3.0)
    free, shrunk = (GAMTL(task="who", intercept=kind).fit(table, y) for kind in ("free", "shrunk"))
    assert shrunk.intercept_.std() < free.intercept_.std()


def test_rows_in_parts_give_the_fit_of_all_rows():
    model = GAMTL(task="who", **PAPER)
    for part in range(2):
        model.partial_fit(TABLE[part::2], Y[part::2])
    np.testing.assert_allclose(model.coef_, GAMTL(task="who", **PAPER).fit(TABLE, Y).coef_, atol=1e-9)


def test_a_stream_that_forgets_weighs_old_rows_less():
    half = len(Y) // 2
    stream = GAMTL(task="who", **PAPER).fit(TABLE[:half], Y[:half]).partial_fit(TABLE[half:], Y[half:], forget=0.25)
    weight = np.where(np.arange(len(Y)) < half, 0.25, 1.0)
    np.testing.assert_allclose(stream.coef_, GAMTL(task="who", **PAPER).fit(TABLE, Y, weight).coef_, atol=1e-9)


def test_new_tasks_may_come_with_new_rows():
    first = TABLE.who < "task_04"
    model = GAMTL(task="who").fit(TABLE[first], Y[first]).partial_fit(TABLE[~first], Y[~first])
    assert model.tasks_.tolist() == sorted(TABLE.who.unique())
    assert np.isfinite(model.predict(TABLE)).all()


def test_new_rows_must_have_the_columns_of_the_first():
    model = GAMTL(task="who").fit(TABLE, Y)
    with pytest.raises(ValueError, match="now missing:\n- x3"):
        model.partial_fit(TABLE.drop(columns="x3"), Y)
    with pytest.raises(ValueError, match="forget=0"):
        model.partial_fit(TABLE, Y, forget=0)


def test_large_means_do_not_make_tasks_differ_that_do_not():
    X = 1e6 + np.random.default_rng(4).normal(size=(2, 8))
    equations = normal_equations(GramStats.from_rows(X, [1e6, 1e6 + 1], [0, 1]), "coupled")
    np.testing.assert_allclose(equations.G[0, :-1, -1], -equations.G[1, :-1, -1], rtol=1e-14)


@pytest.mark.parametrize(("noise", "rounds"), [(0.0, 1), (1e-8, 3)])
def test_a_rise_within_the_noise_of_the_objective_is_none(noise, rounds):
    weights = Solution(np.zeros((2, 1)), 0, 0.0, True)
    graphs = (
        Solution(sparse.csr_array([[0, a], [a, 0]]), 0, 0.0, True, "", np.full(2, 1 / a)) for a in (1.0, 2.0, 2.0)
    )
    values = itertools.chain([1.0], itertools.repeat(1.0 + 1e-9))
    steps = SimpleNamespace(
        weight_step=lambda A, W, rough=False: weights,
        graph_step=lambda W, dual, rough=False: next(graphs),
        objective=lambda W, A: next(values),
        noise=noise,
        looks_ahead=True,
    )
    end = alternate(steps, weights.value, tol=1e-6, max_iter=9, quiet=True)
    assert (end.n_iter, end.converged) == (rounds, noise > 0)  # not converged: the graph had not settled


@pytest.mark.filterwarnings("ignore:the alternation has not converged")
@pytest.mark.parametrize("rounds", [1, 2, 3, None])
def test_weights_solve_their_system_exactly_however_few_the_rounds(rounds):
    """All rounds but the last may be rough."""
    X, y, task = rows(5, T=90, n=(5, 9))
    model = GAMTL(task=0, weights_solver="cg", max_iter=rounds).fit(np.column_stack([task, X]), y)
    assert model.optimality_["weights_residual"] < 1e-9
    assert (np.diff(model.objective_history_) <= 1e-12 * np.abs(model.objective_history_).max()).all()


def test_where_rounds_gather_pace_momentum_takes_them_to_a_graph_as_good_in_half_as_many(monkeypatch):
    """A line through two rounds points back there, to a saddle."""
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(300), 5)
    X = rng.normal(size=(1500, 3))
    W = rng.normal(size=3) + 0.5 * rng.normal(size=(300, 3))
    table = np.column_stack([task, X])
    y = np.einsum("nd,nd->n", X, W[task]) + rng.normal(size=1500)
    model = GAMTL(task=0, strength=1.0, anchor=0.5)
    ahead = model.fit(table, y).objective_history_
    monkeypatch.setattr("kinfolk.methods.gamtl.alternate.Secant.ahead", lambda secant: secant.value)
    plain = model.fit(table, y).objective_history_
    assert len(ahead) < len(plain) / 2
    assert ahead[-1] == pytest.approx(plain[-1], rel=1e-4)


@pytest.mark.parametrize("strength", [0.1, 1.0, 10.0])
def test_rounds_that_look_ahead_end_where_plain_ones_do_and_never_climb(strength, monkeypatch):
    data = make_circle(random_state=1)
    model = GAMTL(task=data.task, strength=strength, tol=1e-9)
    ahead = model.fit(data.data, data.target).objective_history_
    monkeypatch.setattr("kinfolk.methods.gamtl.alternate.Secant.ahead", lambda secant: secant.value)
    plain = model.fit(data.data, data.target).objective_history_
    assert (np.diff(ahead) <= 1e-12 * np.abs(ahead).max()).all()
    assert len(ahead) <= len(plain) + 2  # the last rounds are plain ones, the very last from exact weights
    assert ahead[-1] == pytest.approx(plain[-1], rel=1e-8)


@pytest.mark.filterwarnings("ignore:the alternation has not converged in 2 rounds")
def test_what_few_rounds_leave_is_told_beside_what_the_last_step_proves():
    found = GAMTL(task="who", max_iter=2, tol=1.0).fit(*frame(T=30, n=(6, 12), seed=4)).optimality_
    assert found["last_step_gap"] < 1e-10 < found["duality_gap"]
    assert found["certified"] == 1.0


def test_fits_of_features_of_very_different_size_are_finite():
    equations = normal_equations(gram(5, T=3, d=2), "free")
    assert np.isfinite(independent(equations, np.full((2, 2), 1e40))).all()


@pytest.mark.filterwarnings("ignore:the alternation has not converged in 1 rounds")
@pytest.mark.parametrize("rounds", [1, None])
def test_certificates_of_many_tasks_are_those_over_all_pairs(rounds, monkeypatch):
    X, y = frame(T=30, n=(6, 12), seed=4)
    one = GAMTL(task="who", neighbors=3, max_iter=rounds or 200).fit(X, y)
    for module in ("kinfolk.methods.gamtl.problem", "kinfolk.solvers.graph.candidates"):
        monkeypatch.setattr(f"{module}.DENSE_TASKS", 10)
    two = GAMTL(task="who", neighbors=3, max_iter=rounds or 200).fit(X, y)
    assert "candidates" in two.solvers_["graph"] and two.optimality_["certified"] == 1.0
    assert two.optimality_["graph_residual"] == pytest.approx(one.optimality_["graph_residual"], rel=0.2, abs=1e-5)
    # The multipliers of the degrees prove a gap too, a wider one than those of the best graph.
    assert one.optimality_["duality_gap"] - 1e-9 <= two.optimality_["duality_gap"] <= {1: 1.0, None: 1e-3}[rounds]


def test_the_gap_is_proven_by_the_multipliers_of_the_best_graph_where_degrees_prove_nothing():
    W = np.array([[0.0], [0.1], [0.3], [1e6]])
    equations = normal_equations(gram(6, T=4, d=1), "free")
    problem = Problem(np.eye(1), 0.0, 1.0, 0.5, 1.0, np.ones(1), np.zeros(1), equations=equations)
    best, factor = problem.graph_step(W, None), np.ones((4, 4))
    factor[3] = factor[:, 3] = 0.99  # of the tiny edges of the far task
    near = replace(best, value=sparse.csr_array(best.value.multiply(factor)))
    found = problem.optimality(Alternation(Solution(W, 0, 0.0, True), near, np.ones(1), True))
    assert found["graph_residual"] > 1e3
    assert 0 < found["duality_gap"] < 1e-4


def test_targets_that_never_vary_have_no_metric_and_no_weights():
    X, _, task = rows(8, T=40, n=(6, 7))
    X[:, -1] = X[:, 0]
    model = GAMTL(task=0, metric="learned_full").fit(np.column_stack([task, X]), np.ones(len(X)))
    assert not model.coef_.any() and model.converged_


@pytest.mark.parametrize("seed", [0, 1])
def test_the_papers_graph_step_fits_syn_1_at_default_parameters(seed):
    """One task is far from all others: in the units of the problem its multiplier is never reached."""
    data = make_groups(random_state=seed)
    paper = GAMTL(task=data.task, graph_solver="primal_dual").fit(data.data, data.target)
    newton = GAMTL(task=data.task).fit(data.data, data.target)
    assert paper.solvers_["graph"] == "primal-dual" and paper.converged_
    np.testing.assert_allclose(paper.coef_, newton.coef_, atol=1e-4)


def test_a_start_graph_is_where_the_alternation_begins():
    """From the optimum itself one round is left to do; any start ends at a point that no step improves."""
    data = make_groups(random_state=1)
    end = GAMTL(task=data.task, tol=1e-10).fit(data.data, data.target)
    again = GAMTL(task=data.task, tol=1e-10, A0=end.coupling_).fit(data.data, data.target)
    assert again.n_iter_ < end.n_iter_ / 2
    np.testing.assert_allclose(again.coef_, end.coef_, atol=1e-4)
    paper = GAMTL(task=data.task, A0="l2", tol=1e-8).fit(data.data, data.target)
    assert not np.isclose(paper.objective_history_[0], end.objective_history_[0], rtol=1e-3)
    assert (np.diff(paper.objective_history_) <= 1e-9 * np.abs(paper.objective_history_).max()).all()
    assert paper.optimality_["duality_gap"] < 1e-5


def test_an_unknown_start_is_named():
    with pytest.raises(ValueError, match="A0='norm' must be a graph"):
        GAMTL(A0="norm").fit_gram(gram())


@pytest.mark.parametrize(("make", "metric"), [(make_groups, "identity"), (make_circle, "learned")])
def test_without_numbers_groups_keep_the_raw_form_and_a_circle_takes_the_mixed_model(make, metric):
    b = make(random_state=3)
    model = GAMTL(task=b.task).fit(b.data, b.target)
    raw = GAMTL(task=b.task, strength=1.0).fit(b.data, b.target)
    assert model.model_.parts[0].coupling.recipe.metric == metric
    assert model.score(b.test_data, b.test_target) > raw.score(b.test_data, b.test_target) - 0.02


def test_a_given_number_is_used_on_features_as_they_are():
    for given in ({"strength": 1.0}, {"ridge": 1.0}):
        one = GAMTL(task="who", **given).fit(TABLE, Y)
        full = GAMTL(task="who", strength=1.0, ridge=1.0, anchor=0.0, metric="identity").fit(TABLE, Y)
        np.testing.assert_array_equal(one.coef_, full.coef_)
