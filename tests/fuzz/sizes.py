"""Small tables of very unequal sizes: `python tests/fuzz/sizes.py [count]`, see `campaign`.

Weights from 1e-6 to 1e6, rare, repeated and very different columns, a target that says no more than the name of its
task, texts of many values. Every fit is finite, and so are standard deviations, contributions, summary and edges; or
an error says which row, task or column is the matter.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).parent))

import campaign
from random_tables import is_clear

from kinfolk import GAMTL, GAMTLCV
from kinfolk.explain import contributions, kinship, shared_features, sure_edges
from kinfolk.methods.random_slopes import RandomSlopes
from kinfolk.methods.ridges import Independent, MeanShrunk

QUICK = {"strengths": (1.0,), "ridges": (0.1,), "anchors": (0.0,), "neighbors": (3,), "cv": 2}
METHODS = (
    *(lambda: RandomSlopes(task="who"), lambda: RandomSlopes(task="who", covariance="full")),
    *(lambda: RandomSlopes(task="who", intercept="free"), lambda: RandomSlopes(task="who", noise="task")),
    *(lambda: GAMTL(task="who"), lambda: GAMTL(task="who", metric="learned_full", intercept="shrunk")),
    lambda: GAMTL(task="who", metric="learned", intercept="coupled"),
    lambda: GAMTLCV(task="who", trunk=None, nonlinear=False, **QUICK),
    *(lambda: Independent(task="who"), lambda: Independent(task="who", penalty=0.0)),
    *(lambda: MeanShrunk(task="who"), lambda: MeanShrunk(task="who", penalty="cv")),
)
TARGETS = ("lines", "lines", "lines", "constant", "task number", "task number", "exact lines", "steps")
WEIGHTS = ("none", "none", "wild", "wild", "wild by task", "with zeros")
SIZES = (0.0, 0.0, 1.0, 4.0, 8.0)  # columns are multiplied by ten to the power of at most so much, either way
SAME = 1e-5  # of the sizes of all parts: they add up to the prediction, without weights and a graph of many steps
SUMMARY, EDGES = 0.3, 0.3  # shares of the cases that go through these doors


def one(rng: np.random.Generator) -> str:
    """One table; how it ended."""
    table, y = drawn(rng)
    weight = weights(rng, table["who"].cat.codes.to_numpy())
    model = METHODS[rng.integers(len(METHODS))]()
    try:
        model.fit(table, y, weight)
    except ValueError as error:
        assert not isinstance(error, np.linalg.LinAlgError), error
        assert is_clear(str(error)), error
        return "refused with a reason"
    used(model, table, rng, plain=weight is None and not isinstance(model, GAMTL | GAMTLCV))
    return "fitted"


def drawn(rng: np.random.Generator) -> tuple[pd.DataFrame, np.ndarray]:
    """Columns and a target, each of one of many kinds."""
    T = int(rng.choice([2, 3, 4, 6, 12, 25]))
    n = T * int(rng.choice([2, 3, 6, 12])) + int(rng.integers(4))
    task = rng.permutation(np.arange(n) % T)
    columns = {"x": rng.normal(size=n), "z": rng.normal(size=n) + task, "hour": rng.integers(24, size=n) * 1.0}
    columns["rare"] = (np.arange(n) == rng.integers(n)) * 1.0
    columns["again"] = columns["x"] * rng.choice([1.0, -2.0, 1e-3])
    columns["sum"] = columns["x"] + columns["z"]
    columns["own"] = rng.normal(size=T)[task]
    kept = rng.random(len(columns)) < 0.5
    kept[rng.integers(len(columns))] = True
    power = rng.choice(SIZES)
    some = [name for name, k in zip(columns, kept, strict=True) if k]
    table = pd.DataFrame({name: columns[name] * 10 ** rng.uniform(-power, power) for name in some})
    if rng.random() < 0.25:
        values = int(rng.choice([3, 20, 60]))
        table["kind"] = pd.Series([f"k{k}" for k in rng.integers(values, size=n)], dtype=object)
    y = target(rng, table.select_dtypes("number").to_numpy(), task)
    table["who"] = pd.Categorical([f"t{t:02d}" for t in task])
    return table, y


def target(rng: np.random.Generator, X: np.ndarray, task: np.ndarray) -> np.ndarray:
    """Lines of every task, with noise or without; or hardly anything to learn."""
    kind = rng.choice(TARGETS)
    Z = X / np.maximum(np.abs(X).max(axis=0), 1e-300)
    W = rng.normal(size=(task.max() + 1, X.shape[1]))
    lines = np.einsum("nd,nd->n", Z, W[task]) + rng.normal(size=len(W))[task]
    found = {
        "constant": np.full(len(X), rng.normal()),
        "task number": task * 1.0,
        "exact lines": lines,
        "steps": np.round(lines),
        "lines": lines + 0.3 * rng.normal(size=len(X)),
    }
    return found[kind] * rng.choice([1.0, 1.0, 1e-6, 1e6])


def weights(rng: np.random.Generator, task: np.ndarray) -> np.ndarray | None:
    """Weights of rows from 1e-6 to 1e6, of each its own or of tasks."""
    kind = rng.choice(WEIGHTS)
    wild = 10 ** rng.uniform(-6, 6, size=len(task))
    if kind == "with zeros":
        wild *= rng.random(len(task)) < 0.7
    if kind == "wild by task":
        wild = wild[: task.max() + 1][task]
    return None if kind == "none" else wild


def used(model, table: pd.DataFrame, rng: np.random.Generator, *, plain: bool) -> None:
    """What people do with a fitted model: all numbers are finite."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        prediction, std = model.predict(table, return_std=True)
        assert np.isfinite(prediction).all() and np.isfinite(std).all() and (std >= 0).all(), (prediction, std)
        stranger = table.iloc[:3].assign(who="somebody")
        assert all(np.isfinite(found).all() for found in model.predict(stranger, return_std=True))
        split = contributions(model)
        assert np.isfinite(split.coef).all() and np.isfinite(split.shares).all(), "contributions"
        if plain and not model.model_.gram.common().any():  # coefficients in common come from no task in particular
            parts = split.split(table)
            off = np.abs(parts.sum(axis=1) - prediction)
            size = np.abs(parts).sum(axis=1) + np.ptp(prediction)
            assert (off <= SAME * size).all(), f"parts add up to something else by {(off / size).max()}"
        if rng.random() < SUMMARY:
            assert str(model.summary())
            assert np.isfinite(model.coef_frame().to_numpy()).all()
        if rng.random() < EDGES:
            told(model)


def told(model) -> None:
    """Probabilities of kin and of edges, and what the ends of an edge share."""
    probability = getattr(kinship(model), "probability", np.zeros(1))
    assert ((probability >= 0) & (probability <= 1)).all(), "probabilities"
    if getattr(model, "graph_", None) is None:
        return
    for edge in sure_edges(model)[:2]:
        assert np.isfinite(edge.weight)
        try:
            found = shared_features(model, edge.task, edge.neighbor)
        except (ValueError, TypeError) as error:
            assert not isinstance(error, np.linalg.LinAlgError) and is_clear(str(error)), error
        else:
            assert np.isfinite([[row.difference, row.standard_error] for row in found.features]).all()


if __name__ == "__main__":
    sys.exit(campaign.main("very unequal sizes", one, count=5000))
