"""Text of many values as one number: what each value adds to the target, which no row learns from its own.

The effects are those of a mixed model with a level for every task and one for every value of each such column, beside
one line in the other features x, with variances from moments:

    y = mean + u[task] + v[value] + ... + b'x + noise.

A row in fold g has the effect estimated from the rows outside of g. For a fold f that is held out, neither f nor g
takes part: errors on f are those of a number that f has not touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.rows.gram import TINY, Array
from kinfolk.rows.splits import trains
from kinfolk.rows.table import Rows

ROUNDS = 5  # between tasks and values: the first two give nearly all
LEAST = 1e-3  # of the variance of the noise: values always differ a little, so that no fold has a constant feature
SINGULAR = 1e-9  # relative eigenvalue below which features say what others say too
PARTS = 5  # of rows that are not cross-validated


class Levels(NamedTuple):
    """A text column of many values: the place of its feature, the number of each row's value (-1 for none), and how
    many values there are; effects are divided by `unit`."""

    place: int
    number: NDArray[np.intp]
    size: int
    unit: float = 1.0


class Observed(NamedTuple):
    """Targets of rows, one each, with the numbers of their tasks and their weights (0 without a target)."""

    y: Array
    task: NDArray[np.intp]
    weight: Array

    @classmethod
    def of(cls, y: Array, task: NDArray[np.intp] | None = None, weight: Array | None = None) -> Observed:
        """Of long or wide targets with gaps; the targets of a wide row become the mean of what is above their own."""
        seen = ~np.isnan(y)
        w = np.ones(len(y)) if weight is None else weight
        if y.ndim == 1:
            task = np.zeros(len(y), np.intp) if task is None else task
            return cls(np.where(seen, y, 0.0), task, np.where(seen, w, 0.0))
        middle = np.nansum(y, axis=0) / np.maximum(seen.sum(axis=0), 1)
        rows = seen.sum(axis=1)
        above = np.where(seen, y - middle, 0.0).sum(axis=1) / np.maximum(rows, 1)
        return cls(above, np.zeros(len(y), np.intp), w * rows)


def effects(
    levels: Sequence[Levels], targets: Observed, X: Array, telling: NDArray[np.bool_] | None = None
) -> list[Array]:
    """What the values of text columns add to the target, (size,) each, by the rows that are `telling`.

    X are the other features. Values without such rows add 0.

    Examples
    --------
    >>> y = np.array([1.0, 1.0, 3.0, 3.0, 11.0, 11.0, 13.0, 13.0])  # the second task is 10 above the first
    >>> text = Levels(0, np.array([0, 0, 1, 1, 0, 0, 1, 1]), 2)
    >>> effects([text], Observed.of(y, np.repeat([0, 1], 4)), np.zeros((8, 0)))[0].round(2)
    array([-1.,  1.])
    """
    some = targets.weight > 0 if telling is None else telling & (targets.weight > 0)
    y, task, w = (part[some] for part in targets)
    if not len(y):
        return [np.zeros(column.size) for column in levels]
    y = y - np.average(y, weights=w)
    tasks = _Grouping.of(task, w)
    # The last group is of rows without a value, whose effect is 0.
    groups = [_Grouping.of(column.number[some] % (column.size + 1), w, column.size + 1) for column in levels]
    line = _Line.of(X[some], tasks)
    added = [tasks.shrunk(y), *(np.zeros(len(y)) for _ in groups), line.through(y)]
    for _ in range(ROUNDS):
        for k, group in enumerate(groups, start=1):
            added[k] = group.shrunk(y - sum(added) + added[k], last=False)
        added[0] = tasks.shrunk(y - sum(added) + added[0])
        added[-1] = line.through(y - sum(added) + added[-1])
    return [group.by_number(found)[:-1] for group, found in zip(groups, added[1:-1], strict=True)]


@dataclass(frozen=True, eq=False)
class _Grouping:
    """Rows with the numbers of their groups and weights, and the weight of every group."""

    number: NDArray[np.intp]
    weight: Array
    n: Array

    @classmethod
    def of(cls, number: NDArray[np.intp], weight: Array, count: int = 0) -> _Grouping:
        return cls(number, weight, np.bincount(number, weight, minlength=count))

    def means(self, y: Array, shrinkage: float = 0.0) -> Array:
        """Means of the groups, drawn to 0 as by so many rows."""
        return np.bincount(self.number, self.weight * y, minlength=len(self.n)) / np.maximum(self.n + shrinkage, TINY)

    def shrunk(self, y: Array, *, last: bool = True) -> Array:
        """What the group of every row adds, shrunk by the variances of y; 0 for the `last` group if that is none."""
        found = self.means(y, self._ratio(y))
        found[-1] *= last
        return found[self.number]

    def by_number(self, of_rows: Array) -> Array:
        """What is the same for all rows of a group, by group."""
        found = np.zeros(len(self.n))
        found[self.number] = of_rows
        return found

    def _ratio(self, y: Array) -> float:
        """Variance of rows within groups over that between them, from sums of squares."""
        mean = self.means(y)
        rows = float(self.n.sum())
        groups = int((self.n > 0).sum())
        within = float(self.weight @ (y - mean[self.number]) ** 2) / max(rows - groups, 1.0)
        between_squares = float(self.n @ mean**2) - (groups - 1) * within
        between = between_squares / max(rows - float(self.n @ self.n) / rows, TINY)
        return within / max(between, LEAST * within, TINY)


@dataclass(frozen=True, eq=False)
class _Line:
    """One line of all tasks: features about the means of their tasks, and what takes targets to its slopes."""

    X: Array
    to_slopes: Array

    @classmethod
    def of(cls, X: Array, tasks: _Grouping) -> _Line:
        middle = np.column_stack([tasks.means(column) for column in X.T]) if X.shape[1] else np.zeros((len(tasks.n), 0))
        away = X - middle[tasks.number]
        size = np.sqrt(tasks.weight @ away**2)
        away = away / np.where(size > 0, size, 1.0)
        weighted = tasks.weight[:, None] * away
        return cls(away, np.linalg.pinv(away.T @ weighted, rcond=SINGULAR, hermitian=True) @ weighted.T)

    def through(self, y: Array) -> Array:
        """The line that is nearest to y, at every row."""
        return self.X @ (self.to_slopes @ y)


@dataclass(frozen=True, eq=False)
class CrossFitted:
    """Features of rows with text of many values, by estimates from the other folds."""

    levels: list[Levels]
    targets: Observed
    fold: NDArray[np.intp]
    _known: dict[bytes, list[Array]] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of(cls, levels: list[Levels], rows: Rows, fold: NDArray[np.intp]) -> CrossFitted:
        """Of checked rows; `fold` has a number per row."""
        return cls(levels, Observed.of(rows.y, rows.codes, rows.weight), fold)

    def inputs(self, X: Array, held_out: int | None = None) -> Array:
        """X with the effects that the other folds give every row; as seen by the fold that is `held_out`."""
        folds = np.unique(self.fold)
        may_train = folds if held_out is None else folds[trains(folds, held_out)]
        found = X.copy()
        for g in folds:
            own = self.fold == g
            for column, values in zip(self.levels, self._effects(X, may_train[may_train != g]), strict=True):
                found[own, column.place] = values[column.number[own]]
        return found

    def _effects(self, X: Array, folds: NDArray[np.intp]) -> list[Array]:
        """Effects by the rows of some folds, and 0 at the end, for rows without a value: -1 points there."""
        key = folds.tobytes()
        if key not in self._known:
            others = np.delete(X, [column.place for column in self.levels], axis=1)
            found = effects(self.levels, self.targets, others, np.isin(self.fold, folds))
            units = [column.unit for column in self.levels]
            self._known[key] = [np.append(values / unit, 0.0) for values, unit in zip(found, units, strict=True)]
        return self._known[key]
