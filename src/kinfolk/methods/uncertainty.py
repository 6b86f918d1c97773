"""How far predictions may be off: the standard deviation of a new observation.

Under the Gaussian prior that the penalties stand for, widened by a factor kappa, the estimated coefficients miss the
true ones by a covariance of

    sigma2_t (N G N + kappa (N - N G N))_tt:

what the noise in the targets makes, and what pulling towards other tasks and zero makes. At kappa = 1, when the
penalties are exactly right, this is the posterior covariance sigma2 N_tt. Nobody's penalties are, so kappa is learned:
from held-out errors where there are some, else by maximum likelihood. The noise of a task is drawn towards that of all
tasks, the more so the fewer rows it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import digamma, polygamma

from kinfolk.methods.linear_map import LinearMap
from kinfolk.rows.gram import TINY, Array, GramStats, squared_errors

LIKELIHOOD_UNKNOWNS = 2000  # dT up to which kappa is fitted; beyond, on as many tasks as fit in it
LEAST_KAPPA = 1e-3
LEAST_NOISE = 1e-12  # of the squared held-out errors
LEAST_LEFT = 1e-3  # of the rows: what free intercepts leave at least
LEAST_FREEDOM = 1e-9  # of the rows: degrees of freedom below are rounding


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Cross-validated root mean squared errors of the tasks (T,), NaN where there are none.

    Attributes
    ----------
    errors : of the model
    without_graph : of the best mixture of methods without a graph, for a model that had both to choose from
    training : share of the rows that the models of the folds had seen
    """

    errors: Array
    without_graph: Array | None = None
    training: float = 0.8

    def placed(self, position: NDArray[np.intp], T: int) -> HeldOut:
        """The same among T tasks, where these stand at `position`."""
        grown = np.full((2, T), np.nan)
        grown[0, position] = self.errors
        if self.without_graph is None:
            return HeldOut(grown[0], None, self.training)
        grown[1, position] = self.without_graph
        return HeldOut(grown[0], grown[1], self.training)

    def of(self, tasks: NDArray[Any]) -> HeldOut:
        """Those of some tasks, by position or mask."""
        without = None if self.without_graph is None else self.without_graph[tasks]
        return HeldOut(self.errors[tasks], without, self.training)

    def attributes(self) -> dict[str, Array]:
        """The fitted attributes that tell this."""
        found = {"cv_errors_": self.errors}
        return found if self.without_graph is None else found | {"limit_errors_": self.without_graph}


@dataclass(frozen=True, eq=False)
class Uncertainty:
    """Everything that standard deviations of predictions need.

    Attributes
    ----------
    maps : the linear maps that predict, with their shares
    noise : (T,), variance of an observation about its true mean
    kappa : how much wider than the penalties say the coefficients scatter around what they are drawn to
    level : (T,), 1 for the new observation, and 1 / n_t for an intercept that is a mean of n_t of them
    """

    maps: Sequence[LinearMap]
    noise: Array
    kappa: float
    level: Array

    def std(self, X: Array, codes: NDArray[np.intp]) -> Array:
        """Standard deviation of a new observation at every row of X, whose task is `codes`."""
        tasks, position = np.unique(codes, return_inverse=True)
        variance = np.zeros(len(X))
        for part in self.maps:
            S = error_covariance(part, tasks, self.kappa)
            rows = part.design(X, codes)
            variance += part.shares[codes] * np.einsum("np,npq,nq->n", rows, S[position], rows)
        return np.sqrt(self.noise[codes] * (self.level[codes] + np.maximum(variance, 0.0)))

    def excess(self, errors: Array, rows: Array) -> float:
        """Held-out errors (T,) over what the residuals of lines tell, at most 1: less of them is left with a trunk."""
        rows = np.where(np.isfinite(errors), rows, 0.0)
        found = float(rows @ np.nan_to_num(errors) ** 2)
        return float(np.sqrt(min(found / max(float(rows @ (self.noise * self.level)), TINY), 1.0)))

    def of_coefficients(self) -> Array:
        """Standard errors of every task's intercept and slopes, (T, d + 1)."""
        tasks = np.arange(len(self.noise))
        slopes: Array = np.zeros(())
        for part in self.maps:
            S = error_covariance(part, tasks, self.kappa)
            slopes = slopes + part.shares[:, None] * np.einsum("dp,tpq,dq->td", part.to_coef, S, part.to_coef)
        # The intercept is the prediction at x = 0, without the noise of a new observation.
        at_zero = self.std(np.zeros_like(slopes), tasks) ** 2 - self.noise
        return np.sqrt(np.maximum(np.column_stack([at_zero, self.noise[:, None] * slopes]), 0.0))


def error_covariance(part: LinearMap, tasks: NDArray[np.intp], kappa: float) -> Array:
    """Covariance of the errors of the unknowns over sigma2, for some tasks: (k, p, p)."""
    whole, noise = part.diagonal(tasks)
    return noise + kappa * (whole - noise)


def uncertainty(
    maps: Sequence[LinearMap], gram: GramStats, W: Array, c: Array, held_out: HeldOut | None = None
) -> Uncertainty:
    """Noise and kappa of a model with coefficients W (T, d) and intercepts c (T,)."""
    free = sum(part.shares for part in maps if not part.equations.has_ones)
    level: Array = 1 + free / np.maximum(gram.n, TINY)
    if held_out is not None:
        return Uncertainty(maps, *_from_held_out(maps, gram, level, held_out), level)
    (part,) = maps
    sigma2, kappa, tasks = likelihood(part, gram.n)
    # An exact fit leaves the rounding of the targets, which says nothing about who is noisier.
    if len(tasks) < len(gram.n) or sigma2 <= TINY:
        return Uncertainty(maps, np.full(len(gram.n), sigma2), kappa, level)
    freedom = residual_freedom(part, gram, kappa)
    free = freedom > LEAST_FREEDOM * gram.n  # rounding leaves a little where nothing is left
    ratio = np.divide(squared_errors(gram, W, c) / sigma2, freedom, out=np.zeros_like(freedom), where=free)
    return Uncertainty(maps, sigma2 * moderated(ratio, np.where(free, freedom, 0.0)), kappa, level)


def likelihood(part: LinearMap, n: Array) -> tuple[float, float, NDArray[np.intp]]:
    """sigma2 and kappa of greatest likelihood, and the tasks that they come from."""
    tasks = part.inverse.sample(LIKELIHOOD_UNKNOWNS // part.equations.shape[1])
    left = float((n[tasks] - (not part.equations.has_ones)).sum())  # beside free intercepts
    rows = max(left, LEAST_LEFT * float(n[tasks].sum()))  # weights may sum to less than those take
    sigma2, kappa = part.inverse.likelihood(part.equations, rows, tasks)
    return sigma2, kappa, tasks


def residual_freedom(part: LinearMap, gram: GramStats, kappa: float) -> Array:
    """Expected sum of squared residuals of every task over sigma2, if the prior is kappa times as wide."""
    whole, noise = part.diagonal(np.arange(gram.n_tasks))
    once = np.einsum("tpq,tqp->t", whole, part.equations.G)
    twice = np.einsum("tpq,tqp->t", noise, part.equations.G)
    own: Array = gram.n - (not part.equations.has_ones)
    return np.maximum(own - 2 * once + twice + kappa * (once - twice), 0.0)


def _from_held_out(maps: Sequence[LinearMap], gram: GramStats, level: Array, held_out: HeldOut) -> tuple[Array, float]:
    """Noise of every task and kappa from held-out errors: error_t^2 = sigma2 (level_t + kappa away_t).

    sigma2 comes from the residuals of the member with the largest share: regressed on `away`, what pulling makes of
    the errors, those of a few small tasks would tell it badly.
    """
    sigma2, _, _ = likelihood(max(maps, key=lambda part: part.shares.mean()), gram.n)
    # Residuals of an exact fit say nothing about the noise: then kappa, which is a multiple of it, has to say all.
    sigma2 = max(sigma2, LEAST_NOISE * float(np.nanmean(held_out.errors**2)), TINY)
    rows = np.maximum(gram.n, TINY)
    # The expected squared error of a new row, beyond the noise of the row itself: tr(S_t E[x x']).
    away = np.zeros(gram.n_tasks)
    for part in maps:
        S = error_covariance(part, np.arange(gram.n_tasks), 1.0)
        away += part.shares * np.einsum("tpq,tqp->t", S, new_rows(part.equations.G, rows))
    away = np.maximum(away, 0.0) / held_out.training  # with fewer rows the errors are larger, about in proportion
    known = np.isfinite(held_out.errors)  # not so for tasks adopted since
    errors = np.where(known, held_out.errors, 0.0) ** 2
    rows = np.where(known, rows, 0.0)
    kappa = 1.0
    # Reweighted least squares for kappa: a task counts by its rows over the squared variance of its errors.
    for _ in range(10):
        weight = rows / (level + kappa * away) ** 2 * away
        excess = float(weight @ (errors / sigma2 - level))
        kappa = max(excess / max(float(weight @ away), TINY), LEAST_KAPPA)
    expected = np.maximum(sigma2 * (level + kappa * away), TINY)
    return sigma2 * moderated(errors / expected, rows), kappa


def new_rows(G: Array, rows: Array) -> Array:
    """Second moments of rows not yet seen: a task's own, with those of all tasks for as many rows as it has unknowns.

    Own rows alone would flatter a task with fewer rows than unknowns, as its coefficients fit just those.
    """
    p = G.shape[1]
    return (G + p * G.sum(axis=0) / rows.sum()) / (rows + p)[:, None, None]


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
