"""The share of a trunk beyond the rows of fit: what it earns on rows at an end of a feature, when these are held out.

Trees know no trend, and folds of random rows say how well gaps are filled, not what comes after the last row. So at an
end where lines have shown to hold, lines and trunk are fitted to the rows away from it and predict those at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.methods.extrapolation import END, LEAST_ROWS, LEAST_TASKS, MOST_ROWS, ROUNDED
from kinfolk.methods.gamtl.defaults import feature_scale
from kinfolk.rows.gram import TINY, Array
from kinfolk.search.rbf_search import TaskRows
from kinfolk.solvers.mixed import mixed_model

MOST_ENDS = 6  # that are tried, those with the most rows

Mask = NDArray[np.bool_]


class _End(NamedTuple):
    """The upper (side 1) or lower (0) end of a feature: the rows that are fitted to, and those that are predicted."""

    side: int
    feature: int
    inner: Mask
    judged: Mask


def shares_beyond(data: TaskRows, reach: Array, predict: Callable[[Mask, Mask], Array]) -> Array:
    """The share (2, d) of a trunk beyond every finite end of `reach`; NaN where it cannot be tried.

    `predict` has the trunk's predictions for the rows of its second mask, fitted to those of the first.
    """
    found = np.full(reach.shape, np.nan)
    # Among many rows every k-th task represents them.
    sample = data.codes % max(1, len(data.y) // MOST_ROWS) == 0
    ends = [_end_of(data, sample, int(side), int(j)) for side, j in np.argwhere(np.isfinite(reach))]
    known = [end for end in ends if end is not None]
    for end in sorted(known, key=lambda one: -int(one.judged.sum()))[:MOST_ENDS]:
        lines = _of_slopes(data, end)
        apart = predict(end.inner, end.judged) - lines
        weighted = apart if data.weight is None else data.weight[end.judged] * apart
        share = weighted @ (data.y[end.judged] - lines) / max(float(weighted @ apart), TINY)
        found[end.side, end.feature] = np.clip(share, 0.0, 1.0)
    return found


def _end_of(data: TaskRows, sample: Mask, side: int, feature: int) -> _End | None:
    """The rows in the outer third of a feature's range; None where there are too few of them, or of the others."""
    x = data.X[:, feature] if side else -data.X[:, feature]
    outer = x >= x.max() - (END + ROUNDED) * np.ptp(x)
    inner = sample & ~outer
    rows = np.bincount(data.codes[inner], minlength=len(data.labels))
    judged = sample & outer & (rows[data.codes] > 0)
    few = judged.sum() < LEAST_ROWS or len(np.unique(data.codes[judged])) < LEAST_TASKS
    return None if few or inner.sum() < END * sample.sum() else _End(side, feature, inner, judged)


def _of_slopes(data: TaskRows, end: _End) -> Array:
    """What random slopes of the inner rows predict for those at the end; curves are nearly lines beyond their rows."""
    gram = data.gram(data.X, end.inner).with_rows()
    scale = feature_scale(gram)
    model = mixed_model(gram.rescaled(scale))
    t = np.searchsorted(gram.labels, data.labels[data.codes[end.judged]])
    return np.asarray(model.intercept[t] + np.einsum("nd,nd->n", data.X[end.judged] / scale, model.coef[t]))
