"""Pictures with matplotlib: axes in, axes out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from kinfolk.gram import TINY, Array
from kinfolk.structures import TaskGraph
from kinfolk.trees import TaskTree

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colours: told apart by colour-blind readers. Grey is kept for outliers.
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442")
OUTLIER = "#9A9A9A"


def plot_graph(
    graph: TaskGraph,
    *,
    coordinates: Array | None = None,
    labels: bool | None = None,
    ax: Axes | None = None,
    random_state: int = 0,
) -> Axes:
    """Draw a task graph: edge width is weight, colour is community, outliers are grey with a dashed ring.

    Parameters
    ----------
    coordinates : positions (T, 2); by default tasks that pull on each other lie near each other
    labels : write task names; by default up to 60 tasks
    """
    ax = ax if ax is not None else _new_axes()
    xy = layout(graph, random_state=random_state) if coordinates is None else np.asarray(coordinates, dtype=float)
    groups = graph.groups()
    _draw_edges(ax, graph, xy)
    colours = [OUTLIER if g < 0 else PALETTE[g % len(PALETTE)] for g in groups]
    size = float(np.clip(12_000 / max(len(xy), 1), 20, 420))
    x, y = xy.T
    ax.scatter(x, y, s=size, c=colours, edgecolors="white", linewidths=1.0, zorder=3)
    alone = groups < 0
    ax.scatter(x[alone], y[alone], s=2.6 * size, facecolors="none", edgecolors=OUTLIER, linestyles="--", zorder=2)
    if labels if labels is not None else len(xy) <= 60:
        for (x, y), label in zip(xy, graph.labels.tolist(), strict=True):
            ax.annotate(
                str(label), (x, y), ha="center", va="center", fontsize=8, color="white", weight="bold", zorder=4
            )
    ax.set_axis_off()
    ax.set_aspect("equal")
    ax.margins(0.08)
    return ax


def plot_tree(tree: TaskTree, *, ax: Axes | None = None) -> Axes:
    """Draw a task tree: tasks at the bottom, joined at the height of the level where their groups meet."""
    from scipy.cluster.hierarchy import dendrogram

    ax = ax if ax is not None else _new_axes()
    labels = [str(label) for label in tree.labels]
    if len(labels) < 2:
        ax.text(0.5, 0.5, "".join(labels), ha="center", transform=ax.transAxes)
    else:
        size = float(np.clip(200 / len(labels), 4, 10))
        dendrogram(tree.to_linkage(), labels=labels, ax=ax, color_threshold=0, above_threshold_color=PALETTE[0])
        ax.tick_params(axis="x", labelsize=size)
    ax.set_ylabel("level")
    for side in ("top", "right", "bottom"):
        ax.spines[side].set_visible(False)
    return ax


def layout(graph: TaskGraph, *, random_state: int = 0, rounds: int = 300) -> Array:
    """Positions (T, 2) by springs along edges and repulsion between all pairs; outliers on the rim."""
    T = len(graph.labels)
    groups = graph.groups()
    rng = np.random.default_rng(random_state)
    xy = _start(groups, rng)
    A = graph.adjacency / max(graph.adjacency.max(), TINY) if graph.adjacency.nnz else graph.adjacency
    pull = np.sqrt(A.toarray())
    k = 1.6 / np.sqrt(max(T, 1))
    for step in np.linspace(0.1, 0.001, rounds):
        difference = xy[:, None, :] - xy[None, :, :]
        distance = np.maximum(np.linalg.norm(difference, axis=2), 1e-3)
        force = k**2 / distance**2 - pull * distance / k
        move = (difference / distance[:, :, None] * force[:, :, None]).sum(axis=1) - 0.6 * xy
        length = np.maximum(np.linalg.norm(move, axis=1, keepdims=True), 1e-12)
        xy = xy + move / length * np.minimum(length, step)
    return xy


def _start(groups: Any, rng: np.random.Generator) -> Array:
    """Groups around a circle, members near their group."""
    angle = 2 * np.pi * (groups + 1) / (groups.max(initial=0) + 2)
    radius = np.where(groups < 0, 1.3, 0.6)[:, None]
    return radius * np.column_stack([np.cos(angle), np.sin(angle)]) + 0.3 * rng.normal(size=(len(groups), 2))


def _draw_edges(ax: Axes, graph: TaskGraph, xy: Array) -> None:
    from matplotlib.collections import LineCollection

    upper = sparse.triu(graph.adjacency, k=1, format="coo")
    if not upper.nnz:
        return
    i, j = upper.coords
    share = upper.data / upper.data.max()
    lines = LineCollection(
        list(np.stack([xy[i], xy[j]], axis=1)), linewidths=0.3 + 2.7 * share, colors="#404040", alpha=0.35, zorder=1
    )
    ax.add_collection(lines)


def _new_axes() -> Axes:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install 'kinfolk[plots]'") from error
    return Figure(figsize=(7, 7), layout="constrained").add_subplot()
