"""The convex problem behind CCMTL: coefficients of tasks drawn together along the edges of a fixed graph.

    F(W) = sum_t ||X_t w_t - y_t||^2 + rho ||W||^2 + sum_e c_e ||w_i(e) - w_j(e)||_2

The norms are not squared, so that enough pull makes neighbours equal, not only alike. The solver is half-quadratic:
reweighted least squares, a search in a plane, and a duality gap to stop by.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

from kinfolk.progress import Callback, report
from kinfolk.rows.gram import TINY, Array, is_shared
from kinfolk.solvers.batched import (
    group_means,
    inverse,
    lengths,
    mean_diagonal,
    relative,
    row_dots,
    times,
    transposed_times,
)
from kinfolk.solvers.graph.edges import EdgeList, laplacian
from kinfolk.solvers.krylov import Operator, conjugate_gradients
from kinfolk.solvers.solution import Solution
from kinfolk.solvers.tolerances import MARGIN
from kinfolk.solvers.weights import WeightSystem

PERFECT = 1e-6  # of what there was to explain: a fit this good is perfect, and gaps are relative to that
STRONG = (3.0, 300.0)  # coupling over own data, above which tasks count as one in a level of the preconditioner
SHRINK = 0.6  # eps falls by this factor after every step
LOOSE = 0.1  # how much an ordinary weight step reduces its residual
TIGHT = 1e-3  # and one that gives a dual point
LEAST_RESIDUAL = 1e-12  # of a weight step: below it conjugate gradients work on rounding
PLANE_STEPS = 8  # of Newton's method in the plane at most
LEAST_DAMPING = 1e-3  # of a Newton step in the plane
CHECK_EVERY = 5  # steps between two dual points
SOME_LENGTH = 1e-8  # where no edge has a length: any positive number starts eps
STILL = 10  # steps without progress that end the iteration


@dataclass(frozen=True, eq=False)
class Fusion:
    """One instance of F.

    Attributes
    ----------
    H : G_t + rho I, array of shape (T, d, d); b : array of shape (T, d); yy : sum of all squared centred targets
    edges : the E pairs; edge_penalty : c_e > 0, array of shape (E,)
    """

    H: Array
    b: Array
    yy: float
    edges: EdgeList
    edge_penalty: Array

    def differences(self, W: Array) -> Array:
        """w_i - w_j along every edge, (E, d)."""
        return W[self.edges.i] - W[self.edges.j]

    def smooth(self, W: Array, HW: Array) -> float:
        """The loss and the ridge."""
        return max(self.yy + float(np.vdot(HW - 2 * self.b, W)), 0.0)

    def objective(self, W: Array) -> float:
        """F, exactly."""
        return self.smooth(W, times(self.H, W)) + float(self.edge_penalty @ lengths(self.differences(W)))

    def scale(self, value: float) -> float:
        """What gaps are measured against: F, and where the fit is perfect a little of what there was to explain."""
        return value + PERFECT * self.yy + TINY

    def system(self, u: Array, eps: float) -> WeightSystem:
        """The weight step of the half-quadratic ||u|| = min_l l ||u||^2 + 1 / (4 l), at l = 1 / (2 max(u, eps))."""
        d = self.b.shape[1]
        L = laplacian(self.edges.adjacency(0.5 * self.edge_penalty / np.maximum(u, eps)))
        return WeightSystem(self.H, self.b, L, np.ones(d), np.zeros(d))

    def dual_bound(self, p: Array) -> float:
        """A lower bound on F from one vector per edge, (E, d), first made feasible: ||p_e|| <= c_e.

            min_W loss + ridge + sum_e p_e'(w_i - w_j) = yy - sum_t c_t' H_t^-1 c_t,   c_t = b_t - (D'p)_t / 2

        Edge by edge is the tighter way to feasibility; scaling all alike stays useful if some H_t are nearly singular.
        """
        excess = np.maximum(lengths(p) / self.edge_penalty, 1.0)
        candidates = (p / excess[:, None], p / excess.max(initial=1.0))
        return max(self._dual_value(q) for q in candidates)

    def _dual_value(self, p: Array) -> float:
        values, vectors = self.eigen
        z = transposed_times(vectors, self.b - 0.5 * (self._incidence @ p))
        return self.yy - float(np.sum(z * z / values))

    @cached_property
    def own(self) -> float:
        """Mean diagonal of all H_t."""
        return float(mean_diagonal(self.H).mean())

    @cached_property
    def eigen(self) -> tuple[Array, Array]:
        """Eigenvalues (T, d) and eigenvectors (T, d, d) of every H_t: one factorisation serves every reweighting."""
        values, vectors = np.linalg.eigh(self.H[:1] if is_shared(self.H) else self.H)
        values = np.maximum(values, TINY)
        return np.broadcast_to(values, self.b.shape), np.broadcast_to(vectors, self.H.shape)

    @cached_property
    def _incidence(self) -> sparse.csr_array:
        return sparse.csr_array(self.edges.differences().T)


def preconditioner(problem: Fusion, system: WeightSystem) -> Operator:
    """Blocks of single tasks, plus blocks of tasks that strong edges have all but fused.

    Differs from `kinfolk.weights.solve_cg`: nearly fused pairs make the Laplacian as stiff as 1 / eps inside a
    component, where its coarse level (whole components) does not look; and the blocks come from one eigendecomposition,
    since only their diagonal changes between reweightings.
    """
    values, vectors = problem.eigen
    shrink = 1 / (values + system.pull[:, None])
    levels = [level for s in STRONG if (level := _fused_level(problem, system, s * problem.own))]

    def apply(r: Array) -> Array:
        z = times(vectors, shrink * transposed_times(vectors, r))
        for gather, pooled in levels:
            z += gather.T @ times(pooled, gather @ r)
        return z

    return apply


def _fused_level(problem: Fusion, system: WeightSystem, threshold: float) -> tuple[sparse.csr_array, Array] | None:
    """Sum over each cluster of strongly tied tasks, and the inverse of its pooled block; None without clusters."""
    T, d = problem.b.shape
    L = system.L.tocoo()
    i, j = L.coords
    strong = (i < j) & (-L.data > threshold)
    if not strong.any():
        return None
    cluster = EdgeList(i[strong], j[strong], T).components()
    size = np.bincount(cluster)
    inside = np.flatnonzero(size[cluster] > 1)
    number = np.cumsum(size > 1) - 1
    gather = sparse.csr_array((np.ones(len(inside)), (number[cluster[inside]], inside)), shape=(int(number[-1]) + 1, T))
    blocks = (gather @ problem.H.reshape(T, d * d)).reshape(-1, d, d)
    cut = (gather @ system.L @ gather.T).diagonal()
    blocks[:, np.arange(d), np.arange(d)] += np.maximum(cut, 0.0)[:, None]
    return gather, inverse(blocks)


@dataclass(eq=False)
class _Line:
    """A point or a direction V with its images, which follow it linearly: H V and the differences along edges."""

    V: Array
    HV: Array
    DV: Array

    @classmethod
    def of(cls, problem: Fusion, V: Array) -> _Line:
        return cls(V, times(problem.H, V), problem.differences(V))

    def plus(self, step: float, other: _Line) -> _Line:
        return _Line(self.V + step * other.V, self.HV + step * other.HV, self.DV + step * other.DV)

    def times(self, step: float) -> _Line:
        return _Line(step * self.V, step * self.HV, step * self.DV)

    def objective(self, problem: Fusion) -> float:
        return problem.smooth(self.V, self.HV) + float(problem.edge_penalty @ lengths(self.DV))


def minimise(problem: Fusion, W: Array, *, tol: float, max_iter: int, callback: Callback | None = None) -> Solution:
    """Minimise F from W, to a relative duality gap of `tol`; `details` are the last eps and the inner iterations.

    1. weights l_e = 1 / (2 max(||w_i - w_j||, eps)), the majoriser of the norm (of its Huber function below eps);
    2. a few conjugate gradient steps on the weight step, warm from W: any number of them lowers the majoriser;
    3. the best point of the plane spanned by that step and the previous one, where F costs six numbers per edge;
    4. eps falls, down to where it adds no more than tol / 10 to F. A step that would raise F is not taken.

    Differs from the published alternation in 3: reweighting alone creeps once pairs begin to fuse (T = 2,000, d = 20:
    gap 1.2e-4 after 60 steps; 1.8e-5 with a line search; with the plane 6.5e-6 after 25).
    """
    at = _Line.of(problem, W)
    history = [at.objective(problem)]
    eps = 0.1 * _typical(lengths(at.DV))
    last: _Line | None = None
    bound = -np.inf
    inner = 0
    converged = False
    while not converged and len(history) <= max_iter:
        check = len(history) % CHECK_EVERY == 0
        u = lengths(at.DV)
        system = problem.system(u, eps)
        V, n_inner = _weight_step(problem, system, at, TIGHT if check else LOOSE)  # 1, 2
        inner += n_inner
        target = _Line.of(problem, V)
        if check:
            p = (problem.edge_penalty / np.maximum(u, eps))[:, None] * target.DV
            bound = max(bound, problem.dual_bound(p))
        move = _best_move(problem, at, target, last, eps)  # 3
        new = at.plus(1.0, move)
        value = new.objective(problem)
        floor = 0.04 * tol * problem.scale(history[-1]) / problem.edge_penalty.sum()
        if value <= history[-1]:
            at, last = new, move
            eps = max(SHRINK * eps, min(floor, eps))  # 4
        else:
            value = history[-1]
            last = None
            eps = 0.25 * eps
        history.append(value)
        gap = (value - bound) / problem.scale(value)
        still = len(history) > STILL and history[-1 - STILL] - value <= 0.01 * tol * problem.scale(value)
        converged = gap <= tol or (eps <= floor and still)
        report(callback, "fit", len(history) - 1, max_iter, value)
    gap = (history[-1] - bound) / problem.scale(history[-1])
    details = {"eps": float(eps), "inner": inner}
    steps_taken = len(history) - 1
    return Solution(
        at.V, steps_taken, float(gap), converged, "half-quadratic", history=np.array(history), details=details
    )


def _weight_step(problem: Fusion, system: WeightSystem, at: _Line, reduction: float) -> tuple[Array, int]:
    residual = relative(problem.b - at.HV - system.L @ at.V, problem.b)
    solution = conjugate_gradients(
        system.apply,
        problem.b,
        preconditioner(problem, system),
        start=at.V,
        tol=max(reduction * residual, LEAST_RESIDUAL),
        max_iter=500,
    )
    return solution.value, solution.n_iter


def _best_move(problem: Fusion, at: _Line, target: _Line, last: _Line | None, eps: float) -> _Line:
    """From `at` to the best point of the plane through it, the target of the weight step and the last move."""
    step = target.plus(-1.0, at)
    directions = [step] if last is None else [step, last]
    first, *others = best_in_plane(problem, at, directions, eps)
    move = step.times(first)
    return move if last is None else move.plus(others[0], last)


def best_in_plane(problem: Fusion, at: _Line, directions: list[_Line], eps: float) -> Array:
    """Steps s that minimise F_eps(W + s_1 V_1 + ...), by damped Newton from (1, 0, ...): the plain weight step.

    F_eps has the Huber function of width eps in place of the norm. Along the plane the loss is a quadratic and every
    squared edge length too: ||D_e||^2 + 2 s'lin_e + s'quad_e s.
    """
    m = len(directions)
    slope = np.array([2 * np.vdot(at.HV - problem.b, line.V) for line in directions])
    Q = np.array([[2 * np.vdot(one.HV, two.V) for two in directions] for one in directions])
    base = row_dots(at.DV, at.DV)
    lin = np.array([row_dots(at.DV, line.DV) for line in directions])
    quad = np.array([[row_dots(one.DV, two.DV) for two in directions] for one in directions])

    def value(s: Array) -> tuple[float, Array, Array]:
        half = lin + np.tensordot(s, quad, 1)  # half the gradient of the squared lengths
        u = np.sqrt(np.maximum(base + s @ (lin + half), 0.0))
        huber = np.where(u > eps, u, 0.5 * (u * u / eps + eps))
        return slope @ s + 0.5 * s @ Q @ s + problem.edge_penalty @ huber, u, half

    s = np.eye(m)[0]
    f, u, half = value(s)
    for _ in range(PLANE_STEPS):
        l2 = problem.edge_penalty / np.maximum(u, eps)
        bend = np.where(u > eps, l2 / np.maximum(u, eps) ** 2, 0.0)
        hessian = Q + quad @ l2 - (half * bend) @ half.T
        step = np.linalg.lstsq(hessian, -(slope + Q @ s + half @ l2), rcond=MARGIN)[0]
        damping = 1.0
        trial = value(s + step)
        while trial[0] > f and damping > LEAST_DAMPING:
            damping *= 0.5
            trial = value(s + damping * step)
        if trial[0] >= f:
            break
        s = s + damping * step
        fall = f - trial[0]
        f, u, half = trial
        if fall <= MARGIN * abs(f):
            break
    return s


def fuse(problem: Fusion, W: Array, within: tuple[float, ...]) -> tuple[Array, Array]:
    """Clusters of tasks that short edges connect, and W with every cluster at its mean.

    `within` are lengths to try, longest first: the first counts whose means do not raise F. If none does, W stays as
    it is and the clusters are those of the shortest.
    """
    value = problem.objective(W)
    u = lengths(problem.differences(W))
    for longest in within:
        close = u <= longest
        cluster = problem.edges.select(close).components()
        fused = group_means(W, cluster)
        if problem.objective(fused) <= value:
            return cluster, fused
    return cluster, W


def _typical(u: Array) -> float:
    """Median length of the edges that have one."""
    positive = u[u > 0]
    return float(np.median(positive)) if len(positive) else SOME_LENGTH
