"""How far beyond the training rows a line is trusted: limits to which the features of new rows are clipped.

One input far outside the range that fit saw makes a linear model predict nonsense; a trend in time goes on. Which of
the two a column is, its own ends tell: without the rows in the outer third of its range, is the line that the others
give nearer to these rows than the value at the edge?
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kinfolk.methods.couplings import ToMean
from kinfolk.rows.gram import TINY, Array, GramStats
from kinfolk.solvers.equations import normal_equations
from kinfolk.solvers.ridge import typical_eigenvalue

# Set on the tables of benchmarks/arena.py marked "tuned"; docs/maths.md has the numbers.
MARGIN = 0.25  # of the range, beyond either end
TRUSTED = 1.0  # the same at an end where the line has shown to hold
END = 1 / 3  # of the range, held out
LEAST_RANGE = 30  # rows below which the range says little about what may come
LEAST_ROWS = 10
LEAST_TASKS = 3
ROUNDING = 1e-9
MOST_ROWS = 20_000  # of the trial; more rows are represented by every k-th task
RIDGE = 0.02  # on the mean that tasks are shrunk to in the trial


def trusted_limits(X: Array, y: Array, codes: NDArray[np.intp]) -> Array:
    """Least and largest value (2, d) of every feature to predict with; infinite for features that never vary."""
    low = X.min(axis=0)
    high = X.max(axis=0)
    size = high - low
    if len(X) < LEAST_RANGE:
        return np.array([[-np.inf], [np.inf]]) + np.zeros_like(size)
    step = max(1, len(y) // MOST_ROWS)
    sample = codes % step == 0
    trial = _Trial(X[sample] / np.where(size > 0, size, 1.0), y[sample], codes[sample] // step)
    margin = np.array([[trial.margin(j, sign) for j in range(X.shape[1])] for sign in (-1.0, 1.0)])
    limits = np.array([low, high]) + np.array([[-1.0], [1.0]]) * margin * size
    return np.where(size > 0, limits, np.array([[-np.inf], [np.inf]]))


class _Trial:
    """Rows of features whose ranges are 1, to be cut at an end of one of them."""

    def __init__(self, X: Array, y: Array, codes: NDArray[np.intp]) -> None:
        self.X = X
        self.y = y
        self.codes = codes

    def margin(self, feature: int, sign: float) -> float:
        """The margin at the upper (sign 1) or lower (-1) end of a feature."""
        x = sign * self.X[:, feature]
        if not len(x) or len(np.unique(x[:1000])) < 3:
            return MARGIN
        outer = x >= x.max() - END - ROUNDING  # of evenly spaced times the one at the edge counts
        kept = np.bincount(self.codes[~outer], minlength=self.codes.max() + 1)
        judged = outer & (kept[self.codes] > 0)
        tasks = np.unique(self.codes[judged])
        if judged.sum() < LEAST_ROWS or len(tasks) < LEAST_TASKS or outer.sum() > (1 - END) * len(x):
            return MARGIN
        W, c = self._lines(~outer)
        t = self.codes[judged]
        off = self.y[judged] - c[t] - np.einsum("nd,nd->n", self.X[judged], W[t])
        # Held at the edge the prediction lacks what the line adds beyond it.
        beyond = W[t, feature] * sign * (x[judged] - x[~outer].max())
        better = np.bincount(t, (off + beyond) ** 2 - off**2)[tasks]
        return TRUSTED if better.sum() > np.sqrt(len(tasks)) * better.std() + TINY else MARGIN

    def _lines(self, rows: NDArray[np.bool_]) -> tuple[Array, Array]:
        """Lines of all tasks, shrunk halfway to their mean, which needs no tuning."""
        T = int(self.codes.max()) + 1
        gram = GramStats.from_codes(self.X[rows], self.y[rows], self.codes[rows], np.arange(T))
        equations = normal_equations(gram, "free")
        pull = max(typical_eigenvalue(gram), TINY)
        V = ToMean(pull, RIDGE * pull).inverse(equations).unknowns(equations.b)
        return equations.coefficients(V)
