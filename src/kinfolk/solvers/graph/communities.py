"""Groups of tasks by Louvain's method: greedy modularity, then the same on the graph of groups."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.rows.gram import TINY, Array
from kinfolk.solvers.tolerances import MARGIN

ROUNDS = 50  # through all nodes at most
SEPARATE = 1.5  # distance between two groups over that inside them, below which they are one


def louvain(A: sparse.csr_array) -> NDArray[np.intp]:
    """Group number of every node, 0 for the largest group; deterministic."""
    membership = np.arange(A.shape[0])
    while True:
        group = _move_nodes(A)
        count = group.max(initial=-1) + 1
        membership = group[membership]
        if count == A.shape[0]:
            return by_size(membership)
        gather = sparse.csr_array((np.ones(len(group)), (group, np.arange(len(group)))), shape=(count, len(group)))
        A = sparse.csr_array(gather @ A @ gather.T)


def _move_nodes(A: sparse.csr_array) -> NDArray[np.intp]:
    """Move single nodes to the neighbouring group with the largest gain in modularity until none gains."""
    T = A.shape[0]
    degree = np.asarray(A.sum(axis=1)).ravel()
    total = degree.sum()
    group = np.arange(T)
    weight_of = degree.copy()
    for _ in range(ROUNDS):
        moved = False
        for node in range(T):
            links = slice(A.indptr[node], A.indptr[node + 1])
            near, weight = A.indices[links], A.data[links]
            others = near != node
            if not others.any():
                continue
            home = group[node]
            weight_of[home] -= degree[node]
            candidates, place = np.unique(np.append(group[near[others]], home), return_inverse=True)
            link = np.bincount(place[:-1], weight[others], len(candidates))
            gain = link - degree[node] * weight_of[candidates] / total
            best = candidates[np.argmax(gain)]
            stay = gain[place[-1]]
            target = best if gain.max() > stay + MARGIN * total else home
            group[node] = target
            weight_of[target] += degree[node]
            moved |= target != home
        if not moved:
            break
    return np.unique(group, return_inverse=True)[1]


def by_size(group: NDArray[np.intp]) -> NDArray[np.intp]:
    """Renumber: largest group first, ties by first member."""
    _, first, size = np.unique(group, return_index=True, return_counts=True)
    order = np.lexsort((first, -size))
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return rank[group]


def merged_groups(group: NDArray[np.intp], points: Array) -> NDArray[np.intp]:
    """Groups, those drawn together whose tasks lie hardly farther from each other than from their own.

    Louvain's method cuts a large sparse group into parts, as no task in it has edges to all. Two groups stay apart if
    the root mean squared distance between them is at least 1.5 times the larger of those inside them. (Set on Syn 1 and
    the Wiener network: parts of one planted group reach 1.46, different groups 1.58 and more.)

    >>> merged_groups(np.array([0, 0, 1, 1, 2, 2]), np.array([[0.0], [2.0], [1.0], [3.0], [9.0], [11.0]]))
    array([0, 0, 0, 0, 1, 1])
    """
    while True:
        apart = _separation(group, points)
        if apart.size < 2 or apart.min() >= SEPARATE:
            return group
        a, b = np.unravel_index(np.argmin(apart), apart.shape)
        group = np.where(group == max(a, b), min(a, b), group)
        group = by_size(np.unique(group, return_inverse=True)[1])


def _separation(group: NDArray[np.intp], points: Array) -> Array:
    """Root mean squared distance between two groups over the larger of those inside them; infinite on the diagonal."""
    size = np.bincount(group).astype(float)
    if not np.isfinite(points).all():
        return np.full((len(size), len(size)), np.inf)  # nothing is known of such points: all groups stay apart
    points = points / max(float(np.abs(points).max()), TINY)  # squares of very large ones would be infinite
    member = np.zeros((len(size), len(group)))
    member[group, np.arange(len(group))] = 1 / size[group]
    centre = member @ points
    variance = member @ ((points - centre[group]) ** 2).sum(axis=1)
    # Pairs inside a group of n lie 2 n / (n - 1) times its variance apart, those between two both variances more.
    inside = 2 * variance * size / np.maximum(size - 1, 1)
    between = ((centre[:, None] - centre) ** 2).sum(axis=2) + variance[:, None] + variance
    np.fill_diagonal(between, np.inf)
    return np.sqrt(between / np.maximum(np.maximum(inside[:, None], inside), TINY))
