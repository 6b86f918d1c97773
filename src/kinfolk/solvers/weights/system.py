"""The linear system of the weight step, with the graph fixed.

    (blockdiag(G_t + R) + 2 gamma L_B (x) diag(scale)) vec W = [b_t],    B = (1 - anchor) A + anchor / (T - 1)

L_B is the Laplacian of B. Its uniform part is T I - 11' up to a factor, a rank-one term that is never formed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from kinfolk.rows.gram import Array, is_shared
from kinfolk.solvers.batched import mean_diagonal, plus, relative, times
from kinfolk.solvers.graph.edges import laplacian


@dataclass(frozen=True, eq=False)
class WeightSystem:
    """Everything the solvers need: H_t = G_t + R, the right-hand side, and the coupling.

    Attributes
    ----------
    H : array of shape (T, d, d)
    b : array of shape (T, d)
    L : 2 gamma times the Laplacian of the graph part, sparse (T, T)
    scale : array of shape (d,); how much the graph couples each unknown (1, or 0 for a shrunk intercept)
    uniform : array of shape (d,); u adds u (T I - 11') to the coupling of each unknown
    """

    H: Array
    b: Array
    L: sparse.csr_array
    scale: Array
    uniform: Array

    def apply(self, V: Array) -> Array:
        """The matrix times V, one row per task."""
        HV = times(self.H, V)
        if self.L.nnz:
            HV += (self.L @ V) * self.scale
        if self.uniform.any():
            HV += self.uniform * (len(V) * V - V.sum(axis=0))
        return HV

    def residual(self, V: Array) -> float:
        """||b - matrix V|| / ||b||."""
        return relative(self.b - self.apply(V), self.b)

    def restricted(self, tasks: NDArray[np.intp]) -> WeightSystem:
        """The system of some tasks and the edges between them; the uniform pull is as strong as among all."""
        L = self.L[tasks][:, tasks]
        L = sparse.csr_array(L - sparse.diags_array(np.asarray(L.sum(axis=1)).ravel()))
        uniform = self.uniform * (len(self.b) / max(len(tasks), 1))
        return WeightSystem(self.H[tasks], self.b[tasks], L, self.scale, uniform)

    @cached_property
    def shared(self) -> bool:
        """Whether all tasks have the same H."""
        return is_shared(self.H)

    @cached_property
    def pull(self) -> Array:
        """Diagonal of the graph coupling: 2 gamma degree."""
        return self.L.diagonal()

    @cached_property
    def own(self) -> Array:
        """Mean diagonal of H_t: how much a task's own data and ridge weigh."""
        return mean_diagonal(self.H)


def weight_system(
    G: Array,
    b: Array,
    A: sparse.csr_array,
    gamma: float,
    *,
    ridge: ArrayLike,
    anchor: float = 0.0,
    scale: Array | None = None,
    extra_uniform: Array | None = None,
) -> WeightSystem:
    """Put the system together; `ridge` may be a number, one per unknown, or a d x d matrix."""
    T, d = b.shape
    R = np.asarray(ridge, dtype=np.float64)
    R = R if R.ndim == 2 else np.diag(np.broadcast_to(R, d))
    scale = np.ones(d) if scale is None else scale
    uniform = 2 * gamma * anchor / max(T - 1, 1) * scale
    if extra_uniform is not None:
        uniform = uniform + extra_uniform
    return WeightSystem(plus(G, R), b, (2 * gamma * (1 - anchor)) * laplacian(A), scale, uniform)
