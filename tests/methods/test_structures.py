import networkx as nx
import numpy as np
import pytest
from scipy import sparse

from kinfolk import TaskGraph
from kinfolk.solvers.graph.communities import louvain, merged_groups
from problems import clique_graph, knn_graph, random_graph

NAMES = np.array(["ada", "bob", "cyd", "dee"])
CHAIN = TaskGraph(sparse.csr_array(np.diag([3.0, 1.0, 2.0], 1) + np.diag([3.0, 1.0, 2.0], -1)), NAMES)


def test_edges_are_a_table_with_names_heaviest_first():
    assert CHAIN.edges() == [("ada", "bob", 3.0), ("cyd", "dee", 2.0), ("bob", "cyd", 1.0)]
    assert CHAIN.edges()[0]._fields == ("task", "neighbor", "weight")


def test_degree_and_laplacian():
    np.testing.assert_array_equal(CHAIN.degree, [3, 4, 3, 2])
    np.testing.assert_array_equal(CHAIN.laplacian.toarray().sum(axis=1), 0)


def test_networkx_gets_the_same_graph():
    graph = CHAIN.to_networkx()
    assert graph["ada"]["bob"]["weight"] == 3.0
    np.testing.assert_array_equal(nx.to_numpy_array(graph, nodelist=NAMES.tolist()), CHAIN.adjacency.toarray())


def test_a_task_with_hardly_any_degree_is_an_outlier():
    A = (np.ones((5, 5)) - np.eye(5)) * np.array([1, 1, 1, 1, 0.01]) * np.array([[1], [1], [1], [1], [0.01]])
    graph = TaskGraph(sparse.csr_array(A), np.arange(5))
    assert graph.outliers() == [4]
    assert graph.communities() == [[0, 1, 2, 3], [4]]
    assert graph.outliers(below=0.0) == []


def test_parts_of_one_cloud_of_points_are_one_group():
    rng = np.random.default_rng(5)
    A = knn_graph(40, 3)
    alone = TaskGraph(A, np.arange(40), rng.normal(size=(40, 6)))
    apart = TaskGraph(A, np.arange(40), 10.0 * louvain(A)[:, None] + rng.normal(size=(40, 6)))
    assert len(np.unique(louvain(A))) > 3
    assert len(alone.communities()) == 1
    np.testing.assert_array_equal(apart.groups(), louvain(A))


def test_expanding_keeps_edges_and_adds_lonely_tasks():
    grown = CHAIN.expanded(np.array(["aaa", "ada", "bob", "cyd", "dee"]))
    assert grown.edges() == CHAIN.edges()
    assert grown.degree[0] == 0


@pytest.mark.parametrize("A", [random_graph(60, 1, 0.05), knn_graph(80, 3), clique_graph(60, 12)])
def test_communities_are_as_modular_as_those_of_networkx(A):
    graph = nx.from_scipy_sparse_array(A)
    theirs = nx.community.louvain_communities(graph, seed=0)
    ours = [set(np.flatnonzero(louvain(A) == k).tolist()) for k in range(louvain(A).max() + 1)]
    assert nx.community.modularity(graph, ours) >= nx.community.modularity(graph, theirs) - 0.03


def test_cliques_are_their_own_communities_largest_first():
    A = sparse.csr_array(sparse.block_diag([np.ones((k, k)) - np.eye(k) for k in (3, 7, 5)]))
    np.testing.assert_array_equal(louvain(A), np.repeat([2, 0, 1], [3, 7, 5]))


def test_a_graph_without_edges_has_only_singles():
    assert sorted(louvain(sparse.csr_array((4, 4)))) == [0, 1, 2, 3]
    assert TaskGraph(sparse.csr_array((1, 1)), np.array(["only"])).communities() == [["only"]]


@pytest.mark.parametrize(("size", "groups"), [(1e200, 2), (1e-200, 2), (np.inf, 3)])
def test_groups_of_points_of_any_size_are_merged_in_finite_time(size, groups):
    points = np.array([[0.0], [2.0], [1.0], [3.0], [9.0], [11.0]])
    points = points * size if np.isfinite(size) else np.append(points[:-1], [[size]], axis=0)
    assert merged_groups(np.array([0, 0, 1, 1, 2, 2]), points).max() + 1 == groups
