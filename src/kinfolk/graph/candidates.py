"""The graph step from coefficients, without the T^2 pairs: candidate edges and a certificate that no other is needed.

A pair is zero in the full answer when lam_i + lam_j <= 2 gamma z_ij. A pair outside the k nearest of both its ends has
z_ij >= max(r_i, r_j), r the distance to the k-th nearest. So a task with lam_i + max(lam) <= 2 gamma r_i is certified:
all its edges are among the candidates. Only pairs of two uncertified tasks are left to look at, and those are few.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kinfolk.gram import Array
from kinfolk.graph.edges import EdgeList, squared_distances
from kinfolk.graph.learn import learn_graph
from kinfolk.graph.newton import newton
from kinfolk.solution import Solution

DENSE_TASKS = 2500  # up to here all pairs are held at once
NEIGHBORS = 32  # candidates per task at first
LOUD = (0.0, 0.001, 0.003, 0.01, 0.03, 0.1)  # shares of tasks that may be compared with everyone
PAIRS_AT_ONCE = 20_000_000


@dataclass(frozen=True, eq=False)
class Nearest:
    """Squared distances (T, k) and indices (T, k) of the k nearest other tasks, nearest first."""

    distance: Array
    index: NDArray[np.intp]


def nearest(W: Array, k: int, rows: NDArray[np.intp] | None = None) -> Nearest:
    """The k nearest tasks of all tasks, or of `rows`: exact, by brute force in blocks."""
    from sklearn.neighbors import NearestNeighbors

    ask = np.arange(len(W)) if rows is None else rows
    k = min(k, len(W) - 1)
    index = NearestNeighbors(algorithm="brute").fit(W).kneighbors(W[ask], k + 1, return_distance=False)
    own = index == ask[:, None]
    own[~own.any(axis=1), -1] = True  # among duplicates a task may miss itself
    index = index[~own].reshape(len(ask), k)
    distance = _pair_distances(W, np.repeat(ask, k), index.ravel()).reshape(len(ask), k)
    order = np.argsort(distance, axis=1, kind="stable")
    return Nearest(np.take_along_axis(distance, order, 1), np.take_along_axis(index, order, 1))


def graph_of_weights(
    W: Array,
    *,
    alpha: float,
    beta: float,
    gamma: float,
    method: str = "auto",
    start: Array | None = None,
) -> Solution:
    """The graph step at the coefficients W: all pairs for few tasks, certified candidates for many."""
    if len(W) <= DENSE_TASKS or method == "primal_dual":
        return learn_graph(squared_distances(W), alpha=alpha, beta=beta, gamma=gamma, method=method, start=start)
    return by_candidates(W, alpha=alpha, beta=beta, gamma=gamma, start=start)


def by_candidates(
    W: Array,
    *,
    alpha: float,
    beta: float,
    gamma: float,
    start: Array | None = None,
    k: int = NEIGHBORS,
    rounds: int = 8,
) -> Solution:
    """Solve on candidates, look for pairs that want in, repeat until no pair does.

    The `certified` share of the result is 1 unless the rounds ran out.
    """
    T = len(W)
    near = nearest(W, k)
    radius = near.distance[:, -1].copy()
    keys = _keys(np.repeat(np.arange(T), near.index.shape[1]), near.index.ravel(), T)
    n_iter = 0
    for _ in range(rounds):
        edges = EdgeList(keys // T, keys % T, T)
        z = _pair_distances(W, edges.i, edges.j)
        solution = newton(edges, z, alpha=alpha, beta=beta, gamma=gamma, start=start)
        n_iter += solution.n_iter
        start = solution.dual
        assert start is not None
        loud, open_ = _uncertified(start, radius, 2 * gamma)
        missing = np.concatenate(
            [_wanting(W, start, 2 * gamma, loud, np.arange(T), keys), _wanting(W, start, 2 * gamma, open_, open_, keys)]
        )
        if not len(missing):
            break
        keys = np.union1d(keys, missing)
    share = 1.0 if not len(missing) else 1 - len(np.union1d(loud, open_)) / T
    return replace(solution, value=edges.adjacency(solution.value), n_iter=n_iter, certified=share)


def _uncertified(lam: Array, radius: Array, price: float) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The tasks with the largest multipliers, and the others that these leave without a certificate.

    The former are compared with everyone, the latter with each other; how many count as large is what makes the
    fewest pairs.
    """
    T = len(lam)
    by_size = np.argsort(-lam)
    splits = []
    for share in LOUD:
        loud, rest = by_size[: int(share * T)], by_size[int(share * T) :]
        open_ = rest[lam[rest] + lam[rest[0]] > price * radius[rest]]
        splits.append((len(loud) * T + len(open_) ** 2, loud, open_))
    return min(splits, key=lambda split: split[0])[1:]


def _wanting(
    W: Array, lam: Array, price: float, one: NDArray[np.intp], two: NDArray[np.intp], known: NDArray[np.intp]
) -> NDArray[np.intp]:
    """Keys of the pairs between two sets of tasks with lam_i + lam_j > price z_ij that are not known yet.

    The test is the sign of a bilinear form in (w, lam - price ||w||^2, 1), so one matrix product and one comparison
    look at a block of pairs; the few that pass are checked again from differences.
    """
    T, found = len(W), [np.empty(0, np.intp)]
    V = np.sqrt(2 * price) * (W - W.mean(axis=0))
    offset = lam - np.einsum("td,td->t", V, V) / 2
    left, right = (np.column_stack([V, *columns]) for columns in ((offset, np.ones(T)), (np.ones(T), offset)))
    margin = -1e-12 * np.abs(offset).max()
    step = max(1, PAIRS_AT_ONCE // max(len(two), 1))
    for start in range(0, len(one), step):
        i = one[start : start + step]
        hit = np.flatnonzero(left[i] @ right[two].T > margin)
        a, b = i[hit // len(two)], two[hit % len(two)]
        keys = np.setdiff1d(_keys(a[a != b], b[a != b], T), known, assume_unique=True)
        z = _pair_distances(W, keys // T, keys % T)
        found.append(keys[lam[keys // T] + lam[keys % T] > price * z * (1 + 1e-14)])
    return np.unique(np.concatenate(found))


def _keys(a: NDArray[np.intp], b: NDArray[np.intp], T: int) -> NDArray[np.intp]:
    """One sorted integer per undirected pair."""
    return np.unique(np.minimum(a, b) * T + np.maximum(a, b))


def _pair_distances(W: Array, i: NDArray[np.intp], j: NDArray[np.intp]) -> Array:
    """||w_i - w_j||^2 for lists of pairs, from differences, in blocks."""
    z = np.empty(len(i))
    block = max(1, PAIRS_AT_ONCE // max(W.shape[1], 1))
    for start in range(0, len(i), block):
        part = slice(start, start + block)
        difference = W[i[part]] - W[j[part]]
        z[part] = np.einsum("ed,ed->e", difference, difference)
    return z
