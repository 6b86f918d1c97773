"""Bridges, outliers and the table of roles."""

import numpy as np
import pytest
from scipy import sparse

from kinfolk import GAMTL, TaskGraph
from kinfolk.datasets import make_groups
from kinfolk.explain import bridges, communities, group_sentences, outliers, roles

TWO_TRIANGLES = [(0, 1, 4), (0, 2, 4), (1, 2, 4), (4, 5, 4), (4, 6, 4), (5, 6, 4), (2, 3, 3), (3, 4, 2)]


def graph_of_edges(edges, labels):
    A = np.zeros((len(labels), len(labels)))
    for i, j, w in edges:
        A[i, j] = A[j, i] = w
    return TaskGraph(sparse.csr_array(A), np.array(labels))


@pytest.fixture
def graph():
    return graph_of_edges(TWO_TRIANGLES, list("abcdefg"))


def test_the_task_between_two_triangles_is_the_bridge(graph):
    (bridge,) = bridges(graph)
    assert bridge.task == "d"
    assert bridge.ratio == pytest.approx(2 / 3)
    assert bridge.participation == pytest.approx(1 - 0.6**2 - 0.4**2)


def test_a_stricter_rule_finds_no_bridge(graph):
    assert bridges(graph, at_least=0.7) == []


def test_roles_add_up(graph):
    table = {role.task: role for role in roles(graph)}
    np.testing.assert_allclose([r.own + r.across for r in table.values()], graph.degree)
    assert table["d"].bridge
    assert table["d"].nearest == "c"
    assert table["d"].neighbors == 2
    assert (table["a"].own, table["a"].across, table["a"].participation) == (8.0, 0.0, 0.0)


def test_relabelling_permutes_the_roles():
    order = np.array([6, 2, 0, 5, 3, 1, 4])
    edges = [(int(np.flatnonzero(order == i)[0]), int(np.flatnonzero(order == j)[0]), w) for i, j, w in TWO_TRIANGLES]
    names = np.array(list("abcdefg"))
    one = {r.task: r for r in roles(graph_of_edges(TWO_TRIANGLES, names))}
    two = {r.task: r for r in roles(graph_of_edges(edges, names[order]))}
    for name in "abcdefg":
        assert two[name].bridge == one[name].bridge
        assert two[name].participation == pytest.approx(one[name].participation)
        assert two[name].own == pytest.approx(one[name].own)


def test_outliers_have_no_community_and_are_no_bridges():
    graph = graph_of_edges([*TWO_TRIANGLES, (0, 7, 0.01), (4, 7, 0.01)], list("abcdefgh"))
    last = roles(graph)[-1]
    assert last.outlier
    assert last.community == -1
    assert last.participation == pytest.approx(0.5)
    assert [b.task for b in bridges(graph)] == ["d"]


def test_a_task_without_edges_has_no_nearest_kin():
    graph = graph_of_edges(TWO_TRIANGLES, list("abcdefgh"))
    assert roles(graph)[-1].nearest is None


def test_models_pass_through_to_their_graph():
    syn = make_groups(random_state=3)
    model = GAMTL(task=syn.task).fit(syn.data, syn.target)
    assert outliers(model) == model.graph_.outliers() == [19, 20]
    assert communities(model) == communities(model.graph_) == model.graph_.communities()
    assert [r.outlier for r in roles(model)] == 18 * [False] + [True, True]
    assert bridges(model) == []


def test_a_share_outside_its_range_is_refused(graph):
    with pytest.raises(ValueError, match="at_least=0 must be greater than 0 and at most 1"):
        bridges(graph, at_least=0)


def test_sentences_take_an_estimator_as_all_explanations_do():
    syn = make_groups(random_state=0)
    model = GAMTL(task="task").fit(syn.data, syn.target)
    groups, alone = group_sentences(model)
    assert (groups, alone) == group_sentences(model.model_) and groups
    with pytest.raises(TypeError, match="group_sentences takes a fitted model, got str"):
        group_sentences("model.kin")
