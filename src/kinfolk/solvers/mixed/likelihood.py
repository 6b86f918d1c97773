"""The likelihood of the linear mixed model on compressed tasks, and its derivatives.

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

import numpy as np
from numpy.typing import NDArray

from kinfolk.rows.gram import TINY, Array, is_shared
from kinfolk.solvers.batched import (
    rows_of_gram,
    solve_definite,
    times,
    transposed_times,
    triangle_beside_identity,
)
from kinfolk.solvers.equations import NormalEquations
from kinfolk.solvers.tolerances import NEVER_SEEN

LEAST_NOISE = 1e-10  # of sigma2 over the variance of y: exact fits would have an unbounded likelihood
BLOCK = 1024  # tasks whitened at a time: temporaries stay in the cache
BLOCK_COSTS = 300_000  # multiplications in the time that one more block takes


@dataclass(frozen=True, eq=False)
class Compressed:
    """Tasks as q rows each: R (T, q, p), or (1, q, p) if all have the same inputs; z (T, q); and what is left of y'y.

    `blocks` are tasks of like rank and that rank: their last rows count, and those before are 0. `basis` (p, r) spans
    the directions of mu that the inputs of any task can tell; `spare` are the rows that tasks have beyond their own
    unknowns, which tell the noise whatever P is. Unknowns that are `fixed` (p,) have no variance between tasks.
    `noise` is sigma2 where it is known, None where it is one of the unknowns.
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
    noise: float | None = None

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
    kept = value > NEVER_SEEN * value[-1]
    return (vector[:, kept] / np.sqrt(value[kept])) / norm[:, None]


def compress(
    equations: NormalEquations,
    units: Array,
    rows: Array,
    fixed: NDArray[np.bool_] | None = None,
    noise: float | None = None,
) -> Compressed:
    """Tasks with so many rows each, in the unknowns v of coefficients = units v, of which some are `fixed`."""
    G = equations.G[:1] if is_shared(equations.G) else equations.G
    G = units.T @ G @ units
    R, z, rank = rows_of_gram(G, equations.b @ units)
    total = float(equations.yy.sum())
    pooled, direction = np.linalg.eigh(G.mean(axis=0))
    basis = direction[:, pooled > NEVER_SEEN * pooled.max(initial=0.0)]
    N = float(rows.sum())
    spare = float(np.maximum(rows - rank, 0.0).sum())
    least = max(LEAST_NOISE * total / max(N, TINY), TINY)
    remainder = max(total - float((z**2).sum()), 0.0)
    fixed = np.zeros(len(basis), bool) if fixed is None else fixed
    return Compressed(R, z, _blocks(rank, R.shape[2]), remainder, N, spare, least, basis, fixed, noise)


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
    blocks = []
    start = 0
    distinct, first = np.unique(ranks[order], return_index=True)
    ends = [*first[1:].tolist(), len(order)]
    for k, end in enumerate(ends):
        q = int(distinct[k])
        wider = 0 if k + 1 == len(ends) else int(distinct[k + 1] - q)
        if wider and (end - start) * wider * p * (p + 2 * q) < BLOCK_COSTS:
            continue
        parts = np.split(order[start:end], range(BLOCK, end - start, BLOCK))
        blocks += [(part, q) for part in parts]
        start = end
    return blocks


def evaluate(data: Compressed, factor: Array) -> Likelihood:
    """The deviance with mu and sigma2 at their best for P, and its gradient K in P."""
    S, z, logdet = _whitened(data, factor)
    rows = S.reshape(-1, S.shape[2])
    A = data.copies * (rows.T @ rows)  # the sum of H_t, as one product
    U = data.basis
    mean = U @ solve_definite(U.T @ A @ U, U.T @ transposed_times(S, z).sum(axis=0))
    e = z - S @ mean
    error = data.remainder + float((e**2).sum())
    sigma2 = max(error / data.N, data.least_noise) if data.noise is None else data.noise
    deviance = logdet + data.N * np.log(2 * np.pi * sigma2) + error / sigma2
    g = transposed_times(S, e)
    K = among_random(data, A - g.T @ g / sigma2)
    return Likelihood(factor, mean, sigma2, deviance, K, g, S)


def among_random(data: Compressed, matrix: Array) -> Array:
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
        whiten = np.linalg.inv(C)
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
    # A noise that is at its best for P, and not known, takes part of what is to be learned of P.
    h = np.square(S).sum(axis=(0, 1))
    shared = data.copies**2 * np.outer(h, h) / data.N if data.noise is None else 0.0
    return among_random(data, data.copies * squares - shared)
