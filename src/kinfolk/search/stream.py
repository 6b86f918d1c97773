"""Rows that arrive in parts, for methods that cross-validate: every row is dealt to a fold once, and stays there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from kinfolk.declared import holds
from kinfolk.methods.splines import SplineFeatures
from kinfolk.rows.folds import Folds
from kinfolk.rows.gram import Array, GramStats
from kinfolk.rows.splits import common_rows, generator
from kinfolk.rows.table import Rows
from kinfolk.search.rbf_search import FeatureSearch, TaskRows
from kinfolk.sources.dealing import deal_rows


@holds(folds="record T", curves="record T", splines="record T")
@dataclass(frozen=True, eq=False)
class Stream:
    """Statistics of the folds of all rows so far: of the inputs, and of the curves and splines of the first rows."""

    folds: Folds
    curves: FeatureSearch | None = None
    splines: FeatureSearch | None = None

    def with_roles(self, roles: NDArray[np.intp] | None) -> Self:
        """The same of inputs with these roles, which come last among curves; the curve of a common one is common."""
        if roles is None or not roles.any():
            return self

        def of(found: FeatureSearch) -> Folds:
            of_terms = np.zeros(found.folds.total.n_features - len(roles), np.intp)
            if isinstance(found.features, SplineFeatures):
                own = np.repeat(np.minimum(roles[found.features.columns_], 0), found.features.terms)
                of_terms[found.features.walk_terms :] = own
            return found.folds.with_roles(np.concatenate([of_terms, roles]))

        return self._with(self.folds.with_roles(roles), of)

    def total_with(self, curves: FeatureSearch | None) -> GramStats:
        """Statistics of all rows: of the inputs, or of the curves that take part."""
        if curves is None:
            return self.folds.total
        made = self.splines if curves.best is None else self.curves
        assert made is not None
        return made.folds.total

    def plus(self, rows: Rows, X: Array, *, forget: float = 1.0, groups: Any = None, random_state: Any = None) -> Self:
        """With new rows of inputs X, after the weight of all earlier ones was multiplied by `forget`.

        Rows go to the folds that have least of their task. Whole groups go to one fold instead, and so do rows that
        all tasks share.
        """
        at = rows.targets()
        labels = np.union1d(self.folds.total.labels, rows.schema.labels)
        codes = np.searchsorted(labels, rows.schema.labels)[at.codes]
        names = self.folds.total.feature_names
        data = TaskRows(X[at.row], at.y, codes, labels, np.zeros(len(codes), np.intp), at.weight, names)
        unit = self._units(rows, data, at.row, groups)
        so_far = np.stack([part.reindex(labels).n for part in self.folds.held_out])
        # Another draw for every batch, which the same rows after the same past get again.
        rng = np.random.default_rng([int(generator(random_state).integers(2**31)), round(float(so_far.sum()))])
        if unit is None:
            fold = deal_rows(codes, so_far, rng)
        else:
            each = np.zeros(int(unit.max()) + 1, np.intp)
            fold = deal_rows(each, so_far.sum(axis=1, keepdims=True), rng)[unit]
        return self._plus(replace(data, fold=fold), forget)

    def _units(self, rows: Rows, data: TaskRows, row: NDArray[np.intp], groups: Any) -> NDArray[np.intp] | None:
        """What must stay together, as a number for every target; None if nothing must."""
        if groups is not None:
            return np.unique(np.asarray(groups)[row], return_inverse=True)[1].reshape(-1)
        if rows.codes is None:
            return np.unique(row, return_inverse=True)[1].reshape(-1)
        total = self.folds.total
        new = data.gram(data.X, slice(None)).with_rows()
        shared = total.n_tasks > 1 and total.is_shared() and new.n_tasks > 1 and new.is_shared()
        return common_rows(data.X, data.codes) if shared else None

    def _plus(self, data: TaskRows, forget: float) -> Self:
        def grown(found: FeatureSearch) -> Folds:
            return found.folds.scaled(forget) + found.folds_of(data)

        return self._with(self.folds.scaled(forget) + data.folds(len(self.folds)), grown)

    def select(self, tasks: NDArray[Any]) -> Self:
        """The stream of some tasks, by position."""
        return self._with(self.folds.select(tasks), lambda found: found.folds.select(tasks))

    def _with(self, folds: Folds, of_features: Callable[[FeatureSearch], Folds]) -> Self:
        """Other folds, of the inputs and of all features that are made of them."""
        curves, splines = (
            None if found is None else replace(found, folds=of_features(found)) for found in (self.curves, self.splines)
        )
        return replace(self, folds=folds, curves=curves, splines=splines)
