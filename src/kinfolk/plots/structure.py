"""One door for every structure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kinfolk.methods.structures import TaskCovariance, TaskGraph, TaskPrecision
from kinfolk.methods.trees import TaskTree
from kinfolk.plots.graphs import plot_graph
from kinfolk.plots.matrices import plot_matrix
from kinfolk.plots.tree import plot_tree

if TYPE_CHECKING:
    from matplotlib.axes import Axes

KINDS: tuple[tuple[type | tuple[type, ...], Any], ...] = (
    (TaskGraph, plot_graph),
    ((TaskCovariance, TaskPrecision), plot_matrix),
    (TaskTree, plot_tree),
)


def plot_structure(structure: Any, *, ax: Axes | None = None, **options: Any) -> Axes:
    """Draw what a method says about its tasks: a graph, a heat map or a tree.

    Parameters
    ----------
    structure : TaskGraph, TaskCovariance, TaskPrecision or TaskTree, or a fitted model that has one as `structure_`
    options : for `plot_graph`, `plot_matrix` or `plot_tree`
    """
    structure = getattr(structure, "structure_", structure)
    for kind, draw in KINDS:
        if isinstance(structure, kind):
            return draw(structure, ax=ax, **options)
    if structure is None:
        raise ValueError("this method says nothing about relations between tasks (structure_ is None): nothing to draw")
    raise TypeError(
        f"cannot draw {type(structure).__name__}: give a fitted model, or a TaskGraph, TaskCovariance, TaskPrecision "
        "or TaskTree"
    )
