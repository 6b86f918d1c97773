"""Classification of many tasks: labels in, probabilities out, with the graph of GAMTL over the tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit, softmax
from sklearn.base import ClassifierMixin
from sklearn.exceptions import DataConversionWarning

from kinfolk.estimators.gamtl import GAMTL
from kinfolk.estimators.gamtlcv import GAMTLCV
from kinfolk.methods.method import MultiTaskRegressor
from kinfolk.methods.model import Model, as_model
from kinfolk.methods.outer import fit_classes
from kinfolk.methods.parameters import choice, parameters
from kinfolk.rows.classes import class_weights, classes_of, numbers_of
from kinfolk.rows.folds import Folds
from kinfolk.rows.gram import Array
from kinfolk.rows.softmax import SoftmaxRows
from kinfolk.rows.table import Rows, read_table, task_codes
from kinfolk.rows.working import WorkingRows
from kinfolk.solvers.mixed.components import FEWEST
from kinfolk.sources.frames import is_lazy
from kinfolk.words import warn_user


@parameters
class MultiTaskClassifier(ClassifierMixin, MultiTaskRegressor):
    """The face of a method whose targets are labels: `class X(MultiTaskClassifier, Method)` classifies.

    Two classes are a logistic regression per task, several classes a softmax with one set of coefficients per class,
    fitted jointly; the method ties the coefficients of all classes along one graph, unless it fits each class versus
    the rest (`one_versus_rest`), which then has a graph of its own. `decision_function` is the plain
    linear predictor; `predict_proba` averages over the uncertainty of the coefficients, so that it is nearer to even
    for tasks of few rows and for unseen ones.

    Parameters
    ----------
    class_weight : None; "balanced", rows count so that all classes weigh alike; or a dict of weights by class
    """

    classifies: ClassVar[bool] = True
    one_versus_rest: ClassVar[bool] = False

    class_weight: Any = None
    family: str = choice("binomial")

    def read(self, X: Any, y: Any, sample_weight: Any = None, **targets: Any) -> Rows:
        """Checked rows, with the classes and their numbers as targets."""
        if y is None:
            raise ValueError("fit requires y to be passed, but the target y is None: pass one label per row")
        table = read_table(X)
        if isinstance(y, str):
            table, y = table.split(y)
        classes, codes, names = classes_of(y)
        if names is None and codes.ndim == 2 and codes.shape[1] == 1:
            warn_user("A column-vector y was passed when a 1d array was expected", DataConversionWarning)
            codes = codes.ravel()
        if len(classes) == 1:
            warn_user(f"all labels are {classes.tolist()[0]!r}: there is one class, which is always predicted")
            codes = codes + 1.0
        return replace(super().read(table, codes, sample_weight, y_names=names), classes=classes)

    def as_targets(self, y: Any) -> Array:
        """The numbers of the classes of new rows."""
        known = as_model(self).classes
        assert known is not None
        return numbers_of(y, known)

    def working_rows(self, rows: Rows, X: Array, names: tuple[str, ...] | None) -> WorkingRows:
        """The observed labels one by one; of several classes, as shares of 0 and 1."""
        assert rows.classes is not None
        K = len(rows.classes)
        if K > 2 and (self.common or not isinstance(self.facts, str | None)):
            raise ValueError(f"{K} classes take no facts= and common= yet: leave them out, or fit two classes")
        if K > 2 and not self.one_versus_rest:
            self._check_levels(rows, K)
        number = rows.targets().y
        # Of several classes the first pass only takes the rows.
        working = super().working_rows(replace(rows, y=np.minimum(rows.y, 1.0)) if K > 2 else rows, X, names)
        if K > 1:
            each = class_weights(self.class_weight, rows.classes, np.bincount(number.astype(np.intp), minlength=K))
            working = replace(working, weight=working.weight * each[number.astype(np.intp)])
        return SoftmaxRows.of_codes(replace(working, y=number), K) if K > 2 else working

    def _check_levels(self, rows: Rows, K: int) -> None:
        """Refuse what several classes with coefficients of their own do not have."""
        intercept = getattr(self, "intercept", "free")
        if intercept != "free":
            raise ValueError(
                f"{K} classes have levels of their own in every task, not intercept={intercept!r}: use "
                'intercept="free", GAMTLClassifierCV, or fit two classes'
            )
        if np.bincount(rows.targets().codes).max() < 2:
            raise ValueError(
                f"every task has a single row, which its own levels of {K} classes take, so that nothing is left for "
                "slopes: fit without the task column, which gives one model for all rows, or use GAMTLClassifierCV"
            )

    def learn_rows(self, rows: WorkingRows, folds: Folds | None = None) -> Model:
        """The model of two classes, or of several."""
        if isinstance(rows, SoftmaxRows):
            return fit_classes(self, rows, folds)
        return super().learn_rows(rows, folds)

    def decision_function(self, X: Any) -> Array:
        """The linear predictor of the second class; of several classes that of each, along a last axis."""
        model = as_model(self)
        eta = [self._predictors(one, X)[0] for one in model.by_class or (model,)]
        return eta[0] if len(eta) == 1 else np.stack(eta, axis=-1)

    def predict_proba(self, X: Any) -> Any:
        """Probabilities of the classes, along a last axis, averaged over the uncertainty of the coefficients.

        A normal distribution of the linear predictor is averaged over by MacKay's formula: the predictor is divided by
        sqrt(1 + pi s^2 / 8), for its standard deviation s. One or two tasks do not tell how tasks differ, and files
        saved with private=True not how sure coefficients are: theirs are the probabilities of `decision_function`. For
        wide targets the result is a list of arrays, one per task.
        """
        model = as_model(self)
        with_std = not model.private and model.gram is not None and model.seen.sum() >= FEWEST
        drawn = []
        for one in model.by_class or (model,):
            eta, std = self._predictors(one, X, with_std=with_std)
            drawn.append(eta / np.sqrt(1 + np.pi / 8 * std**2))
        assert model.classes is not None
        if self.one_versus_rest:  # shares of probabilities that do not know of each other
            drawn = [log_expit(eta) for eta in drawn] if model.by_class else drawn
        if len(model.classes) == 1:
            found = np.ones((*drawn[0].shape, 1))
        elif model.by_class:
            found = softmax(np.stack(drawn, axis=-1), axis=-1)
        else:
            found = np.stack([expit(-drawn[0]), expit(drawn[0])], axis=-1)
        return found if found.ndim == 2 else list(found.transpose(1, 0, 2))

    def predict(self, X: Any, return_std: bool = False, quantiles: Sequence[float] | None = None) -> Any:
        """The likeliest class of every row; for wide targets one column per task."""
        if return_std or quantiles is not None:
            raise ValueError("classes have no standard deviations or quantiles: use predict_proba")
        model = as_model(self)
        assert model.classes is not None
        eta = self.decision_function(X)
        if len(model.classes) == 1:
            return np.full(eta.shape, model.classes[0])
        return model.classes[np.argmax(eta, axis=-1) if model.by_class else (eta > 0).astype(np.intp)]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy, over all rows with a label."""
        y = read_table(X).split(y)[1] if isinstance(y, str) else y
        classes, codes, _ = classes_of(y)
        seen = ~np.isnan(codes)
        predicted = self.predict(X).reshape(codes.shape)
        right = predicted[seen] == classes[codes[seen].astype(np.intp)]
        weight = np.ones(len(codes)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        weight = np.broadcast_to(weight.reshape(-1, *[1] * (codes.ndim - 1)), codes.shape)
        return float(np.average(right, weights=weight[seen]))

    def _predictors(self, model: Model, X: Any, *, with_std: bool = False) -> tuple[Array, Any]:
        """Linear predictors of a table, and their standard deviations or zeros."""
        if is_lazy(X):
            raise ValueError(f"{type(self).__name__} predicts rows in memory: collect the lazy frame first")
        # Versus the rest every class has curves and codes of texts of its own.
        columns = model.columns or as_model(self).columns
        assert columns is not None
        rows = columns.read(X, type(self).__name__)
        if rows.labels is not None:
            codes = task_codes(rows.labels, model.labels, self.unseen)
            found = model.predictor_read(rows, codes, return_std=with_std)
            return found if with_std else (found, 0.0)
        n = len(rows.features)
        T = len(model.labels)
        by_task = [model.predictor_read(rows, np.full(n, t), return_std=with_std) for t in range(T)]
        eta = np.stack([one[0] if with_std else one for one in by_task], axis=1)
        std = np.stack([one[1] for one in by_task], axis=1) if with_std else np.zeros_like(eta)
        places: Any = 0 if columns.single else columns.schema.columns
        return eta[:, places], std[:, places]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags = None
        # Of wide targets the tools of scikit-learn expect another form than one task of several classes has.
        tags.target_tags.multi_output = False
        return tags


@parameters
class GAMTLClassifier(MultiTaskClassifier, GAMTL):
    """Graph adjacency multi-task classification: GAMTL for labels, with the graph of tasks that are kin.

    Minimises the joint objective of `GAMTL` with twice the negative log-likelihood in place of squared errors: that of
    a logistic regression per task, or, for several classes, of a softmax with one set of coefficients per class and
    one graph for all of them.

    `decision_function` is the plain linear predictor, `predict` the likeliest class by it, and `predict_proba` averages
    over the uncertainty of the coefficients: nearer to even for tasks of few rows and for unseen ones.

    Parameters
    ----------
    class_weight : None; "balanced", rows count so that all classes weigh alike; or a dict of weights by class
    family : "binomial", which is also that of several classes

    Attributes
    ----------
    classes_ : the labels, sorted
    coef_, intercept_ : arrays of shape (T, d) and (T,), of the logarithm of the odds of the second class; for K classes
        (K, T, d) and (K, T). All other attributes are those of `GAMTL`

    Examples
    --------
    >>> X = np.column_stack([np.repeat([0, 1], 20), np.tile(np.linspace(-2, 2, 20), 2)])
    >>> y = np.where(X[:, 1] + np.tile([0.9, -0.9], 20) > 0, "high", "low")
    >>> GAMTLClassifier(task=0).fit(X, y).predict([[0, 1.5], [1, -1.5]])
    array(['high', 'low'], dtype='<U4')
    """

    shares: ClassVar[str] = "graph"


@parameters
class GAMTLClassifierCV(MultiTaskClassifier, GAMTLCV):
    """GAMTLCV for labels: everything chosen by cross-validated log-loss, and a guard for what does not help.

    Two classes are fitted as `GAMTLCV(family="binomial")` fits them: lines, curves, the graph and boosted trees, each
    as far as it lowers the log-loss of held-out rows. Of several classes each is fitted like this versus the rest, with
    what helps it, and probabilities are divided by their sum.

    Parameters
    ----------
    class_weight : None; "balanced", rows count so that all classes weigh alike; or a dict of weights by class
    family : "binomial", which is also that of several classes

    Attributes
    ----------
    classes_ : the labels, sorted
    coef_, intercept_ : of the logarithm of the odds of the second class; for K classes (K, T, d) and (K, T), of each
        versus the rest. All other attributes are those of `GAMTLCV`, for K classes those of the first

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = np.column_stack([np.repeat(np.arange(4), 30), rng.normal(size=120)])
    >>> y = np.where(X[:, 1] + rng.normal(size=120) > 0, "high", "low")
    >>> GAMTLClassifierCV(task=0, trunk=None).fit(X, y).predict([[0, 1.5], [1, -1.5]])
    array(['high', 'low'], dtype='<U4')
    """

    shares: ClassVar[str] = "graph, tuned and guarded"
    one_versus_rest: ClassVar[bool] = True

    def fit_rows(self, rows: Rows, groups: Any = None, *, streams: bool = False) -> Self:
        """Fit two classes, or each of several versus the rest."""
        classes = rows.classes
        assert classes is not None
        K = len(classes)
        seen = ~np.isnan(rows.y)
        if self.class_weight is not None:
            rows = replace(rows, weight=self._weights(rows, seen))
        if K <= 2:
            super().fit_rows(rows, groups, streams=streams)
            self.model_ = replace(self.model_, classes=classes)
            return self
        models = []
        for k, label in enumerate(classes.tolist()):
            both = np.array([f"not {label}", str(label)])
            one = replace(rows, y=np.where(seen, rows.y == k, np.nan), classes=both)
            models.append(super().fit_rows(one, groups, streams=streams).model_)
        self.model_ = replace(models[0], classes=classes, by_class=tuple(models))
        return self

    def _weights(self, rows: Rows, seen: NDArray[np.bool_]) -> Array:
        """Weights of the rows, those of their classes included."""
        assert rows.classes is not None
        if rows.y.ndim > 1:
            raise ValueError("class_weight= is for long tables, with a task column: of wide targets a row has several")
        number = np.where(seen, rows.y, 0.0).astype(np.intp)
        K = len(rows.classes)
        each = class_weights(self.class_weight, rows.classes, np.bincount(number[seen], minlength=K))
        return each[number] if rows.weight is None else each[number] * rows.weight
