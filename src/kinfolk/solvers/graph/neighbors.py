"""From a wanted number of neighbours to theta, the one number that sets how sparse the graph is.

For a single node with sorted distances z_1 <= z_2 <= ..., c_k = z_1 + ... + z_k, the graph step with alpha = 1 and
beta = 1/2 gives exactly k neighbours if (Kalofolias and Perraudin 2019)

    1 / sqrt(k z_{k+1}^2 - c_k z_{k+1})  <=  theta  <  1 / sqrt(k z_k^2 - c_k z_k).

The nodes of a graph share their edges, so the formula is a start; a few solves, each warm, correct it.
"""

from __future__ import annotations

import numpy as np

from kinfolk.rows.gram import Array
from kinfolk.solvers.graph.candidates import ALL_PAIRS, DENSE_TASKS, NEIGHBORS, Candidates
from kinfolk.solvers.graph.edges import squared_distances
from kinfolk.solvers.graph.learn import learn_graph
from kinfolk.solvers.graph.newton import newton
from kinfolk.solvers.tolerances import GRAPH_ROUGH, SAME_SQUARE

EQUAL = 1e-12  # of squared distances of mean 1: a node whose k nearest are equally far has no upper bound on theta
TRIES = 16  # values of theta at most
COUNT_GAP = 1e-6  # duality gap of graphs whose edges are only counted
COUNTS = 3  # such graphs at most, of very many tasks
WITHIN = 0.05  # of the wanted number of neighbours
POWER = 1.2  # of the ratio of neighbours to those wanted, by which theta is corrected


def theta_of_weights(W: Array, k: float, candidates: Candidates | None = None, *, counted: bool = False) -> float:
    """theta for about k neighbours among tasks with coefficients W.

    For very many tasks the formula stands alone, which gives some 15 % more, unless they are to be `counted`: then, and
    for some hundreds of tasks, it is corrected by graphs of the nearest pairs. `candidates` keeps the nearest
    neighbours found here for a graph step that follows. Where all tasks are the same but for rounding, theta is such
    that rounding stays without effect.
    """
    size = float(np.einsum("td,td->", W, W)) / len(W)
    if float(((W - W.mean(axis=0)) ** 2).sum()) <= SAME_SQUARE * size * len(W):
        return 1 / size if size > 0 else 1.0
    if len(W) <= ALL_PAIRS:
        return theta_for_neighbors(squared_distances(W), k)
    known = candidates or Candidates()
    whole = max(1, round(k))
    distance = known.nearest(W, whole + 1).distance
    scale = float(distance.mean())
    if scale == 0:
        return 1.0
    theta = _formula(distance / scale, whole) / scale
    return _counted(W, k, theta, known) if counted or len(W) <= DENSE_TASKS else theta


def _counted(W: Array, k: float, theta: float, known: Candidates) -> float:
    """theta after a few graphs of the nearest pairs, whose neighbours are counted; others hardly ever matter."""
    known.search(max(NEIGHBORS, 2 * round(k)))
    edges, z = known.edges()
    start = None
    for _ in range(COUNTS):
        step = newton(edges, z, alpha=1.0, beta=0.5, gamma=theta, start=start, tol=GRAPH_ROUGH)
        start = step.dual
        mean = 2 * np.count_nonzero(step.value) / len(W)
        if abs(mean - k) <= WITHIN * k:
            break
        theta *= float(np.clip(mean / k, 0.25, 4.0)) ** POWER
    return theta


def theta_for_neighbors(Z: Array, k: float, *, within: float = WITHIN) -> float:
    """theta such that tasks have about k neighbours on average in K(theta Z).

    Examples
    --------
    >>> rng = np.random.default_rng(7)
    >>> from kinfolk.solvers.graph import squared_distances
    >>> Z = squared_distances(rng.normal(size=(60, 4)))
    >>> A = learn_graph(Z, alpha=1.0, beta=0.5, gamma=theta_for_neighbors(Z, 5)).value
    >>> 4.75 <= A.nnz / 60 <= 5.25
    True
    """
    T = len(Z)
    scale = float(Z.mean())
    if scale == 0:
        return 1.0
    if T == 2:  # the one edge is there at any theta; this one does not depend on the units of the targets
        return 1 / scale
    Z = Z / scale
    k = min(k, T - 1)
    whole = max(1, min(round(k), T - 2))
    closest = np.sort(np.partition(Z, whole + 1, axis=1)[:, : whole + 2], axis=1)[:, 1:]  # without the diagonal's zero
    return _refine(Z, k, _formula(closest, whole), within) / scale


def _formula(closest: Array, k: int) -> float:
    """Geometric mean of the two bounds, each the median over nodes, from their k + 1 least distances of scale 1."""
    c_k = closest[:, :k].sum(axis=1)
    lower, upper = (
        float(np.median(1 / np.sqrt(np.maximum(k * z**2 - c_k * z, EQUAL)))) for z in (closest[:, k], closest[:, k - 1])
    )
    return 1.1 * lower if k == 1 else float(np.sqrt(lower * upper))


def _refine(Z: Array, k: float, theta: float, within: float) -> float:
    """Bisection on log theta: the number of neighbours falls as theta grows."""
    T = len(Z)
    low = 0.0
    high = np.inf
    start = None
    best, best_miss = theta, np.inf
    for _ in range(TRIES):
        solution = learn_graph(Z, alpha=1.0, beta=0.5, gamma=theta, start=start, tol=COUNT_GAP)
        start = solution.dual
        mean = solution.value.nnz / T
        if abs(mean - k) < best_miss:
            best, best_miss = theta, abs(mean - k)
        if best_miss <= within * k:
            break
        if mean > k:
            low = theta
        else:
            high = theta
        ratio = np.clip(mean / k, 0.25, 4.0)
        theta = np.sqrt(low * high) if low > 0 and high < np.inf else theta * ratio**POWER
    return float(best)
