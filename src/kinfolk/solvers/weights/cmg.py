"""Combinatorial multigrid (Koutis, Miller, Tolliver 2011): coarser graphs from heavy edges alone.

For M = diag(excess) + Laplacian(A) every node points to its heaviest neighbour. The pointers make a forest, whose
trees, cut where they grow tall, are the nodes of the coarser graph; interpolation is constant on each of them. No
parameter describes the geometry, so weights may differ by orders of magnitude.

Small connected components are solved exactly, together; the rest share the levels, and clusters never join components.
Differs from the paper: trees are cut at every third generation, all at once, where it walks over them node by node; and
the excess is carried from level to level beside A, not as part of a diagonal, so that a small one is not rounded away.

A level is a matrix and the way up from the next, coarser one. One cycle, from x = 0, on many columns at once, so that a
sparse product serves all unknowns of all tasks:

    x = omega D^-1 r;    x += P cycle(P'(r - M x)), repeated;    x += omega D^-1 (r - M x)

With omega D^-1 M below 2, which diagonal dominance gives for omega < 1, the cycle B is symmetric positive definite and
B M has its eigenvalues in (0, 1], however often the coarse correction is repeated.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import splu

from kinfolk.rows.gram import Array
from kinfolk.solvers.graph.edges import laplacian

Index = NDArray[np.intp]

DAMPING = 2 / 3  # omega
SMALL = 700  # nodes that a direct solve takes
LOOSE = 1 / 8  # a node with less of its weight than this inside its cluster stays alone
SLOW = 0.7  # if that leaves more than this share of the nodes, everyone joins a cluster
MOST_LEVELS = 40


@dataclass(frozen=True, eq=False)
class Level:
    """One matrix, the interpolation from the next level to it, and how often that level is visited."""

    M: sparse.csr_array
    P: sparse.csr_array
    Pt: sparse.csr_array
    smoother: Array
    repeats: int = 1

    @classmethod
    def of(cls, M: sparse.csr_array, P: sparse.csr_array) -> Level:
        """A level from its matrix and interpolation."""
        return cls(M, P, sparse.csr_array(P.T), (DAMPING / M.diagonal())[:, None])


class Multigrid:
    """Levels, finest first, and a sparse factorisation of the coarsest matrix.

    `Multigrid.solve(r)` is one cycle, for r of shape (T, any number of columns): an approximate solution of M x = r.
    """

    def __init__(self, levels: list[Level], coarsest: sparse.csr_array) -> None:
        self.levels = levels
        self.bottom: Any = splu(sparse.csc_array(coarsest))
        self.sizes = [level.M.shape[0] for level in levels] + [coarsest.shape[0]]
        work = sum(level.M.nnz for level in levels) + coarsest.nnz
        self.complexity = work / (levels[0].M.nnz if levels else max(coarsest.nnz, 1))

    def __repr__(self) -> str:
        return f"Multigrid(sizes={self.sizes}, complexity={self.complexity:.2f})"

    def solve(self, r: Array) -> Array:
        """One cycle from zero."""
        return self._cycle(0, r)

    def _cycle(self, depth: int, r: Array) -> Array:
        if depth == len(self.levels):
            return self.bottom.solve(r)
        level = self.levels[depth]
        x = level.smoother * r
        left = level.Pt @ (r - level.M @ x)
        up = self._cycle(depth + 1, left)
        for _ in range(level.repeats - 1):
            up += self._cycle(depth + 1, left - self.levels[depth + 1].M @ up)
        x += level.P @ up
        x += level.smoother * (r - level.M @ x)
        return x


def combinatorial_multigrid(A: sparse.csr_array, excess: ArrayLike) -> Multigrid:
    """Build the levels for M = diag(excess) + Laplacian(A).

    Parameters
    ----------
    A : symmetric, non-negative weights (T, T); the diagonal is ignored
    excess : non-negative, shape (T,), positive somewhere in every connected component

    Returns
    -------
    Multigrid
        `solve(r)` is a symmetric positive definite approximation of the inverse of M, exact for small components.

    Examples
    --------
    Two nodes, one edge: small enough to be exact.

    >>> A = sparse.csr_array([[0.0, 1.0], [1.0, 0.0]])
    >>> combinatorial_multigrid(A, [1.0, 1.0]).solve(np.array([[3.0], [0.0]])).ravel()
    array([2., 1.])
    """
    A = _without_diagonal(sparse.csr_array(A, dtype=np.float64))
    slack = np.asarray(excess, dtype=np.float64)
    component = _components(A, slack)
    levels: list[Level] = []
    size = np.bincount(component)
    alone = size[component] <= SMALL  # nodes whose component needs no coarser level
    while len(levels) < MOST_LEVELS and np.count_nonzero(~alone) > SMALL:
        cluster = _clusters(A, slack, alone)
        P = _interpolation(cluster)
        levels.append(Level.of(_matrix(A, slack), P))
        A = _without_diagonal(sparse.csr_array(P.T @ A @ P))
        slack = P.T @ slack
        alone = np.bincount(cluster, alone) > 0
    return Multigrid(_with_repeats(levels, A), _matrix(A, slack))


def _components(A: sparse.csr_array, excess: Array) -> Index:
    """Component of every node, all of them with an excess, or an error."""
    count, component = connected_components(A, directed=False)
    singular = np.flatnonzero(np.bincount(component, excess, count) == 0)
    if len(singular):
        node = int(np.flatnonzero(component == singular[0])[0])
        raise ValueError(
            f"the matrix is singular: the component of node {node} has no excess. Add a ridge, or drop its nodes."
        )
    return component


def _clusters(A: sparse.csr_array, excess: Array, alone: NDArray[np.bool_]) -> Index:
    """A cluster number for every node; nodes that are `alone` keep one of their own."""
    root = _roots(_cut(_heaviest(A)))
    own = np.arange(A.shape[0])
    joined = np.where(alone, own, root)
    loose = _inside(A, root) < LOOSE * (A.sum(axis=1) + excess)
    # A root that leaves its cluster must not take the others along: leavers get labels that nobody else has.
    label, cluster = np.unique(np.where(loose, len(own) + own, joined), return_inverse=True)
    return cluster if len(label) <= SLOW * len(own) else np.unique(joined, return_inverse=True)[1]


def _heaviest(A: sparse.csr_array) -> Index:
    """The heaviest neighbour of every node, ties by one order of all edges, so that pointers close no long cycle.

    Along pointers the edges never get lighter, so a cycle has edges of equal weight; if one order of all edges breaks
    the ties, only two nodes that point at each other can close one.
    """
    T = A.shape[0]
    has = np.diff(A.indptr) > 0
    most = np.zeros(T)
    most[has] = np.maximum.reduceat(A.data, A.indptr[:-1][has]) if has.any() else 0.0
    i = np.repeat(np.arange(T), np.diff(A.indptr))
    heaviest = np.flatnonzero(A.data == most[i])
    i = i[heaviest]
    j = A.indices[heaviest].astype(np.intp)
    # Equal weights in a regular graph: in the order of the indices, chains of pointers would run through all of it. The
    # order is scrambled, the same for both ends of an edge; multipliers and modulus are those of common hash functions.
    mixed = (np.minimum(i, j) * 2654435761 + np.maximum(i, j) * 40503) % 2147483647
    order = np.lexsort((np.maximum(i, j), np.minimum(i, j), mixed, i))  # by node, then ties
    last = np.searchsorted(i[order], np.arange(T), side="right") - 1
    parent = np.arange(T)
    parent[has] = j[order][last[has]]
    # Of two that point at each other the one with the lower number is the root.
    mutual = (parent[parent] == np.arange(T)) & (np.arange(T) < parent)
    parent[mutual] = np.flatnonzero(mutual)
    return parent


def _cut(parent: Index) -> Index:
    """Cut every third generation off its tree, except nodes without children."""
    T = len(parent)
    up = parent.copy()
    depth = (parent != np.arange(T)).astype(np.intp)
    while True:  # pointer doubling: after k rounds `up` is 2^k generations up, and depth counts that far
        above = depth[up]
        if not above.any():
            break
        depth = depth + above
        up = up[up]
    has_children = np.bincount(parent[parent != np.arange(T)], minlength=T) > 0
    cut = (depth % 3 == 0) & has_children
    return np.where(cut, np.arange(T), parent)


def _roots(parent: Index) -> Index:
    while True:
        up = parent[parent]
        if np.array_equal(up, parent):
            return parent
        parent = up


def _inside(A: sparse.csr_array, cluster: Index) -> Array:
    """How much of its weight every node has to nodes of its own cluster."""
    i = np.repeat(np.arange(A.shape[0]), np.diff(A.indptr))
    same = cluster[i] == cluster[A.indices]
    return np.bincount(i[same], A.data[same], A.shape[0])


def _interpolation(cluster: Index) -> sparse.csr_array:
    T = len(cluster)
    return sparse.csr_array((np.ones(T), cluster, np.arange(T + 1)), shape=(T, int(cluster.max()) + 1))


def _matrix(A: sparse.csr_array, excess: Array) -> sparse.csr_array:
    return sparse.csr_array(laplacian(A) + sparse.diags_array(excess))


def _without_diagonal(A: sparse.csr_array) -> sparse.csr_array:
    A = A.tocoo()
    i, j = A.coords
    off = (i != j) & (A.data > 0)
    return sparse.csr_array((A.data[off], (i[off], j[off])), shape=A.shape)


def _with_repeats(levels: list[Level], A: sparse.csr_array) -> list[Level]:
    """Visit a level more than once where it is much smaller than the one above."""
    sizes = [level.M.nnz for level in levels] + [A.nnz + A.shape[0]]
    repeats = [max(int(fine / coarse - 1), 1) for fine, coarse in pairwise(sizes)]
    repeats[-1:] = [1] * len(repeats[-1:])  # the coarsest is exact
    return [replace(level, repeats=n) for level, n in zip(levels, repeats, strict=True)]
