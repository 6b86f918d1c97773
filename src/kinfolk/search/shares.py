"""Shares of members in a mixture, from their cross errors: the common ones, and how far a task goes its own way."""

from __future__ import annotations

import numpy as np
from scipy.optimize import nnls
from scipy.special import expit

from kinfolk.methods.uncertainty import moderated
from kinfolk.rows.gram import TINY, Array
from kinfolk.solvers.tolerances import MARGIN

DOUBT = 1.5  # factor of the variance of a task's own estimate: its folds share rows
PRIOR_TASKS = 5  # tasks that are no outliers, added to those at hand
PRIOR_OUTLIERS = 0.05  # share of outliers from which the estimate starts
ROUNDS = 100  # of that estimate
WORST = 100.0  # times the least error: a model with independent errors so large would have a share of 1 % at best
DRAWS = 50  # of tasks, over which shares are averaged
SEED = 0  # of these draws


def own_ridge_shares(E: Array, p: Array, own: Array, rows: Array, least: float = 0.0) -> Array:
    """How far every task (T,) goes from the mixture p (M,) to the mixture `own`, in [0, 1].

    `rows` (T,) counts distinct observations: rows of one time or one group err together, and are one. Working residuals
    of classes and counts have at `least` the variance of their family: a row of many trials is not many rows.

    With residuals r of p and s of `own`, held out, a task does best with x = <r, r - s> / ||r - s||^2, an estimate of
    variance sigma2 / ||r - s||^2. A task is one of many (x = 0) or an outlier (x = 1): its share is the probability of
    the latter, given its x and how many of all tasks are outliers, which their x tell. A plain choice per task would
    follow chance, and a normal distribution of x draws the few outliers back to the others.

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
    judged = (rows > 2) & (apart > MARGIN * error) & (error > 0)
    shares = np.zeros(len(E))
    if judged.sum() < 2:
        return shares

    apart, error, freedom = apart[judged], error[judged], rows[judged] - 2
    x = np.einsum("m,tmk,k->t", p, E[judged], toward) / apart
    rest = np.maximum(error - x**2 * apart, MARGIN * error)
    # Few rows may fit a mixture of two by chance: variances are drawn towards that of all tasks.
    common = max(rest.sum() / freedom.sum(), least)
    variance = DOUBT * np.maximum(common * moderated(rest / (common * freedom), freedom), least) / apart
    log_odds = (np.clip(x, 0.0, 1.0) - 0.5) / variance  # of N(1, v) to N(0, v) at x

    outliers = PRIOR_OUTLIERS
    for _ in range(ROUNDS):
        chance = expit(log_odds + np.log(outliers / (1 - outliers)))
        outliers = max(chance.sum() / (len(x) + PRIOR_TASKS), TINY)
    shares[judged] = chance
    return shares


def best_mixture(E: Array, weight: Array, *, draws: int = DRAWS) -> Array:
    """p >= 0 with sum 1 of least weighted error sum_t weight_t p'E_t p, as the mean of what resampled tasks say.

    The best shares jump with the tasks that happen to be there, so they are the mean over `draws` in which every task
    counts by a random weight (Bayesian bootstrap); 0 for those of the tasks as they are.

    A model with a hundred times the error of the best takes no part: with it no other difference would show.

    Examples
    --------
    Two unbiased models with independent errors of equal size are best averaged.

    >>> best_mixture(np.eye(2)[None], np.ones(1)).round(6)
    array([0.5, 0.5])
    """
    weight = weight / max(float(weight.max(initial=0.0)), TINY)  # only ratios count; tasks without error weigh 1 / TINY
    errors = weight[:, None] * np.einsum("tmm->tm", E)
    total = errors.sum(axis=0)
    sane = np.flatnonzero(total <= WORST * max(float(total.min()), TINY))
    among = E[:, sane[:, None], sane]
    totals = np.tensordot(_task_counts(errors[:, total.argmin()], draws) * weight, among, axes=1)
    shares = np.zeros(len(total))
    shares[sane] = np.mean([_least_shares(drawn) for drawn in totals], axis=0)
    return shares


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
