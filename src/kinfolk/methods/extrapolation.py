"""How far beyond the training rows a line is trusted: limits to which the features of new rows are clipped.

One input far outside the range that fit saw makes a linear model predict nonsense; a trend in time goes on. Which of
the two a column is, its own ends tell: without the rows in the outer third of its range, is the line that the others
give nearer to these rows than the value at the edge?
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.rows.gram import TINY, Array, GramStats
from kinfolk.rows.moments import runs, sorted_by_slot
from kinfolk.solvers.batched import ridge_alone, row_dots, solve_each
from kinfolk.solvers.ridge import typical_eigenvalue

# Set on the tables of benchmarks/arena.py marked "tuned"; docs/lab-book.md has the numbers.
CLIPPED_AT = 0.25  # of the range, beyond either end
TRUSTED = 1.0  # the same at an end where the line has shown to hold
END = 1 / 3  # of the range, held out
LEAST_RANGE = 30  # rows below which the range says little about what may come
LEAST_ROWS = 10
LEAST_TASKS = 3
ROUNDED = 1e-9  # of the range, and of the typical curvature: what is smaller is rounding
MOST_ROWS = 20_000  # of the trial; more rows are represented by every k-th task
MOST_WORK = 4e7  # multiplications in the lines of the trial: 30 ms; more features or tasks are represented likewise
RIDGE = 0.02  # on the line of all tasks in the trial


def trusted_limits(X: Array, y: Array, codes: NDArray[np.intp]) -> Array:
    """Least and largest value (2, d) of every feature to predict with; infinite for features that never vary."""
    span = np.array([X.min(axis=0), X.max(axis=0)])
    size = span[1] - span[0]
    if len(X) < LEAST_RANGE:
        return np.array([[-np.inf], [np.inf]]) + np.zeros_like(size)
    return _widened(span, _margins(X, np.where(size > 0, size, 1.0), y, codes))


def limits_from(gram: GramStats) -> Array | None:
    """The same from statistics: lines cannot be tried at the ends, so that each has the margin of one that holds."""
    if gram.span is None or gram.n.sum() < LEAST_RANGE:
        return None
    return _widened(gram.span, TRUSTED)


def _widened(span: Array, margin: Any) -> Array:
    """Limits that lie `margin` times the range beyond it; infinite for features that never vary."""
    size = span[1] - span[0]
    limits = span + np.array([[-1.0], [1.0]]) * margin * size
    return np.where(size > 0, limits, np.array([[-np.inf], [np.inf]]))


def where_lines_hold(X: Array, limits: Array) -> Array:
    """The range of features (2, d) at the ends beyond which lines have shown to hold; infinite at the others."""
    ends = np.array([X.min(axis=0), X.max(axis=0)])
    size = ends[1] - ends[0]
    # Of a feature that never varies nobody knows anything.
    hold = (size > 0) & (np.abs(limits - ends) > (CLIPPED_AT + TRUSTED) / 2 * size)
    return np.where(hold, ends, np.array([[-np.inf], [np.inf]]))


def _margins(X: Array, size: Array, y: Array, codes: NDArray[np.intp]) -> Array:
    """The margins (2, d) at the lower and the upper ends of features whose ranges are `size`."""
    d = X.shape[1]
    T = int(codes.max()) + 1
    # At every end lines of all tasks, and statistics of some of the rows, whose products take a tenth of the time.
    work = 2 * d * (0.1 * len(y) * d**2 + T * d**3)
    step = max(1, len(y) // MOST_ROWS, int(np.ceil(work / MOST_WORK)))
    if LEAST_TASKS * step > T:
        return np.full((2, d), CLIPPED_AT)
    sample = codes % step == 0
    trial = _Trial(X[sample] / size, y[sample], codes[sample] // step)
    return np.array([[trial.margin(j, sign) for j in range(d)] for sign in (-1.0, 1.0)])


class _Trial:
    """Rows of features whose ranges are 1, to be cut at an end of one of them."""

    def __init__(self, X: Array, y: Array, codes: NDArray[np.intp]) -> None:
        self.X = X
        self.y = y
        self.codes = codes

    @cached_property
    def gram(self) -> GramStats:
        """Statistics of all its rows."""
        return GramStats.from_codes(self.X, self.y, self.codes, np.arange(int(self.codes.max()) + 1))

    @cached_property
    def typical(self) -> float:
        """What the features of a task weigh."""
        return typical_eigenvalue(self.gram)

    @cached_property
    def rows(self) -> Array:
        """Rows (x, 1, y) about the means of their tasks: sums of their products lose no digits."""
        away = self.X - self.gram.x_mean[self.codes]
        return np.column_stack([away, np.ones(len(away)), self.y - self.gram.y_mean[self.codes]])

    @cached_property
    def sums(self) -> Array:
        """Sums of products of the rows of every task, (T, d + 1, d + 2): those of an end are taken away again."""
        present, own = self._sums_of(np.arange(len(self.codes)))
        sums = np.zeros((self.gram.n_tasks, *own.shape[1:]))
        sums[present] = own
        return sums

    @cached_property
    def sum(self) -> Array:
        """The same of all tasks together."""
        return np.asarray(self.sums.sum(axis=0))

    def margin(self, feature: int, sign: float) -> float:
        """The margin at the upper (sign 1) or lower (-1) end of a feature."""
        x = sign * self.X[:, feature]
        if not len(x) or len(np.unique(x[:1000])) < 3:
            return CLIPPED_AT
        inner = x < x.max() - END - ROUNDED  # of evenly spaced times the one at the edge counts as outer
        outer = np.flatnonzero(~inner)
        kept = np.bincount(self.codes[inner], minlength=self.gram.n_tasks)
        judged = outer[kept[self.codes[outer]] > 0]
        place = np.bincount(self.codes[judged], minlength=self.gram.n_tasks)
        if len(judged) < LEAST_ROWS or np.count_nonzero(place) < LEAST_TASKS or len(outer) > (1 - END) * len(x):
            return CLIPPED_AT
        tasks, V = self._lines(outer, judged)
        place[tasks] = np.arange(len(tasks))
        t = place[self.codes[judged]]
        rows = self.rows[judged]
        off = rows[:, -1] - row_dots(rows[:, :-1], V[t])
        # Held at the edge the prediction lacks what the line adds beyond it.
        beyond = V[t, feature] * sign * (x[judged] - x[inner].max())
        better = np.bincount(t, (off + beyond) ** 2 - off**2)
        return TRUSTED if better.sum() > np.sqrt(len(tasks)) * better.std() + TINY else CLIPPED_AT

    def _lines(self, outer: NDArray[np.intp], judged: NDArray[np.intp]) -> tuple[NDArray[np.intp], Array]:
        """The tasks that are judged, and their slopes and intercepts (k, d + 1) without the outer rows.

        Lines are shrunk halfway to that of all tasks, which needs no tuning. Tasks without outer rows have means of 0,
        so that what is left of the sum of all is centred by those that are judged.
        """
        tasks, ends = self._sums_of(judged)
        left = self.sums[tasks] - ends
        d = self.X.shape[1]
        away = left[:, d] / np.sqrt(left[:, d, d])[:, None]
        rows = self.rows[outer]
        S = self.sum - rows[:, :-1].T @ rows - away[:, :-1].T @ away
        G = S[:d, :d] / self.gram.n_tasks
        own = float(np.trace(G)) / d
        penalty = own if own > ROUNDED * self.typical else self.typical
        common = ridge_alone(G[None], S[None, :d, -1] / self.gram.n_tasks, RIDGE * penalty)
        left[:, np.arange(d), np.arange(d)] += penalty
        left[:, :d, -1] += penalty * common
        return tasks, solve_each(left[:, :, :-1], left[:, :, -1])

    def _sums_of(self, some: NDArray[np.intp]) -> tuple[NDArray[np.intp], Array]:
        """The tasks of some rows z = (x, 1, y), and their sums of z z' (k, d + 1, d + 2), without its last row."""
        rows = self.rows[some]
        width = rows.shape[1]
        order, sizes, tasks = sorted_by_slot(self.codes[some])
        sums = np.empty((len(tasks), width - 1, width))
        ends = np.cumsum(sizes)
        for first, last, n in runs(sizes, width):
            here = rows[order[ends[first] - n : ends[last - 1]]].reshape(last - first, n, width)
            sums[first:last] = np.matmul(here[:, :, :-1].transpose(0, 2, 1), here)
        return tasks, sums
