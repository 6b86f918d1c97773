"""Nested cross-validation of many methods on one table: tuned inside the training rows, judged on rows never seen."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from kinfolk.cli.recipe import Recipe
from kinfolk.cli.tables import Training
from kinfolk.methods.independent import Independent
from kinfolk.progress import Callback, report
from kinfolk.rows.folds import fold_of_rows
from kinfolk.rows.tasks import read_rows

Array = NDArray[np.float64]
Contender = Callable[[Training, Training], Array]  # training rows, and rows to predict without their targets


class OutOfTime(BaseException):
    """The time of a method is over. Not an Exception: searches that forgive failures must not forgive this."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a method did.

    Attributes
    ----------
    prediction : held-out prediction of every row, NaN in folds that were not done
    seconds : for all folds that were done
    trouble : why it is not complete, or ""
    """

    name: str
    prediction: Array
    seconds: float
    trouble: str = ""


def outer_folds(rows: Training, *, cv: int, seed: int) -> NDArray[np.intp]:
    """The outer fold of every row: within tasks, whole groups, common where tasks share their inputs."""
    task = rows.X.columns[0]
    reader = Independent(task=task, features=rows.features(scale=True))
    table = read_rows(rows.X, rows.y, task=task)
    features, names = reader._fit_features(table)
    gram = table.gram(features, names)
    return fold_of_rows(table, features, gram, cv=cv, groups=rows.groups, random_state=seed)


def race(
    contenders: dict[str, Contender],
    rows: Training,
    fold: NDArray[np.intp],
    *,
    seconds: dict[str, float],
    callback: Callback | None = None,
) -> Iterator[Outcome]:
    """Let every method predict every fold from the others, within its `seconds`."""
    folds, steps = np.unique(fold), 0
    for name, contender in contenders.items():
        prediction, trouble, started = np.full(len(fold), np.nan), "", perf_counter()
        done = 0
        try:
            with limited(seconds[name]):
                for f in folds:
                    prediction[fold == f] = contender(rows.take(fold != f), rows.take(fold == f))
                    done += 1
                    report(callback, f"comparing ({name})", steps + done, len(contenders) * len(folds))
        except OutOfTime:
            trouble = f"not finished within {seconds[name]:g} s ({done} of {len(folds)} folds): raise --time-limit"
        except (ValueError, TypeError, ImportError, ArithmeticError, np.linalg.LinAlgError) as error:
            trouble = in_short(error)
        steps += len(folds)
        yield Outcome(name, prediction, perf_counter() - started, trouble)


def in_short(error: Exception) -> str:
    """The first sentence of an error; of a failed search, that of its first point."""
    text = " ".join(str(error).split()).split("ValueError: ")[-1]
    return text.split(". ")[0][:160]


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise `OutOfTime` inside when the time is over, where the system has alarms; elsewhere there is no limit."""
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(*_: Any) -> NoReturn:
        raise OutOfTime

    before = signal.signal(signal.SIGALRM, ring)
    # Again every second, should the first be lost in a callback that swallows it.
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def by_recipe(recipe: Recipe, **settings: Any) -> Contender:
    """A method of the package, tuned on folds of its training rows."""

    def predict(training: Training, new: Training) -> Array:
        model, _ = recipe.fit(training, training.X.columns[0], unseen="mean", **settings)
        return np.asarray(model.predict(new.X))

    return predict


def task_mean(training: Training, new: Training) -> Array:
    """The mean target of the task; of all tasks where there is none."""
    labels, codes = np.unique(training.X.to_series(0).to_numpy(), return_inverse=True)
    means = np.bincount(codes, training.y) / np.bincount(codes)
    asked = new.X.to_series(0).to_numpy()
    position = np.minimum(np.searchsorted(labels, asked), len(labels) - 1)
    return np.where(labels[position] == asked, means[position], means.mean())


def boosted(seed: int) -> Contender:
    """Boosted trees with the task as a category."""
    from kinfolk.reproduce.boosting import fit_boosting
    from kinfolk.reproduce.splits import Split

    def predict(training: Training, new: Training) -> Array:
        task, *inputs = training.X.columns
        labels = np.unique(training.X[task].to_numpy())
        encoder = training.features(scale=True)
        encoder.fit(training.X.select(inputs))

        def table(X: Any) -> Array:
            tasks = X[task].to_numpy()
            code = np.where(np.isin(tasks, labels), np.searchsorted(labels, tasks), -1)
            return np.column_stack([code, encoder.transform(X.select(inputs))])

        X, X_new = table(training.X), table(new.X)
        best, _ = fit_boosting(Split(X, training.y, X_new, new.y, list(labels), training.groups), seed)
        return np.asarray(best(X_new))

    return predict
