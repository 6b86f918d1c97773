"""The loop W <-> A: each step an exact minimisation of one block, so the objective never rises."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from kinfolk.progress import Callback, report
from kinfolk.rows.gram import Array
from kinfolk.solvers.solution import Solution

WeightStep = Callable[[sparse.csr_array, Array], Solution]
GraphStep = Callable[[Array, Array | None], Solution]
ROUNDING = 1e-12  # of the objective: a rise by no more is none
SETTLED = 0.01  # relative change of edges and degrees in the last round
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
    noise: float = 0.0,
    quiet: bool = False,
    callback: Callback | None = None,
) -> Alternation:
    """Alternate from the weights W until a round lowers the objective by less than `tol`, relative.

    No edge and no degree may then change by more than one per cent either; by that time they hardly ever do.

    The graph comes first, since it has no start of its own. The weights come last, so that they solve their system
    exactly for the graph that is returned. What a graph step gains is exactly how far the graph before it was from the
    best: the gap.

    In exact arithmetic no round raises the objective. A round that raises it by more than rounding is not taken, and
    the loop ends; there is a warning if that round would have changed the objective by more than `tol`, or the graph.

    Parameters
    ----------
    noise : absolute part of the rounding of the objective
    quiet : few rounds are wanted, so that nothing is said when `max_iter` ends the loop
    """
    graph = graph_step(W, None)
    weights = weight_step(graph.value, W)
    history = [objective(weights.value, graph.value)]
    converged, gap, stopped = len(W) < 2, 0.0 if len(W) < 2 else np.inf, 0.0
    while not converged and len(history) < max_iter:
        following = graph_step(weights.value, graph.dual)
        scale = max(np.abs(history))  # F may pass through zero on its way
        gap = (history[-1] - objective(weights.value, following.value)) / scale
        moved = weight_step(following.value, weights.value)
        value = objective(moved.value, following.value)
        rise = (value - history[-1]) / scale
        if not rise * scale <= ROUNDING * scale + noise:
            converged, stopped = rise <= tol and _settled(graph, following), rise
            break
        converged = -rise <= tol and _settled(graph, following)
        graph, weights = following, moved
        history.append(value)
        report(callback, "fit", len(history), max_iter, history[-1])
    _warn(weights, graph, _what_is_left(converged or quiet, stopped, max_iter))
    return Alternation(weights, graph, np.array(history), float(gap), bool(converged))


def _settled(before: Solution, after: Solution) -> bool:
    """Whether edges and degrees change little: a graph may weigh little in the objective, but people read it."""
    edges = abs(after.value - before.value).max() <= SETTLED * after.value.max()
    if before.dual is None or after.dual is None:
        return bool(edges)
    return bool(edges and (np.abs(after.dual - before.dual) <= SETTLED * before.dual).all())


def _what_is_left(converged: bool, stopped: float, max_iter: int) -> str:
    if converged:
        return ""
    if stopped:
        return (
            f"rounding stopped the alternation: a round would have raised the objective by {stopped:.0e} of its size. "
            "Features of very different size do that: scale them (features=StandardScaler())."
        )
    return (
        f"the alternation has not converged in {max_iter} rounds. The objective falls all the same; "
        "raise max_iter or tol, or lower strength."
    )


def _warn(weights: Solution, graph: Solution, left: str) -> None:
    for name, step in (("weight", weights), ("graph", graph)):
        if not step.converged:
            warnings.warn(
                f"the last {name} step ({step.method}) stopped at a residual of {step.residual:.1e} after "
                f"{step.n_iter} iterations. Scale the features, raise ridge, or choose another {name}s_solver.",
                ConvergenceWarning,
                stacklevel=4,
            )
    if graph.certified < 1:
        warnings.warn(
            f"the graph is proven best for {graph.certified:.0%} of the tasks: so many are alike that it ends at the "
            "nearest of each. Lower strength or neighbors for a sparser one.",
            ConvergenceWarning,
            stacklevel=4,
        )
    if left:
        warnings.warn(left, ConvergenceWarning, stacklevel=4)
