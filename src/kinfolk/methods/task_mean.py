"""The mean target of every task: what any use of the inputs has to beat."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from kinfolk.methods.couplings import Alone
from kinfolk.methods.method import MultiTaskRegressor
from kinfolk.methods.model import Course, Model, Part
from kinfolk.methods.parameters import parameters
from kinfolk.methods.parts import LastRows
from kinfolk.rows.folds import Folds
from kinfolk.rows.gram import Array, GramStats
from kinfolk.solvers.equations import normal_equations


@parameters
class TaskMean(MultiTaskRegressor):
    """Predicts every task by the mean of its training targets, whatever the inputs.

    Parameters
    ----------
    features : a transformer for the non-task columns, which do not matter here

    Attributes
    ----------
    coef_, intercept_ : zeros (T, d), and the means (T,); tasks_ : their labels

    Examples
    --------
    >>> X = np.array([["a", 1.0], ["a", 2.0], ["b", 3.0]], dtype=object)
    >>> TaskMean(task=0).fit(X, [0.0, 4.0, 5.0]).intercept_
    array([2., 5.])
    """

    shares: ClassVar[str] = "nothing shared, no features"
    alone: ClassVar[bool] = True
    simplicity: ClassVar[int] = 0

    def needs_two_rows(self) -> bool:
        """One row has a mean."""
        return False

    def leaves_out_common(self, gram: GramStats) -> bool:
        """What features of whole tasks say of levels is all that is known of unseen tasks."""
        return True

    def learn(self, gram: GramStats) -> Model:
        """No slopes, and the means as intercepts."""
        W = np.zeros_like(gram.b)
        part = Part.of(self.name, Alone(np.inf), normal_equations(gram, "free"), W, "free")
        return Model.of(gram, W, gram.y_mean.copy(), parts=(part,), course=Course({"residual": 0.0}))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # a mean explains nothing by the inputs, as in DummyRegressor
        return tags


@dataclass(frozen=True, eq=False)
class LastMean:
    """The mean of the `last` rows of every task: what has no trend goes on as it ended."""

    last: GramStats

    def learn(self, gram: GramStats) -> Model:
        """No slopes, and the means of the last rows as intercepts."""
        rows = self.last.reindex(gram.labels)
        model = TaskMean().learn(replace(gram, y_mean=rows.y_mean))
        last = LastRows(rows.n, rows.x_mean - gram.x_mean, rows.y_mean - gram.y_mean)
        return replace(model, gram=gram, parts=(replace(model.parts[0], last=last),))

    def about(self, origin: Array) -> LastMean:
        """The same for features from which `origin` is taken away."""
        return LastMean(replace(self.last, x_mean=self.last.x_mean - origin))

    def model_of(self, gram: GramStats, folds: Folds | None = None) -> Model:
        """The model of all tasks of `gram`."""
        return self.learn(gram.with_rows()).among(gram)
