"""Relations between tasks that the user gives: edges, a matrix, a graph of another library, coordinates."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import splu

from kinfolk.methods.method import MultiTaskRegressor
from kinfolk.methods.model import Model
from kinfolk.methods.parameters import parameters
from kinfolk.methods.structures import TaskGraph
from kinfolk.rows.folds import Folds
from kinfolk.rows.gram import TINY, Array, GramStats
from kinfolk.rows.schema import Columns
from kinfolk.rows.table import Rows, check_same_kind, checked_labels, read_table, task_name, with_tasks
from kinfolk.solvers.graph.edges import laplacian
from kinfolk.solvers.tolerances import MARGIN
from kinfolk.words import counted, listed, warn_user

NEAREST = 5  # neighbours that coordinates give every task
DENSE = 300  # tasks of a component up to which its variances are computed one by one
PROBES = 64  # random vectors that estimate the variances of larger ones


@parameters
class AlongGraph(MultiTaskRegressor):
    """A method with a parameter `graph`; `learn` gets it as a `TaskGraph` of exactly its tasks, or as None.

    Parameters
    ----------
    graph : relations between tasks that are known: a frame of edges (source, target, weight); a frame of coordinates,
        with the tasks in its task column or index, whose nearest are joined; a graph of networkx or libpysal; a
        `TaskGraph`; or a matrix in the order of the tasks, sorted by label. Tasks of the graph without rows are
        predicted by their neighbours
    """

    graph: Any = None

    def read(self, X: Any, y: Any, sample_weight: Any = None, **targets: Any) -> Rows:
        """As ever, with the tasks of the graph that have no rows."""
        rows = super().read(X, y, sample_weight, **targets)
        if self.graph is None or is_matrix(self.graph) or rows.codes is None:
            return rows
        graph = read_graph(self.graph, task_name(self.task))
        check_same_kind(graph.labels, rows.schema.labels)
        said = mismatches(graph, rows.schema.labels)
        if said:
            warn_user(said)
        return with_tasks(rows, graph.labels)

    def model_of(self, gram: GramStats, folds: Folds | None = None) -> Model:
        """Fit with the given graph by name, since an array is in the order of all tasks, with or without rows."""
        if self.graph is None:
            return super().model_of(gram, folds)
        named = self.by_name(gram)
        model = replace(super(AlongGraph, named).model_of(gram, folds), method=self.unfitted())
        return model if model.seen.all() else self._beside_neighbours(model)

    def by_name(self, gram: GramStats) -> Self:
        """This method with the graph of the tasks that have rows, by label, whatever tasks are left out later."""
        known = gram.with_rows().labels
        return self.unfitted().set_params(graph=named_graph(self.graph, gram.labels, known, task_name(self.task)))

    def keep(self, model: Model, columns: Columns) -> Self:
        """Become the estimator of a fitted model, with tasks without rows where their neighbours are."""
        if self.graph is not None and model.gram is not None and not model.seen.all():
            model = self._beside_neighbours(model)
        return super().keep(model, columns)

    def _beside_neighbours(self, model: Model) -> Model:
        graph = named_graph(self.graph, model.labels, model.labels, task_name(self.task))
        return beside_neighbours(model, graph.adjacency)


def is_matrix(graph: Any) -> bool:
    """Whether a graph has no labels: it is then in the order of the tasks."""
    return isinstance(graph, (list, np.ndarray)) or sparse.issparse(graph)


def read_graph(graph: Any, task: Any = None) -> TaskGraph:
    """A graph with labels; everything wrong with its edges in one error."""
    if isinstance(graph, TaskGraph):
        return graph
    if hasattr(graph, "nodes") and hasattr(graph, "edges"):  # networkx
        edges = [(i, j, weight) for i, j, weight in graph.edges(data="weight", default=1.0)]
        return _of_edges(edges, list(graph.nodes))
    if isinstance(getattr(graph, "neighbors", None), dict):  # weights of libpysal
        edges = [(i, j, w) for i, near in graph.neighbors.items() for j, w in zip(near, graph.weights[i], strict=True)]
        return _of_edges(edges, list(graph.neighbors), both_ways=True)
    if not hasattr(graph, "columns"):
        raise ValueError(
            f"graph is a {type(graph).__name__}: give a frame of edges (source, target, weight) or of coordinates, a "
            "matrix, a TaskGraph, or a graph of networkx or libpysal"
        )
    columns = list(graph.columns)
    if task not in columns and getattr(getattr(graph, "index", None), "name", None) == task is not None:
        graph = graph.reset_index()
        columns = list(graph.columns)
    table = read_table(graph, name="graph")
    if task in columns and not {"source", "target"} <= {*columns}:
        rest, labels = table.split(task)
        return nearest_of(rest.features(), checked_labels(labels, task))
    ends = ["source", "target"] if {"source", "target"} <= {*columns} else columns[:2]
    i, j = (table.column(columns.index(name)).tolist() for name in ends)
    others = [name for name in columns if name not in ends]
    weight = np.ones(len(i)) if not others else np.asarray(table.column(columns.index(others[0])), dtype=np.float64)
    return _of_edges(list(zip(i, j, weight.tolist(), strict=True)), [])


def _of_edges(edges: list[tuple[Any, Any, float]], nodes: list[Any], *, both_ways: bool = False) -> TaskGraph:
    """The graph of edges, each given once, or in `both_ways`; those to itself mean nothing."""
    bad = [(i, j) for i, j, weight in edges if not (np.isfinite(weight) and weight >= 0)]
    if bad:
        raise ValueError(
            f"graph: {counted(len(bad), 'edge')} with weights below 0 or none: {listed([*map(str, bad)], 5)}"
        )
    labels, place = np.unique([*(i for i, _, _ in edges), *(j for _, j, _ in edges), *nodes], return_inverse=True)
    count = len(edges)
    i, j = place[:count], place[count : 2 * count]
    weight = np.array([w for _, _, w in edges], dtype=np.float64) / (1 + both_ways)
    A = sparse.csr_array((weight, (i, j)), shape=(len(labels), len(labels)))
    A = sparse.csr_array(A + A.T)
    A.setdiag(0.0)
    A.eliminate_zeros()
    return TaskGraph(A, labels)


def nearest_of(points: Array, labels: NDArray[Any]) -> TaskGraph:
    """Every task joined to its nearest.

    >>> nearest_of(np.array([[0.0], [1.0], [5.0]]), np.array(list("abc"))).adjacency.sum()
    np.float64(6.0)
    """
    from sklearn.neighbors import kneighbors_graph  # a tenth of a second that other methods need not wait for

    order = np.argsort(labels, kind="stable")
    A = sparse.csr_array(kneighbors_graph(points[order], min(NEAREST, len(points) - 1)))
    return TaskGraph(sparse.csr_array(A.maximum(A.T)), np.asarray(labels)[order])


def named_graph(graph: Any, labels: NDArray[Any], wanted: NDArray[Any], task: Any = None) -> TaskGraph:
    """The relations between the tasks `wanted`, some of the `labels` that a matrix is in the order of.

    Examples
    --------
    >>> named_graph([[0, 1, 2], [1, 0, 3], [2, 3, 0]], np.array(list("abc")), np.array(["a", "c"])).edges()
    [Edge(task='a', neighbor='c', weight=2.0)]
    """
    if not is_matrix(graph):
        read = read_graph(graph, task)
        labels = np.asarray(read.labels)
        graph = read.adjacency
    A = sparse.csr_array(graph, dtype=np.float64)
    T = len(labels)
    if A.shape != (T, T):
        raise ValueError(
            f"graph has shape {A.shape}, but there are {T} tasks: give a ({T}, {T}) array, sorted by label"
        )
    if A.data.size and (not np.isfinite(A.data).all() or abs(A - A.T).max() > MARGIN * abs(A).max()):
        raise ValueError("graph must be symmetric with finite weights: an entry is the relation of two tasks")
    check_same_kind(labels, wanted)
    order = np.argsort(labels, kind="stable")
    position = np.minimum(np.searchsorted(labels, wanted, sorter=order), T - 1)
    position = order[position]
    missing = labels[position] != wanted
    if missing.all():
        raise ValueError(f"graph has none of the tasks; its own: {listed([*map(repr, labels[:5].tolist())])}, ...")
    # Of a task that the graph does not have, and of one that it joins to nobody, nothing is known.
    keep = sparse.diags_array((~missing).astype(float))
    A = sparse.csr_array(keep @ A[position][:, position] @ keep)
    A = sparse.csr_array(A - sparse.diags_array(A.diagonal()))
    A.eliminate_zeros()
    return TaskGraph(A, wanted)


def mismatches(graph: TaskGraph, labels: NDArray[Any]) -> str:
    """What a graph and a table do not share, in one sentence, or nothing."""
    strange = np.setdiff1d(graph.labels, labels).tolist()
    missing = np.setdiff1d(labels, graph.labels).tolist()
    parts = []
    if strange:
        parts.append(f"it has {counted(len(strange), 'task')} without rows ({listed([*map(repr, strange)], 5)})")
    if missing:
        parts.append(f"{counted(len(missing), 'task')} of the table are not in it ({listed([*map(repr, missing)], 5)})")
    return f"graph: {', and '.join(parts)}; tasks without edges go their own way" if parts else ""


def unit_variance(A: sparse.csr_array) -> sparse.csr_array:
    """The same graph with weights so that coefficients drawn along it, exp(-v'Lv / 2), have the variance 1 in every
    component: their geometric mean over its tasks (Sorbye and Rue 2014). A strength means the same on every map then.

    >>> unit_variance(sparse.csr_array([[0.0, 8.0], [8.0, 0.0]])).toarray()
    array([[0.  , 0.25],
           [0.25, 0.  ]])
    """
    number = connected_components(A, directed=False)[1]
    factor = np.ones(len(number))
    for k in np.flatnonzero(np.bincount(number) > 1):
        own = np.flatnonzero(number == k)
        factor[own] = np.exp(np.log(_variances(laplacian(sparse.csr_array(A[own][:, own])))).mean())
    return sparse.csr_array(sparse.diags_array(factor) @ A)


def _variances(L: sparse.csr_array) -> Array:
    """The diagonal of the pseudo-inverse of the Laplacian of a connected graph."""
    n = L.shape[0]
    if n <= DENSE:
        return np.diagonal(np.linalg.inv(L.toarray() + 1 / n) - 1 / n)
    grounded = splu(sparse.csc_array(L[1:, 1:]))
    z = np.random.default_rng(0).choice([-1.0, 1.0], size=(n, PROBES))
    z -= z.mean(axis=0)
    x = np.vstack([np.zeros(PROBES), grounded.solve(z[1:])])
    # Single estimates may come out below 0 by chance, and only their mean counts.
    return np.full(n, float((z * (x - x.mean(axis=0))).mean()))


def beside_neighbours(model: Model, A: sparse.csr_array) -> Model:
    """The model with tasks without rows where their neighbours in a graph are, if it takes part.

    Slopes and levels, less the population's, are harmonic there: the weighted mean of those of the neighbours; times
    what such means are worth for the tasks with rows.
    """
    assert model.gram is not None
    share = sum(part.share * getattr(part.coupling, "given_share", 0.0) for part in model.parts)
    bare = np.flatnonzero(~model.seen & (model.gram.n == 0))
    if not share or not len(bare):
        return model
    center = model.mean_features
    slopes = model.coef - model.population.coef
    if model.facts is not None:
        slopes[model.seen] -= model.facts.lines(model.gram.x_mean[model.seen])[0]
    levels = model.levels - (model.population.intercept + model.population.coef @ center)
    away = np.column_stack([slopes, levels])[model.seen]
    L = laplacian(A)
    reached = L[bare][:, bare] + sparse.diags_array(np.where(L.diagonal()[bare] > 0, MARGIN, 1.0))
    found = splu(sparse.csc_array(reached)).solve(A[bare][:, model.seen] @ away)
    among = A[model.seen][:, model.seen]
    means = (among @ away) / np.maximum(among.sum(axis=1), MARGIN)[:, None]
    found *= float(np.clip(np.vdot(means, away) / max(np.vdot(means, means), TINY), 0.0, 1.0))
    coef, intercept = model.coef.copy(), model.intercept.copy()
    coef[bare] = model.population.coef + found[:, :-1]
    intercept[bare] = model.population.intercept + found[:, -1] - found[:, :-1] @ center
    return replace(model, coef=coef, intercept=intercept)
