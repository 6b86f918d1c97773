"""What the methods with a task graph share: the graph by name, and tasks that come and go after fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from kinfolk.methods.gamtl.problem import remoteness
from kinfolk.methods.method import MultiTaskRegressor
from kinfolk.methods.structures import TaskGraph
from kinfolk.rows.gram import Array, GramStats
from kinfolk.rows.tables import read_table
from kinfolk.rows.tasks import check_rows_per_task, read_rows, task_codes

PER_TASK = ("cv_errors_", "limit_errors_")  # fitted attributes with an entry per task


class GraphRegressor(MultiTaskRegressor):
    """A method whose structure is a `TaskGraph`.

    It says in `_new_tasks(gram)` what coefficients (k, d), intercepts (k,) and edges (k, T) to the tasks with rows it
    gives to new tasks, all else unchanged.
    """

    def _new_tasks(self, new: GramStats) -> tuple[Array, Array, Array]:
        raise NotImplementedError

    @property
    def graph_(self) -> TaskGraph:
        """The task graph, with names."""
        return self.structure_

    @property
    def adjacency_(self) -> sparse.csr_array:
        """The weighted adjacency, CSR (T, T)."""
        return self.structure_.adjacency

    def adopt(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Attach new tasks, however few rows they have; those that are there keep their coefficients.

        A new task gets the edges and weights that are best for it with all else fixed. Its rows join the statistics, so
        that a later `partial_fit` refits everything with it.

        Parameters
        ----------
        X, y, sample_weight : rows of the new tasks, as in `fit`
        """
        check_is_fitted(self, "coef_")
        if self.task is None:
            raise ValueError("adopt takes long tables with a task column; this model was fitted to wide targets")
        read_table(X).check_against(self._schema.names, self._schema.width, type(self).__name__)
        rows = read_rows(X, y, task=self.task, sample_weight=sample_weight)
        new = rows.gram(self._transform(rows.table), self.gram_.feature_names)
        known = np.isin(new.labels, self.tasks_)
        if known.any():
            name = new.labels[known].tolist()[0]
            raise ValueError(f"task {name!r} is known already: drop() it first, or use partial_fit to add rows to it")
        if self.needs_two_rows:
            check_rows_per_task(new)
        return self._attach(new)

    def edge_confidence(self, X: Any = None, y: Any = None, *, n: int = 100, **options: Any) -> Any:
        """How stable every edge is under resampling, in [0, 1]: `kinfolk.explain.edge_confidence`."""
        from kinfolk.explain import edge_confidence

        return edge_confidence(self, X, y, n=n, **options)

    def drop(self, tasks: Sequence[Any]) -> Self:
        """Remove tasks with their statistics and edges; the others keep their coefficients."""
        check_is_fitted(self, "coef_")
        gone = self._positions(tasks)
        kept = np.setdiff1d(np.arange(len(self.tasks_)), gone)
        if not len(kept):
            raise ValueError(f"drop would remove all {len(self.tasks_)} tasks: at least one must stay")
        self._keep(kept)
        return self

    def refit(self, tasks: Sequence[Any]) -> Self:
        """Solve anew for some tasks from their statistics, the others fixed."""
        check_is_fitted(self, "coef_")
        again = self.gram_.select(np.unique(self._positions(tasks)))
        return self.drop(tasks)._attach(again)

    def _positions(self, tasks: Sequence[Any]) -> NDArray[np.intp]:
        if isinstance(tasks, str) or not np.ndim(tasks):
            tasks = [tasks]
        codes = task_codes(np.asarray(tasks), self.tasks_, "mean")
        if (codes < 0).any():
            strange = np.asarray(tasks)[codes < 0].tolist()[0]
            known = ", ".join(map(repr, self.tasks_[:3].tolist()))
            raise ValueError(f"task {strange!r} is not in this model ({len(self.tasks_)} tasks: {known}, ...)")
        return codes

    def _attach(self, new: GramStats) -> Self:
        """Put new tasks where their labels belong in the order of all labels."""
        W, c, edges = self._new_tasks(new)
        gram = self.gram_ + new
        old_at, new_at = (np.searchsorted(gram.labels, labels) for labels in (self.tasks_, new.labels))
        seen_at = old_at[self.gram_.n > 0]
        T = gram.n_tasks
        self.coef_ = _merged(T, (old_at, self.coef_), (new_at, W))
        self.intercept_ = _merged(T, (old_at, self.intercept_), (new_at, c))
        for name in PER_TASK:
            if hasattr(self, name):
                nothing = np.full(new.n_tasks, np.nan)
                setattr(self, name, _merged(T, (old_at, getattr(self, name)), (new_at, nothing)))
        self.structure_ = TaskGraph(
            _with_edges(self.adjacency_, old_at, edges, new_at, seen_at), gram.labels, remoteness(self.coef_)
        )
        self._set_tasks(gram)
        return self

    def _keep(self, kept: NDArray[np.intp]) -> None:
        self.coef_, self.intercept_ = self.coef_[kept], self.intercept_[kept]
        for name in PER_TASK:
            if hasattr(self, name):
                setattr(self, name, getattr(self, name)[kept])
        graph = self.graph_
        away = None if graph.remoteness is None else graph.remoteness[kept]
        self.structure_ = TaskGraph(graph.adjacency[kept][:, kept], graph.labels[kept], away)
        self._set_tasks(self.gram_.select(kept))

    def _set_tasks(self, gram: GramStats) -> None:
        self.gram_, self.tasks_ = gram, gram.labels
        self._schema = replace(self._schema, labels=gram.labels)


def _merged(T: int, *parts: tuple[NDArray[np.intp], Array]) -> Array:
    whole = np.empty((T, *parts[0][1].shape[1:]))
    for at, values in parts:
        whole[at] = values
    return whole


def _with_edges(
    A: sparse.csr_array, old_at: NDArray[np.intp], edges: Array, new_at: NDArray[np.intp], seen_at: NDArray[np.intp]
) -> sparse.csr_array:
    """The adjacency of old and new tasks together."""
    T = len(old_at) + len(new_at)
    old = sparse.coo_array(A)
    i, j = np.nonzero(edges)
    here, there = new_at[i], seen_at[j]
    row = np.concatenate([old_at[old.coords[0]], here, there])
    column = np.concatenate([old_at[old.coords[1]], there, here])
    weight = np.concatenate([old.data, edges[i, j], edges[i, j]])
    return sparse.csr_array((weight, (row, column)), shape=(T, T))
