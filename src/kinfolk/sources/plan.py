"""The `features` of a model for rows that stream by: what can be fitted from statistics, and what must come fitted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags

from kinfolk.methods.method import MultiTaskRegressor
from kinfolk.methods.trunk import is_regressor
from kinfolk.rows.columns import TableRules
from kinfolk.rows.folds import Folds
from kinfolk.rows.gram import Array, GramStats
from kinfolk.rows.schema import names_out
from kinfolk.sources.roles import Roles


@dataclass(frozen=True, eq=False)
class FeaturePlan:
    """How to get from columns to features.

    Attributes
    ----------
    fitted : a fitted transformer of blocks of rows, or None to take the columns
    names : of the features, if they are not those of the columns and if they have any
    scaler : a StandardScaler to be fitted from the statistics of the columns, or None
    basis : functions of the features that take their place, fitted too, or None
    """

    fitted: Any = None
    names: tuple[str, ...] | None = None
    scaler: StandardScaler | None = None
    basis: Any = None

    @property
    def takes_columns(self) -> bool:
        """Whether the features are the columns as they are, which must be numbers then."""
        return self.fitted is None and self.basis is None

    def transform(self, rows: Any) -> Array:
        """The features of a block of rows."""
        X = rows if self.fitted is None else self.fitted.transform(rows)
        X = np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)
        return X if self.basis is None else np.asarray(self.basis.transform(X))

    def numbers(self, roles: Roles) -> list[str]:
        """The columns that must hold numbers."""
        return [roles.target, *(roles.features if self.takes_columns else ())]

    def feature_names(self, roles: Roles) -> tuple[str, ...] | None:
        """Names of the features."""
        return roles.features if self.takes_columns else self.names


PLAIN = FeaturePlan()


def plan_features(model: MultiTaskRegressor, columns: tuple[str, ...]) -> FeaturePlan:
    """What to do with the `features` of a model, or an error that says what can be done."""
    check_statistics_suffice(model)
    features = model.features
    if features is None:
        return PLAIN
    if type(features) is StandardScaler:
        return FeaturePlan(scaler=clone(features))
    if isinstance(features, FrozenEstimator) or not get_tags(features).requires_fit:
        fitted = clone(features)
        return FeaturePlan(fitted, names_out(fitted, columns))
    raise ValueError(
        f"features={features!r} has to be fitted on rows, and these stream by only once. Fit it on a sample and freeze "
        "it: features=sklearn.frozen.FrozenEstimator(transformer.fit(sample)). StandardScaler() works as it is."
    )


def plan_of_rules(rules: TableRules) -> FeaturePlan:
    """What rules that have been fitted make of the columns."""
    return FeaturePlan(rules, tuple(rules.get_feature_names_out()))


def check_statistics_suffice(model: MultiTaskRegressor) -> None:
    """Refuse a model that needs the rows themselves, with what can be done."""
    if is_regressor(getattr(model, "trunk", None)):
        raise ValueError(
            "the regressor given as trunk is fitted to rows, not to statistics: fit(X, y) on a sample, or use "
            'trunk="auto" or trunk=None'
        )
    if model.needs_rows():
        raise ValueError(
            f"{type(model).__name__} goes over its rows many times, so it cannot be fitted out of memory. Place the "
            "basis functions on a sample: GAMTLCV(features=FrozenEstimator(RBFFeatures().fit(sample)))"
        )


def standardised(
    gram: GramStats, folds: Folds | None, scaler: StandardScaler
) -> tuple[GramStats, Folds | None, StandardScaler]:
    """The statistics of standardised columns, and the scaler as if it had seen all rows.

    Examples
    --------
    >>> gram = GramStats.from_rows([[1.0], [3.0], [5.0], [7.0]], [0.0, 0.0, 0.0, 0.0], ["a", "a", "b", "b"])
    >>> gram, _, scaler = standardised(gram, None, StandardScaler())
    >>> scaler.mean_, scaler.var_, float(gram.x_mean.sum()), gram.G.sum().round(12)
    (array([4.]), array([5.]), 0.0, np.float64(0.8))
    """
    seen = gram.with_rows()
    deviation = np.sqrt(np.einsum("tjj->tj", seen.G) / seen.n[:, None])
    # Two rows per task, a deviation above its mean and one below, have the mean and variance of all rows.
    scaler.fit(np.vstack([seen.x_mean + deviation, seen.x_mean - deviation]), sample_weight=np.tile(seen.n / 2, 2))
    scaler.n_samples_seen_ = int(gram.n.sum())
    scaler.feature_names_in_ = np.asarray(gram.feature_names, dtype=object)
    shift = scaler.mean_ if scaler.with_mean else np.zeros(gram.n_features)
    scale = scaler.scale_ if scaler.with_std else np.ones(gram.n_features)

    def moved(part: GramStats) -> GramStats:
        span = None if part.span is None else part.span - shift
        return replace(part, x_mean=np.where(part.n[:, None] > 0, part.x_mean - shift, 0.0), span=span).rescaled(scale)

    if folds is None:
        return moved(gram), None, scaler
    own = None if folds.own is None else tuple(map(moved, folds.own))
    folds = replace(folds, total=moved(folds.total), held_out=tuple(map(moved, folds.held_out)), own=own)
    return folds.total, folds, scaler
