"""Models that change after the fit: tasks that come and tasks that go, as functions from Model to Model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.methods.gamtl.adopt import adopt_tasks
from kinfolk.methods.gamtl.coupling import GraphCoupling
from kinfolk.methods.gamtl.shown import shown_graph
from kinfolk.methods.late_graph import LateGraph
from kinfolk.methods.model import Model, Part
from kinfolk.methods.parts import LastRows
from kinfolk.methods.search_report import ByTask
from kinfolk.methods.structures import TaskGraph
from kinfolk.rows.gram import Array, GramStats
from kinfolk.rows.table import task_codes

Positions = NDArray[np.intp]


def adopted(model: Model, new: GramStats, last: Sequence[LastRows] | None = None) -> Model:
    """The model with new tasks; those that are there keep their coefficients.

    Every part takes the new tasks in: along a graph with the edges and weights that are best for them, all else fixed;
    without a graph by what all tasks have in common, which a few more of them hardly move. `last` has the last rows of
    the new tasks for every part; by default they are all rows.
    """
    gram = model.statistics("adopt") + new
    new_at = np.searchsorted(gram.labels, new.labels)
    own = last or [_all_rows(new)] * len(model.parts)
    parts = [_part_with(part, model.known, new, rows) for part, rows in zip(model.parts, own, strict=True)]
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
        parts=tuple(_part_of(part, kept_seen) for part in model.parts),
        held_out=None if model.held_out is None else model.held_out.of(kept),
        report=None if model.report is None else model.report.taken(kept),
        extras={k: v.taken(kept) if isinstance(v, ByTask) else v for k, v in model.extras.items()},
        gram=gram.select(kept),
        stream=None if model.stream is None else model.stream.select(kept),
        columns=None if model.columns is None else model.columns.with_labels(model.labels[kept]),
        trunk=None if model.trunk is None else model.trunk.taken(kept),
        bound=None if model.bound is None else model.bound.changed(lambda lines: dropped(lines, tasks)),
        beyond=None if model.beyond is None else dropped(model.beyond, tasks),
    )
    return with_shown_graph(smaller)


def solved_anew(model: Model, tasks: Positions) -> Model:
    """The model with some tasks solved anew from their statistics, the others fixed.

    Statistics do not say which rows were last: what is known of these stays.
    """
    new = model.statistics("solving tasks anew").select(tasks)
    last = [_all_rows(new) for _ in model.parts]
    known = model.seen[tasks]
    place = np.cumsum(model.seen)[tasks[known]] - 1
    for part, rows in zip(model.parts, last, strict=True):
        if part.last is not None:
            for values, kept in zip(rows, part.last, strict=True):
                values[known] = kept[place]
    beyond = None if model.beyond is None else solved_anew(model.beyond, tasks)
    bound = None if model.bound is None else model.bound.changed(lambda lines: solved_anew(lines, tasks))
    return replace(adopted(dropped(model, tasks), new, last), beyond=beyond, bound=bound)


def _all_rows(gram: GramStats) -> LastRows:
    """All rows of some tasks as their last ones."""
    return LastRows(gram.n.copy(), np.zeros_like(gram.x_mean), np.zeros_like(gram.y_mean))


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
        graph = LateGraph(partial(shown_graph, model.known, coef, intercept, coupling.recipe), graph.labels)
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


def _part_with(part: Part, old: GramStats, new: GramStats, rows: LastRows) -> tuple[Part, Array, Array]:
    """A part with new tasks, whose last rows are `rows`, and their coefficients and intercepts."""
    labels = np.union1d(old.labels, new.labels)
    old_at = np.searchsorted(labels, old.labels)
    new_at = np.searchsorted(labels, new.labels)
    last = part.last
    part = replace(part, last=None)
    equations = part.equations(new)
    coupling: Any = part.coupling
    if isinstance(coupling, GraphCoupling):
        V, edges = adopt_tasks(coupling, part.V, equations)
        coupling = replace(coupling, adjacency=_with_edges(coupling.adjacency, old_at, edges, new_at))
    else:
        if getattr(coupling, "weights", None) is not None:  # nobody knows yet how noisy a new task is
            ones = np.ones(len(new_at))
            coupling = replace(coupling, weights=_merged(len(labels), (old_at, coupling.weights), (new_at, ones)))
        # The penalties and covariances stay; what all tasks have in common is solved once more with the new ones.
        joined = part.equations(old + new)
        V = coupling.inverse(joined).unknowns(joined.b)[new_at]
    W, c = part.coefficients(equations, V)
    merged = _merged(len(labels), (old_at, part.V), (new_at, V))
    shares = part.own_shares
    if shares is not None:
        shares = _merged(len(labels), (old_at, shares), (new_at, np.full(len(new_at), part.share)))
    if last is not None:
        last = LastRows(*(_merged(len(labels), (old_at, a), (new_at, b)) for a, b in zip(last, rows, strict=True)))
    return replace(part, coupling=coupling, V=merged, own_shares=shares, last=last), W, c + rows.y


def _part_of(part: Part, kept: NDArray[np.bool_]) -> Part:
    """A part with some of its tasks."""
    coupling: Any = part.coupling
    if isinstance(coupling, GraphCoupling):
        coupling = replace(coupling, adjacency=sparse.csr_array(coupling.adjacency[kept][:, kept]))
    elif getattr(coupling, "weights", None) is not None:
        coupling = replace(coupling, weights=coupling.weights[kept])
    shares = None if part.own_shares is None else part.own_shares[kept]
    last = None if part.last is None else LastRows(*(values[kept] for values in part.last))
    return replace(part, coupling=coupling, V=part.V[kept], own_shares=shares, last=last)


def _put(values: NDArray[Any], at: Positions, new: Any) -> NDArray[Any]:
    """A copy with new values at some positions."""
    changed = values.copy()
    changed[at] = new
    return changed


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
