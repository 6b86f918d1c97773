"""Missing values inside folds: filled in by the mean of the rows that train, through a change of basis of statistics.

A column with gaps comes with a second one that marks them. Filling in c' in place of c adds c' - c times the mark to
the column: the features become X A. So no row is needed, and in every door, files and clusters too, a fold is judged by
what its training rows know.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.rows.folds import Folds
from kinfolk.rows.gram import NO_ROWS, Array, GramStats


class Gap(NamedTuple):
    """A feature with missing values: its place, the place of the feature that marks them, and what was filled in."""

    feature: int
    mark: int
    value: float


def refilled(folds: Folds, gaps: Sequence[Gap]) -> Folds:
    """The folds with the fill-in values of their training rows.

    Examples
    --------
    >>> X = np.array([[1.0, 0.0], [3.0, 1.0], [5.0, 0.0], [3.0, 1.0]])  # the second and the last value are missing
    >>> folds = Folds.of_rows(X, np.ones(4), np.zeros(4, int), np.array(["a"]), np.array([0, 0, 1, 1]))
    >>> refilled(folds, [Gap(0, 1, 3.0)]).training(0).x_mean  # of 5 and 5
    array([[5. , 0.5]])
    """
    if not gaps:
        return folds
    own = [folds.training(f) for f in range(len(folds))]
    changes = [_change(part, gaps) for part in own]
    held_out = [part.mapped(A) for part, A in zip(folds.held_out, changes, strict=True)]
    training = [part.mapped(A) for part, A in zip(own, changes, strict=True)]
    return replace(folds, held_out=tuple(held_out), own=tuple(training))


def filled_in(X: Array, gaps: Sequence[Gap], known: NDArray[np.bool_], weight: Array | None = None) -> Array:
    """The same for rows: X with gaps filled in by the means of the rows that are `known`."""
    if not gaps:
        return X
    filled = X.copy()
    w = np.where(known, 1.0 if weight is None else weight, 0.0)
    for feature, mark, value in gaps:
        there = w * (1 - X[:, mark])
        if there.sum() > NO_ROWS * w.sum():
            filled[:, feature] += X[:, mark] * (there @ X[:, feature] / there.sum() - value)
    return filled


def _change(gram: GramStats, gaps: Sequence[Gap]) -> Array:
    """A, by which X A are the features with gaps filled in by the means of these rows."""
    A = np.eye(gram.n_features)
    n = gram.n.sum()
    sums = gram.n @ gram.x_mean
    for feature, mark, value in gaps:
        there = n - sums[mark]
        if there > NO_ROWS * n:
            A[mark, feature] = (sums[feature] - value * sums[mark]) / there - value
    return A
