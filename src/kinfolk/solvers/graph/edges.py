"""Edge lists, and the operator that takes edge weights to node degrees.

For three nodes with edges (0,1), (0,2), (1,2) of weights a = (1, 2, 3) the degrees S a are (3, 4, 5):
every edge counts at both of its ends.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components, reverse_cuthill_mckee

from kinfolk.memory import check_memory
from kinfolk.rows.gram import Array
from kinfolk.solvers.batched import row_dots

NEAR = 1e-6  # of the squared norms: distances below it have lost six digits or more to cancellation


@dataclass(frozen=True, eq=False)
class EdgeList:
    """Undirected edges between `size` nodes: edge e joins `i[e]` and `j[e]`, with i < j."""

    i: NDArray[np.intp]
    j: NDArray[np.intp]
    size: int

    @classmethod
    def complete(cls, size: int) -> EdgeList:
        """All pairs, in the order of the upper triangle.

        >>> edges = EdgeList.complete(3)
        >>> edges.i, edges.j
        (array([0, 0, 1]), array([1, 2, 2]))
        """
        i, j = np.triu_indices(size, k=1)
        return cls(i, j, size)

    def __len__(self) -> int:
        return len(self.i)

    def select(self, which: NDArray[np.bool_]) -> EdgeList:
        """The edges where `which` is true."""
        return EdgeList(self.i[which], self.j[which], self.size)

    def degrees(self, a: Array) -> Array:
        """S a: the sum of edge weights at every node.

        >>> EdgeList.complete(3).degrees(np.array([1.0, 2.0, 3.0]))
        array([3., 4., 5.])
        """
        return np.asarray(np.bincount(self.i, a, self.size) + np.bincount(self.j, a, self.size), dtype=np.float64)

    def at_ends(self, v: Array) -> Array:
        """S'v: for every edge the sum of v at its two ends.

        >>> EdgeList.complete(3).at_ends(np.array([1.0, 10.0, 100.0]))
        array([ 11., 101., 110.])
        """
        return v[self.i] + v[self.j]

    def differences(self, sign: ArrayLike = 1.0) -> sparse.csr_array:
        """D (E, T) such that (D W)_e = w_i - sign_e w_j.

        >>> EdgeList.complete(2).differences().toarray()
        array([[ 1., -1.]])
        """
        places = np.tile(np.arange(len(self)), 2), np.concatenate([self.i, self.j])
        values = np.concatenate([np.ones(len(self)), -np.broadcast_to(sign, len(self))])
        return sparse.csr_array((values, places), shape=(len(self), self.size))

    def components(self) -> NDArray[np.intp]:
        """Number of the connected component of every node.

        >>> EdgeList(np.array([0, 1]), np.array([3, 2]), 4).components()
        array([0, 1, 1, 0], dtype=int32)
        """
        graph = sparse.csr_array((np.ones(len(self)), (self.i, self.j)), shape=(self.size, self.size))
        return connected_components(graph, directed=False)[1]

    def adjacency(self, a: Array) -> sparse.csr_array:
        """Symmetric CSR matrix with exact zeros left out.

        >>> EdgeList.complete(3).adjacency(np.array([1.0, 0.0, 3.0])).toarray()
        array([[0., 1., 0.],
               [1., 0., 3.],
               [0., 3., 0.]])
        """
        keep = a > 0
        i, j, a = self.i[keep], self.j[keep], a[keep]
        both_ways = np.concatenate([i, j]), np.concatenate([j, i])
        return sparse.csr_array((np.concatenate([a, a]), both_ways), shape=(self.size, self.size))

    def upper(self, a: Array) -> sparse.csr_array:
        """The half of the adjacency above the diagonal, zeros kept: edges that are in order need no sorting.

        >>> EdgeList.complete(3).upper(np.array([1.0, 2.0, 3.0])).toarray()
        array([[0., 1., 2.],
               [0., 0., 3.],
               [0., 0., 0.]])
        """
        order = np.argsort(self.i, kind="stable")
        begins = np.concatenate([[0], np.cumsum(np.bincount(self.i, minlength=self.size))])
        return sparse.csr_array((a[order], self.j[order], begins), shape=(self.size, self.size))


def laplacian(A: sparse.csr_array) -> sparse.csr_array:
    """L = D - A.

    >>> laplacian(sparse.csr_array([[0.0, 2.0], [2.0, 0.0]])).toarray()
    array([[ 2., -2.],
           [-2.,  2.]])
    """
    T = A.shape[0]
    begins = A.indptr[:-1]  # where the diagonal comes in: a difference of sparse matrices takes four times as long
    values = np.insert(-A.data, begins, A @ np.ones(T))
    columns = np.insert(A.indices, begins, np.arange(T))
    return sparse.csr_array((values, columns, A.indptr + np.arange(T + 1)), shape=A.shape)


def squared_distances(W: Array) -> Array:
    """Z_ij = ||w_i - w_j||^2, symmetric, zero on the diagonal, never negative.

    >>> squared_distances(np.array([[0.0, 0.0], [3.0, 4.0]]))
    array([[ 0., 25.],
           [25.,  0.]])
    """
    check_memory(32.0 * len(W) ** 2, f"the distances between {len(W)} tasks", "Fit groups of tasks apart.")
    centred = W - W.mean(axis=0)
    norm = row_dots(centred, centred)
    # In place: pages of new matrices take longer than the arithmetic.
    sums = norm[:, None] + norm[None, :]
    Z = centred @ centred.T
    Z *= -2
    Z += sums
    # The product form loses digits for near pairs: those are recomputed from differences.
    i, j = np.nonzero(np.multiply(sums, NEAR, out=sums) >= Z)
    i, j = i[i < j], j[i < j]
    if len(i):
        exact = np.empty(len(i))
        for block in np.array_split(np.arange(len(i)), 1 + len(i) * W.shape[1] // 10**7):
            exact[block] = ((W[i[block]] - W[j[block]]) ** 2).sum(axis=1)
        Z[i, j] = Z[j, i] = exact
    np.fill_diagonal(Z, 0.0)
    return np.maximum(Z, 0.0, out=Z)


def entries(A: sparse.csr_array, i: NDArray[np.intp], j: NDArray[np.intp]) -> Array:
    """A_ij of some pairs of nodes, as an array; asked for no pair, SciPy would answer with a sparse one.

    >>> entries(sparse.csr_array([[0.0, 2.0], [2.0, 0.0]]), np.array([0]), np.array([1]))
    array([2.])
    """
    return np.asarray(A[i, j]).ravel() if len(i) else np.empty(0)


def envelope(M: sparse.csr_array) -> int:
    """What a triangular factor of a symmetric matrix has off its diagonal, at most, in the best order of a band.

    >>> envelope(sparse.csr_array([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0], [1.0, 1.0, 1.0]]))  # a path, its ends first
    2
    """
    T = M.shape[0]
    order = reverse_cuthill_mckee(sparse.csr_matrix(M), symmetric_mode=True)
    place = np.empty(T, np.intp)
    place[order] = np.arange(T)
    first = place.copy()
    np.minimum.at(first, np.repeat(np.arange(T), np.diff(M.indptr)), place[M.indices])
    return int((place - first).sum())
