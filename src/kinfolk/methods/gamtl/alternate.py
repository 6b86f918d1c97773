"""The loop W <-> A: each step an exact minimisation of one block, so the objective never rises."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from kinfolk.progress import Callback, report
from kinfolk.rows.gram import Array
from kinfolk.solvers.krylov import inner
from kinfolk.solvers.solution import Solution
from kinfolk.solvers.tolerances import MARGIN
from kinfolk.words import warn_user

FARTHEST = 100.0  # rounds of the last kind that one may look ahead
MOMENTUM = 0.7  # of the last round, where rounds gather pace: 1 jumps past good optima, 0.5 takes longer
COARSE = 1e-4  # tolerance beside which what rough weights lack is nothing
SETTLED = 0.01  # relative change of edges and degrees in the last round


class Steps(Protocol):
    """What is alternated: two steps and the objective that both lower.

    `noise` is the absolute part of the rounding of the objective. `looks_ahead` says whether rounds may start from
    where the last two point to: not where a step depends on the one before.
    """

    @property
    def noise(self) -> float: ...
    @property
    def looks_ahead(self) -> bool: ...
    def weight_step(self, A: sparse.csr_array, W: Array, rough: bool = False) -> Solution: ...
    def graph_step(self, W: Array, dual: Array | None, rough: bool = False) -> Solution: ...
    def objective(self, W: Array, A: sparse.csr_array) -> float: ...


@dataclass(frozen=True, eq=False)
class Alternation:
    """The end of the loop: the last two steps, and the objective after every round."""

    weights: Solution
    graph: Solution
    history: Array
    converged: bool

    @property
    def n_iter(self) -> int:
        """Rounds."""
        return len(self.history)


class Secant:
    """Anderson acceleration with a memory of one: where two rounds x -> g(x) point to.

    With r = g(x) - x, the fixed point of the line through both rounds, g(x) + c (g(x) - g(x')), has the least residual
    for c = -<r - r', r> / ||r - r'||^2. Where that points back (c < 0), rounds gather pace: they leave a saddle, on the
    way to another graph. Momentum takes them there sooner.
    """

    def __init__(self, x: Array, gx: Array) -> None:
        self.residual = gx - x
        self.value = gx
        self.change = gx - x
        self.turn = gx - x

    def take(self, x: Array, gx: Array) -> None:
        """Take notice of a round."""
        self.turn = gx - x - self.residual
        self.change = gx - self.value
        self.residual = gx - x
        self.value = gx

    def ahead(self) -> Array:
        """Where to begin the next round: where the last one ended, if both were the same but for rounding."""
        size = inner(self.turn, self.turn)
        if size <= (MARGIN / FARTHEST) ** 2 * inner(self.value, self.value):
            return self.value
        c = -inner(self.turn, self.residual)
        c = c / size if c > 0 else MOMENTUM
        ahead: Array = self.value + min(c, FARTHEST) * self.change
        return ahead


def alternate(
    steps: Steps, W: Array, *, tol: float, max_iter: int, quiet: bool = False, callback: Callback | None = None
) -> Alternation:
    """Alternate from the weights W until a round lowers the objective by less than `tol`, relative.

    No edge and no degree may then change by more than one per cent either; by that time they hardly ever do.

    The graph comes first, since it has no start of its own. The weights come last, so that they solve their system
    exactly for the graph that is returned.

    Rounds converge linearly, so that each starts from where the last two point to (`Secant`) and solves for its weights
    roughly. Where that raises the objective, the round is made again from the last weights, exactly. In exact
    arithmetic such a round never raises it. One that raises it by more than rounding is not taken, and the loop ends;
    there is a warning if it would have changed the objective by more than `tol`, or the graph.

    Where few rounds are wanted, graphs of rounds that look ahead may be rough too: over known pairs. The second, which
    is the first at coupled weights, and the last look at all pairs.

    With `quiet` few rounds are wanted, so that there is no warning when `max_iter` ends the loop.
    """
    rough = steps.looks_ahead and len(W) > 1
    graph = steps.graph_step(W, None, rough and quiet and max_iter > 1)
    weights = steps.weight_step(graph.value, W, rough)
    history = [steps.objective(weights.value, graph.value)]
    secant = Secant(W, weights.value)
    converged = len(W) < 2
    plain = not steps.looks_ahead
    stopped = 0.0
    while not converged and len(history) < max_iter:
        allowed = history[-1] + MARGIN * max(np.abs(history)) + steps.noise
        for start in [weights.value] if plain else [secant.ahead(), weights.value]:
            ahead = start is not weights.value
            following = steps.graph_step(start, graph.dual, ahead and quiet and 1 < len(history) < max_iter - 1)
            moved = steps.weight_step(following.value, start, ahead)
            if (value := steps.objective(moved.value, following.value)) <= allowed:
                break
        rise = (value - history[-1]) / max(np.abs(history))  # F may pass through zero on its way
        settled = abs(rise) <= tol and _settled(graph, following)
        # A secant may come to rest at a saddle, and rough weights differ by their last digits: only a round from the
        # last weights, solved exactly unless the end may be `COARSE`, tells that they are at the end.
        converged = settled and not ahead and (not rough or tol >= COARSE)
        if not value <= allowed:
            stopped = rise
            break
        plain = plain or settled
        rough = ahead
        secant.take(start, moved.value)
        graph = following
        weights = moved
        history.append(value)
        report(callback, "fit", len(history), max_iter, history[-1])
    if rough:  # a round that was not taken may have ended the loop after it
        if graph.certified < 1 and len(history) < max_iter:
            graph = steps.graph_step(weights.value, graph.dual)
        weights = steps.weight_step(graph.value, weights.value)
        history[-1] = min(history[-1], steps.objective(weights.value, graph.value))
    _warn(weights, graph, _what_is_left(converged or quiet, stopped, max_iter))
    return Alternation(weights, graph, np.array(history), converged)


def _settled(before: Solution, after: Solution) -> bool:
    """Whether edges and degrees change little: a graph may weigh little in the objective, but people read it."""
    degrees = True
    if before.dual is not None and after.dual is not None:
        degrees = bool((np.abs(after.dual - before.dual) <= SETTLED * before.dual).all())
    return degrees and bool(abs(after.value - before.value).max() <= SETTLED * after.value.max())


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
        "raise max_iter or tol of GAMTL, or lower the strength."
    )


def _warn(weights: Solution, graph: Solution, left: str) -> None:
    for name, step in (("weight", weights), ("graph", graph)):
        if not step.converged:
            warn_user(
                f"the last {name} step ({step.method}) stopped at a residual of {step.residual:.1e} after "
                f"{step.n_iter} iterations. Scale the features, or take a larger ridge.",
                ConvergenceWarning,
            )
    if graph.certified < 1:
        warn_user(
            f"the graph is proven best for {graph.certified:.0%} of the tasks: so many are alike that it ends at the "
            "nearest of each. A lower strength or fewer neighbors make it sparser.",
            ConvergenceWarning,
        )
    if left:
        warn_user(left, ConvergenceWarning)
