"""What a method says about the relations between tasks, with the tasks' own names."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from kinfolk.rows.gram import Array
from kinfolk.solvers.graph.communities import louvain
from kinfolk.solvers.graph.edges import laplacian

if TYPE_CHECKING:
    import networkx


class Edge(NamedTuple):
    """One edge of a task graph; a list of these makes a data frame."""

    task: Any
    neighbor: Any
    weight: float


@dataclass(frozen=True, eq=False)
class TaskGraph:
    """A sparse weighted graph over named tasks.

    Attributes
    ----------
    adjacency : symmetric CSR matrix (T, T), zero diagonal
    labels : task names (T,)
    remoteness : distance of every task to its nearest, in units of the typical such distance; or None

    Examples
    --------
    >>> graph = TaskGraph(sparse.csr_array([[0.0, 2.0, 0.0], [2.0, 0.0, 1.0], [0.0, 1.0, 0.0]]), np.array(list("abc")))
    >>> graph.edges()[0].weight, graph.degree
    (2.0, array([2., 3., 1.]))
    >>> graph
    TaskGraph(3 tasks, 2 edges, 1.3 neighbours per task)
    """

    adjacency: sparse.csr_array
    labels: NDArray[Any]
    remoteness: Array | None = None

    @cached_property
    def degree(self) -> Array:
        """Sum of edge weights at every task."""
        return np.asarray(self.adjacency.sum(axis=1)).ravel()

    @cached_property
    def laplacian(self) -> sparse.csr_array:
        """D - A."""
        return laplacian(self.adjacency)

    def edges(self) -> list[Edge]:
        """All edges, heaviest first, each once."""
        upper = sparse.triu(self.adjacency, k=1, format="coo")
        i, j = upper.coords
        order = np.lexsort((j, i, -upper.data))
        return [
            Edge(self.labels[a].item(), self.labels[b].item(), float(w))
            if isinstance(self.labels[a], np.generic)
            else Edge(self.labels[a], self.labels[b], float(w))
            for a, b, w in zip(i[order], j[order], upper.data[order], strict=True)
        ]

    def communities(self) -> list[list[Any]]:
        """Groups of tasks, largest first; outliers stand alone at the end."""
        group = self.groups()
        listed = [self.labels[group == g].tolist() for g in range(group.max(initial=-1) + 1)]
        return listed + [[label] for label in self.labels[group < 0].tolist()]

    def groups(self) -> NDArray[np.intp]:
        """Community number of every task, 0 the largest; -1 for outliers."""
        return self._groups.copy()

    @cached_property
    def _groups(self) -> NDArray[np.intp]:
        inside = ~self._is_outlier()
        group = np.full(len(self.labels), -1)
        if inside.any():
            group[inside] = louvain(sparse.csr_array(self.adjacency[inside][:, inside]))
        return group

    def outliers(self, below: float = 0.05, beyond: float = 10.0) -> list[Any]:
        """Tasks that hardly touch the graph.

        A task is an outlier if its degree is less than `below` times the median degree, or if its nearest task is
        `beyond` times farther away (in squared distance) than is typical: the second finds tasks that a strong
        coupling has drawn to a group they do not belong to.
        """
        return self.labels[self._is_outlier(below, beyond)].tolist()

    def _is_outlier(self, below: float = 0.05, beyond: float = 10.0) -> NDArray[np.bool_]:
        if len(self.labels) < 3:
            return np.zeros(len(self.labels), bool)
        lonely = self.degree < below * np.median(self.degree)
        return lonely if self.remoteness is None else lonely | (self.remoteness > beyond)

    def to_networkx(self) -> networkx.Graph:
        """The graph for networkx, nodes named by task, edges with `weight`."""
        try:
            import networkx
        except ImportError as error:
            raise ImportError("to_networkx needs networkx: pip install 'kinfolk[plots]'") from error
        graph = networkx.Graph()
        graph.add_nodes_from(self.labels.tolist())
        graph.add_weighted_edges_from(self.edges())
        return graph

    def expanded(self, labels: NDArray[Any]) -> TaskGraph:
        """The same graph among more tasks; the new ones have no edges."""
        position = np.searchsorted(labels, self.labels)
        A = self.adjacency.tocoo()
        i, j = A.coords
        T = len(labels)
        grown = sparse.csr_array(sparse.coo_array((A.data, (position[i], position[j])), shape=(T, T)))
        remoteness = None
        if self.remoteness is not None:
            remoteness = np.zeros(T)
            remoteness[position] = self.remoteness
        return TaskGraph(grown, labels, remoteness)

    def __repr__(self) -> str:
        T = len(self.labels)
        return (
            f"TaskGraph({T} tasks, {self.adjacency.nnz // 2} edges, "
            f"{self.adjacency.nnz / max(T, 1):.1f} neighbours per task)"
        )


@dataclass(frozen=True, eq=False)
class TaskCovariance:
    """How the coefficients of named tasks vary together.

    Attributes
    ----------
    covariance : symmetric positive semidefinite matrix (T, T); may be singular
    labels : task names (T,)

    Examples
    --------
    >>> kin = TaskCovariance(np.array([[4.0, -1.0], [-1.0, 1.0]]), np.array(["a", "b"]))
    >>> kin.correlation
    array([[ 1. , -0.5],
           [-0.5,  1. ]])
    >>> kin
    TaskCovariance(2 tasks, rank 2, strongest correlation -0.50 between 'a' and 'b')
    """

    covariance: Array
    labels: NDArray[Any]

    @cached_property
    def correlation(self) -> Array:
        """Covariances over the roots of both variances; 0 for a task without variance, ones on the diagonal."""
        return _unit_diagonal(self.covariance)

    def graph(self, above: float = 0.0) -> TaskGraph:
        """The tasks joined by the absolute values of their correlations, where these exceed `above`."""
        return _graph_of(self.correlation, self.labels, above)

    def expanded(self, labels: NDArray[Any]) -> TaskCovariance:
        """The same among more tasks; the new ones have the average variance and are related to none."""
        return TaskCovariance(_expanded(self.covariance, self.labels, labels), labels)

    def __repr__(self) -> str:
        rank = np.linalg.matrix_rank(self.covariance, tol=1e-8 * np.trace(self.covariance), hermitian=True)
        strongest = _strongest(self.correlation, self.labels, "correlation")
        return f"TaskCovariance({len(self.labels)} tasks, rank {rank}{strongest})"


@dataclass(frozen=True, eq=False)
class TaskPrecision:
    """How the coefficients of named tasks depend on each other, given all the others.

    A zero off the diagonal says that two tasks are independent given the rest. It is not the Laplacian of a graph:
    partial correlations may be negative.

    Attributes
    ----------
    precision : symmetric positive definite matrix (T, T)
    labels : task names (T,)

    Examples
    --------
    >>> kin = TaskPrecision(np.array([[4.0, -1.0], [-1.0, 1.0]]), np.array(["a", "b"]))
    >>> kin.partial_correlation
    array([[1. , 0.5],
           [0.5, 1. ]])
    >>> kin.graph().edges()
    [Edge(task='a', neighbor='b', weight=0.5)]
    >>> kin
    TaskPrecision(2 tasks, 1 pair dependent, strongest partial correlation 0.50 between 'a' and 'b')
    """

    precision: Array
    labels: NDArray[Any]

    @cached_property
    def partial_correlation(self) -> Array:
        """-Om_ij / sqrt(Om_ii Om_jj), with ones on the diagonal."""
        partial = -_unit_diagonal(self.precision)
        partial[partial == 0] = 0.0  # not minus zero
        np.fill_diagonal(partial, 1.0)
        return partial

    @cached_property
    def covariance(self) -> Array:
        """The inverse of the precision."""
        factor = linalg.cho_factor(self.precision)
        inverse = linalg.cho_solve(factor, np.eye(len(self.labels)))
        return (inverse + inverse.T) / 2

    def graph(self, above: float = 0.0) -> TaskGraph:
        """The tasks joined by the absolute values of their partial correlations, where these exceed `above`."""
        return _graph_of(self.partial_correlation, self.labels, above)

    def expanded(self, labels: NDArray[Any]) -> TaskPrecision:
        """The same among more tasks; the new ones have the average precision and depend on none."""
        return TaskPrecision(_expanded(self.precision, self.labels, labels), labels)

    def __repr__(self) -> str:
        pairs = int(np.count_nonzero(np.triu(self.precision, k=1)))
        strongest = _strongest(self.partial_correlation, self.labels, "partial correlation")
        return f"TaskPrecision({len(self.labels)} tasks, {pairs} pair{'s' * (pairs != 1)} dependent{strongest})"


def _unit_diagonal(M: Array) -> Array:
    """M_ij / sqrt(M_ii M_jj), zero where that is undefined, ones on the diagonal."""
    root = np.sqrt(np.maximum(np.diagonal(M), 0.0))
    inverse = np.divide(1.0, root, out=np.zeros_like(root), where=root > 0)
    scaled = np.clip(inverse[:, None] * M * inverse, -1.0, 1.0)
    np.fill_diagonal(scaled, 1.0)
    return scaled


def _graph_of(relation: Array, labels: NDArray[Any], above: float) -> TaskGraph:
    weight = np.abs(relation)
    np.fill_diagonal(weight, 0.0)
    weight[weight <= above] = 0.0
    return TaskGraph(sparse.csr_array(weight), labels)


def _expanded(M: Array, labels: NDArray[Any], more: NDArray[Any]) -> Array:
    position = np.searchsorted(more, labels)
    grown = np.diag(np.full(len(more), np.diagonal(M).mean()))
    grown[np.ix_(position, position)] = M
    return grown


def _strongest(relation: Array, labels: NDArray[Any], name: str) -> str:
    """The pair with the largest absolute relation, in words; nothing if no two tasks are related."""
    upper = np.triu(relation, k=1)
    i, j = np.unravel_index(np.argmax(np.abs(upper)), upper.shape)
    if upper[i, j] == 0:
        return ""
    a, b = labels[[i, j]].tolist()
    return f", strongest {name} {upper[i, j]:.2f} between {a!r} and {b!r}"
