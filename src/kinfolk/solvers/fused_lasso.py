"""Graph-guided fused lasso from Gram statistics: the problem, its duality gap and its solver.

min over W   1/2 sum_t ||X_t w_t - y_t||^2 + lam ||W||_1 + sum_e c_e ||w_i(e) - sign_e w_j(e)||_1
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import linalg, sparse

from kinfolk.progress import Callback, report
from kinfolk.rows.gram import TINY, Array, GramStats, is_shared, task_loss
from kinfolk.solvers.krylov import Operator, conjugate_gradients
from kinfolk.solvers.proximal import Descent, soft_threshold

CHECK_EVERY = 10  # iterations between two looks at the gap and the balance of the residuals
RELAXATION = 1.6
DENSE_UNKNOWNS = 2000  # dT up to which one Cholesky factor serves all iterations
LAST_BALANCE = 500  # the step is adapted up to here; a step that keeps changing need not converge


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
    def of(cls, gram: GramStats, lam: float, gamma: float, R: Array) -> FusedProblem:
        """The problem for signed relations R (T, T): the pairs with R_ij != 0 are fused, with weight gamma |R_ij|."""
        i, j = np.nonzero(np.triu(R, k=1))
        e, E = np.arange(len(i)), len(i)
        values = np.concatenate([np.ones(E), -np.sign(R[i, j])])
        D = sparse.coo_array((values, (np.concatenate([e, e]), np.concatenate([i, j]))), shape=(E, gram.n_tasks))
        return cls(gram, lam, sparse.csr_array(D), gamma * np.abs(R[i, j]))

    def objective(self, W: Array) -> float:
        """The value at W."""
        fusion = float(self.c @ np.abs(self.D @ W).sum(axis=1))
        return float(task_loss(self.gram, W).sum()) / 2 + self.lam * float(np.abs(W).sum()) + fusion

    def dual_value(self, W: Array, multipliers: Array) -> float:
        """A lower bound on the objective, from W and multipliers of the differences (each within its c).

        With residuals theta = s (y - X W) the bound is <y, theta> - ||theta||^2 / 2. Such theta are feasible if
        X'theta minus s D'multipliers is within lam: s in [0, 1] sees to that.
        """
        rest = np.abs(self.gram.b - self.G_times(W) - self.D.T @ multipliers).max(initial=0.0)
        largest = min(1.0, self.lam / max(float(rest), TINY))
        loss = float(task_loss(self.gram, W).sum())
        along = float(self.gram.yy.sum() - np.vdot(self.gram.b, W))
        s = min(max(along / max(loss, TINY), 0.0), largest)
        return s * along - s * s * loss / 2

    def relative_gap(self, upper: float, lower: float) -> float:
        """Distance of two bounds, relative to the upper one."""
        return max(upper - lower, 0.0) / max(upper, 1e-8 * float(self.gram.yy.sum()), TINY)

    def G_times(self, W: Array) -> Array:
        """G_t w_t for every task."""
        return np.matmul(self.gram.G, W[:, :, None])[:, :, 0]

    @cached_property
    def coupling(self) -> sparse.csr_array:
        """I + D'D."""
        return sparse.csr_array(sparse.eye_array(self.gram.n_tasks) + self.D.T @ self.D)

    def solver(self, rho: float) -> Callable[[Array, Array], Array]:
        """(right side, guess) -> W with G_t w_t + rho ((I + D'D) W)_t = right side."""
        T, d = self.gram.b.shape
        if is_shared(self.gram.G):
            return self._shared_solver(rho)
        if T * d <= DENSE_UNKNOWNS:
            factor = linalg.cho_factor(self._dense(rho), overwrite_a=True, check_finite=False)
            return lambda B, _: linalg.cho_solve(factor, B.ravel(), check_finite=False).reshape(T, d)
        blocks = np.linalg.inv(self.gram.G + rho * self.coupling.diagonal()[:, None, None] * np.eye(d))
        precondition: Operator = lambda r: np.matmul(blocks, r[:, :, None])[:, :, 0]  # noqa: E731
        apply: Operator = lambda V: self.G_times(V) + rho * (self.coupling @ V)  # noqa: E731
        return lambda B, W: conjugate_gradients(apply, B, precondition, start=W, tol=1e-9, max_iter=500).value

    @cached_property
    def _spectra(self) -> tuple[Array, Array, Array, Array]:
        return *linalg.eigh(self.coupling.toarray()), *linalg.eigh(self.gram.G[0])

    def _shared_solver(self, rho: float) -> Callable[[Array, Array], Array]:
        m, U, h, Q = self._spectra
        divisor = np.maximum(h, 0.0) + rho * m[:, None]
        return lambda B, _: U @ ((U.T @ B @ Q) / divisor) @ Q.T

    def _dense(self, rho: float) -> Array:
        T, d = self.gram.b.shape
        M = np.kron(rho * self.coupling.toarray(), np.eye(d)).reshape(T, d, T, d)
        t = np.arange(T)
        M[t, :, t, :] += self.gram.G
        return M.reshape(T * d, T * d)


def solve_fused(problem: FusedProblem, *, tol: float, max_iter: int, callback: Callback | None = None) -> Descent:
    """ADMM with the splits U = W and V = D W; one factorisation serves many iterations.

    Returns the best U seen, which has exact zeros; `history` is the best objective so far, at every check.
    """
    T, d = problem.gram.b.shape
    W = U = u = np.zeros((T, d))
    V = v = np.zeros((len(problem.c), d))
    rho = max(float(np.trace(problem.gram.G, axis1=1, axis2=2).mean()) / d, TINY)
    solve = problem.solver(rho)
    best, history = U, [problem.objective(U)]
    lower = problem.dual_value(U, v)
    gap, k = problem.relative_gap(history[-1], lower), 0
    while gap > tol and k < max_iter:
        W = solve(problem.gram.b + rho * (U - u + problem.D.T @ (V - v)), W)
        DW = problem.D @ W
        U_old, V_old = U, V
        u, v = u + RELAXATION * W + (1 - RELAXATION) * U, v + RELAXATION * DW + (1 - RELAXATION) * V
        U, V = soft_threshold(u, problem.lam / rho), soft_threshold(v, problem.c[:, None] / rho)
        u, v = u - U, v - V
        k += 1
        if k % CHECK_EVERY == 0 or k == max_iter:
            value = problem.objective(U)
            best = U if value <= history[-1] else best
            history.append(min(value, history[-1]))
            lower = max(lower, problem.dual_value(U, rho * v))
            gap = problem.relative_gap(history[-1], lower)
            report(callback, "fit", k, max_iter, history[-1])
            factor = _balance((W - U, DW - V), (U, V), (U - U_old, V - V_old), (u, v)) if k <= LAST_BALANCE else 1.0
            if factor != 1.0:
                rho, u, v = rho * factor, u / factor, v / factor
                solve = problem.solver(rho)
    return Descent(best, np.array(history), k, gap, gap <= tol)


Pair = tuple[Array, Array]


def _balance(primal: Pair, to: Pair, change: Pair, dual: Pair) -> float:
    """Factor for rho: the root of the ratio of both relative residuals, if that is far from one."""
    p = _norm(primal) / max(_norm(to), TINY)
    q = _norm(change) / max(_norm(dual), TINY)
    factor = np.sqrt(p / max(q, TINY))
    return float(np.clip(factor, 0.1, 10.0)) if p > 0 and not 0.4 < factor < 2.5 else 1.0


def _norm(pair: Pair) -> float:
    return float(np.hypot(np.linalg.norm(pair[0]), np.linalg.norm(pair[1])))
