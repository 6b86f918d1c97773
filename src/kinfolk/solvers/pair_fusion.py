"""Quadratic losses with all tasks tied pairwise by norms: the convex problem that TAT comes down to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import sparse

from kinfolk.progress import Callback, report
from kinfolk.rows.gram import Array, GramStats
from kinfolk.solvers.graph.edges import EdgeList, squared_distances
from kinfolk.solvers.solution import Solution

CHECK_EVERY = 20  # iterations between two looks at the certificates
EARLY = 200  # iterations in which rho follows the differences
LEAST_RHO = 1e-10  # of the typical curvature over T: below it H + rho T cannot be inverted where tasks lack data
OVER_RELAXATION = 1.6
NULL = 1e-12  # eigenvalues below this share of the largest are directions without data


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
    return c, int(np.flatnonzero(means <= c * (1 + 1e-12))[-1]) + 1


@dataclass(frozen=True, eq=False)
class Quadratics:
    """f(W) = sum_t w_t'H_t w_t / 2 - b_t'w_t + constant."""

    H: Array
    b: Array
    constant: float = 0.0

    @classmethod
    def mean_squares(cls, gram: GramStats) -> Quadratics:
        """sum_t ||X_t w_t - y_t||^2 / (T n_t)."""
        share = 1.0 / (gram.n_tasks * gram.n)
        return cls(2 * share[:, None, None] * gram.G, 2 * share[:, None] * gram.b, float(share @ gram.yy))

    def value(self, W: Array) -> float:
        """f(W)."""
        return self.constant + float(np.vdot(W, 0.5 * _each(self.H, W) - self.b))

    def gradient(self, W: Array) -> Array:
        """H_t w_t - b_t, (T, d)."""
        return _each(self.H, W) - self.b

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


class Fusion(NamedTuple):
    """The solution, the objective at every check, and the certificates at the end."""

    solution: Solution
    history: Array
    optimality: dict[str, float]


def fuse_tasks(
    f: Quadratics, c: float, *, tol: float = 1e-8, max_iter: int = 10_000, callback: Callback | None = None
) -> Fusion:
    """Minimise f(W) + c sum_{i<j} ||w_i - w_j||_2 by ADMM on the differences Q = E W.

    The W-step has the matrix blockdiag(H_t) + rho (T I - 11') (x) I_d: T solves of size d and one more (Woodbury). The
    Q-step is a group soft-threshold, whose multipliers z are dual feasible at every iteration. Tasks whose
    differences vanish in Q are averaged if that lowers the objective, so that fused means equal. The best W at the
    checks is kept, so the history never rises. Directions without data in any task keep the coefficient 0.

    With H_t = I and b = V this is the proximal map of the penalty:

    >>> step = fuse_tasks(Quadratics(np.ones((2, 1, 1)), np.array([[0.0], [4.0]])), 1.0)
    >>> step.solution.value.ravel().round(6)
    array([1., 3.])
    """
    if c == 0 or len(f.b) == 1 or not f.b.any():
        W = _each(_pinv(f.H), f.b)
        residual = float(np.linalg.norm(f.gradient(W)) / max(np.linalg.norm(f.b), np.finfo(float).tiny))
        optimality = {"stationarity": residual, "complementarity": 0.0}
        return Fusion(Solution(W, 1, residual, True, "direct"), np.array([objective(f, c, W)]), optimality)
    state = _Iteration(f, c)
    best, history = state.W, [objective(f, c, state.W)]
    converged = False
    for k in range(1, max_iter + 1):
        state.step()
        if k % CHECK_EVERY and k < max_iter:
            continue
        value, W = min(((objective(f, c, W), W) for W in (state.W, state.fused())), key=lambda pair: pair[0])
        # At rounding level the newer W is the better one, by its certificates.
        if value <= history[-1] + 1e-13 * max(f.constant, abs(value)):
            best = W
            history.append(min(value, history[-1]))
        report(callback, "fit", k, max_iter, history[-1])
        converged = max(state.certificates(best).values()) <= tol
        if converged:
            break
        state.rebalance(early=k <= EARLY)
    optimality = state.certificates(best)
    solution = Solution(best, k, max(optimality.values()), converged, "admm", state.rho * state.U)
    return Fusion(solution, np.array(history), optimality)


def objective(f: Quadratics, c: float, W: Array) -> float:
    """f(W) + c sum_{i<j} ||w_i - w_j||."""
    return f.value(W) + c * float(np.sqrt(squared_distances(W)).sum()) / 2


def pair_differences(T: int) -> sparse.csr_array:
    """E with (E W)_e = w_i - w_j for all pairs i < j; E'E = T I - 11'."""
    pairs = EdgeList.complete(T)
    e = np.arange(len(pairs))
    signs = np.repeat([1.0, -1.0], len(e))
    return sparse.csr_array((signs, (np.tile(e, 2), np.concatenate([pairs.i, pairs.j]))), shape=(len(e), T))


class _Iteration:
    """The state of the ADMM: W, the differences Q, the scaled multipliers U = z / rho, and the factors for rho."""

    def __init__(self, f: Quadratics, c: float) -> None:
        E = pair_differences(len(f.b))
        self.f, self.c, self.E, self.Et = f, c, E, sparse.csr_array(E.T)
        T, d = f.b.shape
        self.span = _range_projector(f.H.sum(axis=0))
        typical = float(np.trace(f.H, axis1=1, axis2=2).mean()) / d
        W0 = np.linalg.solve(f.H + 0.01 * typical * np.eye(d), f.b[:, :, None])[:, :, 0]
        spread = float(np.median(np.linalg.norm(E @ W0, axis=1)))
        # c / ||difference|| is the curvature of the penalty: 5 to 50 times fewer iterations than rho ~ H / T.
        rho = c / spread if spread > 0 else typical / T
        self.least_rho = LEAST_RHO * typical / T
        self._factor(max(rho, self.least_rho))
        self.W, self.Q = W0, np.zeros((E.shape[0], d))
        self.U = np.zeros_like(self.Q)

    def _factor(self, rho: float) -> None:
        T, d = self.f.b.shape
        self.rho = rho
        self.K = np.linalg.inv(self.f.H + rho * T * np.eye(d))
        # I - rho sum_t K_t without its cancellation.
        C = np.matmul(self.K, self.f.H).mean(axis=0)
        self.C_inverse = np.linalg.pinv(self.span @ (C + C.T) @ self.span / 2, rcond=1e-15, hermitian=True)

    def step(self) -> None:
        """One round: W exactly, Q by soft-thresholding, U by the mismatch."""
        Kr = _each(self.K, self.f.b + self.rho * (self.Et @ (self.Q - self.U)))
        self.W = Kr + self.rho * (self.K @ (self.C_inverse @ Kr.sum(axis=0)))
        self.D = self.E @ self.W
        V = OVER_RELAXATION * self.D + (1 - OVER_RELAXATION) * self.Q + self.U
        length, least = np.linalg.norm(V, axis=1), self.c / self.rho
        cut = np.divide(least, length, out=np.ones_like(length), where=length > least)
        self.Q = V * (1 - cut)[:, None]
        self.U = V - self.Q

    def certificates(self, W: Array) -> dict[str, float]:
        """How well the multipliers, of length <= c by construction, prove W optimal; both are 0 at the minimum.

        stationarity: the gradient balances the multipliers, relative to ||b||; complementarity: the multipliers point
        along the differences, relative to f(0).
        """
        z, D = self.rho * self.U, self.E @ W
        balance = self.f.gradient(W) + self.Et @ z
        slack = self.c * float(np.linalg.norm(D, axis=1).sum()) - float(np.vdot(z, D))
        size = self.f.constant or float(np.linalg.norm(self.f.b) * np.linalg.norm(W))
        return {
            "stationarity": float(np.linalg.norm(balance) / np.linalg.norm(self.f.b)),
            "complementarity": slack / size,
        }

    def rebalance(self, *, early: bool) -> None:
        """Early on rho follows the differences; later it changes where one residual lags far behind the other."""
        length = np.linalg.norm(self.Q, axis=1)
        apart = length[length > 0]
        if early and 2 * len(apart) > len(length):
            factor = self.c / float(np.quantile(apart, 0.75)) / self.rho
        else:
            primal = np.linalg.norm(self.D - self.Q) / (np.sqrt(len(self.W)) * np.linalg.norm(self.W) + 1e-300)
            balance = self.f.gradient(self.W) + self.rho * (self.Et @ self.U)
            dual = np.linalg.norm(balance) / np.linalg.norm(self.f.b)
            factor = float(np.clip(np.sqrt((primal + 1e-300) / (dual + 1e-300)), 0.2, 5.0))
        factor = max(factor, self.least_rho / self.rho)
        if factor > 3 or factor < 1 / 3:
            self.U /= factor
            self._factor(self.rho * factor)

    def fused(self) -> Array:
        """W with the mean of every set of tasks that Q ties together."""
        tied = np.flatnonzero(~self.Q.any(axis=1))
        links = abs(self.E[tied])
        _, group = sparse.csgraph.connected_components(links.T @ links, directed=False)
        sums = np.zeros((group.max() + 1, self.W.shape[1]))
        np.add.at(sums, group, self.W)
        return (sums / np.bincount(group)[:, None])[group]


def _each(H: Array, W: Array) -> Array:
    """H_t w_t for every task."""
    return np.matmul(H, W[:, :, None])[:, :, 0]


def _pinv(H: Array) -> Array:
    return np.linalg.pinv(H, rcond=NULL, hermitian=True)


def _range_projector(H: Array) -> Array:
    values, vectors = np.linalg.eigh(H)
    seen = vectors[:, values > NULL * values[-1]]
    return seen @ seen.T
