"""Where to write the names of marks so that no two overlap: greedy, the most important first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from kinfolk.plots import canvas
from kinfolk.plots.canvas import Axes
from kinfolk.rows.gram import TINY, Array

# Right, left, above, below, then the corners: unit steps from the mark.
DIRECTIONS = np.array([[1, 0], [-1, 0], [0, 1], [0, -1], [1, 1], [-1, 1], [1, -1], [-1, -1]], dtype=np.float64)


class Names(NamedTuple):
    """What to write: one text and colour of its mark per task, and the size of the letters."""

    texts: list[str]
    colours: list[str]
    size: float


def write_names(
    ax: Axes,
    names: Names,
    points: Array,
    radius: Array,
    order: Sequence[int],
    *,
    away_from: sparse.csr_array,
    keep: Sequence[int],
    near: bool = False,
) -> int:
    """Names inside their marks if all fit there, else beside them where there is room; returns how many were written.

    Parameters
    ----------
    points, radius : the marks, in the units of the axes, and the radius of each in points
    away_from : adjacency of what was drawn: names stand away from the lines
    order, keep, near : see `place_names`
    """
    sizes = canvas.text_sizes(ax, names.texts, names.size)
    dots = ax.figure.dpi / 72
    marks = canvas.in_pixels(ax, points)
    if (sizes[order] <= 1.6 * radius.min() * dots).all():
        places = {t: marks[t] for t in order}
        style: Any = [{"color": canvas.text_on(names.colours[t]), "weight": "bold"} for t in order]
    else:
        frame = np.array(ax.get_window_extent().extents, dtype=np.float64).reshape(2, 2) + np.array([[3], [-3]])
        degree = np.asarray(away_from.sum(axis=1)).ravel()[:, None]
        lines = away_from @ marks / np.maximum(degree, TINY) - np.where(degree > 0, marks, 0.0)
        places = place_names(marks, radius * dots, sizes + 2, order, frame, away_from=lines, keep=keep, near=near)
        style = [{"color": canvas.INK, "path_effects": canvas.halo()}] * len(places)
    centred: Any = {"textcoords": "offset points", "ha": "center", "va": "center", "zorder": 10, "parse_math": False}
    for (t, centre), how in zip(places.items(), style, strict=True):
        offset = tuple((centre - marks[t]) / dots)
        ax.annotate(names.texts[t], tuple(points[t]), xytext=offset, fontsize=names.size, **centred, **how)
    return len(places)


def place_names(
    marks: Array,
    radius: Array,
    sizes: Array,
    order: Sequence[int],
    frame: Array,
    *,
    away_from: Array,
    keep: Sequence[int] = (),
    near: bool = False,
) -> dict[int, Array]:
    """Centres of the names of `order`, in pixels; a name without a free place is left out unless it is in `keep`.

    Parameters
    ----------
    marks, radius : centres (T, 2) and radii (T,) of the marks, which names should not cover
    sizes : width and height of the names (T, 2)
    order : marks to name, the most important first
    frame : lower left and upper right corner of where names may stand
    away_from : direction (T, 2) in which the lines at a mark go; names go the other way
    keep : marks whose names are written at the least bad place if there is no free one
    near : only places next to the mark, where many marks would leave doubt
    """
    half = 0.9 * radius[:, None]
    taken = np.hstack([marks - half, marks + half])
    kept = set(keep)
    centre_of = {}
    for t in order:
        centres = _candidates(marks[t], radius[t], sizes[t], away_from[t], gaps=(2, 6) if near else (2, 8, 16))
        boxes = np.hstack([centres - sizes[t] / 2, centres + sizes[t] / 2])
        cost = _overlap(boxes, taken) + 1e3 * _outside(boxes, frame)
        best = int(np.argmin(cost))
        if cost[best] <= 0 or t in kept:
            centre_of[t] = centres[best]
            taken = np.vstack([taken, boxes[best]])
    return centre_of


def _candidates(mark: Array, radius: float, size: Array, away_from: Array, gaps: tuple[float, ...]) -> Array:
    """Centres around a mark, near ones first, and among these the ones away from the lines."""
    order = np.argsort(DIRECTIONS @ away_from / np.linalg.norm(DIRECTIONS, axis=1), kind="stable")
    steps = DIRECTIONS[order]
    corner = np.where(np.abs(steps).sum(axis=1, keepdims=True) > 1, 0.7, 1.0)
    return np.vstack([mark + steps * (corner * (radius + gap) + size / 2) for gap in gaps])


def _overlap(boxes: Array, taken: Array) -> Array:
    """Area that every box shares with those taken."""
    low = np.maximum(boxes[:, None, :2], taken[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], taken[None, :, 2:])
    return np.maximum(high - low, 0.0).prod(axis=2).sum(axis=1)


def _outside(boxes: Array, frame: Array) -> Array:
    """How far every box leaves the frame."""
    return np.maximum(frame[0] - boxes[:, :2], 0).sum(axis=1) + np.maximum(boxes[:, 2:] - frame[1], 0).sum(axis=1)
