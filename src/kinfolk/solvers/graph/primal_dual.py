"""The graph step as the paper describes it: Algorithm 2, a forward-backward-forward primal-dual method.

Differs from the printed algorithm where that cannot be right (docs/maths.md, E1 to E4): S' acts on p-bar and S on p in
step 6, the gradient of beta ||A||_F^2 is 4 beta a, and the step size has a letter of its own. It runs in the units in
which alpha = 1 and beta = 1/2 (docs/maths.md, "Two numbers, not three"): in others the step size, which beta bounds,
and the degrees may lie orders of magnitude apart, and 20,000 steps lead nowhere.
"""

from __future__ import annotations

import numpy as np

from kinfolk.rows.gram import Array
from kinfolk.solvers.batched import relative
from kinfolk.solvers.graph.edges import EdgeList
from kinfolk.solvers.graph.newton import lone_multipliers, nearest_costs
from kinfolk.solvers.solution import Solution
from kinfolk.solvers.tolerances import GRAPH_CHANGE


def primal_dual(
    edges: EdgeList,
    z: Array,
    *,
    alpha: float,
    beta: float,
    gamma: float = 1.0,
    start: Array | None = None,
    tol: float = GRAPH_CHANGE,
    max_iter: int = 20_000,
) -> Solution:
    """Edge weights that minimise 2 gamma z'a + 2 beta ||a||^2 - alpha sum log(S a) over a >= 0.

    `start` and `dual` are the multipliers alpha / degree, as in `newton`. The residual is the larger relative change
    of a and of the multipliers, as the paper stops; it is not a certificate (see `objective.duality_gap`).
    """
    unit = np.sqrt(2 * alpha) * np.sqrt(beta)
    c = (2 * gamma / unit) * z
    S, St = edges.degrees, edges.at_ends
    step = 0.99 / (2 + np.sqrt(2 * (edges.size - 1)))
    # From zero the multiplier of a task far from all others would grow like the root of the number of steps.
    v = -lone_multipliers(nearest_costs(edges, c)) if start is None else -start / unit
    a = np.maximum(-St(v) - c, 0.0) / 2  # the weights that belong to the multipliers
    p = a
    change = np.inf
    for n_iter in range(1, max_iter + 1):  # noqa: B007
        y = a - step * (2 * a + St(v))  # 4
        y_bar = v + step * S(a)
        p = np.maximum(y - step * c, 0.0)  # 5
        p_bar = (y_bar - np.sqrt(y_bar**2 + 4 * step)) / 2
        q = p - step * (2 * p + St(p_bar))  # 6
        q_bar = p_bar + step * S(p)
        a = a - y + q  # 7
        v = v - y_bar + q_bar
        change = max(relative(q - y, a), relative(q_bar - y_bar, v))  # 3
        if change <= tol:
            break
    return Solution(np.sqrt(alpha / (2 * beta)) * p, n_iter, change, change <= tol, "primal-dual", -v * unit)
