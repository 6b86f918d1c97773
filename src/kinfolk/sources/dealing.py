"""Folds drawn while rows pass by: every task's rows dealt out in turn, or whole groups."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.rows.folds import Folds
from kinfolk.rows.gram import Array, GramStats
from kinfolk.rows.splits import dealt, generator, occurrence
from kinfolk.words import warn_user


class Dealer:
    """Deals the rows of every task to the folds in turn, over all blocks; within a block in random order.

    A task's shares of the folds differ by at most one row. Groups are dealt in turn instead, as they appear, so every
    row of a group is in one fold wherever it stands.
    """

    def __init__(self, k: int, random_state: Any = None) -> None:
        self.k = k
        self.rng = generator(random_state)
        self.next_fold = np.empty(0, np.intp)  # of every task
        self.fold_of_group = np.empty(0, np.intp)

    def deal(self, tasks: NDArray[np.intp], groups: NDArray[np.intp] | None = None) -> NDArray[np.intp]:
        """The fold of every row of a block, by the numbers of their tasks, or of their groups if there are any."""
        if groups is not None:
            return self._deal_groups(groups)
        unknown = int(tasks.max(initial=-1)) + 1 - len(self.next_fold)
        if unknown > 0:
            self.next_fold = np.append(self.next_fold, self.rng.integers(self.k, size=unknown))
        first = self.next_fold
        self.next_fold = (first + np.bincount(tasks, minlength=len(first))) % self.k
        return dealt(tasks, self.rng.permutation(len(tasks)), first, self.k)

    def _deal_groups(self, groups: NDArray[np.intp]) -> NDArray[np.intp]:
        known = len(self.fold_of_group)
        unknown = max(0, int(groups.max(initial=-1)) + 1 - known)
        self.fold_of_group = np.append(self.fold_of_group, (known + self.rng.permutation(unknown)) % self.k)
        return self.fold_of_group[groups]


class Dealt:
    """Folds that were drawn for all rows before, dealt in the order in which these come by."""

    def __init__(self, fold: NDArray[np.intp], k: int) -> None:
        self.fold = fold
        self.k = k
        self.next_row = 0

    def deal(self, tasks: NDArray[np.intp], groups: Any = None) -> NDArray[np.intp]:
        """The fold of every row of a block."""
        first = self.next_row
        self.next_row += len(tasks)
        return self.fold[first : self.next_row]


def deal_rows(codes: NDArray[np.intp], so_far: Array, rng: np.random.Generator) -> NDArray[np.intp]:
    """A fold for every new row of tasks that have `so_far` (k, T) rows in the folds.

    The rows of a task go to the folds in turn, as they come, first to those that have least of it; ties are drawn.

    >>> deal_rows(np.array([0, 0, 0]), np.array([[4.0], [3.0], [4.0]]), np.random.default_rng(0)).tolist()
    [1, 2, 0]
    """
    k, T = so_far.shape
    order = np.lexsort((rng.random((k, T)), so_far), axis=0)
    return order[occurrence(codes) % k, codes]


def check_folds(cv: Any) -> int:
    """A number of folds; pairs of row positions are for rows in memory."""
    if not isinstance(cv, (int, np.integer)) or isinstance(cv, bool) or cv < 2:
        raise ValueError(f"cv={cv!r} must be a whole number of folds, at least 2, for rows that stream by")
    return int(cv)


def folds_of_parts(parts: list[GramStats], *, groups: str | None) -> Folds:
    """Folds from the statistics of each.

    Tasks that share their inputs need folds in common (see `folds.fold_of_rows`), which a pass cannot find by itself.
    """
    used = [part for part in parts if part.n.any()]
    if groups is None and len(used) < len(parts):  # for groups there was a warning already
        warn_user(f"{len(used)} of the {len(parts)} folds have rows: {len(used)} folds in place of cv={len(parts)}")
    folds = Folds.of_parts(used)
    total = folds.total
    if groups is None and total.n_tasks > 1 and np.ptp(total.n) == 0 and total.G.any() and total.is_shared():
        raise ValueError(
            "all tasks have the same inputs, so their folds must be the same too, or cross-validation is too hopeful: "
            "give the column that says which rows belong together (time, day, site) as `groups`"
        )
    return folds
