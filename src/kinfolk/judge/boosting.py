"""Boosted trees with the task as a category, which many would try first."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinfolk.rows.gram import Array
from kinfolk.rows.splits import InTime, assign_folds, trains
from kinfolk.search.boosters import LEAVES, ROUNDS, light_settings, lightgbm

PATIENCE = 20  # rounds without progress before boosting stops


def fit_boosting(X: Array, y: Array, groups: Any, seed: int) -> tuple[Any, dict[str, Any]]:
    """Number of leaves and of rounds by 5-fold cross-validation; returns the prediction function and the choice.

    Column 0 of X is the number of the task; `groups` are labels of rows that stay in one fold, or None.
    """
    library = lightgbm()

    def data() -> Any:
        return library.Dataset(X, y, categorical_feature=[0], params={"verbose": -1}, free_raw_data=False)

    pairs = _folds(X[:, 0], groups, seed)
    best: tuple[float, int, dict[str, Any]] = (np.inf, 0, {})
    for leaves in LEAVES:
        settings = light_settings(leaves, seed)
        stop = library.early_stopping(PATIENCE, verbose=False)
        found = library.cv(settings, data(), ROUNDS, folds=pairs, callbacks=[stop])
        errors = np.asarray(found["valid rmse-mean"], dtype=float)
        best = min(best, (float(errors.min()), int(errors.argmin()) + 1, settings), key=lambda one: one[0])
    _, rounds, settings = best
    model = library.train(settings, data(), rounds)
    return model.predict, {"num_leaves": settings["num_leaves"], "rounds": rounds}


def _folds(task: Array, groups: Any, seed: int) -> list[tuple[Array, Array]]:
    codes = np.unique(task, return_inverse=True)[1]
    in_time = isinstance(groups, InTime)
    fold = groups.folds(5) if in_time else assign_folds(codes, 5, groups=groups, random_state=seed)
    return [(np.flatnonzero(trains(fold, f)), np.flatnonzero(fold == f)) for f in range(fold.max() + 1)]
