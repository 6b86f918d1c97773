"""The convex problem behind CCMTL: coefficients of tasks drawn together along the edges of a fixed graph.

    F(W) = sum_t ||X_t w_t - y_t||^2 + rho ||W||^2 + sum_e c_e ||w_i(e) - w_j(e)||_2

The norms are not squared, so that enough pull makes neighbours equal, not only alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

from kinfolk.rows.gram import TINY, Array, is_shared
from kinfolk.solvers.batched import inverse, lengths, mean_diagonal, times, transposed_times
from kinfolk.solvers.graph.edges import EdgeList, laplacian
from kinfolk.solvers.krylov import Operator
from kinfolk.solvers.weights import WeightSystem

PERFECT = 1e-6  # of what there was to explain: a fit this good is perfect, and gaps are relative to that
STRONG = (3.0, 300.0)  # coupling over own data, above which tasks count as one in a level of the preconditioner


@dataclass(frozen=True, eq=False)
class Fusion:
    """One instance of F.

    Attributes
    ----------
    H : G_t + rho I, array of shape (T, d, d); b : array of shape (T, d); yy : sum of all squared centred targets
    edges : the E pairs; pull : c_e > 0, array of shape (E,)
    """

    H: Array
    b: Array
    yy: float
    edges: EdgeList
    pull: Array

    def differences(self, W: Array) -> Array:
        """w_i - w_j along every edge, (E, d)."""
        return W[self.edges.i] - W[self.edges.j]

    def smooth(self, W: Array, HW: Array) -> float:
        """The loss and the ridge."""
        return max(self.yy + float(np.vdot(HW - 2 * self.b, W)), 0.0)

    def objective(self, W: Array) -> float:
        """F, exactly."""
        return self.smooth(W, times(self.H, W)) + float(self.pull @ lengths(self.differences(W)))

    def scale(self, value: float) -> float:
        """What gaps are measured against: F, and where the fit is perfect a little of what there was to explain."""
        return value + PERFECT * self.yy + TINY

    def system(self, u: Array, eps: float) -> WeightSystem:
        """The weight step of the half-quadratic ||u|| = min_l l ||u||^2 + 1 / (4 l), at l = 1 / (2 max(u, eps))."""
        d = self.b.shape[1]
        L = laplacian(self.edges.adjacency(0.5 * self.pull / np.maximum(u, eps)))
        return WeightSystem(self.H, self.b, L, np.ones(d), np.zeros(d))

    def dual_bound(self, p: Array) -> float:
        """A lower bound on F from one vector per edge, (E, d), first made feasible: ||p_e|| <= c_e.

            min_W loss + ridge + sum_e p_e'(w_i - w_j) = yy - sum_t c_t' H_t^-1 c_t,   c_t = b_t - (D'p)_t / 2

        Edge by edge is the tighter way to feasibility; scaling all alike stays useful if some H_t are nearly singular.
        """
        excess = np.maximum(lengths(p) / self.pull, 1.0)
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
