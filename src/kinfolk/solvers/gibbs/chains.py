"""Have the chains forgotten where they began? Split R-hat and the effective number of draws.

Both after Gelman et al., Bayesian Data Analysis (3rd ed.), section 11.4-11.5; the sum of autocorrelations is cut by
Geyer's initial monotone sequence.
"""

from __future__ import annotations

import numpy as np

from kinfolk.rows.gram import TINY, Array

STILL = 1e-24  # variance over mean square of draws that differ by rounding only


def split_rhat(draws: Array) -> Array:
    """Potential scale reduction of every quantity, from draws of shape (chains, length, quantities).

    Every chain is cut into halves, so a single drifting chain shows too. A quantity that never moves has 1.

    >>> steady = np.tile([0.0, 1.0], (2, 4))[:, :, None]
    >>> apart = steady + np.array([0.0, 9.0])[:, None, None]
    >>> split_rhat(steady).round(2), bool(split_rhat(apart)[0] > 5)
    (array([0.87]), True)
    """
    halves = _halves(draws)
    length = halves.shape[1]
    within = halves.var(axis=1, ddof=1).mean(axis=0)
    between = length * halves.mean(axis=1).var(axis=0, ddof=1)
    total = (length - 1) / length * within + between / length
    still = total <= STILL * np.mean(halves**2, axis=(0, 1))
    return np.where(still, 1.0, np.sqrt(total / np.maximum(within, STILL * total + TINY)))


def effective_size(draws: Array) -> Array:
    """How many independent draws tell as much about every mean, from draws of shape (chains, length, quantities)."""
    halves = _halves(draws)
    chains, length, quantities = halves.shape
    size = chains * length
    covariance = _autocovariance(halves).mean(axis=0)  # (length, quantities)
    within = covariance[0] * length / (length - 1)
    total = covariance[0] + halves.mean(axis=1).var(axis=0, ddof=1)
    still = total <= STILL * np.mean(halves**2, axis=(0, 1))
    rho = 1 - (within - covariance) / np.where(still, 1.0, total)
    rho[0] = 1.0
    pairs = rho[: length // 2 * 2].reshape(length // 2, 2, quantities).sum(axis=1)
    alive = np.cumprod(pairs > 0, axis=0).astype(bool)
    monotone = np.minimum.accumulate(np.where(alive, pairs, 0.0), axis=0)
    time = np.maximum(2 * monotone.sum(axis=0) - 1, 1 / np.log10(size))
    return np.where(still, size, size / time)


def _halves(draws: Array) -> Array:
    length = draws.shape[1] // 2
    return np.concatenate([draws[:, :length], draws[:, -length:]])


def _autocovariance(draws: Array) -> Array:
    """Biased autocovariances over the second axis, by FFT."""
    length = draws.shape[1]
    centred = draws - draws.mean(axis=1, keepdims=True)
    spectrum = np.fft.rfft(centred, n=2 * length, axis=1)
    return np.fft.irfft(spectrum * spectrum.conj(), n=2 * length, axis=1)[:, :length] / length
