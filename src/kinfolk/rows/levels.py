"""Text of many values as one number: what each value adds to the target, which no row learns from its own.

The effects are those of a mixed model with a level for every task and one for every value,

    y = mean + u[task] + v[value] + noise,

with variances from moments. A row in fold g has the effect that the rows outside of g tell. For a fold f that is held
out, neither f nor g takes part: errors on f are those of a number that f has not touched.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.rows.gram import TINY, Array
from kinfolk.rows.tasks import Rows
from kinfolk.rows.time_order import trains

ROUNDS = 5  # between tasks and values: the first two give nearly all
LEAST = 1e-3  # of the variance of the noise: values always differ a little, so that no fold has a constant feature
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


def effects(level: NDArray[np.intp], count: int, targets: Observed) -> Array:
    """What every value adds to the target, (count,); 0 for values without rows. Rows of value -1 do not count.

    Examples
    --------
    >>> y = np.array([1.0, 1.0, 3.0, 3.0, 11.0, 11.0, 13.0, 13.0])  # the second task is 10 above the first
    >>> effects(np.array([0, 0, 1, 1, 0, 0, 1, 1]), 2, Observed.of(y, np.repeat([0, 1], 4))).round(2)
    array([-1.,  1.])
    """
    some = (level >= 0) & (targets.weight > 0)
    value = level[some]
    y, task, w = (part[some] for part in targets)
    if not len(y):
        return np.zeros(count)
    y = y - np.average(y, weights=w)
    tasks = _Grouping.of(task, w)
    values = _Grouping.of(value, w, count)
    to_tasks = tasks.ratio(y)
    of_task = tasks.shrunk(y, to_tasks)
    to_values = values.ratio(y - of_task[task])
    of_value = np.zeros(count)
    for _ in range(ROUNDS):
        of_value = values.shrunk(y - of_task[task], to_values)
        of_task = tasks.shrunk(y - of_value[value], to_tasks)
    return of_value


@dataclass(frozen=True, eq=False)
class _Grouping:
    """Rows with the numbers of their groups and weights, and the weight of every group."""

    number: NDArray[np.intp]
    weight: Array
    n: Array

    @classmethod
    def of(cls, number: NDArray[np.intp], weight: Array, count: int = 0) -> _Grouping:
        return cls(number, weight, np.bincount(number, weight, minlength=count))

    def shrunk(self, y: Array, pull: float) -> Array:
        """Means of the groups, drawn to 0 as by so many rows."""
        return np.bincount(self.number, self.weight * y, minlength=len(self.n)) / np.maximum(self.n + pull, TINY)

    def ratio(self, y: Array) -> float:
        """Variance of rows within groups over that between them, from sums of squares."""
        mean = self.shrunk(y, 0.0)
        rows = float(self.n.sum())
        groups = int((self.n > 0).sum())
        within = float(self.weight @ (y - mean[self.number]) ** 2) / max(rows - groups, 1.0)
        spread = float(self.n @ mean**2) - (groups - 1) * within
        between = spread / max(rows - float(self.n @ self.n) / rows, TINY)
        return within / max(between, LEAST * within, TINY)


@dataclass(frozen=True, eq=False)
class CrossFitted:
    """Features of rows with text of many values, by what the other folds tell."""

    levels: list[Levels]
    targets: Observed
    fold: NDArray[np.intp]
    _known: dict[tuple[int, bytes], Array] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of(cls, levels: list[Levels], rows: Rows, fold: NDArray[np.intp]) -> CrossFitted:
        """Of checked rows; `fold` has a number per row."""
        return cls(levels, Observed.of(rows.y, rows.codes, rows.weight), fold)

    def inputs(self, X: Array, held_out: int | None = None) -> Array:
        """X with the effects that the other folds tell every row; as seen by the fold that is `held_out`."""
        folds = np.unique(self.fold)
        may_tell = folds if held_out is None else folds[trains(folds, held_out)]
        found = X.copy()
        for g in folds:
            own = self.fold == g
            telling = may_tell[may_tell != g]
            for column in self.levels:
                found[own, column.place] = self._effects(column, telling)[column.number[own]]
        return found

    def _effects(self, column: Levels, folds: NDArray[np.intp]) -> Array:
        """Effects by the rows of some folds, and 0 at the end, for rows without a value: -1 points there."""
        key = column.place, folds.tobytes()
        if key not in self._known:
            level = np.where(np.isin(self.fold, folds), column.number, -1)
            self._known[key] = np.append(effects(level, column.size, self.targets) / column.unit, 0.0)
        return self._known[key]
