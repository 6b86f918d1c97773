"""Parameters of any method by cross-validation, all points on the same folds."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid

from kinfolk.methods.method import MultiTaskRegressor
from kinfolk.methods.model import Model
from kinfolk.progress import Callback, report
from kinfolk.rows.families import Family
from kinfolk.rows.folds import SCORINGS, Folds, cv_error
from kinfolk.rows.gram import Array
from kinfolk.rows.schema import roles_of
from kinfolk.rows.splits import fold_of_rows, generator, in_order, trains, whole_tasks
from kinfolk.rows.table import Rows
from kinfolk.search.errors import Errors
from kinfolk.search.trials import TrainTest, Trial, splits_of, try_one
from kinfolk.words import warn_user

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


def tune(
    estimator: MultiTaskRegressor,
    grid: Grid | None,
    X: Any,
    y: Any,
    *,
    cv: Any = 5,
    groups: Any = None,
    time: Any = None,
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
    cv, groups, random_state : number of folds, (train, test) pairs of row positions that share out all rows, or
        "tasks": whole tasks are held out; one label per row to be kept on one side; draws the folds
    time : times of the rows, or the name of a column of X: every fold trains on the past and is judged by what follows
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
    rows = estimator.read(X, y)
    grid = _default_grid(estimator) if grid is None else grid
    cv, groups = whole_tasks(cv, in_order(groups, time, X, len(rows.y)), rows)
    options = {"n_jobs": n_jobs, "random_state": random_state, "callback": callback}
    return tune_rows(estimator, grid, rows, cv=cv, groups=groups, scoring=scoring, **options)


def tune_rows(
    estimator: MultiTaskRegressor,
    grid: Grid,
    rows: Rows,
    *,
    cv: Any,
    groups: Any,
    scoring: str,
    random_state: Any = 0,
    in_folds: Mapping[str, Any] | None = None,
    **options: Any,
) -> Tuning:
    """`tune` for rows that have been read and checked; `options` are its `n_jobs` and `callback`.

    `in_folds` are parameters for the fits that are only compared by their errors; the last fit is without them.
    """
    callback = options.pop("callback", None)
    points = list(ParameterGrid(grid))
    methods = [clone(estimator).set_params(**{**(in_folds or {}), **point}) for point in points]
    if estimator.works_on_rows:
        fold = _fold_of(methods[0], rows, cv, groups, random_state)
        jobs = (joblib.delayed(_tried_on_rows)(m.unfitted(), rows, groups, fold) for m in methods)
    else:
        splits = _splits_by_features(methods, rows, cv, groups, random_state)
        jobs = (joblib.delayed(try_one)(m.unfitted(), s) for m, s in zip(methods, splits, strict=True))
    results: list[dict[str, Any]] = []
    for trial in joblib.Parallel(**options, return_as="generator")(jobs):
        k = len(results)
        if estimator.works_on_rows:
            errors, message = trial
            results.append(_row_of_losses(points[k], errors, message, scoring))
        else:
            results.append(_row(points[k], trial, splits[k], scoring))
        report(callback, "tune", k + 1, len(points), results[-1]["error"])
    _check_failures(results)
    best = min(results, key=lambda row: row["error"])
    refitted = clone(estimator).set_params(**best["params"]).fit_rows(rows, groups)
    return Tuning(refitted, best["params"], best["error"], results)


def fit_tuned(
    estimator: MultiTaskRegressor,
    rows: Rows,
    *,
    cv: int,
    groups: Any = None,
    fixed: Collection[str] = (),
    **options: Any,
) -> tuple[MultiTaskRegressor, float | None]:
    """A method with everything chosen by folds that the user has not `fixed`, and its cross-validated error.

    Methods that cross-validate themselves do so; others are tuned over their `default_grid`, with the `options` of
    `tune_rows`, and with their `quick` settings in the folds where the user has said nothing else. The error is the
    RMSE, mean over tasks, or None where nothing was chosen by it.
    """
    grid = {} if hasattr(estimator, "cv") or not cv else open_grid(estimator, fixed)
    if grid:
        quick = _quick(estimator, fixed)
        tuning = tune_rows(estimator, grid, rows, cv=cv, groups=groups, scoring="tasks", in_folds=quick, **options)
        return tuning.best_estimator_, tuning.best_error_
    fitted = estimator.fit_rows(rows, groups)
    return fitted, cross_validated_error(fitted)


def _quick(estimator: MultiTaskRegressor, fixed: Collection[str]) -> dict[str, Any]:
    """The settings that are enough for errors, for parameters that stand at their defaults."""
    default = type(estimator)().get_params(deep=False)
    now = estimator.get_params(deep=False)
    return {name: value for name, value in estimator.quick.items() if name not in fixed and now[name] == default[name]}


def cross_validated_error(fitted: MultiTaskRegressor) -> float | None:
    """Mean over tasks of the held-out errors of a method that cross-validated inside fit."""
    held_out = fitted.model_.held_out
    return None if held_out is None else float(np.nanmean(held_out.errors))


def open_grid(estimator: MultiTaskRegressor, fixed: Collection[str]) -> dict[str, list[Any]]:
    """The default grid without the parameters that were set by hand; the paper's gamma takes the place of strength."""
    given = {*fixed, *(["strength"] if "gamma" in fixed else [])}
    return {name: list(values) for name, values in estimator.default_grid.items() if name not in given}


def _default_grid(estimator: MultiTaskRegressor) -> Grid:
    grid = open_grid(estimator, ())
    if not grid:
        raise ValueError(
            f"{type(estimator).__name__} has no default_grid: pass a grid, e.g. {{'penalty': [0.1, 1, 10]}}"
        )
    return grid


def _splits_by_features(
    methods: list[MultiTaskRegressor], rows: Rows, cv: Any, groups: Any, random_state: Any
) -> list[list[TrainTest]]:
    """The splits of every method, made once for all that have the same `features`."""
    seed = int(generator(random_state).integers(2**31 - 1))  # one draw, so that all have the same folds
    keys = [joblib.hash((method.features, method.wants_folds())) for method in methods]
    splits = {
        key: _split(method, rows, cv, groups, seed) for key, method in dict(zip(keys, methods, strict=True)).items()
    }
    return [splits[key] for key in keys]


def _split(method: MultiTaskRegressor, rows: Rows, cv: Any, groups: Any, seed: int) -> list[TrainTest]:
    """Folds by addition; with a transformer, from rows, since every fold has features of its own."""
    columns, features, names = method.fit_columns(rows)
    gram = rows.gram(features, names)
    if method.features is None:
        folds = columns.folds_of_rows(rows, features, gram, cv=cv, groups=groups, random_state=seed)
        folds = folds.with_roles(roles_of(method.facts, method.common, gram, columns))
        return splits_of(folds, nested=method.wants_folds(), gaps=columns.gaps)
    fold = fold_of_rows(rows, features, gram, cv=cv, groups=groups, random_state=seed)
    return [_split_rows(method, rows, trains(fold, f), fold == f) for f in range(int(fold.max()) + 1)]


def _split_rows(
    method: MultiTaskRegressor, rows: Rows, trains: NDArray[np.bool_], held_out: NDArray[np.bool_]
) -> TrainTest:
    training = rows.take(np.flatnonzero(trains))
    rest = rows.take(np.flatnonzero(held_out))
    columns, features, names = method.fit_columns(training)
    gram = training.gram(columns.of_training(training, features), names)
    gram = gram.with_roles(roles_of(method.facts, method.common, gram, columns))
    return TrainTest(gram, rest.gram(columns.features(rest.table), names))


def _row(point: dict[str, Any], trial: Trial, splits: list[TrainTest], scoring: str) -> dict[str, Any]:
    none = np.empty(0, np.intp)  # of the features, which may be others in every fold
    total = Folds.of_parts([split.held_out.on_columns(none) for split in splits]).total
    squared = trial.errors.squared.sum(axis=0)
    scores = {name: float(cv_error(squared, total, name)) for name in SCORINGS}
    return {
        "params": point,
        "error": scores[scoring],
        **scores,
        "by_fold": trial.errors.by_fold(),
        "by_task": trial.errors.by_task(),
        "message": trial.message,
    }


def _fold_of(method: MultiTaskRegressor, rows: Rows, cv: Any, groups: Any, random_state: Any) -> NDArray[np.intp]:
    """The fold of every row."""
    seed = int(generator(random_state).integers(2**31 - 1))
    _, features, names = method.fit_columns(rows)
    return fold_of_rows(rows, features, rows.gram(features, names), cv=cv, groups=groups, random_state=seed)


def _tried_on_rows(
    method: MultiTaskRegressor, rows: Rows, groups: Any, fold: NDArray[np.intp]
) -> tuple[Errors | None, str]:
    """Held-out losses of a method of classes, counts or amounts, which is fitted to rows; or what went wrong."""
    prediction = np.full(rows.y.shape, np.nan)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what a fold has to say is said of all rows again
            for f in range(int(fold.max()) + 1):
                training = np.flatnonzero(trains(fold, f))
                held_out = np.flatnonzero(fold == f)
                within = None if groups is None else groups[training]
                fitted = clone(method).fit_rows(rows.take(training), within)
                prediction[held_out] = predicted_rows(fitted.model_, rows.take(held_out))
    except Exception as error:  # one bad point must not end a long search; its message is kept
        return None, f"{type(error).__name__}: {error}"
    return errors_of_rows(rows, prediction, fold, method.target), ""


def predicted_rows(model: Model, rows: Rows) -> Array:
    """Predictions for checked rows, in the form of their targets."""
    assert model.columns is not None
    read = model.columns.clipped_features(rows.table)._replace(offset=rows.offset)
    return model.predict_all(read) if rows.codes is None else model.predict_read(read, rows.codes)


def errors_of_rows(rows: Rows, prediction: Array, fold: NDArray[np.intp], family: Family) -> Errors:
    """Errors of predictions in the form of the targets of checked rows."""
    at = rows.targets()
    predicted = prediction[at.row] if rows.codes is not None else prediction[at.row, at.codes]
    held = fold[at.row] >= 0  # in time, the first rows are never held out
    T = len(rows.schema.labels)
    return Errors.of_predictions(at.y[held], predicted[held], at.codes[held], T, fold[at.row][held], family)


def _row_of_losses(point: dict[str, Any], errors: Errors | None, message: str, scoring: str) -> dict[str, Any]:
    if errors is None:
        return {"params": point, "error": np.inf, "message": message}
    scores = {"pooled": errors.pooled(), "tasks": errors.tasks()}
    about = {"by_fold": errors.by_fold(), "by_task": errors.by_task(), "message": message}
    return {"params": point, "error": scores.get(scoring, scores["tasks"]), **scores, **about}


def _check_failures(results: list[dict[str, Any]]) -> None:
    failed = [row for row in results if not np.isfinite(row["error"])]
    if not failed:
        return
    first = f"{failed[0]['params']}: {failed[0]['message']}"
    if len(failed) == len(results):
        raise ValueError(f"all {len(results)} grid points failed, the first with {first}")
    warn_user(
        f"{len(failed)} of {len(results)} grid points failed and count as infinitely bad, the first with {first}. "
        "The messages are in cv_results_."
    )
