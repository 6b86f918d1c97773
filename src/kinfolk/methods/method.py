"""What every estimator of the package shares: fit = check -> features -> statistics -> `_fit_gram` -> coefficients."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import r2_score
from sklearn.utils import estimator_html_repr
from sklearn.utils.validation import check_is_fitted

from kinfolk.methods.smoother import Smoother
from kinfolk.methods.uncertainty import HeldOut, Uncertainty, uncertainty
from kinfolk.rows.folds import Folds, fill_unseen, folds_of_rows
from kinfolk.rows.gram import Array, GramStats
from kinfolk.rows.tables import Table
from kinfolk.rows.tasks import Rows, Schema, check_rows_per_task, read_for_predict, read_rows, task_codes
from kinfolk.threads import limited_threads

PREDICT_BLOCK = 65_536  # rows whose coefficients are gathered at a time
LOST = 1e-12  # of the largest variance: below, eigenvectors of a Gram matrix mix what is left with rounding


@dataclass(frozen=True, eq=False)
class Fit:
    """What a method returns from `_fit_gram`.

    Attributes
    ----------
    coef : array of shape (T, d)
    structure : TaskGraph, TaskCovariance, TaskPrecision, TaskTree or None
    intercept : array of shape (T,), or None for own intercepts: mean of y minus mean of x times coef
    attributes : further fitted attributes by name
    population : slopes (d,) and intercept for tasks without rows, or None for the mean over tasks
    """

    coef: Array
    structure: Any = None
    intercept: Array | None = None
    attributes: dict[str, Any] = field(default_factory=dict)
    population: tuple[Array, float] | None = None


class MultiTaskRegressor(RegressorMixin, BaseEstimator):
    """Base of all methods; a method is a constructor and `_fit_gram(gram) -> Fit`.

    A method that cross-validates inside fit also says so in `_wants_folds()`, and then gets `_fit_folds(folds) -> Fit`
    in place of `_fit_gram`; its parameters `cv` and `random_state` make the folds.
    Subclasses have the parameters `task`, `features` and `unseen`, or inherit the defaults below.
    """

    task: str | int | None = None
    features: Any = None
    unseen: str = "error"
    cv: Any = 5
    random_state: Any = None
    features_: Any
    needs_two_rows = True  # own intercepts leave nothing of a one-row task

    def _fit_gram(self, gram: GramStats) -> Fit:
        raise NotImplementedError

    def _wants_folds(self) -> bool:
        return False

    def _cv(self, gram: GramStats, groups: Any) -> Any:
        """Folds for rows with these statistics: a number, or pairs of row positions."""
        return self.cv

    def _fit_folds(self, folds: Folds) -> Fit:
        raise NotImplementedError

    def _smoothers(self) -> list[Smoother]:
        """The fitted model as linear maps of the targets, with their shares."""
        raise ValueError(
            f"{type(self).__name__} is not a linear function of the targets: use GAMTL, GAMTLCV, RBFGAMTL, "
            "Independent, Pooled, MeanShrunk or RandomSlopes"
        )

    def _seen(self) -> GramStats:
        """Statistics of the tasks that had rows."""
        check_is_fitted(self, "coef_")
        seen = self.gram_.n > 0
        return self.gram_ if seen.all() else self.gram_.select(seen)

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Fit all tasks jointly.

        Parameters
        ----------
        X : table with the task column `task`; or the shared inputs, if `y` has one column per task
        y : one target per row; or (n, T) with NaN where a target is not observed
        sample_weight : one weight per row
        groups : one label per row (sitting, day); cross-validation keeps whole groups on one side, and methods that do
            not cross-validate ignore it. `features` is fitted once, on all rows: if it learns from y, use
            `kinfolk.tuning.tune`, which fits it anew in every fold
        """
        rows = read_rows(X, y, task=self.task, sample_weight=sample_weight)
        features, names = self._fit_features(rows)
        gram = rows.gram(features, names)
        if self.needs_two_rows:
            check_rows_per_task(gram)
        folds = None
        if self._wants_folds():
            folds = folds_of_rows(
                rows, features, gram, cv=self._cv(gram, groups), groups=groups, random_state=self.random_state
            )
        self._set_schema(rows.schema, single=rows.y.ndim == 1 and self.task is None)
        self._fit_statistics(gram, folds)
        return self

    def fit_gram(self, gram: GramStats) -> Self:
        """Fit from statistics alone: of files, streams or clusters. `features` does not apply."""
        if self._wants_folds():
            raise ValueError(
                f"{type(self).__name__} cross-validates, and one block of statistics cannot be cut into folds: "
                "use fit(X, y) or fit_folds(folds), or give its parameters as numbers"
            )
        return self._fit_without_rows(gram, None)

    def fit_folds(self, folds: Folds) -> Self:
        """Fit from the statistics of folds alone; as `fit_gram` for methods that do not cross-validate."""
        return self._fit_without_rows(folds.total, folds if self._wants_folds() else None)

    def _fit_without_rows(self, gram: GramStats, folds: Folds | None) -> Self:
        names = gram.feature_names
        if self.task is not None and names is not None:
            names = (str(self.task), *names)
        width = gram.n_features + (self.task is not None)
        task = self.task if names is not None or self.task is None else 0
        columns = np.arange(gram.n_tasks)
        schema = Schema(task, names, width, gram.labels, columns)
        self.features_ = None
        self._set_schema(schema, single=False)
        self._fit_statistics(gram, folds)
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predictions, one per row; for wide targets one column per task.

        Parameters
        ----------
        X : as in `fit`
        return_std : whether to return also the standard deviation of a new observation at every row: mean plus and
            minus 1.64 of them holds about 90 % of the observations. For methods that are linear in their targets
        """
        check_is_fitted(self, "coef_")
        table, labels = read_for_predict(X, self._schema, type(self).__name__)
        features = self._transform(table)
        if labels is None:
            wide = features @ self.coef_.T + self.intercept_
            columns: Any = 0 if self._single else self._schema.columns
            return (wide[:, columns], self._wide_std(features)[:, columns]) if return_std else wide[:, columns]
        codes = task_codes(labels, self.tasks_, self.unseen)
        prediction = self._predict_rows(features, codes)
        return (prediction, self._std(features, codes)) if return_std else prediction

    def contributions(self, tasks: Any = None) -> Any:
        """Where coefficients and predictions came from, task by task: `kinfolk.explain.contributions`."""
        from kinfolk.explain import contributions

        return contributions(self, tasks)

    def report(self, X: Any, y: Any, path: Any, **options: Any) -> Any:
        """Write one self-contained HTML page that a domain expert can read: `kinfolk.report.write_report`."""
        from kinfolk.report import write_report

        return write_report(self, X, y, path, **options)

    def save(self, path: Any) -> Any:
        """Write the fitted model to one file, for `kinfolk.load`: `kinfolk.store.save`."""
        from kinfolk.store import save

        return save(self, path)

    def _repr_html_(self) -> str:
        """What notebooks show: a fitted model's compact report, else scikit-learn's diagram."""
        if not hasattr(self, "coef_"):
            return estimator_html_repr(self)
        from kinfolk.report import compact_html

        return compact_html(self)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._repr_html_()}

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R squared over all rows; for wide targets the mean over tasks, each over its observed rows."""
        y = np.asarray(y, dtype=np.float64)
        prediction = self.predict(X)
        if y.ndim == 1 or prediction.ndim == 1:
            return float(r2_score(y.ravel(), prediction.ravel(), sample_weight=sample_weight))
        seen = ~np.isnan(y)
        weight = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight)
        by_task = [
            r2_score(y[s, t], prediction[s, t], sample_weight=weight[s]) for t, s in enumerate(seen.T) if s.sum() > 1
        ]
        return float(np.mean(by_task))

    def _fit_features(self, rows: Rows) -> tuple[Array, tuple[str, ...] | None]:
        """Features of the training rows and their names, fitting the transformer if there is one."""
        self.features_ = None
        if self.features is None:
            return rows.table.features(), rows.table.names
        self.features_ = clone(self.features)
        target = rows.y if rows.y.ndim == 1 else np.nan_to_num(rows.y)
        X = _dense(self.features_.fit_transform(rows.table.native, target))
        return X, _names_out(self.features_, rows.table)

    def _transform(self, table: Table) -> Array:
        if self.features_ is None:
            return table.features()
        return _dense(self.features_.transform(table.native))

    def _set_schema(self, schema: Schema, *, single: bool) -> None:
        self._schema, self._single = schema, single
        self.n_features_in_ = schema.width
        if schema.names is not None:
            self.feature_names_in_ = np.asarray(schema.names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _fit_statistics(self, gram: GramStats, folds: Folds | None) -> None:
        """Fit the tasks that have rows; the others get the population model."""
        self.tasks_, self.gram_ = gram.labels, gram
        seen = gram.n > 0
        if not seen.any():
            raise ValueError("no task has a row with positive weight")
        with limited_threads(*gram.b.shape):
            if folds is None:
                fit = self._fit_gram(gram if seen.all() else gram.select(seen))
            else:
                fit = self._fit_folds(folds if seen.all() else folds.select(seen))
        W, c = fit.coef, fit.intercept
        if c is None:
            c = gram.y_mean[seen] - np.einsum("td,td->t", gram.x_mean[seen], W)
        population: tuple[Array, float] = fit.population or (W.mean(axis=0), float(c.mean()))
        self.population_coef_, self.population_intercept_ = population
        self.coef_, self.intercept_ = fill_unseen(W, c, seen, *population)
        self.structure_ = fit.structure
        if fit.structure is not None and not seen.all():
            self.structure_ = fit.structure.expanded(gram.labels)
        for name, value in fit.attributes.items():
            setattr(self, name, value)

    def _predict_rows(self, X: Array, codes: NDArray[np.intp]) -> Array:
        # The last row of each is the population model, where the code -1 of unseen tasks points.
        W = np.vstack([self.coef_, self.population_coef_])
        c = np.append(self.intercept_, self.population_intercept_)
        prediction = c[codes]
        for start in range(0, len(X), PREDICT_BLOCK):
            block = slice(start, start + PREDICT_BLOCK)
            prediction[block] += np.einsum("nd,nd->n", X[block], W[codes[block]])
        return prediction

    def _held_out(self) -> HeldOut | None:
        """Cross-validated errors of the tasks that had rows, for methods that have them."""
        return None

    def _uncertainty(self) -> Uncertainty:
        seen = self.gram_.n > 0
        return uncertainty(self._smoothers(), self._seen(), self.coef_[seen], self.intercept_[seen], self._held_out())

    def _std(self, X: Array, codes: NDArray[np.intp]) -> Array:
        """Standard deviations; a task without rows may be like any of those with rows."""
        known, seen = self._uncertainty(), self.gram_.n > 0
        among_seen = np.append(np.where(seen, np.cumsum(seen) - 1, -1), -1)[codes]
        old = among_seen >= 0
        std = np.empty(len(X))
        std[old] = known.std(X[old], among_seen[old])
        if not old.all():
            level = self.intercept_[seen, None] + self.coef_[seen] @ X[~old].T
            std[~old] = np.sqrt(level.var(axis=0) + known.noise.mean())
        return std

    def _wide_std(self, X: Array) -> Array:
        T = len(self.tasks_)
        return self._std(np.repeat(X, T, axis=0), np.tile(np.arange(T), len(X))).reshape(len(X), T)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = self.task is None
        return tags


def warn_of_constant_features(gram: GramStats) -> None:
    """Columns that never vary within a task (age of a patient) are an intercept, not a feature."""
    constant = _constant(gram)
    if not constant.any() or constant.all():
        return
    warnings.warn(
        f"feature {_some_names(gram, constant)} is constant within every task: next to a "
        'free intercept it carries nothing and gets the coefficient 0. Drop it, or use intercept="coupled".',
        UserWarning,
        stacklevel=5,
    )


def warn_of_lost_features(gram: GramStats) -> None:
    """Columns so much smaller than others that their part of the Gram matrices is below its rounding."""
    spread = np.diagonal(gram.G, axis1=1, axis2=2).sum(axis=0)
    lost = (spread < LOST * spread.max()) & ~_constant(gram)
    if lost.any():
        warnings.warn(
            f"feature {_some_names(gram, lost)} varies a million times less than others: its coefficients are lost in "
            "rounding. Scale the features (features=StandardScaler()).",
            ConvergenceWarning,
            stacklevel=6,
        )


def _constant(gram: GramStats) -> NDArray[np.bool_]:
    """Which features do not vary within any task, but for rounding."""
    spread = np.diagonal(gram.G, axis1=1, axis2=2).max(axis=0)
    level = np.abs(gram.x_mean).max(axis=0)
    return np.asarray(spread <= 1e-20 * np.maximum(level, 1e-150) ** 2)


def _some_names(gram: GramStats, which: NDArray[np.bool_]) -> str:
    names = [repr(gram.feature_names[j]) if gram.feature_names else str(j) for j in np.flatnonzero(which)]
    return f"{', '.join(names[:5])}{', ...' if len(names) > 5 else ''}"


def _dense(X: Any) -> Array:
    X = X.toarray() if hasattr(X, "toarray") else X
    X = np.asarray(X, dtype=np.float64)
    if not np.isfinite(X).all():
        raise ValueError("the `features` transformer returned NaN or infinite values: impute them before or inside it")
    return X


def _names_out(transformer: Any, table: Table) -> tuple[str, ...] | None:
    try:
        given = None if table.names is None else np.asarray(table.names, dtype=object)
        return tuple(transformer.get_feature_names_out(given))
    except (AttributeError, ValueError, TypeError):
        return None
