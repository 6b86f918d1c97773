"""Tables with rare categories, the target in many units: `python tests/fuzz/units.py [count]`, see `campaign`.

A fold that holds every row of a category must not know its effect. Training statistics are those of the training rows,
held-out errors those of fits to these rows, and held-out errors and predictions are the same in any unit of the target.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.base import clone

sys.path.insert(0, str(Path(__file__).parent))

import campaign

from kinfolk import GAMTLCV
from kinfolk.methods.ridges import Independent, MeanShrunk
from kinfolk.rows.folds import Folds
from kinfolk.rows.gram import GramStats, squared_errors

UNITS = (1.1, 3.0, 7.7, 1e-3, 1e6)
QUICK = {"strengths": (1.0,), "ridges": (0.1,), "anchors": (0.0,), "nonlinear": False}
DEFAULT = 0.05  # share of the tables that are fitted with everything, which takes twenty times as long


def one(rng: np.random.Generator) -> str:
    """One table; how it was fitted."""
    table, y, fold = drawn(rng)
    honest_statistics(table, y, fold)
    options = {} if rng.random() < DEFAULT else QUICK
    cv = [(np.flatnonzero(fold != f), np.flatnonzero(fold == f)) for f in range(fold.max() + 1)]
    same_in_any_unit(GAMTLCV(task="who", cv=cv, **options), table, y, rng.choice(UNITS))
    return "fitted as by default" if options == {} else "fitted"


def drawn(rng: np.random.Generator) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Tasks with inputs, a rare 0/1 column and a rare category of large effect; often one fold has all rows of it."""
    T = int(rng.integers(3, 8))
    n = int(rng.integers(12 * T, 20 * T))
    k = int(rng.integers(3, 6))
    task = np.arange(n) % T
    fold = rng.permutation(np.arange(n) % k)
    rare = [rng.choice(np.flatnonzero(fold == 0) if rng.random() < 0.7 else n, rng.integers(1, 4), replace=False)]
    rare.append(rng.choice(np.flatnonzero(fold == 1), rng.integers(1, 4), replace=False))
    flag = np.zeros(n)
    flag[rare[0]] = 1.0
    kind = rng.choice(["p", "q"], size=n).astype(object)
    kind[rare[1]] = "rare"
    x = rng.normal(size=n)
    y = x + rng.normal(size=T)[task] + rng.normal() * 10 * flag + rng.normal() * 10 * (kind == "rare")
    table = pd.DataFrame({"who": [f"t{t}" for t in task], "x": x, "flag": flag, "kind": kind})
    return table, y + 0.3 * rng.normal(size=n), fold


def honest_statistics(table: pd.DataFrame, y: np.ndarray, fold: np.ndarray) -> None:
    """Training statistics and held-out errors are those that come from the training rows alone."""
    X = np.column_stack([table["x"], table["flag"], table["kind"] == "rare"]).astype(float)
    labels, codes = np.unique(table["who"], return_inverse=True)
    folds = Folds.of_rows(X, y, codes, labels, fold)
    for f, held_out in enumerate(folds.held_out):
        kept = fold != f
        fresh = GramStats.from_codes(X[kept], y[kept], codes[kept], labels)
        added = folds.training(f)
        for field in ("G", "b", "yy"):
            expected = getattr(fresh, field)
            np.testing.assert_allclose(getattr(added, field), expected, rtol=1e-9, atol=1e-12 * np.abs(y).max())
            # What does not vary in the training rows is exactly nothing: rounding has a sign and a size to learn from.
            assert not getattr(added, field)[expected == 0].any()
        for method in (Independent(), MeanShrunk()):
            one, two = (method.fit_gram(gram) for gram in (added, fresh))
            errors = [squared_errors(held_out, model.coef_, model.intercept_) for model in (one, two)]
            np.testing.assert_allclose(errors[0], errors[1], rtol=1e-9)


def same_in_any_unit(model: GAMTLCV, table: pd.DataFrame, y: np.ndarray, unit: float) -> None:
    """Held-out errors and predictions of the target times `unit` are those of the target, times it."""
    plain, other = (clone(model).fit(table, factor * y) for factor in (1.0, unit))
    for field in ("cv_errors_", "limit_errors_", "own_errors_"):
        expected = unit * getattr(plain, field)
        np.testing.assert_allclose(getattr(other, field), expected, rtol=0, atol=1e-9 * expected.max())
    first, second = (found.predict(table) for found in (plain, other))
    np.testing.assert_allclose(second / unit, first, rtol=0, atol=1e-9 * np.ptp(y))


if __name__ == "__main__":
    sys.exit(campaign.main("units of the target", one, count=1000))
