"""What the methods with a task graph share: tasks that come and go after fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.metaestimators import available_if

from kinfolk.methods.change import (
    adopted,
    dropped,
    solved_anew,
    task_positions,
    with_shown_graph,
    working_statistics,
)
from kinfolk.methods.given_graph import AlongGraph
from kinfolk.methods.method import Face
from kinfolk.methods.model import Model, as_model
from kinfolk.methods.outer import observed
from kinfolk.methods.parameters import parameters
from kinfolk.methods.search_report import ByTask
from kinfolk.methods.trunk import is_regressor
from kinfolk.rows.gram import Array
from kinfolk.rows.schema import Columns
from kinfolk.rows.table import Rows
from kinfolk.rows.working import WorkingRows


def may_stream(method: Any) -> bool:
    """Whether rows can be added: to nothing yet, to the statistics of a model, or to those of the folds it kept."""
    if is_regressor(getattr(method, "trunk", None)) or method.works_on_rows:
        return False
    return "model_" not in vars(method) or not method.wants_folds() or method.model_.stream is not None


@parameters
class GraphRegressor(AlongGraph):
    """A method whose structure is a `TaskGraph` and whose model is a sum of linear maps."""

    edge_confidence = Face("kinfolk.explain", "edge_confidence")
    edges = Face("kinfolk.explain", "sure_edges")

    def keep(self, model: Model, columns: Columns) -> Self:
        """Become the estimator of a fitted model, with the graph that people read."""
        return super().keep(with_shown_graph(model), columns)

    @available_if(may_stream)
    def partial_fit(
        self, X: Any, y: Any, sample_weight: Any = None, *, forget: float = 1.0, groups: Any = None
    ) -> Self:
        """Merge new rows into the statistics and solve again; earlier rows are not needed.

        The first call is `fit`. Without forgetting the result is that of one fit on all rows (with `features`, and of
        `RBFGAMTL` input weights, centres and widths, as fitted on the first). New tasks may appear. Of methods that
        cross-validate it is that of one fit with the folds that the rows were dealt to: those that `fit` draws may
        choose other parameters, as those of another `random_state`.

        Methods that cross-validate deal every new row to a fold, where it stays, and search again: the rows of a task
        go to the folds in turn, as they come, first to those that have least of it. They must begin with `partial_fit`,
        since `fit` keeps no statistics of folds.

        Parameters
        ----------
        forget : factor in (0, 1] for the weight of all earlier rows; below 1 a stream forgets
        groups : as in `fit`; the rows of a group must come in one call
        """
        if not 0 < forget <= 1:
            raise ValueError(f"forget={forget} must be greater than 0 and at most 1")
        if "model_" not in vars(self):
            return self.first_fit(X, y, sample_weight, groups)
        model = self.model_
        model.statistics("partial_fit")
        assert model.columns is not None
        # The rows as they are before any basis functions: the method knows what to make of them.
        columns = replace(model.columns, basis=None)
        rows, inputs = columns.read_with_targets(X, y, type(self).__name__, sample_weight)
        if self.task is None and not np.array_equal(rows.schema.labels, model.labels):
            raise ValueError(
                f"y has {len(rows.schema.labels)} columns, but fit saw {len(model.labels)}: pass the same ones"
            )
        grown = self.refitted(model, rows, inputs, forget, groups)
        return self.keep(grown, columns.including(rows.table).with_labels(grown.labels))

    def __getattr__(self, name: str) -> Any:
        if name == "partial_fit" and self.works_on_rows:
            raise AttributeError(
                f"partial_fit keeps statistics, and family={self.family!r}, exposure and offset need rows: use fit"
            )
        if name == "partial_fit" and is_regressor(getattr(self, "trunk", None)):
            raise AttributeError(
                "partial_fit keeps statistics, and the regressor given as trunk is fitted to rows: use fit(X, y), "
                'trunk="auto" or trunk=None'
            )
        if name == "partial_fit":
            raise AttributeError(
                f"this {type(self).__name__} has no statistics of folds to add rows to: fit keeps none. Begin with "
                "partial_fit, which takes the first rows as fit does"
            )
        return super().__getattr__(name)

    def first_fit(self, X: Any, y: Any, sample_weight: Any, groups: Any) -> Self:
        """The first call of `partial_fit`."""
        return self.fit(X, y, sample_weight, groups)

    def refitted(self, model: Model, rows: Rows, inputs: Array, forget: float, groups: Any) -> Model:
        """The model of the rows so far and new ones."""
        assert model.gram is not None
        return self.whole_model(model.gram.scaled(forget) + rows.gram(inputs, model.gram.feature_names))

    def adopt(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Attach new tasks, however few rows they have; those that are there keep their coefficients.

        A new task gets the edges and weights that are best for it with all else fixed. Its rows join the statistics, so
        that a later `partial_fit` refits everything with it.

        Parameters
        ----------
        X, y, sample_weight : rows of the new tasks, as in `fit`
        """
        if as_model(self).by_class:
            raise ValueError("adopt takes no more than two classes: fit again with the new tasks")
        if self.task is None:
            raise ValueError("adopt takes long tables with a task column; this model was fitted to wide targets")
        self.model_ = self._with_new_tasks(as_model(self), X, self.as_targets(y), sample_weight)
        return self

    def _with_new_tasks(self, model: Model, X: Any, y: Any, sample_weight: Any) -> Model:
        """A model with the tasks of these rows; its lines, and the model of later rows, have them too."""
        assert model.columns is not None
        old = model.statistics("adopt")
        rows, features = model.columns.read_with_targets(X, y, type(self).__name__, sample_weight)
        labels = rows.schema.labels
        known = np.isin(labels, model.labels)
        if known.any():
            name = labels[known].tolist()[0]
            raise ValueError(f"task {name!r} is known already: drop() it first, or use partial_fit to add rows to it")
        about: dict[str, ByTask] = {}
        if model.target.is_plain:
            new = rows.gram(features, old.feature_names)
        else:
            working = WorkingRows.of(rows, features, old.feature_names, model.target)
            new = working_statistics(model, working)
            about = observed(working)
        # A single row, which its intercept takes, says nothing about neighbours: such a task stands beside the graph.
        lone = new.lone() & self.needs_two_rows()
        grown = model if lone.all() else adopted(model, new.select(~lone))
        gram = grown.gram
        if gram is None or lone.any():
            gram = old + new
        stream = model.stream
        if stream is not None:
            inputs = replace(model.columns, basis=None).features(rows.table)
            stream = stream.plus(rows, inputs, random_state=self.random_state)
        columns = model.columns.including(rows.table).with_labels(gram.labels)
        grown = replace(grown.among(gram), columns=columns, stream=stream)
        extras = {name: _joined(grown, name, labels, values) for name, values in about.items()}
        grown = replace(grown, extras=grown.extras | extras)

        def too(other: Model) -> Model:
            return self._with_new_tasks(other, X, y, sample_weight)

        beyond = None if model.beyond is None else too(model.beyond)
        return replace(grown, beyond=beyond, bound=None if model.bound is None else model.bound.changed(too))

    def drop(self, tasks: Sequence[Any]) -> Self:
        """Remove tasks with their statistics and edges; the others keep their coefficients."""
        model = as_model(self)
        self.model_ = dropped(model, task_positions(model, tasks))
        return self

    def refit(self, tasks: Sequence[Any]) -> Self:
        """Solve anew for some tasks from their statistics, the others fixed."""
        model = as_model(self)
        where = np.unique(task_positions(model, tasks))
        self.model_ = replace(solved_anew(model, where), stream=model.stream)
        return self


def _joined(model: Model, name: str, labels: NDArray[Any], new: ByTask) -> ByTask:
    """What is known of every task, with that of new ones."""
    values = model.extras[name].values.copy()
    values[np.searchsorted(model.labels, labels)] = new.values
    return ByTask(values)
