"""One door for every structure."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kinfolk.methods.model import structure_of
from kinfolk.plots.graphs import plot_graph
from kinfolk.plots.matrices import plot_matrix
from kinfolk.plots.tree import plot_tree

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DRAW: dict[str, Callable[..., Axes]] = {"graph": plot_graph, "matrix": plot_matrix, "tree": plot_tree}


def plot_structure(structure: Any, *, ax: Axes | None = None, **options: Any) -> Axes:
    """Draw what a method says about its tasks: a graph, a heat map or a tree.

    Parameters
    ----------
    structure : TaskGraph, TaskCovariance, TaskPrecision or TaskTree, or a fitted model that has one as `structure_`
    options : for `plot_graph`, `plot_matrix` or `plot_tree`
    """
    found = structure_of(structure, "plot_structure")
    if found is None:
        raise ValueError("this method says nothing about relations between tasks (structure_ is None): nothing to draw")
    return DRAW[found.kind](found, ax=ax, **options)
