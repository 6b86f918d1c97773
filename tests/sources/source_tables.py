"""Tables for the tests of large data: written in every format, with their statistics by NumPy."""

import narwhals as nw
import numpy as np
import pandas as pd

from kinfolk import GramStats
from kinfolk.sources.dealing import folds_of_parts
from kinfolk.sources.frames import sum_frame
from kinfolk.sources.roles import choose_roles

FEATURES = ("x0", "x1", "x2")


def sales(n=1000, tasks=17, seed=0, label=str):
    """A table whose columns are not in the order task, features, target; tasks differ in size and in level."""
    rng = np.random.default_rng(seed)
    shop = (tasks * rng.random(n) ** 2).astype(int)
    X = rng.normal(size=(n, 3)) * [1.0, 5.0, 0.2] + 50 * shop[:, None]
    y = X @ [1.0, -0.5, 2.0] + shop + rng.normal(size=n)
    return pd.DataFrame(
        {"x0": X[:, 0], "shop": [label(s) for s in shop], "x1": X[:, 1], "sales": y, "x2": X[:, 2]},
    )


def by_numpy(frame, features=FEATURES):
    X, y, shop = frame[list(features)].to_numpy(float), frame["sales"].to_numpy(float), frame["shop"].astype(str)
    labels, tasks = np.unique(shop), []
    for label in labels:
        Z, v = X[shop == label], y[shop == label]
        x_mean, y_mean = Z.mean(axis=0), v.mean()
        Z, v = Z - x_mean, v - y_mean
        tasks.append((len(v), x_mean, y_mean, Z.T @ Z, Z.T @ v, v @ v))
    return GramStats(labels, *(np.array(each, dtype=float) for each in zip(*tasks, strict=True)), tuple(features))


def assert_same(ours, reference, rtol=1e-12):
    """All statistics agree, in units of each task's own spread and level."""
    assert ours.labels.astype(str).tolist() == reference.labels.astype(str).tolist()
    np.testing.assert_array_equal(ours.n, reference.n)
    for name in ("x_mean", "y_mean", "G", "b", "yy"):
        one, two = getattr(ours, name), getattr(reference, name)
        np.testing.assert_allclose(one, two, rtol=rtol, atol=rtol * np.abs(two).max())


def gram_of_frame(frame, **names):
    """Statistics of a lazy frame, by its engine."""
    lazy = nw.from_native(frame)
    return sum_frame(lazy, choose_roles(list(lazy.collect_schema()), "the table", **names))[0]


def folds_of_frame(frame, *, cv, groups=None, **names):
    """Statistics of the folds of a lazy frame, by its engine."""
    lazy = nw.from_native(frame)
    roles = choose_roles(list(lazy.collect_schema()), "the table", groups=groups, **names)
    return folds_of_parts(sum_frame(lazy, roles, k=cv, random_state=0), groups=groups)
