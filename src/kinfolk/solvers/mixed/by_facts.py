"""The mixed model whose centre is a function of what is known about tasks: region, size, uranium.

    y_t = X_t w_t + c_t + e,    (w_t, c_t) = mu + B'(f_t - f0) + u_t,    u_t ~ N(0, Sigma),  e ~ N(0, sigma2 I),

with the level c_t at the mean input of all rows, and facts f_t (q,) in units of their standard deviation between tasks.
Row j of B has the prior N(0, tau_j^2 diag(Sigma0)), one tau for slopes and one for the level, where Sigma0 is the
covariance between tasks without facts: tau^2 is the share of it that a fact explains. The taus maximise the marginal
likelihood of the rows, and each has a price in it (`_prices`), so that facts which explain nothing have none; without a
prior B are the fixed effects of a mixed model with products of facts and features. Sigma and B are found in turn: the
information about the two is nearly orthogonal, so that few rounds suffice.

Tasks along a curve have slopes that go with the means of their own features, and so with facts that go with these. Such
slopes, c_j times the mean of feature j, are told beside the products (with a prior as theirs) and then left out.

With H_t = G_t - G_t K_t G_t and h_t = (I - G_t K_t) b_t (see `solvers.centre`), and g_t = (1, f_t), all that the rows
say about mu and B is  A = sum_t g_t g_t' x H_t  and  r = sum_t g_t x h_t  (x: Kronecker's product).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from kinfolk.rows.gram import LAST_DIGITS, Array, GramStats, evenly_chosen
from kinfolk.solvers.centre import blocks_around_centre, column_sizes, inverse_for_centre
from kinfolk.solvers.equations import NormalEquations, normal_equations
from kinfolk.solvers.mixed.effects import MixedModel, mixed_model

ROUNDS = 20  # of Sigma and B in turn, at most
SETTLED = 1e-3  # change of B in a round, relative, at which they end
SETTLED_FREE = 1e-6  # the same without a prior, where the likelihood is compared with that of other programs
SIGMA_TASKS = 2500  # that Sigma is estimated from, to 3 %; B is from all
AT_ONCE = 4096  # tasks whose matrices are held at a time
LOG_TAU = (-14.0, 3.0)  # least and largest logarithm of tau^2
STARTS = (-1.0, -5.0)  # from which the marginal likelihood climbs
MOST_PRODUCTS = 600  # of facts and features; with more, facts move levels alone


@dataclass(frozen=True, eq=False)
class ByFacts:
    """The centre as a function of facts.

    Attributes
    ----------
    mean : (q,), f0, the mean of every fact over tasks
    origin : (d,), mean of the features over all rows, where `levels` hold
    slopes, slope_errors : (q, d), what a unit of each fact adds to every slope, and its standard error
    levels, level_errors : (q,), what it adds to the level
    explained : (k, 2), tau^2 of slopes and level by column; infinite without a prior
    """

    mean: Array
    origin: Array
    slopes: Array
    slope_errors: Array
    levels: Array
    level_errors: Array
    explained: Array


def mixed_model_by_facts(
    gram: GramStats, facts: Array, column: NDArray[np.intp], *, products: str = "shrunk"
) -> ByFacts:
    """The centre of tasks with `facts` (T, q), of which those of one `column` (q,) share a prior.

    `products` with features are "shrunk", "free" (a prior neither for them nor for levels) or "none".
    """
    group = np.unique(column, return_inverse=True)[1]
    mean = facts.mean(axis=0)
    unit = facts.std(axis=0)
    unit = np.where(unit > 0, unit, 1.0)
    F = (facts - mean) / unit
    d = gram.n_features
    moves = np.append(~gram.common(), True)
    if products == "none" or too_many_products(gram, F.shape[1]):
        moves[:d] = False

    free = products == "free"
    every = free or gram.n_tasks <= SIGMA_TASKS
    some = np.arange(gram.n_tasks) if every else evenly_chosen(gram, SIGMA_TASKS)
    sample = gram if every else gram.select(some)
    effects = mixed_model(sample)
    total = np.diagonal(effects.relative_covariance) * effects.sigma2
    equations = normal_equations(gram, "coupled")
    origin = equations.x0[0]
    bends = _own_means(gram, np.zeros_like(moves) if free else moves)
    B = np.zeros((F.shape[1], d + 1))
    errors = np.zeros_like(B)
    explained = np.zeros((int(group.max()) + 1, 2))
    # Where tasks do not differ, as with one target for all, facts have nothing to explain.
    for _ in range(ROUNDS if total.any() else 0):
        before = B
        B, errors, explained = _centre(equations, F, effects, total, moves, None if free else group, bends)
        effects = mixed_model(_beside(sample, F[some] @ B, origin), near=effects)
        if np.linalg.norm(F @ (B - before)) <= (SETTLED_FREE if free else SETTLED) * np.linalg.norm(F @ B):
            break
    B, errors = (values / unit[:, None] for values in (B, errors))
    return ByFacts(
        mean,
        origin,
        B[:, :d],
        errors[:, :d],
        B[:, d],
        errors[:, d],
        explained,
    )


def too_many_products(gram: GramStats, q: int) -> str:
    """Whether q facts have too many products with the other features: a sentence, or nothing."""
    products = q * (int((~gram.common()).sum()) + 1)
    if products <= MOST_PRODUCTS:
        return ""
    return (
        f"{q} columns of facts would have {products:,} products with features and levels, more than {MOST_PRODUCTS}: "
        "facts move levels alone"
    )


def _beside(gram: GramStats, centre: Array, origin: Array) -> GramStats:
    """What a `centre` (T, d + 1) of slopes and of the level at an origin leaves."""
    return gram.beside(centre[:, :-1], centre[:, -1] - centre[:, :-1] @ origin)


def _own_means(gram: GramStats, moves: NDArray[np.bool_]) -> Array:
    """Means (T, d + 1) of features whose slopes may move, in units of their standard deviation; 0 for levels."""
    away = gram.x_mean - gram.x_mean.mean(axis=0)
    deviation = away.std(axis=0)
    differs = moves[:-1] & (deviation > LAST_DIGITS * np.abs(gram.x_mean).max(axis=0))
    means = np.where(differs, away / np.where(differs, deviation, 1.0), 0.0)
    return np.column_stack([means, np.zeros(gram.n_tasks)])


def _centre(
    equations: NormalEquations,
    F: Array,
    effects: MixedModel,
    total: Array,
    moves: NDArray[np.bool_],
    column: NDArray[np.intp] | None,
    bends: Array,
) -> tuple[Array, Array, Array]:
    """B (q, p) at the covariance of a mixed model, its standard errors, and tau^2 of every column of facts (k, 2).

    Without a `column` of every fact there is no prior. `bends` (T, p) move every slope beside facts.
    """
    q = F.shape[1]
    p = len(total)
    size = column_sizes(equations.G)
    A, r = _information(equations, F, effects.relative_covariance * size * size[:, None], size, bends)
    # The common part mu has no prior: what is left of A and r beside it.
    back = inverse_for_centre(A[:p, :p], equations.G.mean(axis=0) / size / size[:, None])
    A, r = A[p:, p:] - A[p:, :p] @ back @ A[:p, p:], r[p:] - A[p:, :p] @ back @ r[:p]
    moved = np.flatnonzero(np.append(np.tile(moves, q), bends.any(axis=0)))
    A, r = A[np.ix_(moved, moved)] / effects.sigma2, r[moved] / effects.sigma2
    prior = np.tile(total * size**2, q + 1)[moved]
    if column is None:
        log_tau = np.full(2 * q, np.inf)
        V = inverse_for_centre(A, A)
    else:
        columns = int(column.max() + 1)
        group = (2 * column[:, None] + (np.arange(p) == p - 1)).ravel()
        group = np.append(group, np.full(p, 2 * columns))[moved]
        log_tau = _most_likely(A, r, prior, group, _prices(columns, len(F)))
        V = _posterior(A, prior * np.exp(log_tau)[group])
        log_tau = log_tau[:-1]
    B = np.zeros((2, (q + 1) * p))
    B[0, moved] = V @ r
    B[1, moved] = np.sqrt(np.maximum(np.diagonal(V), 0.0))
    B = B[:, : q * p]
    values, errors = B.reshape(2, q, p) / size
    return values, errors, np.exp(log_tau).reshape(-1, 2)


def _information(equations: NormalEquations, F: Array, P: Array, size: Array, bends: Array) -> tuple[Array, Array]:
    """A ((q + 2) p square) and r, for unknowns in units of the columns: mu, B, and what `bends` are multiplied by."""
    T, p = equations.b.shape
    g = np.column_stack([np.ones(T), F])
    k = g.shape[1]
    A = np.zeros((k * k, p * p))
    r = np.zeros((k, p))
    beside = np.zeros((k, p, p))
    own = np.zeros((p, p))
    r_own = np.zeros(p)
    for start in range(0, T, AT_ONCE):
        some = slice(start, start + AT_ONCE)
        blocks = blocks_around_centre(equations.G[some] / size / size[:, None], P)
        h = np.einsum("tpq,tp->tq", blocks.D, equations.b[some] / size)
        A += (g[some, :, None] * g[some, None, :]).reshape(-1, k * k).T @ blocks.H.reshape(-1, p * p)
        r += g[some].T @ h
        bent = blocks.H * bends[some, None]
        beside += (g[some].T @ bent.reshape(len(h), -1)).reshape(k, p, p)
        own += np.einsum("tj,tjl->jl", bends[some], bent)
        r_own += np.einsum("tj,tj->j", bends[some], h)
    A = A.reshape(k, k, p, p).transpose(0, 2, 1, 3).reshape(k * p, k * p)
    corner = beside.reshape(k * p, p)
    return np.block([[A, corner], [corner.T, own]]), np.append(r, r_own)


def _posterior(A: Array, variance: Array) -> Array:
    """(A + diag(1 / variance))^-1, also for variances of 0."""
    root = np.sqrt(variance)
    return root[:, None] * np.linalg.inv(np.eye(len(A)) + root[:, None] * A * root) * root


def _prices(columns: int, tasks: int) -> Array:
    """What the taus of so many columns must gain: of slopes and level in turn, and nothing of curves.

    Any of the products of slopes may look useful by chance: Schwarz's criterion, extended by the choice among them. A
    level is in question alone, and has a coefficient without facts as well: Akaike's criterion.
    """
    return np.append(np.tile([np.log(tasks) / 2 + np.log(2 * columns), 1.0], columns), 0.0)


def _most_likely(A: Array, r: Array, prior: Array, group: NDArray[np.intp], prices: Array) -> Array:
    """log tau^2 of every group of coefficients, at the maximum of the marginal likelihood

    -1/2 log|I + D A D| + 1/2 r'D (I + D A D)^-1 D r,    D^2 = tau^2 prior.

    A group that gains less than its price is left out: -inf. Of facts that repeat each other one is left.
    """
    groups = len(prices)

    def minus(log_tau: Array) -> tuple[float, Array]:
        variance = prior * np.exp(log_tau)[group]
        V = _posterior(A, variance)
        m = V @ r
        root = np.sqrt(variance)
        value = np.linalg.slogdet(np.eye(len(A)) + root[:, None] * A * root)[1] - r @ m
        # Of a coefficient without any prior variance the derivative is zero.
        gain = np.divide(m**2 + np.diagonal(V), variance, out=np.ones_like(m), where=variance > 0) - 1
        return 0.5 * value, -0.5 * np.bincount(group, gain, groups)

    bounds = [LOG_TAU] * groups
    ends = [minimize(minus, np.full(groups, start), jac=True, method="L-BFGS-B", bounds=bounds) for start in STARTS]
    log_tau = min(ends, key=lambda end: end.fun).x
    log_tau[log_tau <= LOG_TAU[0] + 1] = -np.inf
    log_tau[np.bincount(group, prior > 0, groups) == 0] = -np.inf
    while np.isfinite(log_tau).any():
        present = np.flatnonzero(np.isfinite(log_tau))
        without = [np.where(np.arange(groups) == g, -np.inf, log_tau) for g in present]
        losses = np.array([minus(one)[0] for one in without]) - minus(log_tau)[0] - prices[present]
        if losses.min() >= 0:
            break
        log_tau = without[int(losses.argmin())]
    return log_tau
