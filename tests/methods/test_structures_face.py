"""All structures have one face: a part, more tasks, scores, a graph, groups, and plain data."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError

from kinfolk import GAMTL
from kinfolk.baselines import Independent
from kinfolk.cli.graph import graph_of
from kinfolk.methods.model import structure_of
from kinfolk.methods.structures import Structure, TaskCovariance, TaskGraph, TaskPrecision
from kinfolk.methods.trees import TaskTree

LABELS = np.array(list("abdef"))
MORE = np.array(list("abcdef"))
RELATED = np.array([[0, 3, 3, 0, 0], [3, 0, 3, 0, 0], [3, 3, 0, 0, 0], [0, 0, 0, 0, 2], [0, 0, 0, 2, 0]]) / 4
STRUCTURES = {
    "graph": TaskGraph(sparse.csr_array(RELATED), LABELS, np.array([[1.0], [1.5], [2.0], [7.0], [8.0]])),
    "covariance": TaskCovariance(4 * (RELATED + np.eye(5)), LABELS),
    "precision": TaskPrecision(np.linalg.inv(RELATED + np.eye(5)), LABELS),
    "tree": TaskTree([[0, 0, 0, 1, 1], [0, 0, 0, 0, 0]], LABELS),
}


@pytest.fixture(params=STRUCTURES)
def structure(request):
    return STRUCTURES[request.param]


def dense(structure):
    return sparse.csr_array(structure.scores()).toarray()


def test_every_structure_is_known_by_its_name():
    assert Structure.forms == {name: type(structure) for name, structure in STRUCTURES.items()}


def test_the_command_notes_what_edges_stand_for_unless_they_are_those_of_a_graph(structure):
    notes = []
    graph = graph_of(SimpleNamespace(structure_=structure), SimpleNamespace(note=notes.append))
    assert graph.labels.tolist() == LABELS.tolist()
    assert [structure.edges_are in note for note in notes] == [True] * (structure.kind != "graph")


def test_groups_are_numbered_by_size(structure):
    np.testing.assert_array_equal(structure.groups(), [0, 0, 0, 1, 1])


def test_scores_are_symmetric_and_rank_the_related_pairs_first(structure):
    S = dense(structure)
    np.testing.assert_allclose(S, S.T, atol=1e-15)
    assert not np.diagonal(S).any()
    related = RELATED > 0
    apart = ~related & ~np.eye(5, dtype=bool)
    assert S[related].min() > S[apart].max() + 0.2


def test_a_mask_and_positions_give_the_same_part(structure):
    mask = np.array([True, False, True, True, False])
    part = structure.among(mask)
    assert type(part) is type(structure) and part.labels.tolist() == ["a", "d", "e"]
    np.testing.assert_array_equal(dense(part), dense(structure.among(np.flatnonzero(mask))))


@pytest.mark.parametrize("name", ["graph", "covariance", "tree"])
def test_relations_within_a_part_stay(name):
    kept = np.array([0, 2, 4])
    np.testing.assert_allclose(dense(STRUCTURES[name].among(kept)), dense(STRUCTURES[name])[np.ix_(kept, kept)])


def test_more_tasks_change_nothing_among_the_old_ones(structure):
    grown = structure.expanded(MORE)
    old = np.array([0, 1, 3, 4, 5])
    np.testing.assert_allclose(dense(grown.among(old)), dense(structure))
    assert not dense(grown)[2].any()


def test_the_graph_has_the_scores_as_weights(structure):
    graph = structure.graph()
    np.testing.assert_allclose(graph.adjacency.toarray(), np.abs(dense(structure)))
    assert graph.graph() is graph
    heaviest = graph.adjacency.max()
    assert structure.graph(above=0.99 * heaviest).adjacency.data.min() > 0.99 * heaviest
    assert structure.graph(above=heaviest).adjacency.nnz == 0


def test_opposed_tasks_are_joined_only_if_asked_for():
    opposed = TaskCovariance(np.array([[1.0, -0.9], [-0.9, 1.0]]), LABELS[:2])
    assert opposed.graph().adjacency.nnz == 2
    assert opposed.graph(opposed=False).adjacency.nnz == 0


def test_plain_data_come_back_through_json(structure):
    back = Structure.from_dict(json.loads(json.dumps(structure.to_dict())))
    assert type(back) is type(structure)
    assert back.to_dict() == structure.to_dict()
    np.testing.assert_array_equal(dense(back), dense(structure))


def test_an_unknown_form_is_named():
    with pytest.raises(ValueError, match="of kind 'ring': known are 'graph'"):
        Structure.from_dict({"kind": "ring", "labels": []})


def test_a_tree_without_a_split_is_one_group():
    assert TaskTree([[0, 0]], LABELS[:2]).groups().tolist() == [0, 0]
    assert TaskTree([[0, 1, 1], [0, 0, 0], [0, 0, 0]], LABELS[:3]).groups().tolist() == [-1, 0, 0]


def test_the_structure_of_a_model_is_found():
    assert structure_of(STRUCTURES["tree"], "draw") is STRUCTURES["tree"]
    assert structure_of(Independent(task=0).fit([[0, 1.0], [0, 2.0]], [1.0, 2.0]), "draw") is None
    with pytest.raises(NotFittedError, match="This GAMTL instance is not fitted yet"):
        structure_of(GAMTL(), "draw")
