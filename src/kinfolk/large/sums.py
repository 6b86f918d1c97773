"""Sums over blocks of rows: tasks get slots as they appear, folds are dealt, threads share the slots."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from kinfolk.large.arrow import Block, raise_not_finite
from kinfolk.large.columns import Columns
from kinfolk.large.dealing import Dealer, PartitionDealer
from kinfolk.large.labels import LabelIndex, as_whole_numbers
from kinfolk.rows.gram import Array, GramStats
from kinfolk.rows.moments import Moments

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
    threads : share out the slots of every block, so that the result does not depend on how many there are
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
        self.moments: Moments | None = None
        self.k = 1 if dealer is None else dealer.k

    def add_all(self, items: Iterable[Rows]) -> Iterator[Rows]:
        """Add rows, while the next ones are read; they are given back when they are in."""
        running: tuple[Rows, Future[bool]] | None = None
        with ThreadPoolExecutor(1) as behind, ThreadPoolExecutor(self.threads) as pool:
            for rows in items:
                self.moments = self.moments or Moments(rows.matrix.shape[1])
                slots = np.concatenate([self._slots_of_block(block) for block in rows.blocks])
                if running is not None:
                    yield _finished(*running)
                running = rows, behind.submit(self._add, self.moments, rows.matrix, slots, pool)
            if running is not None:
                yield _finished(*running)

    def _slots_of_block(self, block: Block) -> NDArray[np.intp]:
        numbers = self.tasks.numbers(block.task.labels, block.place.source)
        slots = numbers[block.task.codes]
        return slots if self.dealer is None else slots * self.k + self.dealer.deal(block, numbers)

    def _add(self, moments: Moments, matrix: Array, slots: NDArray[np.intp], pool: ThreadPoolExecutor) -> bool:
        return moments.add(matrix, slots, pool=(pool, self.threads))

    def parts(self) -> list[GramStats]:
        """Statistics of every fold; of all rows, if none were dealt."""
        labels, numbers = self._labels()
        assert self.moments is not None
        slots = [numbers * self.k + f for f in range(self.k)]
        return [GramStats(labels, *self.moments.statistics(here), self.names) for here in slots]

    def _labels(self) -> tuple[NDArray[Any], NDArray[np.intp]]:
        """Sorted labels and the numbers of their tasks."""
        if self.moments is None:
            raise ValueError("the table has no rows")
        if not self.text:
            return self.tasks.labels, self.tasks.order
        labels = as_whole_numbers(self.tasks.labels)
        ascending = np.argsort(labels, kind="stable")
        return labels[ascending], self.tasks.order[ascending]


def _finished(rows: Rows, job: Future[bool]) -> Rows:
    """Wait for rows to be in; missing and infinite values are found by what they do to the sums."""
    if not job.result():
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
