"""The linear mixed model of many tasks, by maximum likelihood on Gram statistics alone.

    y_t = X_t (mu + u_t) + c_t + e,    u_t ~ N(0, Sigma),  e ~ N(0, sigma2 I),  Sigma diagonal or full.

Features that do not vary within tasks have no u_t. Where the statistics say what their noise is (`dispersion`), sigma2
is that and no unknown. It needs no cross-validation, and says which coefficients differ
between tasks and which they have in common.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from kinfolk.rows.gram import TINY, Array, GramStats
from kinfolk.solvers.equations import NormalEquations, normal_equations
from kinfolk.solvers.mixed.likelihood import Likelihood, compress, scale_free_units
from kinfolk.solvers.mixed.maximum import maximise
from kinfolk.solvers.solution import Solution
from kinfolk.solvers.tolerances import LAST_DIGIT, MIXED_MODEL

SATURATED_NOISE = 0.01  # least sigma2 over the variance within tasks, where rows do not tell the noise
RANDOM_INTERCEPTS = {"random": "coupled", "free": "free"}  # to the normal equations that serve them


@dataclass(frozen=True, eq=False)
class MixedModel:
    """The fitted mixed model.

    Attributes
    ----------
    mean : array of shape (d,), the fixed effects mu
    intercept_mean : intercept of the population, at x = 0
    covariance : array of shape (d, d), Sigma of the slopes
    intercept_sd : standard deviation of c_t at the average input of all rows; NaN for free intercepts
    sigma2 : variance of the noise
    coef, intercept : arrays of shape (T, d) and (T,), the predicted coefficients (BLUPs) of every task
    scale : array of shape (d,), standard deviation of each feature about its mean (within tasks for free intercepts)
    history : log-likelihood after every step; it never falls
    relative_covariance : array of shape (p, p), of all unknowns over sigma2; a random intercept is the last
    residual : largest gradient of the log-likelihood per task, in parameters without units
    converged : whether `residual` is within the tolerance, or the fit exact (sigma2 at its least)
    bounded : whether sigma2 was held at its least because the likelihood grows without end towards an exact fit
    """

    mean: Array
    intercept_mean: float
    covariance: Array
    intercept_sd: float
    sigma2: float
    coef: Array
    intercept: Array
    scale: Array
    relative_covariance: Array
    history: Array
    converged: bool
    residual: float
    bounded: bool

    @property
    def relevance(self) -> Array:
        """Standard deviation between tasks of every coefficient: 0 for those that all tasks have in common."""
        return np.sqrt(np.diagonal(self.covariance))

    def root(self, floor: float = 1e-2) -> Array:
        """A matrix M (d, d) with M M' = Sigma: in distances between v, where w = M v, all directions vary alike.

        Standard deviations below `floor` times the largest, both in units of y per standard deviation of x, are raised
        to that. M is diagonal if Sigma is; without any variation between tasks it only scales the features.
        """
        value, vector = np.linalg.eigh(self.covariance * self.scale * self.scale[:, None])
        sd = np.sqrt(np.maximum(value, 0.0))
        sd = np.maximum(sd, floor * sd.max()) if sd.max() > 0 else np.ones_like(sd)
        return (vector * sd) @ vector.T / self.scale[:, None]


def mixed_model(
    gram: GramStats,
    covariance: str = "diagonal",
    intercept: str = "random",
    *,
    tol: float = MIXED_MODEL,
    max_iter: int = 1000,
    near: MixedModel | None = None,
) -> MixedModel:
    """Maximum-likelihood fit of the mixed model; asked for again with the same options it is not fitted again.

    Parameters
    ----------
    covariance : "diagonal" or "full"
    intercept : "random", c_t ~ N(c0, s^2) at the average input of all rows, one more coefficient in Sigma; or "free",
        one fixed effect per task, and the likelihood that of the rows about their task's mean
    tol : largest gradient of the log-likelihood per task, in parameters without units
    max_iter : steps at most
    near : a model of the same features to start from, of other weights or without correlations

    Examples
    --------
    Without noise and without difference between the slopes, the slope is common and its variance zero.

    >>> X, y = np.array([[0.0], [1.0], [2.0], [0.0], [1.0], [3.0]]), np.array([1.0, 3.0, 5.0, 4.0, 6.0, 10.0])
    >>> model = mixed_model(GramStats.from_rows(X, y, [0, 0, 0, 1, 1, 1]), intercept="free")
    >>> model.mean.round(6), model.relevance.round(3), model.intercept.round(6)
    (array([2.]), array([0.]), array([1., 4.]))
    """
    key = ("mixed model", covariance, intercept, tol, max_iter, near is None)
    return gram.once(key, lambda: _fitted(gram, covariance == "diagonal", intercept, tol, max_iter, near))


def _fitted(
    gram: GramStats, diagonal: bool, intercept: str, tol: float, max_iter: int, near: MixedModel | None
) -> MixedModel:
    equations = normal_equations(gram, RANDOM_INTERCEPTS[intercept])
    rows = np.maximum(gram.n - (intercept == "free"), 0.0)
    if rows.sum() <= 0 and gram.dispersion is None:
        raise ValueError(
            "no degrees of freedom: every task has at most 1 row, or weights that sum to at most 1, and its own "
            "intercept takes that. Fit more rows per task, or scale sample_weight so that a typical weight is 1"
        )
    units = scale_free_units(equations.G, diagonal=diagonal)
    # A full covariance is found in directions that mix the features: its caller leaves out those in common.
    fixed = np.pad(gram.common(), (0, int(equations.has_ones))) if diagonal else None
    data = compress(equations, units, rows, fixed, gram.dispersion)
    # Without spare rows a full Sigma can explain every target, and sigma2 -> 0 makes the likelihood infinite.
    saturated = not diagonal and gram.n_tasks > 1 and data.spare < 1 and data.noise is None
    if saturated:
        within = float(gram.yy.sum()) / max(float(np.maximum(gram.n - 1, 0.0).sum()), 1.0)
        data = replace(data, least_noise=max(data.least_noise, SATURATED_NOISE * within))
    start = None if near is None else _without_units(near.relative_covariance, units)
    solution = maximise(data, diagonal=diagonal, tol=tol, max_iter=max_iter, near=start)
    at_least = data.noise is None and solution.value.sigma2 <= data.least_noise
    solution = replace(solution, converged=solution.converged or (at_least and not saturated))
    return _in_units(gram, equations, units, solution, bounded=saturated and at_least)


def _without_units(covariance: Array, units: Array) -> Array:
    """A covariance of coefficients as one of the unknowns v in coefficients = units v."""
    size = np.sqrt((units**2).sum(axis=1))[:, None]  # of coefficients, which may differ by any power of ten
    size = np.where(size > 0, size, 1.0)  # a feature that never varies has none
    back = np.linalg.pinv(units / size) / size.T
    return back @ covariance @ back.T


def _in_units(
    gram: GramStats, equations: NormalEquations, units: Array, solution: Solution, *, bounded: bool
) -> MixedModel:
    state: Likelihood = solution.value
    d = gram.n_features
    W, c = equations.coefficients((state.mean + state.g @ state.P) @ units.T)
    mean = units @ state.mean
    root = units @ state.factor
    relative = root @ root.T  # not units P units', whose diagonal rounding may leave negative
    covariance = state.sigma2 * relative
    level = float(c.mean())
    sd = np.nan
    if equations.has_ones:
        level = float(mean[-1] + equations.y0[0] - equations.x0[0] @ mean[:d])
        sd = float(np.sqrt(covariance[-1, -1]))
    scale = np.sqrt(np.diagonal(equations.G, axis1=1, axis2=2).sum(axis=0)[:d] / gram.n.sum())
    scale = np.where(scale > 0, scale, 1.0)
    size = float(np.abs(gram.y_mean).max() + np.sqrt(gram.yy.sum() / gram.n.sum()))
    if (np.sqrt(np.diagonal(covariance)[:d]) * scale).max(initial=0.0) <= max(LAST_DIGIT * size, np.sqrt(TINY)):
        covariance = np.zeros_like(covariance)  # slopes that differ by less than the targets are rounded do not differ
    return MixedModel(
        mean=mean[:d],
        intercept_mean=level,
        covariance=covariance[:d, :d],
        intercept_sd=sd,
        sigma2=state.sigma2,
        coef=W,
        intercept=c,
        scale=scale,
        relative_covariance=relative,
        history=solution.history,
        converged=solution.converged,
        residual=solution.residual,
        bounded=bounded,
    )
