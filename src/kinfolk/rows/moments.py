"""Centred second moments of tasks from rows: the one kernel, for tables in memory, in blocks and with weights.

A row is z = (v, 1) with v = (x, y) and the weight w. With v taken about r_t, the mean of the task in the first block
that has rows of it, the sum of w z v' holds the sums and all second moments at once, and blocks just add up. At the end

    mean = r_t + s / n,   S = A - s s' / n,      A and s the parts of that sum, n the number of rows or their weight.

The difference costs few digits: as r_t is the mean of m of the n rows, s s' / n is at most n / m times S, whatever the
rows are. For rows that come at once it is nothing but the rounding of the mean, so a mean of 1e6 costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.memory import check_memory

Array = NDArray[Any]  # always float64; NumPy's stubs do not carry that through arithmetic
BLOCK_BYTES = 3 * 2**25  # of rows in a block: larger ones take memory, smaller ones cost more merges
MADE = 6  # times smaller blocks of rows that are made for the occasion: they are there twice
RUN_BYTES = 2**19  # of rows, and of matrices, worked on at a time: they stay in the cache
TINY = float(np.finfo(np.float64).tiny)


class Moments:
    """Sums of rows (x, y, 1) in slots, which grow as needed; a slot is a task, or a task in a fold.

    Examples
    --------
    >>> moments = Moments(width=3)
    >>> rows = np.array([[1.0, 1.0, 1.0], [5.0, 7.0, 1.0], [3.0, 5.0, 1.0]])
    >>> moments.add(rows, np.array([2, 4, 2]))
    True
    >>> n, mean, S = moments.centred(np.array([4, 2]))
    >>> n, mean.tolist(), S[1].tolist()
    (array([1., 2.]), [[5.0, 7.0], [2.0, 3.0]], [[2.0, 4.0], [4.0, 8.0]])
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self.n = np.zeros(0)
        self.reference = np.zeros((0, width))
        self.sums = np.zeros((0, width, width - 1))
        self.span = np.array([[np.inf], [-np.inf]]) + np.zeros(width)  # least and largest value of every column

    def add(
        self, rows: Array, slots: NDArray[Any], weight: Array | None = None, pool: tuple[Executor, int] | None = None
    ) -> bool:
        """Add rows (x, y, 1), (n, d + 2), to their slots; whether all sums were finite.

        One batched product per number of rows, without a loop over tasks. A slot is worked on by one thread, so the
        result does not depend on the threads of the `pool`.
        """
        if len(rows):
            self.widen(rows.min(axis=0), rows.max(axis=0))
        order, sizes, present = sorted_by_slot(slots)
        self.reserve(int(present.max(initial=-1)) + 1)
        ends = np.cumsum(sizes)
        tasks = [(first, last, ends[first] - n, n) for first, last, n in runs(sizes, self.width)]

        def work(some: list[Any]) -> bool:
            room = np.empty(max((self.width * n * (last - first) for first, last, _, n in some), default=0))
            finite = True
            for first, last, start, n in some:
                these = order[start : start + n * (last - first)]
                # mode="clip" lets NumPy write into `out` directly; every position is in range.
                out = room[: self.width * len(these)].reshape(-1, self.width)
                here = np.take(rows, these, axis=0, out=out, mode="clip").reshape(last - first, n, self.width)
                w = None if weight is None else weight[these].reshape(last - first, n)
                with np.errstate(invalid="ignore", over="ignore"):
                    finite = self._add_run(here, present[first:last], w) and finite
            return finite

        if pool is None:
            return work(tasks)
        executor, threads = pool
        return all(executor.map(work, [tasks[k::threads] for k in range(threads)]))

    def _add_run(self, here: Array, slots: NDArray[np.intp], w: Array | None) -> bool:
        """Add as many rows to every slot, (slots, rows, d + 2); they are overwritten."""
        n = np.full(len(here), float(here.shape[1])) if w is None else w.sum(axis=1)
        new = self.n[slots] == 0
        if new.any():
            # About the first row: a column that has but one value then varies by exactly nothing.
            first = here[new, :1, :-1]
            v = here[new, :, :-1] - first
            share = None if w is None else w[new] / np.maximum(n[new], TINY)[:, None]
            mean = v.mean(axis=1) if share is None else np.einsum("kn,knd->kd", share, v)
            self.reference[slots[new], :-1] = first[:, 0] + mean
        here -= self.reference[slots][:, None, :]
        if w is not None:
            here *= np.sqrt(w)[:, :, None]
        # z v' and not z z', for which NumPy would choose a routine for symmetric products: half as fast here.
        zv = np.matmul(here.transpose(0, 2, 1), here[:, :, :-1])
        self.n[slots] += n
        self.sums[slots] += zv
        return bool(np.isfinite(zv.sum()))

    def widen(self, low: Array, high: Array) -> None:
        """Take in columns between these values."""
        self.span = np.array([np.minimum(self.span[0], low), np.maximum(self.span[1], high)])

    def centred(self, slots: NDArray[np.intp]) -> tuple[Array, Array, Array]:
        """Rows n (p,), means (p, d + 1) and centred second moments (p, d + 1, d + 1) in some slots."""
        self.reserve(int(slots.max(initial=-1)) + 1)
        n, sums = self.n[slots], self.sums[slots]
        A, s = sums[:, :-1], sums[:, -1]
        safe_n = np.where(n > 0, n, 1.0)[:, None]
        mean = np.where(n[:, None] > 0, self.reference[slots, :-1] + s / safe_n, 0.0)
        # The product of z and v is symmetric but for rounding.
        S = (A + A.transpose(0, 2, 1)) / 2 - s[:, :, None] * (s / safe_n)[:, None, :]
        j = np.arange(self.width - 1)
        S[:, j, j] = np.maximum(S[:, j, j], 0.0)
        return n, mean, S

    def statistics(self, slots: NDArray[np.intp]) -> tuple[Array, Array, Array, Array, Array, Array]:
        """n, x_mean, y_mean, G, b and yy in some slots, put together in steps that take little memory."""
        T, d = len(slots), self.width - 2
        n, mean = np.empty(T), np.empty((T, d + 1))
        G, b, yy = np.empty((T, d, d)), np.empty((T, d)), np.empty(T)
        step = max(1, RUN_BYTES // (8 * (d + 2) ** 2))
        for start in range(0, T, step):
            here = slice(start, start + step)
            n[here], mean[here], S = self.centred(slots[here])
            G[here], b[here], yy[here] = S[:, :d, :d], S[:, :d, d], S[:, d, d]
        return n, mean[:, :d].copy(), mean[:, d].copy(), G, b, yy

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
            bigger = np.zeros((have + more, *old.shape[1:]))
            bigger[:have] = old
            setattr(self, name, bigger)


def moments_of_rows(X: Any, y: Array, codes: NDArray[np.intp], T: int, weight: Array | None = None) -> Moments:
    """Moments of T tasks from rows in memory, a block at a time; X may make its rows when they are asked for."""
    moments = Moments(X.shape[1] + 2)
    moments.reserve(T)
    held = BLOCK_BYTES if isinstance(X, np.ndarray) else BLOCK_BYTES // MADE
    step = max(1, held // (8 * moments.width))
    for start in range(0, len(X), step):
        here = slice(start, start + step)
        rows = np.column_stack([X[here], y[here], np.ones(len(y[here]))])
        moments.add(rows, codes[here], None if weight is None else weight[here])
    return moments


def moments_of_wide(X: Array, Y: Array, weight: Array | None = None) -> Moments:
    """Moments of the T columns of Y, each over its observed rows: those that are not NaN."""
    T = Y.shape[1]
    moments = Moments(X.shape[1] + 2)
    moments.reserve(T)
    step = max(1, BLOCK_BYTES // (8 * moments.width * T))
    for start in range(0, len(X), step):
        y = Y[start : start + step]
        row, task = np.nonzero(~np.isnan(y))
        rows = np.column_stack([X[start + row], y[row, task], np.ones(len(row))])
        moments.add(rows, task, None if weight is None else weight[start + row])
    return moments


def centred(X: Array, w: Array) -> tuple[Array, Array]:
    """Weighted means of the columns, and the centred columns times the root of the weights."""
    n = max(w.sum(), TINY)
    mean = w @ X / n
    # The mean is rounded; what is left of it is measured and taken out again.
    rest = w @ (X - mean) / n
    return mean + rest, (X - mean - rest) * np.sqrt(w)[:, None]


def sorted_by_slot(slots: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    """Positions of rows slot by slot, slots with few rows first; and rows per slot, and the slots, in that order.

    Examples
    --------
    >>> sorted_by_slot(np.array([2, 3, 2, 0]))
    (array([3, 1, 0, 2]), array([1, 1, 2]), array([0, 3, 2]))
    """
    count = np.bincount(slots)
    present = np.flatnonzero(count)
    present = present[np.argsort(count[present], kind="stable")]
    rank = np.zeros(len(count), np.uint16 if len(present) <= 2**16 else np.uint32)
    rank[present] = np.arange(len(present))
    return stable_order(rank[slots]), count[present], present


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
