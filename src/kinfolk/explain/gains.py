"""What a task gains from its neighbours: held-out error with and without them, on the same folds."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from kinfolk.estimators.gamtl import GAMTL
from kinfolk.estimators.gamtlcv import GAMTLCV
from kinfolk.explain.joint import Joint, joint_of, quietly, rows_like
from kinfolk.methods.gamtl.problem import Problem, calibrated, theta_at_start
from kinfolk.methods.search import Gain, paired_gain
from kinfolk.progress import Callback, report
from kinfolk.rows.folds import Folds, fill_unseen, folds_of_rows, squared_errors
from kinfolk.rows.gram import TINY, Array, GramStats


@dataclass(frozen=True, eq=False)
class TaskGains:
    """Held-out RMSE of every task with and without its neighbours.

    Attributes
    ----------
    labels : task names (T,)
    rows : rows behind each (T,)
    with_neighbors, without : held-out RMSE (T,); NaN for a task without rows
    standard_error : of the gain of every task, over folds; None where only the errors of all folds together are known
    total : relative gain, mean over tasks, with its standard error over tasks
    baseline : what "without" is, in words
    """

    labels: NDArray[Any]
    rows: Array
    with_neighbors: Array
    without: Array
    standard_error: Array | None
    total: Gain
    baseline: str

    @property
    def gain(self) -> Array:
        """RMSE without minus RMSE with neighbours: positive where they help."""
        return self.without - self.with_neighbors

    def table(self) -> list[dict[str, Any]]:
        """One row per task, the largest gain first."""
        error = self.standard_error
        return [
            {
                "task": self.labels[t].item() if isinstance(self.labels[t], np.generic) else self.labels[t],
                "rows": float(self.rows[t]),
                "rmse_with": float(self.with_neighbors[t]),
                "rmse_without": float(self.without[t]),
                "gain": float(self.gain[t]),
                "standard_error": None if error is None else float(error[t]),
            }
            for t in np.argsort(-np.nan_to_num(self.gain, nan=-np.inf), kind="stable")
        ]

    def __repr__(self) -> str:
        helped = int((self.gain > 0).sum())
        return (
            f"TaskGains({helped} of {len(self.labels)} tasks gain; mean over tasks {100 * self.total.mean:+.1f} % "
            f"(standard error {100 * self.total.standard_error:.1f} %) against {self.baseline})"
        )


def task_gains(
    model: Any,
    X: Any = None,
    y: Any = None,
    *,
    cv: Any = 5,
    groups: Any = None,
    random_state: Any = 0,
    callback: Callback | None = None,
) -> TaskGains:
    """Cross-validated error of every task with its neighbours and without them, on identical folds.

    With X and y: the model that drew the graph (for GAMTLCV its best graph candidate) is fitted to every fold's
    complement with its parameters as they are, then once more with all edges removed. Taking away the edges of one
    task alone would give it the same coefficients as taking away all (without anchor or shrunk intercepts), so one
    fit tells for every task. "Without" is not tuned on its own: against the best method without a graph, see GAMTLCV.

    Without X and y, for GAMTLCV: the errors of its own search, `cv_errors_` against `limit_errors_`, the tuned mixture
    with the graph against the tuned mixture without. They are equal if the guard left the graph out.

    Parameters
    ----------
    model : fitted GAMTL, GAMTLCV or RBFGAMTL
    X, y : the rows of fit
    cv, groups, random_state : folds, as in `GAMTLCV`
    callback : called with a `Progress` after every fold

    Notes
    -----
    Standard errors of single tasks are jackknifed over the held-out parts. Training parts overlap, so they are a
    little too small.
    """
    joint = joint_of(model, "task_gains")
    if X is None and y is None:
        return _of_search(model)
    rows, features = rows_like(model, X, y, "task_gains")
    features = features / joint.scale
    total = rows.gram(features, joint.gram.feature_names)
    folds = folds_of_rows(rows, features, total, cv=cv, groups=groups, random_state=random_state)
    errors, counts = _held_out(joint, folds, callback)
    seen = counts.sum(axis=0) > 0
    before, after = errors.sum(axis=1)
    return TaskGains(
        total.labels,
        total.n,
        _rmse(after, counts.sum(axis=0)),
        _rmse(before, counts.sum(axis=0)),
        _jackknife(errors, counts),
        paired_gain(before, after, np.where(seen, counts.sum(axis=0), 0.0)),
        "the same model without edges",
    )


def _of_search(model: Any) -> TaskGains:
    if not isinstance(model, GAMTLCV):
        raise ValueError(
            f"task_gains of {type(model).__name__} needs rows to cross-validate: pass X and y. "
            "Only GAMTLCV and RBFGAMTL keep the errors of a cross-validation of their own"
        )
    seen = model.gram_.n > 0
    errors = np.full((2, len(seen)), np.nan)
    errors[:, seen] = model.limit_errors_, model.cv_errors_
    before, after = errors[:, seen] ** 2
    gain = paired_gain(before, after, np.ones(seen.sum()))
    words = "the best mixture without a graph" + ("" if model.graph_helps_ else ", which the guard chose")
    return TaskGains(model.tasks_, model.gram_.n, errors[1], errors[0], None, gain, words)


def _held_out(joint: Joint, folds: Folds, callback: Callback | None) -> tuple[Array, Array]:
    """Squared errors (2, folds, T) without and with edges, and the rows (folds, T) behind them."""
    errors, counts = [], []
    for f, part in enumerate(folds.held_out):
        training = folds.training(f)
        seen = training.n > 0
        models = without_and_with(joint.estimator, training if seen.all() else training.select(seen))
        filled = [fill_unseen(W, c, seen, W.mean(axis=0), float(c.mean())) for W, c in models]
        errors.append([np.maximum(squared_errors(part, W, c), 0.0) for W, c in filled])
        counts.append(part.n)
        report(callback, "cross-validation", f + 1, len(folds))
    return np.stack(errors, axis=1), np.stack(counts)


def without_and_with(estimator: GAMTL, gram: GramStats) -> list[tuple[Array, Array]]:
    """Coefficients and intercepts for these statistics with all edges removed, and with the graph."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        problem = _problem(estimator, gram)
        result = quietly(problem, tol=estimator.tol, max_iter=estimator._rounds(gram.n_tasks))
        T = gram.n_tasks
        lonely = problem.weight_step(sparse.csr_array((T, T)), result.weights.value)
    return [problem.equations.coefficients(step.value) for step in (lonely, result.weights)]


def _problem(estimator: GAMTL, gram: GramStats) -> Problem:
    """Metric and calibration from these statistics alone, so that nothing held out takes part."""
    problem = estimator._problem(gram, estimator._effects(gram))
    if estimator.gamma is not None:
        return problem
    return calibrated(problem, theta_at_start(problem, estimator.neighbors), estimator.strength)


def _rmse(squared: Array, rows: Array) -> Array:
    return np.where(rows > 0, np.sqrt(squared / np.maximum(rows, TINY)), np.nan)


def _jackknife(errors: Array, counts: Array) -> Array:
    """Standard error of every task's gain, leaving out the held-out rows of one fold at a time.

    Folds without rows of a task do not count; NaN for a task with rows in fewer than two folds.
    """
    left = errors.sum(axis=1)[:, None, :] - errors
    rows = counts.sum(axis=0) - counts
    gain = _rmse(left[0], rows) - _rmse(left[1], rows)
    used = counts > 0
    k = used.sum(axis=0)
    mean = np.where(used, np.nan_to_num(gain), 0.0).sum(axis=0) / np.maximum(k, 1)
    squares = np.where(used, (np.nan_to_num(gain) - mean) ** 2, 0.0).sum(axis=0)
    return np.where(k > 1, np.sqrt((k - 1) / np.maximum(k, 1) * squares), np.nan)
