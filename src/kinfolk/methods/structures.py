"""What a method says about the relations between tasks, with the tasks' own names."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from kinfolk.declared import holds
from kinfolk.rows.gram import Array
from kinfolk.solvers.graph.communities import louvain, merged_groups
from kinfolk.solvers.graph.edges import laplacian

if TYPE_CHECKING:
    import networkx


MOST_MERGED = 500  # groups up to which all pairs of them are compared
ALONE = 0.1  # degree of an outlier, over the median degree
RELATED = 0.1  # correlations up to this size are too small to put two tasks into one group


class Structure(ABC):
    """What all structures have in common: a graph, a covariance, a precision or a tree over named tasks.

    Attributes
    ----------
    labels : task names (T,)
    kind : how it is drawn: "graph", "matrix" or "tree"
    edges_are : what the edges of `graph()` stand for; empty for a graph, whose edges are its own
    matrices : its matrices that a heat map can show, the first by default
    forms : every structure by its name in `to_dict`: "graph", "covariance", "precision", "tree"
    described : the attributes that `to_dict` writes beside the labels, by their names there
    """

    labels: NDArray[Any]
    kind: ClassVar[str]
    edges_are: ClassVar[str] = ""
    matrices: ClassVar[tuple[str, ...]] = ()
    forms: ClassVar[dict[str, type[Structure]]] = {}
    described: ClassVar[dict[str, str]]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.__name__.startswith("Task"):
            Structure.forms[cls.__name__.removeprefix("Task").lower()] = cls

    @abstractmethod
    def among(self, tasks: NDArray[Any]) -> Self:
        """The part of the structure among some tasks, given by positions or by a mask."""

    @abstractmethod
    def expanded(self, labels: NDArray[Any]) -> Self:
        """The same structure among more tasks; `labels` are sorted and hold all the present ones."""

    @abstractmethod
    def scores(self) -> Any:
        """How related every pair of tasks is: a matrix (T, T), dense or sparse, with zero diagonal."""

    @abstractmethod
    def groups(self) -> NDArray[np.intp]:
        """Group of every task, 0 the largest; -1 for tasks that stand alone."""

    def graph(self, above: float = 0.0, *, opposed: bool = True) -> TaskGraph:
        """The tasks joined by their scores, where these exceed `above`; negative scores count by size if `opposed`."""
        scores = self.scores()
        weight = np.abs(scores) if opposed else np.maximum(scores, 0.0)
        weight[weight <= above] = 0.0
        return TaskGraph(sparse.csr_array(weight), self.labels)

    def to_dict(self) -> dict[str, Any]:
        """The structure as lists and numbers, for JSON."""
        form = type(self).__name__.removeprefix("Task").lower()
        found = {name: getattr(self, attribute) for name, attribute in self.described.items()}
        dense = {name: value.toarray() if sparse.issparse(value) else value for name, value in found.items()}
        numbers = {name: None if value is None else value.tolist() for name, value in dense.items()}
        return {"kind": form, "labels": self.labels.tolist(), **numbers}

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> Structure:
        """The structure that `to_dict` described."""
        form: Any = cls.forms.get(stored["kind"])
        if form is None:
            raise ValueError(f"a structure of kind {stored['kind']!r}: known are {', '.join(map(repr, cls.forms))}")
        numbers = {a: np.array(stored[name]) for name, a in form.described.items() if stored.get(name) is not None}
        if form is TaskGraph:
            numbers["adjacency"] = sparse.csr_array(numbers["adjacency"].astype(np.float64))
        made: Structure = form(**numbers, labels=np.asarray(stored["labels"]))
        return made


@holds()
class Edge(NamedTuple):
    """One edge of a task graph; a list of these makes a data frame."""

    task: Any
    neighbor: Any
    weight: float


@holds(labels="names T", adjacency="sparse T T >=0", points="T p any")
@dataclass(frozen=True, eq=False)
class TaskGraph(Structure):
    """A sparse weighted graph over named tasks.

    Attributes
    ----------
    adjacency : symmetric CSR matrix (T, T), zero diagonal
    labels : task names (T,)
    points : (T, p), whose distances the edges were learned from, with self-loops for loners; or None

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
    points: Array | None = None
    kind = "graph"
    matrices = ("adjacency",)
    described: ClassVar[dict[str, str]] = {"matrix": "adjacency", "points": "points"}

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
        i, j, weight = heaviest_edges(self.adjacency)
        ends = zip(self.labels[i].tolist(), self.labels[j].tolist(), weight.tolist(), strict=True)
        return [Edge(*edge) for edge in ends]

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
            if self.points is not None and group.max() < MOST_MERGED:
                group[inside] = merged_groups(group[inside], self.points[inside])
        return group

    def outliers(self, below: float | None = None) -> list[Any]:
        """Tasks that stand alone: those without an edge, or with a degree of less than `below` times the median degree.

        By default `below` is 0 for a graph with `points`, whose loners were found when it was learned and have a
        self-loop instead of edges, and 0.1 for others, in which every task may have been given some edge.
        """
        return self.labels[self._is_outlier(below)].tolist()

    def _is_outlier(self, below: float | None = None) -> NDArray[np.bool_]:
        if len(self.labels) < 3:
            return np.zeros(len(self.labels), bool)
        if below is None:
            below = ALONE if self.points is None else 0.0
        return (self.degree == 0) | (self.degree < below * np.median(self.degree))

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

    def graph(self, above: float = 0.0, *, opposed: bool = True) -> TaskGraph:
        """The graph itself, or its edges with a weight above `above`; no weight is negative."""
        if above <= 0:
            return self
        return TaskGraph(sparse.csr_array(self.adjacency * (self.adjacency > above)), self.labels, self.points)

    def scores(self) -> sparse.csr_array:
        """The weights of the edges."""
        return self.adjacency

    def among(self, tasks: NDArray[Any]) -> TaskGraph:
        """The tasks given, by positions or a mask, and the edges between them."""
        points = None if self.points is None else self.points[tasks]
        return TaskGraph(sparse.csr_array(self.adjacency[tasks][:, tasks]), self.labels[tasks], points)

    def expanded(self, labels: NDArray[Any]) -> TaskGraph:
        """The same graph among more tasks; the new ones have no edges."""
        if len(labels) == len(self.labels):
            return self
        position = np.searchsorted(labels, self.labels)
        A = self.adjacency.tocoo()
        i, j = A.coords
        T = len(labels)
        grown = sparse.csr_array(sparse.coo_array((A.data, (position[i], position[j])), shape=(T, T)))
        points = None
        if self.points is not None:
            points = np.full((T, self.points.shape[1]), np.nan)
            points[position] = self.points
        return TaskGraph(grown, labels, points)

    def __repr__(self) -> str:
        T = len(self.labels)
        return (
            f"TaskGraph({T} tasks, {self.adjacency.nnz // 2} edges, "
            f"{self.adjacency.nnz / max(T, 1):.1f} neighbours per task)"
        )


def heaviest_edges(A: sparse.csr_array, most: int | None = None) -> tuple[NDArray[np.intp], NDArray[np.intp], Array]:
    """Both ends, i < j, and the weight of the `most` heaviest edges, heaviest first."""
    upper = sparse.triu(A, k=1, format="coo")
    i, j = upper.coords
    order = np.lexsort((j, i, -upper.data))[:most]
    return i[order], j[order], upper.data[order]


class _TaskMatrix(Structure):
    """A structure that is one symmetric matrix, the first of `matrices`, read by the relation of every pair.

    `relation` names the matrix of relations, with ones on the diagonal, and `title` says what it is.
    """

    kind = "matrix"
    edges_are = "correlations of tasks above 0"
    relation: ClassVar[str]
    title: ClassVar[str]

    @property
    def matrix(self) -> Array:
        """The matrix that was estimated."""
        M: Array = getattr(self, self.matrices[0])
        return M

    @property
    def relations(self) -> Array:
        """Correlations or partial correlations of all pairs, ones on the diagonal."""
        M: Array = getattr(self, self.relation)
        return M

    def scores(self) -> Array:
        """The relations with their sign, since related tasks have similar coefficients and not opposite ones."""
        scores = self.relations.copy()
        np.fill_diagonal(scores, 0.0)
        return scores

    def groups(self) -> NDArray[np.intp]:
        """Communities of the graph of all relations that exceed 0.1 in size; -1 for outliers."""
        return self.graph(above=RELATED).groups()

    def among(self, tasks: NDArray[Any]) -> Self:
        """Rows and columns of the tasks given, by positions or a mask."""
        return self._with(self.matrix[tasks][:, tasks], self.labels[tasks])

    def expanded(self, labels: NDArray[Any]) -> Self:
        """The same among more tasks; the new ones have the average diagonal and no relations."""
        position = np.searchsorted(labels, self.labels)
        grown = np.diag(np.full(len(labels), np.diagonal(self.matrix).mean()))
        grown[np.ix_(position, position)] = self.matrix
        return self._with(grown, labels)

    @classmethod
    def _with(cls, matrix: Array, labels: NDArray[Any]) -> Self:
        make: Any = cls
        made: Self = make(matrix, labels)
        return made

    def _strongest(self) -> str:
        """The pair with the largest absolute relation, in words; nothing if no two tasks are related."""
        upper = np.triu(self.relations, k=1)
        i, j = np.unravel_index(np.argmax(np.abs(upper)), upper.shape)
        if upper[i, j] == 0:
            return ""
        a, b = self.labels[[i, j]].tolist()
        return f", strongest {self.relation.replace('_', ' ')} {upper[i, j]:.2f} between {a!r} and {b!r}"


@holds(labels="names T", covariance="T T")
@dataclass(frozen=True, eq=False)
class TaskCovariance(_TaskMatrix):
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
    matrices = ("covariance", "correlation")
    described: ClassVar[dict[str, str]] = {"matrix": "covariance"}
    relation = "correlation"
    title = "Correlation of the tasks' coefficients"

    @cached_property
    def correlation(self) -> Array:
        """Covariances over the roots of both variances; 0 for a task without variance, ones on the diagonal."""
        return _unit_diagonal(self.covariance)

    def __repr__(self) -> str:
        rank = np.linalg.matrix_rank(self.covariance, tol=1e-8 * np.trace(self.covariance), hermitian=True)
        return f"TaskCovariance({len(self.labels)} tasks, rank {rank}{self._strongest()})"


@holds(labels="names T", precision="T T")
@dataclass(frozen=True, eq=False)
class TaskPrecision(_TaskMatrix):
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
    matrices = ("precision", "partial_correlation", "covariance")
    described: ClassVar[dict[str, str]] = {"matrix": "precision"}
    relation = "partial_correlation"
    title = "Partial correlation of the tasks' coefficients, given all the others"

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

    def __repr__(self) -> str:
        pairs = int(np.count_nonzero(np.triu(self.precision, k=1)))
        return f"TaskPrecision({len(self.labels)} tasks, {pairs} pair{'s' * (pairs != 1)} dependent{self._strongest()})"


def _unit_diagonal(M: Array) -> Array:
    """M_ij / sqrt(M_ii M_jj), zero where that is undefined, ones on the diagonal."""
    root = np.sqrt(np.maximum(np.diagonal(M), 0.0))
    inverse = np.divide(1.0, root, out=np.zeros_like(root), where=root > 0)
    scaled = np.clip(inverse[:, None] * M * inverse, -1.0, 1.0)
    np.fill_diagonal(scaled, 1.0)
    return scaled
