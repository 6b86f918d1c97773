"""Correlations between the responses of tasks, over the rows that they have in common."""

from __future__ import annotations

import numpy as np

from kinfolk.rows.gram import TINY, Array
from kinfolk.rows.table import Rows

LEAST_COMMON = 3  # with two common rows every correlation is 1 or -1


def response_correlation(rows: Rows, X: Array) -> Array | None:
    """Signed correlations (T, T) of the targets, zero on the diagonal; None if no two tasks share enough rows.

    Wide targets share the rows of the table. In a long table a row is shared by the tasks that have it with the same
    features X; rows that a task has several times are averaged first.
    """
    Y, weight = rows.y, rows.weight
    if rows.codes is not None:
        Y, weight = _wide(X, rows), None
    R, common = pairwise_correlation(Y, weight)
    enough = common >= LEAST_COMMON
    np.fill_diagonal(enough, False)
    if len(R) > 1 and not enough.any():
        return None
    return np.where(enough, R, 0.0)


def pairwise_correlation(Y: Array, weight: Array | None = None) -> tuple[Array, Array]:
    """Correlations of the columns of Y over the rows where both are observed (not NaN), and the numbers of such rows.

    Zero where a column does not vary.

    Examples
    --------
    >>> R, common = pairwise_correlation(np.array([[0.0, 1.0], [1.0, 0.0], [2.0, np.nan]]))
    >>> R[0, 1], common[0, 1]
    (np.float64(-1.0), np.float64(2.0))
    """
    seen = (~np.isnan(Y)).astype(np.float64)
    w = np.ones(len(Y)) if weight is None else weight
    centre = np.nansum(Y, axis=0) / np.maximum(seen.sum(axis=0), 1)
    Y = np.where(seen > 0, Y - centre, 0.0)
    Y = np.ldexp(Y, -np.frexp(np.abs(Y).max(axis=0, initial=0.0))[1])  # of size 1, exactly: squares of any unit exist
    weighted = w[:, None] * seen
    n = weighted.T @ seen
    total = (w[:, None] * Y).T @ seen  # of column i over the rows common with j
    safe = np.where(n > 0, n, 1.0)
    square = (w[:, None] * Y * Y).T @ seen
    variance = square - total**2 / safe
    covariance = (w[:, None] * Y).T @ Y - total * total.T / safe
    varies = variance > 1e-12 * np.maximum(square, TINY)
    both = varies & varies.T
    root = np.sqrt(np.where(both, variance, 1.0) * np.where(both, variance, 1.0).T)
    return np.where(both, np.clip(covariance / root, -1.0, 1.0), 0.0), ((w > 0)[:, None] * seen).T @ seen


def _wide(X: Array, rows: Rows) -> Array:
    """One row per distinct row of X, one column per task: the mean target there, NaN where the task has no such row."""
    assert rows.codes is not None
    T = len(rows.schema.labels)
    w = np.ones(len(X)) if rows.weight is None else rows.weight
    keep = (w > 0) & ~np.isnan(rows.y)
    _, place = np.unique(X[keep], axis=0, return_inverse=True)
    cell = place.ravel() * T + rows.codes[keep]
    size = (place.max(initial=-1) + 1) * T
    total, count = np.bincount(cell, w[keep] * rows.y[keep], size), np.bincount(cell, w[keep], size)
    return np.divide(total, count, out=np.full(size, np.nan), where=count > 0).reshape(-1, T)
