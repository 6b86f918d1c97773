"""Models that change after the fit: tasks that come and tasks that go, as functions from Model to Model."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.methods.gamtl.coupling import GraphCoupling
from kinfolk.methods.gamtl.shown import shown_graph, shown_graph_of_classes
from kinfolk.methods.late_graph import LateGraph
from kinfolk.methods.model import Model
from kinfolk.methods.search_report import ByTask
from kinfolk.methods.structures import TaskGraph
from kinfolk.rows.gram import GramStats
from kinfolk.rows.table import task_codes
from kinfolk.rows.working import WorkingRows

Positions = NDArray[np.intp]
ADOPTING_ROUNDS = 20  # of working targets of new tasks
ADOPTED = 1e-6  # of a predictor: a step that ends these rounds


def adopted(model: Model, new: GramStats) -> Model:
    """The model with new tasks; those that are there keep their coefficients.

    Every part takes the new tasks in: along a graph with the edges and weights that are best for them, all else fixed;
    without a graph by what all tasks have in common, which a few more of them hardly move.
    """
    gram = model.statistics("adopt") + new
    new_at = np.searchsorted(gram.labels, new.labels)
    parts = [part.adopted(model.known, new) for part in model.parts]
    W = sum((part.share * W for part, W, _ in parts), np.zeros((new.n_tasks, new.n_features)))
    c = sum((part.share * c for part, _, c in parts), np.zeros(new.n_tasks))
    grown = model.among(gram)
    adopting = replace(
        grown,
        seen=_put(grown.seen, new_at, True),
        coef=_put(grown.coef, new_at, W),
        intercept=_put(grown.intercept, new_at, c),
        parts=tuple(part for part, _, _ in parts),
        columns=None if model.columns is None else model.columns.with_labels(gram.labels),
    )
    return with_shown_graph(adopting)


def working_statistics(model: Model, new: WorkingRows) -> GramStats:
    """Statistics of the working targets of new tasks, at the predictors that they have once they are adopted."""
    new = new.with_levels_of_all(new.one_sided())
    eta = new.X @ model.population.coef + model.population.intercept + new.offset
    for _ in range(ADOPTING_ROUNDS):
        gram = new.gram(eta)
        grown = adopted(model, gram)
        codes = np.searchsorted(grown.labels, new.labels)[new.codes]
        following = grown.predictor(new.X, codes) + new.offset
        moved = float(np.abs(following - eta).max(initial=0.0))
        eta = following
        if moved <= ADOPTED:
            break
    return gram


def dropped(model: Model, tasks: Positions) -> Model:
    """The model without some tasks, their statistics and their edges; the others keep their coefficients."""
    kept = np.setdiff1d(np.arange(len(model.labels)), tasks)
    if not len(kept):
        raise ValueError(f"drop would remove all {len(model.labels)} tasks: at least one must stay")
    gram = model.statistics("drop")
    kept_seen = np.isin(np.flatnonzero(model.seen), kept)
    smaller = replace(
        model,
        labels=model.labels[kept],
        seen=model.seen[kept],
        coef=model.coef[kept],
        intercept=model.intercept[kept],
        parts=tuple(part.among(kept_seen) for part in model.parts),
        held_out=None if model.held_out is None else model.held_out.of(kept),
        report=None if model.report is None else model.report.taken(kept),
        extras={k: v.taken(kept) if isinstance(v, ByTask) else v for k, v in model.extras.items()},
        gram=gram.select(kept),
        stream=None if model.stream is None else model.stream.select(kept),
        columns=None if model.columns is None else model.columns.with_labels(model.labels[kept]),
        trunk=None if model.trunk is None else model.trunk.taken(kept),
        bound=None if model.bound is None else model.bound.changed(lambda lines: dropped(lines, tasks)),
        beyond=None if model.beyond is None else dropped(model.beyond, tasks),
        by_class=tuple(dropped(one, tasks) for one in model.by_class),
    )
    return with_shown_graph(smaller)


def solved_anew(model: Model, tasks: Positions) -> Model:
    """The model with some tasks solved anew from their statistics, the others fixed."""
    new = model.statistics("solving tasks anew").select(tasks)
    beyond = None if model.beyond is None else solved_anew(model.beyond, tasks)
    bound = None if model.bound is None else model.bound.changed(lambda lines: solved_anew(lines, tasks))
    return replace(adopted(dropped(model, tasks), new), beyond=beyond, bound=bound)


def with_shown_graph(model: Model) -> Model:
    """The model with the graph that people read, made when it is first looked at.

    That is the coupling graph itself where the paper's alpha, beta and gamma were given, else one of its own.
    """
    part = model.graph_part
    if part is None:  # one line for all tasks
        return replace(model, structure=TaskGraph(sparse.csr_array((len(model.labels),) * 2), model.labels))
    coupling = part.coupling
    assert isinstance(coupling, GraphCoupling)
    graph = TaskGraph(coupling.adjacency, model.labels[model.seen])
    if coupling.recipe.gamma is None:
        coef = model.coef[model.seen]
        intercept = model.intercept[model.seen]
        if model.compared is not model.parts:
            coef, intercept = part.coefficients(part.equations(model.known), part.V)
        make = partial(shown_graph, model.known, coef, intercept, coupling.recipe)
        if model.by_class:
            each = [(one.known, one.coef[one.seen], one.intercept[one.seen]) for one in model.by_class]
            make = partial(shown_graph_of_classes, each, coupling.recipe)
        graph = LateGraph(make, graph.labels)
    return replace(model, structure=graph.expanded(model.labels))


def task_positions(model: Model, tasks: Any) -> Positions:
    """Where tasks stand in a model, by name."""
    if isinstance(tasks, str) or not np.ndim(tasks):
        tasks = [tasks]
    codes = task_codes(np.asarray(tasks), model.labels, "mean")
    if (codes < 0).any():
        strange = np.asarray(tasks)[codes < 0].tolist()[0]
        known = ", ".join(map(repr, model.labels[:3].tolist()))
        raise ValueError(f"task {strange!r} is not in this model ({len(model.labels)} tasks: {known}, ...)")
    return codes


def _put(values: NDArray[Any], at: Positions, new: Any) -> NDArray[Any]:
    """A copy with new values at some positions."""
    changed = values.copy()
    changed[at] = new
    return changed
