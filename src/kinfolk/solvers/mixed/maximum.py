"""The maximum of the likelihood of a mixed model over the covariance of its tasks."""

from __future__ import annotations

from itertools import chain

import numpy as np
from scipy.optimize import OptimizeResult, minimize, nnls

from kinfolk.rows.gram import Array
from kinfolk.solvers.batched import square_root
from kinfolk.solvers.mixed.likelihood import Compressed, Likelihood, among_random, evaluate, second_derivative
from kinfolk.solvers.solution import Solution
from kinfolk.solvers.tolerances import LAST_DIGIT, MARGIN

TOO_FAR = 1e12  # deviance above that of the start
NEGLIGIBLE = 1e-8  # variances below this, in units of what one task's data can tell, are zero
SMALL = 1e-4  # variances below this, in the same units, are zero if that is no less likely
EM_STEPS = 30  # before L-BFGS; fewer leave it a poor scaling
NEAR_STEPS = 3  # the same from a start near the maximum
MANY = 1000  # tasks from which variances are found by scoring: with few it may end at a lower of several maxima
RAISED = (1.0, 10.0, 100.0)  # variances tried in place of zero, in units of what the smallest task's data can tell
UNEQUAL = 0.1  # of the mean: data of the smallest task below which that is another start than the usual one
NEAR = 0.05  # added to the variances of a start, in units of what one task's data can tell
HALVINGS = 12  # of a scoring step before an EM step is taken in its place


def maximise(data: Compressed, *, diagonal: bool, tol: float, max_iter: int, near: Array | None = None) -> Solution:
    """The state at the best P, looked for from `near` if that is given; `history` is the log-likelihood by step.

    EM alone crawls where a variance tends to zero; L-BFGS works on the factor L, for which zero is no wall. Diagonal,
    with many tasks: Fisher scoring on the variances, which takes a tenth of the steps.
    """
    T = len(data.z)
    start = among_random(data, data.basis @ data.basis.T)
    if diagonal:
        start = np.diag((np.diagonal(start) > NEGLIGIBLE).astype(float))
    if near is not None:
        # Where a variance is zero its factor has no slope: every direction starts above zero.
        start = near + NEAR * start
        start = np.diag(np.sqrt(np.diagonal(start))) if diagonal else square_root(start)
    state = evaluate(data, start if T > 1 else 0 * start)  # one task cannot differ from itself
    history = [state.deviance]
    first = EM_STEPS if near is None else NEAR_STEPS
    state = _climbed(data, state, diagonal, tol, history, max_iter, first)
    if diagonal:
        state = _without_negligible(data, state)
        raised = _raised(data, state) if T > 1 else state
        if raised.deviance < state.deviance - tol:  # by more than rounding
            history.append(raised.deviance)
            state = _without_negligible(data, _climbed(data, raised, diagonal, tol, history, max_iter, EM_STEPS))
    rest = residual(state, T, diagonal)
    log_likelihood = -np.array([*history[:-1], min(history[-1], state.deviance)]) / 2
    return Solution(state, len(history) - 1, rest, rest <= tol, history=log_likelihood)


def _climbed(
    data: Compressed, state: Likelihood, diagonal: bool, tol: float, history: list[float], max_iter: int, first: int
) -> Likelihood:
    """The maximum that is reached from a state; the `first` steps are those of EM."""
    T = len(data.z)
    while residual(state, T, diagonal) > tol and len(history) <= max_iter:
        steps = len(history)
        if diagonal and len(data.R) >= MANY:
            state = _scoring_step(data, state, history)
        elif steps <= first:
            state = evaluate(data, em_factor(state, T, diagonal))
            history.append(state.deviance)
        else:
            state = _quasi_newton(data, state, diagonal, tol, history, max_iter + 1 - steps)
        if len(history) == steps:
            break
    return state


def _raised(data: Compressed, state: Likelihood) -> Likelihood:
    """The best state with one of the variances that ended at zero raised, or `state` itself.

    The search begins at variances that the data of a mean task can tell. Beside one large task, those that small tasks
    differ by are far larger, and between the two the likelihood has a valley. A variance v in place of zero changes V_t
    by v r r' with a column r of R_t, and the deviance, with mu and sigma2 as they are, by

        sum_t log(1 + v h_t) - v g_t^2 / (sigma2 (1 + v h_t)),    h_t = r'V_t^-1 r.
    """
    weight = (data.R**2).sum(axis=1)
    smallest = np.maximum(np.where(weight > 0, weight, np.inf).min(axis=0), NEGLIGIBLE)
    zero = (np.diagonal(state.factor) == 0) & (smallest < UNEQUAL) & ~data.fixed
    if not zero.any():
        return state
    h = (state.S**2).sum(axis=1)
    v = np.array(RAISED)[:, None, None] / smallest
    change = (np.log1p(v * h) - v * state.g**2 / (state.sigma2 * (1 + v * h))).sum(axis=1)
    i, j = np.unravel_index(np.argmin(np.where(zero, change, np.inf)), change.shape)
    sd = np.diagonal(state.factor).copy()
    sd[j] = np.sqrt(v[i, 0, j])
    return min(state, evaluate(data, np.diag(sd)), key=lambda one: one.deviance)


def em_factor(state: Likelihood, T: int, diagonal: bool) -> Array:
    """A factor of P - P K P / T."""
    P = state.P
    if diagonal:
        p = np.diagonal(P)
        return np.diag(np.sqrt(np.maximum(p - p**2 * np.diagonal(state.K) / T, 0.0)))
    value, vector = np.linalg.eigh(P - P @ state.K @ P / T)
    return (vector * np.sqrt(np.maximum(value, 0.0))) @ vector.T


def residual(state: Likelihood, T: int, diagonal: bool) -> float:
    """How far the conditions of a maximum are from holding, per task: K L = 0, and K >= 0 (no variance wants to grow).

    For one task P = 0 is the answer, not a search.
    """
    if T == 1:
        return 0.0
    slope = state.K @ state.factor
    if diagonal:
        return float(max(np.abs(np.diagonal(slope)).max(), -np.diagonal(state.K).min(), 0.0)) / T
    return float(max(np.abs(slope).max(), -np.linalg.eigvalsh(state.K)[0], 0.0)) / T


def _scoring_step(data: Compressed, state: Likelihood, history: list[float]) -> Likelihood:
    """The variances at the minimum of the quadratic model, or as far towards it as the deviance falls; else EM's."""
    p = np.diagonal(state.P)
    towards = _best_variances(state, second_derivative(data, state))
    steps = [2.0**-k for k in range(HALVINGS)]
    factors = (np.sqrt(np.maximum(p + t * (towards - p), 0.0)) for t in steps)
    for factor in chain(map(np.diag, factors), [em_factor(state, len(data.z), diagonal=True)]):
        following = evaluate(data, factor)
        if following.deviance < state.deviance:
            history.append(following.deviance)
            return following
    return state


def _best_variances(state: Likelihood, M: Array) -> Array:
    """argmin of k'(x - p) + (x - p)'M(x - p) / 2 over x >= 0, with k the diagonal of K and p that of P."""
    p = np.diagonal(state.P)
    k = np.diagonal(state.K)
    unit = np.sqrt(np.diagonal(M))
    unit = np.where(unit > 0, unit, 1.0)
    value, vector = np.linalg.eigh(M / unit / unit[:, None])
    root = np.sqrt(np.maximum(value, MARGIN))
    aim = vector.T @ (unit * p) * root - (vector.T @ (k / unit)) / root
    return nnls(root[:, None] * vector.T, aim)[0] / unit


def _quasi_newton(
    data: Compressed, start: Likelihood, diagonal: bool, tol: float, history: list[float], max_iter: int
) -> Likelihood:
    """L-BFGS on the deviance per task over Y (or its diagonal), where L = F Y with F = (I + P)^(1/2) at the start.

    dD/dL = 2 K L; its curvature is like T / (1 + P), which F evens out: random intercepts often vary a hundred times
    more than slopes.
    """
    T = len(data.z)
    p = len(start.P)
    value, vector = np.linalg.eigh(start.P)
    F = (vector * np.sqrt(1 + np.maximum(value, 0.0))) @ vector.T

    def state_at(x: Array) -> Likelihood:
        return evaluate(data, F @ (np.diag(x) if diagonal else x.reshape(p, p)))

    def function(x: Array) -> tuple[float, Array]:
        state = state_at(x)
        if not np.isfinite(state.deviance):  # a step so long that it overflows: the search comes back
            return (abs(start.deviance) + TOO_FAR) / T, np.zeros_like(x)
        slope = 2 * F @ (state.K @ state.factor) / T
        return state.deviance / T, np.diagonal(slope).copy() if diagonal else slope.ravel()

    def keep(intermediate_result: OptimizeResult) -> None:
        history.append(T * float(intermediate_result.fun))

    Y = (vector / np.sqrt(1 + np.maximum(value, 0.0))) @ vector.T @ start.factor
    x = np.diagonal(Y).copy() if diagonal else Y.ravel()
    options = {"maxiter": max_iter, "maxfun": 3 * max_iter, "gtol": tol, "ftol": LAST_DIGIT, "maxcor": 20}
    end = state_at(minimize(function, x, jac=True, method="L-BFGS-B", callback=keep, options=options).x)
    return end if np.isfinite(end.deviance) else start


def _without_negligible(data: Compressed, state: Likelihood) -> Likelihood:
    """The variances that the likelihood drives to zero, at zero, however early the search for them has ended."""
    sd = np.abs(np.diagonal(state.factor))
    falls = np.diagonal(state.K) > 0
    sd = np.where(falls & (sd**2 < NEGLIGIBLE), 0.0, sd)
    state = evaluate(data, np.diag(sd))
    small = falls & (sd > 0) & (sd**2 < SMALL)
    if not small.any():
        return state
    return min(evaluate(data, np.diag(np.where(small, 0.0, sd))), state, key=lambda one: one.deviance)
