"""Graph step by Newton's method on the dual: T unknowns instead of T(T-1)/2.

    min over a >= 0      2 gamma z'a + 2 beta ||a||^2 - alpha sum_i log (S a)_i

Scaled so that alpha = 1 and beta = 1/2 (docs/maths.md, "Two numbers, not three"), with c = 2 theta z, it has the dual

    max over lam > 0       sum_i log lam_i - (1/4) sum_e [lam_i + lam_j - c_e]_+^2  + T

with a_e = [lam_i + lam_j - c_e]_+ / 2 and degree_i = 1 / lam_i. The Hessian is diag(1/lam^2) plus half the signless
Laplacian of the active edges: positive definite, and as sparse as the answer. At any lam the gap of a(lam) is

    sum_i (u_i - 1 - log u_i),   u_i = lam_i degree_i,

a sum of terms that are each >= 0, so it can be trusted down to rounding.

With self-loops every degree has a slack s_i >= 0 at the price kappa: -alpha log(degree_i + s_i) + kappa s_i. That is
the same dual with lam_i <= kappa: a task whose nearest is too far reaches the bound, has no edge but a loop, and no
longer asks for a multiplier that is orders of magnitude above the others.
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np
from scipy import sparse
from scipy.linalg import lapack
from scipy.sparse.linalg import splu

from kinfolk.rows.gram import Array
from kinfolk.solvers.graph.edges import EdgeList, envelope
from kinfolk.solvers.graph.interior import interior_point, room
from kinfolk.solvers.krylov import Operator, conjugate_gradients
from kinfolk.solvers.solution import Solution
from kinfolk.solvers.tolerances import GRAPH_GAP, GRAPH_ROUGH, LAST_DIGIT, ROUNDING

DENSE_HESSIAN = 400  # below this many tasks a dense Cholesky beats conjugate gradients
DENSE_INTERIOR = 4000  # the interior-point steps factorise a dense T x T matrix
HARD = 10.0  # least c of a typical task above which pairs turn active one by one, dozens of steps of the dual Newton
FARTHEST = 1e5  # least c of a single task above which rounding keeps the dual Newton from the gap
FAR = 10.0  # largest multiplier over the median from which Newton's systems are solved more exactly
STEPS = 60  # of the dual Newton at most
PATIENCE = 12  # dual Newton steps before the interior point takes over, whose steps take three times as long or more
ROUGH_STEPS = 20  # of graphs that are tried on folds, among many tasks: easy ones have ended by then
SLOW = 50  # steps of conjugate gradients after which a sparse factorisation is faster, if it stays sparse
FILL = 50  # entries of its factor, per task, up to which it does
INNER_STEPS = 3000  # of conjugate gradients in a Newton step
ROUGH_INNER_STEPS = 300  # the same where the graph is tried on folds
ROUGHEST = 1e-2  # residual of a Newton system far from the answer
FINEST = 1e-9  # and near it, where no task is far
POLISH = 1e-6  # the last step is quadratic: one more than needed brings the multipliers to rounding


def newton(
    edges: EdgeList,
    z: Array,
    *,
    alpha: float,
    beta: float,
    gamma: float = 1.0,
    self_loops: float | None = None,
    start: Array | None = None,
    tol: float = GRAPH_GAP,
) -> Solution:
    """Edge weights that minimise the graph step over the given edges.

    Parameters
    ----------
    edges : the edges that may be used: all pairs, or candidates
    z : squared distances, one per edge
    self_loops : the price kappa of a self-loop; None for none
    start : multipliers of an earlier, similar problem
    tol : duality gap relative to the number of tasks

    Returns
    -------
    Solution
        `value` is the edge vector a, `dual` the multipliers alpha / degree, `residual` the relative duality gap;
        `details["self_loops"]` are the slacks.
    """
    unit = np.sqrt(2 * alpha) * np.sqrt(beta)  # the product of small letters would vanish
    c = (2 * gamma / unit) * z
    nearest = nearest_costs(edges, c)
    cap = np.inf if self_loops is None else self_loops / unit
    point = _start(edges, c, nearest, None if start is None else start / unit, cap)
    rough = tol >= GRAPH_ROUGH
    dense = edges.size <= DENSE_INTERIOR and not rough
    patience = _patience(nearest, rough=rough, loops=self_loops is not None)
    point, n_iter = _climb(point, tol if rough else POLISH * tol, patience)
    a, gap = point.a, point.gap
    method = "newton"
    if gap > tol and dense and self_loops is None:
        inner = interior_point(edges, c, _alone(edges, c, nearest), tol=tol)
        assert inner.dual is not None
        point, steps = _climb(_Point(edges, c, inner.dual, cap), POLISH * tol, 2)
        n_iter += inner.n_iter + steps
        method = "newton (interior point)"
        # Rounding keeps a(lam) from the gap when one task is very far away: then the interior point has the better a.
        a, gap = (point.a, point.gap) if point.gap <= inner.residual else (inner.value, inner.residual)
    elif gap > tol and dense:
        # Where pairs turn active one by one, the answer without self-loops is nearer than any guess.
        free = newton(edges, z, alpha=alpha, beta=beta, gamma=gamma, tol=tol)
        assert free.dual is not None
        point, steps = _climb(_Point(edges, c, np.minimum(free.dual / unit, cap), cap), POLISH * tol, STEPS)
        n_iter += free.n_iter + steps
        a, gap = point.a, point.gap
    delta = np.sqrt(alpha / (2 * beta))
    loops = {"self_loops": delta * (point.held - point.degree)}
    return Solution(delta * a, n_iter, gap, gap <= tol, method, point.lam * unit, details=loops)


def _start(edges: EdgeList, c: Array, nearest: Array, lam: Array | None, cap: float) -> _Point:
    """The point to climb from: given multipliers, or those of every task with its nearest alone."""
    above = np.minimum(lone_multipliers(nearest), cap)
    if lam is None:
        return _Point(edges, c, above, cap)
    point = _Point(edges, c, np.minimum(lam, cap), cap)
    # A task that no pair is active for would double its multiplier at best, and hold up all others on its way.
    lost = (point.degree == 0) & (point.lam < above)
    return _Point(edges, c, np.where(lost, above, point.lam), cap) if lost.any() else point


def _patience(nearest: Array, *, rough: bool, loops: bool) -> int:
    """Steps of the dual Newton, before the interior point takes over where there are few tasks; none in hard cases."""
    T = len(nearest)
    if rough:
        # Tasks of two rows may differ by orders of magnitude: 1,149 of them took minutes, and the same errors came out.
        return ROUGH_STEPS if T > DENSE_HESSIAN else STEPS
    if T > DENSE_INTERIOR:
        return STEPS
    hard = not loops and (np.median(nearest) > HARD or nearest.max() > FARTHEST)
    return 0 if hard else PATIENCE


def nearest_costs(edges: EdgeList, c: Array) -> Array:
    """The least c at every node."""
    nearest = np.full(edges.size, np.inf)
    np.minimum.at(nearest, edges.i, c)
    np.minimum.at(nearest, edges.j, c)
    return nearest


def lone_multipliers(nearest: Array) -> Array:
    """Multipliers if every task had its nearest neighbour alone: the positive root of lam (lam - nearest) = 1.

    That is above the answer for most tasks, and starting above is better. The dual is piecewise smooth: its second
    derivative jumps where a pair becomes active, lam_i + lam_j = c_e. From above, all pairs that will be active are,
    so the Hessian of the first step already has them; from below they would join one by one.
    """
    return (nearest + np.sqrt(nearest**2 + 4)) / 2


def _alone(edges: EdgeList, c: Array, nearest: Array) -> Array:
    """Multipliers if every task had neighbours like itself: the root of sum_j [lam - c_j / 2]_+ = 1 / lam."""
    lam = lone_multipliers(nearest / 2)
    for _ in range(10):
        at_i, at_j = (np.maximum(lam[end] - c / 2, 0.0) for end in (edges.i, edges.j))
        total = np.bincount(edges.i, at_i, edges.size) + np.bincount(edges.j, at_j, edges.size)
        count = np.bincount(edges.i, at_i > 0, edges.size) + np.bincount(edges.j, at_j > 0, edges.size)
        lam = np.maximum(lam - (total - 1 / lam) / (count + 1 / lam**2), lam / 2)
    return lam


class _Point:
    """A dual point lam <= cap and what follows from it: edge weights, degrees, gradient, duality gap per task."""

    def __init__(self, edges: EdgeList, c: Array, lam: Array, cap: float) -> None:
        self.edges = edges
        self.c = c
        self.cap = cap
        self.lam = lam
        self.a = np.maximum(edges.at_ends(lam) - c, 0.0) / 2
        self.degree = edges.degrees(self.a)
        self.gradient = 1 / lam - self.degree
        self.bound = (lam >= cap) & (self.gradient >= 0)  # these would rise further: they get a self-loop
        self.held = np.maximum(self.degree, 1 / cap)  # degree and best self-loop together

    def moved(self, step: Array) -> _Point:
        """The point after a step, brought back to the cap where it went beyond."""
        return _Point(self.edges, self.c, np.minimum(self.lam + step, self.cap), self.cap)

    @property
    def gap(self) -> float:
        u = self.lam * self.held
        if not (u > 0).all():
            return np.inf
        price = 0.0 if self.cap == np.inf else self.cap
        return float((u - 1 - np.log(u) + (price - self.lam) * (self.held - self.degree)).mean())


def _climb(point: _Point, tol: float, max_iter: int) -> tuple[_Point, int]:
    """Damped Newton ascent until the gap is met or rounding stops it."""
    inner_steps = ROUGH_INNER_STEPS if tol >= GRAPH_ROUGH else INNER_STEPS
    slow = False
    for k in range(max_iter):
        if point.gap <= tol:
            return point, k
        step, slow = _newton_step(point, inner_steps, slow)
        following = _line_search(point, step)
        if following is None:
            return point, k + 1
        point = following
    return point, max_iter


def _newton_step(point: _Point, inner_steps: int, slow: bool) -> tuple[Array, bool]:
    """Solve (diag(1/lam^2) + (D_active + A_active)/2) step = g, in units of lam; tasks at the cap stay there.

    Where conjugate gradients were `slow` once, they will be again: the second value tells whether they were.
    """
    edges = point.edges
    lam = point.lam
    free = ~point.bound
    g = np.where(free, point.gradient, 0.0)
    active = edges.select(point.a > 0)
    count = active.degrees(np.ones(len(active)))
    diagonal = 1 / lam**2 + count / 2
    scale = 1 / np.sqrt(diagonal)  # Jacobi scaling: ones on the diagonal
    off = 0.5 * scale[active.i] * scale[active.j] * (free[active.i] & free[active.j])
    if edges.size <= DENSE_HESSIAN:
        H = np.eye(edges.size)
        H[active.i, active.j] = H[active.j, active.i] = off
        H[np.diag_indices(edges.size)] += LAST_DIGIT  # singular by rounding only
        # Transposed, which changes nothing, it is in LAPACK's order and is not copied.
        _, inner, failed = lapack.dposv(H.T, scale * g, lower=True, overwrite_a=True)
        if failed:
            raise np.linalg.LinAlgError(f"the Hessian of {edges.size} tasks is not positive definite")
        return scale * inner, False
    # A far task has a large multiplier and a gradient that is tiny beside the others': it must not drown in them.
    far = max(1.0, float(lam.max() / np.median(lam)) / FAR)
    forcing = max(ROUNDING, min(ROUGHEST, max(FINEST, point.gap)) / far**2)  # as exact as the gap makes use of
    inner, slow = _solve_sparse(active.upper(off), scale * g, forcing, inner_steps, slow)
    return scale * inner, slow


def _solve_sparse(upper: sparse.csr_array, g: Array, tol: float, max_iter: int, slow: bool) -> tuple[Array, bool]:
    """Solve (I + upper + upper') x = g by conjugate gradients, or by a factorisation if these are slow."""
    lower = upper.T
    apply: Operator = lambda v: v + upper @ v + lower @ v  # noqa: E731
    start = None
    if not slow:
        most = SLOW if len(g) <= DENSE_INTERIOR else max_iter
        inner = conjugate_gradients(apply, g, np.copy, tol=tol, max_iter=most)
        if inner.n_iter < most or most == max_iter:
            return inner.value, False
        start = inner.value
    H = sparse.csr_array(upper + lower + (1 + LAST_DIGIT) * sparse.eye_array(len(g)))  # singular by rounding only
    if envelope(H) <= FILL * len(g):
        with suppress(RuntimeError):  # a pivot of zero
            # Definite, so that no row need change its place; the order is one for few entries.
            factor = splu(H.T, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
            return factor.solve(g), True
    return conjugate_gradients(apply, g, np.copy, start=start, tol=tol, max_iter=max_iter).value, True


def _line_search(point: _Point, step: Array) -> _Point | None:
    """The first step 1, 1/2, 1/4, ... that stays inside lam > 0 and does not overshoot the maximum by half.

    The dual is concave, so the slope along the step tells ascent from overshoot without comparing function
    values, which near the end agree to rounding.
    """
    t = min(1.0, 0.99 * room(point.lam, step))
    for _ in range(40):
        following = point.moved(t * step)
        way = following.lam - point.lam
        if following.gradient @ way >= -0.5 * (point.gradient @ way):
            return following
        t /= 2
    return None
