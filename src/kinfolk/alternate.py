"""The loop W <-> A: each step an exact minimisation of one block, so the objective never rises."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from kinfolk.gram import Array
from kinfolk.progress import Callback, report
from kinfolk.solution import Solution

WeightStep = Callable[[sparse.csr_array, Array], Solution]
GraphStep = Callable[[Array, Array | None], Solution]
Objective = Callable[[Array, sparse.csr_array], float]


@dataclass(frozen=True, eq=False)
class Alternation:
    """The end of the loop: the last two steps, the objective after every round, and what the last graph step gained."""

    weights: Solution
    graph: Solution
    history: Array
    gap: float
    converged: bool

    @property
    def n_iter(self) -> int:
        """Rounds."""
        return len(self.history)


def alternate(
    weight_step: WeightStep,
    graph_step: GraphStep,
    objective: Objective,
    W: Array,
    *,
    tol: float,
    max_iter: int,
    quiet: bool = False,
    callback: Callback | None = None,
) -> Alternation:
    """Alternate from the weights W until a round lowers the objective by less than `tol`, relative.

    The graph comes first (it has no start of its own), the weights last (so that they solve their system exactly for
    the graph that is returned). `quiet` means that `max_iter` rounds are meant to be enough. What a graph step gains
    is exactly how far the graph before it was from the best.
    """
    graph = graph_step(W, None)
    weights = weight_step(graph.value, W)
    history = [objective(weights.value, graph.value)]
    converged, gap = len(W) < 2, 0.0 if len(W) < 2 else np.inf
    while not converged and len(history) < max_iter:
        graph = graph_step(weights.value, graph.dual)
        scale = max(np.abs(history))  # F may pass through zero on its way
        gap = (history[-1] - objective(weights.value, graph.value)) / scale
        weights = weight_step(graph.value, weights.value)
        history.append(objective(weights.value, graph.value))
        converged = history[-2] - history[-1] <= tol * scale
        report(callback, "fit", len(history), max_iter, history[-1])
    _warn(weights, graph, converged or quiet, max_iter)
    return Alternation(weights, graph, np.array(history), float(gap), bool(converged))


def _warn(weights: Solution, graph: Solution, converged: bool, max_iter: int) -> None:
    for name, step in (("weight", weights), ("graph", graph)):
        if not step.converged:
            warnings.warn(
                f"the last {name} step ({step.method}) stopped at a residual of {step.residual:.1e} after "
                f"{step.n_iter} iterations. Scale the features, raise ridge, or choose another {name}s_solver.",
                ConvergenceWarning,
                stacklevel=4,
            )
    if not converged:
        warnings.warn(
            f"the alternation has not converged in {max_iter} rounds. The objective falls all the same; "
            "raise max_iter or tol, or lower strength.",
            ConvergenceWarning,
            stacklevel=4,
        )
