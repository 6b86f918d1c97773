"""What every method of the package is: parameters, `learn` (statistics -> Model), and the scikit-learn face of both.

fit = rows -> features -> statistics -> `learn` -> `model_`. Everything that a fit found is in `model_`; the fitted
attributes (`coef_`, `tasks_`, ...) are read from it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from functools import partial
from importlib import import_module
from time import perf_counter
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.metrics import r2_score
from sklearn.utils import estimator_html_repr

from kinfolk.methods.constant_within import beside_common, beside_facts, warn_of_levels_alone
from kinfolk.methods.extrapolation import limits_from, trusted_limits
from kinfolk.methods.model import Model, Population, as_model
from kinfolk.methods.outer import fit_family, working_folds
from kinfolk.methods.parameters import check_parameters, choice, parameters
from kinfolk.methods.remarks import (
    check_work,
    warn_of_collinear_features,
    warn_of_common_features,
    warn_of_lonely_values,
    warn_of_poverty,
    warn_of_scatter,
    warn_of_target,
)
from kinfolk.progress import LONG, Bar, rest_of_fit
from kinfolk.rows.columns import TableRules
from kinfolk.rows.families import FAMILIES, Family, explained_deviance
from kinfolk.rows.folds import Folds, refilled
from kinfolk.rows.gram import Array, GramStats
from kinfolk.rows.offsets import Offsets
from kinfolk.rows.schema import Columns, as_features, names_out, roles_of, ruled, rules_notes
from kinfolk.rows.splits import InTime, fold_of_rows, in_order
from kinfolk.rows.table import Rows, Schema, read_rows, read_table, task_name
from kinfolk.rows.working import WorkingRows
from kinfolk.sources.frames import is_lazy, predict_frame
from kinfolk.threads import limited_threads
from kinfolk.words import warn_user


class Face:
    """A function of another module as a method: `model.report(...)` is `kinfolk.report.write_report(model, ...)`.

    The module comes later in the order of imports, so it is looked up by name when it is called. Faces are attributes
    of classes alone, so that the exceptions to the order are listed in one place.
    """

    def __init__(self, module: str, function: str) -> None:
        self.module = module
        self.function = function

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else partial(self, instance)

    def __call__(self, instance: Any, *args: Any, **options: Any) -> Any:
        return getattr(import_module(self.module), self.function)(instance, *args, **options)


@parameters
class MultiTaskRegressor(RegressorMixin, BaseEstimator):
    """Base of all methods; a method is its parameters and `learn(gram) -> Model`, in a file of its own.

    A method that cross-validates inside fit says so in `wants_folds()`, and gets `learn_folds(folds) -> Model` in place
    of `learn`; its parameters `cv` and `random_state` make the folds. What a method says about itself:

    shares : what tasks share, in one phrase
    simplicity : rank among methods of equal error; the simplest has the lowest
    default_grid : values by parameter that `tune` tries
    quick : parameters for a comparison of many methods, where errors settle long before the last digits do
    needs : what a table with a task column must have beyond that, in words
    scales_itself : whether columns need no common scale before it
    alone : whether it fits every task as if it were the only one
    classifies : whether its targets are labels of classes
    only_numbers : why it fits no classes and counts, in words; empty if it does
    family_rounds : how often it finds its numbers anew on working targets, for classes and counts

    Parameters
    ----------
    task : name or position of the task column of X, or names of several that make it together; None if y has one column
        per task
    family : "gaussian" for numbers, "binomial" for 0 and 1 or shares (trials are `sample_weight`), "poisson" for
        counts, "gamma" for amounts above 0; coefficients are then those of the logit, or the logarithm, of the mean
    exposure : name of a column of X that means of counts are proportional to (population, hours); no feature
    offset : name of a column of X that is added to the linear predictor; no feature
    features : a transformer for the non-task columns, e.g. StandardScaler()
    categorical : names of columns of a data frame to take as categories, even if they hold numbers
    facts : columns that tell of a task and not of its rows, as its region: they move the level and the slopes around
        which tasks scatter, as far as the tasks show, and unseen tasks are predicted by theirs. "auto": all columns
        that are constant within tasks; names or positions of some; a data frame with one row per task, whose columns
        are joined to X by that of the task; None: such columns move levels alone, as fixed effects
    common : names or positions of columns that have the same coefficient in all tasks
    unseen : tasks that fit has not seen are predicted by the population, with a warning ("warn") or without ("mean"),
        or are an "error"
    extrapolate : "clip" or "linear": what predict does with inputs far beyond those of fit
    verbose : 1 shows the progress of a fit, and at the end prints what the command line prints
    """

    shares: ClassVar[str] = ""
    simplicity: ClassVar[int] = 100
    default_grid: ClassVar[dict[str, tuple[Any, ...]]] = {}
    quick: ClassVar[dict[str, Any]] = {}
    needs: ClassVar[str] = ""
    scales_itself: ClassVar[bool] = False
    alone: ClassVar[bool] = False
    classifies: ClassVar[bool] = False
    only_numbers: ClassVar[str] = ""
    family_rounds: ClassVar[int] = 1

    task: str | int | Sequence[str] | None = field(default=None, kw_only=False)
    family: str = choice(*FAMILIES)
    exposure: str | None = None
    offset: str | None = None
    features: Any = None
    categorical: Sequence[str] = ()
    facts: Any = "auto"
    common: Sequence[str | int] = ()
    unseen: str = choice("warn", "mean", "error")
    extrapolate: str = choice("clip", "linear")
    verbose: int = 0

    def learn(self, gram: GramStats) -> Model:
        """The model of tasks that all have rows."""
        raise NotImplementedError

    def learn_folds(self, folds: Folds) -> Model:
        """The same for a method that cross-validates."""
        raise NotImplementedError

    def wants_folds(self) -> bool:
        """Whether this method cross-validates inside fit."""
        return False

    def needs_rows(self) -> bool:
        """Whether statistics of the features are not enough."""
        return False

    def needs_two_rows(self) -> bool:
        """Whether own intercepts leave nothing of a one-row task."""
        return True

    def finds_numbers(self, gram: GramStats) -> bool:
        """Whether penalties, variances or a graph come from the statistics, not from the parameters alone."""
        return True

    def levels_are_free(self) -> bool:
        """Whether nothing draws levels of tasks together, so that those of one kind of event alone are infinite."""
        return self.needs_two_rows()

    def leaves_out_common(self, gram: GramStats) -> bool:
        """Whether features with one coefficient for all tasks are taken out before `learn`: by default those that the
        user names, and not those that do not vary within tasks.
        """
        return gram.roles is not None and bool((gram.roles < 0).any())

    def learns_nothing(self, gram: GramStats, folds: Folds | None) -> bool:
        """Whether no task has rows enough to learn slopes from, so that all get one line."""
        return self.needs_two_rows() and bool(gram.lone()[gram.n > 0].all())

    @property
    def name(self) -> str:
        """As it is called in tables and on the command line."""
        return command_name(type(self).__name__)

    @property
    def target(self) -> Family:
        """The family of the targets."""
        return FAMILIES[self.family]

    @property
    def offsets(self) -> Offsets:
        """The columns that are added to the linear predictor."""
        return Offsets(self.exposure, self.offset)

    @property
    def works_on_rows(self) -> bool:
        """Whether statistics of the targets are not enough: they are those of working targets, which change."""
        return not self.target.is_plain or bool(self.offsets)

    def _check_family(self) -> None:
        self.offsets.check(self.target)
        if not self.target.is_plain and self.only_numbers:
            raise ValueError(
                f'{type(self).__name__} fits numbers alone, not family="{self.family}": {self.only_numbers}. GAMTL, '
                "GAMTLCV, RBFGAMTL, Independent, Pooled, MeanShrunk, RandomSlopes and TaskMean fit it"
            )

    def model_of(self, gram: GramStats, folds: Folds | None = None) -> Model:
        """The model of all tasks of `gram`; those without rows get the population's coefficients."""
        if not (gram.n > 0).any():
            raise ValueError("no task has a row with positive weight")
        check_parameters(self)
        if folds is not None:
            folds.check_training()
        with limited_threads(*gram.b.shape):
            model = self._learned(gram.with_rows()) if folds is None else self.learn_folds(folds.with_rows())
        return replace(model.among(gram), method=self.unfitted())

    def fact_products(self) -> str:
        """What facts about tasks may do: "shrunk", "free" or "none", see `solvers.mixed.by_facts`."""
        return "none" if self.alone else "shrunk"

    def _learned(self, gram: GramStats) -> Model:
        return beside_facts(self.beside_common(self.learn), gram, self.fact_products())

    def beside_common(self, learn: Callable[[GramStats], Model]) -> Callable[[GramStats], Model]:
        """The same of what coefficients in common leave, where this method does not find them itself."""
        return lambda gram: beside_common(learn, gram) if self.leaves_out_common(gram) else learn(gram)

    def whole_model(self, gram: GramStats, folds: Folds | None = None) -> Model:
        """As `model_of`; a task with a single row, which an own intercept takes, gets the slopes of the population."""
        if self.learns_nothing(gram, folds):
            return self._one_line(gram, folds)
        lone = gram.lone() & self.needs_two_rows()
        if not lone.any():
            return self.model_of(gram, folds)
        model = self.model_of(gram.emptied(lone), None if folds is None else folds.emptied(lone))
        slopes, level = model.population
        through_row = gram.y_mean - gram.x_mean @ slopes
        if model.facts is not None:
            through_row -= model.facts.of_rows(gram.x_mean)  # as `Model.predict` adds it to tasks without slopes
        # An unseen task may have its level as well as any other.
        level += float(np.sum(through_row[lone] - level)) / (model.seen.sum() + lone.sum())
        intercept = np.where(lone, through_row, np.where(gram.n > 0, model.intercept, level))
        return replace(model, gram=gram, intercept=intercept, population=Population(slopes, level))

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None, time: Any = None) -> Self:
        """Fit all tasks jointly.

        Parameters
        ----------
        X : table with the task column `task`; or the shared inputs, if `y` has one column per task. A lazy or remote
            frame (polars LazyFrame, DuckDB relation, Dask, PySpark, Ibis) stays where it is: its engine computes
            statistics; `y` and `groups` are then names of its columns
        y : one target per row; or (n, T) with NaN where a target is not observed; or the name of a column of X
        sample_weight : one weight per row
        groups : one label per row (sitting, day); cross-validation keeps whole groups on one side, and methods that do
            not cross-validate ignore it. `features` is fitted once, on all rows: if it learns from y, use
            `kinfolk.tune`, which fits it anew in every fold
        time : times of the rows, or the name of a column of X: every fold of a cross-validation then trains on the past
            and is judged by what follows
        """
        check_parameters(self)
        with announced(self):
            if is_lazy(X):
                if self.works_on_rows:
                    raise ValueError(
                        f"family={self.family!r}, exposure and offset need rows, and a lazy frame gives statistics: "
                        "collect it first"
                    )
                if time is not None:
                    raise ValueError("time= orders rows in memory: collect the lazy frame, or leave time out")
                return self._fit_lazy(X, y, groups)
            rows = self.read(X, y, sample_weight)
            return self.fit_rows(rows, in_order(groups, time, X, len(rows.y)))

    def read(self, X: Any, y: Any, sample_weight: Any = None, **targets: Any) -> Rows:
        """Checked rows of a table, with what its columns add to the linear predictor."""
        self._check_family()
        table, offset = self.offsets.split(X) if self.offsets else (X, None)
        rows = read_rows(table, y, task=self.task, sample_weight=sample_weight, facts=self.facts, **targets)
        return rows if offset is None else replace(rows, offset=offset)

    def as_targets(self, y: Any) -> Any:
        """Targets of new rows as numbers."""
        return y

    def fit_rows(self, rows: Rows, groups: Any = None) -> Self:
        """Fit to rows that have been read and checked."""
        self._check_family()
        columns, features, names = self.fit_columns(rows)
        if self.works_on_rows:
            return self._fit_working(rows, columns, features, names, groups)
        self.tell_rules(columns, rows, features, names)
        if not self.wants_folds():
            gram = rows.gram(columns.of_training(rows, features), names)
            gram = gram.with_roles(roles_of(self.facts, self.common, gram, columns))
            return self.keep(self.whole_model(gram), self.limited(columns, rows, features))
        gram = rows.gram(features, names)
        cv = self.folds_for(gram, groups)
        folds = columns.folds_of_rows(rows, features, gram, cv=cv, groups=groups, random_state=self.random_state)
        folds = refilled(folds, columns.gaps).with_roles(roles_of(self.facts, self.common, gram, columns))
        return self.keep(self.whole_model(folds.total, folds), self.limited(columns, rows, features))

    def _fit_working(
        self, rows: Rows, columns: Columns, features: Array, names: tuple[str, ...] | None, groups: Any
    ) -> Self:
        """Fit by statistics of working targets."""
        self.tell_rules(columns, rows, features, names)
        gram = rows.gram(features, names)
        columns = self.limited(columns, rows, features)
        roles = roles_of(self.facts, self.common, gram, columns)

        def working(X: Array) -> WorkingRows:
            return replace(self.working_rows(rows, X, names), roles=roles)

        own = working(columns.of_training(rows, features))
        if not self.wants_folds():
            return self.keep(replace(self.learn_rows(own), classes=rows.classes), columns)
        cv = self.folds_for(gram, groups)
        fold = fold_of_rows(rows, features, gram, cv=cv, groups=groups, random_state=self.random_state)
        folds = working_folds(
            lambda f: working(columns.seen_by(f, rows, features, fold)), fold, in_time=isinstance(groups, InTime)
        )
        model = self.learn_rows(own, refilled(folds, columns.gaps))
        return self.keep(replace(model, classes=rows.classes), columns)

    def working_rows(self, rows: Rows, X: Array, names: tuple[str, ...] | None) -> WorkingRows:
        """The observed targets one by one, with the features X."""
        return WorkingRows.of(rows, X, names, self.target)

    def learn_rows(self, rows: WorkingRows, folds: Folds | None = None) -> Model:
        """The model of rows of any family; its numbers come from `folds`, if the method cross-validates."""
        return fit_family(self, rows, folds)

    def tell_rules(self, columns: Columns, rows: Rows, X: Array, names: tuple[str, ...] | None) -> None:
        """Warn of what is unusual about the rows, what was done to columns, and of a search that would take hours."""
        T = len(rows.schema.labels)
        if self.wants_folds():
            check_work(T, X.shape[1])
        if self.target.is_plain:
            warn_of_target(rows.targets().y)
        else:
            warn_of_poverty(rows, X, names, self.target)
        warn_of_lonely_values(rows, X, names)
        if T == 1 and self.task is not None and not self.alone:
            warn_user(f"column {task_name(self.task)!r} names one task: it is fitted, with no others to learn from")
        for note in rules_notes(columns, rows) if self.features is None else ():
            warn_user(note)

    def limited(self, columns: Columns, rows: Rows, features: Array) -> Columns:
        """The rules with the means of these training rows and, if new rows are to be clipped, their limits."""
        at = rows.targets()
        columns = replace(columns, means=np.average(features[at.row], axis=0, weights=at.weight))
        if self.extrapolate == "linear":
            return columns
        return replace(columns, limits=trusted_limits(features[at.row], at.y, at.codes))

    def folds_in_time(self, fold: NDArray[np.intp]) -> NDArray[np.intp]:
        """The folds by which this method judges in time, of all parts; -1 is never held out."""
        return fold

    def folds_for(self, gram: GramStats, groups: Any) -> Any:
        """Folds for rows with these statistics: a number, or pairs of row positions."""
        return self.cv

    def fit_gram(self, gram: GramStats) -> Self:
        """Fit from statistics alone: of files, streams or clusters. `features` does not apply."""
        self._refuse_statistics()
        if self.wants_folds():
            raise ValueError(
                f"{type(self).__name__} cross-validates, and one block of statistics cannot be cut into folds: "
                "use fit(X, y) or fit_folds(folds), or give its parameters as numbers"
            )
        columns = self._columns_of(gram)
        gram = gram.with_roles(roles_of(self.facts, self.common, gram, columns))
        return self.keep(self.whole_model(gram), columns)

    def fit_folds(self, folds: Folds) -> Self:
        """Fit from the statistics of folds alone; as `fit_gram` for methods that do not cross-validate."""
        self._refuse_statistics()
        if self.needs_rows():
            raise ValueError(f"{type(self).__name__} with curves or a trunk needs rows, not statistics: use fit(X, y)")
        columns = self._columns_of(folds.total)
        folds = folds.with_roles(roles_of(self.facts, self.common, folds.total, columns))
        model = self.whole_model(folds.total, folds if self.wants_folds() else None)
        return self.keep(model, columns)

    def _refuse_statistics(self) -> None:
        if self.works_on_rows:
            raise ValueError(
                f"family={self.family!r}, exposure and offset need rows, since statistics of working targets change "
                "with the fit: use fit(X, y)"
            )

    def keep(self, model: Model, columns: Columns) -> Self:
        """Become the estimator of a fitted model."""
        warn_of_collinear_features(model.gram, columns)
        warn_of_common_features(model.gram, model.coef, columns, found=isinstance(self.facts, str))
        warn_of_scatter(model.gram, model.target)
        warn_of_levels_alone(model.gram, self.fact_products())
        if columns.limits is None and columns.basis is None and self.extrapolate == "clip" and model.gram is not None:
            columns = replace(columns, limits=limits_from(model.gram))
        if columns.means is None and columns.basis is None and model.gram is not None:
            columns = replace(columns, means=model.gram.mean_features())
        by_class = tuple(replace(one, columns=columns) for one in model.by_class)
        self.model_ = replace(model, columns=columns, by_class=by_class)
        return self

    def _columns_of(self, gram: GramStats) -> Columns:
        """The table that statistics would come from: the task column first, then the features."""
        names = gram.feature_names
        if self.task is not None and names is not None:
            names = (str(task_name(self.task)), *names)
        width = gram.n_features + (self.task is not None)
        task = task_name(self.task) if names is not None or self.task is None else 0
        return Columns(Schema(task, names, width, gram.labels, np.arange(gram.n_tasks)))

    def fit_columns(self, rows: Rows) -> tuple[Columns, Array, tuple[str, ...] | None]:
        """The rules from tables to features, and features and names of the training rows."""
        columns = Columns(rows.schema, single=rows.y.ndim == 1 and self.task is None, offsets=self.offsets)
        if self.features is None:
            columns = ruled(columns, rows, self.categorical)
            if columns.transformer is None:
                return columns, rows.table.features(), rows.table.names
            return columns, columns.features(rows.table), names_out(columns.transformer, rows.table.names)
        if len(self.categorical):
            raise ValueError(
                f"categorical={self.categorical!r} tells the package how to read columns, and features= reads them in "
                "its place: give one of the two"
            )
        transformer = clone(self.features)
        if isinstance(transformer, TableRules):
            columns = replace(columns, transformer=transformer.fit(rows.table.native, rows.y, rows.codes, rows.weight))
            return columns, columns.features(rows.table), names_out(transformer, rows.table.names)
        target = rows.y if rows.y.ndim == 1 else np.nan_to_num(rows.y)
        X = as_features(transformer.fit_transform(rows.table.native, target))
        return replace(columns, transformer=transformer), X, names_out(transformer, rows.table.names)

    def predict(self, X: Any, return_std: bool = False, quantiles: Sequence[float] | None = None) -> Any:
        """Predictions, one per row; for wide targets one column per task.

        Parameters
        ----------
        X : as in `fit`; a lazy frame comes back with a column `prediction`, and still lazy
        return_std : whether to return also the standard deviation of a new observation at every row: mean plus and
            minus 1.64 of them holds about 90 % of the observations, also where few rows leave the noise uncertain. For
            methods that are linear in their targets
        quantiles : numbers between 0 and 1; the result is then these quantiles of a new observation, along a last axis:
            (0.05, 0.95) are the ends of 90 % intervals. They are those of a normal distribution; with family="binomial"
            those of the probability, with the other families those of a new count, between whole numbers, or amount
        """
        if quantiles is not None:
            q = np.asarray(quantiles, dtype=np.float64)
            if q.ndim != 1 or not ((q > 0) & (q < 1)).all():
                raise ValueError(f"quantiles={quantiles!r} must be numbers between 0 and 1, e.g. (0.05, 0.95)")
            return as_model(self).predict_table(X, unseen=self.unseen, quantiles=q)
        if is_lazy(X):
            return predict_frame(as_model(self), X, unseen=self.unseen, return_std=return_std)
        return as_model(self).predict_table(X, unseen=self.unseen, return_std=return_std)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R squared over all rows; for wide targets the mean over tasks, each over its observed rows.

        Of classes, counts and amounts the same share of the deviance, over all rows.
        """
        y = read_table(X).split(y)[1] if isinstance(y, str) else y
        y = np.asarray(y, dtype=np.float64)
        prediction = self.predict(X)
        if not self.target.is_plain:
            return explained_deviance(self.target, y, prediction, sample_weight)
        if y.ndim == 1 or prediction.ndim == 1:
            return float(r2_score(y.ravel(), prediction.ravel(), sample_weight=sample_weight))
        weight = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight)
        by_task = [
            r2_score(y[s, t], prediction[s, t], sample_weight=weight[s])
            for t, s in enumerate(~np.isnan(y).T)
            if s.sum() > 1
        ]
        return float(np.mean(by_task))

    coef_frame = Face("kinfolk.explain", "coef_frame")
    contributions = Face("kinfolk.explain", "contributions")
    get_feature_names_out = Face("kinfolk.explain", "get_feature_names_out")
    report = Face("kinfolk.report", "write_report")
    save = Face("kinfolk.store", "save")
    summary = Face("kinfolk.explain", "summary")
    _account = Face("kinfolk.explain", "account")
    _compact_html = Face("kinfolk.report", "compact_html")
    _fit_lazy = Face("kinfolk.sources.fits", "fit_frame")
    _one_line = Face("kinfolk.methods.ridges", "one_line")

    def _repr_html_(self) -> str:
        """What notebooks show: a fitted model's compact report, else scikit-learn's diagram."""
        return self._compact_html() if "model_" in vars(self) else estimator_html_repr(self)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._repr_html_()}

    def unfitted(self) -> Self:
        """The method with its parameters, and nothing else; progress is for the fit that it was asked for."""
        twin = clone(self).set_params(verbose=0)
        return twin.set_params(callback=None) if hasattr(twin, "callback") else twin

    def __getattr__(self, name: str) -> Any:
        # Called for names that are not parameters or methods: fitted attributes are those of the model.
        model = self.__dict__.get("model_")
        if model is not None and not name.startswith("_") and name in model.attributes:
            return model.attribute(name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __dir__(self) -> list[str]:
        model = self.__dict__.get("model_")
        return [*super().__dir__(), *(model.attributes if model else ())]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = self.task is None
        return tags


@contextmanager
def announced(method: MultiTaskRegressor) -> Iterator[None]:
    """With verbose=1 a fit shows its progress, and at the end prints what the command line prints."""
    if not method.verbose:
        yield
        return
    bar = Bar()
    shows = getattr(method, "callback", bar) is None and bar.can_be_replaced
    if shows:
        method.callback = lambda progress: bar(progress)  # methods are copied with their callback, a stream cannot be
    started = perf_counter()
    try:
        yield
    finally:
        bar.clear()
        if shows:
            method.callback = None
    seconds = perf_counter() - started
    if seconds > LONG:
        sys.stdout.write(f"{rest_of_fit(seconds)}\n")
    lines = method._account(method.name, seconds)
    sys.stdout.write("\n".join(lines) + "\n")


def command_name(class_name: str) -> str:
    """A class name as the command line writes it.

    >>> [command_name(name) for name in ("GAMTLCV", "RBFGAMTL", "MeanShrunk")]
    ['gamtlcv', 'rbf-gamtl', 'mean-shrunk']
    """
    if class_name.isupper():  # an acronym, or two
        return class_name.lower().replace("rbf", "rbf-")
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", class_name).lower()
