"""Time of one fit of every method at the size of the Parkinson data: 42 tasks, 5,875 rows, 19 features, in one run."""

from __future__ import annotations

import time
import warnings

import numpy as np
from sklearn.preprocessing import StandardScaler

from kinfolk import GAMTL, GAMTLCV
from kinfolk.baselines import METHODS
from kinfolk.datasets import load_parkinsons


def parkinsons():
    """The real table if it can be had, otherwise random numbers of its size."""
    try:
        data = load_parkinsons(inputs="voice+time", demographics=True)
        return data.data, data.target, data.task, "Parkinson data"
    except FileNotFoundError:
        rng = np.random.default_rng(0)
        task = np.sort(rng.integers(42, size=5875))
        X = rng.normal(size=(5875, 19))
        return np.column_stack([task, X]), X @ rng.normal(size=19) + rng.normal(size=5875), 0, "random numbers"


def main():
    X, y, task, name = parkinsons()
    warnings.simplefilter("ignore")
    # Patients share no rows, so that GFL has no correlations of its own: it is given the graph of a GAMTL fit.
    kin = GAMTL(task=task, features=StandardScaler()).fit(X, y).adjacency_.toarray()
    given = {"GFL": {"graph": kin / kin.max()}}
    print(f"one fit on {name}: 42 tasks, 5,875 rows, 19 features")
    for method in (GAMTL, GAMTLCV, *METHODS.values()):
        model = method(task=task, features=StandardScaler(), **given.get(method.__name__, {}))
        started = time.perf_counter()
        model.fit(X, y)
        print(f"{method.__name__:14s} {time.perf_counter() - started:8.2f} s", flush=True)


if __name__ == "__main__":
    main()
