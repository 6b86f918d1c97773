"""Held-out errors by fold and task, and what they say: one record for every place that scores a method."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from kinfolk.methods.search_report import NO_GAIN, Gain
from kinfolk.rows.families import FAMILIES, Family
from kinfolk.rows.gram import TINY, Array

LEAST_FOLDS = 3  # with rows of a task, for a test of its errors
LEAST_LEVEL = 1e-9  # of the errors after: least error before that a gain is relative to


@dataclass(frozen=True, eq=False)
class Errors:
    """Sums of squared held-out errors (k, T) by fold and task, and the rows (k, T) behind them.

    People read the roots of their means. In a family of classes or counts they are sums of losses, and people read
    the means themselves (`roots` is False).

    Examples
    --------
    Task 0 is off by 3 and 4 (root mean square 3.54), task 1 by 1.

    >>> found = Errors.of_predictions(np.zeros(3), np.array([3.0, 4.0, 1.0]), np.array([0, 0, 1]), 2)
    >>> round(found.pooled(), 3), round(found.tasks(), 3)
    (2.944, 2.268)
    """

    squared: Array
    rows: Array
    roots: bool = True

    @classmethod
    def of_predictions(
        cls,
        y: Array,
        prediction: Array,
        codes: NDArray[np.intp],
        n_tasks: int,
        fold: NDArray[np.intp] | None = None,
        family: Family = FAMILIES["gaussian"],
    ) -> Self:
        """Errors of predictions of the rows of tasks `codes`, held out in `fold`s; in a family its losses."""
        if prediction.shape != y.shape or not np.isfinite(prediction).all():
            raise ValueError(f"predictions of shape {prediction.shape} for {len(y)} rows must be finite, one per row")
        cell = codes if fold is None else codes + n_tasks * fold
        k = 1 if fold is None else int(fold.max()) + 1
        each = (prediction - y) ** 2 if family.is_plain else family.score(y, family.predictor(prediction))
        squared = np.bincount(cell, each, minlength=k * n_tasks)
        rows = np.bincount(cell, minlength=k * n_tasks).astype(float)
        return cls(squared.reshape(k, n_tasks), rows.reshape(k, n_tasks), family.is_plain)

    def only(self, folds: range) -> Errors:
        """The errors on some folds, which follow each other."""
        part = slice(folds.start, folds.stop)
        return replace(self, squared=self.squared[part], rows=self.rows[part])

    @property
    def task_rows(self) -> Array:
        """Rows of every task (T,)."""
        return self.rows.sum(axis=0)

    def by_task(self) -> Array:
        """Root mean squared error of every task (T,); NaN for tasks without rows."""
        squared = self.squared.sum(axis=0)
        return rmse(squared, self.task_rows) if self.roots else means(squared, self.task_rows)

    def by_fold(self) -> Array:
        """Root mean squared error of every fold (k,)."""
        mean = self.squared.sum(axis=1) / np.maximum(self.rows.sum(axis=1), 1.0)
        return np.sqrt(mean) if self.roots else mean

    def pooled(self) -> float:
        """Root mean squared error over all rows."""
        mean = float(self.squared.sum() / self.rows.sum())
        return float(np.sqrt(mean)) if self.roots else mean

    def tasks(self) -> float:
        """Mean over tasks of their root mean squared errors."""
        return float(np.nanmean(self.by_task()))

    def tasks_error(self) -> float:
        """Standard error over tasks of `tasks`."""
        values = self.by_task()[self.task_rows > 0]
        return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")

    def pooled_error(self) -> float:
        """Standard error of `pooled`, tasks being drawn as a whole."""
        squared = self.squared.sum(axis=0)
        rows = self.task_rows
        T = int((rows > 0).sum())
        if T < 2 or squared.sum() == 0:
            return 0.0 if squared.sum() == 0 else float("nan")
        # The delta method for a ratio of sums over tasks, then for its root.
        excess = squared - rows * squared.sum() / rows.sum()
        of_mean = float(np.sqrt(T / (T - 1) * np.square(excess).sum()) / rows.sum())
        return of_mean / (2 * self.pooled()) if self.roots else of_mean

    def among(self, tasks: NDArray[np.bool_]) -> Errors:
        """The errors of some tasks, as if the others had no rows."""
        return replace(self, squared=np.where(tasks, self.squared, 0.0), rows=np.where(tasks, self.rows, 0.0))

    def chance_of_rise(self, over: Errors) -> Array:
        """Probability (T,) that a task's error lies so far above that of the other by chance; NaN below three folds.

        A paired t-test over the folds in which the task has rows, on the differences of the mean squared errors.
        """
        held = self.rows > 0
        k = held.sum(axis=0)
        with np.errstate(invalid="ignore", over="ignore"):  # errors of a fit that failed are infinite, or nearly so
            rise = np.divide(self.squared - over.squared, self.rows, out=np.zeros(self.rows.shape), where=held)
            mean = rise.sum(axis=0) / np.maximum(k, 1)
            scatter = np.square(np.where(held, rise - mean, 0.0)).sum(axis=0)
        error = np.sqrt(scatter / np.maximum(k * (k - 1), 1))
        with np.errstate(over="ignore"):  # equal in all folds
            t = mean / np.maximum(error, TINY)
        return np.where(k >= LEAST_FOLDS, stats.t.sf(t, np.maximum(k - 1, 1)), np.nan)

    def gain_over(self, other: Self, *, shared: bool = False, level: float | None = None) -> Gain:
        """What this gains over the other, on the same rows; `shared` if tasks have the same rows held out.

        It is relative to the error of the other, or to a given `level`.
        """
        before = other.squared if shared else other.squared.sum(axis=0)
        after = self.squared if shared else self.squared.sum(axis=0)
        return paired_gain(before, after, self.task_rows, level, roots=self.roots)


def rmse(squared: Array, rows: Array) -> Array:
    """Roots of mean squares; NaN without rows."""
    return np.sqrt(means(squared, rows))


def means(sums: Array, rows: Array) -> Array:
    """Means of what is not negative; NaN without rows."""
    return np.divide(np.maximum(sums, 0.0), rows, out=np.full(np.shape(sums), np.nan), where=rows > 0)


def chain_of_gains(errors: dict[str, Errors], *, shared: bool, left_out: float = 0.0) -> dict[str, Gain]:
    """What every step of a chain gains, in units of the error at its start: the steps add up to the whole.

    `errors` has the errors after every step by its name, those at the start first; a fold leaves out the share
    `left_out` of the rows. Curves are judged by ridges of the same rows.

    Examples
    --------
    >>> start, curves, sharing = (Errors(np.full((1, 4), s), np.ones((1, 4))) for s in (1.0, 0.25, 0.16))
    >>> found = chain_of_gains({"start": start, "curves": curves, "sharing": sharing}, shared=False)
    >>> {name: round(gain.mean, 3) for name, gain in found.items()}
    {'curves': 0.5, 'sharing': 0.1}
    """
    (_, start), *steps = errors.items()
    gains = {}
    before = start
    for name, after in steps:
        gain = NO_GAIN if after is before else after.gain_over(before, shared=shared, level=start.tasks())
        gains[name] = gain if name == "curves" else gain.of_fewer_rows(gain.mean, left_out)
        before = after
    return gains


def paired_gain(before: Array, after: Array, rows: Array, level: float | None = None, *, roots: bool = True) -> Gain:
    """Relative fall of the RMSE, mean over tasks, with its standard error over tasks; or of mean losses, not `roots`.

    It is relative to the mean of the RMSE before, or to a given `level`.

    Errors (k, T) by folds that are common to all tasks vary with the fold as well: what all tasks gain or lose in one
    fold counts as one observation then (a variance clustered both ways).
    """
    seen = rows > TINY
    if not seen.any():
        return Gain(0.0, np.inf)
    n = rows[seen]
    before = np.atleast_2d(before)[:, seen]
    after = np.atleast_2d(after)[:, seen]
    one = before.sum(axis=0) / n
    two = after.sum(axis=0) / n
    scale: Array | float = 1.0  # of a difference of means, to that of what people read
    if roots:
        one = np.sqrt(one)
        two = np.sqrt(two)
        scale = one + two
    # Where there was no error before, any is a loss beyond measure.
    level = max(float(one.mean()) if level is None else level, LEAST_LEVEL * float(two.mean()), TINY)
    gain = (one - two) / level
    if len(gain) < 2:
        return Gain(float(gain.mean()), np.inf)
    variance = gain.var(ddof=1) / len(gain)
    if len(before) > 1:
        cells = (before - after) / np.maximum(scale * n, TINY) / (level * len(gain))  # they add up to the gain
        variance += max(0.0, len(cells) * float(cells.sum(axis=1).var(ddof=1)) - float(np.square(cells).sum()))
    return Gain(float(gain.mean()), float(np.sqrt(variance)))
