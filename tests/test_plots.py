import numpy as np
import pytest
from scipy import sparse

from kinfolk import TaskGraph, TaskTree
from kinfolk.plots import layout, plot_graph, plot_tree
from problems import clique_graph, knn_graph


def test_groups_lie_apart_in_the_layout():
    graph = TaskGraph(clique_graph(30, 10), np.arange(30))
    xy = layout(graph, random_state=1)
    centre = xy.reshape(3, 10, 2).mean(axis=1)
    within = np.linalg.norm(xy.reshape(3, 10, 2) - centre[:, None], axis=2).max()
    between = min(np.linalg.norm(centre[a] - centre[b]) for a, b in [(0, 1), (0, 2), (1, 2)])
    assert between > 1.5 * within


def test_layouts_repeat_with_their_seed():
    graph = TaskGraph(knn_graph(25, 3), np.arange(25))
    np.testing.assert_array_equal(layout(graph, random_state=5), layout(graph, random_state=5))


@pytest.mark.parametrize("T", [1, 2, 20, 200])
def test_every_task_is_drawn(T):
    A = knn_graph(T, 3) if T > 3 else sparse.csr_array(1 - np.eye(T))
    ax = plot_graph(TaskGraph(A, np.array([f"t{k}" for k in range(T)])))
    assert len(ax.collections[-2].get_offsets()) == T
    assert len(ax.texts) == (T if T <= 60 else 0)


def test_a_tree_shows_every_task_once_and_joins_groups():
    levels = [[0, 0, 1, 1, 2], [0, 0, 0, 0, 1], [0, 0, 0, 0, 0]]
    ax = plot_tree(TaskTree(levels, np.array(list("abcde"))))
    assert sorted(t.get_text() for t in ax.get_xticklabels()) == list("abcde")
    assert sum(len(c.get_paths()) for c in ax.collections) == 4
