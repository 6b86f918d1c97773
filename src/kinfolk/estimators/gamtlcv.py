"""GAMTLCV: GAMTL tuned by folds of statistics, beside the methods without a graph that it must not lose to."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kinfolk.estimators.gamtl import GAMTL, Draft
from kinfolk.estimators.graph_regressor import GraphRegressor
from kinfolk.methods.mixture import OWN, SLOPES, SLOPES_OWN, Member, Mixture, Search, limits
from kinfolk.methods.model import ByTask, Model
from kinfolk.methods.parameters import choice, number, parameters
from kinfolk.methods.uncertainty import HeldOut
from kinfolk.progress import Callback
from kinfolk.rows.folds import Folds
from kinfolk.rows.gram import TINY, Array, GramStats

MEAN_RIDGE = 0.02  # on the mean that tasks are shrunk to, in units of a task's own data
ENLARGE = 2  # times that the grid of strengths may grow at the edge where the best one lies
MANY_TASKS = 250  # above, the grid is searched along its axes
FINALISTS = 4  # graphs that may share in the mixture


@parameters
class GAMTLCV(GraphRegressor):
    """GAMTL with everything chosen by cross-validation, and a guard: sharing that does not help is not used.

    Rows become statistics once; a fold's training statistics are the total minus the fold. Tried are

    - the limits without a graph: task mean, ridge per task, pooled with own and with common intercepts, shrunk to the
      mean, random slopes, each with its penalty chosen on the same folds;
    - GAMTL over `metrics`, `anchors`, `neighbors`, `strengths` and `ridges`; strengths grow at an edge that is best.
      With more than 250 tasks one of them is varied at a time, and stronger pulls are tried where weaker are worse.

    All are linear in the same features, so the prediction is the mixture of them with the least held-out error, the
    tasks weighted so that one with large errors does not rule. If the graph lowers that error by more than `guard`
    standard errors over tasks, the mixture includes it (`graph_helps_`); otherwise it is one of limits, and the graph
    is descriptive.

    Parameters
    ----------
    task : name or position of the task column of X; None if y has one column per task
    neighbors : numbers of neighbours to try
    strengths : how hard neighbours pull, to try
    ridges : penalties to try, in multiples of the best one of a ridge per task
    anchors, metrics : to try, see `GAMTL`
    intercept : "auto" (what a mixed model cross-validates better with), "free" or "shrunk"
    cv : folds, a number, or (train, test) pairs of row positions. The number is doubled where tasks share their inputs
        and have fewer rows than twice the features: every fold then takes the same directions from all of them, and
        models would be judged by much worse fits than they are used for
    guard : standard errors by which the graph must win
    features : a transformer for the non-task columns; columns are put on one scale in any case
    unseen : "error" or "mean": what predict does with tasks that fit has not seen
    n_jobs : folds in parallel, with joblib (and any of its backends)
    random_state : draws the folds, by the positions of the rows: in another order they are drawn anew
    callback : called with a `Progress` after every fold

    Attributes
    ----------
    coef_, intercept_ : arrays of shape (T, d) and (T,); tasks_ : their labels
    adjacency_, graph_ : the graph of the best GAMTL that was tried, as it takes part in predictions
    graph_helps_ : whether the graph takes part in predictions; gain_ : its gain and standard error
    best_params_ : of the best GAMTL candidate; mixture_ : name of every model that takes part, with its share
    cv_results_ : a row per model that was tried: parameters, held-out RMSE pooled and mean over tasks
    cv_errors_ : held-out RMSE of every task; limit_errors_ : the same without the graph
    own_errors_ : the same of a ridge per task; own_gain_ : what the model gains over it
    """

    shares: ClassVar[str] = "graph, tuned and guarded"
    simplicity: ClassVar[int] = 50
    scales_itself: ClassVar[bool] = True

    neighbors: tuple[float, ...] = (5,)
    strengths: tuple[float, ...] = (0.1, 1.0, 10.0)
    ridges: tuple[float, ...] = (0.1, 1.0)
    anchors: tuple[float, ...] = (0.0, 0.5)
    metrics: tuple[str, ...] = ("identity", "learned")
    intercept: str = choice("auto", "free", "shrunk")
    cv: Any = 5
    guard: float = number(2.0, at_least=0)
    n_jobs: int | None = None
    random_state: Any = 0
    callback: Callback | None = None

    def needs_two_rows(self) -> bool:
        """Folds may leave a task without rows, so one row is no worse."""
        return False

    def wants_folds(self) -> bool:
        """Always."""
        return True

    def folds_for(self, gram: GramStats, groups: Any) -> Any:
        """Twice as many folds where tasks share few rows."""
        if not isinstance(self.cv, int) or groups is not None or gram.n_tasks == 1 or not gram.is_shared():
            return self.cv
        # Every fold takes the same directions from all tasks: with few rows, models would be judged by much worse fits.
        few = 2 * self.cv <= int(gram.n.max(initial=0.0)) < 2 * gram.n_features
        return 2 * self.cv if few else self.cv

    def learn_folds(self, folds: Folds) -> Model:
        """Try, mix, and fit the mixture to all rows."""
        self._check_axes()
        rows = folds.total.n.sum()
        if any(part.n.sum() >= rows for part in folds.held_out):
            raise ValueError(f"got n_samples={rows:g} in one fold: cross-validation needs rows in at least 2 folds")
        scale = self._scale(folds.total)
        search = Search(folds.rescaled(scale), self.n_jobs, self.callback)
        search.add(self._limits(search.folds))
        axes = self._axes(search)
        if folds.total.n_tasks <= MANY_TASKS:
            search.add([graph_member(**dict(zip(axes, point, strict=True))) for point in product(*axes.values())])
        else:
            search.add_axis_by_axis(axes, graph_member)
        self._enlarge(search)
        return self._choose(search, scale)

    def _scale(self, gram: GramStats) -> Array:
        return feature_scale(gram)

    def _limits(self, folds: Folds) -> list[Member]:
        return limits(folds, mean_ridge=MEAN_RIDGE, slopes=True)

    def _intercept(self, search: Search) -> str:
        """Free or shrunk, whichever the mixed model predicts better with."""
        if self.intercept != "auto":
            return self.intercept
        return "free" if search.error(SLOPES_OWN) <= search.error(SLOPES) else "shrunk"

    def _axes(self, search: Search) -> dict[str, list[Any]]:
        """The values of every parameter of GAMTL that are to be combined."""
        own = search.member(OWN).parameters["penalty"]
        return {
            "metric": list(self.metrics),
            "anchor": list(self.anchors),
            "neighbors": list(self.neighbors),
            "ridge": [ratio * own for ratio in self.ridges],
            "strength": list(self.strengths),
            "intercept": [self._intercept(search)],
        }

    def _enlarge(self, search: Search) -> None:
        """Go on beyond the strengths where the best one is the least or the largest."""
        tried = sorted(set(self.strengths))
        ratio = tried[-1] / tried[-2] if len(tried) > 1 else 10.0
        for _ in range(ENLARGE):
            best = search.best_graph().parameters
            # A best strength at an end of those tried may lie beyond it.
            edge = {tried[0]: tried[0] / ratio, tried[-1]: tried[-1] * ratio}.get(best["strength"])
            if edge is None:
                return
            tried = sorted([*tried, edge])
            search.add([graph_member(**{**best, "strength": edge})])

    def _choose(self, search: Search, scale: Array) -> Model:
        """The mixture with the graph if it is clearly better than that without; fitted to all rows."""
        weight = search.task_weights()
        without = search.mixture(search.limits(), weight)
        with_graph = search.mixture(search.limits() + search.finalists(FINALISTS), weight)
        gain = search.gain(without, with_graph)
        helps = bool(gain.mean > self.guard * gain.standard_error)
        chosen = replace(with_graph if helps else without, shown=search.best_graph())
        model = chosen.learn(search.folds.total).in_units(scale)
        errors = HeldOut(chosen.errors.by_task(), without.errors.by_task(), 1 - 1 / len(search.folds))
        details = {
            "graph_helps_": helps,
            "gain_": gain,
            "own_errors_": ByTask(search.trial(OWN).errors.by_task()),
            "own_gain_": search.gain(search.trial(OWN), chosen),
            "best_params_": search.best_graph().parameters,
            "mixture_": shares_by_name(chosen),
            "n_splits_": len(search.folds),
            "cv_results_": search.table(),
            "relevance_": model.details["relevance_"] / scale,
        }
        return replace(model, held_out=errors, details=details)

    def _check_axes(self) -> None:
        for name in ("neighbors", "strengths", "ridges", "anchors", "metrics"):
            if not np.size(getattr(self, name)):
                raise ValueError(f"{name} is empty: give at least one value to try")


def graph_member(**point: Any) -> Member:
    """A point of GAMTL's grid."""
    words = ", ".join(f"{k} {v:.3g}" if isinstance(v, float) else f"{k} {v}" for k, v in point.items())
    return Member(f"GAMTL ({words})", GAMTL(**point), Draft(**point), point, has_graph=True)


def shares_by_name(mixture: Mixture) -> dict[str, float]:
    """Every member with its share."""
    return {member.name: float(share) for member, share in zip(mixture.members, mixture.shares, strict=True)}


def feature_scale(gram: GramStats) -> NDArray[np.float64]:
    """Standard deviation of every feature within tasks, all rows together; 1 for those that never vary."""
    variance = np.diagonal(gram.G, axis1=1, axis2=2).sum(axis=0) / max(float(gram.n.sum()), TINY)
    return np.where(variance > 0, np.sqrt(variance), 1.0)
