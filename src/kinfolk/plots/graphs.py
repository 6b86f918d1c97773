"""Task graphs and embeddings in the plane."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from kinfolk.methods.structures import TaskGraph, heaviest_edges
from kinfolk.plots import canvas
from kinfolk.plots.canvas import Axes
from kinfolk.plots.labels import Names, write_names
from kinfolk.plots.layouts import Placed, layout
from kinfolk.rows.gram import TINY, Array
from kinfolk.words import counted

NAMED = 60  # tasks up to which all names are written
REMARK = "remark"  # what lines about the picture are known by
NAMES = 40  # names among more tasks than that
EDGES_PER_TASK, FEW_EDGES = 6, 300  # drawn at most, the heaviest: so many per task, or so many in all if that is more


def plot_graph(
    graph: TaskGraph,
    *,
    coordinates: ArrayLike | Placed | None = None,
    groups: ArrayLike | None = None,
    labels: bool | None = None,
    highlight: Sequence[Any] = (),
    outliers: str = "loop",
    ax: Axes | None = None,
    random_state: int = 0,
) -> Axes:
    """Draw a task graph: edge width is weight, colour is community, edges between communities are dashed.

    Among many tasks the lightest edges are left out and only the best connected tasks are named; the picture says how
    many edges it shows.

    Parameters
    ----------
    coordinates : positions (T, 2), or what `embed` returns; by default tasks that pull on each other are neighbours
    groups : a number per task for the colours, below 0 for outliers; by default the communities of the graph
    labels : True writes all task names, False none; by default all of up to 60 tasks, and of more those of up to 40
        that have room
    highlight : tasks to mark with a dark ring, always named
    outliers : "loop" (a self-loop, as in the paper) or "ring" (dashed, around)
    ax : axes to draw on; by default new ones
    """
    if outliers not in ("ring", "loop"):
        raise ValueError(f'outliers={outliers!r}: use "ring" or "loop"')
    if coordinates is None:
        coordinates = layout(graph, random_state=random_state)
    points = _coordinates(coordinates, len(graph.labels))
    ax = canvas.new_axes(ax)
    group = graph.groups() if groups is None else canvas.read_groups(groups, len(points))
    marked = _positions(graph.labels, highlight)
    canvas.without_ticks(ax, points)
    radius = _draw_marks(ax, points, group, marked, loop=outliers == "loop")
    shown = _draw_edges(ax, graph, points, group)
    if labels is not False:
        order = list(dict.fromkeys([*marked, *_most_telling(graph.degree, group)]))
        few = labels is True or len(order) <= NAMED
        names = _names(ax, graph.labels, group)
        kept = order if labels is True else marked
        most = order if few else order[:NAMES]
        written = write_names(ax, names, points, radius, most, away_from=shown, keep=kept, near=not few)
        if written < len(order):
            _remark(ax, f"{written:,} of {counted(len(order), 'name')}")
    return ax


def plot_embedding(
    embedding: Placed | ArrayLike,
    *,
    names: Sequence[Any] | None = None,
    groups: ArrayLike | None = None,
    labels: bool | None = None,
    highlight: Sequence[Any] = (),
    ax: Axes | None = None,
) -> Axes:
    """Draw the points of `embed` and the stress: how far to trust their distances.

    Parameters
    ----------
    names : task names, in the order of the points; by default 0, 1, ...
    groups : a number per task for the colours, below 0 for outliers; by default one colour
    labels, highlight, ax : as in `plot_graph`
    """
    T = len(getattr(embedding, "coordinates", embedding))  # type: ignore[arg-type]
    alone = TaskGraph(sparse.csr_array((T, T)), np.asarray(names if names is not None else np.arange(T)))
    group = np.zeros(T, np.intp) if groups is None else groups
    ax = plot_graph(alone, coordinates=embedding, groups=group, labels=labels, highlight=highlight, ax=ax)
    stress = getattr(embedding, "stress", None)
    if stress is not None:
        _remark(ax, f"stress {stress:.2f}")
    return ax


def _coordinates(given: Any, T: int) -> Array:
    points = np.asarray(getattr(given, "coordinates", given), dtype=np.float64)
    if points.shape != (T, 2):
        raise ValueError(
            f"coordinates of shape {points.shape} for {T} tasks: give ({T}, 2). Those of embed(..., dimensions=3) "
            "can be drawn by any library that draws points in space"
        )
    return points


def _positions(labels: NDArray[Any], wanted: Sequence[Any]) -> list[int]:
    place = {label: t for t, label in enumerate(labels.tolist())}
    for label in wanted:
        if label not in place:
            raise ValueError(
                f"highlight names {label!r}, which is no task ({len(place)} tasks: {next(iter(place))!r}, ...)"
            )
    return [place[label] for label in wanted]


def _draw_marks(ax: Axes, points: Array, group: NDArray[np.intp], marked: list[int], *, loop: bool) -> Array:
    """One mark per task, rings or loops for outliers; returns the radius of every mark with its ring, in points."""
    width, height = canvas.extent_in_points(ax)
    size = float(np.clip(0.05 * min(width, height) ** 2 / max(len(points), 1), 14, 380))
    colours = np.array(canvas.group_colours(group))
    shapes = np.array([canvas.group_marker(g) for g in group])
    x, y = points.T
    rim: Any = {"edgecolors": "white", "linewidths": 0.8, "zorder": 3}
    for shape in np.unique(shapes).tolist():
        here = shapes == shape
        ax.scatter(x[here], y[here], s=size, c=colours[here].tolist(), marker=shape, **rim)
    ring: Any = {"marker": canvas.loop_marker(), "s": 9 * size} if loop else {"s": 2.4 * size, "linestyles": "--"}
    if (group < 0).any():
        ax.scatter(x[group < 0], y[group < 0], fc="none", edgecolors="#707070", linewidths=1.0, zorder=2, **ring)
    if marked:
        ax.scatter(x[marked], y[marked], fc="none", edgecolors="black", s=1.7 * size, linewidths=1.6, zorder=2.5)
    radius = np.full(len(points), np.sqrt(size) / 2)
    radius[group < 0] *= 1.5
    radius[marked] *= 1.4
    return radius


def _most_telling(degree: Array, group: NDArray[np.intp]) -> list[int]:
    """Outliers, then the best connected task of every group, the second best of every group, ..."""
    order = np.lexsort((-degree, group))
    first = np.concatenate([[0], np.flatnonzero(np.diff(group[order])) + 1])
    turn = np.empty(len(order), np.intp)
    turn[order] = np.arange(len(order)) - np.repeat(first, np.diff([*first, len(order)]))
    return np.lexsort((-degree, np.where(group < 0, -1, turn))).tolist()


def _draw_edges(ax: Axes, graph: TaskGraph, points: Array, group: NDArray[np.intp]) -> sparse.csr_array:
    """The heaviest edges, light ones faint, those between groups dashed; returns what was drawn."""
    edges = graph.adjacency.nnz // 2
    most = max(FEW_EDGES, EDGES_PER_TASK * len(points))
    # The heaviest last, so that they are drawn over the others.
    i, j, weight = (part[::-1] for part in heaviest_edges(graph.adjacency, most))
    share = weight / max(weight.max(initial=0.0), TINY)
    # Thin and faint where many lines meet on little room.
    thin = np.clip(min(canvas.extent_in_points(ax)) / 450 * 12 / np.sqrt(max(len(weight), 1)), 0.25, 1.0)
    for dashed in (False, True):
        here = (group[i] != group[j]) == dashed
        if here.any():
            lines = np.stack([points[i[here]], points[j[here]]], axis=1)
            opacity = (0.2 + 0.5 * share[here]) * (0.8 if dashed else 1.0) * (0.5 + thin / 2)
            widths = (0.3 + 3.0 * share[here]) * thin
            canvas.draw_lines(ax, lines, widths=widths, colours=canvas.rgba("#303030", opacity), dashed=dashed)
    if edges > most:
        _remark(ax, f"the {most:,} heaviest of {edges:,} edges")
    drawn = sparse.coo_array((weight, (i, j)), shape=graph.adjacency.shape)
    return sparse.csr_array(drawn + drawn.T)


def _names(ax: Axes, labels: NDArray[Any], group: NDArray[np.intp]) -> Names:
    """Smaller letters and shorter names for many tasks and small axes."""
    width = min(canvas.extent_in_points(ax))
    size = (8.0 if len(labels) <= 30 else 7.0) * float(np.clip(np.sqrt(width / 400), 0.65, 1.0))
    longest = int(np.clip(width / (2.5 * size), 8, canvas.LONGEST))
    return Names([canvas.short_name(label, longest) for label in labels.tolist()], canvas.group_colours(group), size)


def _remark(ax: Axes, text: str) -> None:
    """A line at the lower left, above those that stand there."""
    below = sum(written.get_gid() == REMARK for written in ax.texts)
    height = 0.01 + 10 * below / canvas.extent_in_points(ax)[1]
    ax.text(0.01, height, text, transform=ax.transAxes, fontsize=7, color="#606060", va="bottom", gid=REMARK)
