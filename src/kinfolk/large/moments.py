"""Moments of tasks, added up over blocks of rows in place: what a pass over a large table keeps.

The target is the last column here, so that one matrix S_t = [X_t y_t]'[X_t y_t] about the means holds G, b and yy.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.gram import Array
from kinfolk.memory import check_memory

RUN_BYTES = 2**19  # of rows, and of matrices, worked on at a time: they stay in the cache


class Moments:
    """Rows n (p,), means (p, d + 1) and centred second moments S (p, d + 1, d + 1) in p slots, which grow as needed.

    Rows are merged with the pairwise update of means and centred moments, where there are any: a file sorted by task
    costs no more than one in random order.

    Examples
    --------
    >>> moments = Moments(width=2)
    >>> x, y = np.array([1.0, 5.0, 3.0]), np.array([1.0, 7.0, 5.0])
    >>> moments.add([x, y], codes=np.array([1, 0, 1]), slots=np.array([4, 2]))
    True
    >>> moments.n[:5], moments.mean[2], moments.S[2].tolist()
    (array([0., 0., 2., 0., 1.]), array([2., 3.]), [[2.0, 4.0], [4.0, 8.0]])
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self.n, self.mean, self.S = np.zeros(0), np.zeros((0, width)), np.zeros((0, width, width))
        self._room = np.empty(0)  # for the sorted rows of a block: fresh memory every time would cost a quarter more

    def add(
        self, columns: list[Array], codes: NDArray[Any], slots: NDArray[np.intp], only: NDArray[np.bool_] | None = None
    ) -> bool:
        """Merge rows, of which row r belongs into `slots[codes[r]]`; whether all sums were finite.

        One sort; then one batched product per number of rows, without a loop over tasks. Columns stay apart, as files
        hold them: row by row the same work takes twice as long.

        Parameters
        ----------
        columns : features and target
        codes, slots : a slot must not occur twice
        only : which of the slots to merge; by default all
        """
        count = np.bincount(codes, minlength=len(slots))
        present = np.flatnonzero(count if only is None else count * only)
        if not len(present):
            return True
        by_rows = present[np.argsort(count[present], kind="stable")]
        rank = np.zeros(len(slots), np.uint16 if len(present) <= 2**16 else np.uint32)
        rank[by_rows] = np.arange(len(present))
        if only is None:
            order = stable_order(rank[codes])
        else:
            mine = np.flatnonzero(only[codes])
            order = mine[stable_order(rank[codes[mine]])]
        self.reserve(int(slots[present].max()) + 1)
        return self._merge_sorted(self._gathered(columns, order), count[by_rows], slots[by_rows])

    def reserve(self, slots: int) -> None:
        """Room for so many slots; capacity doubles, so that growing costs one copy in all."""
        if slots <= len(self.n):
            return
        more = max(slots, 2 * len(self.n)) - len(self.n)
        check_memory(
            8.0 * more * self.width**2,
            f"statistics of more than {len(self.n)} tasks (or folds of tasks) with {self.width - 1} features",
            "Give fewer `columns`, or check that the task column is not a row number.",
        )
        for name in ("n", "mean", "S"):
            old = getattr(self, name)
            bigger = np.zeros((len(old) + more, *old.shape[1:]))
            bigger[: len(old)] = old
            setattr(self, name, bigger)

    def _gathered(self, columns: list[Array], order: NDArray[np.intp]) -> Array:
        size = self.width * len(order)
        if size > len(self._room):
            self._room = np.empty(size)
        rows = self._room[:size].reshape(self.width, len(order))
        for column, out in zip(columns, rows, strict=True):
            # mode="clip" lets NumPy write into `out` directly; every position is in range.
            np.take(column, order, out=out, mode="clip")
        return rows

    def _merge_sorted(self, rows: Array, count: NDArray[np.intp], slots: NDArray[np.intp]) -> bool:
        """Merge rows (d + 1, n) in which task follows task, by increasing `count`."""
        first_row, finite = 0, True
        for first, last, n in runs(count, self.width):
            here = rows[:, first_row : first_row + n * (last - first)].reshape(self.width, last - first, n)
            first_row += n * (last - first)
            # The sums are pairwise; what rounding leaves of the mean counts in S with its square.
            mean = here.sum(axis=2) / n
            here -= mean[:, :, None]
            block = here.transpose(1, 0, 2)
            S = np.matmul(block, block.transpose(0, 2, 1))
            finite = finite and bool(np.isfinite(mean).all() and np.isfinite(np.einsum("kjj->kj", S)).all())
            self._merge(slots[first:last], float(n), mean.T, S)
        return finite

    def _merge(self, slots: NDArray[np.intp], n: float, mean: Array, S: Array) -> None:
        old = self.n[slots]
        new = old + n
        shift = mean - self.mean[slots]
        gap = shift * np.sqrt(old * n / new)[:, None]
        self.n[slots] = new
        self.mean[slots] += shift * (n / new)[:, None]
        S += gap[:, :, None] * gap[:, None, :]
        self.S[slots] += S


def runs(count: NDArray[np.intp], width: int) -> Iterator[tuple[int, int, int]]:
    """First, last and number of rows of runs of tasks with equal `count`, cut to fit into the cache.

    Distinct counts add up to at most all rows, so there are few: this is no loop over tasks.

    Examples
    --------
    >>> list(runs(np.array([1, 1, 3]), width=2))
    [(0, 2, 1), (2, 3, 3)]
    """
    edges = np.append(np.flatnonzero(np.diff(count, prepend=0)), len(count)).tolist()
    for start, stop in pairwise(edges):
        n = int(count[start])
        step = max(1, RUN_BYTES // (8 * width * max(n, width)))
        yield from ((first, min(first + step, stop), n) for first in range(start, stop, step))


def stable_order(keys: NDArray[Any]) -> NDArray[np.intp]:
    """`argsort(keys, kind="stable")` of unsigned integers; 16 bits at a time NumPy sorts by counting, 6 times faster.

    Examples
    --------
    >>> stable_order(np.array([70_000, 3, 70_000, 5], dtype=np.uint32))
    array([1, 3, 0, 2])
    """
    if keys.dtype == np.uint16:
        return np.argsort(keys, kind="stable")
    order = np.argsort(keys.astype(np.uint16), kind="stable")
    return order[np.argsort((keys >> np.uint32(16)).astype(np.uint16)[order], kind="stable")]
