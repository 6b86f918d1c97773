"""Errors of every task on rows that the fit has not seen, beside a ridge per task and one for all."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import clone

from kinfolk.methods.gamtl.defaults import feature_scale
from kinfolk.methods.model import Model
from kinfolk.methods.ridges import Independent, Pooled
from kinfolk.methods.search_report import VersusRidge
from kinfolk.methods.uncertainty import HeldOut
from kinfolk.progress import Callback
from kinfolk.rows.folds import Folds
from kinfolk.rows.gram import Array, GramStats
from kinfolk.rows.splits import InTime
from kinfolk.rows.table import Rows, task_codes
from kinfolk.search.errors import Errors, rmse
from kinfolk.search.trials import splits_of, try_all, try_one
from kinfolk.solvers.ridge import choose_penalty

FOLDS = 5
FOLDS_MANY = 3  # for more than MANY tasks
MANY = 500
ROUNDS = 3  # of an alternation, for more than MANY tasks: the first give nearly all


@dataclass(frozen=True, eq=False)
class TaskErrors:
    """Root mean squared errors (T,) by method, NaN for tasks without rows, and how they came about, in words.

    `chance` is the probability by task that the model's error lies so far above that of the own ridge by chance;
    `of_fit` whether the errors are those by which the fit chose its parameters, which the model brings along.
    """

    model: Array
    own: Array
    pooled: Array
    protocol: str
    others: dict[str, Array] = field(default_factory=dict)
    chance: Array | None = None
    of_fit: bool = False


def same_rows(one: GramStats | None, two: GramStats, *, learned: bool = False) -> bool:
    """Whether two sets of statistics are of the same rows, to rounding; features that are `learned` do not count."""
    if one is None or not np.array_equal(one.labels, two.labels) or one.n_features != two.n_features:
        return False
    return all(
        np.allclose(a, b, rtol=1e-6, atol=1e-9 * float(np.abs(a).max(initial=0.0)))
        for a, b in ((one.n, two.n), (one.y_mean, two.y_mean), (one.yy, two.yy), *([] if learned else [(one.b, two.b)]))
    )


def task_errors(
    model: Model, rows: Rows, X: Array, gram: GramStats, *, groups: Any = None, callback: Callback | None = None
) -> TaskErrors:
    """Held-out errors by the protocol that suits the rows.

    Rows of the fit are cross-validated: a model that chose its parameters by folds brings the errors of those, any
    other is refitted with the same parameters. Other rows are a test set: the model stands as it is.

    Parameters
    ----------
    rows, X, gram : checked rows, their features, and their statistics
    groups : one label per row, kept on one side
    """
    assert model.columns is not None
    if model.gram is not None and not same_rows(model.gram, gram, learned=model.columns.learns):
        return _on_new_rows(model, model.gram, rows, gram.reindex(model.labels))
    if model.held_out is not None and model.report is not None and model.report.versus_ridge is not None:
        return _of_search(model, model.held_out, model.report.versus_ridge, model.report.n_splits)
    return _cross_validated(model, rows, X, gram, groups, callback)


def _of_search(model: Model, held_out: HeldOut, ridge: VersusRidge, folds: int | None) -> TaskErrors:
    """The errors by which a model chose its parameters, and those of the two ridges on the same folds."""
    lines = ", the ridges without curves" if model.curve_terms else ""
    protocol = (
        f"{folds}-fold cross-validation, on the folds of the fit. The model chose its parameters on these, so its "
        f"errors are a little too good; so do the two ridges theirs. All on the same features{lines}."
    )
    common_slopes = np.full(len(ridge.errors), np.nan) if ridge.common_slopes is None else ridge.common_slopes
    others = {} if held_out.without_graph is None else {"without graph": held_out.without_graph}
    return TaskErrors(held_out.errors, ridge.errors, common_slopes, protocol, others, ridge.chance, of_fit=True)


def _cross_validated(
    model: Model, rows: Rows, X: Array, gram: GramStats, groups: Any, callback: Callback | None
) -> TaskErrors:
    """The errors of a model that is refitted in every fold."""
    cv = FOLDS if gram.n_tasks <= MANY else FOLDS_MANY
    if groups is not None and not isinstance(groups, InTime):
        cv = min(cv, len(np.unique(np.asarray(groups))))
    assert model.columns is not None
    folds = model.columns.folds_of_rows(rows, X, gram, cv=cv, groups=groups, random_state=0)
    whole = "whole groups of rows" if groups is not None else "the rows of each task spread over the folds"
    whole = "in time, each fold trained on what was before it" if isinstance(groups, InTime) else whole
    common = f"{len(folds)}-fold cross-validation on the rows given, {whole}"
    own, pooled = (errors.among(folds.has_both()) for errors in _ridges(folds, model.curve_terms))
    method = clone(model.method)
    rounds = ""
    if gram.n_tasks > MANY and "max_iter" in method.quick:
        method.set_params(max_iter=min(method.max_iter or ROUNDS, ROUNDS))
        rounds = f" (at most {ROUNDS} rounds)"
    protocol = (
        f"{common}. The model was refitted in every fold{rounds} with its own parameters; the two ridges chose "
        "their penalty on these folds. All on the same features, as fitted on all rows."
    )
    splits = splits_of(folds, nested=method.wants_folds())
    if not splits:  # two times: what is before the second cannot be divided once more
        unknown = np.full(gram.n_tasks, np.nan)
        few = f"{common}. There are too few times to judge the model, which chooses its parameters on times before."
        return TaskErrors(unknown, own.by_task(), pooled.by_task(), few)
    trial = try_one(method, splits, callback, "report: errors by fold")
    chance = trial.errors.chance_of_rise(own) if trial.errors.rows.shape == own.rows.shape else None
    return TaskErrors(trial.errors.by_task(), own.by_task(), pooled.by_task(), protocol, chance=chance)


def _on_new_rows(model: Model, training: GramStats, rows: Rows, test: GramStats) -> TaskErrors:
    assert model.columns is not None
    at = rows.targets()
    codes = task_codes(rows.schema.labels, model.labels, "mean")[at.codes]
    # What the model predicts with: rows far out are clipped, as by predict.
    within = model.columns.clipped_features(rows.table).some(at.row)
    squared = (at.y - model.predict_read(within, codes)) ** 2 * (1.0 if at.weight is None else at.weight)
    by_task = np.bincount(codes[codes >= 0], squared[codes >= 0], minlength=len(model.labels))
    own, pooled = _ridges(Folds(training + test, (test,), (training,)), model.curve_terms)
    said = (
        "These rows are not those of the fit, so they are a test set: the model as it was fitted, beside ridges on the "
        "statistics of its training rows, with penalties chosen on the test rows themselves (in their favour). If some "
        "of the rows were in the fit, the model's errors are too good."
    )
    return TaskErrors(rmse(by_task, test.n), own.by_task(), pooled.by_task(), said)


def _ridges(folds: Folds, curve_terms: int) -> tuple[Errors, Errors]:
    """Errors of one ridge per task and of common slopes with own levels, lines on features of one scale."""
    if curve_terms:
        folds = folds.on_columns(np.arange(curve_terms, folds.total.n_features))
    folds = folds.rescaled(feature_scale(folds.total))
    methods: list[Any] = [Independent(), Pooled()]
    for method in methods:
        method.set_params(penalty=choose_penalty(method.prepare, folds.with_rows(), "tasks").best)
    own, pooled = (trial.errors for trial in try_all(methods, folds))
    return own, pooled
