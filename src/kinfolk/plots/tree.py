"""Task trees: the root on the left, tasks with their names on the right."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kinfolk.methods.trees import TaskTree
from kinfolk.plots import canvas
from kinfolk.plots.canvas import Axes

NAME_ROOM = 8.5  # points that the name of a group takes


def plot_tree(tree: TaskTree, *, ax: Axes | None = None) -> Axes:
    """Draw a task tree: tasks on the right, joined at the level where their groups meet, the root on the left.

    Colours are the groups of the coarsest level with more than one. If task names do not fit the axes, groups are named
    by their first task and size, at the finest level that fits and as far as there is room. New axes are as tall as the
    names need.
    """
    T = len(tree.labels)
    top = len(tree)
    ax = canvas.new_axes(ax, 7.0, float(np.clip(1.0 + 0.14 * T, 3.0, 40.0)))
    lines, owner, order = tree.branches()
    colours = np.array(canvas.group_colours(tree.groups()))
    shades = np.where(owner < 0, canvas.INK, colours[np.maximum(owner, 0)])
    width = float(np.clip(canvas.extent_in_points(ax)[1] / T / 2, 0.4, 1.2))
    canvas.draw_lines(ax, lines, widths=width, colours=shades.tolist())
    ax.set_xlim(top + 0.3, -0.02 * top)
    ax.set_ylim(T - 0.4, -0.6)
    ax.set_xticks(range(1, top + 1))
    ax.set_xlabel("level at which groups meet")
    ax.yaxis.tick_right()
    ax.tick_params(axis="y", length=0)
    canvas.bare(ax, "top", "left", "right")
    _name_leaves(ax, tree, order)
    return ax


def _name_leaves(ax: Axes, tree: TaskTree, order: NDArray[np.intp]) -> None:
    """All tasks if they fit, else the groups of the finest level that does."""
    room = canvas.extent_in_points(ax)[1] / len(order)
    size = min(0.85 * room, 9.0)
    if size >= canvas.SMALLEST:
        texts = [canvas.short_name(label) for label in tree.labels[order].tolist()]
        canvas.tick_names(ax, "y", range(len(order)), texts, size=size)
        return
    fitting = [h for h, level in enumerate(tree.levels) if (level.max() + 1) * NAME_ROOM <= room * len(order)]
    level = fitting[0] if fitting else len(tree) - 1
    blocks = _with_room(canvas.blocks(tree.levels[level][order]), NAME_ROOM / room)
    names = [_group_name(tree, order[a:b]) for a, b in blocks]
    canvas.tick_names(ax, "y", [(a + b - 1) / 2 for a, b in blocks], names, size=7)
    ax.yaxis.set_label_position("right")
    ax.set_ylabel(f"{len(order)} tasks; groups of level {level + 1}")


def _with_room(blocks: list[tuple[int, int]], apart: float) -> list[tuple[int, int]]:
    """The blocks whose middles stand so far apart, large ones first."""
    kept: list[tuple[int, int]] = []
    for a, b in sorted(blocks, key=lambda block: block[0] - block[1]):
        if all(abs(a + b - c - d) / 2 >= apart for c, d in kept):
            kept.append((a, b))
    return sorted(kept)


def _group_name(tree: TaskTree, members: NDArray[np.intp]) -> str:
    first = canvas.short_name(tree.labels[members[:1]].tolist()[0])
    return first if len(members) == 1 else f"{first} + {len(members) - 1}"
