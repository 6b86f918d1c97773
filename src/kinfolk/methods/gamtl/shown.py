"""The graph that people read: the graph step at the coefficients that predict, for the wanted number of neighbours.

The graph that couples is nearly complete inside groups, since coefficients that are pulled together have hardly any
distance left. It predicts well and says little. So the graph that is shown is a graph step of its own, with

    Z_ij = mean over the inputs of (f_i(x) - f_j(x))^2 = (w_i - w_j)'C(w_i - w_j) + (f_i(m) - f_j(m))^2,

where m and C are mean and covariance of the inputs of all tasks: two tasks are near if they predict alike. theta is
chosen for the wanted number of neighbours, so that the strength of the coupling has no say in how many there are.
The last term is the level, which `graph_metric="shape"` leaves out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kinfolk.methods.gamtl.calibrate import Recipe, input_moments
from kinfolk.methods.gamtl.problem import independent
from kinfolk.methods.structures import TaskGraph
from kinfolk.rows.gram import Array, GramStats
from kinfolk.solvers.batched import square_root
from kinfolk.solvers.equations import normal_equations
from kinfolk.solvers.graph import Candidates, graph_of_weights, theta_of_weights
from kinfolk.solvers.mixed import mixed_model
from kinfolk.solvers.solution import Solution

GAP = 4.0  # a multiplier this many times the next smaller one begins the loners
FAR = 5.0  # and is at least this many times the median
MOST_ALONE = 0.2  # share of the tasks: more than these are a group that is less tight than another
LEAST_TASKS = 5  # with fewer there is no usual multiplier
ALIKE = 1e-6  # of the root mean square of the slopes: those that differ less were pooled, and say nothing about tasks


def usual_neighbors(n_tasks: int) -> int:
    """About how many neighbours a task is shown with by default: 1 + log T, and at most half of the others.

    A graph of nearest neighbours among T points holds together from about log T neighbours on: fewer would fall into
    pieces by chance, more would hide what is near.

    >>> [usual_neighbors(T) for T in (3, 5, 10, 20, 42, 500, 100_000)]
    [1, 2, 3, 4, 5, 7, 13]
    """
    return max(1, min(round(1 + np.log(n_tasks)), (n_tasks - 1) // 2))


def shown_graph(gram: GramStats, coef: Array, intercept: Array, recipe: Recipe) -> tuple[TaskGraph, dict[str, float]]:
    """The graph of tasks with these statistics and coefficients, and the certificates of its graph step."""
    T = gram.n_tasks
    if not _differ(coef):
        coef, intercept = _coefficients_that_differ(gram, recipe)
    points = shown_points(gram, coef, intercept, recipe.graph_metric)
    step = graph_of_points(points, recipe.neighbors or usual_neighbors(T), recipe.self_loops)
    return TaskGraph(step.value, gram.labels, points), {"shown_gap": step.residual, "shown_certified": step.certified}


def shown_graph_of_classes(
    classes: Sequence[tuple[GramStats, Array, Array]], recipe: Recipe
) -> tuple[TaskGraph, dict[str, float]]:
    """The same of several classes, each with statistics and coefficients: distances add up over classes."""
    gram = classes[0][0]
    points = np.hstack([shown_points(*one, recipe.graph_metric) for one in classes])
    step = graph_of_points(points, recipe.neighbors or usual_neighbors(gram.n_tasks), recipe.self_loops)
    return TaskGraph(step.value, gram.labels, points), {"shown_gap": step.residual, "shown_certified": step.certified}


def graph_of_points(points: Array, neighbors: float, self_loops: float | str | None) -> Solution:
    """The graph step at points, with theta for about `neighbors` neighbours per task, and self-loops for loners."""
    T = len(points)
    candidates = Candidates()
    theta = theta_of_weights(points, neighbors, candidates, counted=True)
    step = graph_of_weights(points, alpha=1.0, beta=0.5, gamma=theta, candidates=candidates)
    price = loop_price(step.dual, self_loops)
    if price is None:
        return step
    terms: dict[str, Any] = {
        "alpha": 1.0,
        "beta": 0.5,
        "self_loops": price,
        "start": step.dual,
        "candidates": candidates,
    }
    step = graph_of_weights(points, gamma=theta, **terms)
    kin = np.diff(step.value.indptr) > 0
    if kin.sum() > 2 and not kin.all():
        # The mean is over all tasks: those that are not alone have the neighbours that the loners have not.
        theta = theta_of_weights(points[kin], min(neighbors * T / kin.sum(), kin.sum() - 1), counted=True)
        step = graph_of_weights(points, gamma=theta, **terms)
    return step


def loop_price(dual: Array | None, wanted: float | str | None) -> float | None:
    """The price of a self-loop, from the multipliers of the graph without any; None for no self-loops.

    A number is in units of the median multiplier. "auto" looks for a gap: going up among the largest fifth, the first
    multiplier that is four times the one before it and at least five times the median begins the tasks that stand
    alone, and the price lies between the two. Tails that thin out, as of tasks around one mean, have no gap and no
    loner. (Set on Syn 1, where loners begin at 12 and others end at 2.4 times the median, and on Birmingham, whose
    largest are 8, 8, 8 and 2.6; docs/reading-the-graph.md says where it was checked.)

    >>> loop_price(np.array([1.0, 1.0, 1.0, 2.0, 50.0]), "auto")
    10.0
    >>> loop_price(np.array([1.0, 1.0, 2.0, 4.0, 8.0]), "auto")
    """
    if dual is None or wanted is None or len(dual) < LEAST_TASKS:
        return None
    median = float(np.median(dual))
    if not isinstance(wanted, str):
        return wanted * median
    most = max(1, int(MOST_ALONE * len(dual)))
    above = np.sort(dual)[-most - 1 :]
    begins = (above[1:] >= GAP * above[:-1]) & (above[1:] >= FAR * median)
    if not begins.any():
        return None
    first = int(np.argmax(begins))
    return float(np.sqrt(above[first] * above[first + 1]))


def shown_points(gram: GramStats, coef: Array, intercept: Array, metric: str = "function") -> Array:
    """One point per task, whose squared distances are those of the shown graph.

    "function": mean squared differences of predictions; "shape": the same without the differences of level;
    "coefficients": distances of slopes as they are.

    Examples
    --------
    Two tasks with inputs -1 and 1: at slopes 0 and 2 and intercepts 0 and 3 the predictions differ by 1 and by 5, 3 of
    which are level.

    >>> gram = GramStats.from_rows([[-1.0], [1.0]] * 2, [0.0, 0.0, 1.0, 5.0], [0, 0, 1, 1])
    >>> for metric in ("function", "shape"):
    ...     points = shown_points(gram, np.array([[0.0], [2.0]]), np.array([0.0, 3.0]), metric)
    ...     print(((points[0] - points[1]) ** 2).sum())
    13.0
    4.0
    """
    if metric == "coefficients":
        return coef
    mean, C = input_moments(gram)
    shape = coef @ square_root(C)
    return shape if metric == "shape" else np.column_stack([shape, intercept + coef @ mean])


def _differ(coef: Array) -> bool:
    """Whether the slopes of tasks differ by more than nothing."""
    apart = ((coef - coef.mean(axis=0)) ** 2).sum()
    return bool(apart > ALIKE**2 * (coef**2).sum())


def _coefficients_that_differ(gram: GramStats, recipe: Recipe) -> tuple[Array, Array]:
    """Coefficients of a mixed model, or where that finds no differences either, of every task alone."""
    # Own intercepts take the rows of tasks that have one each.
    random = recipe.intercept is not None or not (gram.n > 1).any()
    effects = mixed_model(gram, intercept="random" if random else "free")
    if _differ(effects.coef):
        return effects.coef, effects.intercept
    equations = normal_equations(gram, "free")
    return equations.coefficients(independent(equations, np.diag(recipe.ridge * equations.penalised())))
