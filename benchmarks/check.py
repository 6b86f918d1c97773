"""Times of kinfolk over those of its peers, beside the recorded ones: fails where one is worse by half.

    python benchmarks/check.py              compare with benchmarks/recorded.json
    python benchmarks/check.py --record     write it anew

Both sides of a ratio run in one process, one after the other, on one BLAS thread, and processor time counts: so the
ratio depends little on the machine. Single rows are over the time of scikit-learn's Ridge for the same row.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path

import numpy as np
from sklearn.linear_model import Ridge

from fit import ridge_loop, table
from kinfolk import GAMTL, GAMTLCV
from kinfolk.datasets import load_parkinsons
from kinfolk.threads import single_threaded
from serving import measured, seconds
from tune import grid_loop

RECORDED = Path(__file__).with_name("recorded.json")
WORSE = 1.5


def small_table(T=85, rows=461, d=3):
    rng = np.random.default_rng(0)
    task = np.sort(np.concatenate([np.arange(T), rng.integers(T, size=rows - T)]))
    X = rng.normal(size=(rows, d))
    W = rng.normal(size=d) + 0.5 * rng.normal(size=(T, d))
    return np.column_stack([task, X]), np.einsum("nd,nd->n", X, W[task]) + rng.normal(size=rows)


def ratios():
    """Name -> our time over the peer's."""
    found = {}
    patients = load_parkinsons(inputs="voice+time", demographics=True)
    loop = seconds(lambda: grid_loop(patients), 2)
    tuned = seconds(lambda: GAMTLCV(task=patients.task).fit(patients.data, patients.target), 2)
    found["GAMTLCV on Parkinson / loop of GridSearchCV(Ridge)"] = tuned / loop
    X, y = small_table()
    small = seconds(lambda: GAMTLCV(task=0).fit(X, y), 2)
    found["GAMTLCV, 461 rows in 85 tasks / loop of GridSearchCV(Ridge) on Parkinson"] = small / loop
    for T, rows in ((1000, 20_000), (10_000, 200_000)):
        X, y = table(T, rows, 20)
        ours = seconds(lambda X=X, y=y: GAMTL(task=0).fit(X, y), 2)
        found[f"GAMTL at {T:,} tasks / Ridge loop"] = ours / seconds(lambda X=X, y=y: ridge_loop(X, y), 2)
    one = Ridge().fit(np.eye(10), np.arange(10))
    row = np.ones((1, 10))
    unit = seconds(lambda: [one.predict(row) for _ in range(300)]) / 300 * 1e3
    for name, value in measured(1000).items():
        found[f"{name}, 1,000 tasks / predict of one Ridge"] = value / unit
    return found


def main():
    warnings.simplefilter("ignore")
    with single_threaded():
        found = ratios()
    if "--record" in sys.argv:
        RECORDED.write_text(json.dumps({name: float(f"{value:.3g}") for name, value in found.items()}, indent=2) + "\n")
    recorded = json.loads(RECORDED.read_text())
    worse = [name for name, value in found.items() if value > WORSE * recorded.get(name, np.inf)]
    for name, value in found.items():
        mark = "  WORSE" if name in worse else ""
        print(f"{name:80s} {value:9.3g}  recorded {recorded.get(name, float('nan')):9.3g}{mark}")
    sys.exit(f"{len(worse)} ratios are worse by half than recorded" if worse else 0)


if __name__ == "__main__":
    main()
