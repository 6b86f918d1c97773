"""MTRL: one covariance over the tasks, learned together with the coefficients (Zhang & Yeung 2010)."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import numpy as np

from kinfolk.methods.method import MultiTaskRegressor
from kinfolk.methods.model import Course, Model
from kinfolk.methods.parameters import number, parameters
from kinfolk.methods.structures import TaskCovariance
from kinfolk.progress import Callback
from kinfolk.rivals.solvers.proximal import Composite, minimise
from kinfolk.rivals.solvers.stopped import warn_of_stop
from kinfolk.rows.gram import TINY, Array, GramStats
from kinfolk.solvers.batched import mean_diagonal, plus, relative, ridge_alone, times
from kinfolk.solvers.tolerances import MARGIN

VALUE_FLOOR = 1e-8  # of the objective at W = 0: gaps are relative to the objective, but to no less than this


@parameters
class MTRL(MultiTaskRegressor):
    """Multi-task relationship learning: the coefficients and the covariance of the tasks that explains them.

    Minimises, over the coefficients W (T, d), own intercepts c and the covariance Om (positive semidefinite, trace 1),

        sum_t (1/n_t) ||X_t w_t + c_t - y_t||^2 + ridge/2 ||W||_F^2 + coupling/2 tr(W' Om^-1 W).

    For fixed W the best Om is (W W')^{1/2} over its trace, which leaves a convex problem in W alone,

        sum_t (1/n_t) ||X_t w_t + c_t - y_t||^2 + ridge/2 ||W||_F^2 + coupling/2 ||W||_*^2,

    with the sum of singular values ||W||_*. It is solved to a duality gap. Differs from the paper, which alternates
    between W and Om: a direction in which Om is nearly zero stays so, and with a jitter of 1e-6 the alternation stands
    3 % above the minimum on Syn 1 after 300 rounds (0.003 % if the jitter falls slowly). No inverse of Om appears.

    Parameters
    ----------
    ridge : penalty on ||W||^2, not negative
    coupling : penalty on tr(W' Om^-1 W), positive; large values leave few directions common to all tasks
    tol, max_iter : stop at a duality gap of `tol` relative to the objective; gradient steps at most
    callback : called with a `Progress` now and then

    Attributes
    ----------
    coef_, intercept_ : arrays of shape (T, d) and (T,); tasks_ : their labels
    structure_ : Om as a `TaskCovariance`
    objective_history_, n_iter_, converged_ : the course of the descent
    optimality_ : duality_gap (relative) and weights_residual, that of W given Om

    References
    ----------
    Y. Zhang, D.-Y. Yeung, A convex formulation for learning task relationships in multi-task learning, UAI 2010.

    Examples
    --------
    Two tasks with opposite slopes, 1 and -1: fully (anti)correlated.

    >>> X = [["a", 0.0], ["a", 1.0], ["b", 0.0], ["b", 1.0]]
    >>> model = MTRL(task=0, coupling=0.1).fit(np.array(X, dtype=object), [0.0, 1.0, 1.0, 0.0])
    >>> model.structure_
    TaskCovariance(2 tasks, rank 1, strongest correlation -1.00 between 'a' and 'b')
    """

    shares: ClassVar[str] = "task covariance"
    simplicity: ClassVar[int] = 80
    only_numbers: ClassVar[str] = (
        "its objective divides squared errors by rows, and its duality gap is that of squared errors"
    )
    quick: ClassVar[dict[str, Any]] = {"tol": 1e-4}
    default_grid: ClassVar[dict[str, tuple[Any, ...]]] = {
        "ridge": (1e-3, 1e-2, 1e-1),
        "coupling": (1e-3, 1e-2, 1e-1, 1.0),
    }

    facts: Any = None
    ridge: float = number(0.01, at_least=0)
    coupling: float = number(0.01, above=0, hint="without coupling use Independent")
    tol: float = 1e-6
    max_iter: int = 20_000
    callback: Callback | None = None

    def learn(self, gram: GramStats) -> Model:
        problem = squared_trace_norm_problem(gram, self.ridge, self.coupling)
        solution = minimise(
            problem, _start(problem, gram), tol=self.tol, max_iter=self.max_iter, callback=self.callback
        )
        Om = task_covariance(solution.value)
        certificates = {
            "duality_gap": solution.residual,
            "weights_residual": weights_residual(problem, solution.value, Om, self.coupling),
        }
        if not solution.converged:
            remedy = "Scale the features, raise ridge, max_iter or tol."
            warn_of_stop("MTRL", f"{solution.n_iter} steps", certificates, self.tol, remedy)
        course = Course(certificates, solution.history, solution.n_iter, solution.converged)
        return Model.of(gram, solution.value, structure=TaskCovariance(Om, gram.labels), course=course)


def squared_trace_norm_problem(gram: GramStats, ridge: float, coupling: float) -> Composite:
    """Mean squared errors + ridge/2 ||W||_F^2 + coupling/2 ||W||_*^2, with its duality gap.

    For f the smooth part the dual is max over U of -f*(-U) - ||U||_op^2 / (2 coupling). At U = -f'(W) the gap is
    <W, f'(W)> + coupling/2 ||W||_*^2 + ||f'(W)||_op^2 / (2 coupling): no system has to be solved for it.
    """
    # Means over rows, as in the paper: every task counts alike, whatever its number of rows.
    H = plus(2 * gram.G / gram.n[:, None, None], ridge)
    constant = float((gram.yy / gram.n).sum())
    curvature = max(float(np.linalg.eigvalsh(H).max()) * (1 + MARGIN), TINY)

    def relative_gap(W: Array, gradient: Array, value: float) -> float:
        # The dual norm of the trace norm is the largest singular value.
        steepest = float(np.linalg.norm(gradient, 2))
        gap = float(np.vdot(W, gradient)) + coupling / 2 * trace_norm(W) ** 2 + steepest**2 / (2 * coupling)
        return float(max(gap, 0.0) / max(value, VALUE_FLOOR * constant, TINY))

    return Composite(
        apply=partial(times, H),
        B=2 * gram.b / gram.n[:, None],
        constant=constant,
        curvature=curvature,
        prox=lambda V: shrink_squared_trace_norm(V, coupling / curvature),
        penalty=lambda W: coupling / 2 * trace_norm(W) ** 2,
        certificate=relative_gap,
    )


def trace_norm(W: Array) -> float:
    """||W||_*, the sum of the singular values."""
    return float(np.linalg.svd(W, compute_uv=False).sum())


def shrink_squared_trace_norm(V: Array, c: float) -> Array:
    """argmin over W of ||W - V||_F^2 / 2 + c/2 ||W||_*^2.

    The singular values s become s - c sum(s'), where positive: with r of them left, the sum of the new ones is
    sum(s_1..s_r) / (1 + c r), and r is the largest count for which the r-th stays positive.

    Examples
    --------
    >>> shrink_squared_trace_norm(np.diag([3.0, 1.0]), 1.0)
    array([[1.5, 0. ],
           [0. , 0. ]])
    """
    U, s, Q = np.linalg.svd(V, full_matrices=False)
    # The shift if the first 1, 2, ... values survive; the true count is the last whose value stays above its own.
    shift = c * np.cumsum(s) / (1 + c * np.arange(1, len(s) + 1))
    r = np.count_nonzero(s > shift)
    if r == 0:
        return np.zeros_like(V)
    return (U[:, :r] * (s[:r] - shift[r - 1])) @ Q[:r]


def task_covariance(W: Array) -> Array:
    """Om = (W W')^{1/2} / trace, through the singular values of W; I/T if W is zero.

    >>> task_covariance(np.array([[3.0, 0.0], [0.0, 1.0]]))
    array([[0.75, 0.  ],
           [0.  , 0.25]])
    """
    # (W W')^{1/2} = U diag(s) U': no root of a T x T matrix is needed.
    U, s, _ = np.linalg.svd(W, full_matrices=False)
    if s.sum() == 0:
        return np.eye(len(W)) / len(W)
    return (U * (s / s.sum())) @ U.T


def weights_residual(problem: Composite, W: Array, Om: Array, coupling: float) -> float:
    """||Om f'(W) + coupling W|| / ||Om B||: the gradient in W for fixed Om, times Om, so that no inverse appears."""
    off = Om @ (problem.apply(W) - problem.B) + coupling * W
    return relative(off, Om @ problem.B)


def _start(problem: Composite, gram: GramStats) -> Array:
    """Zero, or moderately shrunk ridge fits, whichever is better."""
    zero = np.zeros_like(problem.B)
    typical = float(np.mean(mean_diagonal(gram.G) / gram.n))
    if typical == 0:
        return zero
    # Far inside the data a start near the answer saves most of the steps; where shrinkage is strong zero is nearer.
    own = ridge_alone(2 * gram.G / gram.n[:, None, None], problem.B, 0.02 * typical)
    return own if problem.value(own, problem.apply(own)) < problem.constant else zero
