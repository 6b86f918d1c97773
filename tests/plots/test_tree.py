import numpy as np
import pytest
from matplotlib.figure import Figure

from kinfolk import TaskTree
from kinfolk.methods.model import Model
from kinfolk.methods.structures import TaskCovariance, TaskGraph, TaskPrecision
from kinfolk.plots import plot_structure, plot_tree
from problems import clique_graph

LEVELS = [[0, 1, 0, 1, 2], [0, 0, 0, 0, 1], [0, 0, 0, 0, 0]]


def names(ax):
    return [t.get_text() for t in ax.get_yticklabels()]


def segments(ax):
    return np.array(ax.collections[0].get_segments())


def test_every_task_is_named_once_beside_its_kin():
    ax = plot_tree(TaskTree(LEVELS, np.array(list("abcde"))))
    assert names(ax) == ["a", "c", "b", "d", "e"]


def test_groups_meet_at_their_level():
    lines = segments(plot_tree(TaskTree(LEVELS, np.array(list("abcde")))))
    upright = lines[lines[:, 0, 0] == lines[:, 1, 0]]
    np.testing.assert_array_equal(np.sort(upright[:, 0, 0]), [1, 1, 2, 3])
    joined = upright[np.argsort(upright[:, 0, 0])][-1]
    np.testing.assert_array_equal(joined[:, 1], [1.5, 4])  # the middle of the four, and task e


def test_every_task_is_led_to_a_join():
    lines = segments(plot_tree(TaskTree(LEVELS, np.array(list("abcde")))))
    leaves = lines[(lines[:, 0, 0] == 0) & (lines[:, 1, 0] > 0)]
    np.testing.assert_array_equal(np.sort(leaves[:, 0, 1]), np.arange(5))


def test_new_axes_are_tall_enough_for_two_hundred_names_and_small_ones_name_groups():
    group = np.repeat(np.arange(20), 10)
    tree = TaskTree([group, group // 5, np.zeros(200, int)], np.array([f"store {k:03d}" for k in range(200)]))
    assert len(names(plot_tree(tree))) == 200
    ax = plot_tree(tree, ax=Figure(figsize=(4, 4), layout="constrained").add_subplot())
    assert names(ax) == [f"store {k:03d} + 9" for k in range(0, 200, 10)]


def test_a_single_task_is_a_name():
    assert names(plot_tree(TaskTree([[0]], np.array(["a"])))) == ["a"]


@pytest.mark.parametrize(
    ("structure", "kind"),
    [
        (TaskGraph(clique_graph(6, 3), np.arange(6)), "collections"),
        (TaskCovariance(np.eye(4) + 1, np.arange(4)), "images"),
        (TaskPrecision(np.eye(4) + 1, np.arange(4)), "images"),
        (TaskTree(LEVELS, np.arange(5)), "collections"),
    ],
)
def test_every_structure_has_a_picture(structure, kind):
    ax = Figure().add_subplot()
    assert plot_structure(structure, ax=ax) is ax
    assert len(getattr(ax, kind)) > 0


def model_with(structure):
    """A fitted model of five tasks that says this about them."""
    return Model(np.array(list("abcde")), np.ones(5, bool), np.ones((5, 1)), np.zeros(5), None, structure)


def test_models_are_drawn_by_their_structure():
    record = model_with(TaskTree(LEVELS, np.array(list("abcde"))))
    assert names(plot_structure(record)) == ["a", "c", "b", "d", "e"]


def test_what_cannot_be_drawn_is_said():
    with pytest.raises(ValueError, match="structure_ is None"):
        plot_structure(model_with(None))
    with pytest.raises(TypeError, match="takes a fitted model, a TaskGraph.* got dict"):
        plot_structure({})
