"""The record of a fit: everything that prediction, explanation, reports and files need. Nobody asks who made it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError

from kinfolk.declared import holds
from kinfolk.methods.extrapolation import CLIPPED_AT
from kinfolk.methods.facts import FactEffects
from kinfolk.methods.late_graph import LateGraph
from kinfolk.methods.part import LinearMap, Part, placed_columns
from kinfolk.methods.search_report import ByFeature, ByTask, SearchReport
from kinfolk.methods.structures import Structure, TaskGraph
from kinfolk.methods.trunk import Trunk
from kinfolk.methods.uncertainty import HeldOut, Uncertainty, scale_of_errors, uncertainty
from kinfolk.rows.families import FAMILIES, Family
from kinfolk.rows.gram import TINY, Array, GramStats
from kinfolk.rows.intervals import quantiles
from kinfolk.rows.schema import Columns, ReadRows, names_out
from kinfolk.rows.table import Rows, task_codes
from kinfolk.threads import on_few_threads
from kinfolk.words import warn_user

PREDICT_BLOCK = 65_536  # rows whose coefficients are gathered at a time


@holds(coef="d", intercept="number")
class Population(NamedTuple):
    """The model of an unseen task: slopes (d,) and intercept."""

    coef: Array
    intercept: float


@holds(history="n any")
@dataclass(frozen=True, eq=False)
class Course:
    """How the fit went: certificates at the end and, of an iteration, its objective, its length and how it ended."""

    optimality: dict[str, Any]
    history: Array | None = None
    n_iter: int | None = None
    converged: bool | None = None

    def attributes(self) -> dict[str, Any]:
        """These as fitted attributes."""
        named = {
            "optimality_": self.optimality,
            "objective_history_": self.history,
            "n_iter_": self.n_iter,
            "converged_": self.converged,
        }
        return {name: value for name, value in named.items() if value is not None}


@holds(
    span="2 i infinite",
    lines="record T d=i",
    most="number >=0",
    center="d",
    root="d d",
    reach="number infinite >0",
)
@dataclass(frozen=True, eq=False)
class Bound:
    """What holds curves and trees beyond the rows of fit, where nothing shows that they go on: straight lines.

    A row lies beyond them if an input leaves its range, or if inputs that are all in range never met like this: its
    features are farther from the mean, in units of their covariance, than those of any training row. There a prediction
    differs from that of the lines by no more than it usually did on the training rows, and by the less the farther it
    is. Inputs that are functions of each other, such as a season and a trend, may cancel on these rows and only there.

    Attributes
    ----------
    lines : the best model of straight lines alone, whose features are the inputs
    span : (2, d), range of the inputs of curves and trees on the training rows; infinite for other inputs
    most : largest difference to the lines beyond that range
    center, root : mean (D,) of the features of training rows, and a root (D, D) of their inverse covariance
    reach : largest squared distance of a training row from that mean, in these units
    """

    lines: Model
    span: Array
    most: float
    center: Array
    root: Array
    reach: float

    def beyond(self, X: Array, inputs: Array) -> tuple[NDArray[np.intp], Array]:
        """Which rows lie beyond the training rows, and how much of the difference to lines is believed of each."""
        distance = np.square((X - self.center) @ self.root).sum(axis=1)
        out = np.flatnonzero((distance > self.reach) | ((inputs < self.span[0]) | (inputs > self.span[1])).any(axis=1))
        return out, self.reach / np.maximum(distance[out], self.reach)

    def held(self, prediction: Array, X: Array, inputs: Array, codes: NDArray[np.intp]) -> Array:
        """Predictions that stay near those of the lines beyond the training rows."""
        out, believed = self.beyond(X, inputs)
        lines = self.lines.predictor(inputs[out], codes[out])
        held = prediction.copy()
        held[out] = lines + believed * np.clip(prediction[out] - lines, -self.most, self.most)
        return held

    def std(self, std: Array, X: Array, inputs: Array, codes: NDArray[np.intp]) -> Array:
        """Standard deviations of held predictions: right at the end of what they have seen those of curves and trees,
        and from there on more and more those of lines and of all that the two may differ by.
        """
        out, believed = self.beyond(X, inputs)
        far = np.maximum(self._excess(inputs[out]) / CLIPPED_AT, 1 - believed)
        lines = np.hypot(self.lines.std(inputs[out], codes[out]), self.most)
        held = std.copy()
        held[out] = np.sqrt((1 - far) * std[out] ** 2 + far * lines**2)
        return held

    def _excess(self, inputs: Array) -> Array:
        """How far rows leave the range, in units of its size; as much as inputs are trusted for at most."""
        size = np.maximum(self.span[1] - self.span[0], TINY)
        excess = np.maximum(self.span[0] - inputs, inputs - self.span[1]) / np.where(np.isfinite(size), size, 1.0)
        return np.minimum(excess.max(axis=1, initial=0.0), CLIPPED_AT)

    def changed(self, change: Callable[[Model], Model]) -> Bound:
        """The same with other lines."""
        return replace(self, lines=change(self.lines))


class FittedMethod(Protocol):
    """What a record asks of the method that was fitted."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name."""


class FoldStream(Protocol):
    """Statistics of the folds of all rows so far, that more rows may be added to."""

    def plus(self, rows: Rows, X: Array, *, forget: float = 1.0, groups: Any = None, random_state: Any = None) -> Any:
        """With new rows of inputs X, after the weight of all earlier ones was multiplied by `forget`."""

    def select(self, tasks: NDArray[Any]) -> Any:
        """That of some tasks, by position."""


@holds(
    labels="names T",
    coef="T d",
    intercept="T",
    seen="truths T S=sum",
    population="record d",
    structure="record T",
    parts="record S d",
    held_out="record T",
    course="record",
    report="record T",
    relevance="d >=0",
    gram="record T d",
    columns="record T",
    stream="record T",
    trunk="record T d",
    bound="record T d",
    beyond="record T",
    facts="record d",
    classes="names K",
    by_class="record T",
)
@dataclass(frozen=True, eq=False)
class Model:
    """What was fitted, over T labelled tasks; every per-task array has T entries in the order of `labels`.

    Attributes
    ----------
    labels : (T,), sorted
    seen : (T,), whether a task took part in the fit; one without rows, or with a single one next to an own intercept,
        has the slopes of the population
    coef, intercept : (T, d) and (T,)
    population : the model of an unseen task; with facts of one whose facts are the mean of all
    facts : what facts about tasks do to slopes; of tasks that took part `coef` has it. None if nothing
    structure : what is shown of the relations of tasks, or None; the graph that predicts is in the parts
    parts : the model as a sum of linear maps of the targets; empty for methods that are not linear in them
    trunk : a regressor of all rows that has a share in predictions beside the parts, or None. Coefficients, population
        and parts are those of the lines beside it
    held_out : cross-validated errors by task, or None
    course : how the fit went
    report : what a search found, or None
    relevance : (d,), how much each coefficient varies between tasks; None where a method does not say
    extras : what a single method reports beyond that, by the name of the fitted attribute; nobody else reads it
    gram : statistics of the rows; None in a copy that only predicts
    columns : the rules by which a table became features; None for a model of statistics
    bound : what holds predictions beyond the training rows; None for a model of straight lines
    beyond : the model of rows that come later than all of fit, or None; it has its own basis, in its `columns`
    after : of such a model, the input that orders rows in time and its last value in fit; None of others
    family : of the targets; statistics of all but numbers are those of working targets at the coefficients, with the
        dispersion that was found as theirs
    classes : labels of the classes, if the targets are classes
    by_class : of more than two classes the models of each versus all others, given these; this is that of the first
    private : whether statistics and all that needs them were left out on purpose
    method : the method with its parameters, to be fitted again
    stream : statistics of folds that more rows may be added to; None if none were kept
    """

    labels: NDArray[Any]
    seen: NDArray[np.bool_]
    coef: Array
    intercept: Array
    population: Population
    structure: Structure | None = None
    parts: tuple[Part, ...] = ()
    held_out: HeldOut | None = None
    course: Course | None = None
    report: SearchReport | None = None
    relevance: Array | None = None
    extras: dict[str, Any] = field(default_factory=dict)
    gram: GramStats | None = None
    columns: Columns | None = None
    method: FittedMethod | None = field(default=None, repr=False)
    stream: FoldStream | None = field(default=None, repr=False)
    trunk: Trunk | None = None
    bound: Bound | None = None
    beyond: Model | None = None
    after: tuple[int, float] | None = None
    private: bool = False
    facts: FactEffects | None = None
    family: str = "gaussian"
    classes: NDArray[Any] | None = None
    by_class: tuple[Model, ...] = ()

    @classmethod
    def of(
        cls,
        gram: GramStats,
        coef: Array,
        intercept: Array | None = None,
        *,
        population: Population | None = None,
        **others: Any,
    ) -> Model:
        """A model of tasks that all have rows; by default every task's line goes through its means.

        The population is by default the mean over tasks.
        """
        if intercept is None:
            intercept = gram.y_mean - np.einsum("td,td->t", gram.x_mean, coef)
        if population is None:
            population = Population(coef.mean(axis=0), float(intercept.mean()))
        seen = np.ones(gram.n_tasks, bool)
        return cls(gram.labels, seen, coef, intercept, population, gram=gram, **others)

    def among(self, gram: GramStats) -> Model:
        """The same model among all tasks of `gram`; others than its own have no rows, or too few for a slope."""
        if len(gram.labels) == len(self.labels):
            return replace(self, gram=gram)
        T = gram.n_tasks
        position = np.searchsorted(gram.labels, self.labels)
        coef = np.tile(self.population.coef, (T, 1))
        coef[position] = self.coef
        # A task without rows is predicted by the population; with a row, by its slopes through that.
        through_row = gram.y_mean - gram.x_mean @ self.population.coef
        if self.facts is not None:
            through_row -= self.facts.of_rows(gram.x_mean)
        intercept = np.where(gram.n > 0, through_row, self.population.intercept)
        intercept[position] = self.intercept
        seen = np.zeros(T, bool)
        seen[position] = self.seen
        return replace(
            self,
            labels=gram.labels,
            seen=seen,
            coef=coef,
            intercept=intercept,
            structure=None if self.structure is None else self.structure.expanded(gram.labels),
            held_out=None if self.held_out is None else self.held_out.placed(position, T),
            report=None if self.report is None else self.report.placed(position, T),
            extras={k: v.placed(position, T) if isinstance(v, ByTask) else v for k, v in self.extras.items()},
            gram=gram,
            trunk=None if self.trunk is None else self.trunk.placed(position, T),
        )

    def in_units(self, scale: Array) -> Model:
        """The same model, if its features were divided by `scale` before it was fitted."""
        population = Population(self.population.coef / scale, self.population.intercept)
        parts = tuple(part.in_units(scale) for part in self.parts)
        # Coefficients of features that are as many times larger vary as many times less.
        relevance = None if self.relevance is None else self.relevance / scale
        facts = None if self.facts is None else self.facts.in_units(scale)
        coef = self.coef / scale
        return replace(self, coef=coef, population=population, parts=parts, relevance=relevance, facts=facts)

    def on_columns(self, columns: NDArray[np.intp], d: int) -> Model:
        """The same model, if its features are `columns` of d: the others have coefficients of 0."""
        coef = placed_columns(self.coef, columns, np.zeros((len(self.coef), d)))
        population = placed_columns(self.population.coef, columns, np.zeros(d))
        relevance = None if self.relevance is None else placed_columns(self.relevance, columns, np.zeros(d))
        return replace(
            self,
            coef=coef,
            population=Population(population, self.population.intercept),
            parts=tuple(part.on_columns(columns, d) for part in self.parts),
            relevance=relevance,
            extras={k: v.placed(columns, d) if isinstance(v, ByFeature) else v for k, v in self.extras.items()},
            facts=None if self.facts is None else self.facts.on_columns(columns, d),
        )

    def with_common(self, coef: Array, facts: FactEffects | None = None, x_mean: Array | None = None) -> Model:
        """The same model with coefficients (d,) that were taken out before it was fitted, and with products of facts
        and features, of tasks with means `x_mean`.
        """
        population = Population(self.population.coef + coef, self.population.intercept)
        parts = tuple(
            replace(part, common=coef if part.common is None else part.common + coef, facts=facts)
            for part in self.parts
        )
        model = replace(self, coef=self.coef + coef, population=population, parts=parts)
        if facts is None or x_mean is None:
            return model
        slopes, levels = facts.lines(x_mean)
        return replace(model, coef=model.coef + slopes, intercept=model.intercept + levels, facts=facts)

    def lines_at(self, gram: GramStats) -> tuple[Array, Array]:
        """Coefficients and intercepts by which rows with these statistics are predicted: those of tasks that took no
        part have what the facts in these rows make of them.
        """
        if self.facts is None or self.seen.all():
            return self.coef, self.intercept
        slopes, levels = self.facts.lines(gram.x_mean)
        strange = ~self.seen & (gram.n > 0)
        return self.coef + np.where(strange[:, None], slopes, 0.0), self.intercept + np.where(strange, levels, 0.0)

    def for_prediction(self) -> Model:
        """A light copy without statistics, that can travel to workers."""
        bound = None if self.bound is None else self.bound.changed(Model.for_prediction)
        beyond = None if self.beyond is None else self.beyond.for_prediction()
        by_class = tuple(one.for_prediction() for one in self.by_class)
        light = replace(self, bound=bound, beyond=beyond, by_class=by_class)
        # Parts and report grow with the tasks squared, or hold what rows could be told from.
        light = replace(light, report=None, relevance=None, extras={}, course=None, structure=None, parts=())
        return replace(light, gram=None, method=None, stream=None)

    @property
    def name(self) -> str:
        """The class of the method, for sentences."""
        return "the model" if self.method is None else type(self.method).__name__

    def parameter(self, name: str) -> Any:
        """A parameter of the method that was fitted; None if it has none of this name."""
        # A copy that only predicts has no method, and its readers say what they know without.
        return None if self.method is None else self.method.get_params(deep=False).get(name)

    @property
    def is_linear(self) -> bool:
        """Whether predictions are linear in the features, for every row alike."""
        return self.trunk is None and self.bound is None and self.beyond is None and not self.facts_move_slopes

    @property
    def facts_move_slopes(self) -> bool:
        """Whether an unseen task is predicted by products of its facts with its features."""
        return self.facts is not None and self.facts.move_slopes

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features, those of the columns of `coef`; x0, x1, ... where the table had none."""
        given = self._names_of_columns() if self.gram is None else self.gram.feature_names
        return tuple(map(str, given or (f"x{j}" for j in range(self.coef.shape[1]))))

    def _names_of_columns(self) -> tuple[str, ...] | None:
        """Names of the features by the rules that make them, where statistics do not say; None if these do not say."""
        if self.columns is None or self.columns.schema.names is None:
            return None
        names: Any = tuple(name for name in self.columns.schema.names if name != self.columns.schema.task)
        for step in self.columns.steps:
            names = names_out(step, names)
        return names if names is not None and len(names) == self.coef.shape[1] else None

    @property
    def curve_terms(self) -> int:
        """How many features bend the lines of the inputs, which come after them: `coef_` has the slopes alone."""
        basis = None if self.columns is None else self.columns.basis
        return int(getattr(basis, "n_terms", 0))

    @property
    def known(self) -> GramStats:
        """Statistics of the tasks that took part in the fit."""
        gram = self.statistics("this")
        return gram if self.seen.all() else gram.select(self.seen)

    def statistics(self, what: str) -> GramStats:
        """Statistics of all tasks, or an error that says what needs them."""
        if self.gram is not None:
            return self.gram
        why = "it was saved with private=True" if self.private else "this copy of it only predicts"
        raise ValueError(
            f"{what} needs statistics of the rows of fit, which this {self.name} does not hold: {why}. Use the whole "
            "model, or fit again"
        )

    @property
    def graph_part(self) -> Part | None:
        """The part whose graph is shown, if there is one."""
        return next((part for part in self.parts if part.shown), None)

    @property
    def rows(self) -> Array:
        """Rows of every task (T,), or their weights; statistics of working targets have other weights than these."""
        counted = self.extras.get("rows_")
        return self.statistics("the number of rows").n if counted is None else counted.values

    @property
    def target_means(self) -> Array:
        """Mean target of every task (T,); NaN without rows."""
        known = self.extras.get("means_")
        if known is not None:
            return known.values
        gram = self.statistics("the mean of targets")
        return np.where(gram.n > 0, gram.y_mean, np.nan)

    @property
    def compared(self) -> tuple[Part, ...]:
        """The parts by whose predictions tasks are compared: all, or the graph's own where most of a mixture is pooled.

        What is left of differences between tasks then is not how they differ, but which of them left the common lines.
        """
        part = self.graph_part
        if part is None or sum(p.share for p in self.parts if p.is_pooled) <= 0.5:
            return self.parts
        return (replace(part, share=1.0, own_shares=None),)

    @property
    def optimality(self) -> dict[str, Any]:
        """The certificates of the fit, and those of a graph that is made when it is first looked at."""
        own = {} if self.course is None else self.course.optimality
        return own | self.structure.certificates if isinstance(self.structure, LateGraph) else own

    def settled(self) -> Model:
        """The same with nothing left to be made: for files."""
        if self.by_class:
            each = tuple(replace(one, by_class=()).settled() for one in self.by_class)
            return replace(replace(self, by_class=()).settled(), by_class=each)
        if not isinstance(self.structure, LateGraph):
            return self
        course = replace(self.course or Course({}), optimality=self.optimality)
        return replace(self, structure=self.structure.graph(), course=course)

    @cached_property
    def maps(self) -> tuple[LinearMap, ...]:
        """The parts that predict, as linear maps of the targets."""
        if self.private:
            self.statistics("a standard deviation or a contribution")
        if not self.parts:
            raise ValueError(
                f"{self.name} is not a linear function of the targets: use GAMTL, GAMTLCV, RBFGAMTL, Independent, "
                "Pooled, MeanShrunk, RandomSlopes or TaskMean for standard deviations and contributions"
            )
        return tuple(part.map(self.known) for part in self.parts if (part.shares > 0).any())

    @property
    def mean_features(self) -> Array:
        """Mean (d,) of the features over all rows; 0 if the rows are not known."""
        if self.gram is None or not self.gram.n.any():
            return np.zeros(self.coef.shape[1])
        return np.average(self.gram.x_mean, axis=0, weights=self.gram.n)

    @property
    def levels(self) -> Array:
        """What the lines and curves of every task (T,) predict at the mean of all inputs."""
        return self.intercept + self.coef @ self.mean_features

    @cached_property
    def uncertainty(self) -> Uncertainty:
        """Noise of every task and how tasks differ, learned at the first call."""
        known = self.known
        lines = self.coef[self.seen], self.intercept[self.seen]
        if self.facts is not None:  # tasks differ by what facts leave
            slopes, levels = self.facts.lines(known.x_mean)
            known = known.beside(slopes, levels)
            lines = lines[0] - slopes, lines[1] - levels
        losses = not self.target.is_plain and (self.held_out is None or self.held_out.pearson is None)
        # Held-out errors of a trunk say nothing about lines, and losses nothing about how far coefficients are off.
        if self.held_out is None or self.trunk is not None or losses:
            return uncertainty(self.maps, known, *lines)
        return uncertainty(self.maps, known, *lines, self.held_out.of(self.seen))

    @cached_property
    def _beside_trunk(self) -> float:
        """What a trunk leaves of the standard deviations of lines, from held-out errors."""
        if self.held_out is None or (not self.target.is_plain and self.held_out.pearson is None):
            return 1.0
        return scale_of_errors(self.uncertainty, self.known, self.held_out.of(self.seen))

    @cached_property
    def _with_population(self) -> tuple[Array, Array]:
        """Coefficients with one more row, the population model, where the code -1 of unseen tasks points."""
        W = np.vstack([self.coef, self.population.coef])
        return W, np.append(self.intercept, self.population.intercept)

    @property
    def target(self) -> Family:
        """The family of the targets."""
        return FAMILIES[self.family]

    def predict(self, X: Array, codes: NDArray[np.intp]) -> Array:
        """Predictions for features X (n, d) of the tasks at `codes`; -1 is an unseen task."""
        return self.target.mean(self.predictor(X, codes))

    def predictor(self, X: Array, codes: NDArray[np.intp]) -> Array:
        """The linear predictor, which is the prediction of numbers."""
        W, c = self._with_population
        prediction = c[codes]
        for start in range(0, len(X), PREDICT_BLOCK):
            block = slice(start, start + PREDICT_BLOCK)
            prediction[block] += np.einsum("nd,nd->n", X[block], W[codes[block]])
        if self.facts is not None:
            # Coefficients of tasks that took part have what their facts make of them.
            strange = np.flatnonzero(~np.append(self.seen, False)[codes])
            prediction[strange] += self.facts.of_rows(X[strange])
        if self.trunk is not None:
            share = self.trunk.share_of(X, codes)
            prediction += share * (self.trunk.predict(X, codes) - prediction)
        return prediction

    def predict_wide(self, X: Array) -> Array:
        """Linear predictors of all tasks for every row: (n, T)."""
        if self.trunk is None:
            return X @ self.coef.T + self.intercept
        T = len(self.labels)
        return self.predictor(np.repeat(X, T, axis=0), np.tile(np.arange(T), len(X))).reshape(-1, T)

    @on_few_threads
    def std(self, X: Array, codes: NDArray[np.intp]) -> Array:
        """Standard deviation of a new observation; a task without rows may be like any of those with rows.

        Of all but numbers, that of the linear predictor.
        """
        new = float(self.target.is_plain)
        known = self.uncertainty
        among_seen = np.append(np.where(self.seen, np.cumsum(self.seen) - 1, -1), -1)[codes]
        old = among_seen >= 0
        std = np.empty(len(X))
        std[old] = known.std(X[old], among_seen[old], new)
        if not old.all():
            lines = 1.0 if self.trunk is None else 1 - self.trunk.share  # a trunk is the same for all strangers
            std[~old] = known.of_new_tasks(X[~old], lines, new)
        if self.trunk is not None:
            std[self.trunk.reaches(X)] *= self._beside_trunk
        return std

    def predict_table(
        self, X: Any, *, unseen: str = "error", return_std: bool = False, quantiles: Array | None = None
    ) -> Any:
        """Predictions for a table like that of fit, or their quantiles: one per row, or one column per task."""
        assert self.columns is not None
        rows = self.columns.read(X, self.name)
        codes = None if rows.labels is None else task_codes(rows.labels, self.labels, unseen)
        if rows.note:
            warn_user(rows.note)
        if codes is not None and quantiles is not None:
            return self.quantiles_read(rows, codes, quantiles)
        if codes is not None:
            return self.predict_read(rows, codes, return_std=return_std)
        columns: Any = 0 if self.columns.single else self.columns.schema.columns
        n = len(rows.features)
        if quantiles is not None:
            each = [self.quantiles_read(rows, np.full(n, t), quantiles) for t in range(len(self.labels))]
            return np.stack(each, axis=1)[:, columns]
        if not return_std:
            return self.predict_all(rows)[:, columns]
        by_task = [self.predict_read(rows, np.full(n, t), return_std=True) for t in range(len(self.labels))]
        return tuple(np.column_stack(values)[:, columns] for values in zip(*by_task, strict=True))

    def predict_all(self, rows: ReadRows) -> Array:
        """Predictions of all tasks for every row (n, T)."""
        offset = 0.0 if rows.offset is None else rows.offset[:, None]
        return self.target.mean(self._wide(rows) + offset)

    def _wide(self, rows: ReadRows) -> Array:
        wide = self.predict_wide(rows.features)
        if self.bound is None:
            return wide
        n, T = wide.shape
        codes = np.tile(np.arange(T), n)
        return self.bound.held(
            wide.ravel(), np.repeat(rows.features, T, axis=0), np.repeat(rows.inputs, T, axis=0), codes
        ).reshape(n, T)

    def predict_read(self, rows: ReadRows, codes: NDArray[np.intp], *, return_std: bool = False) -> Any:
        """Predictions for rows that were read, and standard deviations of their targets."""
        family = self.target
        if not return_std:
            return family.mean(self.predictor_read(rows, codes))
        eta, std = self.predictor_read(rows, codes, return_std=True)
        if family.is_plain:
            return eta, std
        mean = family.mean(eta)
        return mean, np.hypot(np.sqrt(self.dispersion * family.variance(mean)), family.steepness(mean) * std)

    def quantiles_read(self, rows: ReadRows, codes: NDArray[np.intp], q: Array) -> Array:
        """Quantiles q (k,) for rows that were read, along one more axis: of new targets, or of probabilities."""
        eta, std = self.predictor_read(rows, codes, return_std=True)
        return quantiles(self.target, eta, std, self.dispersion, q)

    @property
    def dispersion(self) -> float:
        """Variance of the targets over that of their family."""
        return 1.0 if self.gram is None or self.gram.dispersion is None else self.gram.dispersion

    def predictor_read(self, rows: ReadRows, codes: NDArray[np.intp], *, return_std: bool = False) -> Any:
        """Linear predictors of rows that were read; those that come later than all of fit have a model of their own."""
        prediction = self._held(rows.features, rows.inputs, codes)
        std = self._std(rows, codes, prediction) if return_std else None
        later = self._later(rows)
        if len(later):
            assert self.beyond is not None
            some = rows.some(later, self.beyond.columns)
            found = self.beyond.predictor_read(some._replace(offset=None), codes[later], return_std=return_std)
            prediction[later] = found[0] if return_std else found
            if std is not None:
                std[later] = found[1]
        if rows.offset is not None:
            prediction = prediction + rows.offset
        return prediction if std is None else (prediction, std)

    def _held(self, X: Array, inputs: Array, codes: NDArray[np.intp]) -> Array:
        """Predictions for features X of `inputs`, near those of lines where these lie beyond the training rows."""
        prediction = self.predictor(X, codes)
        return prediction if self.bound is None else self.bound.held(prediction, X, inputs, codes)

    def _later(self, rows: ReadRows) -> NDArray[np.intp]:
        """Which rows come later than all of fit."""
        if self.beyond is None or self.beyond.after is None:
            return np.empty(0, np.intp)
        column, end = self.beyond.after
        return np.flatnonzero(rows.inputs[:, column] > end)

    def _std(self, rows: ReadRows, codes: NDArray[np.intp], prediction: Array) -> Array:
        """Standard deviations; of a clipped row that of the row as it is, and how far the line would lead from here."""
        std = self._std_held(rows.features, rows.inputs, codes)
        if len(rows.clipped):
            own = codes[rows.clipped]
            along = self._held(rows.unclipped, rows.unclipped_inputs, own)
            far = self._std_held(rows.unclipped, rows.unclipped_inputs, own)
            std[rows.clipped] = np.hypot(far, along - prediction[rows.clipped])
        return std

    def _std_held(self, X: Array, inputs: Array, codes: NDArray[np.intp]) -> Array:
        std = self.std(X, codes)
        return std if self.bound is None else self.bound.std(std, X, inputs, codes)

    def attribute(self, name: str) -> Any:
        """A fitted attribute of the estimator, by name; two of them look at the graph, so that it must be made."""
        if name == "optimality_":
            return self.optimality
        if name == "adjacency_" and isinstance(self.structure, TaskGraph):
            return self.structure.adjacency
        return self.attributes[name]

    @cached_property
    def attributes(self) -> dict[str, Any]:
        """The fitted attributes by name, without making a graph for it."""
        bends = self.curve_terms
        found = {
            "tasks_": self.labels,
            "coef_": self.coef[:, bends:],
            "intercept_": self.intercept,
            "population_coef_": self.population.coef[bends:],
            "population_intercept_": self.population.intercept,
            "structure_": self.structure,
            "gram_": self.gram,
        }
        if isinstance(self.structure, TaskGraph):
            found |= {"graph_": self.structure, "adjacency_": None}
        coupling = None if self.graph_part is None else getattr(self.graph_part.coupling, "adjacency", None)
        if coupling is not None:
            found["coupling_"] = TaskGraph(coupling, self.labels[self.seen]).expanded(self.labels).adjacency
        if bends:
            found["curve_coef_"] = self.coef[:, :bends]
        if self.facts is not None:
            found |= self.facts.attributes(self.feature_names, bends)
        if self.relevance is not None:
            found["relevance_"] = self.relevance
        if self.classes is not None:
            found["classes_"] = self.classes
        if not self.target.is_plain and self.gram is not None:
            found["dispersion_"] = self.gram.dispersion
        if self.by_class:
            found["coef_"] = np.stack([one.coef[:, one.curve_terms :] for one in self.by_class])
            found["intercept_"] = np.stack([one.intercept for one in self.by_class])
        for record in (self.columns, self.course, self.held_out, self.report):
            found |= {} if record is None else record.attributes()
        return found | {k: v.values if isinstance(v, (ByTask, ByFeature)) else v for k, v in self.extras.items()}


class Estimator(Protocol):
    """A fitted estimator, whatever its class: all that anyone asks of it is its record."""

    @property
    def model_(self) -> Model: ...


Fitted = Model | Estimator


def as_model(fitted: Fitted, caller: str = "this") -> Model:
    """The record of a fitted estimator, or the record itself."""
    if isinstance(fitted, Model):
        return fitted
    if not hasattr(fitted, "fit"):
        raise TypeError(f"{caller} takes a fitted model, got {type(fitted).__name__}")
    found = getattr(fitted, "model_", None)
    if not isinstance(found, Model):
        raise NotFittedError(
            f"This {type(fitted).__name__} instance is not fitted yet. Call 'fit' before using this estimator."
        )
    return found


def structure_of(given: Fitted | Structure, caller: str) -> Structure | None:
    """A structure itself, or that of a fitted model, which may be None; an error for anything else."""
    if isinstance(given, Structure):
        return given
    if not isinstance(given, Model) and not hasattr(given, "fit"):
        known = "a TaskGraph, TaskCovariance, TaskPrecision or TaskTree"
        raise TypeError(f"{caller} takes a fitted model, {known}, got {type(given).__name__}")
    structure: Structure | None = as_model(given, caller).structure
    return structure
