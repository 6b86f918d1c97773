"""Relations between tasks that the user gives: an array in the order of the tasks, or a `TaskGraph` by name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.methods.method import MultiTaskRegressor
from kinfolk.methods.model import Model
from kinfolk.methods.parameters import parameters
from kinfolk.methods.structures import TaskGraph
from kinfolk.rows.folds import Folds
from kinfolk.rows.gram import GramStats
from kinfolk.solvers.tolerances import MARGIN


@parameters
class AlongGraph(MultiTaskRegressor):
    """A method with a parameter `graph`; `learn` gets it as a `TaskGraph` of exactly its tasks, or as None."""

    graph: Any = None

    def model_of(self, gram: GramStats, folds: Folds | None = None) -> Model:
        """Fit with the given graph by name, since an array is in the order of all tasks, with or without rows."""
        if self.graph is None:
            return super().model_of(gram, folds)
        known = gram.with_rows().labels
        named = self.unfitted().set_params(graph=named_graph(self.graph, gram.labels, known))
        return replace(super(AlongGraph, named).model_of(gram, folds), method=self.unfitted())


def named_graph(graph: Any, labels: NDArray[Any], wanted: NDArray[Any]) -> TaskGraph:
    """The relations between the tasks `wanted`, some of the `labels` that an array is in the order of.

    Examples
    --------
    >>> named_graph([[0, 1, 2], [1, 0, 3], [2, 3, 0]], np.array(list("abc")), np.array(["a", "c"])).edges()
    [Edge(task='a', neighbor='c', weight=2.0)]
    """
    if hasattr(graph, "labels"):
        labels = np.asarray(graph.labels)
        graph = graph.adjacency
    A = sparse.csr_array(graph, dtype=np.float64)
    T = len(labels)
    if A.shape != (T, T):
        raise ValueError(
            f"graph has shape {A.shape}, but there are {T} tasks: give a ({T}, {T}) array, sorted by label"
        )
    if A.data.size and (not np.isfinite(A.data).all() or abs(A - A.T).max() > MARGIN * abs(A).max()):
        raise ValueError("graph must be symmetric with finite weights: an entry is the relation of two tasks")
    order = np.argsort(labels, kind="stable")
    position = np.minimum(np.searchsorted(labels, wanted, sorter=order), T - 1)
    missing = wanted[labels[order[position]] != wanted]
    if len(missing):
        raise ValueError(f"graph has no task {missing.tolist()[0]!r}; its tasks: {labels[:5].tolist()}, ...")
    A = sparse.csr_array(A[order[position]][:, order[position]])
    return TaskGraph(sparse.csr_array(A - sparse.diags_array(A.diagonal())), wanted)
