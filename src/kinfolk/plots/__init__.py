"""Pictures with matplotlib: axes in, axes out.

Colour-blind readers can distinguish the colours. What does not fit legibly is left out, and the picture says so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kinfolk.methods.model import Fitted, structure_of
from kinfolk.methods.structures import Structure
from kinfolk.plots.canvas import OUTLIER, PALETTE, Axes
from kinfolk.plots.courses import plot_convergence, plot_predictions, plot_task_errors
from kinfolk.plots.graphs import plot_embedding, plot_graph
from kinfolk.plots.layouts import layout
from kinfolk.plots.matrices import plot_coefficients, plot_matrix
from kinfolk.plots.tree import plot_tree

__all__ = [
    "OUTLIER",
    "PALETTE",
    "layout",
    "plot_coefficients",
    "plot_convergence",
    "plot_embedding",
    "plot_graph",
    "plot_matrix",
    "plot_predictions",
    "plot_structure",
    "plot_task_errors",
    "plot_tree",
]

DRAW: dict[str, Callable[..., Axes]] = {"graph": plot_graph, "matrix": plot_matrix, "tree": plot_tree}


def plot_structure(structure: Fitted | Structure, *, ax: Axes | None = None, **options: Any) -> Axes:
    """Draw what a method says about its tasks: a graph, a heat map or a tree.

    Parameters
    ----------
    structure : TaskGraph, TaskCovariance, TaskPrecision or TaskTree, or a fitted model that has one as `structure_`
    options : for `plot_graph`, `plot_matrix` or `plot_tree`
    """
    drawn = structure_of(structure, "plot_structure")
    if drawn is None:
        raise ValueError("this method says nothing about relations between tasks (structure_ is None): nothing to draw")
    return DRAW[drawn.kind](drawn, ax=ax, **options)
