"""Sums over blocks of rows: tasks get slots as they appear, folds are dealt, threads share the slots."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from kinfolk.gram import Array, GramStats
from kinfolk.large.arrow import Block
from kinfolk.large.columns import Columns
from kinfolk.large.dealing import Dealer, PartitionDealer
from kinfolk.large.labels import LabelIndex, as_whole_numbers
from kinfolk.large.moments import Moments

Item = TypeVar("Item")
Result = TypeVar("Result")
Rows = tuple[Block, list[Array]]  # a block, and its features and target as floats


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

    def add_all(self, blocks: Iterable[Rows]) -> Iterator[Block]:
        """Add blocks of rows; each is given back when its rows are in."""
        waiting: deque[tuple[Rows, list[Future[bool]]]] = deque()
        with ExitStack() as stack:
            pools = [stack.enter_context(ThreadPoolExecutor(1)) for _ in range(self.threads)]
            for block, arrays in blocks:
                self.shares = self.shares or [Moments(len(arrays)) for _ in pools]
                codes, slots = self._placed(block)
                jobs = [pool.submit(self._add_share, w, arrays, codes, slots) for w, pool in enumerate(pools)]
                waiting.append(((block, arrays), jobs))
                if len(waiting) > 2:
                    yield _finished(*waiting.popleft())
            while waiting:
                yield _finished(*waiting.popleft())

    def add(self, block: Block, arrays: list[Array]) -> None:
        """Add one block in this thread."""
        self.shares = self.shares or [Moments(len(arrays)) for _ in range(self.threads)]
        codes, slots = self._placed(block)
        finite = [self._add_share(w, arrays, codes, slots) for w in range(self.threads)]
        if not all(finite):
            block.raise_not_finite(arrays)

    def _placed(self, block: Block) -> tuple[NDArray[Any], NDArray[np.intp]]:
        """A code for every row, and the slot of every code."""
        numbers = self.tasks.numbers(block.task.labels, block.place.source)
        if self.dealer is None:
            return block.task.codes, numbers
        fold = self.dealer.deal(block, numbers)
        slots = (numbers[:, None] * self.k + np.arange(self.k)).ravel()
        return block.task.codes * self.k + fold, slots

    def _add_share(self, w: int, arrays: list[Array], codes: NDArray[Any], slots: NDArray[np.intp]) -> bool:
        only = None if self.threads == 1 else slots % self.threads == w
        with np.errstate(invalid="ignore", over="ignore"):
            return self.shares[w].add(arrays, codes, slots // self.threads, only)

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
        T, d = len(slots), self.shares[0].width - 1
        n, mean = np.empty(T), np.empty((T, d + 1))
        G, b, yy = np.empty((T, d, d)), np.empty((T, d)), np.empty(T)
        for w, share in enumerate(self.shares):
            here = np.flatnonzero(slots % self.threads == w)
            at = slots[here] // self.threads
            share.reserve(int(at.max(initial=-1)) + 1)
            n[here], mean[here] = share.n[at], share.mean[at]
            G[here], b[here], yy[here] = share.S[at, :d, :d], share.S[at, :d, d], share.S[at, d, d]
        return GramStats(labels, n, mean[:, :d].copy(), mean[:, d].copy(), G, b, yy, self.names)


def _finished(rows: Rows, jobs: list[Future[bool]]) -> Block:
    """Wait for a block; missing and infinite values are found by what they do to the sums."""
    block, arrays = rows
    if not all(job.result() for job in jobs):
        block.raise_not_finite(arrays)
    return block


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
