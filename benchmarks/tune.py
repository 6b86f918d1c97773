"""Tuning: GAMTLCV and RBFGAMTL on the Parkinson data beside a loop of GridSearchCV(Ridge) over patients, in one run.

With --tables also GAMTLCV on simulated tables: small ones, wide ones, and 10,000 tasks in groups or around one mean.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler

from kinfolk import GAMTLCV, RBFGAMTL
from kinfolk.datasets import load_parkinsons


def grid_loop(data):
    """What a user writes today: ten penalties, five folds, one search per patient."""
    X = data.data.drop(columns=data.task).to_numpy()
    X = StandardScaler().fit_transform(X)
    for patient in data.tasks:
        own = (data.data[data.task] == patient).to_numpy()
        GridSearchCV(Ridge(), {"alpha": np.logspace(-3, 3, 10)}, cv=5).fit(X[own], data.target[own])


def seconds(function):
    """Processor time: other work on the machine hardly changes it."""
    started = time.process_time()
    function()
    return time.process_time() - started


SIMULATED = {  # tasks, rows, features, and whether tasks fall into groups of twenty or scatter around one mean
    "small": (85, 461, 3, True),
    "long": (139, 15_000, 27, True),
    "many, in groups": (10_000, 200_000, 10, True),
    "many, around one mean": (10_000, 200_000, 10, False),
}


def simulated(T, rows, d, grouped):
    rng = np.random.default_rng(0)
    W = 1 + 0.3 * rng.normal(size=(T, d))
    if grouped:
        W = rng.normal(size=(max(6, T // 20), d))[rng.integers(max(6, T // 20), size=T)] + 0.1 * rng.normal(size=(T, d))
    task = np.arange(rows) % T
    X = rng.normal(size=(rows, d))
    return np.column_stack([task, X]), np.einsum("nd,nd->n", X, W[task]) + rng.normal(size=rows)


def print_simulated():
    for name, shape in SIMULATED.items():
        X, y = simulated(*shape)
        T, rows, d, _ = shape
        model = GAMTLCV(task=0)
        started = time.perf_counter()
        spent = seconds(lambda model=model, X=X, y=y: model.fit(X, y))
        wall = time.perf_counter() - started
        helps = "helps" if model.graph_helps_ else "describes"
        print(f"{name:22} {T:6d} tasks {rows:7d} rows {d:3d} features {spent:6.1f} s, {wall:6.1f} wall, graph {helps}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", action="store_true", help="GAMTLCV on simulated tables as well")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    data = load_parkinsons(inputs="voice+time", demographics=True)
    linear = GAMTLCV(task=data.task)
    curved = RBFGAMTL(task=data.task, features=StandardScaler())
    print("42 patients, 5,875 rows, 19 features, 5 folds")
    loop = min(seconds(lambda: grid_loop(data)) for _ in range(2))
    print(f"loop of GridSearchCV(Ridge, 10 penalties)  {loop:7.1f} s")
    ours = min(seconds(lambda: linear.fit(data.data, data.target)) for _ in range(2))
    print(f"GAMTLCV                                    {ours:7.1f} s  {ours / loop:.2f} times the loop")
    rbf = seconds(lambda: curved.fit(data.data, data.target))
    print(f"RBFGAMTL                                   {rbf:7.1f} s")
    if asked.tables:
        print_simulated()


if __name__ == "__main__":
    main()
