"""Errors of every task on rows that the fit has not seen, beside a ridge per task and one for all."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.base import clone

from kinfolk.estimators.gamtl import GAMTL
from kinfolk.estimators.gamtlcv import GAMTLCV, feature_scale
from kinfolk.methods.independent import Independent
from kinfolk.methods.method import MultiTaskRegressor
from kinfolk.methods.pooled import Pooled
from kinfolk.progress import Callback, report
from kinfolk.rows.folds import Folds, folds_of_rows, squared_errors
from kinfolk.rows.gram import Array, GramStats
from kinfolk.rows.tasks import Rows

FOLDS, FOLDS_MANY = 5, 3
MANY, ROUNDS = 500, 3  # for more tasks: FOLDS_MANY, and few rounds of the alternation in each, which give nearly all


@dataclass(frozen=True, eq=False)
class TaskErrors:
    """Root mean squared errors (T,) by method, NaN for tasks without rows, and how they came about, in words."""

    model: Array
    own: Array
    pooled: Array
    protocol: str
    others: dict[str, Array] = field(default_factory=dict)


def same_rows(one: GramStats | None, two: GramStats) -> bool:
    """Whether two sets of statistics are of the same rows, to rounding."""
    if one is None or not np.array_equal(one.labels, two.labels) or one.n_features != two.n_features:
        return False
    return all(
        np.allclose(a, b, rtol=1e-6, atol=1e-9 * float(np.abs(a).max(initial=0.0)))
        for a, b in ((one.n, two.n), (one.y_mean, two.y_mean), (one.yy, two.yy), (one.b, two.b))
    )


def task_errors(
    model: MultiTaskRegressor,
    rows: Rows,
    X: Array,
    gram: GramStats,
    *,
    groups: Any = None,
    callback: Callback | None = None,
) -> TaskErrors:
    """Held-out errors by the protocol that suits the rows.

    Rows of the fit are cross-validated: a model that chose its parameters by folds brings the errors of those, any
    other is refitted with the same parameters. Other rows are a test set: the model stands as it is.

    Parameters
    ----------
    rows, X, gram : checked rows, their features, and their statistics
    groups : one label per row, kept on one side
    """
    training = getattr(model, "gram_", None)
    if training is not None and not same_rows(training, gram):
        return _on_new_rows(model, training, gram.reindex(model.tasks_))
    cv, seed = FOLDS if gram.n_tasks <= MANY else FOLDS_MANY, 0
    if isinstance(model, GAMTLCV):
        cv, seed = model.n_splits_ if isinstance(model.cv, int) else model.cv, model.random_state
    if groups is not None and isinstance(cv, int):
        cv = min(cv, len(np.unique(np.asarray(groups))))
    folds = folds_of_rows(rows, X, gram, cv=cv, groups=groups, random_state=seed)
    whole = "whole groups of rows" if groups is not None else "the rows of each task spread over the folds"
    common = f"{len(folds)}-fold cross-validation on the rows given, {whole}"
    own, pooled = _baselines(folds)
    if isinstance(model, GAMTLCV):
        others = {"without graph": _of_all_tasks(model.limit_errors_, gram)}
        said = (
            f"{common}. The model chose its parameters on these same folds, so its errors are a little too good; so do "
            "the two ridges theirs. All on the same features."
        )
        return TaskErrors(_of_all_tasks(model.cv_errors_, gram), own, pooled, said, others)
    rounds = f" (at most {ROUNDS} rounds)" if isinstance(model, GAMTL) and gram.n_tasks > MANY else ""
    said = (
        f"{common}. The model was refitted in every fold{rounds} with its own parameters; the two ridges chose "
        "their penalty on these folds. All on the same features, as fitted on all rows."
    )
    return TaskErrors(_refitted(model, folds, callback), own, pooled, said)


def _on_new_rows(model: MultiTaskRegressor, training: GramStats, test: GramStats) -> TaskErrors:
    own, pooled = _baselines(Folds(training + test, (test,)))
    said = (
        "These rows are not those of the fit, so they are a test set: the model as it was fitted, beside ridges on the "
        "statistics of its training rows, with penalties chosen on the test rows themselves (in their favour). If some "
        "of the rows were in the fit, the model's errors are too good."
    )
    return TaskErrors(_rmse(squared_errors(test, model.coef_, model.intercept_), test.n), own, pooled, said)


def _baselines(folds: Folds) -> tuple[Array, Array]:
    """Errors of one ridge per task and of common slopes with own levels, on features of one scale."""
    scale = feature_scale(folds.total)
    folds = Folds(folds.total.rescaled(scale), tuple(part.rescaled(scale) for part in folds.held_out))
    found = []
    for method in (Independent, Pooled):
        penalty = method(penalty="cv", scoring="tasks").fit_folds(folds).penalty_
        found.append(_refitted(method(penalty=penalty), folds, None))
    return found[0], found[1]


def _refitted(model: MultiTaskRegressor, folds: Folds, callback: Callback | None) -> Array:
    """Errors of a method fitted anew on the complement of every fold; one that cross-validates gets the other folds."""
    squared = np.zeros(folds.total.n_tasks)
    for f, part in enumerate(folds.held_out):
        twin = clone(model)
        if "callback" in twin.get_params(deep=False):
            twin.set_params(callback=None)
        if isinstance(twin, GAMTL) and len(squared) > MANY:
            twin.set_params(max_iter=min(twin.max_iter or ROUNDS, ROUNDS))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what there is to say about the fit was said at the fit
            if twin._wants_folds():
                others = [p for g, p in enumerate(folds.held_out) if g != f]
                twin.fit_folds(replace(Folds.of_parts(others), total=folds.training(f)))
            else:
                twin.fit_gram(folds.training(f))
        squared += squared_errors(part, twin.coef_, twin.intercept_)
        report(callback, "report: errors by fold", f + 1, len(folds))
    return _rmse(squared, np.sum([part.n for part in folds.held_out], axis=0))


def _rmse(squared: Array, n: Array) -> Array:
    mean = np.divide(np.maximum(squared, 0.0), n, out=np.full(len(n), np.nan), where=n > 0)
    return np.sqrt(mean)


def _of_all_tasks(values: Array, gram: GramStats) -> Array:
    """Values of the tasks with rows, NaN for the others."""
    full = np.full(gram.n_tasks, np.nan)
    full[gram.n > 0] = values
    return full
