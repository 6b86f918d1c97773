"""Pictures with matplotlib: axes in, axes out.

Colours are told apart by colour-blind readers. What does not fit legibly is left out, and the picture says so.
"""

from kinfolk.plots.canvas import OUTLIER, PALETTE
from kinfolk.plots.courses import plot_convergence, plot_predictions, plot_task_errors
from kinfolk.plots.graphs import plot_embedding, plot_graph
from kinfolk.plots.layouts import layout
from kinfolk.plots.matrices import plot_coefficients, plot_matrix
from kinfolk.plots.structure import plot_structure
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
