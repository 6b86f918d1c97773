"""Where tasks stand on the page: coordinates in the unit square."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kinfolk.methods.structures import TaskGraph
from kinfolk.plots.layouts import layout, separated
from kinfolk.rows.gram import TINY, Array

SPRINGS = 250  # tasks up to which springs are worth their T^2 forces per round
FILLING = 6  # tasks from which on the whole picture is used; fewer stand around its middle
GOLDEN = np.pi * (3 - np.sqrt(5))


def positions(graph: TaskGraph, groups: NDArray[np.intp]) -> Array:
    """Coordinates (T, 2): springs for few tasks, one disc per group for many; outliers at the rim, none overlapping."""
    if len(groups) <= SPRINGS:
        xy = _unit(layout(graph, random_state=0))
        apart = _unit(separated(xy, gap=0.75 / np.sqrt(max(len(groups), 1)), rounds=80))
        return 0.5 + min(1.0, len(groups) / FILLING) * (apart - 0.5)
    return _unit(discs(graph.degree, groups))


def discs(degree: Array, groups: NDArray[np.intp]) -> Array:
    """Groups as discs that do not touch, each filled along a spiral from its best connected task outwards.

    Examples
    --------
    >>> xy = discs(np.ones(40), np.repeat([0, 1], 20))
    >>> centre = xy.reshape(2, 20, 2).mean(axis=1)
    >>> bool(np.linalg.norm(centre[0] - centre[1]) > 2 * np.sqrt(20))
    True
    """
    xy = np.zeros((len(groups), 2))
    sizes = np.bincount(groups[groups >= 0])
    for g, centre in enumerate(_packed(np.sqrt(sizes) + 1.5)):
        members = np.flatnonzero(groups == g)
        members = members[np.argsort(-degree[members], kind="stable")]
        xy[members] = centre + _spiral(len(members))
    alone = np.flatnonzero(groups < 0)
    rim = np.linalg.norm(xy, axis=1).max(initial=0.0) + 4
    angle = 2 * np.pi * np.arange(len(alone)) / max(len(alone), 1)
    xy[alone] = max(rim, len(alone) / np.pi) * np.column_stack([np.cos(angle), np.sin(angle)])
    return xy


def _spiral(n: int) -> Array:
    """n points of equal density on a disc of radius sqrt(n)."""
    k = np.arange(n)
    return np.sqrt(k + 0.5)[:, None] * np.column_stack([np.cos(GOLDEN * k), np.sin(GOLDEN * k)])


def _packed(radius: Array) -> Array:
    """Centres of discs, in the order given: each at the first point of a spiral where it touches none before it."""
    centres = np.zeros((len(radius), 2))
    if len(radius) < 2:
        return centres
    step = radius.min() / 2
    spots = step * _spiral(int(8 * (radius**2).sum() / step**2))
    room = np.linalg.norm(spots, axis=1) - radius[0]
    for g in range(1, len(radius)):
        centres[g] = spots[np.argmax(room >= radius[g])]
        room = np.minimum(room, np.linalg.norm(spots - centres[g], axis=1) - radius[g])
    return centres


def _unit(xy: Array) -> Array:
    low, high = xy.min(axis=0), xy.max(axis=0)
    extent = high - low
    return np.where(extent > TINY, (xy - low) / np.maximum(extent, TINY), 0.5)
