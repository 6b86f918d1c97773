"""The graph that people read: about as many neighbours as wanted, at any strength, on any data."""

import numpy as np
import pytest

from kinfolk import GAMTL, GAMTLCV, load
from kinfolk.datasets import make_groups
from kinfolk.methods.gamtl.calibrate import Recipe
from kinfolk.methods.gamtl.shown import prediction_points, shown_graph, usual_neighbors
from kinfolk.rows.gram import GramStats
from problems import gram


def scattered(T, d, seed, noise=0.5):
    """Tasks around one mean: no groups."""
    rng = np.random.default_rng(seed)
    W = rng.normal(size=d) + 0.5 * rng.normal(size=(T, d))
    X = rng.normal(size=(T * 15, d))
    codes = np.repeat(np.arange(T), 15)
    y = np.einsum("nd,nd->n", X, W[codes]) + noise * rng.normal(size=len(X)) + rng.normal(size=T)[codes]
    return GramStats.from_codes(X, y, codes, np.arange(T))


@pytest.mark.parametrize("strength", [0.1, 1.0, 100.0])
@pytest.mark.parametrize(("T", "d"), [(10, 3), (30, 8), (200, 5)])
def test_a_task_has_about_as_many_neighbours_as_wanted(T, d, strength):
    tasks = scattered(T, d, seed=T)
    for wanted in (usual_neighbors(T), 2, 6):
        asked = None if wanted == usual_neighbors(T) else wanted
        model = GAMTL(neighbors=asked, strength=strength, tol=1e-4).fit_gram(tasks)
        assert model.adjacency_.nnz / T == pytest.approx(wanted, rel=0.25)
        assert model.optimality_["shown_gap"] < 1e-10


def test_the_joint_optimum_is_shown_where_its_numbers_are_given():
    model = GAMTL(alpha=1.0, beta=0.1, gamma=0.3).fit_gram(gram())
    np.testing.assert_array_equal(model.adjacency_.toarray(), model.coupling_.toarray())


def test_pooled_slopes_are_read_from_a_mixed_model():
    """Equal slopes say nothing about tasks: the mixed model's still tell the groups apart."""
    data = make_groups(random_state=2)
    stats = GAMTL(task=data.task).fit(data.data, data.target).gram_
    graph, certificates = shown_graph(stats, np.ones((20, 30)), np.zeros(20), Recipe())
    assert graph.adjacency.nnz / 20 == pytest.approx(4, rel=0.25)
    inside = graph.adjacency[:12][:, :12].sum() + graph.adjacency[12:18][:, 12:18].sum()
    assert inside > 0.9 * graph.adjacency.sum()
    assert certificates["shown_gap"] < 1e-10


def test_points_are_as_far_apart_as_predictions():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 3)) + np.arange(3)
    stats = GramStats.from_codes(X, rng.normal(size=60), np.repeat(np.arange(4), 15), np.arange(4))
    W = rng.normal(size=(4, 3))
    c = rng.normal(size=4)
    f = X @ W.T + c
    points = prediction_points(stats, W, c)
    Z = ((points[:, None] - points) ** 2).sum(axis=2)
    np.testing.assert_allclose(Z, ((f[:, :, None] - f[:, None]) ** 2).mean(axis=0), rtol=1e-10, atol=1e-12)


def test_both_graphs_are_stored(tmp_path):
    data = make_groups(random_state=3)
    model = GAMTLCV(task=data.task, strengths=(1.0,), anchors=(0.0,), metrics=("identity",)).fit(data.data, data.target)
    model.save(tmp_path / "model.kin")
    again = load(tmp_path / "model.kin")
    np.testing.assert_array_equal(again.adjacency_.toarray(), model.adjacency_.toarray())
    np.testing.assert_array_equal(again.coupling_.toarray(), model.coupling_.toarray())
    assert again.graph_.communities() == model.graph_.communities()
