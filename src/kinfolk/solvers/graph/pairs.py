"""Pairs of tasks found by their distances, without a matrix of all: nearest neighbours, and all pairs within reach."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kinfolk.rows.gram import TINY, Array
from kinfolk.solvers.batched import row_dots
from kinfolk.threads import allowed_threads, single_threaded

Index = NDArray[np.intp]

PAIRS_AT_ONCE = 20_000_000
BLOCK_ROWS = 256  # a block of products stays in the second-level cache: 1 ns a pair, 3 when it does not
BLOCK_COLUMNS = 2048
LARGEST_SINGLE = 1e30  # squares beyond would overflow in single precision
SINGLE = 0.02  # single precision is used while its error is below this share of the reach


@dataclass(frozen=True, eq=False)
class Nearest:
    """Squared distances (T, k) and indices (T, k) of the k nearest other tasks, nearest first."""

    distance: Array
    index: Index


def nearest(W: Array, k: int, rows: Index | None = None) -> Nearest:
    """The k nearest tasks of all tasks, or of `rows`: exact, by brute force in blocks."""
    from sklearn.neighbors import NearestNeighbors

    ask = np.arange(len(W)) if rows is None else rows
    k = min(k, len(W) - 1)
    index = NearestNeighbors(algorithm="brute").fit(W).kneighbors(W[ask], k + 1, return_distance=False)
    own = index == ask[:, None]
    own[~own.any(axis=1), -1] = True  # among duplicates a task may miss itself
    index = index[~own].reshape(len(ask), k)
    distance = pair_distances(W, np.repeat(ask, k), index.ravel()).reshape(len(ask), k)
    order = np.argsort(distance, axis=1, kind="stable")
    return Nearest(np.take_along_axis(distance, order, 1), np.take_along_axis(index, order, 1))


def pair_keys(a: Index, b: Index, T: int) -> Index:
    """One integer per undirected pair, sorted, without repeats.

    >>> pair_keys(np.array([2, 0, 1]), np.array([0, 2, 2]), 3)
    array([2, 5])
    """
    return np.unique(np.minimum(a, b) * T + np.maximum(a, b))


def pair_distances(W: Array, i: Index, j: Index) -> Array:
    """||w_i - w_j||^2 for lists of pairs, from differences, in blocks."""
    z = np.empty(len(i))
    block = max(1, PAIRS_AT_ONCE // (8 * max(W.shape[1], 1)))
    for start in range(0, len(i), block):
        part = slice(start, start + block)
        difference = W[i[part]] - W[j[part]]
        z[part] = row_dots(difference, difference)
    return z


def pairs_within(W: Array, reach: Array, rows: Index | None = None) -> Index:
    """Keys of all pairs with ||w_i - w_j||^2 < reach_i + reach_j, or of those with an end in `rows`.

    >>> pairs_within(np.array([[0.0], [1.0], [4.0]]), np.array([0.6, 0.6, 8.0]))
    array([1])
    >>> pairs_within(np.array([[0.0], [1.0], [4.0]]), np.array([0.6, 0.6, 9.0]))
    array([1, 5])
    """
    a, b, _ = _close_pairs(W, reach, reach, rows)
    return pair_keys(a, b, len(W))


def _close_pairs(W: Array, left: Array, right: Array, rows: Index | None) -> tuple[Index, Index, Array]:
    """All pairs a, b with z_ab = ||w_a - w_b||^2 < left_a + right_b, a in `rows`, and their z.

    The test is the sign of a bilinear form in (w, left - ||w||^2, 1), so one matrix product and one comparison look at
    a block of pairs. Its rounding error is at most (d + 8) eps (||w_a||^2 + ||w_b||^2 + left_a + right_b): that is
    added to both sides so that no pair is lost, and the pairs found are checked from differences. With all rows and
    left = right every pair is looked at once.
    """
    one, two = _sides(W, left, right)
    ask = np.arange(len(W)) if rows is None else rows
    half_only = rows is None and left is right

    def look(start: int) -> tuple[Index, Index, Array]:
        a, b = _hits(one[ask[start : start + BLOCK_ROWS]], two, start if half_only else 0)
        a = ask[start + a]
        keep = a < b if half_only else a != b
        a, b = a[keep], b[keep]
        z = pair_distances(W, a, b)
        near = z < left[a] + right[b]
        return a[near], b[near], z[near]

    # Blocks this small gain nothing from threads inside a product: one thread works on each block.
    with single_threaded(), ThreadPoolExecutor(allowed_threads()) as pool:
        found = list(pool.map(look, range(0, len(ask), BLOCK_ROWS)))
    found.append((np.empty(0, np.intp), np.empty(0, np.intp), np.empty(0)))
    a, b, z = (np.concatenate(part) for part in zip(*found, strict=True))
    return a, b, z


def _sides(W: Array, left: Array, right: Array) -> tuple[Array, Array]:
    """The two factors of the bilinear form, in single precision where that is enough."""
    unit = max(float(np.median(left)), TINY)
    V = (W - np.median(W, axis=0)) * np.sqrt(2 / unit)
    half = row_dots(V, V) / 2
    left = left / unit
    right = right / unit
    dtype = _precision(half + left, W.shape[1])
    error = (W.shape[1] + 8) * np.finfo(dtype).eps * (half + left + right)
    ones = np.ones(len(W))
    one = np.column_stack([V, left - half + error, ones]).astype(dtype)
    two = np.column_stack([V, ones, right - half + error]).astype(dtype)
    return one, np.ascontiguousarray(two.T)


def _precision(size: Array, d: int) -> type[np.floating]:
    """Single precision where its rounding is small beside the reach, whose median is 1 here, for nearly all tasks."""
    error = (d + 8) * np.finfo(np.float32).eps * float(np.quantile(size, 0.999))
    return np.float32 if error < SINGLE and size.max() < LARGEST_SINGLE else np.float64


def _hits(one: Array, two: Array, first: int) -> tuple[Index, Index]:
    """Row and column of all positive entries of one @ two from column `first` on.

    Hits are rare, so comparisons are searched eight at a time, as the bytes of one integer.
    """
    width = BLOCK_COLUMNS
    product = np.empty((len(one), width), one.dtype)  # both are written again for every block: no allocation inside
    positive = np.empty((len(one), width), bool)
    found_rows = [np.empty(0, np.intp)]
    found_columns = [np.empty(0, np.intp)]
    for start in range(first, two.shape[1], width):
        part = two[:, start : start + width]
        if part.shape[1] < width:
            product.fill(0)  # the last block is narrower: what the one before left there must not count
        np.matmul(one, part, out=product[:, : part.shape[1]])
        np.greater(product, 0, out=positive)
        eights = np.flatnonzero(positive.ravel().view(np.uint64))  # integers with a true byte: an eighth of the search
        which, byte = np.nonzero(positive.reshape(-1, 8)[eights])
        place = 8 * eights[which] + byte  # in the block, row after row
        found_rows.append(place // width)
        found_columns.append(start + place % width)
    return np.concatenate(found_rows), np.concatenate(found_columns)
