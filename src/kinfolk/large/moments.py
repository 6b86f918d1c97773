"""Moments of tasks, added up over blocks of rows in place: what a pass over a large table keeps.

A row is z = (x, y, 1). With features and target taken about r_t, the mean of the task in the first block that has rows
of it, the sum of z z' holds the count, the means and all second moments at once, and blocks just add up. At the end

    mean = r_t + s / n,   S = A - s s' / n,      A, s, n the parts of that sum.

The difference costs few digits: as r_t is the mean of m of the n rows, s s' / n is at most n / m times S, whatever the
rows are, and far less than S where the first block is like the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.gram import Array
from kinfolk.memory import check_memory

RUN_BYTES = 2**20  # of rows, and of matrices, worked on at a time: they stay in the cache


class Moments:
    """Sums of rows (x, y, 1) in slots, which grow as needed.

    Examples
    --------
    >>> moments = Moments(width=3)
    >>> rows = np.array([[1.0, 1.0, 1.0], [5.0, 7.0, 1.0], [3.0, 5.0, 1.0]])
    >>> moments.add(rows, slots=np.array([2, 4, 2]))
    True
    >>> n, mean, S = moments.centred(np.array([4, 2]))
    >>> n, mean.tolist(), S[1].tolist()
    (array([1., 2.]), [[5.0, 7.0], [2.0, 3.0]], [[2.0, 4.0], [4.0, 8.0]])
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self.reference, self.sums = np.zeros((0, width)), np.zeros((0, width, width))
        self.begun = np.zeros(0, bool)  # slots that have a reference
        self._room = np.empty(0)  # for the rows worked on: fresh memory every time would cost a quarter more

    def add(self, rows: Array, slots: NDArray[np.intp], only: NDArray[np.intp] | None = None) -> bool:
        """Add rows to their slots; whether all sums were finite.

        One sort; then one batched product per number of rows, without a loop over tasks.

        Parameters
        ----------
        rows : features, target and ones, (n, d + 2)
        slots : of the rows
        only : positions of the rows to add, and `slots` is theirs; by default all
        """
        count = np.bincount(slots)
        present = np.flatnonzero(count)
        if not len(present):
            return True
        by_rows = present[np.argsort(count[present], kind="stable")]
        rank = np.zeros(len(count), np.uint16 if len(present) <= 2**16 else np.uint32)
        rank[by_rows] = np.arange(len(present))
        order = stable_order(rank[slots])
        self.reserve(len(count))
        return self._add_sorted(rows, order if only is None else only[order], count[by_rows], by_rows)

    def centred(self, slots: NDArray[np.intp]) -> tuple[Array, Array, Array]:
        """Rows n (p,), means (p, d + 1) and centred second moments (p, d + 1, d + 1) in some slots."""
        self.reserve(int(slots.max(initial=-1)) + 1)
        A = self.sums[slots]
        n, s = A[:, -1, -1].copy(), A[:, :-1, -1]
        safe_n = np.maximum(n, 1.0)[:, None]
        mean = self.reference[slots, :-1] + s / safe_n
        return n, mean, A[:, :-1, :-1] - s[:, :, None] * s[:, None, :] / safe_n[:, :, None]

    def reserve(self, slots: int) -> None:
        """Room for so many slots; capacity doubles, so that growing costs one copy in all."""
        have = len(self.sums)
        if slots <= have:
            return
        more = max(slots, 2 * have) - have
        check_memory(
            8.0 * more * self.width**2,
            f"statistics of more than {have} tasks (or folds of tasks) with {self.width - 2} features",
            "Give fewer `columns`, or check that the task column is not a row number.",
        )
        for name in ("reference", "sums", "begun"):
            old = getattr(self, name)
            bigger = np.zeros((have + more, *old.shape[1:]), old.dtype)
            bigger[:have] = old
            setattr(self, name, bigger)

    def _add_sorted(
        self, rows: Array, order: NDArray[np.intp], count: NDArray[np.intp], slots: NDArray[np.intp]
    ) -> bool:
        """Add `rows[order]`, in which task follows task, by increasing `count`."""
        first_row, finite = 0, True
        for first, last, n in runs(count, self.width):
            these = order[first_row : first_row + n * (last - first)]
            first_row += len(these)
            here = self._gathered(rows, these).reshape(last - first, n, self.width)
            at = slots[first:last]
            new = ~self.begun[at]
            if new.any():
                self.reference[at[new], :-1] = here[new, :, :-1].mean(axis=1)
                self.begun[at] = True
            here -= self.reference[at][:, None, :]
            A = np.matmul(here.transpose(0, 2, 1), here)
            finite = finite and bool(np.isfinite(A.sum()))
            self.sums[at] += A
        return finite

    def _gathered(self, rows: Array, order: NDArray[np.intp]) -> Array:
        size = self.width * len(order)
        if size > len(self._room):
            self._room = np.empty(size)
        # mode="clip" lets NumPy write into `out` directly; every position is in range.
        return np.take(rows, order, axis=0, out=self._room[:size].reshape(-1, self.width), mode="clip")


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
