"""Methods tried on folds of statistics: coefficients from the training part, errors on the held-out part."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from joblib import Parallel, delayed
from sklearn.exceptions import ConvergenceWarning

from kinfolk.methods.method import MultiTaskRegressor
from kinfolk.methods.model import Model
from kinfolk.progress import Callback, report
from kinfolk.rows.folds import Folds, Gap, refilled
from kinfolk.rows.gram import Array, GramStats, squared_errors
from kinfolk.search.errors import Errors
from kinfolk.solvers.tolerances import SAME_ERRORS


class Fittable(Protocol):
    """What the judge asks of a method that does not cross-validate on its own."""

    def model_of(self, gram: GramStats, folds: Folds | None = None) -> Model:
        """The fitted model."""


@dataclass(frozen=True, eq=False)
class TrainTest:
    """One fold: statistics of the rows to train on and of those held out; folds of the former for methods that tune."""

    training: GramStats
    held_out: GramStats
    inner: Folds | None = None


@dataclass(frozen=True, eq=False)
class Trial:
    """A method on every fold: coefficients (k, T, d), intercepts (k, T), errors, and what went wrong, or ""."""

    coef: Array
    intercept: Array
    errors: Errors
    message: str = ""

    def predicts_as(self, other: Trial) -> bool:
        """Whether the held-out errors of every fold and task are the same, to rounding."""
        one, two = self.errors.squared, other.errors.squared
        return one.shape == two.shape and bool((np.abs(one - two) <= SAME_ERRORS * (one + two)).all())

    def joined(self, other: Trial) -> Trial:
        """The same method on the folds of both."""
        errors = Errors(
            np.concatenate([self.errors.squared, other.errors.squared]),
            np.concatenate([self.errors.rows, other.errors.rows]),
        )
        coef = np.concatenate([self.coef, other.coef])
        return Trial(coef, np.concatenate([self.intercept, other.intercept]), errors, self.message or other.message)


def splits_of(folds: Folds, *, nested: bool = False, gaps: Sequence[Gap] = ()) -> list[TrainTest]:
    """The folds as splits; `nested` with folds of every training part, of which the first in time has none.

    Features with `gaps` have those filled in by what the training rows of each split know.
    """
    first = int(nested and folds.in_time)
    known = refilled(folds, gaps)
    splits = []
    for f in range(first, len(folds)):
        training = known.training(f)
        inner = replace(refilled(folds.without(f), gaps), total=training) if nested else None
        splits.append(TrainTest(training, known.held_out[f], inner))
    return splits


def try_all(
    methods: Sequence[Fittable],
    folds: Folds,
    *,
    only: Sequence[int] | None = None,
    n_jobs: int | None = None,
    callback: Callback | None = None,
) -> list[Trial]:
    """Every method on every fold or some, fold by fold, so that methods share what depends on the statistics alone.

    A failure ends it: the methods are ours, and so are their parameters.
    """
    if not methods:
        return []
    some = range(len(folds)) if only is None else only
    jobs = (delayed(_fit_quietly)(methods, folds.training(f), folds.held_out[f]) for f in some)
    coef: list[Array] = []
    intercept: list[Array] = []
    for f, (W, c) in zip(some, Parallel(n_jobs=n_jobs, return_as="generator")(jobs), strict=True):
        coef.append(W)
        intercept.append(c)
        report(callback, "cross-validation", f + 1, len(folds))
    held_out = [folds.held_out[f] for f in some]
    rows = np.stack([part.n for part in held_out])
    trials = []
    for m in range(len(methods)):
        W = np.stack([fold[m] for fold in coef])
        c = np.stack([fold[m] for fold in intercept])
        squared = np.stack([squared_errors(part, W[f], c[f]) for f, part in enumerate(held_out)])
        trials.append(Trial(W, c, Errors(squared, rows)))
    return trials


def _fit_quietly(methods: Sequence[Fittable], training: GramStats, held_out: GramStats) -> tuple[Array, Array]:
    """Coefficients (M, T, d) and intercepts (M, T); of hundreds of fits a few may stop early."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", UserWarning)
        lines = [method.model_of(training).lines_at(held_out) for method in methods]
    return np.stack([coef for coef, _ in lines]), np.stack([intercept for _, intercept in lines])


def try_one(
    method: MultiTaskRegressor, splits: Sequence[TrainTest], callback: Callback | None = None, stage: str = ""
) -> Trial:
    """A method whose fits may fail: its errors are then infinite from that fold on, and the message tells why."""
    T = splits[0].training.n_tasks
    coef = np.zeros((len(splits), T, splits[0].training.n_features))
    intercept = np.zeros((len(splits), T))
    squared = np.full((len(splits), T), np.inf)
    rows = np.stack([split.held_out.n for split in splits])
    said: dict[str, None] = {}
    message = ""
    try:
        for f, split in enumerate(splits):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                model = method.model_of(split.training, split.inner if method.wants_folds() else None)
            said.update({str(w.message): None for w in caught})
            coef[f], intercept[f] = model.lines_at(split.held_out)
            squared[f] = squared_errors(split.held_out, coef[f], intercept[f])
            report(callback, stage, f + 1, len(splits))
    except Exception as error:  # one bad point must not end a long search; its message is kept
        message = f"{type(error).__name__}: {error}"
    squared = np.where(np.isnan(squared), np.inf, squared)
    return Trial(coef, intercept, Errors(squared, rows), message or "; ".join(said))


def plain_row(trial: Trial, **about: Any) -> dict[str, Any]:
    """A row of a table of results: errors pooled and mean over tasks."""
    return {**about, "rmse_pooled": trial.errors.pooled(), "rmse_tasks": trial.errors.tasks()}
