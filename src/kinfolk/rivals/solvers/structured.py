"""The two steps of MSSL, its objective and its certificates."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from kinfolk.progress import Callback, report
from kinfolk.rivals.solvers.graphical_lasso import gap_per_variable, graphical_lasso
from kinfolk.rivals.solvers.proximal import Composite, minimise, soft_threshold
from kinfolk.rows.gram import TINY, Array, GramStats
from kinfolk.solvers.batched import inverse, mean_diagonal, plus, relative, ridge_alone, times
from kinfolk.solvers.krylov import conjugate_gradients
from kinfolk.solvers.solution import Solution
from kinfolk.solvers.tolerances import MARGIN, ROUNDING
from kinfolk.solvers.weights import WeightSystem, choose_method, solve_system

WEIGHTS_TOL = 1e-9  # relative residual of the weight step, where it is iterative

INNER = 0.1  # the precision step is solved to this share of the gap that the round before left
PRECISION_STEPS = 60  # per round: an unfinished precision step goes on in the next


@dataclass(frozen=True, eq=False)
class StructuredProblem:
    """min over W, Om > 0 of

        sum_t (1/n_t) ||X_t w_t - y_t||^2 + lasso ||W||_1
            + strength d/2 (tr(S Om) - log|Om| + sparsity ||Om||_1),      S = W W' / d.

    Attributes
    ----------
    H, B, constant : 2 G_t / n_t, 2 b_t / n_t and the sum of yy_t / n_t: the first term is constant - <B, W> + <W, HW>/2
    labels : names of the tasks, for messages
    penalise_diagonal : whether ||Om||_1 counts the diagonal
    """

    H: Array
    B: Array
    constant: float
    labels: NDArray[Any]
    strength: float
    sparsity: float
    lasso: float
    penalise_diagonal: bool

    @classmethod
    def of(cls, gram: GramStats, unit: float, **parameters: Any) -> Self:
        """The problem of these statistics, with targets measured in `unit`."""
        H = 2 * gram.G / gram.n[:, None, None]
        B = 2 * gram.b / gram.n[:, None] / unit
        return cls(H, B, float((gram.yy / gram.n).sum()) / unit**2, gram.labels, **parameters)

    def start(self, shrink: float = 0.01) -> Array:
        """Ridge fits of every task alone, moderately shrunk."""
        penalty = shrink * float(mean_diagonal(self.H).mean())
        return ridge_alone(self.H, self.B, penalty if penalty > TINY else 1.0)  # features that never vary

    def objective(self, W: Array, Om: Array) -> float:
        """F at (W, Om)."""
        loss = self.constant + float(np.vdot(W, times(self.H, W) / 2 - self.B))
        return loss + self.lasso * float(np.abs(W).sum()) + self._prior(W, Om)

    def _prior(self, W: Array, Om: Array) -> float:
        absolute = np.abs(Om).sum() - (0.0 if self.penalise_diagonal else np.trace(np.abs(Om)))
        log_det = 2 * np.log(np.diagonal(linalg.cholesky(Om, lower=True))).sum()
        return self.strength / 2 * float(np.vdot(W, Om @ W) + W.shape[1] * (self.sparsity * absolute - log_det))

    def precision_step(self, W: Array, before: Array | None, *, tol: float) -> Array:
        """The best Om for W: a graphical lasso, to a gap of `tol`. An answer no better than `before` is not taken."""
        S = W @ W.T / W.shape[1]
        self._check_variances(np.diagonal(S))
        Om = graphical_lasso(
            S,
            self.sparsity,
            penalise_diagonal=self.penalise_diagonal,
            start=before,
            tol=tol,
            max_iter=PRECISION_STEPS,
        ).value
        if before is not None and self._prior(W, Om) > self._prior(W, before):
            return before
        return Om

    def weight_step(self, W: Array, Om: Array) -> Solution:
        """The best W for Om, from the present W."""
        system = self._system(Om)
        if self.lasso > 0:
            return self._lasso_step(system, W, Om)
        method = choose_method(system)
        if method != "cg":
            return solve_system(system, method=method)
        least = ROUNDING * mean_diagonal(self.H)  # for few rows and an Om tiny beside H
        blocks = inverse(plus(self.H, self.strength * np.diagonal(Om) + least))
        return conjugate_gradients(
            system.apply, self.B, partial(times, blocks), start=W, tol=WEIGHTS_TOL, max_iter=5000
        )

    def _system(self, Om: Array) -> WeightSystem:
        d = self.B.shape[1]
        return WeightSystem(self.H, self.B, sparse.csr_array(self.strength * Om), np.ones(d), np.zeros(d))

    def _lasso_step(self, system: WeightSystem, W: Array, Om: Array) -> Solution:
        curvature = self._curvature(Om)
        problem = Composite(
            apply=system.apply,
            B=self.B,
            constant=self.constant,
            curvature=curvature,
            prox=lambda V: soft_threshold(V, self.lasso / curvature),
            penalty=lambda V: self.lasso * float(np.abs(V).sum()),
            certificate=lambda V, gradient, value: self._stationarity(V, gradient, curvature),
        )
        return minimise(problem, W, tol=WEIGHTS_TOL, max_iter=20_000)

    @cached_property
    def _own_curvature(self) -> Array:
        return np.linalg.eigvalsh(self.H)[:, -1:]

    def _curvature(self, Om: Array) -> Array:
        """Bound on the Hessian in W, one number per task (T, 1)."""
        coupled = float(np.linalg.eigvalsh(Om)[-1])  # all of them: asked for one alone, LAPACK gives up on odd matrices
        return (self._own_curvature + self.strength * coupled) * (1 + MARGIN)

    def _stationarity(self, W: Array, gradient: Array, curvature: Array) -> float:
        """Length of a proximal gradient step from W, in units of the gradient, relative to B."""
        step = gradient
        if self.lasso > 0:
            step = curvature * (W - soft_threshold(W - gradient / curvature, self.lasso / curvature))
        return relative(step, self.B)

    def weights_residual(self, W: Array, Om: Array) -> float:
        """How far W is from stationary for Om; without a lasso, the relative residual of the linear system."""
        gradient = self._system(Om).apply(W) - self.B
        return self._stationarity(W, gradient, self._curvature(Om))

    def precision_gap(self, W: Array, Om: Array) -> float:
        """Duality gap of Om as the best precision for W, per task."""
        T, d = W.shape
        S = W @ W.T / d + self.penalise_diagonal * self.sparsity * np.eye(T)
        return gap_per_variable(Om, S, self.sparsity * (1 - np.eye(T)))

    def _check_variances(self, variance: Array) -> None:
        if self.penalise_diagonal or variance.min() > max(MARGIN * variance.max(), np.sqrt(TINY)):
            return
        name = self.labels[[np.argmin(variance)]].tolist()[0]
        raise ValueError(
            f"the coefficients of task {name!r} have shrunk to zero, and with penalise_diagonal=False its precision is "
            "then unbounded. Use penalise_diagonal=True or a smaller strength."
        )


def alternate(problem: StructuredProblem, *, tol: float, max_iter: int, callback: Callback | None = None) -> Solution:
    """Om and W in turn, each exactly, from a point `ahead` of the last W along its last move.

    A round that climbs is undone and the next one starts from W itself, where no round can climb. Measured on the
    Parkinson data: 36 to 113 rounds to a gap of 1e-6, more than 200 for very weak penalties. The answer is W, with Om
    in `details`; the residual is the gap of Om.
    """
    W = ahead = problem.start()
    Om = problem.precision_step(W, None, tol=INNER)
    history = [problem.objective(W, Om)]
    gap = np.inf
    t = 1.0
    k = 0
    while gap > tol and k < max_iter:
        Om_new = problem.precision_step(ahead, Om, tol=INNER * max(tol, min(gap, 0.01)))
        W_new = problem.weight_step(ahead, Om_new).value
        value = problem.objective(W_new, Om_new)
        k += 1
        # The gap still falls when changes of the objective, a difference of larger terms, are lost in rounding.
        if value > history[-1] + ROUNDING * (problem.constant + abs(value)):
            if ahead is W:  # a step that cannot climb: nothing more can be gained
                break
            ahead = W
            t = 1.0
            continue
        t_old = t
        t = (1 + np.sqrt(1 + 4 * t * t)) / 2  # the momentum of Nesterov's sequence
        ahead = W_new + (t_old - 1) / t * (W_new - W) if t_old > 1 else W_new
        W, Om = W_new, Om_new
        gap = problem.precision_gap(W, Om)
        history.append(min(value, history[-1]))
        report(callback, "fit", k, max_iter, value)
    return Solution(W, k, gap, gap <= tol, "alternation", history=np.array(history), details={"precision": Om})
