"""What a task gains from its neighbours: held-out error with and without them, on the same folds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.explain.joint import Joint, joint_of, quietly, rows_like
from kinfolk.methods.gamtl.alternate import Alternation
from kinfolk.methods.gamtl.problem import Problem
from kinfolk.methods.model import Fitted, Model, as_model
from kinfolk.methods.search_report import Gain
from kinfolk.progress import Callback
from kinfolk.rows.folds import Folds
from kinfolk.rows.gram import Array, GramStats
from kinfolk.search.errors import paired_gain, rmse
from kinfolk.search.trials import try_all

TOLERANCE = 1e-6  # of the alternation in a fold, for methods that tune


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
        names = self.labels.tolist()
        return [
            {
                "task": names[t],
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
    model: Fitted,
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
    fit serves all tasks. "Without" is not tuned on its own: against the best method without a graph, see GAMTLCV.

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
    model = as_model(model, "task_gains")
    joint = joint_of(model, "task_gains")
    if X is None and y is None:
        return _of_search(model)
    rows, features = rows_like(model, X, y, "task_gains")
    total = rows.gram(features, joint.gram.feature_names)
    assert model.columns is not None
    folds = model.columns.folds_of_rows(rows, features, total, cv=cv, groups=groups, random_state=random_state)
    methods = [WithGraph(joint, edges, model.parameter("tol") or TOLERANCE) for edges in (False, True)]
    without, with_neighbors = (t.errors for t in try_all(methods, folds, callback=callback))
    return TaskGains(
        total.labels,
        total.n,
        with_neighbors.by_task(),
        without.by_task(),
        _jackknife(np.stack([without.squared, with_neighbors.squared]), without.rows),
        with_neighbors.gain_over(without),
        "the same model without edges",
    )


def _of_search(model: Model) -> TaskGains:
    if model.private:
        model.statistics("task_gains without rows")
    held_out = model.held_out
    if held_out is None or held_out.without_graph is None:
        raise ValueError(
            f"task_gains of {model.name} needs rows to cross-validate: pass X and y. "
            "Only GAMTLCV and RBFGAMTL keep the errors of a cross-validation of their own"
        )
    assert model.gram is not None
    known = np.isfinite(held_out.errors)
    gain = paired_gain(held_out.without_graph[known] ** 2, held_out.errors[known] ** 2, np.ones(known.sum()))
    guarded = model.report is not None and not model.report.graph_helps
    words = "the best mixture without a graph" + (", which the guard chose" if guarded else "")
    return TaskGains(model.labels, model.gram.n, held_out.errors, held_out.without_graph, None, gain, words)


@dataclass(frozen=True, eq=False)
class WithGraph:
    """The method that drew a graph, for the judge: metric and calibration from the statistics given, nothing else.

    Without `edges` the weights are those of the same problem with all edges removed.
    """

    joint: Joint
    edges: bool
    tol: float

    def model_of(self, gram: GramStats, folds: Folds | None = None) -> Model:
        """The model of all tasks of `gram`."""
        known = gram.with_rows()
        units = self.joint.units
        problem, result = known.once(("with graph", id(self.joint)), lambda: self._solved(known.rescaled(units)))
        V = result.weights.value  # shared by both methods of a fold: one alternation serves them
        if not self.edges:
            T = len(V)
            V = problem.weight_step(sparse.csr_array((T, T)), V).value
        W, c = problem.equations.coefficients(V)
        return Model.of(known, W / units, c).among(gram)

    def _solved(self, gram: GramStats) -> tuple[Problem, Alternation]:
        problem = self.joint.coupling.recipe.problem(gram)
        return problem, quietly(problem, tol=self.tol)


def _jackknife(errors: Array, counts: Array) -> Array:
    """Standard error of every task's gain, leaving out the held-out rows of one fold at a time.

    Folds without rows of a task do not count; NaN for a task with rows in fewer than two folds.
    """
    # Errors of all folds but one, for each fold in turn.
    left = errors.sum(axis=1)[:, None, :] - errors
    rows = counts.sum(axis=0) - counts
    gain = rmse(left[0], rows) - rmse(left[1], rows)
    used = counts > 0
    k = used.sum(axis=0)
    mean = np.where(used, np.nan_to_num(gain), 0.0).sum(axis=0) / np.maximum(k, 1)
    squares = np.where(used, (np.nan_to_num(gain) - mean) ** 2, 0.0).sum(axis=0)
    # The jackknife's factor: each estimate lacks one part in k only, so they scatter far less than the parts do.
    return np.where(k > 1, np.sqrt((k - 1) / np.maximum(k, 1) * squares), np.nan)
