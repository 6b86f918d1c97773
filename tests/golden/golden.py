"""Golden numbers: what fits of some forty tables say, kept so that a change of the code can be compared with them.

    export OPENBLAS_NUM_THREADS=1
    python tests/golden/golden.py write numbers.npz         fit all tables and store what comes out
    python tests/golden/golden.py compare numbers.npz       fit again; the largest relative difference by table and kind
    python tests/golden/golden.py compare numbers.npz --tolerance 1e-10    exit with 1 if one is larger

A move of code must change nothing (1e-10: sums in another order). A rule that is dropped changes coefficients, so the
comparison prints test errors of both as well: tables are made up, and their true means are known.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import pandas as pd

from kinfolk import GAMTL, GAMTLCV, RBFGAMTL
from kinfolk.baselines import METHODS
from kinfolk.datasets import load_car_parks, make_circle, make_groups
from panels import draw_panel
from textbook import LOOK_ALIKES

TEST_ROWS = 400


def groups(seed, shared=False):
    made = make_groups(shared_inputs=shared, random_state=seed)
    return made.data, made.target, made.task, (made.test_data, made.test_target)


def circle(seed):
    made = make_circle(random_state=seed)
    return made.data, made.target, made.task, (made.test_data, made.test_target)


def scatter(seed, T=15, d=4, rows=12, *, bend=0.0, weights=False):
    """Tasks around one mean, with levels; `bend` adds a curve that all share."""
    rng = np.random.default_rng(seed)
    slopes = 1 + rng.normal(size=(T, d))
    level = 3 * rng.normal(size=T)

    def make(n):
        task = np.repeat(np.arange(T), n)
        X = rng.normal(size=(T * n, d))
        mean = (X * slopes[task]).sum(axis=1) + level[task] + bend * np.sin(2 * X[:, 0])
        table = pd.DataFrame(X).add_prefix("x").assign(task=[f"t{t:02d}" for t in task])
        return table, mean + rng.normal(size=len(mean))

    X, y = make(rows)
    test = make(max(TEST_ROWS // T, 1))
    return X, y, "task", test


def panel(seed):
    made = draw_panel(seed)
    table, y, _ = made.training()
    return table, y, "task", (made.table[made.future], made.y[made.future])


def parks():
    made = load_car_parks()
    test = np.arange(len(made.target)) % 4 == 0
    y = np.asarray(made.target)
    return made.data[~test], y[~test], made.task, (made.data[test], y[test])


def textbook(name):
    make, task, target = LOOK_ALIKES[name]
    table = make(np.random.default_rng(0)).dropna(subset=[target]).reset_index(drop=True)
    X = table.drop(columns=target)
    return X, table[target], task, (X, table[target])


def method_named(name):
    drawn = {"random_state": 0} if name == "BMSL" else {}
    return METHODS[name](task="task", **drawn)


CASES = {}
for s in range(3):
    CASES[f"groups {s}"] = lambda s=s: (groups(s), GAMTLCV(task="task", trunk=None))
    CASES[f"circle {s}"] = lambda s=s: (circle(s), GAMTLCV(task="task", trunk=None))
    CASES[f"shared {s}"] = lambda s=s: (groups(s, shared=True), GAMTLCV(task="task", trunk=None))
    CASES[f"groups, GAMTL {s}"] = lambda s=s: (groups(s), GAMTL(task="task"))
for s in range(5):
    CASES[f"scatter {s}"] = lambda s=s: (scatter(s), GAMTLCV(task="task"))
    CASES[f"curves {s}"] = lambda s=s: (scatter(s, rows=30, bend=3.0), GAMTLCV(task="task"))
    CASES[f"panel {s}"] = lambda s=s: (panel(s), GAMTLCV(task="task", trunk=None))
for s in range(2):
    CASES[f"many tasks {s}"] = lambda s=s: (scatter(s, T=330, d=3, rows=5), GAMTLCV(task="task", trunk=None))
    CASES[f"few rows {s}"] = lambda s=s: (scatter(s, T=12, d=6, rows=3), GAMTLCV(task="task"))
    CASES[f"all kinds {s}"] = lambda s=s: (
        scatter(s, T=8, d=2, rows=20, bend=3.0),
        GAMTLCV(task="task", nonlinear="auto", trunk=None),
    )
for name, (_, task, _) in LOOK_ALIKES.items():
    CASES[f"textbook {name}"] = lambda name=name, task=task: (textbook(name), GAMTLCV(task=task))
CASES["parks"] = lambda: (parks(), GAMTLCV(task="car_park"))
CASES["parks, GAMTL"] = lambda: (parks(), GAMTL(task="car_park", metric="learned", intercept="shrunk"))
CASES["radial"] = lambda: (scatter(9, T=6, d=2, rows=30, bend=3.0), RBFGAMTL(task="task"))
for name in METHODS:
    CASES[f"method {name}"] = lambda name=name: (scatter(7, T=6, d=3, rows=15), method_named(name))
# These two want tasks that are measured at the same rows.
CASES["method GFL"] = lambda: (groups(0, shared=True), METHODS["GFL"](task="task"))


def numbers(case):
    """What a fit says, by kind of number."""
    (X, y, _, (new_X, new_y)), method = case()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        method.fit(X, y)
        prediction = method.predict(new_X)
        said = {
            "coef": method.coef_,
            "intercept": method.intercept_,
            "prediction": prediction,
            "test error": np.sqrt(np.mean((prediction - np.asarray(new_y)) ** 2)),
        }
        for name in ("shares_", "cv_errors_"):
            if hasattr(method, name):
                said[name] = np.asarray(getattr(method, name), float)
        if method.model_.parts:
            said["std"] = method.predict(new_X, return_std=True)[1]
        if hasattr(method, "gains_"):
            said["gains"] = np.array([[gain.mean, gain.standard_error] for gain in method.gains_.values()])
            said["verdict"] = "\n".join(method.summary().verdict)
    return said


def difference(new, old):
    """Largest difference relative to the largest number; of texts whether they differ."""
    if new.dtype.kind == "U" or new.shape != old.shape:
        return float(not np.array_equal(new, old))
    size = max(float(np.nanmax(np.abs(old), initial=0.0)), 1e-300)
    both = np.nan_to_num(new, nan=0.5 * size), np.nan_to_num(old, nan=0.5 * size)
    return float(np.abs(both[0] - both[1]).max(initial=0.0)) / size


def compare(path, tolerance, only):
    old = np.load(path)
    worst = 0.0
    ratios = []
    for name, case in CASES.items():
        if only not in name:
            continue
        found = {f"{name} | {kind}": np.asarray(value) for kind, value in numbers(case).items()}
        kept = [key for key in old.files if key.startswith(f"{name} | ")]
        apart = {key.partition(" | ")[2]: difference(found[key], old[key]) for key in kept if key in found}
        apart |= {key.partition(" | ")[2]: np.inf for key in set(kept) - set(found)}
        error = float(found[f"{name} | test error"]), float(old[f"{name} | test error"])
        ratios.append(np.log(error[0] / error[1]))
        worst = max(worst, *apart.values())
        print(f"{name:28s}", f"test error {error[0] / error[1]:.5f}", *(f"{k} {v:.1e}" for k, v in apart.items() if v))
    print(f"largest difference {worst:.1e}; test errors, geometric mean of ratios {np.exp(np.mean(ratios)):.5f}")
    return int(worst > tolerance)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["write", "compare"])
    parser.add_argument("path", type=Path)
    parser.add_argument("--tolerance", type=float, default=np.inf)
    parser.add_argument("--only", default="", help="tables whose names hold this text")
    args = parser.parse_args()
    if args.what == "compare":
        return compare(args.path, args.tolerance, args.only)
    kept = {f"{name} | {kind}": value for name, case in CASES.items() for kind, value in numbers(case).items()}
    np.savez_compressed(args.path, **kept)
    return 0


if __name__ == "__main__":
    sys.exit(main())
