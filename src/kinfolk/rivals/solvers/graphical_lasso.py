"""Sparse inverse covariance: the graphical lasso to a duality gap.

    min over Om > 0   -log|Om| + tr(S Om) + penalty sum_{i != j} |Om_ij|      (+ penalty sum_i Om_ii, if asked)

Newton steps in the orthant of the current signs are quadratic once these are right, and may stand still before. Newton
steps on the dual, whose unknowns are bounded and need no signs, come from anywhere, and start from further away.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg

from kinfolk.rows.gram import Array
from kinfolk.solvers.krylov import conjugate_gradients
from kinfolk.solvers.solution import Solution
from kinfolk.solvers.tolerances import LAST_DIGIT

FEW_STEPS = 4  # enough from an answer with the same signs
DESCENT = 1e-4  # share of the promised descent that a Newton step must bring (Armijo)
NEAR = 0.1  # distance to a bound, as a share of it, from which what presses against it goes there
HALVINGS = 0.5 ** np.arange(30)


def graphical_lasso(
    S: ArrayLike,
    penalty: float,
    *,
    penalise_diagonal: bool,
    start: Array | None = None,
    tol: float = 1e-8,
    max_iter: int = 200,
) -> Solution:
    """Precision matrix with exact zeros, for a covariance S of any rank.

    All work is done in units where S has a unit diagonal, so that variables of very different variance converge alike.

    Parameters
    ----------
    S : symmetric positive semidefinite matrix (T, T)
    penalise_diagonal : whether the diagonal is penalised too; if not, every variance in S must be positive
    start : the answer to a similar problem
    tol, max_iter : bound on the duality gap, per variable; Newton steps at most

    Returns
    -------
    Solution whose `value` is Om and whose `residual` is the gap per variable.

    Examples
    --------
    A covariance below the penalty leaves two variables independent; one above it is reduced by the penalty.

    >>> graphical_lasso([[1.0, 0.3], [0.3, 1.0]], 0.4, penalise_diagonal=False).value.round(6)
    array([[1., 0.],
           [0., 1.]])
    >>> np.linalg.inv(graphical_lasso([[1.0, 0.7], [0.7, 1.0]], 0.4, penalise_diagonal=False).value).round(4)
    array([[1. , 0.3],
           [0.3, 1. ]])
    """
    S = np.array(S, dtype=np.float64)
    if penalise_diagonal:
        S[np.diag_indices_from(S)] += penalty  # Om_ii > 0, so that this is the same
    variance = np.diagonal(S)
    if not (variance > 0).all():
        raise ValueError(
            f"variable {int(np.argmin(variance))} has no variance, and without a penalty on the diagonal its precision "
            "is unbounded. Use penalise_diagonal=True with a positive penalty."
        )
    root = np.sqrt(variance)
    unit = np.outer(root, root)
    R = penalty / unit
    np.fill_diagonal(R, 0.0)
    C = S / unit
    starts = [np.eye(len(C))] if start is None else [start * unit, np.eye(len(C))]
    # Rounding may have cost the first its least eigenvalues.
    definite = next(M for M in starts if np.isfinite(objective(M, C, R)))
    solution = _solve(C, R, definite, tol=tol, max_iter=max_iter)
    return Solution(
        solution.value / unit, solution.n_iter, solution.residual, solution.residual <= tol, solution.method
    )


def _solve(C: Array, R: Array, start: Array, *, tol: float, max_iter: int) -> Solution:
    """Newton steps from the start; if its signs are not those of the answer, Newton steps on the dual, which find them.

    The dual answer may still miss an entry that hardly differs from zero: Newton steps from there settle those.
    """
    best = _newton(C, R, start, tol=tol, max_iter=min(FEW_STEPS, max_iter))
    n_iter = best.n_iter
    if best.residual > tol:
        rough = _dual_newton(C, R, start, tol=tol, max_iter=max_iter - n_iter)
        end = _newton(C, R, rough.value, tol=tol, max_iter=max_iter - n_iter - rough.n_iter)
        n_iter += rough.n_iter + end.n_iter
        if end.residual < best.residual:
            best = end
    return Solution(best.value, n_iter, best.residual, best.residual <= tol, "Newton")


def _newton(C: Array, R: Array, Z: Array, *, tol: float, max_iter: int) -> Solution:
    """Newton steps within the orthant of the signs of Z (Olsen et al. 2012); the objective falls with every step."""
    value = objective(Z, C, R)
    gap = gap_per_variable(Z, C, R)
    for k in range(max_iter + 1):
        if gap <= tol or k == max_iter or np.isinf(value):  # rounding may have left Z indefinite
            break
        Sigma = _inverse(Z)
        gradient = C - Sigma
        sign = np.where(Z != 0, np.sign(Z), -np.sign(gradient) * (np.abs(gradient) > R))
        np.fill_diagonal(sign, 1.0)
        slope = np.where(sign != 0, gradient + R * sign, 0.0)
        # Sigma D Sigma = -slope on the entries that are not zero or want to leave zero.
        direction = _restricted_step(Sigma, Z, -slope, sign != 0, tol=float(np.linalg.norm(slope)))
        for step in HALVINGS:
            trial = Z + step * direction
            trial = np.where(np.sign(trial) == sign, trial, 0.0)
            trial_value = objective(trial, C, R)
            if trial_value <= value + DESCENT * np.vdot(slope, trial - Z) + LAST_DIGIT * abs(value):
                break
        # What the objective gains is lost in rounding before the gap, which is linear in the slope, has closed.
        trial_gap = gap_per_variable(trial, C, R)
        if trial_value >= value and not trial_gap < gap:
            break
        Z, value, gap = trial, trial_value, trial_gap
    return Solution(Z, k, gap, gap <= tol, "Newton")


def _dual_newton(C: Array, R: Array, start: Array, *, tol: float, max_iter: int) -> Solution:
    """Newton steps on max log|C + U| over |U_ij| <= R_ij, projected onto the box (Bertsekas 1982).

    Its gradient (C + U)^-1 is the precision: zero in the end where U is inside its bounds, and of the sign of U where
    it is at one. What presses against a bound is held there for a step; a step frees and catches any number.
    """
    U = _inside(C, R, start)
    log_det = _log_det(C + U)
    if np.isinf(log_det):  # by rounding
        return Solution(start, 0, np.inf, False, "dual Newton")
    share = 1.0
    for k in range(max_iter + 1):
        Sigma = C + U
        precision = _inverse(Sigma)
        near = np.abs(U) >= R * (1 - min(NEAR, share))
        held = near & (U * precision >= 0)  # with the diagonal, where both are 0
        Z = np.where(held, precision, 0.0)
        gap = (objective(Z, C, R) - len(C) - log_det) / len(C)
        if gap <= tol or k == max_iter:
            break
        slope = precision - Z
        share = float(np.linalg.norm(slope) / np.linalg.norm(precision))
        direction = _restricted_step(precision, Sigma, slope, ~held, tol=share)
        direction = np.where(held, np.sign(U) * R - U, direction)
        for step in HALVINGS:
            trial = np.clip(U + step * direction, -R, R)
            trial_log_det = _log_det(C + trial)
            if trial_log_det >= log_det + DESCENT * np.vdot(precision, trial - U):
                break
        if trial_log_det <= log_det:
            break
        U, log_det = trial, trial_log_det
    # Before the end, the precision without its small entries need not be definite.
    return Solution(Z if np.isfinite(gap) else precision, k, gap, gap <= tol, "dual Newton")


def _inside(C: Array, R: Array, start: Array) -> Array:
    """U within its bounds with C + U definite: that of the start, or as much of the way to it as that allows."""
    wanted = np.clip(_inverse(start) - C, -R, R)
    # All off-diagonal entries smaller by one share: C, which is semidefinite, on its way to the identity.
    apart = ~np.eye(len(C), dtype=bool)
    share = float(R.min(where=apart, initial=1.0))
    safe = np.where(apart, -share * C, 0.0)
    for way in HALVINGS[:5]:
        U = safe + way * (wanted - safe)
        if np.isfinite(_log_det(C + U)):
            return U
    return safe


def _restricted_step(M: Array, inverse: Array, b: Array, free: NDArray[np.bool_], *, tol: float) -> Array:
    """D with M D M = b on the free entries and 0 on the others, to a share `tol`."""
    solution = conjugate_gradients(
        lambda V: np.where(free, M @ V @ M, 0.0),
        b,
        lambda r: np.where(free, inverse @ r @ inverse, 0.0),  # exact if all entries were free
        tol=min(0.1, tol),
        max_iter=100,
    )
    return (solution.value + solution.value.T) / 2


def objective(Om: Array, S: Array, R: Array) -> float:
    """-log|Om| + tr(S Om) + sum R_ij |Om_ij|; infinite if Om is not positive definite.

    >>> objective(np.eye(2), np.eye(2), np.ones((2, 2)))
    4.0
    """
    return float(np.vdot(S, Om) + np.vdot(R, np.abs(Om))) - _log_det(Om)


def gap_per_variable(Om: Array, S: Array, R: Array) -> float:
    """Primal minus dual value, over the number of variables; infinite if Om or the dual point is not definite.

    The dual is max log|S + U| + T over |U_ij| <= R_ij; the point used is Om^-1 - S, clipped to these bounds.

    >>> gap_per_variable(np.eye(2), np.eye(2), np.zeros((2, 2)))
    0.0
    """
    value = objective(Om, S, R)
    return np.inf if np.isinf(value) else _gap(value, _inverse(Om), S, R)


def _log_det(M: Array) -> float:
    """Of a definite matrix; -inf for others."""
    try:
        factor = linalg.cholesky(M, lower=True, check_finite=False)
    except linalg.LinAlgError:
        return -np.inf
    return float(2 * np.log(np.diagonal(factor)).sum())


def _inverse(Om: Array) -> Array:
    """The inverse of a definite matrix."""
    return linalg.cho_solve((linalg.cholesky(Om, lower=True), True), np.eye(len(Om)))


def _gap(value: float, Sigma: Array, S: Array, R: Array) -> float:
    dual_point = S + np.clip(Sigma - S, -R, R)
    return max((value - len(S) - _log_det(dual_point)) / len(S), 0.0)
