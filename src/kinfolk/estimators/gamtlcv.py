"""GAMTLCV: GAMTL tuned by folds of statistics, beside the methods without a graph that it must not lose to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from kinfolk.estimators.gamtl import GAMTL, Draft
from kinfolk.estimators.graph_regressor import GraphRegressor
from kinfolk.judge.errors import Gain
from kinfolk.methods.curves import line_beside_curves, on_columns
from kinfolk.methods.gamtl.calibrate import SHOWN_BY
from kinfolk.methods.mean_shrunk import MeanShrunk
from kinfolk.methods.mixture import OWN, SLOPES, SLOPES_OWN, Member, Mixture, Search, limits
from kinfolk.methods.model import ByTask, Model
from kinfolk.methods.parameters import choice, number, parameters
from kinfolk.methods.rbf_search import FeatureSearch, TaskRows, search_features
from kinfolk.methods.uncertainty import HeldOut
from kinfolk.progress import Callback
from kinfolk.rows.folds import Folds, InTime, check_fold_numbers, fold_of_rows
from kinfolk.rows.gram import TINY, Array, GramStats
from kinfolk.rows.tasks import Rows
from kinfolk.solvers.ridge import choose_penalty, typical_eigenvalue
from kinfolk.threads import limited_threads

MEAN_RIDGE = 0.02  # on the mean that tasks are shrunk to, in units of a task's own data
ENLARGE = 2  # times that the grid of strengths may grow at the edge where the best one lies
FINALISTS = 4  # graphs that may share in the mixture
CURVES_RIDGE = 1e-4  # wide bumps are nearly collinear: without it their mean has wild errors away from the rows
CURVES_ANCHORS = (0.0, 0.9)  # heads on bumps need a common part


@parameters
class GAMTLCV(GraphRegressor):
    """GAMTL with everything chosen by cross-validation, and a guard: sharing that does not help is not used.

    Rows become statistics once; a fold's training statistics are the total minus the fold. Tried are

    - the limits without a graph: task mean, ridge per task, pooled with own and with common intercepts, shrunk to the
      mean, random slopes, each with its penalty chosen on the same folds;
    - GAMTL over `strengths`, `ridges`, `neighbors`, `anchors` and `metrics`, one of them varied at a time from the best
      so far; stronger pulls are tried where weaker are worse, and strengths grow at an edge that is best.

    All are linear in the same features, so the prediction is the mixture of them with the least held-out error, the
    tasks weighted so that one with large errors does not rule. If the graph lowers that error by more than `guard`
    standard errors over tasks, the mixture includes it (`graph_helps_`); otherwise it is one of limits, and the graph
    is descriptive.

    Parameters
    ----------
    task : name or position of the task column of X, or names of several that make it together; None if y has one column
        per task
    neighbors : numbers of neighbours to try, see `GAMTL`
    strengths : how hard neighbours pull, to try
    ridges : penalties to try, in multiples of the best one of a ridge per task
    anchors, metrics : to try, see `GAMTL`
    self_loops, graph_metric : of the graph that is shown, see `GAMTL`
    intercept : "auto" (what a mixed model cross-validates better with), "free" or "shrunk"
    cv : folds, a number, or (train, test) pairs of row positions. The number is doubled where tasks share their inputs
        and have fewer rows than twice the features: every fold then takes the same directions from all of them, and
        models would be judged by much worse fits than they are used for
    guard : standard errors by which the graph must win
    features : a transformer for the non-task columns; columns are put on one scale in any case
    unseen : tasks that fit has not seen are predicted by the population, with a warning ("warn") or without ("mean"),
        or are an "error"
    extrapolate : "clip" or "linear": what predict does with inputs far beyond those of fit
    n_jobs : folds in parallel, with joblib (and any of its backends)
    random_state : draws the folds, by the positions of the rows: in another order they are drawn anew
    callback : called with a `Progress` after every fold
    nonlinear : False: lines; "auto": also radial basis functions (see `RBFGAMTL`), if they lower the held-out error by
        more than `guard` standard errors; True: these with the share that held-out errors give them

    Attributes
    ----------
    coef_, intercept_ : arrays of shape (T, d) and (T,); tasks_ : their labels
    adjacency_, graph_ : the graph to be read: best at the predictions, with about `neighbors` neighbours per task
    coupling_ : the graph of the best GAMTL that was tried, as it takes part in predictions
    graph_helps_ : whether the graph takes part in predictions; gain_ : its gain and standard error
    best_params_ : of the best GAMTL candidate; mixture_ : name of every model that takes part, with its share
    shares_ : (T, M), the same for every task: loners move towards their own ridge as far as their held-out errors say
    cv_results_ : a row per model that was tried: parameters, held-out RMSE pooled and mean over tasks
    cv_errors_ : held-out RMSE of every task; limit_errors_ : the same without the graph
    own_errors_ : the same of a ridge per task; own_gain_ : what the model gains over it
    nonlinear_helps_, nonlinear_gain_ : whether curves take part in predictions, and their gain over lines alone
    """

    shares: ClassVar[str] = "graph, tuned and guarded"
    simplicity: ClassVar[int] = 50
    scales_itself: ClassVar[bool] = True

    neighbors: tuple[float | None, ...] = (None,)
    strengths: tuple[float, ...] = (0.1, 1.0, 10.0)
    ridges: tuple[float, ...] = (0.1, 1.0)
    anchors: tuple[float, ...] = (0.0, 0.5)
    metrics: tuple[str, ...] = ("identity", "learned")
    self_loops: float | str | None = number("auto", above=0, also=("auto", None))
    graph_metric: str = choice(*SHOWN_BY)
    intercept: str = choice("auto", "free", "shrunk")
    cv: Any = 5
    guard: float = number(2.0, at_least=0)
    n_jobs: int | None = None
    random_state: Any = 0
    callback: Callback | None = None
    nonlinear: bool | str = choice(False, True, "auto")

    def needs_two_rows(self) -> bool:
        """Folds may leave a task without rows, so one row is no worse."""
        return False

    def wants_folds(self) -> bool:
        """Always."""
        return True

    def needs_rows(self) -> bool:
        """Basis functions are placed among the rows."""
        return bool(self.nonlinear)

    def folds_for(self, gram: GramStats, groups: Any) -> Any:
        """Twice as many folds where tasks share few rows."""
        if not isinstance(self.cv, int) or groups is not None or gram.n_tasks == 1 or not gram.is_shared():
            return self.cv
        # Every fold takes the same directions from all tasks: with few rows, models would be judged by much worse fits.
        few = 2 * self.cv <= int(gram.n.max(initial=0.0)) < 2 * gram.n_features
        return 2 * self.cv if few else self.cv

    def fit_rows(self, rows: Rows, groups: Any = None) -> Self:
        """With curves from the rows; statistics are enough for lines."""
        if not self.needs_rows():
            return super().fit_rows(rows, groups)
        columns, inputs, names = self.fit_columns(rows)
        gram = rows.gram(inputs, names)
        cv = self.folds_for(gram, groups)
        fold = fold_of_rows(rows, inputs, gram, cv=cv, groups=groups, random_state=self.random_state)
        at = rows.targets()
        check_fold_numbers(fold[at.row])
        never = int(isinstance(groups, InTime))  # rows that are never held out have the number -1
        fold = np.unique(fold[at.row], return_inverse=True)[1].reshape(-1) - never
        data = TaskRows(inputs[at.row], at.y, at.codes, gram.labels, fold, at.weight)
        with limited_threads(*gram.b.shape):
            model = self._learn_beside_lines(data)
        basis = model.details.get("rbf_")
        return self.keep(
            replace(model, method=self.unfitted()), replace(self.limited(columns, rows, inputs), basis=basis)
        )

    def learn_folds(self, folds: Folds) -> Model:
        """Try, mix, and fit the mixture to all rows."""
        search, scale = self._search(folds)
        return self._learn(search, self._choose(search), scale)

    def _search(self, folds: Folds) -> tuple[Search, Array]:
        """All linear members, tried on the folds of features on one scale, and that scale."""
        self._check_axes()
        rows = folds.total.n.sum()
        if any(part.n.sum() >= rows for part in folds.held_out):
            raise ValueError(f"got n_samples={rows:g} in one fold: cross-validation needs rows in at least 2 folds")
        scale = feature_scale(folds.total)
        search = Search(folds.rescaled(scale), self.n_jobs, self.callback)
        search.add(limits(search.folds, mean_ridge=MEAN_RIDGE, slopes=True))
        search.add_axis_by_axis(self._axes(search), self._member)
        self._enlarge(search, self._member)
        return search, scale

    def _learn_beside_lines(self, data: TaskRows) -> Model:
        """Lines, then curves, then the mixture of both, unless lines alone are as good and "auto" is asked for."""
        folds = data.folds()
        lines, scale = self._search(folds.with_rows())
        found = search_features(data, head_error, random_state=self.random_state)
        both = self._search_curves(replace(found, folds=found.folds.with_rows()))
        beside = {
            name: line_beside_curves(member, trial, found, scale) for name, (member, trial) in lines.tried.items()
        }
        both.tried = beside | both.tried
        straight = self._choose(lines)
        chosen = self._choose(both)
        gain = both.gain(straight.mixture, chosen.mixture)
        helps = self.nonlinear is True or bool(gain.mean > self.guard * gain.standard_error)
        details = {"nonlinear_helps_": helps, "nonlinear_gain_": gain}
        if helps:
            details |= {"rbf_": found.features, "rbf_setting_": found.best, "rbf_errors_": found.errors}
            model = self._learn(both, chosen, np.ones(found.folds.total.n_features)).among(found.folds.total)
        else:
            model = self._learn(lines, straight, scale).among(folds.total)
        return replace(model, details=model.details | details)

    def _search_curves(self, found: FeatureSearch) -> Search:
        """Heads on the basis functions, without a graph and with one, its parameters varied one at a time."""
        columns = found.columns
        search = Search(found.folds, self.n_jobs, self.callback)

        def curved(member: Member) -> Member:
            return on_columns(member, f"curves, {member.name}", columns, np.ones(len(columns)))

        def curved_graph(**point: Any) -> Member:
            return curved(self._member(**point))

        heads = limits(found.folds.on_columns(columns), mean_ridge=CURVES_RIDGE, slopes=False)
        own = next(head for head in heads if head.name == OWN).parameters["penalty"]
        search.add([curved(head) for head in heads if head.parameters])  # the task mean is among the lines
        axes: dict[str, list[Any]] = {
            "metric": ["identity"],
            "anchor": list(CURVES_ANCHORS),
            "neighbors": list(self.neighbors),
            "ridge": [ratio * own for ratio in self.ridges],
            "strength": list(self.strengths),
            "intercept": ["free" if self.intercept == "auto" else self.intercept],
        }
        search.add_axis_by_axis(axes, curved_graph)
        self._enlarge(search, curved_graph)
        return search

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

    def _member(self, **point: Any) -> Member:
        """A point of GAMTL's grid."""
        said = {name: value for name, value in point.items() if value is not None}
        words = ", ".join(f"{k} {v:.3g}" if isinstance(v, float) else f"{k} {v}" for k, v in said.items())
        given = {**point, "self_loops": self.self_loops, "graph_metric": self.graph_metric}
        return Member(f"GAMTL ({words})", GAMTL(**given), Draft(**given), point, has_graph=True)

    def _enlarge(self, search: Search, member: Callable[..., Member]) -> None:
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
            search.add([member(**{**best, "strength": edge})])

    def _choose(self, search: Search) -> Chosen:
        """The mixture with the graph if it is clearly better than that without."""
        weight = search.task_weights()
        without = search.mixture(search.limits(), weight)
        with_graph = search.mixture(search.limits() + search.finalists(FINALISTS), weight)
        gain = search.gain(without, with_graph)
        helps = bool(gain.mean > self.guard * gain.standard_error)
        names = search.finalists(None)
        if helps:  # the graph that predicts most comes first
            share = np.atleast_2d(with_graph.shares).mean(axis=0)
            order = np.argsort(-share, kind="stable")
            names = [m.name for m in (with_graph.members[k] for k in order) if m.has_graph] + names
        # A graph of curves is one of all features, as the explanations of it expect.
        shown = next((name for name in names if name.startswith("curves")), names[0])
        return Chosen(replace(with_graph if helps else without, shown=search.member(shown)), without, helps, gain)

    def _learn(self, search: Search, chosen: Chosen, scale: Array) -> Model:
        """The chosen mixture, fitted to all rows; `scale` is what their features were divided by."""
        model = chosen.mixture.learn(search.folds.total).in_units(scale)
        by_task = chosen.mixture.errors.by_task()
        errors = HeldOut(by_task, chosen.without_graph.errors.by_task(), 1 - 1 / len(search.folds))
        assert chosen.mixture.shown is not None
        details = {
            "graph_helps_": chosen.graph_helps,
            "gain_": chosen.gain,
            "own_errors_": ByTask(search.trial(OWN).errors.by_task()),
            "own_gain_": search.gain(search.trial(OWN), chosen.mixture),
            "best_params_": chosen.mixture.shown.parameters,
            "mixture_": shares_by_name(chosen.mixture),
            "shares_": ByTask(chosen.mixture.task_shares),
            "n_splits_": len(search.folds),
            "cv_results_": search.table(),
            "relevance_": model.details["relevance_"] / scale,
        }
        return replace(model, held_out=errors, details=details)

    def _check_axes(self) -> None:
        for name in ("neighbors", "strengths", "ridges", "anchors", "metrics"):
            if not np.size(getattr(self, name)):
                raise ValueError(f"{name} is empty: give at least one value to try")


@dataclass(frozen=True, eq=False)
class Chosen:
    """The mixture that predicts, the best one without a graph, whether the graph helps, and its gain."""

    mixture: Mixture
    without_graph: Mixture
    graph_helps: bool
    gain: Gain


def head_error(folds: Folds) -> float:
    """Least held-out error of heads shrunk to their mean, over penalties."""
    head = MeanShrunk(ridge=CURVES_RIDGE * typical_eigenvalue(folds.total))
    return float(choose_penalty(head.prepare, folds, "tasks").errors.min())


def shares_by_name(mixture: Mixture) -> dict[str, float]:
    """Every member with its share."""
    return {member.name: float(share) for member, share in zip(mixture.members, mixture.shares, strict=True)}


def feature_scale(gram: GramStats) -> NDArray[np.float64]:
    """Standard deviation of every feature within tasks, all rows together; 1 for those that never vary."""
    variance = np.diagonal(gram.G, axis1=1, axis2=2).sum(axis=0) / max(float(gram.n.sum()), TINY)
    return np.where(variance > 0, np.sqrt(variance), 1.0)
