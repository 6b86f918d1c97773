"""The ends of features: rows in the outer part of a range, to be predicted by what the others give.

Folds of random rows say how well gaps are filled, not what comes after the last row. Trials at an end do.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.methods.extrapolation import END, LEAST_ROWS, LEAST_TASKS, MOST_ROWS, ROUNDED
from kinfolk.methods.gamtl.calibrate import mixed_model
from kinfolk.methods.gamtl.defaults import feature_scale
from kinfolk.methods.rbf_search import TaskRows
from kinfolk.rows.gram import Array
from kinfolk.solvers.tolerances import MIXED_MODEL

MOST_ENDS = 6  # that are tried, those with the most rows

Mask = NDArray[np.bool_]


class End(NamedTuple):
    """The upper (side 1) or lower (0) end of a feature: the rows that are fitted to, and those that are predicted."""

    side: int
    feature: int
    inner: Mask
    judged: Mask


def ends_of(data: TaskRows, wanted: Iterable[tuple[int, int]], share: float = END) -> list[End]:
    """The ends (side, feature) that have rows enough to be tried, those with the most rows first.

    An end is the rows in the outer `share` of the feature's range.
    """
    # Among many rows every k-th task represents them.
    sample = data.codes % max(1, len(data.y) // MOST_ROWS) == 0
    found = [_end_of(data, sample, int(side), int(feature), share) for side, feature in wanted]
    known = [end for end in found if end is not None]
    return sorted(known, key=lambda one: -int(one.judged.sum()))[:MOST_ENDS]


def _end_of(data: TaskRows, sample: Mask, side: int, feature: int, share: float) -> End | None:
    """One of them; None where there are too few rows, or too few others."""
    x = data.X[:, feature] if side else -data.X[:, feature]
    outer = x >= x.max() - (share + ROUNDED) * np.ptp(x)
    inner = sample & ~outer
    rows = np.bincount(data.codes[inner], minlength=len(data.labels))
    judged = sample & outer & (rows[data.codes] > 0)
    few = judged.sum() < LEAST_ROWS or len(np.unique(data.codes[judged])) < LEAST_TASKS
    return None if few or inner.sum() < END * sample.sum() else End(side, feature, inner, judged)


def slopes_at(data: TaskRows, end: End) -> Array:
    """What random slopes of the inner rows predict for those at the end."""
    gram = data.gram(data.X, end.inner).with_rows()
    scale = feature_scale(gram)
    model = mixed_model(gram.rescaled(scale), "diagonal", "random", MIXED_MODEL)
    t = np.searchsorted(gram.labels, data.labels[data.codes[end.judged]])
    return np.asarray(model.intercept[t] + np.einsum("nd,nd->n", data.X[end.judged] / scale, model.coef[t]))
