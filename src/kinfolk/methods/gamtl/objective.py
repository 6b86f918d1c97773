"""Eq. 8 with a ridge, term by term, and the certificates of both steps: one truth for every factor of two.

    F(W, A) = sum_t ||X_t w_t - y_t||^2 + rho ||W||_F^2 + gamma <B, Z(W)> - alpha 1'log(A1) + beta ||A||_F^2

with B = A for the paper's method, and B = (1 - anchor) A + anchor / (T - 1) beyond it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.rows.gram import TINY, Array
from kinfolk.solvers.graph.edges import entries


class Pairs(NamedTuple):
    """Pairs of tasks i < j with their squared distances z; all of them where a matrix Z stands instead."""

    i: NDArray[np.intp]
    j: NDArray[np.intp]
    z: Array


def graph_coupling(A: sparse.csr_array, W: Array) -> float:
    """<A, Z(W)> = sum_ij A_ij ||w_i - w_j||^2 = 2 tr(W'LW), from differences: no cancellation."""
    row = np.repeat(np.arange(len(W)), np.diff(A.indptr))
    upper = row < A.indices
    difference = W[row[upper]] - W[A.indices[upper]]
    return 2 * float(A.data[upper] @ np.einsum("ed,ed->e", difference, difference))


def uniform_coupling(W: Array) -> float:
    """Sum over all ordered pairs of ||w_i - w_j||^2 / (T - 1)."""
    T = len(W)
    return 2 * T / max(T - 1, 1) * float(((W - W.mean(axis=0)) ** 2).sum())


def graph_terms(
    A: sparse.csr_array, *, alpha: float, beta: float, self_loops: float | None = None
) -> tuple[float, float]:
    """-alpha 1'log(A1) and beta ||A||_F^2; a single task has no graph and no barrier.

    With self-loops at the price kappa the barrier is -alpha 1'log(A1 + s) + kappa 1's, at the best s >= 0.
    """
    if A.shape[0] < 2:
        return 0.0, 0.0
    degree = np.asarray(A.sum(axis=1)).ravel()
    price = self_loops or 0.0
    held = degree if self_loops is None else np.maximum(degree, alpha / self_loops)
    if (held <= 0).any():
        return np.inf, beta * float(A.data @ A.data)
    barrier = -alpha * float(np.log(held).sum()) + price * float((held - degree).sum())
    return barrier, beta * float(A.data @ A.data)


def _weights_of_pairs(A: sparse.csr_array, Z: Array | Pairs) -> tuple[Pairs, Array]:
    """The pairs that a certificate looks at, and their edge weights."""
    if isinstance(Z, Pairs):
        return Z, entries(A, Z.i, Z.j)
    i, j = np.triu_indices(A.shape[0], k=1)
    return Pairs(i, j, Z[i, j]), A.toarray()[i, j]


def graph_residual(
    A: sparse.csr_array,
    Z: Array | Pairs,
    *,
    alpha: float,
    beta: float,
    gamma: float = 1.0,
    self_loops: float | None = None,
) -> float:
    """Largest violation of the graph step's optimality conditions, relative to the heaviest edge.

    At the optimum A_ij = [lam_i + lam_j - 2 gamma Z_ij]_+ / (4 beta) with lam = alpha / degree, at most kappa.
    """
    if A.shape[0] < 2:
        return 0.0
    (i, j, z), a = _weights_of_pairs(A, Z)
    degree = np.asarray(A.sum(axis=1)).ravel()
    lam = alpha / (degree if self_loops is None else np.maximum(degree, alpha / self_loops))
    fixed_point = np.maximum(lam[i] + lam[j] - 2 * gamma * z, 0.0) / (4 * beta)
    return float(np.abs(a - fixed_point).max() / max(a.max(), TINY))


def duality_gap(
    A: sparse.csr_array,
    Z: Array | Pairs,
    *,
    alpha: float,
    beta: float,
    gamma: float = 1.0,
    self_loops: float | None = None,
    dual: Array | None = None,
) -> float:
    """Primal minus dual value of the graph step, relative to T + |primal|, in units in which alpha = 1 and beta = 1/2.

    Never negative but for rounding. `dual` are multipliers of the degrees; without them lam = alpha / degree is used.
    """
    T = A.shape[0]
    if T < 2:
        return 0.0
    (i, j, z), a = _weights_of_pairs(A, Z)
    unit = np.sqrt(2 * alpha) * np.sqrt(beta)
    a = a * np.sqrt(2 * beta / alpha)
    degree = np.asarray(A.sum(axis=1)).ravel() * np.sqrt(2 * beta / alpha)
    cap = np.inf if self_loops is None else self_loops / unit
    held = np.maximum(degree, 1 / cap)
    lam = 1 / held if dual is None else dual / unit
    c = (2 * gamma / unit) * z
    primal = c @ a + a @ a - np.log(held).sum() + (self_loops or 0.0) / unit * (held - degree).sum()
    excess = np.maximum(lam[i] + lam[j] - c, 0.0)
    dual_value = np.log(lam).sum() + T - (excess @ excess) / 4
    return float((primal - dual_value) / (T + abs(primal)))
