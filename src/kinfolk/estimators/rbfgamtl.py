"""RBF-GAMTL: GAMTL on radial basis functions, with the functions chosen on the same folds."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from kinfolk.estimators.gamtlcv import GAMTLCV
from kinfolk.methods.contenders import Candidate, limits
from kinfolk.methods.mean_shrunk import MeanShrunk
from kinfolk.methods.rbf_search import search_features
from kinfolk.progress import Callback
from kinfolk.rows.folds import Folds, check_fold_numbers, fold_of_rows
from kinfolk.rows.gram import Array, GramStats
from kinfolk.rows.tables import Table
from kinfolk.rows.tasks import read_rows
from kinfolk.solvers.ridge import choose_penalty, typical_eigenvalue

MEAN_RIDGE = 1e-4  # wide bumps are nearly collinear: without it their mean has wild errors away from the rows


class RBFGAMTL(GAMTLCV):
    """Nonlinear GAMTL: radial basis functions shared by all tasks, one head per task, and a graph over the heads.

    Inputs are weighed by the slopes of a ridge per task, centres placed by k-means on the rows of all tasks, widths set
    in proportion to the spread around the centres; the exponent of the weights, the number of centres, the width and
    whether linear terms are added are chosen by cross-validation, with heads shrunk to their mean. The heads are then
    those of `GAMTLCV` on the same folds, without random slopes.

    Parameters and attributes are those of `GAMTLCV`; further

    rbf_ : the fitted `RBFFeatures`; rbf_setting_ : what was chosen; rbf_errors_ : the error of every setting tried

    Examples
    --------
    >>> X = np.column_stack([np.repeat([0, 1], 40), np.tile(np.linspace(-3, 3, 40), 2)])
    >>> y = np.sin(X[:, 1]) + X[:, 0]
    >>> bool(RBFGAMTL(task=0).fit(X, y).score(X, y) > 0.99)
    True
    """

    def __init__(
        self,
        task: str | int | None = None,
        *,
        neighbors: tuple[float, ...] = (5,),
        strengths: tuple[float, ...] = (0.1, 1.0, 10.0),
        ridges: tuple[float, ...] = (0.1, 1.0),
        anchors: tuple[float, ...] = (0.0, 0.9),
        metrics: tuple[str, ...] = ("identity",),
        intercept: str = "free",
        cv: Any = 5,
        guard: float = 2.0,
        features: Any = None,
        unseen: str = "error",
        n_jobs: int | None = None,
        random_state: Any = 0,
        callback: Callback | None = None,
    ) -> None:
        super().__init__(
            task,
            neighbors=neighbors,
            strengths=strengths,
            ridges=ridges,
            anchors=anchors,
            metrics=metrics,
            intercept=intercept,
            cv=cv,
            guard=guard,
            features=features,
            unseen=unseen,
            n_jobs=n_jobs,
            random_state=random_state,
            callback=callback,
        )

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Choose the basis functions, then fit all heads; see `GAMTLCV.fit`."""
        rows = read_rows(X, y, task=self.task, sample_weight=sample_weight)
        inputs, names = self._fit_features(rows)
        gram = rows.gram(inputs, names)
        fold = fold_of_rows(
            rows, inputs, gram, cv=self._cv(gram, groups), groups=groups, random_state=self.random_state
        )
        at = rows.targets()
        check_fold_numbers(fold[at.row])
        found = search_features(
            inputs[at.row],
            at.y,
            at.codes,
            rows.schema.labels,
            fold[at.row],
            weight=at.weight,
            error=head_error,
            random_state=self.random_state,
        )
        self.rbf_, self.rbf_setting_, self.rbf_errors_ = found.features, found.best, found.errors
        self._set_schema(rows.schema, single=rows.y.ndim == 1 and self.task is None)
        self._fit_statistics(found.folds.total, found.folds)
        return self

    def _transform(self, table: Table) -> Array:
        return self.rbf_.transform(super()._transform(table))

    def _scale(self, gram: GramStats) -> Array:
        return np.ones(gram.n_features)

    def _limits(self, folds: Folds) -> list[Candidate]:
        return limits(folds, mean_ridge=MEAN_RIDGE, slopes=False)


def head_error(folds: Folds) -> float:
    """Least held-out error of heads shrunk to their mean, over penalties."""
    head = MeanShrunk(ridge=MEAN_RIDGE * typical_eigenvalue(folds.total))
    return float(choose_penalty(head._prepare, folds, "tasks").errors.min())
