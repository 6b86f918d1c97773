"""Members tried on folds: what each predicted for held-out rows, in features that all of them share."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from copy import copy
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from kinfolk.methods.gamtl.defaults import feature_scale
from kinfolk.methods.model import Model
from kinfolk.methods.uncertainty import moderated
from kinfolk.progress import Callback
from kinfolk.rows.folds import Folds
from kinfolk.rows.gram import TINY, Array, GramStats
from kinfolk.search.cross_errors import CrossErrors, CrossLosses
from kinfolk.search.members import OWN, SHRUNK, SLOPES, SLOPES_OWN, Grid, Learner, Member, OnColumns
from kinfolk.search.rbf_search import FeatureSearch, InBasis, TaskRows, block_by_block
from kinfolk.search.trials import Trial, plain_row, try_all

MANY = 300  # tasks from which one fold shows that a member is hopeless, and the first rounds of a graph are enough
HOPELESS = 0.1  # relative loss to the best on that fold: with less, a member may still have a share in a mixture
CERTAIN = 4.0  # standard errors that this must be
LEAST_ERROR = 0.05  # of the median task's error: tasks that are fitted better do not weigh more
ENLARGE = 2  # times that the strengths may grow at the end where the best one lies
ALWAYS = (OWN, SHRUNK, SLOPES, SLOPES_OWN)  # what others are compared with


class Search:
    """Members with what they predicted, fold by fold.

    Attributes
    ----------
    inputs : statistics of the folds of the inputs
    scale : (d,), what inputs are divided by before straight lines see them
    lines : statistics of the folds of these
    curves : functions of the inputs, followed by the inputs themselves, that other members see; None if there are none
    tried : by key, a member and what it predicted
    dropped : those that lost by far on the first fold, and were tried on no other
    repeated : those that predict as one before them
    rows : of a family of classes or counts the rows, whose losses judge mixtures; None for numbers
    """

    def __init__(
        self, folds: Folds, n_jobs: int | None, callback: Callback | None, rows: TaskRows | None = None
    ) -> None:
        self.inputs = folds
        self.rows = rows
        self.scale = feature_scale(folds.total)
        self.lines = folds.rescaled(self.scale)
        self.n_jobs = n_jobs
        self.callback = callback
        self.curves: FeatureSearch | None = None
        self.tried: dict[str, tuple[Member, Trial]] = {}
        self.dropped: dict[str, tuple[Member, Trial]] = {}
        self.repeated: dict[str, tuple[Member, Trial]] = {}
        self._fitted: dict[tuple[str, bool], Model] = {}

    def with_curves(self, curves: FeatureSearch) -> Self:
        """A search that goes on from here with curves among the features."""
        search = copy(self)
        search.curves = curves
        search.tried = dict(self.tried)
        search.dropped = dict(self.dropped)
        search.repeated = dict(self.repeated)
        search._fitted = {}
        return search

    @property
    def folds(self) -> Folds:
        """Statistics of the features that all members share: curves and inputs, or inputs on one scale."""
        return self.lines if self.curves is None else self.curves.folds

    @property
    def total(self) -> GramStats:
        """Statistics of all rows in these features, the inputs in their own units."""
        return self.inputs.total if self.curves is None else self.curves.folds.total

    @property
    def observations(self) -> Array:
        """Held-out rows (T,); those of one time or one group are one."""
        if self.rows is None:
            rows = np.maximum(sum(part.n for part in self.lines.held_out), TINY)
        else:  # weights of working targets are no numbers of rows
            held_out = self.rows.fold >= 0
            weight = None if self.rows.weight is None else self.rows.weight[held_out]
            rows = np.bincount(self.rows.codes[held_out], weight, minlength=self.lines.total.n_tasks)
            rows = np.maximum(rows, TINY)
        return rows if self.lines.distinct is None else rows * self.lines.distinct

    # --- trying

    @property
    def races(self) -> bool:
        """Whether the first fold alone decides about members that lose there by far: among many tasks."""
        many = self.lines.total.n_tasks >= MANY and self.rows is None
        return many and not self.lines.in_time and bool(self.tried)

    def add(self, members: Iterable[Member]) -> None:
        """Try members on every fold; among many tasks those on the first fold alone that lose there by far."""
        members = [m for m in members if m.key not in self.tried | self.repeated | self.dropped]
        everywhere = range(len(self.lines))
        if not self.races or any(member.yardstick for member in members):
            self._keep(members, self._try(members, everywhere))
            return
        first = self._try(members, range(1))
        best = self.tried[min(self.tried, key=self.error)][1].errors.only(range(1))
        kept = []
        for member, trial in zip(members, first, strict=True):
            gain = trial.errors.gain_over(best)
            if gain.mean < -max(HOPELESS, CERTAIN * gain.standard_error):
                self.dropped[member.key] = member, trial
            else:
                kept.append((member, trial))
        members = [member for member, _ in kept]
        rest = self._try(members, everywhere[1:])
        self._keep(members, [trial.joined(more) for (_, trial), more in zip(kept, rest, strict=True)])

    def _try(self, members: list[Member], only: range) -> list[Trial]:
        folds = self.curves.folds if members and members[0].on_curves and self.curves is not None else self.lines
        methods = [member.draft or member.method for member in members]
        return try_all(methods, folds, only=only, n_jobs=self.n_jobs, callback=self.callback)

    def _keep(self, members: list[Member], trials: list[Trial]) -> None:
        """Remember what was tried, but not what predicts the same as a member before it: the same model once more."""
        for member, trial in zip(members, trials, strict=True):
            alike = [other for one, other in self.tried.values() if one.has_graph == member.has_graph]
            again = member.key not in ALWAYS and any(map(trial.predicts_as, alike))
            (self.repeated if again else self.tried)[member.key] = member, trial

    def add_graphs(self, grid: Grid) -> None:
        """Vary one parameter of the graph's member at a time: the strength first, then from the last to the first.

        The strengths go on growing beyond an end where the best one lies.
        """
        of_curves = grid.wrap is not None

        def best() -> dict[str, Any]:
            return self.best_graph(on_curves=of_curves, share=grid.share).parameters

        def add_while_better(strengths: list[float]) -> None:
            for strength in strengths:
                point = {**best(), "strength": strength}
                self.add([grid.member(**point)])
                if best() != point:
                    return

        strengths = sorted(grid.axes["strength"])
        middle = len(strengths) // 2
        start = {name: values[0] for name, values in grid.axes.items()} | {"strength": strengths[middle]}
        self.add([grid.member(**start)])
        # Tasks that have little in common collapse under a strong pull, slowly: weaker ones come first.
        add_while_better(strengths[:middle][::-1])
        if best() == start:
            add_while_better(strengths[middle + 1 :])
        for name in [name for name in reversed(grid.axes) if name != "strength"]:
            point = best()
            self.add([grid.member(**{**point, name: value}) for value in grid.axes[name] if value != point[name]])

        ratio = strengths[-1] / strengths[-2] if len(strengths) > 1 else 10.0
        for _ in range(ENLARGE):
            ends = {strengths[0]: strengths[0] / ratio, strengths[-1]: strengths[-1] * ratio}
            point = best()
            if point["strength"] not in ends:
                return
            edge = ends[point["strength"]]
            strengths = sorted([*strengths, edge])
            self.add([grid.member(**{**point, "strength": edge})])

    # --- what was tried

    def error(self, key: str) -> float:
        """Mean over tasks of the held-out error of a member."""
        return self.tried[key][1].errors.tasks()

    def keys(self, *, graph: bool, on_curves: bool) -> list[str]:
        """Members of a kind; those with a graph by their errors, the best one first."""
        kind = [
            k
            for k, (m, _) in self.tried.items()
            if m.has_graph == graph and m.on_curves == on_curves and not m.yardstick
        ]
        return sorted(kind, key=self.error) if graph else kind

    def penalty(self, key: str) -> float:
        """That of a member with one penalty, whether or not another predicts the same."""
        return float((self.tried | self.repeated)[key][0].parameters["penalty"])

    def best_graph(self, *, on_curves: bool = False, share: float = 0.0) -> Member:
        """The member with a graph of least error, of those in which a given graph has this share.

        Where all have lost by far, on the fold that showed it.
        """
        graphs = [key for key in self.keys(graph=True, on_curves=on_curves) if self.tried[key][0].graph_share == share]
        return self.tried[graphs[0]][0] if graphs else self.hopeless_graph(on_curves=on_curves, share=share)[0]

    def hopeless_graph(self, *, on_curves: bool = False, share: float = 0.0) -> tuple[Member, Trial]:
        """The best of those with a graph that were tried on one fold, or that predict as others do."""
        pairs = [*self.dropped.values(), *self.repeated.values()]
        graphs = [(m, t) for m, t in pairs if m.has_graph and m.on_curves == on_curves and m.graph_share == share]
        return min(graphs, key=lambda pair: pair[1].errors.tasks())

    def task_weights(self) -> Array:
        """1 / RMSE of every task under the best member without a graph: the gradient of the mean RMSE over tasks.

        Tasks of few rows have small errors by chance where that member happens to be good, and would then weigh most.
        So their variances are drawn towards that of all tasks.
        """
        if self.rows is not None:  # a loss of a row is one of likelihood, whatever its task: none rules the others
            return np.ones(self.lines.total.n_tasks)
        best = min((key for key, (m, _) in self.tried.items() if not m.has_graph and not m.yardstick), key=self.error)
        errors = self.tried[best][1].errors
        seen = errors.task_rows > TINY
        rows = errors.task_rows[seen]
        squared = errors.squared.sum(axis=0)[seen]
        common = max(float(squared.sum() / rows.sum()), TINY)
        rmse = np.sqrt(common * moderated(squared / rows / common, rows))
        floor = LEAST_ERROR * float(np.median(rmse) or rmse.max())
        weight = np.zeros(len(seen))
        weight[seen] = 1 / (np.maximum(rmse, floor) * rows)
        return weight

    def cross_errors(self, keys: list[str]) -> CrossErrors:
        """Those of some members, from statistics; in a family with the losses of rows."""
        if self.rows is not None:
            return CrossLosses.of_predictors(keys, self._predictors(keys, self.rows), self.rows, len(self.folds))
        lines = (self._in_common(keys, f) for f in range(len(self.folds)))
        return CrossErrors.of_coefficients(keys, self.folds.held_out, lines)

    def cross_errors_with(self, keys: list[str], key: str, prediction: Array, data: TaskRows) -> CrossErrors:
        """The same together with other predictions of the rows of `data`, NaN where these are never held out."""
        predictors = np.vstack([self._predictors(keys, data), prediction])
        keys = [*keys, key]
        if self.rows is not None:
            return CrossLosses.of_predictors(keys, predictors, data, len(self.folds))
        shape = len(self.folds), len(data.labels)
        return CrossErrors.of_predictions(keys, data.y - predictors, data.codes, data.fold, shape, data.weight)

    def _predictors(self, keys: list[str], data: TaskRows) -> Array:
        """What members (M, n) predict for rows by the fold that holds them out; NaN for those that none does."""
        found = np.full((len(keys), len(data.y)), np.nan)
        for f in range(len(self.folds)):
            rows = np.flatnonzero(data.fold == f)
            W, c = self._in_common(keys, f)
            inputs = data.inputs(f)[rows]
            X = inputs / self.scale if self.curves is None else self.curves.of_fold(f, inputs)
            codes = data.codes[rows]
            for m in range(len(keys)):
                found[m, rows] = c[m, codes] + products(X, W[m], codes)
        return found

    def _in_common(self, keys: list[str], f: int) -> tuple[Array, Array]:
        """Slopes (M, T, D) and intercepts (M, T) by which members predict what fold f holds out, in common features."""
        members = [self.tried[key] for key in keys]
        W = np.zeros((len(keys), self.folds.total.n_tasks, self.folds.total.n_features))
        c = np.stack([trial.intercept[f] for _, trial in members])
        for m, (member, trial) in enumerate(members):
            if member.on_curves or self.curves is None:
                W[m] = trial.coef[f]
                continue
            factor, origin = self.curves.by_fold[f].of_lines()
            slopes = trial.coef[f] / self.scale
            W[m][:, -len(factor) :] = np.divide(slopes, factor, out=np.zeros_like(slopes), where=factor > 0)
            c[m] += slopes @ origin
        return W, c

    def errors_go_together(self) -> bool:
        """Whether what all tasks gain or lose in one fold is one observation.

        Tasks with the same inputs have the same rows held out, and in time the same years.
        """
        total = self.lines.total
        return self.lines.in_time or (total.n_tasks > 1 and total.is_shared())

    def table(self) -> list[dict[str, Any]]:
        """One row per member, and the number of folds behind its errors."""
        return [
            plain_row(trial, name=member.name, **member.parameters, folds=len(trial.coef))
            for member, trial in (self.tried | self.repeated | self.dropped).values()
            if not member.yardstick
        ]

    # --- fitting to all rows

    def fitted(self, member: Member, *, shown: bool, takes_part: bool) -> Model:
        """A member's model of all rows, in the common features and their units.

        Among many tasks a graph that is not shown, or takes no part, is one of the first rounds.
        """
        whole = self.lines.total.n_tasks < MANY or (shown and takes_part)
        key = member.key, whole
        if key not in self._fitted:
            self._fitted[key] = self._fit(member, member.method if whole else member.brief or member.method, shown)
        return self._fitted[key]

    def _fit(self, member: Member, method: Learner, shown: bool) -> Model:
        if not member.on_curves:
            method = self._on_inputs(method)
        with warnings.catch_warnings():
            if not shown:  # what there is to say about a member, its held-out errors say
                warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.simplefilter("ignore", UserWarning)
            return method.model_of(self.total)

    def _on_inputs(self, method: Learner) -> OnColumns:
        """A method of the inputs on one scale, which come last among the features of curves, as these have them."""
        d = len(self.scale)
        if self.curves is None:
            return OnColumns(method, np.arange(d), self.scale)
        D = self.curves.folds.total.n_features
        units = self.scale * self.curves.features.of_lines()[0]
        return OnColumns(method, np.arange(D - d, D), np.where(units > 0, units, 1.0))


def products(X: Array | InBasis, W: Array, codes: NDArray[np.intp]) -> Array:
    """Features times the slopes W (T, d) of their row's task."""
    return block_by_block(X, lambda block, rows: np.einsum("nd,nd->n", block, W[codes[rows]]))
