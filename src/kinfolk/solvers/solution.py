"""The one record that every inner solver returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Solution:
    """What a solver found, and the evidence for it.

    Attributes
    ----------
    value : the answer (an array or a sparse matrix)
    n_iter : iterations used; 0 for a direct solve
    residual : relative optimality residual or duality gap at `value`
    converged : whether `residual` met the tolerance
    method : the solver that ran, and how, in words: `auto` says here what it chose
    dual : multipliers for a warm start, or None
    certified : share of tasks for which optimality is proven over all pairs, not only over those tried
    history : the objective at the start and at every step or check that followed, or empty
    details : what else a solver reports, by name: parts of the residual, multipliers, inner iterations
    """

    value: Any
    n_iter: int
    residual: float
    converged: bool
    method: str = ""
    dual: NDArray[np.float64] | None = None
    certified: float = 1.0
    history: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    details: dict[str, Any] = field(default_factory=dict)
