"""Tasks drawn to a common centre, whatever the sizes of their columns and however little pulls: the blocks of all.

Task t is w_t = m + F u_t with a penalty ||u_t||^2, F F' = P and the normal equations G_t w = b_t. With M_t = F'G_t F,

    K_t = F (I + M_t)^-1 F',    C_t = I - K_t G_t,    H_t = G_t C_t = G_t - G_t K_t G_t,

so that w_t = K_t b_t + C_t m, and H_t is what the task tells about m. Where M_t is large these differences lose as many
digits as M_t has. Then they come from a QR decomposition of (I; R_t F) with R_t'R_t = G_t, which takes the
columns of R_t F as they are, each relative to its own length.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kinfolk.rows.gram import Array
from kinfolk.solvers.batched import inverse_definite, rows_of_gram
from kinfolk.solvers.tolerances import NEVER_SEEN, ROUNDING

LARGE = 1e6  # tr M_t from which differences would lose six of sixteen digits
MOST_ROOT = 1e16  # of P, in units of the columns: less pull is none, and the QR of rows so unequal would lose it
UNEVEN = 1e3  # ratio of the sizes of columns from which eigenvalues of G_t in raw units say little of the smaller one


class Blocks(NamedTuple):
    """K, C and D with H = G D, all (T, p, p), for right sides b_t of rows, which lie in the range of G_t.

    There K is symmetric and D is C; beyond it both may be anything, so that K G K is to be written K G K'.
    """

    K: Array
    C: Array
    D: Array
    H: Array


def column_sizes(G: Array) -> Array:
    """Root mean square (p,) of every column over all tasks; 1 for columns of zeros.

    >>> column_sizes(np.array([[[4.0, 0.0], [0.0, 0.0]]]))
    array([2., 1.])
    """
    size = _root_mean_squares(G)
    return np.where(size > 0, size, 1.0)


def _root_mean_squares(G: Array) -> Array:
    return np.sqrt(np.diagonal(G[:1] if G.strides[0] == 0 else G, axis1=1, axis2=2).mean(axis=0))


def are_uneven(G: Array) -> bool:
    """Whether columns differ so much in size that each needs units of its own.

    >>> are_uneven(np.array([[[1.0, 0.0], [0.0, 1e4]]])), are_uneven(np.array([[[1.0, 0.0], [0.0, 1e8]]]))
    (False, True)
    """
    size = _root_mean_squares(G)
    return bool(size.max(initial=0.0) > UNEVEN * size.min(initial=np.inf, where=size > 0))


def blocks_around_centre(G: Array, P: Array) -> Blocks:
    """K, C, D and H for G (T, p, p) and P (p, p), which may lack rank."""
    s, U = _root(P)
    s = np.minimum(s, MOST_ROOT)
    F = U * s
    M = F.T @ G @ F
    p = len(P)
    large = ~(np.trace(M, axis1=1, axis2=2) <= LARGE)
    M[large] = 0.0
    K = F @ np.linalg.inv(np.eye(p) + M) @ F.T
    C = np.eye(p) - K @ G
    D = C.copy()
    H = G @ C
    if large.any():
        precise = _precise_blocks(G[large] if G.strides[0] else G[: large.sum()], s, U)
        for whole, part in zip((K, C, D, H), precise, strict=True):
            whole[large] = part
    return Blocks(K, C, D, H)


def _root(P: Array) -> tuple[Array, Array]:
    """s (p,) and U with P = U diag(s^2) U'; U = I where P is diagonal, however unequal its entries."""
    variance = np.diagonal(P)
    if not np.count_nonzero(P - np.diag(variance)):
        return np.sqrt(variance), np.eye(len(P))
    value, U = np.linalg.eigh(P)
    return np.sqrt(np.maximum(value, 0.0)), U


def _precise_blocks(G: Array, s: Array, U: Array) -> Blocks:
    """The same from (I; R F) = Q T with the blocks Q2 beside R and Q4 beyond: K b = F T^-1 Q2'z and V^-1 = Q4 Q4'.

    z with R'z = b takes the place of b, which is a difference of large numbers where K b is one of small ones.
    """
    T, p = len(G), len(s)
    own = _own_sizes(G)
    rows = rows_of_gram(G / own / own.transpose(0, 2, 1), np.zeros((T, p)))[0]
    R = rows * own
    X = np.concatenate([np.broadcast_to(np.eye(p), (T, p, p)), R @ U * s], axis=1)
    Q, triangle = np.linalg.qr(X, mode="complete")
    each = np.arange(p)
    pivot = triangle[:, each, each]
    triangle[:, each, each] = np.where(pivot < 0, -1.0, 1.0) * np.maximum(np.abs(pivot), 1.0)  # I + M has none below
    to_z = _to_rows(rows) / own
    K = U * s @ np.linalg.solve(triangle[:, :p], Q[:, p:, :p].transpose(0, 2, 1) @ to_z)
    Q4 = Q[:, p:, p:]
    S = Q4.transpose(0, 2, 1) @ R
    return Blocks(K, np.eye(p) - K @ G, to_z.transpose(0, 2, 1) @ (Q4 @ S), S.transpose(0, 2, 1) @ S)


def _to_rows(R: Array) -> Array:
    """(T, q, p) from b = R'z to z, for rows of full rank but for some of zeros."""
    square = R @ R.transpose(0, 2, 1)
    each = np.arange(R.shape[1])
    square[:, each, each] += np.where(square[:, each, each] == 0, 1.0, 0.0)
    return np.asarray(np.linalg.solve(square, R))


def inverse_for_centre(H: Array, pooled: Array) -> Array:
    """The inverse (p, p) of the information H about the centre, along the directions that `pooled` rows look into.

    Both in units of the columns. Whatever the sizes of H, a direction counts if anybody has seen it: where every task's
    own rows tell nearly all, little is known about a centre, but tasks with fewer rows still depend on it.
    """
    root = np.sqrt(np.diagonal(pooled))
    root = np.where(root > 0, root, 1.0)[:, None]
    value, vector = np.linalg.eigh(pooled / root / root.T)
    seen = value > NEVER_SEEN * max(float(value.max(initial=0.0)), 0.0)
    if seen.all():
        return inverse_definite(H)
    U = vector[:, seen]
    return U @ inverse_definite(U.T @ (H / root / root.T) @ U) @ U.T / root / root.T


def ridge_inverse(G: Array, penalty: float) -> Array:
    """(G_t + penalty)^-1 for columns of any sizes; without a penalty of least norm in units of a task's own columns."""
    if penalty > 0:
        size = column_sizes(G)
        K = blocks_around_centre(G / size / size[:, None], np.diag(size**2 / penalty)).K
        return K / size / size[:, None]
    own = _own_sizes(G)
    value, vector = np.linalg.eigh(G / own / own.transpose(0, 2, 1))
    seen = value > ROUNDING * value.max(axis=1, keepdims=True, initial=0.0)
    weight = np.divide(1.0, value, out=np.zeros_like(value), where=seen)
    return (vector * weight[:, None, :]) @ vector.transpose(0, 2, 1) / own / own.transpose(0, 2, 1)


def _own_sizes(G: Array) -> Array:
    """Root sums of squares (T, 1, p) of the columns of every task; 1 for columns of zeros."""
    own = np.sqrt(np.diagonal(G, axis1=1, axis2=2))
    return np.where(own > 0, own, 1.0)[:, None, :]
