"""The share of a trunk beyond the rows of fit: what it earns on rows at an end of a feature, when these are held out.

Trees know no trend. So at an end where lines have shown to hold, lines and trunk are fitted to the rows away from it
and predict those at the end.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kinfolk.methods.ends import Mask, ends_of, slopes_at
from kinfolk.methods.rbf_search import TaskRows
from kinfolk.rows.gram import TINY, Array


def shares_beyond(data: TaskRows, reach: Array, predict: Callable[[Mask, Mask], Array]) -> Array:
    """The share (2, d) of a trunk beyond every finite end of `reach`; NaN where it cannot be tried.

    `predict` has the trunk's predictions for the rows of its second mask, fitted to those of the first.
    """
    found = np.full(reach.shape, np.nan)
    for end in ends_of(data, np.argwhere(np.isfinite(reach))):
        lines = slopes_at(data, end)  # curves are nearly lines beyond their rows
        apart = predict(end.inner, end.judged) - lines
        weighted = apart if data.weight is None else data.weight[end.judged] * apart
        share = weighted @ (data.y[end.judged] - lines) / max(float(weighted @ apart), TINY)
        found[end.side, end.feature] = np.clip(share, 0.0, 1.0)
    return found
