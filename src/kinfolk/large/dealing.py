"""Folds drawn while rows pass by: every task's rows dealt out in turn, or whole groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.large.arrow import Block
from kinfolk.large.labels import LabelIndex
from kinfolk.rows.folds import Folds, generator
from kinfolk.rows.gram import GramStats
from kinfolk.rows.moments import stable_order


def check_folds(cv: Any) -> int:
    """A number of folds; pairs of row positions are for rows in memory."""
    if not isinstance(cv, (int, np.integer)) or isinstance(cv, bool) or cv < 2:
        raise ValueError(f"cv={cv!r} must be a whole number of folds, at least 2, for rows that stream by")
    return int(cv)


class Dealer:
    """Deals the rows of every task to the folds in turn, over all blocks; within a block in random order.

    A task's shares of the folds differ by at most one row. With groups, whole groups are dealt in turn instead, as
    they appear, so every row of a group is in one fold wherever it stands.
    """

    def __init__(self, k: int, random_state: Any = None, *, groups: str | None = None) -> None:
        self.k, self.rng = k, generator(random_state)
        self.groups = None if groups is None else LabelIndex(groups)
        self.next_fold = np.empty(0, np.intp)  # of every task
        self.fold_of_group = np.empty(0, np.intp)

    def deal(self, block: Block, numbers: NDArray[np.intp]) -> NDArray[np.intp]:
        """The fold of every row of a block, whose task labels have these numbers."""
        if self.groups is not None:
            return self._deal_groups(self.groups, block)
        unknown = int(numbers.max(initial=-1)) + 1 - len(self.next_fold)
        if unknown > 0:
            self.next_fold = np.append(self.next_fold, self.rng.integers(self.k, size=unknown))
        first, codes = self.next_fold[numbers], block.task.codes
        self.next_fold[numbers] = (first + np.bincount(codes, minlength=len(numbers))) % self.k
        return spread(codes, first, self.k, self.rng)

    def _deal_groups(self, groups: LabelIndex, block: Block) -> NDArray[np.intp]:
        assert block.groups is not None
        numbers = groups.numbers(block.groups.labels, block.place.source)
        known, unknown = len(self.fold_of_group), len(groups) - len(self.fold_of_group)
        new = (known + self.rng.permutation(unknown)) % self.k
        self.fold_of_group = np.append(self.fold_of_group, new)
        return self.fold_of_group[numbers][block.groups.codes]

    def check(self) -> None:
        """All folds must have got a group."""
        if self.groups is not None:
            check_groups(len(self.groups), self.k, self.groups.column)


@dataclass(frozen=True, eq=False)
class PartitionDealer:
    """Deals the rows of one partition without knowledge of the others.

    The rows of a task are dealt in turn from a fold that depends on the task's label and on the partition, so that
    tasks with few rows in each of many partitions get even folds too.

    Attributes
    ----------
    k : number of folds
    seed : of the shuffling; the same for all partitions
    turn : place of the partition in a random order of all
    groups : distinct labels of groups, sorted, and their folds
    """

    k: int
    seed: int
    turn: int
    groups: tuple[NDArray[Any], NDArray[np.intp]] | None = None

    def deal(self, block: Block, numbers: NDArray[np.intp]) -> NDArray[np.intp]:
        """The fold of every row of the partition."""
        if self.groups is not None:
            assert block.groups is not None
            labels, folds = self.groups
            return folds[np.searchsorted(labels, block.groups.labels)][block.groups.codes]
        first = (scattered(block.task.labels, self.seed) + self.turn) % self.k
        return spread(block.task.codes, first, self.k, np.random.default_rng([self.seed, self.turn]))


def scattered(labels: NDArray[Any], seed: int) -> NDArray[np.intp]:
    """A number for every label that looks random and is the same wherever the label stands.

    Examples
    --------
    >>> both, one = scattered(np.array(["a", "bcd"]), 0), scattered(np.array(["a"]), 0)
    >>> both[0] == one[0], both[0] == both[1]
    (np.True_, np.False_)
    """
    text = np.ascontiguousarray(labels.astype(str))
    letters = text.view(np.uint32).reshape(len(text), -1).astype(np.uint64)
    # Letters that pad shorter labels are 0, so they add nothing.
    powers = np.random.default_rng(seed).integers(2**63, size=4096, dtype=np.uint64) | np.uint64(1)
    mixed = (letters * np.resize(powers, letters.shape[1])).sum(axis=1, dtype=np.uint64)
    # Neighbouring labels have neighbouring sums: fold the bits into each other.
    mixed = (mixed ^ (mixed >> np.uint64(31))) * powers[0]
    mixed = (mixed ^ (mixed >> np.uint64(29))) * powers[1]
    return (mixed >> np.uint64(40)).astype(np.intp)


def check_groups(count: int, k: int, column: str) -> None:
    """Every fold needs a group."""
    if count < k:
        raise ValueError(f"cv={k} folds need at least {k} groups, but column {column!r} has {count}: lower cv")


def folds_of_parts(parts: list[GramStats], *, groups: str | None) -> Folds:
    """Folds from the statistics of each.

    Tasks that share their inputs need folds in common (see `folds.fold_of_rows`), which a pass cannot find by itself.
    """
    folds = Folds.of_parts(parts)
    total = folds.total
    if groups is None and total.n_tasks > 1 and np.ptp(total.n) == 0 and total.G.any() and total.is_shared():
        raise ValueError(
            "all tasks have the same inputs, so their folds must be the same too, or cross-validation is too hopeful: "
            "give the column that says which rows belong together (time, day, site) as `groups`"
        )
    return folds


def spread(codes: NDArray[Any], first: NDArray[np.intp], k: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Shuffle the rows of every task and deal them out in turn, task t from the fold `first[t]` on.

    Examples
    --------
    >>> spread(np.array([1, 0, 1]), np.array([2, 0]), 3, np.random.default_rng(0)).tolist() in ([0, 2, 1], [1, 2, 0])
    True
    """
    shuffled = rng.permutation(len(codes))
    order = shuffled[stable_order(codes[shuffled].astype(np.uint32))]
    count = np.bincount(codes, minlength=len(first))
    starts = np.cumsum(count) - count
    by_task = codes[order]
    fold = np.empty(len(codes), np.intp)
    fold[order] = (np.arange(len(codes)) - starts[by_task] + first[by_task]) % k
    return fold
