"""Quantiles of what is predicted of classes, counts and amounts, with what fit leaves open about the linear predictor.

The predictor of a row is normal, eta = m + s z, so that the mean of its target is not known either. The quantiles of a
probability are those of the predictor, turned into probabilities. A new count or amount y has the distribution

    P(y <= x) = integral of P(y <= x | mean(m + s z)) over z,

where counts of the dispersion phi > 1 are negative binomial with the variance phi mean, and amounts have a gamma law.
"""

from __future__ import annotations

import numpy as np
from scipy.special import betainc, gammainc, gammaincc, ndtri

from kinfolk.rows.families import STEEPEST, Family
from kinfolk.rows.gram import TINY, Array

NODES = np.linspace(-3.9, 3.9, 31)  # of z
WEIGHTS = np.exp(-(NODES**2) / 2) / np.exp(-(NODES**2) / 2).sum()
POINTS = 24  # of x at which the distribution of a row is worked out
REACH = 3.0  # standard deviations beyond the quantiles asked for, between which these points lie
STILL = 1 / 30  # relative variance of targets about their mean: below, target and mean are log-normal together
BLOCK = 4096  # rows at a time: 24 MB of nodes and points
POISSON = 1e-6  # excess of the dispersion over 1 below which counts are Poisson's
NEXT_TO_ONE = 1e-12  # of shares next to 1
HALF = 0.5  # counts are spread over half a count below and above: whole numbers alone would make intervals too wide


def quantiles(family: Family, eta: Array, std: Array, dispersion: float, q: Array) -> Array:
    """Quantiles q (k,) of predictors eta with standard deviations std: probabilities, or new counts or amounts.

    The result has one more axis, the last. Quantiles of counts lie between whole numbers.

    Examples
    --------
    >>> from kinfolk.rows.families import FAMILIES
    >>> ends = np.array([0.05, 0.95])
    >>> quantiles(FAMILIES["binomial"], np.zeros(1), np.ones(1), 1.0, ends).round(2)
    array([[0.16, 0.84]])
    >>> quantiles(FAMILIES["poisson"], np.log([4.0]), np.zeros(1), 1.0, ends).round(1)
    array([[1.1, 7.5]])
    """
    z = ndtri(q)
    if family.link != "log":
        return family.mean(eta[..., None] + std[..., None] * z)
    counts = family.name == "poisson"
    if counts:  # those that vary less than Poisson's do so by chance
        dispersion = max(dispersion, 1.0)
    m = eta.ravel()
    s = np.broadcast_to(std, eta.shape).ravel()
    relative = dispersion / family.mean(m) if counts else np.full(len(m), dispersion)
    noise = np.log1p(relative)
    found = family.mean((m - noise / 2)[:, None] + np.sqrt(s**2 + noise)[:, None] * z)
    loud = np.flatnonzero(relative >= STILL)
    for start in range(0, len(loud), BLOCK):
        some = loud[start : start + BLOCK]
        # Amounts of twice the mean are twice as large, and no other than that of 1 leaves the range of numbers.
        unit = np.ones(len(some)) if counts else family.mean(m[some])
        beside = _by_points(family, m[some] if counts else 0 * unit, s[some], dispersion, z)
        with np.errstate(over="ignore"):
            found[some] = np.minimum(unit[:, None] * beside, family.mean(np.full(1, STEEPEST)))
    return found.reshape(*eta.shape, len(q))


def _by_points(family: Family, eta: Array, std: Array, dispersion: float, z: Array) -> Array:
    """The same from the distribution at some points, between which its normal scores are nearly linear in log x."""
    far = np.abs(z).max() + REACH
    low = family.mean(eta - far * (std + max(dispersion, 1.0)))
    high = family.mean(eta + far * std)
    with np.errstate(over="ignore"):
        scale = dispersion * (1.0 if family.name == "poisson" else high)  # variance over mean
        high = high + far * np.sqrt(scale) * np.sqrt(high) + far**2 * scale
    high = np.minimum(high, family.mean(np.full(1, STEEPEST)))
    shift = HALF * (family.name == "poisson")
    start = np.log(low + shift)
    log_x = start[:, None] + (np.log(high + shift) - start)[:, None] * np.linspace(0, 1, POINTS)
    mean = family.mean(eta[:, None] + std[:, None] * NODES)
    share = _distribution(family, np.exp(log_x)[:, :, None], mean[:, None, :], dispersion) @ WEIGHTS
    score = ndtri(np.clip(share, TINY, 1 - NEXT_TO_ONE))
    x = np.maximum(np.exp(_interpolated(score, log_x, z)) - shift, 0.0)
    return np.where(z < score[:, :1], 0.0, x)


def _distribution(family: Family, x: Array, mean: Array, dispersion: float) -> Array:
    """P(y <= x - 1/2) of counts, extended to real x, and P(y <= x) of amounts."""
    if family.name == "gamma":
        with np.errstate(over="ignore"):  # beyond all numbers everything lies below
            return gammainc(1 / dispersion, x / (dispersion * mean))
    if dispersion <= 1 + POISSON:
        return gammaincc(x, mean)
    share = betainc(mean / (dispersion - 1), x, 1 / dispersion)
    # Where both numbers are huge it finds none, and counts do not differ from their mean.
    return np.where(np.isnan(share), np.heaviside(x - mean, HALF), share)


def _interpolated(score: Array, log_x: Array, z: Array) -> Array:
    """log x at the scores z (k,), from rows of points (n, m) whose scores rise; the ends for those beyond."""
    place = np.clip((score[:, :, None] < z).sum(axis=1) - 1, 0, POINTS - 2)
    left, right = np.take_along_axis(score, place, 1), np.take_along_axis(score, place + 1, 1)
    share = np.clip((z - left) / np.maximum(right - left, NEXT_TO_ONE), 0.0, 1.0)
    a, b = np.take_along_axis(log_x, place, 1), np.take_along_axis(log_x, place + 1, 1)
    return a + share * (b - a)
