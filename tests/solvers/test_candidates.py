from functools import cache

import numpy as np
import pytest
from scipy import sparse

from kinfolk import GAMTL
from kinfolk.solvers.graph import Candidates, candidates, learn_graph, nearest, squared_distances
from kinfolk.solvers.graph.candidates import by_candidates, graph_of_weights
from kinfolk.solvers.graph.pairs import pairs_within

RNG = np.random.default_rng(0)
POINTS = {
    "gaussian": RNG.normal(size=(1500, 20)),
    "duplicates": np.repeat(RNG.normal(size=(500, 8)), 3, axis=0),
    "clusters": np.repeat(RNG.normal(size=(75, 20)), 20, axis=0) + 0.05 * RNG.normal(size=(1500, 20)),
    "outliers": np.vstack([RNG.normal(size=(1490, 20)), 10 * RNG.normal(size=(10, 20))]),
}
LETTERS = {"alpha": 1.0, "beta": 0.5, "gamma": 0.1}


def exact(W):
    return learn_graph(squared_distances(W), **LETTERS).value


@cache
def exact_at(name):
    return exact(POINTS[name])


def knowing(W, k):
    """Candidates that are the k nearest of every task."""
    known = Candidates()
    known.move_to(W)
    known.search(k)
    return known


def refuse(*_):
    raise AssertionError("not to be called")


@pytest.mark.parametrize("name", POINTS)
@pytest.mark.parametrize("k", [3, 32])
def test_candidates_give_the_dense_answer_also_if_too_few_at_first(name, k):
    W = POINTS[name]
    sparse_way = by_candidates(W, candidates=knowing(W, k), **LETTERS)
    assert sparse_way.certified == 1.0
    assert abs(sparse_way.value - exact_at(name)).max() < 1e-8


@pytest.mark.parametrize("name", POINTS)
def test_pairs_kept_from_other_weights_give_the_dense_answer_without_a_new_search(name, monkeypatch):
    W, kept = POINTS[name], Candidates()
    first = by_candidates(W, candidates=kept, **LETTERS)
    monkeypatch.setattr(candidates, "nearest", refuse)
    moved = W + 0.05 * np.random.default_rng(1).normal(size=W.shape)
    second = by_candidates(moved, start=first.dual, candidates=kept, **LETTERS)
    assert second.certified == 1.0
    assert abs(second.value - exact(moved)).max() < 1e-8


def test_pairs_kept_from_unrelated_weights_do_no_harm():
    W, kept = POINTS["clusters"], Candidates()
    by_candidates(W[np.random.default_rng(0).permutation(len(W))], candidates=kept, **LETTERS)
    assert abs(by_candidates(W, candidates=kept, **LETTERS).value - exact_at("clusters")).max() < 1e-8


def test_at_the_same_weights_nothing_is_searched_or_solved_again(monkeypatch):
    W, kept = POINTS["gaussian"], Candidates()
    first = by_candidates(W, candidates=kept, **LETTERS)
    monkeypatch.setattr(candidates, "nearest", refuse)
    monkeypatch.setattr(candidates, "pairs_within", refuse)
    again = by_candidates(W, candidates=kept, **LETTERS)
    scaled = by_candidates(W, candidates=kept, alpha=3.0, beta=1.5, gamma=0.3)  # the same problem in other units
    assert again.n_iter == 0 and abs(again.value - first.value).max() == 0
    assert abs(scaled.value - first.value).max() < 1e-12


@pytest.mark.parametrize("size", [1e-3, 0.1, 1.0])
def test_after_a_move_no_pair_outside_the_candidates_is_within_the_reach_that_is_left(size):
    rng = np.random.default_rng(5)
    W = rng.normal(size=(300, 4))
    kept = Candidates()
    kept.move_to(W)
    kept.reach = rng.uniform(0.1, 2.0, size=300)
    kept.keys = pairs_within(W, kept.reach)
    for _ in range(3):
        W = W + size * rng.normal(size=W.shape) * rng.uniform(size=(300, 1))
        kept.move_to(W)
        Z = squared_distances(W)
        i, j = np.nonzero(np.triu(kept.reach[:, None] + kept.reach > Z, k=1))
        assert np.isin(i * 300 + j, kept.keys).all()


@pytest.mark.parametrize("name", ["gaussian", "duplicates", "outliers"])  # clusters leave no room to move
def test_after_small_moves_the_graph_is_certified_without_another_look_at_the_pairs(name, monkeypatch):
    W, kept = POINTS[name], Candidates()
    first = by_candidates(W, candidates=kept, **LETTERS)
    monkeypatch.setattr(candidates, "pairs_within", refuse)
    W = W + 1e-6 * np.random.default_rng(1).normal(size=W.shape)
    moved = by_candidates(W, candidates=kept, start=first.dual, **LETTERS)
    assert moved.certified == 1
    assert abs(moved.value - exact(W)).max() < 1e-8


def test_many_rounds_keep_few_pairs_and_lose_none_within_reach(monkeypatch):
    monkeypatch.setattr(candidates, "MOST_KEPT", 20)
    W, kept = POINTS["gaussian"], Candidates()
    by_candidates(W, candidates=kept, **LETTERS)
    assert len(kept.keys) <= 20 * len(W)
    assert np.isin(pairs_within(W, kept.reach), kept.keys).all()


def test_if_the_rounds_run_out_the_certified_share_says_so():
    W = POINTS["outliers"]
    solution = by_candidates(W, candidates=knowing(W, 2), rounds=1, **LETTERS)
    assert 0 <= solution.certified < 1


def test_without_a_price_on_distance_every_pair_is_linked():
    W = POINTS["gaussian"][:300]
    assert by_candidates(W, alpha=1.0, beta=0.5, gamma=0.0).value.nnz == 300 * 299


def test_a_graph_of_too_many_pairs_ends_at_the_nearest_and_says_which_share_is_proven():
    rng = np.random.default_rng(6)
    W = np.vstack([0.01 * rng.normal(size=(400, 3)), 100 + 30 * rng.normal(size=(200, 3))])
    whole, part = (by_candidates(W, candidates=Candidates(pairs), **LETTERS) for pairs in (10**6, 20 * len(W)))
    assert whole.certified == 1 and whole.value.nnz > 400 * 390
    assert part.value.nnz < 200 * len(W)
    wanted = part.dual[:, None] + part.dual > 2 * LETTERS["gamma"] * squared_distances(W) * (1 + 1e-9)
    np.fill_diagonal(wanted, False)
    complete = ~(wanted & (part.value.toarray() == 0)).any(axis=1)
    assert 0.2 < part.certified <= complete.mean() < 0.5


def test_the_edges_of_a_graph_of_too_many_pairs_stay_candidates(monkeypatch):
    monkeypatch.setattr(candidates, "MOST_KEPT", 2)
    W, kept = POINTS["gaussian"][:300], Candidates(1000)
    A = by_candidates(W, candidates=kept, alpha=1.0, beta=0.5, gamma=1e-3).value
    i, j = sparse.triu(A).nonzero()
    assert np.isin(i * 300 + j, kept.keys).all()


@pytest.mark.parametrize("far", [0.0, 1e3, 1e9])
def test_pairs_within_reach_are_those_of_the_full_matrix(far):
    rng = np.random.default_rng(4)
    W, reach = rng.normal(size=(700, 6)), rng.uniform(0, 2, size=700)
    W[5] += far
    W[7:10] = W[11]
    Z = ((W[:, None] - W[None]) ** 2).sum(axis=2)
    i, j = np.nonzero(np.triu(reach[:, None] + reach > Z, k=1))
    np.testing.assert_array_equal(pairs_within(W, reach), i * 700 + j)
    rows = np.array([5, 8, 600])
    some = np.isin(i, rows) | np.isin(j, rows)
    np.testing.assert_array_equal(pairs_within(W, reach, rows), (i * 700 + j)[some])
    np.fill_diagonal(Z, np.inf)


def test_nearest_leaves_out_the_task_itself_but_not_its_duplicates():
    W = np.array([[0.0], [0.0], [0.0], [5.0]])
    near = nearest(W, 2)
    np.testing.assert_array_equal(near.distance[:3], 0)
    assert all(t not in near.index[t] for t in range(4))
    np.testing.assert_array_equal(near.distance[3], [25, 25])


def test_many_tasks_are_fitted_by_candidates_as_by_all_pairs(monkeypatch):
    rng = np.random.default_rng(1)
    task = np.repeat(np.arange(300), 8)
    X = rng.normal(size=(2400, 4))
    y = np.einsum("nd,nd->n", X, np.repeat(rng.normal(size=(30, 4)), 80, axis=0)) + 0.1 * rng.normal(size=2400)
    table = np.column_stack([task, X])
    parameters = {"alpha": 2.0, "beta": 1.0, "gamma": 0.5, "max_iter": 500}
    dense = GAMTL(task=0, **parameters).fit(table, y)
    monkeypatch.setattr("kinfolk.solvers.graph.candidates.DENSE_TASKS", 100)
    sparse_way = GAMTL(task=0, **parameters).fit(table, y)
    assert sparse_way.optimality_["certified"] == 1.0
    np.testing.assert_allclose(sparse_way.coef_, dense.coef_, atol=1e-6)


def test_where_rounds_are_few_those_between_leave_it_at_known_pairs_and_the_last_is_proven(monkeypatch):
    for module in ("solvers.graph.candidates", "methods.gamtl.calibrate", "methods.gamtl.problem", "estimators.gamtl"):
        monkeypatch.setattr(f"kinfolk.{module}.DENSE_TASKS", 100)
    passes = []
    monkeypatch.setattr(
        "kinfolk.solvers.graph.candidates.pairs_within", lambda *pairs: passes.append(pairs) or pairs_within(*pairs)
    )
    rng = np.random.default_rng(1)
    W = np.repeat(rng.normal(size=(15, 4)), 20, axis=0) + 0.2 * rng.normal(size=(300, 4))
    X = rng.normal(size=(300, 8, 4))
    y = (np.einsum("tnd,td->tn", X, W) + rng.normal(size=(300, 8))).ravel()
    table = np.column_stack([np.repeat(np.arange(300), 8), X.reshape(-1, 4)])
    model = GAMTL(task=0).fit(table, y)
    few = len(passes)
    assert (model.n_iter_, model.optimality_["certified"]) == (6, 1.0)
    assert (np.diff(model.objective_history_) < 0).all()
    monkeypatch.setattr(
        "kinfolk.methods.gamtl.problem.graph_of_weights", lambda W, rough, **terms: graph_of_weights(W, **terms)
    )
    proven = GAMTL(task=0).fit(table, y)
    assert few < len(passes) - few
    assert model.objective_history_[-1] == pytest.approx(proven.objective_history_[-1], rel=1e-3)


def test_far_tasks_among_many_do_not_stop_newton_where_no_interior_point_helps():
    rng = np.random.default_rng(0)
    W = rng.normal(size=(4100, 8))
    W[:25] *= 30
    solution = by_candidates(W, alpha=1.0, beta=0.5, gamma=1.0)
    assert solution.converged and solution.certified == 1.0
    lam, A = solution.dual, solution.value.toarray()
    everywhere = np.maximum(lam[:, None] + lam - 2 * squared_distances(W), 0) / 2
    np.fill_diagonal(everywhere, 0)
    np.testing.assert_allclose(A, everywhere, atol=1e-8)
    np.testing.assert_allclose(A.sum(axis=1) * lam, 1, atol=1e-5)


@pytest.mark.parametrize("name", POINTS)
def test_a_rough_graph_is_near_the_exact_one_without_a_certificate(name):
    W = POINTS[name]
    found = candidates.graph_of_weights(W, candidates=Candidates(32 * len(W), rough=True), **LETTERS)
    pairs = exact_at(name)
    assert abs(found.value - pairs).sum() < 0.02 * pairs.sum()
