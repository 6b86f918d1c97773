import subprocess
import sys

import numpy as np
import pytest
from matplotlib.colors import to_hex
from scipy import sparse

from kinfolk import TaskGraph
from kinfolk.diagnostics import embed
from kinfolk.plots import OUTLIER, PALETTE, layout, plot_embedding, plot_graph
from problems import clique_graph, knn_graph, random_graph


def named(A, name="t{}"):
    return TaskGraph(A, np.array([name.format(k) for k in range(A.shape[0])]))


def cliques_and_loners(loners=2):
    A = sparse.block_diag([clique_graph(15, 5).toarray(), np.zeros((loners, loners))])
    return named(sparse.csr_array(A))


def lines(ax):
    return [c for c in ax.collections if "Line" in type(c).__name__]


def marks(ax):
    """Marks that are filled."""
    return [c for c in ax.collections if "Path" in type(c).__name__ and len(c.get_facecolor())]


def rings(ax):
    return [c for c in ax.collections if "Path" in type(c).__name__ and not len(c.get_facecolor())]


def name_boxes(ax):
    ax.figure.draw_without_rendering()
    return np.array([t.get_window_extent().extents for t in ax.texts])


def overlapping(boxes):
    low = np.maximum(boxes[:, None, :2], boxes[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
    shared = np.maximum(high - low, 0).prod(axis=2)
    return np.argwhere(np.triu(shared > 1.0, k=1)).tolist()


def test_groups_lie_apart_in_the_layout():
    graph = TaskGraph(clique_graph(30, 10), np.arange(30))
    xy = layout(graph, random_state=1)
    centre = xy.reshape(3, 10, 2).mean(axis=1)
    within = np.linalg.norm(xy.reshape(3, 10, 2) - centre[:, None], axis=2).max()
    between = min(np.linalg.norm(centre[a] - centre[b]) for a, b in [(0, 1), (0, 2), (1, 2)])
    assert between > 1.5 * within


def test_layouts_repeat_with_their_seed():
    graph = TaskGraph(knn_graph(25, 3), np.arange(25))
    first, again, other = (layout(graph, random_state=s) for s in (5, 5, 6))
    assert first.shape == (25, 2)
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 0.01


@pytest.mark.parametrize("T", [1, 2, 20, 200])
def test_every_task_is_drawn(T):
    A = knn_graph(T, 3) if T > 3 else sparse.csr_array(1 - np.eye(T))
    ax = plot_graph(named(A))
    assert sum(len(c.get_offsets()) for c in marks(ax)) == T


def test_edges_are_drawn_with_their_weights():
    graph = named(random_graph(12, seed=1))
    ax = plot_graph(graph, groups=np.zeros(12, int))
    (drawn,) = lines(ax)
    weight = np.sort([e.weight for e in graph.edges()])
    width = np.sort(drawn.get_linewidth())
    assert len(width) == len(weight)
    assert np.corrcoef(weight, width)[0, 1] == pytest.approx(1.0)


def test_edges_between_groups_are_dashed():
    A = np.array([[0, 2, 0, 0], [2, 0, 1, 0], [0, 1, 0, 2], [0, 0, 2, 0]], float)
    ax = plot_graph(named(sparse.csr_array(A)), groups=[0, 0, 1, 1])
    styles = {len(c.get_segments()): c.get_linestyle()[0][1] for c in lines(ax)}
    assert styles[2] is None and len(styles[1]) == 2


def test_colours_are_communities_and_outliers_may_be_ringed():
    ax = plot_graph(cliques_and_loners(2), outliers="ring")
    (drawn,) = marks(ax)
    colours = [to_hex(c).upper() for c in drawn.get_facecolor()]
    assert [len(set(colours[k : k + 5])) for k in (0, 5, 10)] == [1, 1, 1]
    assert set(colours[:15]) == set(PALETTE[:3])
    assert colours[15:] == [OUTLIER, OUTLIER]
    (ring,) = rings(ax)
    np.testing.assert_array_equal(ring.get_offsets(), drawn.get_offsets()[15:])


def test_outliers_may_be_self_loops():
    ring, loop = (rings(plot_graph(cliques_and_loners(), outliers=how))[0] for how in ("ring", "loop"))
    assert abs(ring.get_paths()[0].vertices[:, 1].min()) == pytest.approx(ring.get_paths()[0].vertices[:, 1].max())
    assert loop.get_paths()[0].vertices[:, 1].min() >= 0


def test_the_eighth_group_has_another_shape():
    groups = np.arange(9)
    ax = plot_graph(named(sparse.csr_array((9, 9))), groups=groups)
    assert [len(c.get_offsets()) for c in marks(ax)] == [7, 2]


@pytest.mark.parametrize("name", ["{}", "store {}", "Car park number {} at the far end"])
def test_twenty_tasks_are_all_named_without_overlap(name):
    ax = plot_graph(named(random_graph(20, density=0.2), name))
    assert len(ax.texts) == 20
    assert overlapping(name_boxes(ax)) == []


def test_of_two_hundred_tasks_as_many_are_named_as_are_legible():
    ax = plot_graph(named(clique_graph(200, 20), "store {}"))
    assert 10 <= len(ax.texts) <= 40
    assert overlapping(name_boxes(ax)) == []


def test_names_stay_inside_the_axes():
    ax = plot_graph(named(random_graph(20, density=0.2), "Car park number {} at the end"))
    boxes, frame = name_boxes(ax), ax.get_window_extent().extents
    assert (boxes[:, :2] >= frame[:2] - 1).all() and (boxes[:, 2:] <= frame[2:] + 1).all()


def test_labels_can_be_forced_or_left_out():
    graph = named(clique_graph(80, 10))
    assert len(plot_graph(graph, labels=True).texts) == 80
    assert len(plot_graph(graph, labels=False).texts) == 0


def test_highlighted_tasks_are_ringed_and_named():
    graph = named(clique_graph(200, 20))
    ax = plot_graph(graph, highlight=["t17", "t118"])
    assert {"t17", "t118"} <= {t.get_text() for t in ax.texts}
    (ring,) = rings(ax)
    assert len(ring.get_offsets()) == 2


def test_light_edges_of_dense_graphs_are_left_out_and_counted():
    A = random_graph(100, density=1.0)
    ax = plot_graph(named(A))
    assert sum(len(c.get_segments()) for c in lines(ax)) == 600
    assert "the 600 heaviest of 4,950 edges" in {t.get_text() for t in ax.texts}


def test_names_that_are_left_out_are_counted_above_other_remarks():
    ax = plot_graph(named(random_graph(100, density=1.0)))
    texts = {t.get_text(): t for t in ax.texts}
    written = sum(text.startswith("t") and text[1:].isdigit() for text in texts)
    assert written < 100
    edges = texts["the 600 heaviest of 4,950 edges"]
    assert texts[f"{written} of 100 names"].get_position()[1] > edges.get_position()[1]
    assert not any("names" in t.get_text() for t in plot_graph(named(random_graph(8))).texts)


def test_given_coordinates_are_kept():
    xy = np.random.default_rng(0).normal(size=(10, 2))
    ax = plot_graph(named(random_graph(10)), coordinates=xy, groups=np.zeros(10, int))
    np.testing.assert_array_equal(marks(ax)[0].get_offsets(), xy)


def test_embeddings_say_their_stress():
    points = np.random.default_rng(0).normal(size=(12, 5))
    found = embed(np.linalg.norm(points[:, None] - points[None], axis=2))
    ax = plot_embedding(found, names=list("abcdefghijkl"))
    texts = {t.get_text() for t in ax.texts}
    assert f"stress {found.stress:.2f}" in texts and set("abcdefghijkl") <= texts


def test_names_are_shown_as_they_are():
    graph = TaskGraph(clique_graph(4, 4), np.array(["$x_1$ and $", "<b>", "a\nb  c", "_%^{"]))
    ax = plot_graph(graph)
    ax.figure.draw_without_rendering()
    assert {t.get_text() for t in ax.texts} == {"$x_1$ and $", "<b>", "a b c", "_%^{"}
    assert not any(t.get_parse_math() for t in ax.texts)


def test_errors_say_what_to_do():
    graph = named(random_graph(5))
    with pytest.raises(ValueError, match=r"coordinates of shape \(5, 3\) for 5 tasks: give \(5, 2\). Those of embed"):
        plot_graph(graph, coordinates=np.zeros((5, 3)))
    with pytest.raises(ValueError, match="highlight names 'x', which is no task .5 tasks: 't0'"):
        plot_graph(graph, highlight=["x"])
    with pytest.raises(ValueError, match='outliers=\'star\': use "ring" or "loop"'):
        plot_graph(graph, outliers="star")
    with pytest.raises(ValueError, match="3 groups for 5 tasks"):
        plot_graph(graph, groups=[0, 1, 2])


NEW_FIGURE = """
import sys
import numpy as np
from scipy import sparse
from kinfolk import TaskGraph
from kinfolk.plots import plot_graph
{}
plot_graph(TaskGraph(sparse.csr_array(1 - np.eye(3)), np.arange(3)))
pyplot = sys.modules.get("matplotlib.pyplot")
print(len(pyplot.get_fignums()) if pyplot else "none")
"""


@pytest.mark.parametrize(
    ("before", "figures"),
    [("", "none"), ("import matplotlib; matplotlib.use('agg'); import matplotlib.pyplot", "1")],
)
def test_new_figures_belong_to_pyplot_only_where_it_is_in_use(before, figures):
    run = subprocess.run([sys.executable, "-c", NEW_FIGURE.format(before)], capture_output=True, text=True, check=True)
    assert run.stdout.split() == [figures]
