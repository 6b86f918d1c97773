"""RBF-GAMTL: GAMTL on radial basis functions, with the functions chosen on the same folds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np

from kinfolk.estimators.gamtlcv import GAMTLCV
from kinfolk.methods.mean_shrunk import MeanShrunk
from kinfolk.methods.mixture import Member, limits
from kinfolk.methods.parameters import choice, parameters
from kinfolk.methods.rbf_search import search_features
from kinfolk.rows.folds import Folds, check_fold_numbers, fold_of_rows
from kinfolk.rows.gram import Array, GramStats
from kinfolk.rows.tasks import Rows
from kinfolk.solvers.ridge import choose_penalty, typical_eigenvalue

MEAN_RIDGE = 1e-4  # wide bumps are nearly collinear: without it their mean has wild errors away from the rows


@parameters
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

    shares: ClassVar[str] = "graph, nonlinear"
    simplicity: ClassVar[int] = 130

    anchors: tuple[float, ...] = (0.0, 0.9)
    metrics: tuple[str, ...] = ("identity",)
    intercept: str = choice("free", "auto", "shrunk")

    def fit_rows(self, rows: Rows, groups: Any = None) -> Self:
        """Choose the basis functions, then fit all heads."""
        columns, inputs, names = self.fit_columns(rows)
        gram = rows.gram(inputs, names)
        cv = self.folds_for(gram, groups)
        fold = fold_of_rows(rows, inputs, gram, cv=cv, groups=groups, random_state=self.random_state)
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
        model = self.model_of(found.folds.total, found.folds)
        chosen = {"rbf_": found.features, "rbf_setting_": found.best, "rbf_errors_": found.errors}
        columns = replace(columns, basis=found.features)
        return self.keep(replace(model, details=model.details | chosen), columns)

    def _scale(self, gram: GramStats) -> Array:
        return np.ones(gram.n_features)

    def _limits(self, folds: Folds) -> list[Member]:
        return limits(folds, mean_ridge=MEAN_RIDGE, slopes=False)


def head_error(folds: Folds) -> float:
    """Least held-out error of heads shrunk to their mean, over penalties."""
    head = MeanShrunk(ridge=MEAN_RIDGE * typical_eigenvalue(folds.total))
    return float(choose_penalty(head.prepare, folds, "tasks").errors.min())
