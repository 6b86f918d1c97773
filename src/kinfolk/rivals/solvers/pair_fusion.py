"""Quadratic losses with all tasks tied pairwise by norms: the convex problem that TAT comes down to."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy import sparse

from kinfolk.progress import Callback
from kinfolk.rivals.solvers.admm import Splitting
from kinfolk.rows.gram import Array, GramStats
from kinfolk.solvers.batched import group_means, inverse, lengths, mean_diagonal, plus, relative, ridge_alone, times
from kinfolk.solvers.graph.edges import EdgeList, squared_distances
from kinfolk.solvers.solution import Solution
from kinfolk.solvers.tolerances import LAST_DIGIT, MARGIN, ROUNDING

EARLY = 200  # iterations in which rho follows the differences
LEAST_RHO = 1e-10  # of the typical curvature over T: below it H + rho T cannot be inverted where tasks lack data


def layer_penalties(lam_1: float, phi: float, n_layers: int) -> Array:
    """lam_h = lam_1 / phi^(h - 1).

    >>> layer_penalties(4.0, 2.0, 3)
    array([4., 2., 1.])
    """
    return lam_1 / phi ** np.arange(n_layers)


def collapse(lam: Array) -> tuple[float, int]:
    """The one penalty c = min over r of (lam_1 + ... + lam_r) / r that all layers amount to, and its largest r.

    >>> collapse(np.array([4.0, 2.0, 1.5]))
    (2.5, 3)
    >>> collapse(np.array([1.0, 2.0, 4.0]))
    (1.0, 1)
    """
    means = np.cumsum(lam) / np.arange(1, len(lam) + 1)
    c = float(means.min())
    return c, int(np.flatnonzero(means <= c * (1 + MARGIN))[-1]) + 1


@dataclass(frozen=True, eq=False)
class Quadratics:
    """f(W) = sum_t w_t'H_t w_t / 2 - b_t'w_t + constant."""

    H: Array
    b: Array
    constant: float = 0.0

    @classmethod
    def mean_squares(cls, gram: GramStats) -> Self:
        """sum_t ||X_t w_t - y_t||^2 / (T n_t)."""
        share = 1.0 / (gram.n_tasks * gram.n)
        return cls(2 * share[:, None, None] * gram.G, 2 * share[:, None] * gram.b, float(share @ gram.yy))

    def value(self, W: Array) -> float:
        """f(W)."""
        return self.constant + float(np.vdot(W, 0.5 * times(self.H, W) - self.b))

    def gradient(self, W: Array) -> Array:
        """H_t w_t - b_t, (T, d)."""
        return times(self.H, W) - self.b

    def pooled(self) -> Array:
        """The shortest w that minimises f with all rows equal."""
        return _pinv(self.H.sum(axis=0)) @ self.b.sum(axis=0)

    def fusing_penalty(self) -> float:
        """A penalty c at and above which all tasks are fused; for two tasks the smallest one.

        At the pooled fit with gradients g_i, the pair forces z_ij = (g_j - g_i) / T balance every g_i, and
        c >= max ||g_i - g_j|| / T keeps them within their balls.
        """
        g = self.gradient(np.tile(self.pooled(), (len(self.b), 1)))
        return float(np.sqrt(squared_distances(g).max())) / len(g)


def fuse_tasks(
    f: Quadratics, c: float, *, tol: float = 1e-8, max_iter: int = 10_000, callback: Callback | None = None
) -> Solution:
    """Minimise f(W) + c sum_{i<j} ||w_i - w_j||_2 by ADMM on the differences Q = E W.

    The W-step has the matrix blockdiag(H_t) + rho (T I - 11') (x) I_d: T solves of size d and one more (Woodbury). The
    Q-step is a group soft-threshold, whose multipliers z are dual feasible at every iteration. Tasks whose
    differences vanish in Q are averaged if that lowers the objective, so that fused means equal. The best W at the
    checks is kept, so the history never rises. Directions without data in any task keep the coefficient 0. `details`
    are the two parts of the residual.

    With H_t = I and b = V this is the proximal map of the penalty:

    >>> step = fuse_tasks(Quadratics(np.ones((2, 1, 1)), np.array([[0.0], [4.0]])), 1.0)
    >>> step.value.ravel().round(6)
    array([1., 3.])
    """
    if c == 0 or len(f.b) == 1 or not f.b.any():
        W = times(_pinv(f.H), f.b)
        residual = relative(f.gradient(W), f.b)
        details = {"stationarity": residual, "complementarity": 0.0}
        return Solution(W, 1, residual, True, "direct", history=np.array([objective(f, c, W)]), details=details)
    pairs = _Pairs(f, c)
    solution = pairs.run(tol=tol, max_iter=max_iter, callback=callback)
    return replace(solution, details=pairs.certificates(solution.value))


def objective(f: Quadratics, c: float, W: Array) -> float:
    """f(W) + c sum_{i<j} ||w_i - w_j||."""
    return f.value(W) + c * float(np.sqrt(squared_distances(W)).sum()) / 2


class _Pairs(Splitting):
    """W, the differences Z of all pairs, and the factors for rho."""

    check_every = 20

    def __init__(self, f: Quadratics, c: float) -> None:
        T, d = f.b.shape
        self.f = f
        self.c = c
        self.pairs = EdgeList.complete(T)
        self.E = self.pairs.differences()  # E'E = T I - 11'
        self.Et = sparse.csr_array(self.E.T)
        self.noise = ROUNDING * f.constant
        self.span = _range_projector(f.H.sum(axis=0))
        typical = float(mean_diagonal(f.H).mean())
        self.W = ridge_alone(f.H, f.b, 0.01 * typical)
        self.Z = self.U = np.zeros((self.E.shape[0], d))
        typical_length = float(np.median(lengths(self.image(self.W))))
        # c / ||difference|| is the curvature of the penalty: 5 to 50 times fewer iterations than rho ~ H / T.
        rho = c / typical_length if typical_length > 0 else typical / T
        self.least_rho = LEAST_RHO * typical / T
        self.rho = max(rho, self.least_rho)
        self._factorise()

    def _factorise(self) -> None:
        self.K = inverse(plus(self.f.H, self.rho * len(self.W)))
        # I - rho sum_t K_t without its cancellation.
        C = np.matmul(self.K, self.f.H).mean(axis=0)
        # The symmetric part on the directions with data: rounding must not make singular ones look regular.
        self.C_inverse = np.linalg.pinv(self.span @ (C + C.T) @ self.span / 2, rcond=LAST_DIGIT, hermitian=True)

    def nearest(self, target: Array) -> Array:
        """Woodbury: every task alone, then what the sum over tasks adds."""
        Kr = times(self.K, self.f.b + self.rho * (self.Et @ target))
        return Kr + self.rho * (self.K @ (self.C_inverse @ Kr.sum(axis=0)))

    def image(self, W: Array) -> Array:
        return self.E @ W

    def shrunk(self, V: Array) -> Array:
        length = lengths(V)
        least = self.c / self.rho
        cut = np.divide(least, length, out=np.ones_like(length), where=length > least)
        return V * (1 - cut)[:, None]

    def answer(self) -> tuple[float, Array]:
        """W itself, or with fused tasks at their means if that is better."""
        return min(((objective(self.f, self.c, W), W) for W in (self.W, self._fused())), key=lambda pair: pair[0])

    def certificate(self, point: Array, value: float) -> float:
        return max(self.certificates(point).values())

    def certificates(self, W: Array) -> dict[str, float]:
        """How well the multipliers, of length <= c by construction, prove W optimal; both are 0 at the minimum.

        stationarity: the gradient balances the multipliers, relative to ||b||; complementarity: the multipliers point
        along the differences, relative to f(0).
        """
        z = self.rho * self.U
        D = self.image(W)
        slack = self.c * float(lengths(D).sum()) - float(np.vdot(z, D))
        size = self.f.constant or float(np.linalg.norm(self.f.b) * np.linalg.norm(W))
        return {"stationarity": relative(self.f.gradient(W) + self.Et @ z, self.f.b), "complementarity": slack / size}

    def factor(self, n_iter: int) -> float:
        """Early on rho follows the differences: c over their upper quartile is the curvature of the penalty.

        Only while most pairs are apart, as fused ones have no curvature. Later on as for every ADMM, but rho stays
        where H_t + rho T can be inverted.
        """
        length = lengths(self.Z)
        apart = length[length > 0]
        factor = super().factor(n_iter)
        if n_iter <= EARLY and 2 * len(apart) > len(length):
            factor = self.c / float(np.quantile(apart, 0.75)) / self.rho
            factor = 1.0 if 1 / 3 < factor < 3 else factor
        return max(factor, self.least_rho / self.rho)

    def change_rho(self, factor: float) -> None:
        super().change_rho(factor)
        self._factorise()

    def _fused(self) -> Array:
        """W with the mean of every set of tasks that Z ties together."""
        return group_means(self.W, self.pairs.select(np.logical_not(self.Z.any(axis=1))).components())


def _pinv(H: Array) -> Array:
    """Directions without data get 0."""
    return np.linalg.pinv(H, rcond=MARGIN, hermitian=True)


def _range_projector(H: Array) -> Array:
    values, vectors = np.linalg.eigh(H)
    seen = vectors[:, values > MARGIN * values[-1]]
    return seen @ seen.T
