"""What the methods with a task graph share: tasks that come and go after fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np

from kinfolk.methods.change import adopted, dropped, task_positions, with_shown_graph
from kinfolk.methods.method import Face, MultiTaskRegressor
from kinfolk.methods.model import Model, as_model
from kinfolk.methods.parameters import parameters
from kinfolk.rows.columns import Columns


@parameters
class GraphRegressor(MultiTaskRegressor):
    """A method whose structure is a `TaskGraph` and whose model is a sum of linear maps."""

    edge_confidence = Face("kinfolk.explain", "edge_confidence")
    edges = Face("kinfolk.explain", "sure_edges")

    def keep(self, model: Model, columns: Columns) -> Self:
        """Become the estimator of a fitted model, with the graph that people read."""
        return super().keep(with_shown_graph(model), columns)

    def adopt(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Attach new tasks, however few rows they have; those that are there keep their coefficients.

        A new task gets the edges and weights that are best for it with all else fixed. Its rows join the statistics, so
        that a later `partial_fit` refits everything with it.

        Parameters
        ----------
        X, y, sample_weight : rows of the new tasks, as in `fit`
        """
        model = as_model(self)
        assert model.columns is not None
        assert model.gram is not None
        if self.task is None:
            raise ValueError("adopt takes long tables with a task column; this model was fitted to wide targets")
        rows, features = model.columns.read_with_targets(X, y, type(self).__name__, sample_weight)
        new = rows.gram(features, model.gram.feature_names)
        known = np.isin(new.labels, model.labels)
        if known.any():
            name = new.labels[known].tolist()[0]
            raise ValueError(f"task {name!r} is known already: drop() it first, or use partial_fit to add rows to it")
        # A single row, which its intercept takes, says nothing about neighbours: such a task stands beside the graph.
        lone = new.lone() & self.needs_two_rows()
        grown = model if lone.all() else adopted(model, new.select(~lone))
        gram = model.gram + new
        self.model_ = replace(grown.among(gram), columns=model.columns.including(rows.table).with_labels(gram.labels))
        return self

    def drop(self, tasks: Sequence[Any]) -> Self:
        """Remove tasks with their statistics and edges; the others keep their coefficients."""
        model = as_model(self)
        self.model_ = dropped(model, task_positions(model, tasks))
        return self

    def refit(self, tasks: Sequence[Any]) -> Self:
        """Solve anew for some tasks from their statistics, the others fixed."""
        model = as_model(self)
        assert model.gram is not None
        where = np.unique(task_positions(model, tasks))
        self.model_ = adopted(dropped(model, where), model.gram.select(where))
        return self
