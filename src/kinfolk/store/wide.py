"""Wide matrices in few numbers: statistics in the rank of their rows, and matrices that are zero nearly everywhere.

A table of 5,000 columns and 12 rows has statistics of 5,000 x 5,000 numbers for every task, which follow from 11 rows
of them; penalties and bases of as many columns are diagonal. A file holds what they follow from.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.memory import check_memory, in_words
from kinfolk.rows.gram import Array
from kinfolk.solvers.tolerances import ROUNDING
from kinfolk.store.archive import ModelFileError

ROWS = "rows behind them"  # where statistics remember these, so that a file that was read is written as it was
WIDE = 64  # columns from which a matrix is worth a look
WORTH = 4  # a matrix is written in fewer numbers if they are so many times fewer
WIDEST = 8192  # columns; a wider matrix is written as it is
MOST_MADE = 2**32  # bytes of matrices that a file may stand for,
PER_BYTE = 4096  # and for every byte that it has


class Room:
    """The memory that the matrices of a file of `size` bytes may take when it is read."""

    def __init__(self, size: int) -> None:
        self.left = min(MOST_MADE, PER_BYTE * size)

    def take(self, shape: tuple[int, ...]) -> None:
        """Refuse a matrix that is too large for what is left, or for the memory."""
        needed = 8.0 * float(np.prod(shape, dtype=np.float64))
        if needed > self.left or max(shape, default=0) > WIDEST:
            raise ModelFileError(
                f"is damaged: {in_words(needed)} for a matrix of shape {shape} are too much for its size"
            )
        check_memory(needed, "the matrices of the model file", "Load it on a machine with more memory.")
        self.left -= int(needed)


def is_repeated(value: NDArray[Any]) -> bool:
    """Whether an array is larger than its memory."""
    return any(stride == 0 and size > 1 for stride, size in zip(value.strides, value.shape, strict=True))


def rows_behind(G: Array) -> Array | None:
    """R (T, r, d) with R_t'R_t = G_t, to rounding, by Cholesky with the largest pivot first; None if r is not small.

    Examples
    --------
    >>> x = np.arange(64.0)
    >>> R = rows_behind(np.outer(x, x)[None])
    >>> R.shape, bool(np.allclose(R[0].T @ R[0], np.outer(x, x)))
    ((1, 1, 64), True)
    """
    T, _, d = G.shape
    if not WIDE <= d <= WIDEST or not T:
        return None
    most = d // WORTH
    by_task = [R for R in (_rows_behind(matrix, most) for matrix in G) if R is not None]
    rank = max(map(len, by_task), default=0)
    if not rank or len(by_task) < T:
        return None
    rows = np.zeros((T, rank, d))
    for t, R in enumerate(by_task):
        rows[t, : len(R)] = R
    return rows


def _rows_behind(G: Array, most: int) -> Array | None:
    """The rows of one task, `most` of them at most."""
    diagonal = np.diagonal(G).copy()
    floor = ROUNDING * diagonal.max(initial=0.0)
    R = np.zeros((most, len(G)))
    for k in range(most + 1):
        place = int(diagonal.argmax())
        if diagonal[place] <= floor:
            return R[:k]
        if k < most:
            R[k] = (G[place] - R[:k, place] @ R[:k]) / np.sqrt(diagonal[place])
            diagonal -= R[k] ** 2
            diagonal[place] = 0.0
    return None


def products_of_rows(R: Any, room: Room) -> Array:
    """G_t = R_t'R_t of rows from a file."""
    if not isinstance(R, np.ndarray) or R.ndim != 3 or R.dtype != np.float64 or not R.size:
        raise ModelFileError("is damaged: the rows behind statistics are not of shape (T, r, d)")
    room.take((len(R), R.shape[2], R.shape[2]))
    return np.asarray(np.matmul(R.transpose(0, 2, 1), R))


def entries_of(matrix: NDArray[Any]) -> tuple[NDArray[np.int64], Array] | None:
    """Places and values of what is not zero in a wide matrix; None if that is much of it.

    >>> places, values = entries_of(2 * np.eye(64))
    >>> places[:3], values[:2]
    (array([  0,  65, 130]), array([2., 2.]))
    """
    if matrix.dtype != np.float64 or matrix.ndim != 2 or min(matrix.shape) < WIDE or max(matrix.shape) > WIDEST:
        return None
    flat = np.ascontiguousarray(matrix).ravel()
    places = np.flatnonzero(flat.view(np.int64))  # minus zero is something
    return (places.astype(np.int64), flat[places]) if 2 * WORTH * len(places) <= flat.size else None


def matrix_of(shape: tuple[int, ...], places: Any, values: Any, room: Room) -> Array:
    """A matrix from a file, by places and values of what is not zero."""
    sound = isinstance(places, np.ndarray) and isinstance(values, np.ndarray) and places.shape == values.shape
    if not sound or len(shape) != 2 or places.dtype != np.int64 or values.dtype != np.float64 or values.ndim != 1:
        raise ModelFileError(f"is damaged: a matrix of shape {shape} is not given by places and values")
    room.take(shape)
    size = shape[0] * shape[1]
    if len(places) and not 0 <= places.min() <= places.max() < size:
        raise ModelFileError(f"is damaged: a matrix of shape {shape} has values outside of it")
    matrix = np.zeros(size)
    matrix[places] = values
    return matrix.reshape(shape)
