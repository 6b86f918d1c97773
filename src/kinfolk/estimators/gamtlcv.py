"""GAMTLCV: GAMTL tuned by folds of statistics, beside the methods without a graph that it must not lose to."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from kinfolk.estimators.graph_regressor import GraphRegressor
from kinfolk.methods.gamtl.calibrate import SHOWN_BY
from kinfolk.methods.given_graph import named_graph
from kinfolk.methods.method import announced
from kinfolk.methods.model import Model
from kinfolk.methods.outer import with_family
from kinfolk.methods.parameters import check_parameters, choice, number, parameters
from kinfolk.methods.search_report import Gain, SearchReport
from kinfolk.methods.trunk import is_regressor
from kinfolk.methods.uncertainty import HeldOut
from kinfolk.methods.walks import walk_column
from kinfolk.progress import Callback
from kinfolk.rows.folds import Folds, refilled
from kinfolk.rows.gram import Array, GramStats
from kinfolk.rows.schema import Columns, roles_of
from kinfolk.rows.splits import (
    TASK_FOLDS,
    InTime,
    distinct_share,
    fold_of_rows,
    in_order,
    last_third,
    time_column,
    whole_tasks,
)
from kinfolk.rows.table import Rows, task_name
from kinfolk.search.bounds import bound_of, features_of
from kinfolk.search.curves import MOST_NUMBERS, can_bend, curves_of, on_curves, radial_members, spline_members
from kinfolk.search.guard import Chosen
from kinfolk.search.members import OWN, OWN_CURVES, SLOPES, SLOPES_OWN, TREES, Grid, baselines, mixed_models
from kinfolk.search.mixture import learn
from kinfolk.search.rbf_search import FeatureSearch, TaskRows
from kinfolk.search.stream import Stream
from kinfolk.search.trees import MOST_JUDGED, check_trees, fit_trees, try_trees
from kinfolk.search.tries import MANY, Search
from kinfolk.threads import limited_threads

NEVER = 1e9  # guard that no graph passes
MOST_SEARCHED = 2500  # tasks, up to which later rows have a search of their own
CURVES_ANCHORS = (0.0, 0.9)  # heads on radial basis functions need a common part
InBlocks = Callable[[FeatureSearch], Folds]


@parameters
class GAMTLCV(GraphRegressor):
    """GAMTL with everything chosen by cross-validation, and a guard: sharing that does not help is not used.

    Rows become statistics once; a fold's training statistics are the sum of the other folds'. Tried are

    - the limits without a graph: task mean, ridge per task, pooled with own and with common intercepts, shrunk to the
      mean, each with its penalty chosen on the same folds; random slopes, also with noise that differs between tasks
      and with correlations between slopes; in time, the mean of a task's last rows;
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
    graph_shares : shares of a given `graph` in the coupling to try, beside none
    self_loops, graph_metric : of the graph that is shown, see `GAMTL`
    intercept : "auto" (what a mixed model cross-validates better with), "free" or "shrunk"
    cv : folds, a number, or (train, test) pairs of row positions; or "tasks": whole tasks are held out, and everything
        is chosen for tasks that nobody has seen. The number is doubled where tasks share their inputs
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
    nonlinear : "splines": lines, and a mixed model on natural splines of inputs (see `SplineFeatures`) if they lower
        the held-out error by more than `guard` standard errors and 1 %. If an input is like the year of a panel, which
        every task has once at most, levels may also wander along it, and half of `guard` is enough, as it is in time.
        "auto": these or radial basis functions (see `RBFGAMTL`), whichever gain more; True: basis functions with the
        share that errors give them; False: lines
    trunk : a model of what all tasks share, beside the lines: "auto" is boosted trees that know the task of a row
        (LightGBM's if it is installed, else scikit-learn's), rounds and size chosen on the folds, above 200,000 rows
        on a sample; or any regressor, whose first input is then the number of the task; or None. It takes part if it
        lowers the held-out error by more than half of `guard` standard errors, in time a quarter. Trees are models of
        rows: from statistics alone, and in `partial_fit`, "auto" does without

    Attributes
    ----------
    coef_, intercept_ : arrays of shape (T, d) and (T,), of the lines; tasks_ : their labels
    adjacency_, graph_ : the graph to be read: best at the predictions, with about `neighbors` neighbours per task
    coupling_ : the graph of the best GAMTL that was tried, as it takes part in predictions
    graph_helps_ : whether the graph takes part in predictions; gain_ : its gain and standard error
    best_params_ : of the best GAMTL candidate; mixture_ : name of every model that takes part, with its share
    shares_ : (T, M), the same for every task: loners move towards their own ridge as far as their held-out errors say
    cv_results_ : a row per model that was tried: parameters, held-out RMSE pooled and mean over tasks
    cv_errors_ : held-out RMSE of every task; limit_errors_ : the same without the graph
    own_errors_ : the same of a ridge per task, NaN for tasks with a single row; own_gain_ : what the model gains over
        it; own_chance_ : probability by task that its error lies so far above that of its own ridge by chance
    gains_ : what "curves", "sharing", "graph" and "trees" gain, each beside what was there before, in units of the
        error of a straight ridge per task: they add up to own_gain_
    nonlinear_helps_, nonlinear_gain_ : whether curves take part in predictions, and their gain over lines alone, which
        is None if the table was too large to try them;
        beside `splines_`, `coef_` has mean slopes and `curve_coef_` what bends them; beside `rbf_`, `coef_` has both
    time_column_ : the name of a column that looks like the time of the rows; None if groups or time were given
    trunk_helps_, trunk_gain_, trunk_setting_ : the same of the trunk, which is the last column of `shares_`
    """

    shares: ClassVar[str] = "graph, tuned and guarded"
    simplicity: ClassVar[int] = 50
    scales_itself: ClassVar[bool] = True

    neighbors: tuple[float | None, ...] = (None,)
    strengths: tuple[float, ...] = (0.1, 1.0, 10.0)
    ridges: tuple[float, ...] = (0.1, 1.0)
    anchors: tuple[float, ...] = (0.0, 0.5)
    metrics: tuple[str, ...] = ("identity", "learned")
    graph_shares: tuple[float, ...] = (0.5, 1.0)
    self_loops: float | str | None = number("auto", above=0, also=("auto", None))
    graph_metric: str = choice(*SHOWN_BY)
    intercept: str = choice("auto", "free", "shrunk")
    cv: Any = 5
    guard: float = number(2.0, at_least=0)
    n_jobs: int | None = None
    random_state: Any = 0
    callback: Callback | None = None
    nonlinear: bool | str = choice("splines", False, True, "auto")
    trunk: Any = "auto"

    def needs_two_rows(self) -> bool:
        """Folds may leave a task without rows, so one row is no worse."""
        return False

    def learns_nothing(self, gram: GramStats, folds: Folds | None) -> bool:
        """Whether a fold leaves no task more than one row to train on."""
        return folds is not None and folds.leave_single_rows()

    def whole_model(self, gram: GramStats, folds: Folds | None = None) -> Model:
        """The mixture; where no task has rows enough for one, one line for all."""
        model = super().whole_model(gram, folds)
        if model.report is not None:
            return model
        report = SearchReport(False, Gain(0.0, np.nan), {"one line": 1.0}, np.ones((gram.n_tasks, 1)))
        return replace(model, report=report)

    def wants_folds(self) -> bool:
        """Always."""
        return True

    def needs_rows(self) -> bool:
        """Basis functions are placed among the rows, and a given regressor is a model of them; splines and boosted
        trees are left out without."""
        return self.nonlinear in (True, "auto") or is_regressor(self.trunk)

    def folds_in_time(self, fold: NDArray[np.intp]) -> NDArray[np.intp]:
        """The last third of all parts."""
        return last_third(fold)

    def folds_for(self, gram: GramStats, groups: Any) -> Any:
        """Twice as many folds where tasks share few rows."""
        if isinstance(self.cv, str):
            return TASK_FOLDS
        if not isinstance(self.cv, Integral) or groups is not None or gram.n_tasks == 1 or not gram.is_shared():
            return self.cv
        # Every fold takes the same directions from all tasks: with few rows, models would be judged by much worse fits.
        k = int(self.cv)
        return 2 * k if 2 * k <= int(gram.n.max(initial=0.0)) < 2 * gram.n_features else k

    def first_fit(self, X: Any, y: Any, sample_weight: Any, groups: Any) -> Self:
        """As `fit`, but the statistics of the folds are kept."""
        check_parameters(self)
        rows = self.read(X, y, sample_weight)
        with announced(self):
            return self.fit_rows(rows, in_order(groups, None, X, len(rows.y)), streams=True)

    def fit_rows(self, rows: Rows, groups: Any = None, *, streams: bool = False) -> Self:
        """Statistics of folds, with curves and a trunk from the rows if asked for; kept if more rows are to come."""
        self._check_family()
        check_trees(self.trunk)
        if is_regressor(self.trunk) and not self.target.is_plain:
            raise ValueError(
                f'trunk={self.trunk!r} predicts numbers: family={self.family!r} takes trunk="auto" or None'
            )
        _, groups = whole_tasks(self.cv, groups, rows)
        columns, inputs, names = self.fit_columns(rows)
        self.tell_rules(columns, rows, inputs, names)
        gram = rows.gram(inputs, names)
        model, stream = self._searched(rows, columns, inputs, gram, groups, streams=streams)
        columns = self.limited(columns, rows, inputs)
        model = self._with_later(model, rows, columns, inputs, gram, groups, streams=streams)
        return self.keep(replace(model, stream=stream if streams else None), columns)

    def fit_sample(
        self, rows: Rows, columns: Columns, fold: NDArray[np.intp], folds: Folds, in_basis: InBlocks, groups: Any
    ) -> Self:
        """As `fit_rows`, with the statistics of `folds` of all rows, and for what needs rows with a sample of them.

        `fold` has the number of every row of the sample, and `in_basis` gives the statistics of all rows in other
        features. Knots, trees, the reach of inputs and the order in time are those of the sample.
        """
        check_trees(self.trunk)
        inputs = columns.features(rows.table)
        folds = folds if folds.distinct is not None else replace(folds, distinct=distinct_share(rows, None))
        self.tell_rules(columns, rows, inputs, folds.total.feature_names)
        about: dict[str, Any] = {"in_time": folds.in_time, "columns": columns, "family": self.target}
        data = TaskRows.of(rows, inputs, folds.total, fold, **about)
        asked = self.nonlinear == "splines"
        splines = None
        if asked and folds.total.G.size <= MOST_NUMBERS:
            _, splines = curves_of(data, "splines", fine=groups is None, random_state=self.random_state)
        stream = Stream(folds, None, None if splines is None else replace(splines, folds=in_basis(splines)))
        stream = stream.with_roles(roles_of(self.facts, self.common, folds.total, columns))
        model = self._model_of(stream, columns, data, self.trunk)
        if asked and splines is None and can_bend(inputs):
            model = with_report(model, too_large_for_curves=True)
        columns = self.limited(columns, rows, inputs).holding(folds.total)
        gram = rows.gram(inputs, folds.total.feature_names)
        return self.keep(self._with_later(model, rows, columns, inputs, gram, groups), columns)

    def _with_later(
        self,
        model: Model,
        rows: Rows,
        columns: Columns,
        inputs: Array,
        gram: GramStats,
        groups: Any,
        *,
        streams: bool = False,
    ) -> Model:
        """The model with one for later rows, if an input orders them in time, and with the name of that input."""
        names = gram.feature_names
        untold = groups is None and isinstance(self.cv, Integral)  # time makes its own folds
        order = _time_input(rows, inputs) if untold else None
        if order is not None and not streams:
            model = replace(model, beyond=self._beyond(model, rows, columns, inputs, gram, order))
        name = time_column(rows) if untold else None
        if order is not None and names is not None:
            name = columns.column_of(names[order])
        return with_report(model, time_column=name)

    def _searched(
        self, rows: Rows, columns: Columns, inputs: Array, gram: GramStats, groups: Any, *, streams: bool = False
    ) -> tuple[Model, Stream]:
        """The model that folds of the rows choose, by `groups` or in time, and the statistics of these folds."""
        cv = self.folds_for(gram, groups)
        fold = fold_of_rows(rows, inputs, gram, cv=cv, groups=groups, random_state=self.random_state)
        in_time = isinstance(groups, InTime)
        fold = self.folds_in_time(fold) if in_time else fold
        asked = self.nonlinear == "splines"
        no_trees = streams and not is_regressor(self.trunk)  # they would not know the rows that are yet to come
        trunk = None if no_trees else self.trunk
        bends = asked and gram.G.size <= MOST_NUMBERS
        if self.needs_rows() or self.works_on_rows or trunk is not None or bends:
            data = TaskRows.of(rows, inputs, gram, fold, in_time=in_time, columns=columns, family=self.target)
            data = data if self.target.is_plain else data.at_pilots()
            # Rows that stay together say less than as many apart: a fine curve would follow them.
            apart = groups is None and isinstance(self.cv, Integral)
            made = curves_of(data, self.nonlinear, fine=apart, random_state=self.random_state)
            # Gaps are filled in by what every fold knows when all rows are there: more may come.
            stream = Stream((replace(data, gaps=()) if self.target.is_plain else data).folds(), *made)
        else:
            data = None
            stream = Stream(columns.folds(rows, inputs, gram, fold, in_time))
        stream = stream.with_roles(roles_of(self.facts, self.common, gram, columns))
        stream = replace(stream, folds=replace(stream.folds, distinct=distinct_share(rows, groups)))
        model = self._model_of(stream, columns, data, trunk)
        if asked and stream.splines is None and can_bend(inputs):
            model = with_report(model, too_large_for_curves=True)
        return model, stream

    def _beyond(
        self, model: Model, rows: Rows, columns: Columns, inputs: Array, gram: GramStats, order: int
    ) -> Model | None:
        """The model of rows that come later than all of fit: what predicted the last rows best from those before.

        Random rows ask how well gaps are filled in, where curves and walks win; what comes later is another question.
        The graph has the parameters that random rows have chosen. Among many tasks lines without a graph are searched,
        and among very many the lines of the first search serve: a second one would take longer.
        """
        when = inputs[:, order]
        after = (order, float(when.max()))
        if len(model.labels) > MOST_SEARCHED:
            bound = model.bound
            return None if bound is None else replace(bound.lines, columns=replace(columns, basis=None), after=after)
        point = {} if model.report is None else model.report.best_params or {}
        axes = {"strengths": "strength", "neighbors": "neighbors", "anchors": "anchor", "metrics": "metric"}
        fixed = {name: (point[key],) for name, key in axes.items() if key in point}
        again = clone(self).set_params(callback=None, ridges=self.ridges[-1:], **fixed)
        if len(model.labels) >= MANY:  # all but the methods without a graph would take longer than the first search
            again.set_params(nonlinear=False, trunk=None, guard=NEVER)
        later, _ = again._searched(rows, columns, inputs, gram, InTime(np.unique(when, return_inverse=True)[1]))
        return replace(later, columns=replace(columns, basis=basis_of(later)), after=after, structure=None)

    def refitted(self, model: Model, rows: Rows, inputs: Array, forget: float, groups: Any) -> Model:
        """The model of the rows so far and new ones, searched for again on the folds of both."""
        assert model.stream is not None
        stream = model.stream.plus(rows, inputs, forget=forget, groups=groups, random_state=self.random_state)
        assert model.columns is not None
        return replace(self._model_of(stream, model.columns), stream=stream)

    def _model_of(self, stream: Stream, columns: Columns, data: TaskRows | None = None, trunk: Any = None) -> Model:
        if self.target.is_plain:
            stream = replace(stream, folds=refilled(stream.folds, columns.gaps))
        folds = stream.folds
        lines_alone = stream.curves is None and stream.splines is None and trunk is None
        nothing = self.learns_nothing(folds.total, folds)
        if self.target.is_plain and (lines_alone or nothing):
            return self.whole_model(folds.total, folds)
        with limited_threads(*folds.total.b.shape):
            if nothing:
                model = self._of_family(self.whole_model(folds.total, folds), data, None)
            else:
                learner = self if self.graph is None else self.by_name(folds.total)
                model = learner._learn_from(stream, columns, data, trunk)
        return replace(model, method=self.unfitted())

    def _of_family(self, model: Model, data: TaskRows | None, curves: FeatureSearch | None) -> Model:
        """The model with what statistics of the working targets of classes and counts do not say."""
        if data is None or data.pilots is None:
            return model
        return with_family(model, data.observed(slice(None), features_of(data, curves)[:]))

    def keep(self, model: Model, columns: Columns) -> Self:
        """Become the estimator of a fitted model; curves that take part are functions of the columns."""
        return super().keep(model, replace(columns, basis=basis_of(model)))

    def learn_folds(self, folds: Folds) -> Model:
        """Straight lines and the graph, from statistics alone."""
        choice = Chosen.of_lines(self._lines_tried(folds), self.guard).with_graph()
        return self._model_of_choice(choice)

    def _learn_from(self, stream: Stream, columns: Columns, data: TaskRows | None, trunk: Any) -> Model:
        """Straight lines, then curves, the graph and trees, as they are asked for and as far as they help."""
        data = None if data is None else data.with_rows()
        lines = self._lines_tried(stream.folds.with_rows(), data)
        choice = self._with_curves(Chosen.of_lines(lines, self.guard).with_graph(), stream)
        trial = None
        if trunk is not None:
            assert data is not None
            judged = data.sample(MOST_JUDGED, self.random_state)
            trial = try_trees(judged, trunk, callback=self.callback)
            if trial is not None:
                E = choice.search.cross_errors_with(choice.mixture.asked, TREES, trial.prediction, judged)
                choice = choice.with_trees(E, trial.setting)
        curves = choice.search.curves
        model = self._model_of_choice(choice)
        if choice.has_trees:
            assert trial is not None and data is not None
            X = features_of(data, curves)
            model = replace(model, trunk=fit_trees(trial, choice.mixture.trees, choice.mixture.task_trees, X, data))
        model = _among(self._of_family(model, data, curves), stream.total_with(curves))
        if curves is None and model.trunk is None:
            return model

        straight = self._of_family(learn(lines, choice.lines, None), data, None)
        held_out = HeldOut(choice.lines.errors.by_task(), None, lines.lines.trained_on)
        straight = replace(
            _among(replace(straight, held_out=held_out), stream.folds.total),
            structure=None,
            course=None,
            relevance=None,
            columns=replace(columns, basis=None),
        )
        return replace(model, bound=bound_of(model, straight, curves, data))

    def _lines_tried(self, folds: Folds, data: TaskRows | None = None) -> Search:
        """All members that see straight lines, tried on the folds; those of classes and counts are judged by rows."""
        self._check_axes()
        rows = folds.total.n.sum()
        # Weights of working targets are those of each fold's pilot, and do not add up to those of all rows.
        if any(folds.training_rows(f).sum() <= 0 for f in range(len(folds))):
            raise ValueError(f"got n_samples={rows:g} in one fold: cross-validation needs rows in at least 2 folds")
        judged = None if self.target.is_plain else data
        search = Search(folds, self.n_jobs, self.callback, judged)
        search.add(baselines(search.lines) + mixed_models(search.lines))
        intercept = self._intercept(search)
        # Without rows beside own intercepts no mixed model can tell a metric.
        untold = intercept == "free" and SLOPES_OWN not in search.tried
        metrics = ("identity",) if untold else self.metrics
        grid = self._grid(search.penalty(OWN), metrics, self.anchors, intercept)
        search.add_graphs(grid)
        if self.graph is not None:
            labels = search.lines.total.labels
            graph = named_graph(self.graph, labels, labels, task_name(self.task))
            for share in self.graph_shares if graph.adjacency.nnz else ():
                search.add_graphs(grid.along(graph, share))
        return search

    def _with_curves(self, choice: Chosen, stream: Stream) -> Chosen:
        """Splines or radial basis functions: what helps, then what gains most."""
        tried = [
            choice.with_curves(self._curves_tried(choice.search, curves), always=self.nonlinear is True)
            for curves in (stream.splines, stream.curves)
            if curves is not None
        ]
        return max(tried, key=Chosen.worth_of_curves, default=choice)

    def _curves_tried(self, lines: Search, curves: FeatureSearch) -> Search:
        """A search that goes on with the members that see curves, and with graphs of radial basis functions."""
        search = lines.with_curves(replace(curves, folds=curves.folds.with_rows()))
        assert search.curves is not None
        if curves.best is None:
            search.add(spline_members(search.curves, len(search.scale)))
            return search
        search.add(radial_members(search.curves))
        intercept = "free" if self.intercept == "auto" else self.intercept
        grid = self._grid(search.penalty(OWN_CURVES), ("identity",), CURVES_ANCHORS, intercept)
        search.add_graphs(replace(grid, wrap=partial(on_curves, curves=search.curves)))
        return search

    def _intercept(self, search: Search) -> str:
        """Free or shrunk, whichever the mixed model predicts better with."""
        if self.intercept != "auto":
            return self.intercept
        own = SLOPES_OWN in search.tried and search.error(SLOPES_OWN) <= search.error(SLOPES)
        return "free" if own else "shrunk"

    def _grid(self, own: float, metrics: Iterable[str], anchors: Iterable[float], intercept: str) -> Grid:
        """The values of every parameter of GAMTL that are to be combined; `own` is the penalty of a ridge per task."""
        axes: dict[str, list[Any]] = {
            "metric": list(metrics),
            "anchor": list(anchors),
            "neighbors": list(self.neighbors),
            "ridge": [ratio * own for ratio in self.ridges],
            "strength": list(self.strengths),
            "intercept": [intercept],
        }
        return Grid(axes, {"self_loops": self.self_loops, "graph_metric": self.graph_metric})

    def _model_of_choice(self, choice: Chosen) -> Model:
        """The mixture that was chosen, fitted to all rows, with what the search found."""
        model = learn(choice.search, choice.mixture, choice.shown)
        return replace(model, held_out=choice.held_out(), report=choice.report(), extras={})

    def _check_axes(self) -> None:
        for name in ("neighbors", "strengths", "ridges", "anchors", "metrics"):
            if not np.size(getattr(self, name)):
                raise ValueError(f"{name} is empty: give at least one value to try")


def _among(model: Model, total: GramStats) -> Model:
    """The model among all tasks, with the dispersion that was found."""
    noise = None if model.gram is None else model.gram.dispersion
    return model.among(total if model.target.is_plain else replace(total, dispersion=noise))


def with_report(model: Model, **changes: Any) -> Model:
    """The model with a report that says something else as well."""
    assert model.report is not None
    return replace(model, report=replace(model.report, **changes))


def basis_of(model: Model) -> Any:
    """The features of the curves that take part in a model, if any do."""
    curves = None if model.report is None else model.report.curves
    return None if curves is None else curves.basis


def _time_input(rows: Rows, inputs: Array) -> int | None:
    """The input that orders the rows of tasks in time, whatever its name."""
    if rows.codes is None:
        return None
    used = ~np.isnan(rows.y) if rows.weight is None else ~np.isnan(rows.y) & (rows.weight > 0)
    return walk_column(inputs[used], rows.codes[used])
