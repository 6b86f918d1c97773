"""The graph that people read: the graph step at the coefficients that predict, for the wanted number of neighbours.

The graph that couples is nearly complete inside groups, since coefficients that are pulled together have hardly any
distance left. It predicts well and says little. So the graph that is shown is a graph step of its own, with

    Z_ij = mean over the inputs of (f_i(x) - f_j(x))^2 = (w_i - w_j)'C(w_i - w_j) + (f_i(m) - f_j(m))^2,

where m and C are mean and covariance of the inputs of all tasks: two tasks are near if they predict alike. theta is
chosen for the wanted number of neighbours, so that the strength of the coupling has no say in how many there are.
"""

from __future__ import annotations

import numpy as np

from kinfolk.methods.gamtl.calibrate import METRIC_TOLERANCE, Recipe, mixed_model
from kinfolk.methods.gamtl.problem import independent
from kinfolk.methods.structures import TaskGraph
from kinfolk.rows.gram import TINY, Array, GramStats
from kinfolk.solvers.equations import normal_equations
from kinfolk.solvers.graph import Candidates, graph_of_weights, theta_of_weights

ALIKE = 1e-6  # of the root mean square of the slopes: those that differ less were pooled, and say nothing about tasks


def usual_neighbors(n_tasks: int) -> int:
    """About how many neighbours a task is shown with where nobody says: 1 + log T, and at most half of the others.

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
    points = prediction_points(gram, coef, intercept)
    candidates = Candidates()
    theta = theta_of_weights(points, recipe.neighbors or usual_neighbors(T), candidates)
    step = graph_of_weights(points, alpha=1.0, beta=0.5, gamma=theta, candidates=candidates)
    return TaskGraph(step.value, gram.labels, points), {"shown_gap": step.residual, "shown_certified": step.certified}


def prediction_points(gram: GramStats, coef: Array, intercept: Array) -> Array:
    """One point per task (T, d + 1), so that squared distances are mean squared differences of predictions.

    Examples
    --------
    Two tasks with inputs -1 and 1: at slopes 0 and 2 and intercepts 0 and 3 the predictions differ by 1 and by 5.

    >>> gram = GramStats.from_rows([[-1.0], [1.0]] * 2, [0.0, 0.0, 1.0, 5.0], [0, 0, 1, 1])
    >>> points = prediction_points(gram, np.array([[0.0], [2.0]]), np.array([0.0, 3.0]))
    >>> float(((points[0] - points[1]) ** 2).sum())
    13.0
    """
    rows = max(float(gram.n.sum()), TINY)
    mean = gram.n @ gram.x_mean / rows
    away = gram.x_mean - mean
    C = (gram.G.sum(axis=0) + (gram.n[:, None] * away).T @ away) / rows
    value, vector = np.linalg.eigh(C)
    return np.column_stack([coef @ (vector * np.sqrt(np.maximum(value, 0.0))), intercept + coef @ mean])


def _differ(coef: Array) -> bool:
    """Whether the slopes of tasks differ by more than nothing."""
    apart = ((coef - coef.mean(axis=0)) ** 2).sum()
    return bool(apart > ALIKE**2 * (coef**2).sum())


def _coefficients_that_differ(gram: GramStats, recipe: Recipe) -> tuple[Array, Array]:
    """Coefficients of a mixed model, or where that finds no differences either, of every task alone."""
    effects = mixed_model(gram, "diagonal", "random" if recipe.intercept else "free", METRIC_TOLERANCE)
    if _differ(effects.coef):
        return effects.coef, effects.intercept
    equations = normal_equations(gram, "free")
    return equations.coefficients(independent(equations, np.diag(recipe.ridge * equations.penalised())))
