"""Confidence in edges: planted ones are found, chance ones are not believed."""

import numpy as np
import pytest

from kinfolk import GAMTL, GAMTLCV
from kinfolk.datasets import make_groups
from kinfolk.explain import edge_confidence


def linear(W, n, seed, noise=0.5):
    """Table with the task in column 0, and target."""
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(len(W)), n)
    X = rng.normal(size=(len(task), W.shape[1]))
    return np.column_stack([task, X]), np.einsum("nd,nd->n", X, W[task]) + noise * rng.normal(size=len(task))


def planted(seed=0, n=20, d=12):
    """Two groups of six, and their pairs."""
    rng = np.random.default_rng(seed)
    group = np.repeat([0, 1], 6)
    W = rng.normal(size=(2, d))[group] * 1.5 + 0.05 * rng.normal(size=(12, d))
    return *linear(W, n, seed, noise=0.3), (group[:, None] == group) & ~np.eye(12, dtype=bool)


@pytest.fixture(scope="module")
def model():
    X, y, _ = planted()
    return GAMTL(task=0).fit(X, y)


@pytest.fixture(scope="module")
def confidence(model):
    return edge_confidence(model, n=20, random_state=5)


def test_planted_edges_of_syn_1_are_trusted_and_those_of_its_outliers_not():
    syn = make_groups(random_state=3)
    found = edge_confidence(GAMTL(task=syn.task).fit(syn.data, syn.target), n=20).confidence.toarray()
    true = np.zeros((20, 20), bool)
    true[tuple(np.transpose(syn.edges))] = True
    assert np.mean(found[true] > 0.9) > 0.9
    assert found[18:].max() < 0.1


def test_planted_edges_are_trusted():
    X, y, kin = planted(1)
    confidence = edge_confidence(GAMTL(task=0).fit(X, y), n=20).confidence.toarray()
    assert confidence[kin].min() > 0.9
    assert confidence[~kin].max() < 0.1


@pytest.mark.parametrize("strength", [0.1, 10.0])
def test_edges_between_unrelated_tasks_are_not_trusted(strength):
    X, y = linear(np.random.default_rng(2).normal(size=(12, 6)), 400, 3)
    found = edge_confidence(GAMTL(task=0, strength=strength).fit(X, y), n=20)
    assert max(row["confidence"] for row in found.table()) < 0.9


def test_edges_between_tasks_of_pure_noise_are_not_trusted():
    X, y = linear(np.zeros((12, 6)), 20, 4)
    assert max(row["confidence"] for row in edge_confidence(GAMTL(task=0).fit(X, y), n=20).table()) < 0.9


def test_the_papers_three_numbers_serve_as_well():
    X, y, kin = planted(1)
    by_words = GAMTL(task=0).fit(X, y)
    letters = {"alpha": by_words.alpha_, "beta": by_words.beta_, "gamma": by_words.gamma_}
    found = edge_confidence(GAMTL(task=0, **letters).fit(X, y), n=20).confidence.toarray()
    assert found[kin].min() > 0.9
    assert found[~kin].max() < 0.1


def test_edges_of_gamtlcv():
    X, y, kin = planted(6)
    model = GAMTLCV(task=0, strengths=(1.0,), ridges=(1.0,), anchors=(0.0,), metrics=("identity",)).fit(X, y)
    confidence = edge_confidence(model, n=20).confidence.toarray()
    assert confidence[~kin].max() < 0.1
    assert np.median(confidence[kin]) > 0.9


def test_rows_have_no_effect_and_a_warning_says_so(confidence, model):
    X, y, _ = planted()
    for rows in ({"X": X, "y": y}, {"groups": np.arange(len(y)) // 3}):
        with pytest.warns(FutureWarning, match="X, y and groups have no effect"):
            again = edge_confidence(model, n=20, random_state=5, **rows)
        assert (again.confidence != confidence.confidence).nnz == 0


def test_confidence_is_symmetric_and_a_share(confidence):
    share = confidence.confidence.toarray()
    np.testing.assert_array_equal(share, share.T)
    assert (share >= 0).all()
    assert (share <= 1).all()


def test_confidence_in_an_edge_is_nearly_that_which_the_model_shows(confidence, model):
    shown = {(edge.task, edge.neighbor): edge.confidence for edge in model.edges()}
    rows = {(row["task"], row["neighbor"]): row["confidence"] for row in confidence.table()}
    assert rows.keys() == shown.keys()
    np.testing.assert_allclose([rows[pair] for pair in shown], list(shown.values()), atol=0.1)


def test_tasks_of_a_group_are_kin_though_the_shown_graph_joins_each_to_a_few(confidence):
    _, _, kin = planted()
    assert confidence.confidence.toarray()[kin].min() > 0.9
    missing = {(row["task"], row["neighbor"]) for row in confidence.missing()}
    assert missing == {(i, j) for i, j in np.argwhere(np.triu(kin & (confidence.adjacency.toarray() == 0))).tolist()}


def test_every_edge_has_a_row_and_no_other_pair_has(confidence, model):
    pairs = {(row["task"], row["neighbor"]) for row in confidence.table()}
    assert pairs == {(e.task, e.neighbor) for e in model.graph_.edges()}
    assert not pairs & {(row["task"], row["neighbor"]) for row in confidence.missing()}
    values = [row["confidence"] for row in confidence.table()]
    assert values == sorted(values, reverse=True)


def test_the_same_seed_gives_the_same_numbers(confidence, model):
    again = edge_confidence(model, n=20, random_state=5)
    assert (again.confidence != confidence.confidence).nnz == 0


def test_chains_that_memory_cannot_hold_together_are_fewer_and_as_sure(confidence, model, monkeypatch):
    monkeypatch.setattr("kinfolk.explain.kin.CHAINS_NUMBERS", 3 * 12 * 13**2 * 4)  # room for three
    fewer = edge_confidence(model, n=20, random_state=5)
    np.testing.assert_allclose(fewer.confidence.toarray(), confidence.confidence.toarray(), atol=0.1)


def test_among_many_tasks_only_joined_pairs_are_judged_and_alike(confidence, model, monkeypatch):
    monkeypatch.setattr("kinfolk.explain.confidence.MOST_TASKS", 5)
    few = edge_confidence(model, n=20, random_state=5).confidence.toarray()
    joined = model.adjacency_.toarray() > 0
    np.testing.assert_allclose(few[joined], confidence.confidence.toarray()[joined])
    assert not few[~joined].any()


def test_progress_is_reported_to_the_end(model):
    seen = []
    edge_confidence(model, n=3, callback=seen.append)
    assert seen[-1].done == seen[-1].total


def test_task_without_rows_has_no_confidence():
    X, y, _ = planted()
    X, y = np.vstack([X, [[99, *np.zeros(12)]]]), np.append(y, np.nan)
    confidence = edge_confidence(GAMTL(task=0).fit(X, y), n=3).confidence.toarray()
    assert confidence.shape == (13, 13)
    assert confidence[12].max() == 0
    assert confidence[0].max() > 0


def test_rows_without_noise_and_three_tasks_have_finite_confidence():
    X, y = linear(np.array([[1.0, 2.0], [1.0, 2.0], [5.0, -3.0]]), 8, 0, noise=0.0)
    assert np.isfinite(edge_confidence(GAMTL(task=0).fit(X, y), n=2).confidence.data).all()


def test_repr_and_lookup(confidence):
    assert repr(confidence).startswith("EdgeConfidence(")
    assert "20 groupings drawn" in repr(confidence)
    top = confidence.table()[0]
    assert confidence.of(top["neighbor"], top["task"]) == top["confidence"]
    with pytest.raises(ValueError, match="no task 'nobody' among 12 tasks: 0, 1, 2"):
        confidence.of("nobody", 1)


def test_no_grouping_is_too_few(model):
    with pytest.raises(ValueError, match="n=0 must be at least 1 grouping"):
        edge_confidence(model, n=0)
