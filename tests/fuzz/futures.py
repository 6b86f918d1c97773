"""Random panels: the future of each, and rows inside the training range, beside a mixed model of the same rows.

A case fails if an error is above 1.5 times that of the mixed model, or if a prediction inside the training range leaves
the range of the targets by more than its length.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

import campaign

from kinfolk import GAMTLCV
from kinfolk.baselines import RandomSlopes
from panels import draw_panel

MOST = 1.5  # times the error of the mixed model


def one(rng: np.random.Generator) -> str:
    """Fit a panel without a word about time; its later rows, and random rows of its past."""
    panel = draw_panel(int(rng.integers(2**31)))
    X, y, _ = panel.training()
    held_out = rng.random(len(y)) < 0.2
    _compare(X[~held_out], y[~held_out], X[held_out], y[held_out], "rows")
    model = _compare(X, y, panel.table[panel.future], panel.y[panel.future], "later rows")
    inside = model.predict(X)
    length = np.ptp(y)
    assert y.min() - length <= inside.min() and inside.max() <= y.max() + length, "inside the range it leaves the range"
    return "later rows by a model of their own" if model.model_.beyond is not None else "one model"


def _compare(X, y, X_new, y_new, what):
    model = GAMTLCV(task="task", unseen="mean").fit(X, y)
    mixed = RandomSlopes(task="task", unseen="mean").fit(X, y)
    errors = [float(np.sqrt(np.mean((one.predict(X_new) - y_new) ** 2))) for one in (model, mixed)]
    assert errors[0] <= MOST * errors[1], f"{what}: {errors[0]:.3g} beside {errors[1]:.3g} of a mixed model"
    return model


if __name__ == "__main__":
    sys.exit(campaign.main("random panels", one, count=2000))
