"""One GAMTL fit beside a loop of scikit-learn Ridge fits, one per task, and the import times, in one run."""

from __future__ import annotations

import subprocess
import sys
import time

import numpy as np
from sklearn.linear_model import Ridge

from kinfolk import GAMTL


def best_of(function, repeats):
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        function()
        times.append(time.perf_counter() - started)
    return min(times)


def table(T, rows, d, seed=0):
    rng = np.random.default_rng(seed)
    task = np.sort(rng.integers(T, size=rows)) if rows % T else np.repeat(np.arange(T), rows // T)
    X = rng.normal(size=(len(task), d))
    groups = max(6, T // 20)
    W = rng.normal(size=(groups, d))[rng.integers(groups, size=T)] + 0.1 * rng.normal(size=(T, d))
    return np.column_stack([task, X]), np.einsum("nd,nd->n", X, W[task]) + rng.normal(size=len(task))


def ridge_loop(X, y):
    """What a user writes today."""
    order = np.argsort(X[:, 0], kind="stable")
    X, y = X[order], y[order]
    _, first = np.unique(X[:, 0], return_index=True)
    for x, v in zip(np.split(X[:, 1:], first[1:]), np.split(y, first[1:]), strict=True):
        Ridge(alpha=1.0).fit(x, v)


def compare(T, rows, d, repeats):
    X, y = table(T, rows, d)
    models = []
    ours = best_of(lambda: models.append(GAMTL(task=0).fit(X, y)), repeats)
    loop = best_of(lambda: ridge_loop(X, y), repeats)
    model = models[-1]
    print(
        f"{T:7d} {rows:8d} {d:4d} {ours:9.3f}s {loop:9.3f}s {ours / loop:8.2f}   "
        f"{model.n_iter_} rounds, {model.solvers_['weights']}, {model.solvers_['graph']}",
        flush=True,
    )


def import_seconds(code, repeats=7):
    return best_of(lambda: subprocess.run([sys.executable, "-c", code], check=True), repeats)


def main():
    print(f"{'tasks':>7} {'rows':>8} {'d':>4} {'GAMTL':>10} {'Ridge loop':>10} {'ratio':>8}")
    for tasks in (30, 100, 300):
        compare(tasks, 20 * tasks, 20, 4)
    compare(42, 5875, 18, 5)
    compare(1000, 20_000, 20, 2)
    compare(10_000, 200_000, 20, 1)
    bare, sklearn, ours = (
        import_seconds(c) for c in ("pass", "import sklearn.linear_model", "from kinfolk import GAMTL")
    )
    ratio = (ours - bare) / (sklearn - bare)
    print(f"\nimport: sklearn.linear_model {sklearn - bare:.2f} s, GAMTL {ours - bare:.2f} s, ratio {ratio:.2f}")


if __name__ == "__main__":
    main()
