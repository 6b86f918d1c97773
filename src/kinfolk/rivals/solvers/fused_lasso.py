"""Graph-guided fused lasso from Gram statistics: the problem, its duality gap and its solver.

min over W   1/2 sum_t ||X_t w_t - y_t||^2 + lam ||W||_1 + sum_e c_e ||w_i(e) - sign_e w_j(e)||_1
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Self

import numpy as np
from scipy import linalg, sparse

from kinfolk.progress import Callback
from kinfolk.rivals.solvers.admm import Splitting
from kinfolk.rivals.solvers.proximal import soft_threshold
from kinfolk.rows.gram import TINY, Array, GramStats, is_shared, task_loss
from kinfolk.solvers.batched import inverse, mean_diagonal, plus, times
from kinfolk.solvers.graph.edges import EdgeList
from kinfolk.solvers.krylov import conjugate_gradients
from kinfolk.solvers.solution import Solution
from kinfolk.solvers.weights.direct import dense_matrix
from kinfolk.solvers.weights.system import WeightSystem

DENSE_UNKNOWNS = 2000  # dT up to which one Cholesky factor serves all iterations
PERFECT = 1e-8  # of what there was to explain: a fit this good is perfect, and gaps are relative to that
INNER_TOL = 1e-9  # of a step by conjugate gradients


@dataclass(frozen=True, eq=False)
class FusedProblem:
    """One instance.

    Attributes
    ----------
    gram : statistics of the tasks
    lam : weight of ||W||_1, positive
    D : sparse (E, T); row e has 1 at task i(e) and -sign_e at task j(e), so that D W holds the differences
    c : array of shape (E,), weights of the differences

    Examples
    --------
    Two tasks of opposite sign: w_1 + w_2 is the difference that counts.

    >>> gram = GramStats.from_rows([[0.0], [1.0]], [[0.0, 0.0], [2.0, -2.0]])
    >>> FusedProblem.of(gram, 0.5, 3.0, np.array([[0.0, -0.5], [-0.5, 0.0]])).objective(np.array([[1.0], [-2.0]]))
    3.25
    """

    gram: GramStats
    lam: float
    D: sparse.csr_array
    c: Array

    @classmethod
    def of(cls, gram: GramStats, lam: float, gamma: float, R: Array) -> Self:
        """The problem for signed relations R (T, T): the pairs with R_ij != 0 are fused, with weight gamma |R_ij|."""
        i, j = np.nonzero(np.triu(R, k=1))
        D = EdgeList(i, j, gram.n_tasks).differences(np.sign(R[i, j]))
        return cls(gram, lam, D, gamma * np.abs(R[i, j]))

    def objective(self, W: Array) -> float:
        """The value at W."""
        fusion = float(self.c @ np.abs(self.D @ W).sum(axis=1))
        return float(task_loss(self.gram, W).sum()) / 2 + self.lam * float(np.abs(W).sum()) + fusion

    def dual_value(self, W: Array, multipliers: Array) -> float:
        """A lower bound on the objective, from W and multipliers of the differences (each within its c).

        With residuals theta = s (y - X W) the bound is <y, theta> - ||theta||^2 / 2. Such theta are feasible if
        X'theta minus s D'multipliers is within lam: s in [0, 1] sees to that.
        """
        rest = np.abs(self.gram.b - times(self.gram.G, W) - self.D.T @ multipliers).max(initial=0.0)
        largest = min(1.0, self.lam / max(float(rest), TINY))
        loss = float(task_loss(self.gram, W).sum())
        along = float(self.gram.yy.sum() - np.vdot(self.gram.b, W))
        s = min(max(along / max(loss, TINY), 0.0), largest)
        return s * along - s * s * loss / 2

    def relative_gap(self, upper: float, lower: float) -> float:
        """Distance of two bounds, relative to the upper one."""
        return max(upper - lower, 0.0) / max(upper, PERFECT * float(self.gram.yy.sum()), TINY)

    @cached_property
    def coupling(self) -> sparse.csr_array:
        """I + D'D."""
        return sparse.csr_array(sparse.eye_array(self.gram.n_tasks) + self.D.T @ self.D)

    def solver(self, rho: float) -> Callable[[Array, Array], Array]:
        """(right side, guess) -> W with G_t w_t + rho ((I + D'D) W)_t = right side."""
        T, d = self.gram.b.shape
        if is_shared(self.gram.G):
            return self._shared_solver(rho)
        system = WeightSystem(self.gram.G, self.gram.b, rho * self.coupling, np.ones(d), np.zeros(d))
        if T * d <= DENSE_UNKNOWNS:
            factor = linalg.cho_factor(dense_matrix(system), overwrite_a=True, check_finite=False)
            return lambda B, _: linalg.cho_solve(factor, B.ravel(), check_finite=False).reshape(T, d)
        blocks = inverse(plus(self.gram.G, system.pull))
        return lambda B, W: (
            conjugate_gradients(system.apply, B, partial(times, blocks), start=W, tol=INNER_TOL, max_iter=500).value
        )

    @cached_property
    def _spectra(self) -> tuple[Array, Array, Array, Array]:
        return *linalg.eigh(self.coupling.toarray()), *linalg.eigh(self.gram.G[0])

    def _shared_solver(self, rho: float) -> Callable[[Array, Array], Array]:
        m, U, h, Q = self._spectra
        divisor = np.maximum(h, 0.0) + rho * m[:, None]
        return lambda B, _: U @ ((U.T @ B @ Q) / divisor) @ Q.T


def solve_fused(problem: FusedProblem, *, tol: float, max_iter: int, callback: Callback | None = None) -> Solution:
    """ADMM on Z = (W, D W); one factorisation serves many iterations.

    Returns the best copy of W seen, which has exact zeros; `history` is the best objective so far, at every check.
    """
    return _Fused(problem).run(tol=tol, max_iter=max_iter, callback=callback)


class _Fused(Splitting):
    """Z holds a copy of W (T rows), then the differences (E rows)."""

    def __init__(self, problem: FusedProblem) -> None:
        T, d = problem.gram.b.shape
        self.problem = problem
        self.both = sparse.csr_array(sparse.vstack([sparse.eye_array(T), problem.D]))
        self.back = sparse.csr_array(self.both.T)
        self.level = np.append(np.full(T, problem.lam), problem.c)[:, None]
        self.W = np.zeros((T, d))
        self.Z = self.U = np.zeros((T + len(problem.c), d))
        self.lower = -np.inf
        self.rho = max(float(mean_diagonal(problem.gram.G).mean()), TINY)
        self.solve = problem.solver(self.rho)

    def nearest(self, target: Array) -> Array:
        return self.solve(self.problem.gram.b + self.rho * (self.back @ target), self.W)

    def image(self, W: Array) -> Array:
        return self.both @ W

    def shrunk(self, V: Array) -> Array:
        return soft_threshold(V, self.level / self.rho)

    def answer(self) -> tuple[float, Array]:
        copy = self.Z[: len(self.W)]
        return self.problem.objective(copy), copy

    def certificate(self, point: Array, value: float) -> float:
        """The gap to the best lower bound so far."""
        T = len(self.W)
        self.lower = max(self.lower, self.problem.dual_value(self.Z[:T], self.rho * self.U[T:]))
        return self.problem.relative_gap(value, self.lower)

    def change_rho(self, factor: float) -> None:
        super().change_rho(factor)
        self.solve = self.problem.solver(self.rho)
