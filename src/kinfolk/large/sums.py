"""Sums over blocks of rows: tasks get slots as they appear, folds are dealt, threads share the slots."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from kinfolk.large.arrow import Block, raise_not_finite
from kinfolk.large.columns import Columns
from kinfolk.large.dealing import Dealer, PartitionDealer
from kinfolk.large.labels import LabelIndex, as_whole_numbers
from kinfolk.large.moments import Moments, Sorted, sorted_by_slot
from kinfolk.rows.gram import Array, GramStats

CENTRED_BYTES = 2**22  # of matrices centred at a time at the end
Item = TypeVar("Item")
Result = TypeVar("Result")


class Rows(NamedTuple):
    """Features, target and ones of some blocks of rows, (n, d + 2); `done` bytes have been read up to here."""

    matrix: Array
    blocks: list[Block]
    done: int = 0


class Sums:
    """Moments of all rows so far, per task, or per task and fold.

    Parameters
    ----------
    columns : of the table
    names : of the features
    dealer : draws folds; None for statistics of all rows
    text : whether labels came as text, though they may be numbers
    threads : every one has its own share of the slots and takes the blocks in order, so that the result does not
        depend on how many there are
    """

    def __init__(
        self,
        columns: Columns,
        names: tuple[str, ...] | None,
        *,
        dealer: Dealer | PartitionDealer | None = None,
        text: bool = False,
        threads: int = 1,
    ) -> None:
        self.names, self.dealer, self.text, self.threads = names, dealer, text, threads
        self.tasks = LabelIndex(columns.task)
        self.shares: list[Moments] = []
        self.k = 1 if dealer is None else dealer.k

    def add_all(self, items: Iterable[Rows]) -> Iterator[Rows]:
        """Add rows, while the next ones are read; they are given back when they are in."""
        running: tuple[Rows, list[Future[bool]]] | None = None
        with ExitStack() as stack:
            pools = [stack.enter_context(ThreadPoolExecutor(1)) for _ in range(self.threads)]
            for rows in items:
                ordered = sorted_by_slot(self._slots(rows), self.threads)
                if running is not None:
                    yield _finished(*running)
                jobs = [pool.submit(self._add_share, w, rows.matrix, ordered[w]) for w, pool in enumerate(pools)]
                running = rows, jobs
            if running is not None:
                yield _finished(*running)

    def _slots(self, rows: Rows) -> NDArray[np.intp]:
        """The slot of every row; called in the order of the rows, since tasks are numbered and folds dealt."""
        self.shares = self.shares or [Moments(rows.matrix.shape[1]) for _ in range(self.threads)]
        return np.concatenate([self._slots_of_block(block) for block in rows.blocks])

    def _slots_of_block(self, block: Block) -> NDArray[np.intp]:
        numbers = self.tasks.numbers(block.task.labels, block.place.source)
        slots = numbers[block.task.codes]
        return slots if self.dealer is None else slots * self.k + self.dealer.deal(block, numbers)

    def _add_share(self, w: int, matrix: Array, ordered: Sorted) -> bool:
        with np.errstate(invalid="ignore", over="ignore"):
            return self.shares[w].add(matrix, ordered)

    def parts(self) -> list[GramStats]:
        """Statistics of every fold; of all rows, if none were dealt."""
        labels, numbers = self._labels()
        return [self._gram(numbers * self.k + f, labels) for f in range(self.k)]

    def _labels(self) -> tuple[NDArray[Any], NDArray[np.intp]]:
        """Sorted labels and the numbers of their tasks."""
        if not self.shares:
            raise ValueError("the table has no rows")
        if not self.text:
            return self.tasks.labels, self.tasks.order
        labels = as_whole_numbers(self.tasks.labels)
        ascending = np.argsort(labels, kind="stable")
        return labels[ascending], self.tasks.order[ascending]

    def _gram(self, slots: NDArray[np.intp], labels: NDArray[Any]) -> GramStats:
        """Statistics in some slots, put together from the shares."""
        T, d = len(slots), self.shares[0].width - 2
        n, mean = np.empty(T), np.empty((T, d + 1))
        G, b, yy = np.empty((T, d, d)), np.empty((T, d)), np.empty(T)
        step = max(1, CENTRED_BYTES // (8 * (d + 2) ** 2))
        for w, share in enumerate(self.shares):
            mine = np.flatnonzero(slots % self.threads == w)
            for here in np.split(mine, range(step, len(mine), step)):
                n[here], mean[here], S = share.centred(slots[here] // self.threads)
                G[here], b[here], yy[here] = S[:, :d, :d], S[:, :d, d], S[:, d, d]
        return GramStats(labels, n, mean[:, :d].copy(), mean[:, d].copy(), G, b, yy, self.names)


def _finished(rows: Rows, jobs: list[Future[bool]]) -> Rows:
    """Wait for rows to be in; missing and infinite values are found by what they do to the sums."""
    if not all(job.result() for job in jobs):
        raise_not_finite(rows.matrix, rows.blocks)
    return rows


def in_order(function: Callable[[Item], Result], items: Iterable[Item], threads: int) -> Iterator[Result]:
    """`map(function, items)` in threads, a few items ahead.

    Examples
    --------
    >>> list(in_order(abs, [-1, -2, -3], threads=2))
    [1, 2, 3]
    """
    running: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for item in items:
                running.append(pool.submit(function, item))
                if len(running) > threads:
                    yield running.popleft().result()
            while running:
                yield running.popleft().result()
        finally:
            for future in running:
                future.cancel()
