"""A tree of tasks from the distances between their coefficients, by normalised cuts from the root down."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from kinfolk.rows.gram import Array
from kinfolk.solvers.graph.edges import squared_distances

FUSED = 1e-5  # distances below this share of the largest count as zero
WIDTH = 0.5  # width of the similarity, in units of the median distance inside the group
JUMP = 1e-9  # log ratio of heights that differ by more than rounding
FLOOR = 0.03  # cuts below this share of the highest are one scale: ratios of tiny heights are noise


def grow_tree(W: Array, n_levels: int) -> NDArray[np.intp]:
    """Nested groups of the rows of W, at most `n_levels` partitions, the last of one group: (L, T).

    0. Rows closer than FUSED times the largest distance are one point, and so share a group at all levels.
    1. From the root down, every group is parted by the normalised cut (Shi & Malik 2000) of the similarity
       exp(-||w_i - w_j||^2 / (2 s^2)), with s of that group's own scale, down to single points.
    2. A cut has the height of the mean distance between its two parts, at most that of the cut above it.
    3. The levels are parted where the sorted heights have their `n_levels - 1` largest ratios.

    >>> grow_tree(np.array([[0.0], [0.0], [1.0], [9.0], [10.0]]), 2)
    array([[0, 0, 0, 2, 2],
           [0, 0, 0, 0, 0]])
    """
    D = np.sqrt(squared_distances(W))
    near = sparse.csr_array(D / max(D.max(), np.finfo(float).tiny) <= FUSED)
    group = connected_components(near, directed=False)[1]
    _, first, size = np.unique(group, return_index=True, return_counts=True)
    height = cut_heights(D[np.ix_(first, first)], size)
    bounds = level_bounds(np.unique(height), n_levels, any_fused=len(first) < len(W))
    levels = np.array([np.argmax(height <= bound, axis=1) for bound in bounds])
    return levels[:, group]


def level_bounds(heights: Array, n_levels: int, *, any_fused: bool) -> list[float]:
    """The height of the highest cut inside the groups of every level; `heights` are sorted and start with 0.

    >>> level_bounds(np.array([0.0, 1.0, 1.1, 5.0, 30.0]), 3, any_fused=False)
    [1.1, 5.0, 30.0]
    """
    ratio = np.diff(np.log(np.maximum(heights, max(FLOOR * heights[-1], np.finfo(float).tiny))))
    # The step from 0 ends a level of the fused tasks; without any it would end a level of single tasks.
    ratio[:1] *= any_fused
    largest = np.sort(np.argsort(-ratio, kind="stable")[: n_levels - 1])
    return [*heights[largest[ratio[largest] > JUMP]].tolist(), float(heights[-1])]


def cut_heights(D: Array, size: NDArray[np.intp]) -> Array:
    """Height of the cut that parts i and j: an ultrametric; point i stands for `size[i]` tasks."""
    height = np.zeros_like(D)
    groups = [(np.arange(len(D)), np.inf)]
    while groups:
        members, above = groups.pop()
        if len(members) < 2:
            continue
        inner = D[np.ix_(members, members)]
        width = WIDTH * np.median(inner[np.triu_indices(len(members), k=1)])
        n = size[members]
        left = normalised_cut(np.exp(-0.5 * (inner / width) ** 2) * n[:, None] * n)
        one, two = members[left], members[~left]
        here = min(above, float(size[one] @ D[np.ix_(one, two)] @ size[two] / (size[one].sum() * size[two].sum())))
        height[np.ix_(one, two)] = height[np.ix_(two, one)] = here
        groups += [(one, here), (two, here)]
    return height


def normalised_cut(A: Array) -> NDArray[np.bool_]:
    """One side of the cut of least cut/vol + cut/vol among the thresholds of the second eigenvector.

    `A` has a positive diagonal: then a task far from all others can be a side of its own.

    >>> normalised_cut(np.array([[1.0, 0.9, 0.1], [0.9, 1.0, 0.1], [0.1, 0.1, 1.0]]))
    array([False, False,  True])
    """
    degree = A.sum(axis=1)
    root = np.sqrt(degree)
    vector = np.linalg.eigh(A / root[:, None] / root)[1][:, -2] / root
    # The sign of an eigenvector is arbitrary: side one is the side without the first task.
    order = np.argsort(vector, kind="stable")
    volume = np.cumsum(degree[order])
    inside = np.diagonal(np.cumsum(np.cumsum(A[np.ix_(order, order)], axis=0), axis=1))
    cut = (volume - inside)[:-1] * (1 / volume[:-1] + 1 / (volume[-1] - volume[:-1]))
    side = np.zeros(len(A), bool)
    side[order[: np.argmin(cut) + 1]] = True
    return side if not side[0] else ~side
