"""Statistics drawn anew without rows: fresh noise, reweighted blocks of rows, and tasks that are not kin."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.explain.joint import Joint, own_residuals, spectrum
from kinfolk.methods.gamtl.calibrate import METRICS
from kinfolk.rows.fold_numbers import common_rows, occurrence
from kinfolk.rows.gram import TINY, Array, GramStats
from kinfolk.rows.tasks import Rows
from kinfolk.solvers.batched import square_root, times, transposed_times
from kinfolk.solvers.random_effects import RandomEffects, fit_random_effects

BLOCKS = 50  # of rows per task; a task with fewer rows has one row in each
BLOCK_NUMBERS = 5e7  # floating-point numbers that all blocks together may take


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

    @classmethod
    def of(cls, gram: GramStats, noise: Array) -> FreshNoise:
        """Factors of every G_t, once."""
        return cls(gram, noise, *spectrum(gram.G), *own_residuals(gram))

    def draw(self, rng: np.random.Generator) -> GramStats:
        """One new set of statistics."""
        along = transposed_times(self.vectors, self.gram.b)
        # Outside the span of X one direction holds the observed residual; the others see noise alone.
        outside = np.sqrt(self.residual) + np.sqrt(self.noise) * rng.normal(size=len(self.noise))
        rest = np.where(self.dof > 0, outside**2 + self.noise * _chi2(rng, self.dof - 1), self.residual)
        return self._drawn(rng, along, self.gram.y_mean, rest)

    def draw_around(self, rng: np.random.Generator, W: Array, level: Array) -> GramStats:
        """Statistics of tasks with the same inputs and noise, but with the coefficients W and intercepts `level`."""
        # b = G w: in the eigenvectors of G the coordinates of w times the eigenvalues.
        along = transposed_times(self.vectors, W) * self.values
        mean = level + np.einsum("td,td->t", self.gram.x_mean, W)
        return self._drawn(rng, along, mean, self.noise * _chi2(rng, self.dof))

    def _drawn(self, rng: np.random.Generator, along: Array, mean: Array, rest: Array) -> GramStats:
        """Add noise to b in the eigenvectors of G, and to the means; put y'y together from its parts."""
        sd = np.sqrt(self.noise)
        along = along + sd[:, None] * np.sqrt(self.values) * rng.normal(size=along.shape)
        # The part of y'y that X explains is b'G^+ b; directions without inputs explain nothing.
        fitted = np.divide(along**2, self.values, out=np.zeros_like(along), where=self.values > 0).sum(axis=1)
        mean = mean + sd / np.sqrt(np.maximum(self.gram.n, TINY)) * rng.normal(size=len(sd))
        b = times(self.vectors, along)
        return replace(self.gram, b=b, y_mean=mean, yy=fitted + rest)


def _chi2(rng: np.random.Generator, dof: Array) -> Array:
    return np.where(dof > 0, rng.chisquare(np.maximum(dof, TINY)), 0.0)


@dataclass(frozen=True, eq=False)
class Blocks:
    """Rows in blocks, as statistics: a weighting of the blocks is a sum over them, and needs no row.

    Attributes
    ----------
    parts : statistics of every block, about its own means
    task : task of every block (B,)
    unit : what is drawn of every block (B,): blocks of one unit get one weight
    home : task of every unit, within which weights add up; or zeros for units that run across tasks
    total : statistics of all rows
    """

    parts: GramStats
    task: NDArray[np.intp]
    unit: NDArray[np.intp]
    home: NDArray[np.intp]
    total: GramStats

    @classmethod
    def of_rows(cls, rows: Rows, X: Array, total: GramStats, groups: Any, rng: np.random.Generator) -> Blocks:
        """Cut rows into blocks: whole `groups`, or at most fifty random blocks per task."""
        X, y, codes, groups = _observed(rows, X, total, groups)
        unit, home = _units(codes, groups, total, rng)
        pair, block = np.unique(unit * total.n_tasks + codes, return_inverse=True)
        parts = GramStats.from_codes(X, y, block.reshape(-1), np.arange(len(pair)))
        return cls(parts, pair % total.n_tasks, pair // total.n_tasks, home, total)

    def draw(self, rng: np.random.Generator) -> GramStats:
        """Bayesian bootstrap: exponential weights, scaled to mean one within every task.

        To first order the same as drawing with replacement, but no task loses rows, or the rank of its inputs.
        """
        weight = rng.exponential(size=len(self.home))
        mean = np.bincount(self.home, weight) / np.maximum(np.bincount(self.home), 1)
        return self.weighted((weight / mean[self.home])[self.unit])

    def weighted(self, weight: Array) -> GramStats:
        """Statistics of all rows with one weight per block (B,)."""
        total, parts = self.total, self.parts
        # Between blocks: their means are rows. Within: what the blocks have, summed up.
        between = GramStats.from_codes(parts.x_mean, parts.y_mean, self.task, total.labels, weight=weight * parts.n)
        sum_up = sparse.csr_array((weight, (self.task, np.arange(len(weight)))), shape=(total.n_tasks, len(weight)))
        within = (sum_up @ parts.G.reshape(len(weight), -1)).reshape(total.G.shape)
        return replace(
            between,
            G=between.G + within,
            b=between.b + sum_up @ parts.b,
            yy=between.yy + sum_up @ parts.yy,
            feature_names=total.feature_names,
        )


def _observed(
    rows: Rows, X: Array, total: GramStats, groups: Any
) -> tuple[Array, Array, NDArray[np.intp], NDArray[np.intp] | None]:
    """Rows of a long table; wide targets become one, whose groups are the rows. Shared inputs make groups too."""
    if groups is not None:
        groups = np.asarray(groups)
        if groups.shape != (len(X),):
            raise ValueError(f"groups has shape {groups.shape}, expected ({len(X)},): one label per row")
        groups = np.unique(groups, return_inverse=True)[1].reshape(-1)
    if rows.codes is None:
        i, t = np.nonzero(~np.isnan(rows.y))
        return X[i], rows.y[i, t], t, (np.arange(len(X)) if groups is None else groups)[i]
    seen = ~np.isnan(rows.y)
    if groups is None and total.is_shared():
        groups = common_rows(X, rows.codes)
    return X[seen], rows.y[seen], rows.codes[seen], None if groups is None else groups[seen]


def _units(
    codes: NDArray[np.intp], groups: NDArray[np.intp] | None, total: GramStats, rng: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The unit of every row, and the home of every unit: its task, or 0 for all where groups run across tasks."""
    T, d = total.n_tasks, total.n_features
    if groups is None:
        most = int(np.clip(BLOCK_NUMBERS / (T * (d + 2) ** 2), 2, BLOCKS))
        order = np.argsort(rng.random(len(codes)))
        place = np.empty(len(codes), np.intp)
        place[order] = occurrence(codes[order])
        groups = codes * most + place % most
    _, first, unit = np.unique(groups, return_index=True, return_inverse=True)
    unit = unit.reshape(-1)
    home = codes[first]
    runs_across = (home[unit] != codes).any()
    return unit, np.zeros(len(home), np.intp) if runs_across else home


@dataclass(frozen=True, eq=False)
class Unrelated:
    """Tasks that are not kin: the same inputs and noise, coefficients drawn independently around a common mean.

    The mean and the spread of every coefficient are those of a mixed model of the tasks that are not outliers: how the
    tasks would look if nothing but their common mean related them. They carry the noise twice, as a resample of
    observed tasks does: once observed, once drawn.
    """

    fresh: FreshNoise
    effects: RandomEffects
    root: Array
    has_intercept: bool

    @classmethod
    def of(cls, joint: Joint, kin: NDArray[np.bool_]) -> Unrelated:
        """Fit the population to the tasks in `kin`."""
        effects = fit_random_effects(
            joint.gram.select(kin),
            covariance=METRICS[joint.recipe.metric] or "diagonal",
            intercept="free" if joint.recipe.intercept == "free" else "random",
            tol=1e-2,
        )
        fresh = FreshNoise.of(joint.gram, 2 * joint.noise)
        return cls(fresh, effects, square_root(effects.covariance), joint.recipe.intercept is not None)

    def draw(self, rng: np.random.Generator) -> GramStats:
        """Statistics of one such set of tasks."""
        T, d = self.fresh.gram.b.shape
        W = self.effects.mean + rng.normal(size=(T, d)) @ self.root.T
        if not self.has_intercept:
            return self.fresh.draw_around(rng, W, np.zeros(T))
        # Levels at the centre of the inputs go to tasks at random: at zero they may depend on the slopes.
        centre = self.fresh.gram.n @ self.fresh.gram.x_mean / self.fresh.gram.n.sum()
        level = rng.choice(self.effects.intercept + self.effects.coef @ centre, T, replace=len(self.effects.coef) < T)
        return self.fresh.draw_around(rng, W, level - W @ centre)
