"""Statistics drawn anew: with fresh noise, which needs no rows, or from rows with random weights."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from kinfolk.explain.joint import own_residuals, spectrum
from kinfolk.rows.gram import TINY, Array, GramStats
from kinfolk.rows.splits import common_rows
from kinfolk.rows.table import Rows
from kinfolk.solvers.batched import times, transposed_times
from kinfolk.solvers.centre import are_uneven, column_sizes


@dataclass(frozen=True, eq=False)
class FreshNoise:
    """Statistics of y + e with e ~ N(0, noise_t I): exactly their distribution, without the rows.

    e meets the statistics through X'e ~ N(0, noise G), its mean, and its part outside the span of X. The centre is the
    observed b, not G w at the fitted w: data drawn from the fitted model would already contain the edges in question.
    """

    gram: GramStats
    noise: Array
    values: Array
    vectors: Array
    residual: Array
    dof: Array
    scale: Array

    @classmethod
    def of(cls, gram: GramStats, noise: Array) -> Self:
        """Factors of every G_t, once."""
        # Eigenvalues in raw units would hide the columns of small numbers beside those of large ones.
        scale = column_sizes(gram.G) if are_uneven(gram.G) else np.ones(gram.n_features)
        return cls(gram, noise, *spectrum(gram.rescaled(scale).G), *own_residuals(gram), scale)

    def draw(self, rng: np.random.Generator) -> GramStats:
        """One new set of statistics."""
        along = transposed_times(self.vectors, self.gram.b / self.scale)
        # Outside the span of X one direction holds the observed residual; the others see noise alone.
        sd = np.sqrt(self.noise)
        outside = np.sqrt(self.residual) + sd * rng.normal(size=len(sd))
        others = np.where(self.dof > 1, rng.chisquare(np.maximum(self.dof - 1, TINY)), 0.0)
        # Where rows are no more than unknowns, nothing lies outside, and the residual of rounding stays.
        rest = np.where(self.dof > 0, outside**2 + self.noise * others, self.residual)
        # X'e ~ N(0, noise G): independent along the eigenvectors of G, with its eigenvalues as variances.
        along = along + sd[:, None] * np.sqrt(self.values) * rng.normal(size=along.shape)
        # The part of y'y that X explains is b'G^+ b; directions without inputs explain nothing.
        fitted = np.divide(along**2, self.values, out=np.zeros_like(along), where=self.values > 0).sum(axis=1)
        mean = self.gram.y_mean + sd / np.sqrt(np.maximum(self.gram.n, TINY)) * rng.normal(size=len(sd))
        b = times(self.vectors, along) * self.scale
        return replace(self.gram, b=b, y_mean=mean, yy=fitted + rest)


@dataclass(frozen=True, eq=False)
class Reweighted:
    """Rows that get random weights.

    Attributes
    ----------
    X, y, codes : features, targets and tasks of the rows
    unit : what is drawn of every row: rows of one unit get one weight
    home : task of every unit, within which weights add up; or zeros for units that run across tasks
    total : statistics of all rows
    """

    X: Array
    y: Array
    codes: NDArray[np.intp]
    unit: NDArray[np.intp]
    home: NDArray[np.intp]
    total: GramStats

    @classmethod
    def of_rows(cls, rows: Rows, X: Array, total: GramStats, groups: Any) -> Self:
        """Rows to be drawn one by one, or in whole `groups`; rows that tasks have in common are drawn together."""
        together = np.arange(len(X))
        if groups is not None:
            together = np.asarray(groups)
            if together.shape != (len(X),):
                raise ValueError(f"groups has shape {together.shape}, expected ({len(X)},): one label per row")
        elif rows.codes is not None and total.is_shared():
            together = common_rows(X, rows.codes)
        at = rows.targets()  # wide targets share their row
        _, first, unit = np.unique(together[at.row], return_index=True, return_inverse=True)
        unit = unit.reshape(-1)
        home = at.codes[first]
        # A group with rows of several tasks has one weight in all of them, which no scaling within a task may change.
        runs_across = (home[unit] != at.codes).any()
        return cls(X[at.row], at.y, at.codes, unit, np.zeros_like(home) if runs_across else home, total)

    def draw(self, rng: np.random.Generator) -> GramStats:
        """Bayesian bootstrap: exponential weights, scaled to mean one within every task.

        To first order the same as drawing with replacement, but no task loses rows, or the rank of its inputs.
        """
        weight = rng.exponential(size=len(self.home))
        mean = np.bincount(self.home, weight) / np.maximum(np.bincount(self.home), 1)
        return self.weighted(weight / mean[self.home])

    def weighted(self, weight: Array) -> GramStats:
        """Statistics of all rows with one weight per unit."""
        by_row = weight[self.unit]
        labels, names = self.total.labels, self.total.feature_names
        return GramStats.from_codes(self.X, self.y, self.codes, labels, weight=by_row, feature_names=names)
