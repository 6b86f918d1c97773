"""Hyperparameters of any method by cross-validation: the referee that treats all of them alike."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid
from sklearn.utils import _safe_indexing

from kinfolk.methods.method import MultiTaskRegressor
from kinfolk.progress import Callback, report
from kinfolk.rows.folds import SCORINGS, cv_error, fold_of_rows, folds_of_rows, generator, squared_errors
from kinfolk.rows.gram import Array, GramStats
from kinfolk.rows.tables import Table
from kinfolk.rows.tasks import Rows, read_rows

Grid = Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]]


@dataclass(frozen=True, eq=False)
class Tuning:
    """What `tune` found.

    Attributes
    ----------
    best_estimator_ : the estimator with the best parameters, refitted on all rows
    best_params_, best_error_ : its grid point and that point's cross-validated error
    cv_results_ : one dict per grid point (a list of these makes a data frame): `params`; `error`, the one that was
        asked for; `pooled`, `tasks` and `normalised`, all three (see `kinfolk.rows.folds.cv_error`); `by_fold`, pooled
        root mean squared errors (k,); `by_task`, the same of every task (T,); `message`, what went wrong or did not
        converge, or ""
    """

    best_estimator_: MultiTaskRegressor
    best_params_: dict[str, Any]
    best_error_: float
    cv_results_: list[dict[str, Any]]


@dataclass(frozen=True, eq=False)
class _Splits:
    """Training and held-out statistics of every fold, and the statistics of all rows."""

    total: GramStats
    pairs: list[tuple[GramStats, GramStats]]


def tune(
    estimator: MultiTaskRegressor,
    grid: Grid | None,
    X: Any,
    y: Any,
    *,
    cv: Any = 5,
    groups: Any = None,
    scoring: str = "pooled",
    n_jobs: int | None = None,
    random_state: Any = 0,
    callback: Callback | None = None,
) -> Tuning:
    """Fit every point of a grid on every fold, and refit the best on all rows.

    Rows are read once; every fit works on statistics. All points see the same folds: spread within each task, whole
    `groups`, and common to all tasks where they share their inputs. A `features` transformer is fitted anew on the
    training rows of every fold, so it never sees a held-out target.

    Parameters
    ----------
    estimator : any method of the package
    grid : lists of values by parameter name, a list of such dicts, or None for the method's `default_grid`
    X, y : as for fit
    cv, groups, random_state : number of folds, or (train, test) pairs of row positions that share out all rows; one
        label per row to be kept on one side; draws the folds
    scoring : "pooled", "tasks" or "normalised": what the best has least of (see `kinfolk.rows.folds.cv_error`)
    n_jobs : grid points at a time, in processes
    callback : called with a `Progress` after every grid point

    Examples
    --------
    >>> from kinfolk.baselines import Independent
    >>> x = np.tile(np.arange(10.0), 2)
    >>> found = tune(Independent(task=0), {"penalty": [0.0, 1e6]}, np.column_stack([np.repeat([0, 1], 10), x]), 2 * x)
    >>> found.best_params_, round(found.best_error_, 6), found.best_estimator_.coef_.ravel().round(6)
    ({'penalty': 0.0}, 0.0, array([2., 2.]))
    """
    if scoring not in SCORINGS:
        raise ValueError(f"scoring={scoring!r}: choose one of {', '.join(map(repr, SCORINGS))}")
    points = list(ParameterGrid(_default_grid(estimator) if grid is None else grid))
    candidates = [clone(estimator).set_params(**point) for point in points]
    splits = _splits_by_features(candidates, read_rows(X, y, task=estimator.task), cv, groups, random_state)
    jobs = (joblib.delayed(_held_out_errors)(c, s.pairs) for c, s in zip(candidates, splits, strict=True))
    results: list[dict[str, Any]] = []
    for errors, message in joblib.Parallel(n_jobs=n_jobs, return_as="generator")(jobs):
        k = len(results)
        results.append(_row(points[k], errors, message, splits[k], scoring))
        report(callback, "tune", k + 1, len(points), results[-1]["error"])
    _check_failures(results)
    best = min(results, key=lambda row: row["error"])
    refitted = clone(estimator).set_params(**best["params"]).fit(X, y)
    return Tuning(refitted, best["params"], best["error"], results)


def _default_grid(estimator: MultiTaskRegressor) -> Grid:
    grid = getattr(estimator, "default_grid", None)
    if not grid:
        raise ValueError(
            f"{type(estimator).__name__} has no default_grid: pass a grid, e.g. {{'penalty': [0.1, 1, 10]}}"
        )
    return {name: list(values) for name, values in grid.items()}


def _splits_by_features(
    candidates: list[MultiTaskRegressor], rows: Rows, cv: Any, groups: Any, random_state: Any
) -> list[_Splits]:
    """The splits of every candidate, made once for all that have the same `features`."""
    seed = int(generator(random_state).integers(2**31 - 1))  # one draw, so that all have the same folds
    made: dict[str, _Splits] = {}
    keys = [joblib.hash(candidate.features) for candidate in candidates]
    for key, candidate in zip(keys, candidates, strict=True):
        if key not in made:
            made[key] = _split(candidate, rows, cv, groups, seed)
    return [made[key] for key in keys]


def _split(estimator: MultiTaskRegressor, rows: Rows, cv: Any, groups: Any, seed: int) -> _Splits:
    """Folds by subtraction; with a transformer, from rows, since every fold has features of its own."""
    features, names = clone(estimator)._fit_features(rows)
    gram = rows.gram(features, names)
    if estimator.features is None:
        folds = folds_of_rows(rows, features, gram, cv=cv, groups=groups, random_state=seed)
        return _Splits(gram, [(folds.training(f), part) for f, part in enumerate(folds.held_out)])
    fold = fold_of_rows(rows, features, gram, cv=cv, groups=groups, random_state=seed)
    return _Splits(gram, [_split_rows(clone(estimator), rows, fold == f) for f in np.unique(fold)])


def _split_rows(model: MultiTaskRegressor, rows: Rows, held_out: NDArray[np.bool_]) -> tuple[GramStats, GramStats]:
    training, rest = _take(rows, np.flatnonzero(~held_out)), _take(rows, np.flatnonzero(held_out))
    features, names = model._fit_features(training)
    return training.gram(features, names), rest.gram(model._transform(rest.table), names)


def _take(rows: Rows, index: NDArray[np.intp]) -> Rows:
    """Some of the rows."""
    table = rows.table
    return replace(
        rows,
        table=Table(_safe_indexing(table.native, index), table.names, len(index), table.width, table.name),
        y=rows.y[index],
        codes=None if rows.codes is None else rows.codes[index],
        weight=None if rows.weight is None else rows.weight[index],
    )


def _held_out_errors(estimator: MultiTaskRegressor, pairs: list[tuple[GramStats, GramStats]]) -> tuple[Array, str]:
    """Sums of squared errors (k, T), infinite from the fold on whose fit fails, and what there is to say."""
    errors = np.full((len(pairs), pairs[0][0].n_tasks), np.inf)
    said: dict[str, None] = {}
    if "callback" in estimator.get_params(deep=False):
        estimator.set_params(callback=None)
    try:
        for f, (training, held_out) in enumerate(pairs):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                estimator.fit_gram(training)
            said.update({str(w.message): None for w in caught})
            errors[f] = squared_errors(held_out, estimator.coef_, estimator.intercept_)
    except Exception as error:  # one bad point must not end a long search; its message is kept
        return errors, f"{type(error).__name__}: {error}"
    return np.where(np.isnan(errors), np.inf, errors), "; ".join(said)


def _row(point: dict[str, Any], errors: Array, message: str, splits: _Splits, scoring: str) -> dict[str, Any]:
    by_task, total = errors.sum(axis=0), splits.total
    scores = {name: float(cv_error(by_task, total, name)) for name in SCORINGS}
    n_fold = np.array([max(held_out.n.sum(), 1.0) for _, held_out in splits.pairs])
    return {
        "params": point,
        "error": scores[scoring],
        **scores,
        "by_fold": np.sqrt(errors.sum(axis=1) / n_fold),
        "by_task": np.sqrt(by_task / np.where(total.n > 0, total.n, np.nan)),
        "message": message,
    }


def _check_failures(results: list[dict[str, Any]]) -> None:
    failed = [row for row in results if not np.isfinite(row["error"])]
    if not failed:
        return
    first = f"{failed[0]['params']}: {failed[0]['message']}"
    if len(failed) == len(results):
        raise ValueError(f"all {len(results)} grid points failed, the first with {first}")
    warnings.warn(
        f"{len(failed)} of {len(results)} grid points failed and count as infinitely bad, the first with {first}. "
        "The messages are in cv_results_.",
        UserWarning,
        stacklevel=3,
    )
