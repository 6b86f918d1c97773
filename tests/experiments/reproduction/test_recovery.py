"""Every kind of structure is judged by the same measures."""

import numpy as np
import pytest
from scipy import sparse

from kinfolk.experiments.reproduction.recovery import edge_auc, rand_index, recovered
from kinfolk.methods.structures import TaskCovariance, TaskGraph, TaskPrecision
from kinfolk.methods.trees import TaskTree

LABELS = np.arange(6)
PLANTED = np.array([0, 0, 0, 1, 1, -1])
EDGES = [(0, 1), (0, 2), (1, 2), (3, 4)]
TRUE = np.zeros((6, 6))
TRUE[tuple(zip(*EDGES, strict=True))] = 1.0
TRUE += TRUE.T
COVARIANCE = 0.9 * TRUE + np.eye(6) - 0.1 * (1 - TRUE - np.eye(6))

STRUCTURES = {
    "graph": TaskGraph(sparse.csr_array(TRUE), LABELS),
    "covariance": TaskCovariance(COVARIANCE, LABELS),
    "precision": TaskPrecision(np.linalg.inv(0.5 * TRUE + np.eye(6)), LABELS),
    "tree": TaskTree([[0, 0, 0, 1, 1, 2], [0] * 6], LABELS),
}


@pytest.mark.parametrize("kind", STRUCTURES)
def test_a_perfect_structure_of_any_kind_gets_full_marks(kind):
    found = recovered(STRUCTURES[kind], None, {"edges": EDGES, "groups": PLANTED})
    assert found["edge_auc"] == 1.0
    assert found["rand_index"] == 1.0
    assert (found["outliers_found"], found["outliers_planted"], found["outliers_false"]) == (1, 1, 0)


@pytest.mark.parametrize("kind", STRUCTURES)
def test_scores_are_symmetric_with_zero_diagonal(kind):
    S = sparse.csr_array(STRUCTURES[kind].scores()).toarray()
    np.testing.assert_allclose(S, S.T)
    assert not np.diagonal(S).any()


def test_the_area_is_the_share_of_pairs_in_the_right_order():
    rng = np.random.default_rng(2)
    S = rng.integers(0, 4, size=(6, 6)).astype(float)
    S = S + S.T
    pairs = [(i, j) for i in range(6) for j in range(i)]
    inside = [S[p] for p in pairs if TRUE[p]]
    outside = [S[p] for p in pairs if not TRUE[p]]
    wins = [(a > b) + 0.5 * (a == b) for a in inside for b in outside]
    assert edge_auc(S, EDGES) == pytest.approx(np.mean(wins))


def test_opposite_tasks_are_not_kin():
    opposed = TaskCovariance(np.array([[1.0, -0.9, 0.0], [-0.9, 1.0, 0.0], [0.0, 0.0, 1.0]]), np.arange(3))
    assert edge_auc(opposed.scores(), [(0, 1)]) == 0.0
    assert opposed.graph(opposed=False).adjacency.nnz == 0


def test_planted_outliers_are_groups_of_their_own():
    assert rand_index(np.array([0, 0, 1, 1, 2, 2]), np.array([0, 0, 1, 1, -1, -1])) < 1.0
    assert rand_index(np.array([0, 0, 1, 1, -1, -1]), np.array([3, 3, 0, 0, -1, -1])) == 1.0


def test_coefficients_alone_are_judged_by_their_distances():
    W = np.array([[0.0], [0.1], [0.2], [5.0], [5.1], [50.0]])
    found = recovered(None, W, {"edges": EDGES, "groups": PLANTED})
    assert found == {"coefficient_auc": 1.0}
    mixed = np.array([[0.0], [50.0], [1.0], [51.0], [2.0], [500.0]])
    found = recovered(None, mixed, {"edges": EDGES, "groups": PLANTED})
    # Edges are 50, 1, 49 and 49 long: 6 and a tie, 9 and two ties, 7 and 7 of the eleven other pairs are longer.
    assert found["coefficient_auc"] == pytest.approx(30.5 / 44)


def test_one_planted_group_has_no_rand_index():
    found = recovered(STRUCTURES["graph"], None, {"edges": EDGES, "groups": np.zeros(6, int)})
    assert "rand_index" not in found
