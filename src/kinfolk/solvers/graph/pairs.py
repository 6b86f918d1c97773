"""Pairs of tasks found by their distances, without a matrix of all: nearest neighbours, and all pairs within reach."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kinfolk.rows.gram import TINY, Array
from kinfolk.solvers.batched import row_dots
from kinfolk.solvers.graph.edges import squared_distances
from kinfolk.threads import allowed_threads, in_parts, single_threaded

Index = NDArray[np.intp]

PAIRS_AT_ONCE = 10_000_000
AT_ONCE = 2500  # tasks whose distances are held as one matrix, which takes less time than to find out how many threads
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
    ask = np.arange(len(W)) if rows is None else rows
    k = min(k, len(W) - 1)
    if len(W) <= AT_ONCE:
        index = np.argpartition(squared_distances(W)[ask], k, axis=1)[:, : k + 1]
    else:
        from sklearn.neighbors import NearestNeighbors

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
    keys = np.sort(np.minimum(a, b) * T + np.maximum(a, b))  # np.unique hashes, in fifty times the time of a sort
    return keys[np.diff(keys, prepend=-1) > 0]


def pair_distances(W: Array, i: Index, j: Index) -> Array:
    """||w_i - w_j||^2 for lists of pairs, from differences, in blocks."""
    z = np.empty(len(i))

    def work(part: slice) -> None:
        difference = W[i[part]] - W[j[part]]
        z[part] = row_dots(difference, difference)

    in_parts(work, len(i), max(1, PAIRS_AT_ONCE // (8 * max(W.shape[1], 1))))
    return z


def pairs_within(W: Array, reach: Array, rows: Index | None = None) -> Index:
    """Keys of all pairs with ||w_i - w_j||^2 < reach_i + reach_j, or of those with an end in `rows`.

    >>> pairs_within(np.array([[0.0], [1.0], [4.0]]), np.array([0.6, 0.6, 8.0]))
    array([1])
    >>> pairs_within(np.array([[0.0], [1.0], [4.0]]), np.array([0.6, 0.6, 9.0]))
    array([1, 5])
    """
    # The test is the sign of a bilinear form in (w, reach - ||w||^2, 1), so one matrix product and one comparison look
    # at a block of pairs; the pairs found are checked from differences. With all rows every pair is looked at once.
    one, two = _sides(W, reach)
    ask = np.arange(len(W)) if rows is None else rows

    def look(start: int) -> Index:
        a, b = _hits(one[ask[start : start + BLOCK_ROWS]], two, start if rows is None else 0)
        a = ask[start + a]
        keep = a < b if rows is None else a != b
        a, b = a[keep], b[keep]
        near = pair_distances(W, a, b) < reach[a] + reach[b]
        return pair_keys(a[near], b[near], len(W))

    # Blocks this small gain nothing from threads inside a product: one thread works on each block.
    with single_threaded(), ThreadPoolExecutor(allowed_threads()) as pool:
        found = list(pool.map(look, range(0, len(ask), BLOCK_ROWS)))
    return np.unique(np.concatenate([np.empty(0, np.intp), *found]))


def _sides(W: Array, reach: Array) -> tuple[Array, Array]:
    """The two factors of the bilinear form, in single precision where that is enough.

    Its rounding error is at most (d + 8) eps (||w_a||^2 + ||w_b||^2 + reach_a + reach_b): that is added to both sides,
    so that no pair is lost.
    """
    unit = max(float(np.median(reach)), TINY)
    V = (W - np.median(W, axis=0)) * np.sqrt(2 / unit)
    half = row_dots(V, V) / 2
    reach = reach / unit
    dtype = _precision(half + reach, W.shape[1])
    error = (W.shape[1] + 8) * np.finfo(dtype).eps * (half + 2 * reach)
    ones = np.ones(len(W))
    one = np.column_stack([V, reach - half + error, ones]).astype(dtype)
    two = np.column_stack([V, ones, reach - half + error]).astype(dtype)
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
