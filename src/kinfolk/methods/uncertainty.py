"""How far predictions may be off: the standard deviation of a new observation.

A model is linear in its targets, so its errors follow from where the true coefficients lie and how far observations
scatter (`part`). Both are asked of a mixed model of the same rows, with what its estimates leave open
(`solvers.mixed.components`), not of the penalties or the graph of the model itself: these were chosen to suit the rows,
and a task of two rows has the neighbours that its noise has chosen. So one law judges all methods,

    variance = scale^2 (sigma2_t (level_t + x'(N G N)_tt x) + x'pulled_t x):

the new observation and what noise in the targets makes of the errors, and what pulling makes of them. The noise of a
task is drawn towards that of all tasks, the more so the fewer rows it has. The scale is 1; where there are held-out
errors it is their ratio to what the law expects of them, as far as that is beyond one standard error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import digamma, polygamma

from kinfolk.declared import holds
from kinfolk.methods.part import ErrorBlocks, LinearMap, Scatter
from kinfolk.rows.gram import TINY, Array, GramStats, squared_errors
from kinfolk.solvers.mixed import VarianceComponents, integrated_components
from kinfolk.solvers.tolerances import LAST_DIGIT

LEAST_TRAINING = 0.5  # share of the rows of a small task that the models of folds had
MISFIT = 3.0  # standard errors
HUGE = 1e100  # numbers beyond are divided by before they are squared
LEAST_FREEDOM = 1e-9  # of the rows: degrees of freedom below are rounding


@holds(errors="T any >=0", without_graph="T any >=0", training="number >=0 <=1", working="T any >=0")
@dataclass(frozen=True, eq=False)
class HeldOut:
    """Cross-validated root mean squared errors of the tasks (T,), of classes and counts losses; NaN if there are none.

    Attributes
    ----------
    errors : of the model
    without_graph : of the best mixture of methods without a graph, for a model that had both to choose from
    training : share of the rows that the models of the folds had seen
    working : of classes and counts, the root mean squared errors of working targets, which standard deviations explain
    """

    errors: Array
    without_graph: Array | None = None
    training: float = 0.8
    working: Array | None = None

    def placed(self, position: NDArray[np.intp], T: int) -> HeldOut:
        """The same among T tasks, where these stand at `position`."""

        def put(values: Array | None) -> Array | None:
            if values is None:
                return None
            grown = np.full(T, np.nan)
            grown[position] = values
            return grown

        errors = put(self.errors)
        assert errors is not None
        return HeldOut(errors, put(self.without_graph), self.training, put(self.working))

    def of(self, tasks: NDArray[Any]) -> HeldOut:
        """Those of some tasks, by position or mask."""
        without = None if self.without_graph is None else self.without_graph[tasks]
        working = None if self.working is None else self.working[tasks]
        return HeldOut(self.errors[tasks], without, self.training, working)

    def attributes(self) -> dict[str, Array]:
        """The fitted attributes that tell this."""
        errors = {"cv_errors_": self.errors}
        return errors if self.without_graph is None else errors | {"limit_errors_": self.without_graph}


@dataclass(frozen=True, eq=False)
class PartErrors:
    """Errors of one linear map, if tasks lie as `scatter` says; every task is computed once."""

    part: LinearMap
    scatter: Scatter
    _kept: dict[int, tuple[Array, ...]] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, part: LinearMap, law: VarianceComponents) -> PartErrors:
        """With the law in the unknowns of the part."""
        equations = part.equations
        d = len(part.units)
        p = d + equations.has_ones
        unit = np.append(part.units, 1.0)[:p]
        to_unknowns = np.eye(p, d + 1)
        mean = law.mean.copy()
        if equations.has_ones:  # the level at the origin of the part, which may be another
            origin = equations.x0[0] * part.units
            to_unknowns[-1, :d] = origin - law.x0
            mean[-1] += law.y0 - equations.y0[0]
        to_unknowns = unit[:, None] * to_unknowns
        if equations.basis is not None:
            size = np.sqrt((equations.basis**2).sum(axis=1))[:, None]
            size = np.where(size > 0, size, 1.0)
            to_unknowns = np.linalg.pinv(equations.basis / size) @ (to_unknowns / size)
        return cls(part, Scatter(to_unknowns @ mean, to_unknowns @ law.covariance @ to_unknowns.T))

    def blocks(self, tasks: NDArray[np.intp]) -> ErrorBlocks:
        """Those of some tasks."""
        if self.part.inverse.at_once:
            return ErrorBlocks(*(block[tasks] for block in self._all))
        # Each task costs p solves: those asked for before are kept.
        missing = np.array([t for t in tasks.tolist() if t not in self._kept], dtype=np.intp)
        if len(missing):
            blocks = self.part.inverse.diagonal(missing, self.scatter)
            self._kept.update(zip(missing.tolist(), zip(*blocks, strict=True), strict=True))
        return ErrorBlocks(*(np.stack(block) for block in zip(*(self._kept[t] for t in tasks.tolist()), strict=True)))

    @cached_property
    def _all(self) -> ErrorBlocks:
        return self.part.inverse.diagonal(np.arange(len(self.part.equations.b)), self.scatter)

    def residuals(self, rows: Array, noise: float) -> Array:
        """Expected sum of squared residuals of every task over the noise; `rows` are those beside free intercepts."""
        G = self.part.equations.G
        whole, noisy, pulled = self.blocks(np.arange(len(G)))
        left = rows - 2 * np.einsum("tpq,tqp->t", whole, G)
        return np.maximum(left + np.einsum("tpq,tqp->t", noisy + pulled / noise, G), 0.0)


@dataclass(frozen=True, eq=False)
class Uncertainty:
    """Everything that standard deviations of predictions need.

    Attributes
    ----------
    parts : the linear maps that predict, with their shares
    law : how tasks differ, and how far observations scatter
    noise : (T,), variance of an observation about its true mean
    level : (T,), 1 for the new observation, and 1 / n_t for an intercept that is a mean of n_t of them
    scale : of all standard deviations, as held-out errors tell
    common : (d,), which features do not vary within tasks: their coefficients err alike in all tasks
    """

    parts: Sequence[PartErrors]
    law: VarianceComponents
    noise: Array
    level: Array
    scale: float = 1.0
    common: NDArray[np.bool_] | bool = False

    def std(self, X: Array, codes: NDArray[np.intp], new: float = 1.0) -> Array:
        """Standard deviation of a new observation at every row of X, whose task is `codes`; with new=0 of its mean."""
        tasks, position = np.unique(codes, return_inverse=True)
        away = np.zeros(len(X))
        for errors in self.parts:
            S = self.covariance(errors, tasks)[position]
            # The standard deviation of a sum is at most the sum of those of its terms, and parts err alike.
            away += errors.part.shares[codes] * deviations(errors.part.design(X, codes), S)
        return self.scale * np.hypot(np.sqrt(self.noise[codes] * (self.level[codes] - (1 - new))), away)

    def covariance(self, errors: PartErrors, tasks: NDArray[np.intp]) -> Array:
        """Second moments of the errors of a part's unknowns, for some tasks: (k, p, p)."""
        _, noise, pulled = errors.blocks(tasks)
        return self.noise[tasks, None, None] * noise + pulled

    def of_new_tasks(self, X: Array, lines: float = 1.0, new: float = 1.0) -> Array:
        """Standard deviation at rows of tasks that fit has not seen, of whose prediction lines have that share.

        With new=0 without the noise of an observation.
        """
        rows = np.column_stack([X - self.law.x0, np.ones(len(X))])
        between = deviations(rows, (self.law.covariance + self.law.mean_error)[None])
        std = np.hypot(np.sqrt(new * self.noise.mean()), lines * between)
        # Every variance between tasks is estimated from T tasks: with the degrees of freedom f of their sum
        # (Satterthwaite 1946), a normal interval must be as wide as that of Student's distribution at 90 %.
        sd = lines * np.abs(rows) * np.sqrt(np.diagonal(self.law.covariance)) / np.maximum(std, TINY)[:, None]
        freedom = (len(self.noise) - 1) / np.maximum((sd**4).sum(axis=1), TINY)
        return std * np.sqrt(1 + 2 / np.maximum(freedom - 2, 1.0))

    def of_coefficients(self) -> Array:
        """Standard errors of every task's intercept and slopes, (T, d + 1)."""
        tasks = np.arange(len(self.noise))
        slopes: Array = np.zeros(())
        for errors in self.parts:
            back = errors.part.to_coef
            S = self.covariance(errors, tasks)
            variance = np.einsum("dp,tpq,dq->td", back, S, back)
            slopes = slopes + errors.part.shares[:, None] * np.sqrt(np.maximum(variance, 0.0))
        of_mean = np.sqrt(np.maximum(np.diagonal(self.law.mean_error)[:-1], 0.0))
        slopes = np.where(self.common, of_mean, slopes)
        return np.column_stack([self.of_levels(np.zeros(slopes.shape[1])), self.scale * slopes])

    def of_levels(self, x: Array) -> Array:
        """Standard errors (T,) of what is predicted at the features x (d,); at 0 this is the intercept."""
        tasks = np.arange(len(self.noise))
        # Without the noise of a new observation.
        variance = self.std(np.tile(x, (len(tasks), 1)), tasks) ** 2 - self.scale**2 * self.noise
        return np.sqrt(np.maximum(variance, 0.0))


def scale_of_errors(known: Uncertainty, gram: GramStats, held_out: HeldOut) -> float:
    """What held-out errors are of those that the law expects, as far as that is beyond one standard error over tasks.

    Errors are smaller where a graph has found who is kin, or trees what lines do not show, and larger where the law
    suits the rows too well: where levels wander from year to year, say, noise and wandering are told apart by very few
    rows. Parts whose errors cost little stand for the others; without such parts the scale is 1.
    """
    quick = [errors for errors in known.parts if errors.part.inverse.at_once]
    errors = held_out.errors if held_out.working is None else held_out.working
    tasks = np.flatnonzero(np.isfinite(errors) & (gram.n > 0))  # not so for tasks adopted since
    n = gram.n[tasks]
    squares = n * errors[tasks] ** 2
    expected = n * _expected_squares(known, quick, gram, held_out.training, tasks)
    total = float(expected.sum())
    if not quick or total <= TINY:
        return 1.0
    ratio = float(squares.sum()) / total
    error = float(np.linalg.norm(squares - ratio * expected)) / total
    return float(np.sqrt(np.clip(1.0, ratio - error, ratio + error)))


def _expected_squares(
    known: Uncertainty, parts: Sequence[PartErrors], gram: GramStats, training: float, tasks: NDArray[np.intp]
) -> Array:
    """Mean squared errors of some tasks by the models of folds, which had a share `training` of their rows."""
    shares = np.sum([errors.part.shares[tasks] for errors in parts], axis=0)
    away = np.zeros(len(tasks))
    unknown = np.zeros(len(tasks))  # the same without any rows
    for errors in parts:
        moments = new_rows(errors.part, gram.n)[tasks]
        share = errors.part.shares[tasks] / np.maximum(shares, TINY)
        own = np.einsum("tpq,tqp->t", known.covariance(errors, tasks), moments)
        away += share * np.sqrt(np.maximum(own, 0.0))
        unknown += share * np.einsum("pq,tqp->t", errors.scatter.covariance, moments)
    # Errors fall like a / (1 + b n), from `unknown` at n = 0.
    share = np.minimum(training, np.maximum(1 - 1 / gram.n[tasks], LEAST_TRAINING))
    away = 1 / ((1 - share) / np.maximum(unknown, TINY) + share / np.maximum(away**2, TINY))
    return known.noise[tasks] * (1 + (known.level[tasks] - 1) / share) + away


def uncertainty(
    maps: Sequence[LinearMap], gram: GramStats, W: Array, c: Array, held_out: HeldOut | None = None
) -> Uncertainty:
    """What a model with coefficients W (T, d) and intercepts c (T,) leaves open."""
    law = gram.once("variance components", lambda: integrated_components(gram))
    parts = [PartErrors.of(part, law) for part in maps]
    means = [part for part in maps if not part.equations.has_ones]
    free = sum(part.shares for part in means)
    level: Array = 1 + sum((part.shares / np.maximum(gram.n, TINY) for part in means), np.zeros(gram.n_tasks))
    if gram.dispersion is None and all(part.inverse.at_once for part in maps):
        noise, beyond = relative_noise(parts, law, np.maximum(gram.n - free, 0.0), squared_errors(gram, W, c))
    else:  # nobody is noisier than known, or who is would take too long
        noise, beyond = np.ones(gram.n_tasks), 0.0
    if np.ptp(noise) > 0:  # tasks of much noise tell less about how tasks differ
        law = replace(integrated_components(gram, noise), noise=law.noise)
        parts = [PartErrors.of(part, law) for part in maps]
    known = Uncertainty(parts, law, law.noise * noise + beyond, level, common=gram.common())
    return known if held_out is None else replace(known, scale=scale_of_errors(known, gram, held_out))


def deviations(rows: Array, S: Array) -> Array:
    """Standard deviations (n,) of x_n'e for rows (n, p) and covariances of e (n, p, p), or one for all (1, p, p).

    >>> deviations(np.array([[3.0, 4.0], [3e200, 4e200]]), np.eye(2)[None])
    array([5.e+000, 5.e+200])
    """
    size = np.abs(rows).max(axis=1, initial=0.0)
    size = np.where(size > HUGE, size, 1.0)
    rows = rows / size[:, None]
    S = np.broadcast_to(S, (len(rows), *S.shape[1:]))
    return size * np.sqrt(np.maximum(np.einsum("np,npq,nq->n", rows, S, rows), 0.0))


def relative_noise(
    parts: Sequence[PartErrors], law: VarianceComponents, rows: Array, squares: Array
) -> tuple[Array, float]:
    """The noise of every task over that of all (T,), from its squared residuals, and a variance that all have beyond.

    `rows` (T,) are those beside free intercepts: no sum of squares has more degrees of freedom, however large pulling
    makes it.
    """
    each = float(squares.sum()) / max(float(rows.sum()), 1.0)
    # An exact fit leaves the rounding of the targets, which says nothing about who is noisier. Where the law sees no
    # noise at all, what a model without intercept leaves is all there is.
    if law.noise <= TINY or law.noise <= LAST_DIGIT**2 * each:
        return np.ones(len(rows)), each
    expected = np.sum([errors.part.shares * errors.residuals(rows, law.noise) for errors in parts], axis=0)
    free = expected > LEAST_FREEDOM * np.maximum(rows, 1.0)  # rounding leaves a little where nothing is left
    ratio = np.divide(squares / law.noise, expected, out=np.zeros_like(expected), where=free)
    relative = moderated(ratio, np.where(free, np.minimum(expected, rows), 0.0))
    # Residuals that are too large for the law by more than chance, of a model without intercept, say, count as noise.
    total = float(expected.sum())
    misfit = float(squares.sum()) / law.noise - total
    if misfit <= MISFIT * np.sqrt(2 * total):
        return relative, 0.0
    return relative, law.noise * misfit / max(float(rows.sum()), 1.0)


def new_rows(part: LinearMap, n: Array) -> Array:
    """Second moments (T, p, p) of rows not yet seen, in the unknowns of a part.

    They lie about the mean of the task's own rows as these do, together with those of all tasks for as many rows as
    there are unknowns: own rows alone would flatter a task with fewer, as its coefficients fit just those.
    """
    G = part.equations.G
    n = np.maximum(n, TINY)
    mean = G[:, :, -1] / n[:, None] if part.equations.has_ones else np.zeros(G.shape[:2])
    about_zero = mean[:, :, None] * mean[:, None, :]
    within = G - n[:, None, None] * about_zero
    p = G.shape[1]
    return about_zero + (within + p * within.sum(axis=0) / n.sum()) / (n + p)[:, None, None]


def noise_of_tasks(squares: Array, freedom: Array) -> Array:
    """Variance of the noise of every task (T,), from sums of squares and their degrees of freedom.

    >>> noise_of_tasks(np.array([18.0, 22.0, 20.0]), np.array([10.0, 10.0, 10.0]))
    array([2., 2., 2.])
    """
    common = float(squares.sum()) / max(float(freedom.sum()), TINY)
    ratio = np.divide(squares, common * freedom, out=np.zeros_like(squares), where=common * freedom > 0)
    return common * moderated(ratio, freedom)


def moderated(ratio: Array, freedom: Array) -> Array:
    """Variances of tasks, relative to the common one, drawn towards it as much as their own spread suggests.

    With s_t^2 of f_t degrees of freedom, true variances vary like an inverse chi-square of f_0, whose f_0 the spread of
    log s_t^2 tells (Smyth 2004): the better estimate is (f_0 + f_t s_t^2) / (f_0 + f_t).

    Examples
    --------
    Ratios that chance explains are all taken for 1.

    >>> moderated(np.array([0.9, 1.1, 1.0]), np.array([10.0, 10.0, 10.0]))
    array([1., 1., 1.])
    """
    known = (freedom >= 2) & (ratio > 0)
    if known.sum() < 3:
        return np.ones_like(ratio)
    f = freedom[known]
    # log s^2 of f degrees of freedom has mean digamma(f/2) - log(f/2) and variance trigamma(f/2) about the true one.
    e = np.log(ratio[known]) - digamma(f / 2) + np.log(f / 2)
    excess = float(e.var(ddof=1) - polygamma(1, f / 2).mean())
    if excess <= 0:  # chance alone spreads them as much
        return np.ones_like(ratio)
    f0 = 2 * brentq(lambda x: float(polygamma(1, x)) - excess, 1e-4, 1e8) if excess < 1e7 else 0.0
    own = np.where(freedom > 0, freedom * ratio, 0.0)
    return np.divide(f0 + own, f0 + freedom, out=np.ones_like(ratio), where=f0 + freedom > 0)
