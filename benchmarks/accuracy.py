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
        inside, outside = data.data[train], data.data[~train]
        return (inside, data.target[train], groups), (outside, data.target[~train]), data.task

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


def methods(task, seed):
    shared = {"task": task, "features": StandardScaler(), "unseen": "mean"}
    return {
        "GAMTLCV": GAMTLCV(random_state=seed, **shared),
        "Independent": Independent(penalty="cv", random_state=seed, **shared),
        "Pooled": Pooled(penalty="cv", random_state=seed, **shared),
        "MeanShrunk": MeanShrunk(penalty="cv", ridge=1.0, random_state=seed, **shared),
        "RandomSlopes": RandomSlopes(**shared),
    }


def errors(model, X, y, task):
    squared = (model.predict(X) - y) ** 2
    codes = np.unique(np.asarray(X[task]), return_inverse=True)[1]
    return np.sqrt(squared.mean()), np.sqrt(np.bincount(codes, squared) / np.bincount(codes)).mean()


def run(split, seeds):
    found, helped, seconds = {}, 0, 0.0
    for seed in range(seeds):
        (X, y, groups), (X_test, y_test), task = split(seed)
        for name, model in methods(task, seed).items():
            started = time.perf_counter()
            model.fit(X, y, groups=groups)
            seconds += (time.perf_counter() - started) * (name == "GAMTLCV")
            helped += getattr(model, "graph_helps_", False)
            found.setdefault(name, []).append(errors(model, X_test, y_test, task))
    return {name: np.mean(values, axis=0) for name, values in found.items()}, helped, seconds / seeds


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--only", default="", help="part of a protocol's name")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    names = list(methods(None, 0))
    print(f"{'':32s}" + "".join(f"{n:>18s}" for n in names) + f"{'ratio to best':>18s}  graph used, seconds")
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
