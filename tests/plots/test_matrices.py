import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy import sparse

from kinfolk import GAMTL, TaskCovariance, TaskGraph, TaskPrecision
from kinfolk.baselines import Independent
from kinfolk.methods.model import Model, Population
from kinfolk.plots import plot_coefficients, plot_matrix
from problems import clique_graph, frame


def mixed_groups():
    """Two groups, every other task, and a loner at position 2."""
    group = np.array([0, 1, -1, 0, 1, 0, 1, 0])
    A = (group[:, None] == group) & (group >= 0)[:, None] & ~np.eye(8, dtype=bool)
    return TaskGraph(sparse.csr_array(A.astype(float)), np.array([f"t{k}" for k in range(8)])), group


def names(axis):
    return [t.get_text() for t in axis.get_ticklabels()]


def drawn(ax):
    return np.asarray(ax.images[0].get_array())


def covariance(T, seed=0):
    return np.cov(np.random.default_rng(seed).normal(size=(T, 2 * T)))


def test_communities_stand_together_outliers_last():
    graph, _ = mixed_groups()
    ax = plot_matrix(graph)
    assert names(ax.xaxis) == names(ax.yaxis) == ["t0", "t3", "t5", "t7", "t1", "t4", "t6", "t2"]
    order = [0, 3, 5, 7, 1, 4, 6, 2]
    np.testing.assert_array_equal(drawn(ax), graph.adjacency.toarray()[np.ix_(order, order)])
    assert len(ax.lines) == 4


def test_the_order_of_the_tasks_can_be_kept():
    graph, _ = mixed_groups()
    ax = plot_matrix(graph, order=False)
    np.testing.assert_array_equal(drawn(ax), graph.adjacency.toarray())
    assert not ax.lines


def test_groups_can_be_given():
    ax = plot_matrix(np.eye(3), groups=[1, 0, 1], names=list("abc"))
    assert names(ax.xaxis) == ["b", "a", "c"]


@pytest.mark.parametrize(
    ("structure", "show"),
    [
        (TaskCovariance, "covariance"),
        (TaskCovariance, "correlation"),
        (TaskPrecision, "precision"),
        (TaskPrecision, "partial_correlation"),
        (TaskPrecision, "covariance"),
    ],
)
def test_every_matrix_of_a_structure_can_be_shown(structure, show):
    kin = structure(covariance(6), np.arange(6))
    ax = plot_matrix(kin, show=show, order=False)
    np.testing.assert_array_equal(drawn(ax), getattr(kin, show))
    assert ax.figure.axes[1].get_ylabel() == show.replace("_", " ")


def test_colours_end_off_the_diagonal_and_zero_is_in_their_middle():
    M = np.array([[9.0, 0.5, 0.0], [0.5, 9.0, -0.25], [0.0, -0.25, 9.0]])
    assert plot_matrix(M).images[0].get_clim() == (-0.5, 0.5)
    assert plot_matrix(np.abs(M)).images[0].get_clim() == (0.0, 0.5)
    assert plot_matrix(np.zeros((2, 2))).images[0].get_clim() == (0.0, 1.0)


def test_two_hundred_tasks_show_their_groups_instead():
    ax = plot_matrix(TaskGraph(clique_graph(200, 50), np.array([f"store {k}" for k in range(200)])))
    assert names(ax.yaxis) == [f"group {k} (50)" for k in (1, 2, 3, 4)]
    assert ax.get_ylabel() == "200 tasks"


def test_nothing_is_clipped():
    labels = np.array([f"Car park number {k} at the far end" for k in range(20)])
    ax = plot_matrix(TaskCovariance(covariance(20), labels))
    figure = ax.figure
    figure.draw_without_rendering()
    box = figure.get_tightbbox()
    assert box.x0 >= 0 and box.y0 >= 0
    assert box.x1 <= figure.get_figwidth() and box.y1 <= figure.get_figheight()


def fitted(**kwargs):
    table, y = frame(T=8, n=(8, 12), **kwargs)
    return GAMTL(task="who").fit(table, y)


def test_coefficients_are_rows_by_community():
    model = fitted()
    ax = plot_coefficients(model)
    group = model.graph_.groups()
    order = np.lexsort((np.arange(8), np.where(group < 0, 8, group)))
    np.testing.assert_array_equal(drawn(ax), model.coef_[order])
    assert names(ax.yaxis) == model.tasks_[order].tolist()
    assert names(ax.xaxis) == ["x0", "x1", "x2", "x3"]


def test_relative_coefficients_reach_one_in_every_column():
    values = drawn(plot_coefficients(fitted(), relative=True))
    np.testing.assert_allclose(np.abs(values).max(axis=0), 1.0)


def test_models_without_a_structure_keep_the_order_of_their_tasks():
    table, y = frame(T=5)
    model = Independent(task="who").fit(table, y)
    ax = plot_coefficients(model, ax=Figure().add_subplot())
    assert names(ax.yaxis) == model.tasks_.tolist()


def test_many_features_are_named_in_steps():
    T, d = 4, 300
    model = Model(np.arange(T), np.ones(T, bool), np.ones((T, d)), np.zeros(T), Population(np.ones(d), 0.0))
    shown = names(plot_coefficients(model).xaxis)
    assert shown[0] == "0" and 10 < len(shown) < 150


def test_errors_say_what_to_do():
    with pytest.raises(ValueError, match="show='precision': a TaskCovariance has 'covariance', 'correlation'"):
        plot_matrix(TaskCovariance(covariance(3), np.arange(3)), show="precision")
    with pytest.raises(ValueError, match=r"ndarray of shape \(2, 3\): give a TaskGraph"):
        plot_matrix(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="This GAMTL instance is not fitted yet"):
        plot_coefficients(GAMTL())
    with pytest.raises(ValueError, match="2 groups for 3 tasks"):
        plot_matrix(np.eye(3), groups=[0, 1])
