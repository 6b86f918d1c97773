"""Shares of models in a mixture, from their held-out errors: the common ones, and how far a task goes its own way."""

from __future__ import annotations

import numpy as np
from scipy.optimize import nnls
from scipy.special import expit

from kinfolk.methods.uncertainty import moderated
from kinfolk.rows.gram import TINY, Array, GramStats
from kinfolk.solvers.tolerances import MARGIN

# Set on the tables of benchmarks/arena.py marked "tuned"; docs/maths.md has the numbers.
DOUBT = 1.5  # factor of the variance of a task's own estimate: its folds share rows
PRIOR_TASKS = 5  # tasks that are no loners, added to those at hand
LONER_ROUNDS = 100
WORST = 100.0  # times the usual error: a model with independent errors so large would have a share of 1 % at best
DRAWS = 50  # of tasks, over which shares are averaged
SEED = 0  # of these draws


def cross_errors(gram: GramStats, W: Array, c: Array) -> Array:
    """<r_m, r_k> of every task over the rows behind `gram`: (T, M, M) for models W (M, T, d), c (M, T).

    Examples
    --------
    Two rows with y = 0 and 2 at x = 0: the models c = 0 and c = 1 miss by (0, 2) and (-1, 1).

    >>> gram = GramStats.from_rows([[0.0], [0.0]], [0.0, 2.0])
    >>> cross_errors(gram, np.zeros((2, 1, 1)), np.array([[0.0], [1.0]]))[0]
    array([[4., 2.],
           [2., 2.]])
    """
    # r = (y - mean) - (x - mean)'w + off: the first two parts are centred, so only off meets itself.
    off = gram.y_mean - c - np.einsum("mtd,td->mt", W, gram.x_mean)
    GW = np.matmul(gram.G, W[:, :, :, None])[:, :, :, 0]
    bw = np.einsum("mtd,td->mt", W, gram.b)
    inside = np.einsum("mtd,ktd->tmk", W, GW)
    E = gram.yy[:, None, None] - bw.T[:, :, None] - bw.T[:, None, :] + inside
    return E + np.einsum("t,mt,kt->tmk", gram.n, off, off)


def mixture_errors(E: Array, p: Array) -> Array:
    """Squared errors of every task (T,) for the mixture p, (M,) or (T, M), of the models behind E (T, M, M)."""
    p = np.broadcast_to(p, E.shape[:2])
    return np.maximum(np.einsum("tm,tmk,tk->t", p, E, p), 0.0)


def own_ridge_shares(E: Array, p: Array, own: Array, rows: Array) -> Array:
    """How far every task (T,) goes from the mixture p (M,) to the mixture `own`, in [0, 1].

    `rows` (T,) counts distinct observations: rows of one time or one group err together, and are one.

    With residuals r of p and s of `own`, held out, a task does best with x = <r, r - s> / ||r - s||^2, an estimate of
    variance sigma2 / ||r - s||^2. A task is one of many (x = 0) or a loner (x = 1): its share is the probability of the
    latter, given its x and how many of all tasks are loners, which their x tell. A plain choice per task would follow
    chance, and a normal distribution of x draws the few loners back to the others.

    Examples
    --------
    The first model has half the errors of the second in three tasks, and the second in the fourth; twenty rows each.

    >>> E = np.array([np.diag([20.0, 80.0])] * 3 + [np.diag([80.0, 20.0])])
    >>> own_ridge_shares(E, np.array([1.0, 0.0]), np.array([0.0, 1.0]), np.full(4, 20.0)).round(2)
    array([0., 0., 0., 1.])
    """
    toward = p - own
    apart = np.einsum("m,tmk,k->t", toward, E, toward)
    error = np.einsum("m,tmk,k->t", p, E, p)
    # Two are lost, to the level that all residuals of a task share and to x: two rows know nothing.
    known = (rows > 2) & (apart > MARGIN * error) & (error > 0)
    shares = np.zeros(len(E))
    if known.sum() < 2:
        return shares
    apart, error, freedom = apart[known], error[known], rows[known] - 2
    x = np.einsum("m,tmk,k->t", p, E[known], toward) / apart
    left = np.maximum(error - x**2 * apart, MARGIN * error)
    # Few rows may fit a mixture of two by chance: variances are drawn towards that of all tasks.
    common = left.sum() / freedom.sum()
    variance = DOUBT * common * moderated(left / (common * freedom), freedom) / apart
    x = np.clip(x, 0.0, 1.0)
    log_odds = (x - 0.5) / variance  # of N(1, v) to N(0, v) at x
    loners = 0.05
    for _ in range(LONER_ROUNDS):
        chance = expit(log_odds + np.log(loners / (1 - loners)))
        loners = max(chance.sum() / (len(x) + PRIOR_TASKS), TINY)
    shares[known] = chance
    return shares


def best_mixture(E: Array, weight: Array, *, usual: int = 0, caution: float = 0.0, draws: int = DRAWS) -> Array:
    """p >= 0 with sum 1 of least weighted error, as the mean of what resampled tasks say.

    Held-out errors are noisy, and those of tuned models are too good. Every model but the `usual` one therefore pays
    for its share: `caution` times the standard error, over tasks, of its difference to the usual one. A model that is
    better by one standard error pays less, and by two nothing. So only what is better by more than chance takes part.

    A model with a hundred times the error of the usual one takes no part: beside it no other difference would show.

    The best shares jump with the tasks that happen to be there, so they are the mean over `draws` in which every task
    counts by a random weight (Bayesian bootstrap); 0 for those of the tasks as they are.

    Examples
    --------
    Two unbiased models with independent errors of equal size are best averaged.

    >>> best_mixture(np.eye(2)[None], np.ones(1)).round(6)
    array([0.5, 0.5])
    """
    weight = weight / max(float(weight.max(initial=0.0)), TINY)  # only ratios count; tasks without error weigh 1 / TINY
    own = weight[:, None] * np.einsum("tmm->tm", E)
    error = own.sum(axis=0)
    sane = error <= WORST * max(float(error[usual]), TINY)
    if not sane.all():
        kept = np.flatnonzero(sane)
        shares = np.zeros(len(sane))
        position = int(np.searchsorted(kept, usual))
        among = E[:, kept[:, None], kept]
        shares[kept] = best_mixture(among, weight, usual=position, caution=caution, draws=draws)
        return shares
    better = own[:, [usual]] - own
    error = np.sqrt(len(own)) * better.std(axis=0)  # of the sum over tasks
    cost = caution * np.clip(2 * error - better.sum(axis=0), 0.0, error)
    # As the shares add up to 1, a cost per share is a quadratic form too, and so is any constant.
    cost = (cost[:, None] + cost[None, :]) / 2 + cost.max()
    totals = np.tensordot(_task_counts(own[:, usual], draws) * weight, E, axes=1)
    return np.asarray(np.mean([_least_shares(total + cost) for total in totals], axis=0))


def _task_counts(error: Array, draws: int) -> Array:
    """How often every task counts in every draw (draws, T), on average once; by the rank of its error.

    So the names of tasks, and their order, change nothing.
    """
    if not draws:
        return np.ones((1, len(error)))
    count = np.random.default_rng(SEED).exponential(size=(draws, len(error)))
    count /= count.mean(axis=1, keepdims=True)
    return count[:, np.argsort(np.argsort(error, kind="stable"))]


def _least_shares(total: Array) -> Array:
    """p >= 0 with sum 1 and the least p'Ep: a non-negative least-squares problem in a root of E."""
    # Of errors that are nothing but rounding, the trace may be negative.
    scale = max(float(np.abs(total).max()), TINY)
    value, vector = np.linalg.eigh(total / scale)
    root = np.sqrt(np.maximum(value, MARGIN))[:, None] * vector.T
    # For p = s q with shares q, min over s of s^2 q'Eq + (1 - s)^2 is q'Eq / (q'Eq + 1): the direction of p is that of
    # the best shares.
    p, _ = nnls(np.vstack([root, np.ones(len(total))]), np.append(np.zeros(len(total)), 1.0))
    return np.asarray(p / p.sum())
