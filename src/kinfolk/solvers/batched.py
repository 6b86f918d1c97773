"""Linear algebra for all tasks at once: one small matrix H_t and one vector w_t per task.

A stack of matrices H has shape (T, d, d). Tasks with the same inputs share one matrix, held once and broadcast over T
(a stride of zero): every function here sees that and works on the one matrix.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinfolk.rows.gram import TINY, Array, is_shared
from kinfolk.solvers.tolerances import ROUNDING
from kinfolk.threads import in_parts

AT_ONCE = 2**22  # numbers of the matrices that one thread takes: 32 MB, which take a millisecond to read


def times(H: Array, W: Array) -> Array:
    """H_t w_t for every task: (..., T, d) for W of that shape.

    >>> times(np.array([[[2.0]], [[3.0]]]), np.array([[1.0], [10.0]])).ravel()
    array([ 2., 30.])
    """
    if _is_one(H):
        return W @ H[0].T
    if W.ndim > 2 or H.size < 2 * AT_ONCE:
        return np.matmul(H, W[..., None])[..., 0]
    found = np.empty_like(W)

    def work(part: slice) -> None:
        np.matmul(H[part], W[part, :, None], out=found[part, :, None])

    in_parts(work, len(W), max(1, AT_ONCE // H[0].size))
    return found


def transposed_times(Q: Array, W: Array) -> Array:
    """Q_t'w_t for every task: w_t in the basis of the columns of Q_t."""
    return W @ Q[0] if _is_one(Q) else np.matmul(W[..., None, :], Q)[..., 0, :]


def row_dots(V: Array, W: Array) -> Array:
    """v_t'w_t for every row.

    >>> row_dots(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0]]))
    array([11.])
    """
    return np.einsum("td,td->t", V, W)


def lengths(V: Array) -> Array:
    """||v_t|| of every row."""
    return np.sqrt(row_dots(V, V))


def mean_diagonal(H: Array) -> Array:
    """tr(H_t) / d for every task: how much its data weigh, per unknown."""
    return np.trace(H, axis1=1, axis2=2) / H.shape[-1]


def group_means(W: Array, group: NDArray[np.intp]) -> Array:
    """Every row replaced by the mean of the rows of its group; rows alone stay exactly as they are.

    >>> group_means(np.array([[1.0], [3.0], [7.0]]), np.array([0, 0, 1])).ravel()
    array([2., 2., 7.])
    """
    size = np.bincount(group)
    sums = np.zeros((len(size), W.shape[1]))
    np.add.at(sums, group, W)
    return (sums / size[:, None])[group]


def relative(change: Array, to: Array) -> float:
    """||change|| / ||to||.

    >>> relative(np.array([3.0, 4.0]), np.array([10.0, 0.0]))
    0.5
    """
    return float(np.linalg.norm(change)) / max(float(np.linalg.norm(to)), TINY)


def plus(H: Array, ridge: ArrayLike) -> Array:
    """H_t + ridge I for a number or one per task; H_t + ridge for a matrix (d, d). A shared H stays shared."""
    R = np.asarray(ridge, dtype=np.float64)
    if R.ndim == 1:
        return H + R[:, None, None] * np.eye(H.shape[-1])
    if R.ndim == 0:
        R = R * np.eye(H.shape[-1])
    return np.broadcast_to(H[0] + R, H.shape) if is_shared(H) else H + R


def solve_each(H: Array, b: Array) -> Array:
    """w_t with H_t w_t = b_t for every task; of symmetric H, so singular directions get 0."""
    return _solve(H[0], b.T).T if _is_one(H) else _solve(H, b[:, :, None])[:, :, 0]


def ridge_alone(G: Array, b: Array, penalty: ArrayLike) -> Array:
    """argmin of w'G_t w - 2 b_t'w + penalty ||w||^2, for every task without the others.

    >>> ridge_alone(np.ones((2, 1, 1)), np.array([[2.0], [4.0]]), 1.0).ravel()
    array([1., 2.])
    """
    return solve_each(plus(G, penalty), b)


def square_root(S: Array) -> Array:
    """F with F F' = S, of one symmetric matrix or of every one of a stack; S may lack rank."""
    value, vector = np.linalg.eigh(S)
    return vector * np.sqrt(np.maximum(value, 0.0))[..., None, :]


def inverse(H: Array) -> Array:
    """H_t^-1 of symmetric matrices; pseudo-inverses if one of them is singular."""
    try:
        return np.linalg.inv(H)
    except np.linalg.LinAlgError:
        return np.linalg.pinv(H, hermitian=True)


def rows_of_gram(G: Array, b: Array) -> tuple[Array, Array, NDArray[np.intp]]:
    """R_t (q, p) and z_t (q,) with R_t'R_t = G_t and R_t'z_t = b_t, and the rank r_t: only the last r_t rows are not 0.

    Cholesky's factors with the largest pivot first (Higham 1990), of all tasks in step: no more steps than the largest
    rank, which is far below p where tasks have few rows. G may be one matrix for all tasks.

    Examples
    --------
    >>> R, z, rank = rows_of_gram(np.array([[[4.0, 2.0], [2.0, 1.0]]]), np.array([[6.0, 3.0]]))
    >>> R, z, rank
    (array([[[2., 1.]]]), array([[3.]]), array([1]))
    """
    each = np.arange(len(G))
    p = G.shape[2]
    left = np.diagonal(G, axis1=1, axis2=2).copy()
    floor = ROUNDING * left.max(axis=1, initial=0.0)
    R = np.zeros((len(G), p, p))
    z = np.zeros((len(b), p))
    rank = np.zeros(len(G), np.intp)
    for k in range(p - 1, -1, -1):
        place = left.argmax(axis=1)
        pivot = left[each, place]
        goes_on = pivot > floor
        if not goes_on.any():
            break
        size = np.where(goes_on, 1 / np.sqrt(np.where(goes_on, pivot, 1.0)), 0.0)
        known = R[each, k + 1 :, place]
        R[:, k] = size[:, None] * (G[each, place] - np.matmul(known[:, None], R[:, k + 1 :])[:, 0])
        z[:, k] = size * (np.take_along_axis(b, place[:, None], axis=1)[:, 0] - row_dots(known, z[:, k + 1 :]))
        left = np.where(goes_on[:, None], left - R[:, k] ** 2, 0.0)
        left[each, place] = 0.0
        rank += goes_on
    first = p - max(int(rank.max(initial=0)), 1)
    return R[:, first:].copy(), z[:, first:].copy(), rank


def triangle_beside_identity(B: Array) -> Array:
    """Lower triangles C_t with C_t C_t' = I + B_t'B_t, for B (T, p, q), from B alone: no size of B hides the identity.

    >>> triangle_beside_identity(np.array([[[0.0, 0.0], [0.0, 1e20]]]))[0].diagonal().tolist()
    [1.0, 1e+20]
    """
    q = B.shape[2]
    identity = np.broadcast_to(np.eye(q), (len(B), q, q))
    C = np.asarray(np.linalg.qr(np.concatenate([identity, B], axis=1), mode="r")).transpose(0, 2, 1)
    C = C * np.where(np.diagonal(C, axis1=1, axis2=2) < 0, -1.0, 1.0)[:, None, :]
    each = np.arange(q)
    C[:, each, each] = np.maximum(C[:, each, each], 1.0)  # as it is without rounding
    return C


def solve_definite(A: Array, b: Array) -> Array:
    """The v with A v = b for one symmetric matrix that is positive definite but for rounding; b is in its range."""
    try:
        return np.linalg.solve(A, b)
    except np.linalg.LinAlgError:
        return inverse_definite(A) @ b


def inverse_definite(A: Array) -> Array:
    """A^-1 of one such matrix, whatever the sizes of its unknowns; along directions that rounding hides it is 0.

    >>> inverse_definite(np.array([[4.0, 0.0], [0.0, 1e-40]])).diagonal().round(6)
    array([2.5e-01, 1.0e+40])
    """
    root = np.sqrt(np.diagonal(A).clip(0.0))
    root = np.where(root > 0, root, 1.0)
    scaled = A / root / root[:, None]
    if not np.isfinite(scaled).all():
        return np.full_like(A, np.nan)
    value, vector = np.linalg.eigh(scaled)
    kept = value > ROUNDING * max(float(value.max(initial=0.0)), TINY)
    return (vector[:, kept] / value[kept]) @ vector[:, kept].T / root / root[:, None]


def _solve(H: Array, b: Array) -> Array:
    try:
        return np.linalg.solve(H, b)
    except np.linalg.LinAlgError:
        return np.linalg.pinv(H, hermitian=True) @ b


def _is_one(H: Array) -> bool:
    """Whether one matrix serves all tasks."""
    return len(H) == 1 or H.strides[0] == 0
