"""A walk: what a task's level does along an input such as the year, value by value, and not only as a smooth curve.

Rows of a panel come at times that tasks share, one row per task and time. What is left of their lines then wanders:
neighbouring times differ little, and all tasks may have had a bad year. A Wiener process says just that. Its smoothest
terms are features like others, so that a mixed model finds the walk that tasks share and how far each leaves it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.declared import holds
from kinfolk.rows.gram import Array

FEWEST_VALUES = 4  # of an input with a walk: with fewer a line and its bend say all
LEAST_ROWS = 3  # at a knot
MOST_KNOTS = 200  # more values are represented by every k-th
# Set on the tables of benchmarks/arena.py marked "tuned"; docs/lab-book.md has the numbers.
MOST_TERMS = 24
FADE = 1.0  # of the range, beyond its ends, over which a walk or a curve returns to its line, by a factor of e
EVEN = 0.5  # sd of the steps of a time over their mean: that of months is 0.03, of values drawn at random 1 and more
NEGLIGIBLE = 1e-9  # of the largest variance of a term: what is smaller is rounding


@holds(knots="K ascending", values="K q")
class Walk(NamedTuple):
    """Terms of a Wiener process along an input: at `knots` (K,) the k-th is column k of `values` (K, q).

    Between knots they are linear. They have no line of their own and the variances of the process, so the smoothest
    comes first and is the largest.
    """

    knots: Array
    values: Array

    @classmethod
    def along(cls, x: Array) -> Walk:
        """The walk along the values of x that several rows share.

        Examples
        --------
        Four times: what is left beside a line are two terms, a bend and a ripple of less variance.

        >>> walk = Walk.along(np.tile([1.0, 2.0, 3.0, 4.0], 3))
        >>> walk.knots, walk.values.round(1).T
        (array([1., 2., 3., 4.]), array([[ 1. , -1. , -1. ,  1. ],
               [-0.3,  1. , -1. ,  0.3]]))
        """
        knots = shared_values(x)
        if len(knots) < FEWEST_VALUES:
            raise ValueError(
                f"a walk needs {FEWEST_VALUES} values that {LEAST_ROWS} rows share each, and there are {len(knots)}"
            )
        if len(knots) > MOST_KNOTS:
            knots = knots[np.linspace(0, len(knots) - 1, MOST_KNOTS).round().astype(np.intp)]
        u = (knots - knots[0]) / (knots[-1] - knots[0])
        line = np.column_stack([np.ones(len(u)), u])
        beside = np.eye(len(u)) - line @ np.linalg.pinv(line)
        # Times u and v of the process have the covariance min(u, v).
        variance, term = np.linalg.eigh(beside @ np.minimum(u[:, None], u) @ beside)
        kept = np.flatnonzero(variance > NEGLIGIBLE * variance[-1])[::-1][:MOST_TERMS]
        size = np.sqrt(len(u) * variance[kept] / variance[-1])
        # Eigenvectors have no sign of their own: every term ends above 0.
        return cls(knots, size * np.where(term[-1, kept] < 0, -1.0, 1.0) * term[:, kept])

    def among(self, x: Array) -> Walk:
        """The walk along other values, with as many terms; those that so few values do not have are 0."""
        found = Walk.along(x) if len(shared_values(x)) >= FEWEST_VALUES else Walk(self.knots, self.values[:, :0])
        values = np.zeros((len(found.knots), self.values.shape[1]))
        kept = found.values[:, : values.shape[1]]
        values[:, : kept.shape[1]] = kept
        return found._replace(values=values)

    def terms(self, x: Array) -> Array:
        """The terms (n, q) at values x (n,); beyond the knots those of the end, which fade as curves do."""
        low, high = self.knots[[0, -1]]
        inside = np.clip(x, low, high)
        left = np.clip(np.searchsorted(self.knots, inside) - 1, 0, len(self.knots) - 2)
        way = ((inside - self.knots[left]) / (self.knots[left + 1] - self.knots[left]))[:, None]
        there = (1 - way) * self.values[left] + way * self.values[left + 1]
        return np.asarray(there * np.exp(-np.abs(x - inside) / (FADE * (high - low)))[:, None])


def shared_values(x: Array) -> Array:
    """The values that some rows have in common: what a single row has at a value of its own is no walk of all.

    >>> shared_values(np.array([1.0, 2.0, 1.0, 1.0]))
    array([1.])
    """
    values, count = np.unique(x, return_counts=True)
    return np.asarray(values[count >= LEAST_ROWS])


def walk_column(X: Array, codes: NDArray[np.intp]) -> int | None:
    """The input by which the rows of every task follow each other, at values that tasks share; None without one.

    Every task has a value once at most, and half of the rows or more are at values of several tasks. A season or a
    logarithm of the time does so too: of such inputs it is the one whose values have the most even steps. Where most
    inputs are like that, tasks share their inputs: then only nearly even steps tell a time from any other input.

    Examples
    --------
    >>> year = np.tile(np.arange(2000.0, 2005.0), 3)
    >>> walk_column(np.column_stack([np.arange(15.0), np.log(year - 1999), year]), np.repeat([0, 1, 2], 5))
    2
    """
    steps = {}
    several = 0
    for j, x in enumerate(X.T):
        values, place, count = np.unique(x, return_inverse=True, return_counts=True)
        several += len(values) >= FEWEST_VALUES
        shared = count >= LEAST_ROWS
        if shared.sum() < FEWEST_VALUES or 2 * count[shared].sum() < len(x) or not np.isfinite(values[-1] - values[0]):
            continue
        if len(np.unique(codes * len(values) + place.reshape(-1))) == len(x):
            gap = np.diff(values[shared])
            steps[j] = float(gap.std() / gap.mean())
    if not steps:
        return None
    time = min(steps, key=steps.__getitem__)
    return time if len(steps) <= max(several // 2, 1) or steps[time] < EVEN else None
