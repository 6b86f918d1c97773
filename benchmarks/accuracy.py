"""Test error of GAMTLCV beside the methods without a graph, all tuned on the same folds of the same training rows.

Pooled RMSE and mean over tasks, averaged over splits, and the ratio of GAMTLCV to the best of the others. Parkinson:
`rows` are random rows of every patient, `sittings` whole sittings held out; Birmingham: the first week trains, windows
across nights, days as folds.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from sklearn.preprocessing import StandardScaler

from kinfolk import GAMTLCV
from kinfolk.baselines import Independent, MeanShrunk, Pooled, RandomSlopes
from kinfolk.datasets import load_birmingham, load_parkinsons, make_circle, make_groups


def synthetic(make, shared):
    def split(seed):
        data = make(shared_inputs=shared, random_state=seed)
        return (data.data, data.target, None), (data.test_data, data.test_target), data.task

    return split


def parkinsons(inputs, by, ratio):
    def split(seed):
        data = load_parkinsons(inputs=inputs)
        rng = np.random.default_rng(seed)
        unit = data.groups if by == "sittings" else np.arange(len(data.target))
        train = np.zeros(len(unit), bool)
        for patient in data.tasks:
            units = rng.permutation(np.unique(unit[data.data.patient == patient]))
            train |= np.isin(unit, units[: round(ratio * len(units))])
        groups = data.groups[train] if by == "sittings" else None
        return (data.data[train], data.target[train], groups), (data.data[~train], data.target[~train]), data.task

    return split


def birmingham(lags):
    def split(seed):
        data = load_birmingham(lags=lags)
        return (data.data, data.target, data.groups), (data.test_data, data.test_target), data.task

    return split


PROTOCOLS = {
    "Syn 1, own inputs": synthetic(make_groups, False),
    "Syn 2, own inputs": synthetic(make_circle, False),
    "Syn 1, shared inputs": synthetic(make_groups, True),
    "Syn 2, shared inputs": synthetic(make_circle, True),
    **{
        f"Parkinson {inputs}, {by}, {ratio}": parkinsons(inputs, by, ratio)
        for inputs in ("voice+time", "voice")
        for by in ("rows", "sittings")
        for ratio in (0.3, 0.5)
    },
    "Birmingham 2 h": birmingham(4),
    "Birmingham 4 h": birmingham(8),
}


def fitted(X, y, groups, task, seed):
    """Every method, and the CPU seconds of GAMTLCV; those with a penalty choose it on the folds of GAMTLCV."""
    shared = {"task": task, "features": StandardScaler(), "unseen": "mean"}
    tuned = {"penalty": "cv", "random_state": seed, **shared}
    started = time.process_time()
    ours = GAMTLCV(random_state=seed, **shared).fit(X, y, groups=groups)
    seconds = time.process_time() - started
    tuned["cv"] = ours.n_splits_
    others = [Independent(**tuned), Pooled(**tuned), MeanShrunk(ridge=1.0, **tuned), RandomSlopes(**shared)]
    return [ours, *(model.fit(X, y, groups=groups) for model in others)], seconds


def errors(model, X, y, task):
    squared = (model.predict(X) - y) ** 2
    codes = np.unique(np.asarray(X[task]), return_inverse=True)[1]
    return np.sqrt(squared.mean()), np.sqrt(np.bincount(codes, squared) / np.bincount(codes)).mean()


def run(split, seeds):
    found = {}
    helped = 0
    seconds = 0.0
    for seed in range(seeds):
        (X, y, groups), (X_test, y_test), task = split(seed)
        models, spent = fitted(X, y, groups, task, seed)
        seconds += spent
        helped += models[0].graph_helps_
        for model in models:
            found.setdefault(type(model).__name__, []).append(errors(model, X_test, y_test, task))
    return {name: np.mean(values, axis=0) for name, values in found.items()}, helped, seconds / seeds


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--only", default="", help="part of a protocol's name")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    names = ["GAMTLCV", "Independent", "Pooled", "MeanShrunk", "RandomSlopes"]
    print(f"{'':32s}" + "".join(f"{n:>18s}" for n in names) + f"{'ratio to best':>18s}  graph used, CPU seconds")
    for label, split in PROTOCOLS.items():
        if options.only in label:
            splits = 1 if label.startswith("Birmingham") else options.splits
            found, helped, seconds = run(split, splits)
            best = np.min([found[n] for n in names[1:]], axis=0)
            cells = "".join(f"{found[n][0]:9.4f} {found[n][1]:8.4f}" for n in names)
            ratio = found["GAMTLCV"] / best
            print(f"{label:32s}{cells}{ratio[0]:10.3f} {ratio[1]:7.3f}  {helped}/{splits}, {seconds:.1f} s", flush=True)


if __name__ == "__main__":
    main()
