from itertools import permutations, product

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning

from kinfolk.rivals.solvers.pair_fusion import Quadratics, collapse, fuse_tasks, layer_penalties, objective
from kinfolk.rivals.solvers.tree_cuts import grow_tree
from kinfolk.rivals.tat import TAT
from kinfolk.rows.gram import GramStats

TOL = 1e-9


def problem(seed: int, T: int, d: int, rows: tuple[int, ...] = (3, 6, 9)) -> GramStats:
    """Tasks of unequal size, some with fewer rows than features if the sizes say so."""
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(T), np.resize(rows, T))
    X = rng.standard_normal((len(task), d))
    W = rng.standard_normal((T, d)) + 1.0
    return GramStats.from_rows(X, (X * W[task]).sum(axis=1) + 0.3 * rng.standard_normal(len(task)), task)


def planted(seed: int) -> tuple[GramStats, np.ndarray, np.ndarray]:
    """2 supergroups of 2 groups of 3 tasks; the scales of the differences are 4, 1 and 0.1."""
    rng = np.random.default_rng(seed)
    axes = np.linalg.qr(rng.standard_normal((8, 8)))[0]
    supergroup, group = np.repeat([0, 1], 6), np.repeat(np.arange(4), 3)
    W = 4 * axes[supergroup] + axes[2 + group] + 0.1 * rng.standard_normal((12, 8)) / np.sqrt(8)
    task = np.repeat(np.arange(12), 40)
    X = rng.standard_normal((len(task), 8))
    y = (X * W[task]).sum(axis=1) + 0.3 * rng.standard_normal(len(task))
    return GramStats.from_rows(X, y, task), group, supergroup


def quadratic_value(f: Quadratics, W: cp.Expression) -> cp.Expression:
    parts = [cp.quad_form(W[t], cp.psd_wrap(f.H[t])) / 2 - f.b[t] @ W[t] for t in range(len(f.b))]
    return sum(parts) + f.constant


def norms(W: cp.Expression) -> cp.Expression:
    return sum(cp.norm(W[i] - W[j]) for i in range(W.shape[0]) for j in range(i))


def in_order(one: cp.Expression, two: cp.Expression, order: tuple[int, ...]) -> list[cp.Constraint]:
    """|differences of two| <= |differences of one| for all pairs, if `one` is sorted by `order`.

    On a line it is enough to ask neighbours: this is one convex cell of the set of TAT's constraints.
    """
    rise, turn = cp.diff(one[list(order)]), cp.diff(two[list(order)])
    return [rise >= 0, cp.abs(turn) <= rise]


def best_over_cells(value, lam: np.ndarray, T: int, d: int) -> tuple[float, np.ndarray]:
    """Global minimum over two layers: one convex problem per order of the first layer in every feature."""
    layers = [cp.Variable((T, d)), cp.Variable((T, d))]
    cost = value(layers) + sum(weight * norms(W) for weight, W in zip(lam, layers, strict=True))
    results = []
    for orders in product(permutations(range(T)), repeat=d):
        cells = [c for j, order in enumerate(orders) for c in in_order(layers[0][:, j], layers[1][:, j], order)]
        minimum = cp.Problem(cp.Minimize(cost), cells).solve(solver=cp.CLARABEL)
        results.append((minimum, np.array([W.value for W in layers])))
    return min(results, key=lambda pair: pair[0])


@pytest.mark.parametrize("phi", [3.0, 1.0, 0.4])
def test_layers_collapse_to_one_convex_problem(phi):
    f = Quadratics.mean_squares(problem(0, 3, 1))
    lam = layer_penalties(0.25, phi, 2)
    brute, _ = best_over_cells(lambda layers: quadratic_value(f, layers[0] + layers[1]), lam, 3, 1)
    fusion = fuse_tasks(f, collapse(lam)[0], tol=TOL)
    assert fusion.history[-1] == pytest.approx(brute, rel=1e-6)


def test_layers_collapse_with_two_features():
    f = Quadratics.mean_squares(problem(1, 3, 2))
    lam = layer_penalties(0.2, 2.0, 2)
    brute, layers = best_over_cells(lambda layers: quadratic_value(f, layers[0] + layers[1]), lam, 3, 2)
    fusion = fuse_tasks(f, collapse(lam)[0], tol=TOL)
    assert fusion.history[-1] == pytest.approx(brute, rel=1e-6)
    np.testing.assert_allclose(fusion.value, layers.sum(axis=0), atol=1e-3)


@pytest.mark.parametrize("phi", [4.0, 1.5])
def test_proximal_map_of_all_layers_at_a_common_point_is_brute_force(phi):
    V = np.array([[0.0], [1.0], [3.0]])
    lam = layer_penalties(0.4, phi, 2)
    brute, layers = best_over_cells(lambda both: sum(cp.sum_squares(W - V) / 2 for W in both), lam, 3, 1)
    step = fuse_tasks(Quadratics(np.ones((3, 1, 1)), V, float((V**2).sum()) / 2), collapse(lam)[0], tol=TOL)
    assert 2 * step.history[-1] == pytest.approx(brute, rel=1e-7)
    np.testing.assert_allclose(layers, np.stack([step.value] * 2), atol=1e-4)


@pytest.mark.parametrize("strength", [0.003, 0.05, 0.4])
@pytest.mark.parametrize("rows", [(3, 6, 9), (8, 20, 11)])
def test_minimum_is_that_of_a_conic_solver(strength, rows):
    f = Quadratics.mean_squares(problem(2, 5, 4, rows))
    c = strength * f.fusing_penalty()
    W = cp.Variable((5, 4))
    reference = cp.Problem(cp.Minimize(quadratic_value(f, W) + c * norms(W))).solve(solver=cp.CLARABEL)
    fusion = fuse_tasks(f, c, tol=TOL)
    assert fusion.converged
    assert fusion.history[-1] == pytest.approx(reference, abs=1e-7 * f.constant)
    assert fusion.history[-1] == pytest.approx(objective(f, c, fusion.value), rel=1e-12)


@pytest.mark.parametrize("strength", [0.0, 1e-3, 0.03, 0.3, 1.0])
def test_objective_never_rises_and_the_certificates_vanish(strength):
    model = TAT(strength=strength).fit_gram(problem(3, 8, 5))
    assert (np.diff(model.objective_history_) <= 0).all()
    assert model.converged_
    assert max(model.optimality_.values()) <= 1e-6
    assert model.optimality_["complementarity"] >= -1e-12


def test_certificate_is_refused_to_another_point():
    f = Quadratics.mean_squares(problem(3, 4, 2))
    assert fuse_tasks(f, 0.1 * f.fusing_penalty(), tol=1e-15, max_iter=3).residual > 1e-4


def test_layers_are_feasible_and_reach_the_objective():
    gram = problem(4, 5, 3)
    model = TAT(lam_1=0.05, phi=1.7, n_layers=4).fit_gram(gram)
    gaps = np.abs(model.layers_[:, :, None] - model.layers_[:, None])
    assert (np.diff(gaps, axis=0) <= 1e-12).all()
    np.testing.assert_allclose(model.layers_.sum(axis=0), model.coef_, rtol=1e-12)
    penalty = model.lambdas_ @ np.linalg.norm(gaps, axis=3).sum(axis=(1, 2)) / 2
    loss = Quadratics.mean_squares(gram).value(model.coef_)
    assert loss + penalty == pytest.approx(model.objective_history_[-1], rel=1e-10)


def test_only_the_first_layer_parts_tasks_if_penalties_grow():
    model = TAT(phi=0.5, n_layers=3).fit_gram(problem(4, 5, 3))
    np.testing.assert_array_equal(model.layers_[0], model.coef_)
    assert not model.layers_[1:].any()


def test_number_of_layers_and_phi_do_not_change_the_coefficients():
    gram = problem(5, 6, 3)
    fits = [TAT(phi=phi, n_layers=H, tol=TOL).fit_gram(gram).coef_ for phi, H in ((2.0, 3), (1.0, 1), (0.5, 5))]
    np.testing.assert_allclose(fits[1:], [fits[0]] * 2, rtol=1e-9)


def test_zero_strength_is_least_squares_per_task():
    gram = problem(6, 4, 3)
    model = TAT(strength=0).fit_gram(gram)
    expected = [np.linalg.lstsq(G, b, rcond=1e-10)[0] for G, b in zip(gram.G, gram.b, strict=True)]
    np.testing.assert_allclose(model.coef_, expected, rtol=1e-7, atol=1e-9)


def test_full_strength_fuses_all_tasks_to_the_pooled_fit():
    gram = problem(7, 6, 3)
    model = TAT(strength=1.0, tol=TOL).fit_gram(gram)
    pooled = np.linalg.solve((gram.G / gram.n[:, None, None]).sum(axis=0), (gram.b / gram.n[:, None]).sum(axis=0))
    np.testing.assert_allclose(model.coef_, np.tile(pooled, (6, 1)), rtol=1e-6)
    assert repr(model.structure_) == "TaskTree(6 tasks in 1 groups)"


def test_two_tasks_fuse_at_strength_one_and_not_before():
    gram = problem(8, 2, 3)
    before, after = (TAT(strength=s, tol=TOL).fit_gram(gram).coef_ for s in (0.95, 1.0001))
    assert np.linalg.norm(before[0] - before[1]) > 1e-3
    np.testing.assert_array_equal(after[0], after[1])


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("strength", [0.003, 0.03, 0.1])
def test_three_planted_levels_are_recovered(seed, strength):
    gram, group, supergroup = planted(seed)
    tree = TAT(strength=strength, n_layers=3).fit_gram(gram).structure_
    assert [level.tolist() for level in tree.levels] == [group.tolist(), supergroup.tolist(), [0] * 12]


def test_fused_tasks_stay_together_up_to_the_root():
    gram, _, _ = planted(11)
    model = TAT(strength=0.6, n_layers=3).fit_gram(gram)
    fused = (model.coef_[:, None] == model.coef_).all(axis=2)
    assert fused.sum() > len(fused)
    assert all((group[:, None] == group)[fused].all() for group in model.structure_.levels)


def test_tree_of_exactly_fused_groups_has_them_as_its_finest_level():
    W = np.repeat([[0.0, 0.0], [1.0, 0.0], [9.0, 9.0], [9.0, 8.0]], [2, 3, 1, 2], axis=0)
    levels = grow_tree(W, 3)
    assert levels.tolist() == [[0, 0, 1, 1, 1, 2, 3, 3], [0, 0, 0, 0, 0, 2, 2, 2], [0] * 8]


def test_relabelling_tasks_permutes_the_results():
    gram, _, _ = planted(1)
    order = np.random.default_rng(0).permutation(12)
    model = TAT(tol=TOL).fit_gram(gram)
    other = TAT(tol=TOL).fit_gram(GramStats(gram.labels, *(part[order] for part in statistics(gram))))
    np.testing.assert_allclose(other.coef_, model.coef_[order], atol=1e-7)
    for one, two in zip(model.structure_.levels[:, order], other.structure_.levels, strict=True):
        np.testing.assert_array_equal(one[:, None] == one, two[:, None] == two)


def statistics(gram: GramStats) -> tuple[np.ndarray, ...]:
    return gram.n, gram.x_mean, gram.y_mean, gram.G, gram.b, gram.yy


def table(seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.standard_normal((60, 2)), columns=["x1", "x2"])
    frame["lot"] = np.repeat(["a", "b", "c"], 20)
    slope = np.repeat([1.0, 1.1, 4.0], 20)
    return frame, slope * frame["x1"].to_numpy() + 0.1 * rng.standard_normal(60)


def test_scale_of_the_target_scales_the_coefficients():
    frame, y = table()
    one, two = TAT(task="lot", tol=TOL).fit(frame, y), TAT(task="lot", tol=TOL).fit(frame, 1e4 * y)
    np.testing.assert_allclose(two.coef_, 1e4 * one.coef_, rtol=1e-6)


def test_tree_bears_the_names_of_the_tasks():
    frame, y = table()
    tree = TAT(task="lot", n_layers=2).fit(frame, y).structure_
    assert tree.members(0) == [["a", "b"], ["c"]]


def test_duplicated_tasks_are_fused():
    gram = problem(9, 4, 3)
    twice = [np.concatenate([part, part]) for part in statistics(gram)]
    model = TAT(strength=0.1, tol=TOL).fit_gram(GramStats(np.arange(8), *twice))
    np.testing.assert_allclose(model.coef_[:4], model.coef_[4:], atol=1e-7)
    assert all((group[:4] == group[4:]).all() for group in model.structure_.levels)


def test_all_tasks_alike_need_no_penalty():
    gram = problem(9, 1, 3, (12,))
    alike = [np.concatenate([part] * 3) for part in statistics(gram)]
    model = TAT().fit_gram(GramStats(np.arange(3), *alike))
    np.testing.assert_allclose(model.coef_, np.tile(np.linalg.solve(gram.G[0], gram.b[0]), (3, 1)), rtol=1e-8)


@pytest.mark.parametrize("T", [1, 2, 3])
def test_constant_targets_give_zero_coefficients(T):
    frame, _ = table()
    model = TAT(task="lot").fit(frame.iloc[: 20 * T], np.full(20 * T, 3.0))
    np.testing.assert_allclose(model.coef_, 0.0, atol=1e-12)
    np.testing.assert_allclose(model.intercept_, 3.0)


def test_directions_without_data_get_zero():
    gram = problem(10, 4, 3)
    G, b = gram.G.copy(), gram.b.copy()
    G[:, 2], G[:, :, 2], b[:, 2] = 0.0, 0.0, 0.0
    with pytest.warns(UserWarning, match="feature 2 is constant within every task"):
        model = TAT().fit_gram(GramStats(gram.labels, gram.n, gram.x_mean, gram.y_mean, G, b, gram.yy))
    np.testing.assert_allclose(model.coef_[:, 2], 0.0, atol=1e-12)


def test_task_without_rows_stands_alone_in_the_tree():
    gram = problem(11, 4, 2)
    model = TAT().fit_gram(gram.reindex(np.arange(5)))
    assert [4] in model.structure_.members(0)
    assert model.structure_.members(-1) == [[0, 1, 2, 3, 4]]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"strength": -1.0}, "strength=-1.0 must be at least 0 and finite"),
        ({"lam_1": np.inf}, "lam_1=inf must be at least 0 and finite"),
        ({"phi": 0.0}, "phi=0.0 must be greater than 0 and finite"),
        ({"n_layers": 0}, "n_layers=0 must be a whole number, at least 1"),
        ({"n_layers": 2.5}, "n_layers=2.5 must be a whole number"),
        ({"max_iter": 0}, "max_iter=0 must be a whole number, at least 1"),
        ({"tol": 0.0}, "tol=0.0 must be greater than 0"),
        ({"unseen": "guess"}, "unseen='guess': choose"),
    ],
)
def test_wrong_parameters_are_named(parameters, message):
    frame, y = table()
    with pytest.raises(ValueError, match=message):
        TAT(task="lot", **parameters).fit(frame, y)


def test_unfinished_iteration_warns_with_remedies():
    with pytest.warns(ConvergenceWarning, match="TAT stopped after 2 iterations .* raise max_iter or tol"):
        TAT(max_iter=2, tol=1e-12).fit_gram(problem(12, 6, 4))


def test_memory_that_the_machine_does_not_have_is_refused_with_the_number(monkeypatch):
    monkeypatch.setattr("kinfolk.memory.available_memory", lambda: 10**8)
    stats = problem(0, 400, 20)  # 79,800 pairs
    with pytest.raises(MemoryError, match=r"79,800 pairs of 400 tasks in 20 features need about 102\.1 MB.*CCMTL"):
        TAT().fit_gram(stats)
    monkeypatch.setattr("kinfolk.memory.available_memory", lambda: 2 * 10**8)
    with pytest.warns(ConvergenceWarning):
        assert TAT(max_iter=1).fit_gram(stats).n_iter_ == 1


def test_callback_hears_of_a_falling_objective():
    heard = []
    TAT(callback=heard.append, tol=TOL).fit_gram(problem(13, 6, 4))
    assert len(heard) > 1
    assert (np.diff([step.value for step in heard]) <= 0).all()


def test_tasks_that_one_fit_meets_exactly_have_it_although_their_penalty_is_rounding():
    rng = np.random.default_rng(5)
    X, y = np.column_stack([np.repeat([0, 1], 2), rng.normal(size=(4, 8))]), rng.normal(size=4)
    np.testing.assert_allclose(TAT(task=0).fit(X, y).predict(X), y, atol=1e-4)
