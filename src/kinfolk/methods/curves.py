"""Curves beside lines: methods that use some of the features, and linear models in the features of all."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kinfolk.judge.trials import Trial
from kinfolk.methods.mixture import Learner, Member
from kinfolk.methods.model import Model, placed_columns
from kinfolk.methods.rbf import RBFFeatures
from kinfolk.methods.rbf_search import FeatureSearch
from kinfolk.rows.folds import Folds
from kinfolk.rows.gram import Array, GramStats


@dataclass(frozen=True, eq=False)
class OnColumns:
    """A method that sees `columns` of the features, divided by `units`."""

    method: Learner
    columns: NDArray[np.intp]
    units: Array

    def learn(self, gram: GramStats) -> Model:
        """The method's model; the other features have coefficients of 0."""
        key = self.columns.tobytes(), self.units.tobytes()
        # Remembered, so that methods share what depends on these statistics alone.
        part = gram.once(key, lambda: gram.on_columns(self.columns).rescaled(self.units))
        model = self.method.learn(part).in_units(self.units).on_columns(self.columns, gram.n_features)
        details = dict(model.details)
        if "relevance_" in details:
            relevance = details["relevance_"] / self.units
            details["relevance_"] = placed_columns(relevance, self.columns, np.zeros(gram.n_features))
        return replace(model, gram=gram, details=details)

    def model_of(self, gram: GramStats, folds: Folds | None = None) -> Model:
        """The model of all tasks of `gram`."""
        return self.learn(gram.with_rows()).among(gram)


def on_columns(member: Member, name: str, columns: NDArray[np.intp], units: Array) -> Member:
    """A member of a mixture that sees `columns` of the features, divided by `units`."""
    draft = None if member.draft is None else OnColumns(member.draft, columns, units)
    return replace(member, name=name, method=OnColumns(member.method, columns, units), draft=draft)


def line_beside_curves(member: Member, trial: Trial, found: FeatureSearch, scale: Array) -> tuple[Member, Trial]:
    """A linear member, and what it predicted on folds of inputs over `scale`, in the features that were found."""
    D = found.folds.total.n_features
    columns = np.arange(D - len(scale), D)
    coef = np.zeros((*trial.coef.shape[:2], D))
    intercept = trial.intercept.copy()
    for f, features in enumerate(found.by_fold):
        W = trial.coef[f] / scale
        coef[f][:, columns] = np.divide(W, _units(features), out=np.zeros_like(W), where=_units(features) > 0)
        intercept[f] += W @ features.mean_
    units = scale * _units(found.features)
    there = on_columns(member, member.name, columns, np.where(units > 0, units, 1.0))
    return there, Trial(coef, intercept, trial.errors, trial.message)


def _units(features: RBFFeatures) -> Array:
    """The linear terms of a transformer are the inputs, about their means, times these."""
    return np.asarray(features.scale) / features.size_
