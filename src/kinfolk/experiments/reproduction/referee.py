"""The one place where methods are scored: errors of a cell, and means and paired differences over runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.rows.gram import Array
from kinfolk.search.errors import Errors


def score(y: Array, prediction: Array, codes: NDArray[np.intp], n_tasks: int) -> dict[str, Any]:
    """RMSE of one method in one run: pooled over rows, mean over tasks, by task, and the rows of every task.

    Tasks without test rows have NaN and count in no mean.

    Examples
    --------
    Task 0 is off by 3 and 4 (root mean square 3.54), task 1 by 1.

    >>> found = score(np.zeros(3), np.array([3.0, 4.0, 1.0]), np.array([0, 0, 1]), 2)
    >>> round(found["pooled"], 3), round(found["tasks"], 3)
    (2.944, 2.268)
    """
    errors = Errors.of_predictions(y, prediction, codes, n_tasks)
    rows = errors.task_rows.astype(int)
    return {"pooled": errors.pooled(), "tasks": errors.tasks(), "by_task": errors.by_task(), "test_rows": rows}


def mean_and_sd(values: Sequence[float]) -> tuple[float, float]:
    """Mean and standard deviation over runs; NaN is the deviation of one run.

    >>> mean_and_sd([1.0, 3.0])
    (2.0, 1.4142135623730951)
    """
    x = np.asarray(values, dtype=float)
    sd = float(x.std(ddof=1)) if len(x) > 1 else float("nan")
    return float(x.mean()), sd


class Difference(NamedTuple):
    """Mean of paired differences and its standard error."""

    mean: float
    standard_error: float


def paired(ours: Mapping[int, Any], reference: Mapping[int, Any], metric: str) -> Difference | None:
    """Error of a method minus that of a reference, on the runs that both have.

    `ours` and `reference` are stored cells by run. With several distinct draws the pairs are runs; where all runs have
    the same test rows and differ only in folds, or there is one run, the standard error is that of the mean over tasks
    (mean over runs first). None without a common run. Random splits of one data set overlap, so that standard errors
    over such runs are on the small side.
    """
    common = sorted(set(ours) & set(reference))
    if not common:
        return None
    differences = np.array([ours[r][metric] - reference[r][metric] for r in common])
    pairs = differences
    if len(common) == 1 or ours[common[0]]["fixed_split"]:
        by_task = np.mean([_by_task(ours[r]) - _by_task(reference[r]) for r in common], axis=0)
        pairs = by_task[~np.isnan(by_task)]
    return Difference(float(differences.mean()), float(pairs.std(ddof=1) / np.sqrt(len(pairs))))


def _by_task(cell: Mapping[str, Any]) -> Array:
    return np.array([np.nan if value is None else value for value in cell["by_task"]], dtype=float)


def pooled_over(cell: Mapping[str, Any], names: Sequence[Any]) -> float:
    """Pooled RMSE over the test rows of some tasks."""
    at = [cell["tasks_named"].index(name) for name in names]
    rmse = _by_task(cell)[at]
    rows = np.asarray(cell["test_rows"], dtype=float)[at]
    return float(np.sqrt((rmse**2 * rows).sum() / rows.sum()))
