"""Training and test rows of every experiment, the same for all methods."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from os import environ
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.datasets import load_birmingham, load_parkinsons, make_circle, make_groups, make_wiener_network
from kinfolk.experiments.reproduction.settings import Setting
from kinfolk.rows.gram import Array

# Callers name the folder of the data, so that a table kept from another folder is not taken for one in this.
_load_birmingham = lru_cache(maxsize=4)(load_birmingham)
_load_parkinsons = lru_cache(maxsize=2)(load_parkinsons)


@dataclass(frozen=True, eq=False)
class Split:
    """Rows to train on and rows to be judged by; column 0 is the task, its position in `tasks`.

    Attributes
    ----------
    X, y, X_test, y_test : the rows; inputs are scaled to mean 0 and variance 1 of the training rows, except in the
        synthetic sets, which are drawn so
    groups : label of the training rows that cross-validation keeps together, or None
    weight : of the training rows, or None
    tasks : names of all tasks
    truth : coefficients, edges and groups that the data were drawn from, if they were
    persistent : column of X that holds the last value of the target, or None
    unit : mean and standard deviation by which inputs were scaled, or None
    """

    X: Array
    y: Array
    X_test: Array
    y_test: Array
    tasks: list[Any]
    groups: NDArray[Any] | None = None
    weight: Array | None = None
    truth: dict[str, Any] = field(default_factory=dict)
    persistent: int | None = None
    unit: tuple[Array, Array] | None = None


def split(setting: Setting, run: int) -> Split:
    """The rows of a setting in one run; the same call gives the same rows."""
    return SOURCES[setting.source](run, **setting.options)


def synthetic(make: Any, run: int, **options: Any) -> Split:
    """Syn 1 or Syn 2, fitted through the origin as the paper's model: every row enters with its mirror image.

    A row (x, y) and its mirror (-x, -y), half a weight each, give every method with an intercept the statistics of a
    fit without one. Both are in one fold, with the k-th rows of all other tasks, which may have the same inputs.
    """
    data = make(random_state=run, **options)
    X = _table(data, data.data)
    mirrored = np.column_stack([X[:, 0], -X[:, 1:]])
    row = np.arange(len(X)) % (len(X) // len(data.tasks))  # the k-th rows of all tasks: every fold has equally many
    return Split(
        np.vstack([X, mirrored]),
        np.concatenate([data.target, -data.target]),
        _table(data, data.test_data),
        data.test_target,
        data.tasks,
        np.tile(row, 2),
        np.full(2 * len(X), 0.5),
        {"coef": data.coef, "edges": data.edges, "groups": data.groups, "rows": X},
    )


def wiener(run: int, *, n_samples: int) -> Split:
    """The network of Wiener systems; contiguous test rows follow the training rows."""
    data = make_wiener_network(n_samples, 200, random_state=run)
    truth = {"coef": data.coef, "edges": data.edges, "groups": data.groups, "topology": data.topology}
    return _scaled(Split(*_rows(data), data.tasks, truth=truth))


def birmingham(run: int, *, windows: str, lags: int) -> Split:
    """The first week trains, the other ten are the test; days are folds. `run` only draws folds."""
    data = _load_birmingham(windows=windows, lags=lags, data_home=environ.get("KINFOLK_DATA"))
    return _scaled(Split(*_rows(data), data.tasks, data.groups, persistent=lags))


def parkinsons(run: int, *, inputs: str, by: str, ratio: float) -> Split:
    """A share of the rows, or of the sittings, of every patient trains."""
    data = _load_parkinsons(inputs=inputs, data_home=environ.get("KINFOLK_DATA"))
    table = _table(data, data.data)
    unit = data.groups if by == "sittings" else np.arange(len(table))
    rng = np.random.default_rng(run)
    train = np.zeros(len(unit), bool)
    for p in range(len(data.tasks)):
        units = rng.permutation(np.unique(unit[table[:, 0] == p]))
        train |= np.isin(unit, units[: round(ratio * len(units))])
    groups = data.groups[train] if by == "sittings" else None
    return _scaled(Split(table[train], data.target[train], table[~train], data.target[~train], data.tasks, groups))


SOURCES: dict[str, Any] = {
    "syn1": partial(synthetic, make_groups),
    "syn2": partial(synthetic, make_circle),
    "wiener": wiener,
    "birmingham": birmingham,
    "parkinsons": parkinsons,
}


def _rows(data: Any) -> tuple[Array, Array, Array, Array]:
    """Training and test rows of a data set that has both."""
    return _table(data, data.data), data.target, _table(data, data.test_data), data.test_target


def _table(data: Any, table: Any) -> Array:
    """Numbers, with the position of the task in `data.tasks` in column 0; without pandas it may be there already."""
    position = {label: k for k, label in enumerate(data.tasks)}
    cells = np.asarray(table, dtype=object)
    codes = [position.get(label, label) for label in cells[:, 0]]
    return np.column_stack([codes, cells[:, 1:]]).astype(float)


def _scaled(rows: Split) -> Split:
    """Inputs in units of the training rows; targets stay in their own."""
    inputs = rows.X[:, 1:]
    centre = inputs.mean(axis=0)
    scale = inputs.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    X, X_test = (np.column_stack([part[:, 0], (part[:, 1:] - centre) / scale]) for part in (rows.X, rows.X_test))
    return replace(rows, X=X, X_test=X_test, unit=(centre, scale))
