"""Do 90 % intervals hold 90 %? Shares of new observations inside, by the rows of their task, and how wide they are.

    python benchmarks/intervals.py                         simulated worlds, then tables
    python benchmarks/intervals.py --methods GAMTL --only worlds

Worlds have tasks of every size, or of one; tables are those of `benchmarks/arena.py` with the same splits by rows;
every tenth task is kept for adoption and every tenth is never seen. A rule with a number in it is to be set on the
worlds with even seeds and the tables of TUNED, and checked on odd seeds and CHECKED.
"""

from __future__ import annotations

import argparse
import time
import warnings
from copy import copy

import numpy as np
import pandas as pd

import arena

TUNED = ("nlme/Orthodont", "datasets/ChickWeight", "AER/Grunfeld", "geepack/dietox")
CHECKED = ("nlme/Oxboys", "nlme/BodyWeight", "mlmRev/Gcsemv", "wooldridge/wagepan", "AER/PSID7682", "carData/Blackmore")
SIZES = (2, 3, 5, 8, 15, 30)
CLASSES = (2, 3, 5, 10, 20)  # the most rows of a class; a last one has more
NAMES = ("2", "3", "4-5", "6-10", "11-20", "more")
WORLDS = ("groups", "one mean", "unrelated", "noisy")
NEW_ROWS = 20
D = 3


def methods():
    from kinfolk import GAMTL, GAMTLCV, RBFGAMTL
    from kinfolk.baselines import RandomSlopes

    return {
        "GAMTL": lambda: GAMTL(task=0, unseen="mean"),
        "RandomSlopes": lambda: RandomSlopes(task=0, unseen="mean"),
        "GAMTLCV": lambda: GAMTLCV(task=0, unseen="mean"),
        "GAMTLCV, trunk": lambda: GAMTLCV(task=0, unseen="mean", trunk="auto"),
        "RBFGAMTL": lambda: RBFGAMTL(task=0, unseen="mean"),
    }


def world(kind, seed, sizes):
    """Training rows, rows to adopt tasks by, and new rows of all tasks: (task, X), y each."""
    rng = np.random.default_rng(seed)
    T = 3 * len(sizes)  # known, adopted, never seen
    kin = {"groups": 0.2, "one mean": 0.5, "unrelated": 1.5, "noisy": 0.5}[kind]
    centre = rng.normal(size=(4, D)) if kind == "groups" else np.zeros((1, D))
    W = centre[rng.integers(len(centre), size=T)] + kin * rng.normal(size=(T, D))
    level = rng.normal(size=T)
    noise = np.exp(0.7 * rng.normal(size=T)) if kind == "noisy" else np.ones(T)

    def draw(task):
        X = rng.normal(size=(len(task), D))
        return np.column_stack([task, X]), np.einsum("nd,nd->n", X, W[task]) + level[task] + noise[task] * rng.normal(
            size=len(task)
        )

    k = len(sizes)
    known = draw(np.repeat(np.arange(k), sizes))
    adopt = draw(np.repeat(np.arange(k, 2 * k), sizes))
    return known, adopt, draw(np.repeat(np.arange(T), NEW_ROWS))


def table(name, draw):
    """The same for a table of the arena: half of every task's rows, drawn at random."""
    recipe = next(recipe for recipe in arena.TABLES if recipe.name == name)
    rows = arena.read(recipe)
    train = arena.splits(rows, draw + 1)[f"rows {draw}"]
    place = np.random.default_rng(draw).permutation(rows.task.max() + 1) % 10
    role = np.array([0] * 8 + [1, 2])[place][rows.task]  # known, adopted, never seen
    X = np.column_stack([rows.task, rows.X])
    return *((X[at], rows.y[at]) for at in (train & (role == 0), train & (role == 1))), (X[~train], rows.y[~train])


def inside(make, known, adopt, new):
    """One line per new row: how its task is known, its class of rows, whether it is inside, and the width."""
    model = make().fit(*known)
    n = dict(zip(*np.unique(np.append(known[0][:, 0], adopt[0][:, 0]), return_counts=True), strict=True))
    task, y = new[0][:, 0], new[1]
    role = np.where(
        np.isin(task, known[0][:, 0]), "known", np.where(np.isin(task, adopt[0][:, 0]), "adopted", "unseen")
    )
    low, high, std = (np.empty(len(y)) for _ in range(3))
    adopting = copy(model).adopt(*adopt) if hasattr(model, "adopt") and len(adopt[1]) else model
    for one, at in ((model, role != "adopted"), (adopting, role == "adopted")):
        if at.any():
            low[at], high[at] = one.predict(new[0][at], quantiles=(0.05, 0.95)).T
            std[at] = one.predict(new[0][at], return_std=True)[1]
    middle = (low + high) / 2
    rows = np.array([n.get(t, 0) for t in task])
    return pd.DataFrame(
        {
            "role": role if adopting is not model else np.where(role == "adopted", "unseen", role),
            "rows": np.array(NAMES)[np.searchsorted(CLASSES, rows)],
            "inside": (low <= y) & (y <= high),
            "normal": np.abs(y - middle) <= 1.645 * std,
            "width": (high - low) / y.std(),
        }
    )


def cases(asked):
    """Name -> rows."""
    if asked.only != "tables":
        for kind in WORLDS:
            for seed in asked.seeds:
                yield "worlds", f"{kind}, all sizes", world(kind, seed, SIZES * 8)
                for size in (2, 3, 5):
                    yield "worlds", f"{kind}, {size} rows", world(kind, seed, (size,) * 40)
    if asked.only != "worlds":
        for name in asked.tables:
            for draw in range(asked.draws):
                yield "tables", name, table(name, draw)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--methods", nargs="*", default=list(methods()))
    parser.add_argument("--only", choices=("worlds", "tables"))
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 2])
    parser.add_argument("--draws", type=int, default=2)
    parser.add_argument("--tables", nargs="*", default=TUNED)
    parser.add_argument("--save")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    found = []
    for method in asked.methods:
        start = time.process_time()
        for kind, name, rows in cases(asked):
            found.append(inside(methods()[method], *rows).assign(method=method, case=name, kind=kind))
        print(f"{method}: {time.process_time() - start:.0f} s", flush=True)
    found = pd.concat(found)
    if asked.save:
        found.to_pickle(asked.save)
    show(found)


def show(found):
    """Shares inside by method, kind of task and class of rows; then by case; widths beside."""
    found = found.assign(rows=found["rows"].where(found["role"] != "unseen", "-"))
    with pd.option_context("display.width", 200, "display.max_columns", 40, "display.max_rows", 400):
        for kind, part in found.groupby("kind"):
            for value in ("inside", "normal", "width"):
                print(f"\n{kind}: {value}")
                by = part.pivot_table(value, ["method", "role"], "rows", "mean")
                print(by.reindex(columns=[c for c in (*NAMES, "-") if c in by]).round(3).to_string())
            print(f"\n{kind}: inside, by case")
            print(part.pivot_table("inside", ["case", "role"], "method", "mean").round(3).to_string())


if __name__ == "__main__":
    main()
