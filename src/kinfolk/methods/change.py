"""Models that change after the fit: tasks that come and tasks that go, as functions from Model to Model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.methods.gamtl.adopt import adopt_tasks
from kinfolk.methods.gamtl.coupling import GraphCoupling
from kinfolk.methods.gamtl.shown import shown_graph
from kinfolk.methods.model import ByTask, Course, Model, Part
from kinfolk.methods.structures import TaskGraph
from kinfolk.rows.gram import Array, GramStats
from kinfolk.rows.tasks import task_codes

Positions = NDArray[np.intp]


def adopted(model: Model, new: GramStats) -> Model:
    """The model with new tasks; those that are there keep their coefficients.

    Every part takes the new tasks in: along a graph with the edges and weights that are best for them, all else fixed;
    without a graph by what all tasks have in common, which a few more of them hardly move.
    """
    assert model.gram is not None
    gram = model.gram + new
    old_at = np.searchsorted(gram.labels, model.labels)
    new_at = np.searchsorted(gram.labels, new.labels)
    parts = [_part_with(part, model.known, new) for part in model.parts]
    W = sum((part.share * W for part, W, _ in parts), np.zeros((new.n_tasks, new.n_features)))
    c = sum((part.share * c for part, _, c in parts), np.zeros(new.n_tasks))
    coef = _merged(gram.n_tasks, (old_at, model.coef), (new_at, W))
    seen = _merged(gram.n_tasks, (old_at, model.seen), (new_at, np.ones(new.n_tasks, bool))).astype(bool)
    details = {k: v.placed(old_at, gram.n_tasks) if isinstance(v, ByTask) else v for k, v in model.details.items()}
    grown = replace(
        model,
        labels=gram.labels,
        seen=seen,
        coef=coef,
        intercept=_merged(gram.n_tasks, (old_at, model.intercept), (new_at, c)),
        parts=tuple(part for part, _, _ in parts),
        held_out=None if model.held_out is None else model.held_out.placed(old_at, gram.n_tasks),
        details=details,
        gram=gram,
        columns=None if model.columns is None else model.columns.with_labels(gram.labels),
    )
    return with_shown_graph(grown)


def dropped(model: Model, tasks: Positions) -> Model:
    """The model without some tasks, their statistics and their edges; the others keep their coefficients."""
    kept = np.setdiff1d(np.arange(len(model.labels)), tasks)
    if not len(kept):
        raise ValueError(f"drop would remove all {len(model.labels)} tasks: at least one must stay")
    assert model.gram is not None
    kept_seen = np.isin(np.flatnonzero(model.seen), kept)
    smaller = replace(
        model,
        labels=model.labels[kept],
        seen=model.seen[kept],
        coef=model.coef[kept],
        intercept=model.intercept[kept],
        parts=tuple(_part_of(part, kept_seen) for part in model.parts),
        held_out=None if model.held_out is None else model.held_out.of(kept),
        details={k: v.taken(kept) if isinstance(v, ByTask) else v for k, v in model.details.items()},
        gram=model.gram.select(kept),
        columns=None if model.columns is None else model.columns.with_labels(model.labels[kept]),
    )
    return with_shown_graph(smaller)


def with_shown_graph(model: Model) -> Model:
    """The model with the graph that people read, and its certificates.

    That is the coupling graph itself where the paper's alpha, beta and gamma were given, else one of its own.
    """
    part = model.graph_part
    assert part is not None
    coupling = part.coupling
    assert isinstance(coupling, GraphCoupling)
    labels = model.labels[model.seen]
    if coupling.recipe.gamma is not None:
        return replace(model, structure=TaskGraph(coupling.adjacency, labels).expanded(model.labels))
    graph, certificates = shown_graph(model.known, model.coef[model.seen], model.intercept[model.seen], coupling.recipe)
    course = model.course or Course({})
    course = replace(course, optimality=course.optimality | certificates)
    return replace(model, structure=graph.expanded(model.labels), course=course)


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


def _part_with(part: Part, old: GramStats, new: GramStats) -> tuple[Part, Array, Array]:
    """A part with new tasks, and their coefficients and intercepts."""
    together = old + new
    old_at = np.searchsorted(together.labels, old.labels)
    new_at = np.searchsorted(together.labels, new.labels)
    equations = part.equations(new)
    coupling: Any = part.coupling
    if isinstance(coupling, GraphCoupling):
        V, edges = adopt_tasks(coupling, part.V, equations)
        coupling = replace(coupling, adjacency=_with_edges(coupling.adjacency, old_at, edges, new_at))
    else:
        # The penalties and covariances stay; what all tasks have in common is solved once more with the new ones.
        joined = part.equations(together)
        V = coupling.inverse(joined).unknowns(joined.b)[new_at]
    W, c = part.coefficients(equations, V)
    merged = _merged(together.n_tasks, (old_at, part.V), (new_at, V))
    shares = part.own_shares
    if shares is not None:
        shares = _merged(together.n_tasks, (old_at, shares), (new_at, np.full(len(new_at), part.share)))
    return replace(part, coupling=coupling, V=merged, own_shares=shares), W, c


def _part_of(part: Part, kept: NDArray[np.bool_]) -> Part:
    """A part with some of its tasks."""
    coupling: Any = part.coupling
    if isinstance(coupling, GraphCoupling):
        coupling = replace(coupling, adjacency=sparse.csr_array(coupling.adjacency[kept][:, kept]))
    shares = None if part.own_shares is None else part.own_shares[kept]
    return replace(part, coupling=coupling, V=part.V[kept], own_shares=shares)


def _merged(T: int, *parts: tuple[Positions, NDArray[Any]]) -> NDArray[Any]:
    whole = np.empty((T, *parts[0][1].shape[1:]))
    for at, values in parts:
        whole[at] = values
    return whole


def _with_edges(A: sparse.csr_array, old_at: Positions, edges: Array, new_at: Positions) -> sparse.csr_array:
    """The adjacency of old and new tasks together."""
    T = len(old_at) + len(new_at)
    old = sparse.coo_array(A)
    i, j = np.nonzero(edges)
    here, there = new_at[i], old_at[j]
    row = np.concatenate([old_at[old.coords[0]], here, there])
    column = np.concatenate([old_at[old.coords[1]], there, here])
    weight = np.concatenate([old.data, edges[i, j], edges[i, j]])
    return sparse.csr_array((weight, (row, column)), shape=(T, T))
