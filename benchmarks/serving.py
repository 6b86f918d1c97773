"""A fitted model in service: load, one row, one row with its standard deviation, a new task, a million rows."""

from __future__ import annotations

import tempfile
import time
from copy import copy
from pathlib import Path

import numpy as np
import pandas as pd

from kinfolk import GAMTL, load

D = 10
NAMES = ["task", *(f"x{j}" for j in range(D))]


def table(T, n=10, seed=0):
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(T), n)
    X = rng.normal(size=(T * n, D))
    groups = max(6, T // 20)
    W = rng.normal(size=(groups, D))[rng.integers(groups, size=T)] + 0.1 * rng.normal(size=(T, D))
    return np.column_stack([task, X]), np.einsum("nd,nd->n", X, W[task]) + rng.normal(size=T * n)


def seconds(function, repeats=3):
    """The least processor time of some calls: other work on the machine only adds to it."""
    least = np.inf
    for _ in range(repeats):
        started = time.process_time()
        function()
        least = min(least, time.process_time() - started)
    return least


def milliseconds(function, repeats=30):
    return 1e3 * seconds(function, repeats)


def measured(T):
    """What every use of a model of T tasks costs, in milliseconds, by name."""
    X, y = table(T)
    frame = pd.DataFrame(X, columns=NAMES)
    plain = GAMTL(task=0).fit(X, y)
    named = GAMTL(task="task").fit(frame, y)
    new = frame[:5].assign(task=T + 1.0)
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.kin"
        plain.save(path)
        found["load"] = milliseconds(lambda: load(path), 5)
    found["one row, NumPy"] = milliseconds(lambda: plain.predict(X[:1]), 300)
    found["one row, pandas"] = milliseconds(lambda: named.predict(frame[:1]), 100)
    found["the first standard deviation"] = milliseconds(lambda: plain.predict(X[:1], return_std=True), 1)
    found["one row with standard deviation"] = milliseconds(lambda: plain.predict(X[:1], return_std=True), 100)
    found["adopt a task of five rows"] = milliseconds(lambda: copy(named).adopt(new, y[:5]), 5)
    million = np.tile(X, (10**6 // len(X), 1))
    found["a million rows"] = milliseconds(lambda: plain.predict(million), 2)
    return found


def main():
    for T in (1000, 10_000):
        print(f"{T:,} tasks, {D} features, processor time")
        for name, value in measured(T).items():
            print(f"  {name:34s} {value:10.2f} ms")


if __name__ == "__main__":
    main()
