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

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from scipy.optimize import brentq, minimize_scalar
from scipy.sparse.csgraph import breadth_first_order
from scipy.special import digamma, polygamma

from kinfolk.methods.smoother import CoupledInverse, Smoother
from kinfolk.methods.stacking import model_errors
from kinfolk.rows.gram import TINY, Array, GramStats
from kinfolk.solvers.weights.direct import dense_matrix

LIKELIHOOD_UNKNOWNS = 2000  # dT up to which kappa is fitted; beyond, on as many tasks as fit in it


class HeldOut(NamedTuple):
    """Cross-validated mean squared errors of the tasks (T,), and the share of the rows that the models had seen."""

    errors: Array
    training: float


@dataclass(frozen=True, eq=False)
class Uncertainty:
    """Everything that standard deviations of predictions need.

    Attributes
    ----------
    noise : array of shape (T,), variance of an observation about its true mean
    kappa : how much wider than the penalties say the coefficients spread around what they are drawn to
    """

    smoothers: list[Smoother]
    gram: GramStats
    noise: Array
    kappa: float

    def std(self, X: Array, codes: NDArray[np.intp]) -> Array:
        """Standard deviation of a new observation at every row of X, whose task is `codes`."""
        tasks, position = np.unique(codes, return_inverse=True)
        variance = np.zeros(len(X))
        for smoother in self.smoothers:
            S = spread(smoother, tasks, self.kappa)
            rows = smoother.design(X, codes)
            variance += smoother.share * np.einsum("np,npq,nq->n", rows, S[position], rows)
        return np.sqrt(self.noise[codes] * (self.level()[codes] + np.maximum(variance, 0.0)))

    def level(self) -> Array:
        """1 for the new observation, and 1 / n_t for an intercept that is a mean of n_t of them."""
        free = sum(s.share for s in self.smoothers if not s.equations.has_ones)
        return 1 + free / np.maximum(self.gram.n, TINY)


def spread(smoother: Smoother, tasks: NDArray[np.intp], kappa: float) -> Array:
    """Covariance of the errors of the unknowns over sigma2, for some tasks: (k, p, p)."""
    whole, noise = smoother.inverse.diagonal(tasks)
    return noise + kappa * (whole - noise)


def uncertainty(
    smoothers: list[Smoother], gram: GramStats, W: Array, c: Array, held_out: HeldOut | None = None
) -> Uncertainty:
    """Noise and kappa of a model with coefficients W (T, d) and intercepts c (T,)."""
    if held_out is not None:
        return Uncertainty(smoothers, gram, *from_held_out(smoothers, gram, held_out))
    (smoother,) = smoothers
    tasks = sample(smoother, LIKELIHOOD_UNKNOWNS // smoother.equations.shape[1])
    sigma2, kappa = likelihood(smoother, gram.n, tasks)
    if len(tasks) < len(gram.n):
        return Uncertainty(smoothers, gram, np.full(len(gram.n), sigma2), kappa)
    freedom = residual_freedom(smoother, gram, kappa)
    ratio = np.maximum(model_errors(gram, W[None], c[None])[0], 0.0) / np.maximum(sigma2 * freedom, TINY)
    return Uncertainty(smoothers, gram, sigma2 * moderated(ratio, freedom), kappa)


def likelihood(smoother: Smoother, n: Array, tasks: NDArray[np.intp]) -> tuple[float, float]:
    """sigma2 and kappa of greatest likelihood, over the rows of some tasks and the edges between them.

    With U'(G + P)U = I and U'GU = diag(g) for the prior precision P / (kappa sigma2), entries of U'b are independent,
    with variances sigma2 (g + kappa g^2 / (1 - g)); those with g = 1 have no prior and say nothing about kappa. A hub
    knows its covariance already: kappa = 1.
    """
    equations = smoother.equations
    own = float((n[tasks] - (not equations.has_ones)).sum())  # rows left beside free intercepts
    if not isinstance(smoother.inverse, CoupledInverse):
        whole, _ = smoother.inverse.diagonal(tasks)
        V = smoother.unknowns()
        fit = float(equations.yy.sum() - 2 * (V * equations.b).sum() + np.einsum("tp,tpq,tq->", V, equations.G, V))
        return fit / max(own - float(np.einsum("tpq,tqp->", whole, equations.G)), 0.1 * own, TINY), 1.0
    system = smoother.inverse.system.restricted(tasks)
    G = np.zeros((len(tasks), system.b.shape[1]) * 2)
    G[np.arange(len(tasks)), :, np.arange(len(tasks))] = equations.G[tasks]
    g, U = linalg.eigh(G.reshape(system.b.size, -1), dense_matrix(system))
    return _best_spread(np.clip(g, 0.0, 1.0), U.T @ system.b.ravel(), float(equations.yy[tasks].sum()), own)


def _best_spread(g: Array, b: Array, yy: float, rows: float) -> tuple[float, float]:
    seen = g > 1e-10
    rest = max(yy - float((b[seen] ** 2 / g[seen]).sum()), 0.0)
    drawn = seen & (g < 1 - 1e-9)
    g, b = g[drawn], b[drawn]
    count = max(rows - float(seen.sum()), 0.0) + len(g)
    if count < 1:
        return TINY, 1.0

    def deviance(log_kappa: float) -> float:
        v = g + np.exp(log_kappa) * g**2 / (1 - g)
        return count * np.log(max(float((b**2 / v).sum()) + rest, TINY)) + float(np.log(v).sum())

    log_kappa = minimize_scalar(deviance, bounds=(-7.0, 10.0), method="bounded").x if len(g) else 0.0
    v = g + np.exp(log_kappa) * g**2 / (1 - g)
    return (float((b**2 / v).sum()) + rest) / count, float(np.exp(log_kappa))


def sample(smoother: Smoother, most: int) -> NDArray[np.intp]:
    """All tasks, or up to `most` of them that are near each other in the graph, breadth first from a few seeds."""
    T = len(smoother.equations.b)
    if most >= T or not isinstance(smoother.inverse, CoupledInverse):
        return np.arange(T)
    L, found = smoother.inverse.system.L, np.zeros(0, np.intp)
    for seed in np.random.default_rng(0).permutation(T):
        if seed not in found:
            near = breadth_first_order(L, seed, directed=False, return_predecessors=False)
            found = np.union1d(found, near[: max(most // 4, 1)])
        if len(found) >= most:
            break
    return np.sort(found[:most])


def residual_freedom(smoother: Smoother, gram: GramStats, kappa: float) -> Array:
    """Expected sum of squared residuals of every task over sigma2, if the prior is kappa times as wide."""
    whole, noise = smoother.inverse.diagonal(np.arange(gram.n_tasks))
    G = smoother.equations.G
    once, twice = np.einsum("tpq,tqp->t", whole, G), np.einsum("tpq,tqp->t", noise, G)
    own: Array = gram.n - (not smoother.equations.has_ones)
    return np.maximum(own - 2 * once + twice + kappa * (once - twice), 0.0)


def from_held_out(smoothers: list[Smoother], gram: GramStats, held_out: HeldOut) -> tuple[Array, float]:
    """Noise of every task and kappa from held-out errors: error_t = sigma2 (level_t + kappa spread_t).

    sigma2 comes from the residuals of the member with the largest share: regressed on the spread, held-out errors of
    a few small tasks would tell it badly.
    """
    every = np.arange(gram.n_tasks)
    largest = max(smoothers, key=lambda s: s.share)
    sigma2, _ = likelihood(largest, gram.n, sample(largest, LIKELIHOOD_UNKNOWNS // largest.equations.shape[1]))
    rows, pull = np.maximum(gram.n, TINY), np.zeros(gram.n_tasks)
    for smoother in smoothers:
        S = spread(smoother, every, 1.0)
        pull += smoother.share * np.einsum("tpq,tqp->t", S, new_rows(smoother.equations.G, rows))
    pull /= held_out.training  # with fewer rows the spread is wider, about in proportion
    level = Uncertainty(smoothers, gram, rows, 1.0).level()
    known = np.isfinite(held_out.errors)  # not so for tasks adopted since
    errors, rows, kappa = np.where(known, held_out.errors, 0.0), np.where(known, rows, 0.0), 1.0
    for _ in range(10):
        weight = rows / (level + kappa * pull) ** 2 * pull
        excess = float(weight @ (errors / max(sigma2, TINY) - level))
        kappa = max(excess / max(float(weight @ pull), TINY), 1e-3)
    expected = np.maximum(sigma2 * (level + kappa * pull), TINY)
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
    e = np.log(ratio[known]) - digamma(f / 2) + np.log(f / 2)
    excess = float(e.var(ddof=1) - polygamma(1, f / 2).mean())
    if excess <= 0:
        return np.ones_like(ratio)
    f0 = 2 * brentq(lambda x: float(polygamma(1, x)) - excess, 1e-4, 1e8) if excess < 1e7 else 0.0
    return (f0 + np.where(freedom > 0, freedom * ratio, 0.0)) / (f0 + freedom)
