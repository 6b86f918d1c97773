"""The likelihood of the linear mixed model on compressed tasks, and its maximum.

With G_t = R_t'R_t and z_t from R_t'z_t = b_t, task t is q_t <= p rows (R_t, z_t) and a remainder, where q_t is the rank
of G_t: a task of few rows has small matrices, however many the features. With the relative covariance
P = Sigma / sigma2 and V_t = I + R_t P R_t', the deviance (minus twice the log-likelihood) is

    D = sum_t log|V_t| + N log(2 pi sigma2) + (remainder + sum_t e_t'V_t^-1 e_t) / sigma2,     e_t = z_t - R_t mu,

where mu and sigma2 have closed forms, so that P is the only unknown. The gradient of D in P is

    K = sum_t (R_t'V_t^-1 R_t - g_t g_t' / sigma2),    g_t = R_t'V_t^-1 e_t,

an EM step is P <- P - P K P / T, and the predicted random effects are u_t = P g_t. With H_t = R_t'V_t^-1 R_t and h the
diagonal of sum_t H_t, the expected second derivative of D in the variances diag(P), with sigma2 at its best, is

    M = sum_t H_t * H_t - h h' / N     (* elementwise).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import OptimizeResult, minimize, nnls

from kinfolk.rows.gram import TINY, Array, is_shared
from kinfolk.solvers.batched import (
    inverse_triangles,
    row_dots,
    solve_definite,
    square_root,
    times,
    transposed_times,
    triangle_beside_identity,
)
from kinfolk.solvers.equations import NormalEquations
from kinfolk.solvers.solution import Solution
from kinfolk.solvers.tolerances import LAST_DIGIT, MARGIN, ROUNDING

LEAST_NOISE = 1e-10  # of sigma2 over the variance of y: exact fits would have an unbounded likelihood
SINGULAR = 1e-11  # eigenvalues of a pooled Gram matrix below this share of the largest: directions nobody has seen
TOO_FAR = 1e12  # deviance above that of the start
NEGLIGIBLE = 1e-8  # variances below this, in units of what one task's data can tell, are zero
SMALL = 1e-4  # variances below this, in the same units, are zero if that is no less likely
EM_STEPS = 30  # before L-BFGS; fewer leave it a poor scaling
NEAR_STEPS = 3  # the same from a start near the maximum
BLOCK = 1024  # tasks whitened at a time: temporaries stay in the cache
BLOCK_COSTS = 300_000  # multiplications in the time that one more block takes
MANY = 1000  # tasks from which variances are found by scoring: with few it may end at a lower of several maxima
RAISED = (1.0, 10.0, 100.0)  # variances tried in place of zero, in units of what the smallest task's data can tell
UNEQUAL = 0.1  # of the mean: data of the smallest task below which that is another start than the usual one
NEAR = 0.05  # added to the variances of a start, in units of what one task's data can tell
HALVINGS = 12  # of a scoring step before an EM step is taken in its place


@dataclass(frozen=True, eq=False)
class Compressed:
    """Tasks as q rows each: R (T, q, p), or (1, q, p) if all have the same inputs; z (T, q); and what is left of y'y.

    `blocks` are tasks of like rank and that rank: their last rows count, and those before are 0. `basis` (p, r) spans
    the directions of mu that the inputs of any task can tell; `spare` are the rows that tasks have beyond their own
    unknowns, which tell the noise whatever P is. Unknowns that are `fixed` (p,) have no variance between tasks.
    """

    R: Array
    z: Array
    blocks: list[tuple[NDArray[np.intp], int]]
    remainder: float
    N: float
    spare: float
    least_noise: float
    basis: Array
    fixed: NDArray[np.bool_]

    @property
    def copies(self) -> float:
        """How many tasks each matrix of R stands for."""
        return len(self.z) / len(self.R)


@dataclass(frozen=True, eq=False)
class Likelihood:
    """The model at one factor L of the relative covariance P = L L'."""

    factor: Array
    mean: Array
    sigma2: float
    deviance: float
    K: Array
    g: Array
    S: Array  # V_t^(-1/2) R_t

    @property
    def P(self) -> Array:
        """The relative covariance."""
        return self.factor @ self.factor.T


def scale_free_units(G: Array, *, diagonal: bool) -> Array:
    """A matrix (d, p) from unknowns without units to coefficients, in which a variance of 1 weighs as much as the data.

    Diagonal: the mean over tasks of every ||x_j||^2 becomes 1. Full: the mean of G_t becomes the identity, and
    directions that no task has seen drop out; without that, L-BFGS crawls on correlated features.
    """
    mean = G.mean(axis=0)
    norm = np.sqrt(np.diagonal(mean))
    norm = np.where(norm > 0, norm, 1.0)
    if diagonal:
        return np.diag(1 / norm)
    value, vector = np.linalg.eigh(mean / norm / norm[:, None])
    value = value if value[-1] > 0 else np.ones_like(value)  # features that never vary
    kept = value > SINGULAR * value[-1]
    return (vector[:, kept] / np.sqrt(value[kept])) / norm[:, None]


def compress(
    equations: NormalEquations, units: Array, rows: Array, fixed: NDArray[np.bool_] | None = None
) -> Compressed:
    """Tasks with so many rows each, in the unknowns v of coefficients = units v, of which some are `fixed`."""
    G = equations.G[:1] if is_shared(equations.G) else equations.G
    G = units.T @ G @ units
    R, z, rank = rows_of_gram(G, equations.b @ units)
    total = float(equations.yy.sum())
    pooled, direction = np.linalg.eigh(G.mean(axis=0))
    basis = direction[:, pooled > SINGULAR * pooled.max(initial=0.0)]
    N = float(rows.sum())
    spare = float(np.maximum(rows - rank, 0.0).sum())
    least = max(LEAST_NOISE * total / N, TINY)
    remainder = max(total - float((z**2).sum()), 0.0)
    fixed = np.zeros(len(basis), bool) if fixed is None else fixed
    return Compressed(R, z, _blocks(rank, R.shape[2]), remainder, N, spare, least, basis, fixed)


def rows_of_gram(G: Array, b: Array) -> tuple[Array, Array, NDArray[np.intp]]:
    """R_t (q, p) and z_t (q,) with R_t'R_t = G_t and R_t'z_t = b_t, and the rank r_t: only the last r_t rows are not 0.

    Cholesky's factors with the largest pivot first (Higham 1990), of all tasks in step: no more steps than the largest
    rank, which is far below p where tasks have few rows. G may be one matrix for all tasks.

    Examples
    --------
    >>> R, z, rank = rows_of_gram(np.array([[[4.0, 2.0], [2.0, 1.0]]]), np.array([[6.0, 3.0]]))
    >>> R, z, rank
    (array([[[2., 1.]]]), array([[3.]]), array([1]))
    """
    each = np.arange(len(G))
    p = G.shape[2]
    left = np.diagonal(G, axis1=1, axis2=2).copy()
    floor = ROUNDING * left.max(axis=1, initial=0.0)
    R = np.zeros((len(G), p, p))
    z = np.zeros((len(b), p))
    rank = np.zeros(len(G), np.intp)
    for k in range(p - 1, -1, -1):
        place = left.argmax(axis=1)
        pivot = left[each, place]
        goes_on = pivot > floor
        if not goes_on.any():
            break
        size = np.where(goes_on, 1 / np.sqrt(np.where(goes_on, pivot, 1.0)), 0.0)
        known = R[each, k + 1 :, place]
        R[:, k] = size[:, None] * (G[each, place] - np.matmul(known[:, None], R[:, k + 1 :])[:, 0])
        z[:, k] = size * (np.take_along_axis(b, place[:, None], axis=1)[:, 0] - row_dots(known, z[:, k + 1 :]))
        left = np.where(goes_on[:, None], left - R[:, k] ** 2, 0.0)
        left[each, place] = 0.0
        rank += goes_on
    first = p - max(int(rank.max(initial=0)), 1)
    return R[:, first:].copy(), z[:, first:].copy(), rank


def _blocks(rank: NDArray[np.intp], p: int) -> list[tuple[NDArray[np.intp], int]]:
    """Tasks of one rank, or of several where one block more would cost more than rows of zeros; at most BLOCK together.

    Examples
    --------
    >>> _blocks(np.array([1, 1, 2]), 2)
    [(array([0, 1, 2]), 2)]
    >>> [(len(tasks), q) for tasks, q in _blocks(np.array([40] + 900 * [3]), 40)]
    [(900, 3), (1, 40)]
    """
    ranks = np.maximum(rank, 1)
    order = np.argsort(ranks, kind="stable")
    found = []
    start = 0
    distinct, first = np.unique(ranks[order], return_index=True)
    ends = [*first[1:].tolist(), len(order)]
    for k, end in enumerate(ends):
        q = int(distinct[k])
        wider = 0 if k + 1 == len(ends) else int(distinct[k + 1] - q)
        if wider and (end - start) * wider * p * (p + 2 * q) < BLOCK_COSTS:
            continue
        parts = np.split(order[start:end], range(BLOCK, end - start, BLOCK))
        found += [(part, q) for part in parts]
        start = end
    return found


def evaluate(data: Compressed, factor: Array) -> Likelihood:
    """The deviance with mu and sigma2 at their best for P, and its gradient K in P."""
    S, z, logdet = _whitened(data, factor)
    rows = S.reshape(-1, S.shape[2])
    A = data.copies * (rows.T @ rows)  # the sum of H_t, as one product
    U = data.basis
    mean = U @ solve_definite(U.T @ A @ U, U.T @ transposed_times(S, z).sum(axis=0))
    e = z - S @ mean
    error = data.remainder + float((e**2).sum())
    sigma2 = max(error / data.N, data.least_noise)
    deviance = logdet + data.N * np.log(2 * np.pi * sigma2) + error / sigma2
    g = transposed_times(S, e)
    K = _among_random(data, A - g.T @ g / sigma2)
    return Likelihood(factor, mean, sigma2, deviance, K, g, S)


def _among_random(data: Compressed, matrix: Array) -> Array:
    """The derivatives by variances that there are: those of fixed unknowns stay at zero."""
    random = ~data.fixed
    return matrix * random * random[:, None]


def _whitened(data: Compressed, factor: Array) -> tuple[Array, Array, float]:
    """S_t = C_t^-1 R_t and C_t^-1 z_t with V_t = C_t C_t', and the sum of log |V_t|."""
    S = np.zeros_like(data.R)
    z = np.zeros_like(data.z)
    P = factor @ factor.T
    variance = np.diagonal(P)
    apart = not np.count_nonzero(P - np.diag(variance))
    logdet = 0.0
    for tasks, q in data.blocks:
        R = data.R[tasks, -q:]
        # R P R' and not the square of R L, for which NumPy would choose a routine for symmetric products: half as fast.
        V = np.eye(q) + (R * variance if apart else R @ P) @ R.transpose(0, 2, 1)
        try:
            C = np.linalg.cholesky(V)
        except np.linalg.LinAlgError:  # where P is 1e16 times what the noise hides, the identity is lost in the sum
            C = triangle_beside_identity((R @ factor).transpose(0, 2, 1))
        whiten = inverse_triangles(C)
        own = slice(None) if data.copies > 1 else tasks  # one matrix may serve all tasks
        z[own, -q:] = times(whiten, data.z[own, -q:])
        S[tasks, -q:] = whiten @ R
        logdet += 2 * float(np.log(np.diagonal(C, axis1=1, axis2=2)).sum())
    return S, z, data.copies * logdet


def second_derivative(data: Compressed, state: Likelihood) -> Array:
    """M, which takes as long as all the rest, and few steps need it."""
    S = state.S
    squares = np.zeros((S.shape[2], S.shape[2]))
    for tasks, q in data.blocks:
        part = S[tasks, -q:]
        squares += np.square(part.transpose(0, 2, 1) @ part).sum(axis=0)
    h = np.square(S).sum(axis=(0, 1))
    return _among_random(data, data.copies * squares - data.copies**2 * np.outer(h, h) / data.N)


def maximise(data: Compressed, *, diagonal: bool, tol: float, max_iter: int, near: Array | None = None) -> Solution:
    """The state at the best P, looked for from `near` if that is given; `history` is the log-likelihood by step.

    EM alone crawls where a variance tends to zero; L-BFGS works on the factor L, for which zero is no wall. Diagonal,
    with many tasks: Fisher scoring on the variances, which takes a tenth of the steps.
    """
    T = len(data.z)
    start = _among_random(data, data.basis @ data.basis.T)
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
    found = state_at(minimize(function, x, jac=True, method="L-BFGS-B", callback=keep, options=options).x)
    return found if np.isfinite(found.deviance) else start


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
