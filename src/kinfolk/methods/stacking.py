"""Convex combinations of linear models, weighted by their held-out errors.

All models of a family are linear in the same features, so a mixture of them is again one vector of coefficients per
task, and the errors of every mixture follow from statistics: with residuals r_m of model m,

    error(p) = sum_mk p_m p_k <r_m, r_k>,    p >= 0,  sum p = 1.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import nnls

from kinfolk.rows.gram import TINY, Array, GramStats
from kinfolk.solvers.batched import times


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
    off = gram.y_mean - c - np.einsum("mtd,td->mt", W, gram.x_mean)
    GW = times(gram.G, W)
    bw = np.einsum("mtd,td->mt", W, gram.b)
    inside = np.einsum("mtd,ktd->tmk", W, GW)
    E = gram.yy[:, None, None] - bw.T[:, :, None] - bw.T[:, None, :] + inside
    return E + np.einsum("t,mt,kt->tmk", gram.n, off, off)


def model_errors(gram: GramStats, W: Array, c: Array) -> Array:
    """Squared errors (M, T) of models W (M, T, d), c (M, T) over the rows behind `gram`: the diagonal of the above."""
    off = gram.y_mean - c - np.einsum("mtd,td->mt", W, gram.x_mean)
    GW = times(gram.G, W)
    return gram.yy + np.einsum("mtd,mtd->mt", GW - 2 * gram.b, W) + gram.n * off**2


def mixture_errors(E: Array, p: Array) -> Array:
    """Squared errors of every task (T,) for the mixture p of the models behind E (T, M, M)."""
    return np.maximum(np.einsum("m,tmk,k->t", p, E, p), 0.0)


def best_mixture(E: Array, weight: Array, *, favourite: int = 0, caution: float = 0.0) -> Array:
    """p >= 0 with sum 1 of least weighted error: a non-negative least-squares problem in a root of the error matrix.

    Held-out errors are noisy, and those of tuned models too good. So a share of a model costs `caution` standard
    errors, over tasks, of its difference to the `favourite`, less as it is better by one to two of them: it must be
    better by more than chance to take part.

    Examples
    --------
    Two unbiased models with independent errors of equal size are best averaged.

    >>> best_mixture(np.eye(2)[None], np.ones(1)).round(6)
    array([0.5, 0.5])
    """
    weight = weight / max(float(weight.max(initial=0.0)), TINY)  # only ratios count; tasks without error weigh 1 / TINY
    total = np.tensordot(weight, E, axes=1)
    own = weight[:, None] * np.einsum("tmm->tm", E)
    better = own[:, [favourite]] - own
    error = np.sqrt(len(own)) * better.std(axis=0)
    cost = caution * np.clip(2 * error - better.sum(axis=0), 0.0, error)
    # As the shares add up to 1, a cost per share is a quadratic form too, and so is any constant.
    total = total + (cost[:, None] + cost[None, :]) / 2 + cost.max()
    scale = max(float(np.trace(total)) / len(total), TINY)
    value, vector = np.linalg.eigh(total / scale)
    root = np.sqrt(np.maximum(value, 1e-12))[:, None] * vector.T
    # For p = s q with shares q, min over s of s^2 q'Eq + (1 - s)^2 is q'Eq / (q'Eq + 1): the direction of p is that of
    # the best shares.
    p, _ = nnls(np.vstack([root, np.ones(len(total))]), np.append(np.zeros(len(total)), 1.0))
    return p / p.sum()
