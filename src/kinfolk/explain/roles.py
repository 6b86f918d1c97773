"""Where tasks stand in the graph: groups, outliers, bridges between groups, nearest kin."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.explain.groups import Community, group_sentences
from kinfolk.explain.joint import graph_of
from kinfolk.methods.model import as_model
from kinfolk.methods.structures import TaskGraph
from kinfolk.rows.gram import TINY, Array

BRIDGE = 0.5  # weight to the nearest other community, over weight to the own one


class Bridge(NamedTuple):
    """A task between communities; a list of these makes a data frame."""

    task: Any
    community: int
    other: int
    ratio: float
    participation: float


class Role(NamedTuple):
    """Where one task stands; a list of these makes a data frame.

    `own` and `across` are the weights of its edges inside and outside its community; `participation` is 1 - sum of
    squared shares of its weight over communities: 0 for a task with edges into one community only.
    """

    task: Any
    community: int
    neighbors: int
    degree: float
    own: float
    across: float
    participation: float
    outlier: bool
    bridge: bool
    nearest: Any


def communities(model: Any) -> list[Community]:
    """Groups of tasks of a fitted model or a graph, largest first; outliers stand alone at the end.

    Each is a list of tasks; of a fitted model, its attribute `said` is a sentence about what sets it apart.
    """
    graph = graph_of(model, "communities")
    found = [Community(tasks) for tasks in graph.communities()]
    if graph is not model:
        groups, alone = group_sentences(as_model(model))
        for community, said in zip(found, groups + alone, strict=False):  # of many loners only the first have one
            community.said = said
    return found


def outliers(model: Any, below: float | None = None) -> list[Any]:
    """Tasks of a fitted model or a graph that hardly touch the graph; see `TaskGraph.outliers`."""
    return graph_of(model, "outliers").outliers(below)


def bridges(graph: Any, at_least: float = BRIDGE) -> list[Bridge]:
    """Tasks that bridge communities, the strongest first.

    A task is a bridge if another community holds it with at least half (`at_least`) of the weight with which its own
    one does. Then which community it is put in is not clear-cut: moving a third of its weight would change it.
    Outliers are no bridges: their few edges are there because the barrier wants every task to have some.

    Parameters
    ----------
    graph : a TaskGraph, or a fitted model that has one

    Examples
    --------
    Two triangles, 0-1-2 and 4-5-6, and task 3 tied to both, a little more to the first.

    >>> A = np.zeros((7, 7))
    >>> for i, j, w in [(0, 1, 4), (0, 2, 4), (1, 2, 4), (4, 5, 4), (4, 6, 4), (5, 6, 4), (2, 3, 3), (3, 4, 2)]:
    ...     A[i, j] = A[j, i] = w
    >>> [(b.task, round(b.ratio, 2)) for b in bridges(TaskGraph(sparse.csr_array(A), np.arange(7)))]
    [(3, 0.67)]
    """
    if not 0 < at_least <= 1:
        raise ValueError(
            f"at_least={at_least} must be greater than 0 and at most 1: the weight to another community over the own"
        )
    graph = graph_of(graph, "bridges")
    held = _Held(graph)
    found = np.flatnonzero(held.ratio() >= at_least)
    found = found[np.argsort(-held.ratio()[found], kind="stable")]
    names, participation = graph.labels.tolist(), held.participation()
    return [
        Bridge(names[t], int(held.group[t]), int(held.other()[t]), float(held.ratio()[t]), float(participation[t]))
        for t in found
    ]


def roles(model: Any) -> list[Role]:
    """One row per task of a fitted model or a graph, in the order of the tasks."""
    graph = graph_of(model, "roles")
    held = _Held(graph)
    own, across, participation = held.own(), held.across(), held.participation()
    bridge = held.ratio() >= BRIDGE
    count, nearest, names = np.diff(graph.adjacency.indptr), _nearest(graph.adjacency), graph.labels.tolist()
    return [
        Role(
            names[t],
            int(held.group[t]),
            int(count[t]),
            float(graph.degree[t]),
            float(own[t]),
            float(across[t]),
            float(participation[t]),
            bool(held.group[t] < 0),
            bool(bridge[t]),
            names[nearest[t]] if nearest[t] >= 0 else None,
        )
        for t in range(len(names))
    ]


class _Held:
    """With how much weight every community holds every task; outliers are in none."""

    def __init__(self, graph: TaskGraph) -> None:
        self.group = graph.groups()
        T, count = len(self.group), int(self.group.max(initial=-1)) + 1
        inside = np.flatnonzero(self.group >= 0)
        member = sparse.csr_array((np.ones(len(inside)), (inside, self.group[inside])), shape=(T, max(count, 1)))
        self.weight: Array = (graph.adjacency @ member).toarray()
        self.to_outliers: Array = graph.adjacency @ (self.group < 0).astype(float)
        self.at_home = np.zeros_like(self.weight, dtype=bool)
        self.at_home[inside, self.group[inside]] = True

    def own(self) -> Array:
        """Weight to the own community; 0 for outliers."""
        return np.where(self.at_home, self.weight, 0.0).sum(axis=1)

    def across(self) -> Array:
        """Weight to other communities and to outliers."""
        return np.where(self.at_home, 0.0, self.weight).sum(axis=1) + self.to_outliers

    def other(self) -> NDArray[np.intp]:
        """The other community that holds a task most."""
        return np.argmax(np.where(self.at_home, -1.0, self.weight), axis=1)

    def ratio(self) -> Array:
        """Weight to that one over weight to the own; 0 for outliers."""
        largest = np.where(self.at_home, 0.0, self.weight).max(axis=1)
        return np.where(self.group >= 0, largest / np.maximum(self.own(), TINY), 0.0)

    def participation(self) -> Array:
        """1 - sum of squared shares over communities."""
        share = self.weight / np.maximum(self.weight.sum(axis=1, keepdims=True), TINY)
        return np.where(share.any(axis=1), 1 - (share**2).sum(axis=1), 0.0)


def _nearest(A: sparse.csr_array) -> NDArray[np.intp]:
    """The neighbour with the heaviest edge, the first of equals; -1 without edges."""
    links = A.tocoo()
    i, j = links.coords
    order = np.lexsort((j, -links.data, i))
    tasks, first = np.unique(i[order], return_index=True)
    found = np.full(A.shape[0], -1)
    found[tasks] = j[order][first]
    return found
