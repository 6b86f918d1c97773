"""How far beyond the training rows a line is trusted: limits to which the features of new rows are clipped.

One input far outside the range that fit saw makes a linear model predict nonsense; a trend in time goes on. Which of
the two a column is, its own ends tell: without the rows in the outer third of its range, is the line that the others
give nearer to these rows than the value at the edge?
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.rows.gram import TINY, Array, GramStats
from kinfolk.solvers.batched import ridge_alone, row_dots
from kinfolk.solvers.ridge import own_intercepts, typical_eigenvalue

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
        self.gram = self._statistics(np.ones(len(y), bool))
        self.typical = typical_eigenvalue(self.gram)  # what the features of a task weigh

    def _statistics(self, rows: NDArray[np.bool_]) -> GramStats:
        tasks = np.arange(int(self.codes.max(initial=-1)) + 1)
        return GramStats.from_codes(self.X[rows], self.y[rows], self.codes[rows], tasks)

    def margin(self, feature: int, sign: float) -> float:
        """The margin at the upper (sign 1) or lower (-1) end of a feature."""
        x = sign * self.X[:, feature]
        if not len(x) or len(np.unique(x[:1000])) < 3:
            return CLIPPED_AT
        inner = x < x.max() - END - ROUNDED  # of evenly spaced times the one at the edge counts as outer
        judged = ~inner & np.isin(self.codes, self.codes[inner])
        tasks, t = np.unique(self.codes[judged], return_inverse=True)
        if len(t) < LEAST_ROWS or len(tasks) < LEAST_TASKS or inner.sum() < END * len(x):
            return CLIPPED_AT
        W, c = self.lines(inner)
        at = self.codes[judged]
        off = self.y[judged] - c[at] - row_dots(self.X[judged], W[at])
        # Held at the edge the prediction lacks what the line adds beyond it.
        beyond = W[at, feature] * sign * (x[judged] - x[inner].max())
        better = np.bincount(t, (off + beyond) ** 2 - off**2)
        return TRUSTED if better.sum() > np.sqrt(len(tasks)) * better.std() + TINY else CLIPPED_AT

    def lines(self, inner: NDArray[np.bool_]) -> tuple[Array, Array]:
        """Slopes (T, d) and intercepts (T,) of the inner rows, halfway to the line of all tasks: no need to tune."""
        gram = self.gram - self._statistics(~inner)
        G = gram.G.mean(axis=0)
        own = float(np.trace(G)) / len(G)
        penalty = own if own > ROUNDED * self.typical else self.typical
        common = ridge_alone(G[None], gram.b.mean(axis=0)[None], RIDGE * penalty)
        W = ridge_alone(gram.G, gram.b + penalty * common, penalty)
        return W, own_intercepts(gram, W)
