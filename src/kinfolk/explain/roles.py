"""Where tasks stand in the graph: groups, outliers, bridges between groups, nearest kin."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from kinfolk.explain.groups import Community, group_sentences
from kinfolk.explain.joint import graph_of
from kinfolk.explain.kin import kinship
from kinfolk.methods.model import Fitted, as_model
from kinfolk.methods.structures import TaskGraph
from kinfolk.rows.gram import TINY, Array
from kinfolk.threads import on_few_threads

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


@on_few_threads
def communities(model: Fitted | TaskGraph) -> list[Community]:
    """Groups of tasks of a fitted model or a graph, largest first; outliers stand alone at the end.

    Each is a list of tasks; of a fitted model, its attribute `said` is a sentence about what sets it apart, or that the
    tasks scatter around one mean.
    """
    graph = graph_of(model, "communities")
    found = [Community(tasks) for tasks in graph.communities()]
    if graph is not model:
        fitted = as_model(cast(Fitted, model))
        groups, alone = group_sentences(fitted, kinship(fitted))
        for community, said in zip(found, groups + alone, strict=False):  # of many loners only the first have one
            community.said = said
    return found


def outliers(model: Fitted | TaskGraph, below: float | None = None) -> list[Any]:
    """Tasks of a fitted model or a graph that hardly touch the graph; see `TaskGraph.outliers`."""
    return graph_of(model, "outliers").outliers(below)


def bridges(graph: Fitted | TaskGraph, at_least: float = BRIDGE) -> list[Bridge]:
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

    >>> from scipy import sparse
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
    found = graph_of(graph, "bridges")
    held = _held(found)
    strongest = np.argsort(-held.ratio, kind="stable")[: np.count_nonzero(held.ratio >= at_least)]
    columns = (found.labels, held.group, held.other, held.ratio, held.participation)
    return [Bridge(*row) for row in zip(*(column[strongest].tolist() for column in columns), strict=True)]


def roles(model: Fitted | TaskGraph) -> list[Role]:
    """One row per task of a fitted model or a graph, in the order of the tasks."""
    graph = graph_of(model, "roles")
    held = _held(graph)
    count = np.diff(graph.adjacency.indptr)
    names = graph.labels.tolist()
    heaviest = np.asarray(graph.adjacency.argmax(axis=1)).ravel()  # the first of equals
    nearest = [names[j] if k else None for j, k in zip(heaviest, count, strict=True)]
    numbers = (held.group, count, graph.degree, held.own, held.across, held.participation)
    columns = [column.tolist() for column in (*numbers, held.group < 0, held.ratio >= BRIDGE)]
    return [Role(*row) for row in zip(names, *columns, nearest, strict=True)]


class _Held(NamedTuple):
    """With how much weight communities hold every task; outliers are in none.

    Group of the task; weight to it (0 for outliers), and to other groups and outliers; the other group that holds it
    most, and the weight to that one over that to its own (0 for outliers); participation, see `Role`.
    """

    group: NDArray[np.intp]
    own: Array
    across: Array
    other: NDArray[np.intp]
    ratio: Array
    participation: Array


def _held(graph: TaskGraph) -> _Held:
    group = graph.groups()
    inside = np.flatnonzero(group >= 0)
    at_home = np.zeros((len(group), max(int(group.max(initial=-1)) + 1, 1)), bool)
    at_home[inside, group[inside]] = True
    weight: Array = graph.adjacency @ at_home.astype(float)
    own = np.where(at_home, weight, 0.0).sum(axis=1)
    others = np.where(at_home, 0.0, weight)
    share = weight / np.maximum(weight.sum(axis=1, keepdims=True), TINY)
    return _Held(
        group,
        own,
        others.sum(axis=1) + graph.adjacency @ (group < 0).astype(float),
        np.argmax(np.where(at_home, -1.0, weight), axis=1),
        np.where(group >= 0, others.max(axis=1) / np.maximum(own, TINY), 0.0),
        np.where(share.any(axis=1), 1 - (share**2).sum(axis=1), 0.0),
    )
