"""Boosted trees with the task as a category, which many would try first. The only file that imports LightGBM."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinfolk.rows.fold_numbers import assign_folds
from kinfolk.rows.gram import Array
from kinfolk.rows.time_order import InTime, trains

LEAVES = (8, 31)
ROUNDS = 1000
PATIENCE = 20  # rounds without progress before boosting stops


def fit_boosting(X: Array, y: Array, groups: Any, seed: int) -> tuple[Any, dict[str, Any]]:
    """Number of leaves and of rounds by 5-fold cross-validation; returns the prediction function and the choice.

    Column 0 of X is the number of the task; `groups` are labels of rows that stay in one fold, or None.
    """
    try:
        import lightgbm
    except ImportError as error:
        raise ImportError("boosting needs lightgbm: pip install 'kinfolk[boosting]'") from error

    def data() -> Any:
        return lightgbm.Dataset(X, y, categorical_feature=[0], params={"verbose": -1}, free_raw_data=False)

    pairs = _folds(X[:, 0], groups, seed)
    best: tuple[float, int, dict[str, Any]] = (np.inf, 0, {})
    for leaves in LEAVES:
        settings = _settings(leaves, seed)
        stop = lightgbm.early_stopping(PATIENCE, verbose=False)
        found = lightgbm.cv(settings, data(), ROUNDS, folds=pairs, callbacks=[stop])
        errors = np.asarray(found["valid rmse-mean"], dtype=float)
        best = min(best, (float(errors.min()), int(errors.argmin()) + 1, settings), key=lambda one: one[0])
    _, rounds, settings = best
    model = lightgbm.train(settings, data(), rounds)
    return model.predict, {"num_leaves": settings["num_leaves"], "rounds": rounds}


def _settings(leaves: int, seed: int) -> dict[str, Any]:
    return {
        "objective": "regression",
        "metric": "rmse",
        "learning_rate": 0.1,
        "num_leaves": leaves,
        "min_data_in_leaf": 5,
        "min_data_per_group": 5,
        "cat_smooth": 1.0,
        "num_threads": 1,
        "deterministic": True,
        "seed": seed,
        "verbose": -1,
    }


def _folds(task: Array, groups: Any, seed: int) -> list[tuple[Array, Array]]:
    codes = np.unique(task, return_inverse=True)[1]
    in_time = isinstance(groups, InTime)
    fold = groups.folds(5) if in_time else assign_folds(codes, 5, groups=groups, random_state=seed)
    return [(np.flatnonzero(trains(fold, f)), np.flatnonzero(fold == f)) for f in range(fold.max() + 1)]
