"""Variance components, with what their estimation leaves open: the law by which errors of predictions are judged.

    y_t = X_t (m + u_t) + e,    u_t ~ N(0, Sigma),  e ~ N(0, sigma2 I),  Sigma diagonal, the level one of the unknowns.

Estimates of greatest likelihood are too sure of themselves where rows are few: with two rows per task sigma2 = 0 is
often the maximum, and so is a variance of 0. Two steps make up for it, and change next to nothing where rows tell.

1. The variances of the slopes, in units of what the rows of a task tell, are drawn to their mean as far as their
   standard errors suggest (James and Stein 1961). With that of the level they are the shape P of Sigma.
2. Sigma = kappa sigma2 P. The restricted likelihood is integrated over kappa, under a prior that is uniform in the
   share of the noise in the variance of the targets (Daniels 1999), and over sigma2 under 1 / sigma2.

What comes out are the means of sigma2 and kappa sigma2. At 90 % a normal interval of this variance is as wide as that
of Student's distribution: for 5 degrees of freedom 2.12 and 2.02 times its scale, for 10 both 1.8. Where rows are too
few to tell a common m, coefficients are drawn around 0, and the level around that of all rows, with one kappa for all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kinfolk.rows.gram import TINY, Array, GramStats, evenly_chosen
from kinfolk.solvers.equations import normal_equations
from kinfolk.solvers.mixed.likelihood import Compressed, Likelihood, compress, scale_free_units, second_derivative
from kinfolk.solvers.mixed.maximum import maximise
from kinfolk.solvers.tolerances import LAST_DIGIT, MIXED_MODEL

MOST_TASKS = 500  # that are looked at: more would change little
STEPS = 200
FEWEST = 3  # tasks from which their differences are estimated
WIDEST = 14.0  # |log| of the ratio of variances, at most
NODES = 15
PASSES = 3  # of the nodes, each over the range that the last has left
NEGLIGIBLE = 20.0  # in the logarithm of the posterior
LEAST_INFORMATION = 1e-6  # eigenvalues of a correlation matrix of information: below, the rows say nothing


@dataclass(frozen=True, eq=False)
class VarianceComponents:
    """How tasks differ, and how far observations scatter about their task's line.

    Attributes
    ----------
    noise : sigma2
    mean : (d + 1,), slopes of a typical task and its level at the origin
    covariance : (d + 1, d + 1), of slopes and level between tasks
    mean_error : (d + 1, d + 1), covariance of the errors of `mean`
    x0, y0 : (d,) and a number, the origin
    """

    noise: float
    mean: Array
    covariance: Array
    mean_error: Array
    x0: Array
    y0: float


def integrated_components(gram: GramStats, noise: Array | None = None) -> VarianceComponents:
    """The components of tasks with rows; of many, of some that stand for all.

    `noise` (T,) says how much more than sigma2 the variance of the observations of a task is, if that differs.

    Examples
    --------
    Two rows for each of four tasks, no noise, the slopes 1, 2, 3 and 4: nothing but their differences is known.

    >>> X, y = np.tile([[-1.0], [1.0]], (4, 1)), np.array([-1.0, 1, -2, 2, -3, 3, -4, 4])
    >>> law = integrated_components(GramStats.from_rows(X, y, np.repeat(np.arange(4), 2)))
    >>> law.mean.round(2), bool(law.covariance[0, 0] > 1)
    (array([2.5, 0. ]), True)
    """
    if gram.n_tasks > MOST_TASKS:
        some = evenly_chosen(gram, MOST_TASKS)
        return integrated_components(gram.select(some), None if noise is None else noise[some])
    equations = normal_equations(gram if noise is None else gram.scaled(1 / noise), "coupled")
    unit = np.diagonal(scale_free_units(equations.G, diagonal=True))
    data = compress(equations, np.diag(unit), gram.n, np.pad(gram.common(), (0, 1)), gram.dispersion)
    rows_enough = data.noise is not None or 2 * data.basis.shape[1] <= data.N
    around_mean = gram.n_tasks >= FEWEST and rows_enough
    shape = _shape(data, maximise(data, diagonal=True, tol=MIXED_MODEL, max_iter=STEPS).value) if around_mean else None
    posterior = _integrated(_Spectral.of(data, shape))
    return VarianceComponents(
        posterior.noise,
        unit * posterior.mean,
        posterior.between * np.diag(unit**2 * (np.ones_like(unit) if shape is None else shape)),
        unit[:, None] * posterior.mean_error * unit,
        equations.x0[0],
        float(equations.y0[0]),
    )


def _shape(data: Compressed, state: Likelihood) -> Array:
    """Variances (p,) of greatest likelihood; those of slopes drawn to their mean as far as their errors suggest.

    The level, the last, stands alone: in most tables it varies more than any slope.
    """
    p = np.diagonal(state.P)
    M = second_derivative(data, state)
    information = np.diagonal(M)
    known = information > 0
    root = np.sqrt(np.where(known, information, 1.0))
    value, vector = np.linalg.eigh(M / root / root[:, None])
    # The deviance is twice the logarithm of the likelihood, so that its second derivative is twice the information.
    variance = 2 * (vector**2 / np.maximum(value, LEAST_INFORMATION)).sum(axis=1) / root**2
    slopes = known & (np.arange(len(p)) < len(p) - 1)
    shape = p.copy()
    if slopes.sum() > 1:
        mean = float(p[slopes].mean())
        excess = max(float(p[slopes].var(ddof=1) - variance[slopes].mean()), 0.0)
        # A weighted mean, not mean + (p - mean) share: beside a variance far larger, 0 must not become negative.
        shape[slopes] = (p[slopes] * excess + mean * variance[slopes]) / (excess + variance[slopes])
    return shape if shape.max() > 0 else (~data.fixed).astype(float)


@dataclass(frozen=True, eq=False)
class _Posterior:
    """Means of sigma2, of kappa sigma2, and of m with the covariance of its errors."""

    noise: float
    between: float
    mean: Array
    mean_error: Array


@dataclass(frozen=True, eq=False)
class _Spectral:
    """Tasks turned so that R_t P R_t' = diag(g_t): at every kappa their rows are independent, of variance 1 + kappa g.

    `basis` (p, r) spans the directions of m; none without a common mean.
    """

    g: Array
    R: Array
    z: Array
    remainder: float
    freedom: float
    basis: Array
    per_row: float
    noise: float | None

    @classmethod
    def of(cls, data: Compressed, shape: Array | None) -> _Spectral:
        """The tasks with a shape (p,) around a common mean, or without one around 0."""
        T, q = data.z.shape
        p = data.R.shape[2]
        B = data.R if shape is None else data.R * np.sqrt(shape)
        g, U = np.linalg.eigh(B @ B.transpose(0, 2, 1))
        R = np.broadcast_to(U.transpose(0, 2, 1) @ data.R, (T, q, p)).reshape(-1, p)
        z = np.broadcast_to(U.transpose(0, 2, 1), (T, q, q)) @ data.z[:, :, None]
        g = np.broadcast_to(np.maximum(g, 0.0), (T, q)).ravel()
        basis = data.basis[:, :0] if shape is None else data.basis
        # Targets are measured from their mean, which takes a row where no common mean does.
        freedom = max(data.N - max(basis.shape[1], 1), LAST_DIGIT * data.N, TINY)
        return cls(g, R, z.ravel(), data.remainder, freedom, basis, float(g.sum()) / max(data.N, TINY), data.noise)

    def at(self, log_kappa: float) -> tuple[float, float, Array, Array]:
        """Logarithm of the posterior, sum of squares, m, and the inverse of its information, at one kappa."""
        variance = 1 + np.exp(log_kappa) * self.g
        weighted = self.R / variance[:, None]
        A = self.basis.T @ (weighted.T @ self.R) @ self.basis
        root = np.sqrt(np.maximum(np.diagonal(A), TINY))
        value, vector = np.linalg.eigh(A / root / root[:, None])
        value = np.maximum(value, LAST_DIGIT)
        error = (vector / value @ vector.T) / root / root[:, None]
        m = self.basis @ (error @ (self.basis.T @ (weighted.T @ self.z)))
        squares = self.remainder + float(((self.z - self.R @ m) ** 2 / variance).sum())
        squares = max(squares, LAST_DIGIT**2 * float(self.z @ self.z), TINY)
        misfit = self.freedom * np.log(squares) if self.noise is None else squares / self.noise
        deviance = misfit + float(np.log(variance).sum())
        deviance += float(np.log(value).sum() + 2 * np.log(root).sum())
        # The share s of the noise in the variance of the targets is uniform: ds = s (1 - s) d log kappa.
        odds = log_kappa + np.log(max(self.per_row, TINY))
        return -deviance / 2 - np.logaddexp(0, odds) - np.logaddexp(0, -odds), squares, m, error


def _integrated(tasks: _Spectral) -> _Posterior:
    """Posterior means over kappa and sigma2, on nodes that close in on where the posterior is."""
    centre = -np.log(max(tasks.per_row, TINY))
    nodes = np.linspace(centre - WIDEST, centre + WIDEST, NODES)
    for _ in range(PASSES):
        log_posterior, squares, means, errors = zip(*(tasks.at(node) for node in nodes), strict=True)
        posterior = np.array(log_posterior)
        counts = np.flatnonzero(posterior >= posterior.max() - NEGLIGIBLE)
        low, high = nodes[max(counts[0] - 1, 0)], nodes[min(counts[-1] + 1, NODES - 1)]
        last, nodes = nodes, np.linspace(low, high, NODES)
    weight = np.exp(posterior - posterior.max())
    weight /= weight.sum()
    freedom = tasks.freedom
    # The mean of sigma2 given kappa; of less than three degrees of freedom it has none worth the name.
    sigma2 = np.array(squares) / max(freedom - 2, freedom / 3)
    if tasks.noise is not None:
        sigma2 = np.full_like(sigma2, tasks.noise)
    U = tasks.basis
    return _Posterior(
        float(weight @ sigma2),
        float(weight @ (sigma2 * np.exp(last))),
        np.tensordot(weight, means, axes=1),
        U @ np.tensordot(weight * sigma2, errors, axes=1) @ U.T,
    )
