"""Errors of every task on rows that the fit has not seen, beside a ridge per task and one for all."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.special import log_expit, softmax
from sklearn.base import clone

from kinfolk.methods.gamtl.defaults import feature_scale
from kinfolk.methods.model import Model
from kinfolk.methods.ridges import Independent, Pooled
from kinfolk.methods.search_report import VersusRidge
from kinfolk.methods.uncertainty import HeldOut
from kinfolk.progress import Callback, report
from kinfolk.rows.folds import Folds
from kinfolk.rows.gram import Array, GramStats
from kinfolk.rows.splits import InTime, fold_of_rows, trains
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

    Of classes, counts and amounts they are mean losses.

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
    if model.gram is not None and not _is_of_fit(model, rows, gram):
        if not model.target.is_plain:
            return _losses_on_new_rows(model, rows)
        return _on_new_rows(model, model.gram, rows, gram.reindex(model.labels))
    if model.held_out is not None and model.report is not None and model.report.versus_ridge is not None:
        return _of_search(model, model.held_out, model.report.versus_ridge, model.report.n_splits)
    if not model.target.is_plain:
        return _cross_validated_losses(model, rows, X, gram, groups, callback)
    return _cross_validated(model, rows, X, gram, groups, callback)


def _is_of_fit(model: Model, rows: Rows, gram: GramStats) -> bool:
    """Whether rows are those of the fit, to rounding."""
    assert model.gram is not None and model.columns is not None
    if model.target.is_plain:
        return same_rows(model.gram, gram, learned=model.columns.learns)
    # Statistics of working targets are of no rows: there are numbers of rows and means of targets to compare.
    if not np.isin(gram.labels, model.labels).all():
        return False
    at = rows.targets()
    count = np.bincount(np.searchsorted(model.labels, gram.labels)[at.codes], minlength=len(model.labels))
    seen = count > 0
    means = gram.reindex(model.labels).y_mean[seen]
    return np.array_equal(count, model.rows) and np.allclose(means, model.target_means[seen], rtol=1e-6, atol=1e-9)


def means_of_rows(model: Model, rows: Rows) -> Array:
    """Means of the observed targets of checked rows; of several classes probabilities of the first."""
    at = rows.targets()
    codes = task_codes(rows.schema.labels, model.labels, "mean")[at.codes]
    each = []
    for one in model.by_class or (model,):
        assert one.columns is not None
        # What the model predicts with: rows far out are clipped, as by predict.
        within = one.columns.clipped_features(rows.table)._replace(offset=rows.offset).some(at.row)
        each.append(one.predictor_read(within, codes))
    if not model.by_class:
        return model.target.mean(each[0])
    eta = np.stack(each, axis=-1)
    if getattr(model.method, "one_versus_rest", False):
        eta = log_expit(eta)
    return np.asarray(softmax(eta, axis=-1)[:, 0])


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


def _cross_validated_losses(
    model: Model, rows: Rows, X: Array, gram: GramStats, groups: Any, callback: Callback | None
) -> TaskErrors:
    """The same of classes, counts and amounts, whose methods are fitted to rows: those of every fold."""
    fold = fold_of_rows(rows, X, gram, cv=FOLDS, groups=groups, random_state=0)
    k = int(fold.max()) + 1
    given = {name: getattr(model.method, name) for name in ("task", "exposure", "offset", "features")}
    ridge = {**given, "family": model.family, "penalty": "cv"}
    methods: list[Any] = [clone(model.method), Independent(**ridge), Pooled(**ridge)]
    predictions = [np.full(len(rows.targets().y), np.nan) for _ in methods]
    held_out = fold[rows.targets().row]
    first = of_first_class(rows, model)
    classes = model.classes if getattr(model.method, "classifies", False) else None
    each = (replace(rows, classes=classes), first, first)
    for f in range(k):
        training = np.flatnonzero(trains(fold, f))
        rest = np.flatnonzero(fold == f)
        for method, prediction, its_rows in zip(methods, predictions, each, strict=True):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what a fold has to say was said of all rows
                fitted = method.fit_rows(its_rows.take(training), None if groups is None else groups[training])
            prediction[held_out == f] = means_of_rows(fitted.model_, its_rows.take(rest))
        report(callback, "report: errors by fold", f + 1, k)
    judged = held_out >= 0
    at = first.targets()
    position = np.searchsorted(model.labels, rows.schema.labels)[at.codes][judged]
    T = len(model.labels)
    found = [
        Errors.of_predictions(at.y[judged], prediction[judged], position, T, held_out[judged], model.target)
        for prediction in predictions
    ]
    whole = "whole groups of rows" if groups is not None else "the rows of each task spread over the folds"
    protocol = (
        f"{k}-fold cross-validation on the rows given, {whole}: the {model.target.error} of held-out rows. The model "
        "was refitted in every fold with its own parameters; the two ridges chose their penalty by folds inside the "
        "training rows. A task with a single row has no ridge of its own."
    )
    # Held out, a single row leaves none for a ridge of its own.
    own, pooled = (errors.among(found[0].task_rows > 1) for errors in found[1:])
    return TaskErrors(
        found[0].by_task(), own.by_task(), pooled.by_task(), protocol, chance=found[0].chance_of_rise(own)
    )


def of_first_class(rows: Rows, model: Model) -> Rows:
    """The rows with the first of several classes as 1, and all others as 0."""
    if not model.by_class:
        return replace(rows, classes=None)
    return replace(rows, y=np.where(np.isnan(rows.y), np.nan, rows.y == 0), classes=None)


def _losses_on_new_rows(model: Model, rows: Rows) -> TaskErrors:
    """The losses of the model as it was fitted; ridges would need the rows of the fit."""
    at = of_first_class(rows, model).targets()
    codes = task_codes(rows.schema.labels, model.labels, "mean")[at.codes]
    known = codes >= 0
    prediction = means_of_rows(model, rows)[known]
    T = len(model.labels)
    errors = Errors.of_predictions(at.y[known], prediction, codes[known], T, family=model.target)
    said = (
        f"These rows are not those of the fit, so they are a test set: the {model.target.error} of the model as it was "
        "fitted. Ridges to compare it with would need the rows of the fit, which a model does not keep. If some of the "
        "rows were in the fit, the errors are too good."
    )
    unknown = np.full(T, np.nan)
    return TaskErrors(errors.by_task(), unknown, unknown, said)


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
