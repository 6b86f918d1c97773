"""Moments of tasks, added up over blocks of rows in place: what a pass over a large table keeps.

A row is z = (v, 1) with v = (x, y). With v taken about r_t, the mean of the task in the first block that has rows of
it, the sum of z v' holds the sums and all second moments at once, and blocks just add up. At the end

    mean = r_t + s / n,   S = A - s s' / n,      A and s the parts of that sum, n the number of rows.

The difference costs few digits: as r_t is the mean of m of the n rows, s s' / n is at most n / m times S, whatever the
rows are, and far less than S where the first block is like the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.memory import check_memory
from kinfolk.rows.gram import Array

RUN_BYTES = 2**19  # of rows, and of matrices, worked on at a time: they stay in the cache


class Sorted(NamedTuple):
    """Rows task by task, tasks with few rows first: positions of the rows, rows per task, slots of the tasks."""

    rows: NDArray[np.intp]
    sizes: NDArray[np.intp]
    slots: NDArray[np.intp]


def sorted_by_slot(slots: NDArray[np.intp], shares: int = 1) -> list[Sorted]:
    """Sort rows by their slots, in shares: share w has the slots w, w + shares, ..., and calls them 0, 1, ...

    Examples
    --------
    >>> even, odd = sorted_by_slot(np.array([2, 3, 2, 0]), shares=2)
    >>> even
    Sorted(rows=array([3, 0, 2]), sizes=array([1, 2]), slots=array([0, 1]))
    >>> odd
    Sorted(rows=array([1]), sizes=array([1]), slots=array([1]))
    """
    count = np.bincount(slots)
    present = np.flatnonzero(count)
    present = present[np.lexsort((count[present], present % shares))]
    rank = np.zeros(len(count), np.uint16 if len(present) <= 2**16 else np.uint32)
    rank[present] = np.arange(len(present))
    rows, sizes = stable_order(rank[slots]), count[present]
    cuts = np.searchsorted(present % shares, np.arange(1, shares))
    row_cuts = np.append(0, np.cumsum(sizes))[cuts]
    shared = np.split(rows, row_cuts), np.split(sizes, cuts), np.split(present // shares, cuts)
    return [Sorted(*share) for share in zip(*shared, strict=True)]


class Moments:
    """Sums of rows (x, y, 1) in slots, which grow as needed.

    Examples
    --------
    >>> moments = Moments(width=3)
    >>> rows = np.array([[1.0, 1.0, 1.0], [5.0, 7.0, 1.0], [3.0, 5.0, 1.0]])
    >>> moments.add(rows, *sorted_by_slot(np.array([2, 4, 2])))
    True
    >>> n, mean, S = moments.centred(np.array([4, 2]))
    >>> n, mean.tolist(), S[1].tolist()
    (array([1., 2.]), [[5.0, 7.0], [2.0, 3.0]], [[2.0, 4.0], [4.0, 8.0]])
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self.n, self.reference, self.sums = np.zeros(0), np.zeros((0, width)), np.zeros((0, width, width - 1))
        self._room = np.empty(0)  # for the rows worked on: fresh memory every time would cost a quarter more

    def add(self, rows: Array, ordered: Sorted) -> bool:
        """Add some of the rows (x, y, 1), (n, d + 2), to their slots; whether all sums were finite.

        One batched product per number of rows, without a loop over tasks.
        """
        self.reserve(int(ordered.slots.max(initial=-1)) + 1)
        first_row, finite = 0, True
        for first, last, n in runs(ordered.sizes, self.width):
            these = ordered.rows[first_row : first_row + n * (last - first)]
            first_row += len(these)
            here = self._gathered(rows, these).reshape(last - first, n, self.width)
            finite = self._add_run(here, ordered.slots[first:last]) and finite
        return finite

    def centred(self, slots: NDArray[np.intp]) -> tuple[Array, Array, Array]:
        """Rows n (p,), means (p, d + 1) and centred second moments (p, d + 1, d + 1) in some slots."""
        self.reserve(int(slots.max(initial=-1)) + 1)
        n, sums = self.n[slots], self.sums[slots]
        A, s = sums[:, :-1], sums[:, -1]
        safe_n = np.maximum(n, 1.0)[:, None]
        mean = self.reference[slots, :-1] + s / safe_n
        # The product of z and v is symmetric but for rounding.
        return n, mean, (A + A.transpose(0, 2, 1)) / 2 - s[:, :, None] * s[:, None, :] / safe_n[:, :, None]

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
        for name in ("n", "reference", "sums"):
            old = getattr(self, name)
            bigger = np.zeros((have + more, *old.shape[1:]), old.dtype)
            bigger[:have] = old
            setattr(self, name, bigger)

    def _add_run(self, here: Array, slots: NDArray[np.intp]) -> bool:
        """Add as many rows to every slot, (slots, rows, d + 2); they are overwritten."""
        new = self.n[slots] == 0
        if new.any():
            self.reference[slots[new], :-1] = here[new, :, :-1].mean(axis=1)
        here -= self.reference[slots][:, None, :]
        # z v' and not z z', for which NumPy would choose a routine for symmetric products: half as fast here.
        zv = np.matmul(here.transpose(0, 2, 1), here[:, :, :-1])
        self.n[slots] += here.shape[1]
        self.sums[slots] += zv
        return bool(np.isfinite(zv.sum()))

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
