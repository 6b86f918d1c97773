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


@dataclass(frozen=True, eq=False)
class Alternation:
    """The end of the loop: the last weight and graph steps, and the objective after every weight step."""

    weights: Solution
    graph: Solution
    history: Array
    n_iter: int
    converged: bool


def alternate(
    weight_step: WeightStep,
    graph_step: GraphStep,
    objective: Callable[[Array, sparse.csr_array], float],
    gap: Callable[[Array, sparse.csr_array], float],
    W: Array,
    *,
    tol: float,
    max_iter: int,
    callback: Callback | None = None,
) -> Alternation:
    """Alternate from the weights W until the objective changes by less than `tol` and the graph's gap is that small.

    The graph comes first (it has no start of its own), the weights last (so that they solve their system exactly for
    the graph that is returned).
    """
    graph = graph_step(W, None)
    weights = weight_step(graph.value, W)
    history = [objective(weights.value, graph.value)]
    converged = len(W) < 2
    while not converged and len(history) < max_iter:
        graph = graph_step(weights.value, graph.dual)
        weights = weight_step(graph.value, weights.value)
        history.append(objective(weights.value, graph.value))
        still = history[-2] - history[-1] <= tol * max(abs(history[-1]), 1.0)
        converged = still and gap(weights.value, graph.value) <= tol
        report(callback, "fit", len(history), max_iter, history[-1])
    _warn(weights, graph, converged, max_iter)
    return Alternation(weights, graph, np.array(history), len(history), converged)


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
