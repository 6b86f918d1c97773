"""Dynamic time warping between series, all pairs at once."""

from __future__ import annotations

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike, NDArray

from kinfolk.progress import Callback, report
from kinfolk.rows.gram import Array

CELLS = 2**15  # of one anti-diagonal over a block of pairs: what stays in cache


def dtw_distances(
    series: ArrayLike, *, band: float = 0.1, n_jobs: int | None = None, callback: Callback | None = None
) -> Array:
    """Distance of every two series when time may be stretched a little.

    The root of the smallest sum of squared differences along a path of index pairs (i, j) from (0, 0) to (n - 1, n - 1)
    that moves by one in i, in j or in both, and keeps |i - j| <= band * n (Sakoe and Chiba 1978). Levels matter:
    nothing is centred or scaled.

    Parameters
    ----------
    series : array of shape (T, n), one series per row, without gaps
    band : width of the band as a share of the length; 0 is the Euclidean distance, 1 leaves the path free
    n_jobs : blocks of pairs in parallel, with joblib
    callback : called with a `Progress` after every block of pairs

    Returns
    -------
    array of shape (T, T), symmetric with zero diagonal

    Examples
    --------
    The same step, one moment later: stretched, the two agree.

    >>> step = [[0, 0, 1, 1], [0, 0, 0, 1], [2, 2, 2, 2]]
    >>> dtw_distances(step, band=0.25)[0]
    array([0.        , 0.        , 3.16227766])
    >>> dtw_distances(step, band=0)[0]
    array([0.        , 1.        , 3.16227766])
    """
    S = _series(series)
    if not 0 <= band <= 1:
        raise ValueError(f"band={band}: give a share of the length, from 0 (no stretching) to 1 (free)")
    T, n = S.shape
    reach = int(band * n + 1e-9)
    left, right = np.triu_indices(T, k=1)
    size = max(1, CELLS // (reach + 1))
    starts = range(0, len(left), size)
    jobs = (delayed(_warp)(S, left[k : k + size], right[k : k + size], reach) for k in starts)
    distances = np.zeros((T, T))
    for k, block in zip(starts, Parallel(n_jobs=n_jobs, return_as="generator")(jobs), strict=True):
        distances[left[k : k + size], right[k : k + size]] = block
        report(callback, "warping", min(k + size, len(left)), len(left))
    return distances + distances.T


def _warp(S: Array, left: NDArray[np.intp], right: NDArray[np.intp], reach: int) -> Array:
    """Distances of some pairs, by anti-diagonals i + j = s of the table of cheapest paths.

    Row i + 1 of a diagonal holds cell (i, s - i) for all pairs; the rows just outside the band are infinite, and no
    cell looks farther than that.
    """
    n = S.shape[1]
    one = S.T[:, left]  # row i is time i
    two = S.T[::-1, right]  # row j is time n - 1 - j: along an anti-diagonal both then run forwards
    before, last, now = (np.full((n + 2, len(left)), np.inf) for _ in range(3))
    last[1] = (one[0] - two[n - 1]) ** 2
    for s in range(1, 2 * n - 1):
        low = max(0, s - n + 1, (s - reach + 1) // 2)  # i of the first cell inside table and band
        high = min(s, n - 1, (s + reach) // 2)
        here = slice(low + 1, high + 2)
        above = slice(low, high + 1)
        cost = one[low : high + 1] - two[n - 1 - s + low : n - s + high]
        np.square(cost, out=cost)
        best = np.minimum(last[here], last[above])  # from (i, j - 1) and (i - 1, j)
        np.minimum(best, before[above], out=best)  # from (i - 1, j - 1)
        np.add(best, cost, out=now[here])
        now[low] = now[high + 2] = np.inf
        before, last, now = last, now, before
    return np.sqrt(last[n])


def _series(series: ArrayLike) -> Array:
    try:
        S = np.asarray(series, dtype=np.float64)
    except ValueError:
        raise ValueError(
            "the series have different lengths or are not numbers: cut or resample them to one length, as an array "
            "(T, n) with one series per row"
        ) from None
    if S.ndim != 2 or not S.size:
        raise ValueError(f"series of shape {S.shape}: give one series per row, as an array (T, n)")
    bad = np.argwhere(~np.isfinite(S))
    if len(bad):
        t, i = bad[0]
        raise ValueError(f"series {t} is {S[t, i]} at position {i}: fill the gaps first, e.g. by interpolation")
    return S
