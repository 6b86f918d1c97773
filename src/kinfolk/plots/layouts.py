"""Where to draw tasks, from the graph alone: on axes, and in the unit square of a page."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from kinfolk.methods.structures import TaskGraph
from kinfolk.rows.gram import TINY, Array

SPRINGS = 250  # tasks up to which springs are worth their T^2 forces per round
FILLING = 6  # tasks from which on the whole picture is used; fewer stand around its middle
GOLDEN = np.pi * (3 - np.sqrt(5))


class Placed(Protocol):
    """What has coordinates, such as an `Embedding`."""

    @property
    def coordinates(self) -> Array:
        """Points (T, 2)."""


def layout(graph: TaskGraph, *, random_state: int = 0) -> Array:
    """Positions (T, 2) by springs along edges and repulsion between all pairs; outliers on the rim.

    Every round costs T^2; by default there are 300, and fewer for more than 300 tasks.
    """
    T = len(graph.labels)
    rng = np.random.default_rng(random_state)
    xy = _start(graph.groups(), rng)
    A = graph.adjacency / max(graph.adjacency.max(), TINY) if graph.adjacency.nnz else graph.adjacency
    attraction = np.sqrt(A.toarray())
    k = 1.6 / np.sqrt(max(T, 1))
    for step in np.linspace(0.1, 0.001, int(np.clip(90_000 / max(T, 1), 60, 300))):
        distance = np.maximum(cdist(xy, xy), 1e-3)
        push = k**2 / distance**3 - attraction / k  # per unit of difference
        move = push.sum(axis=1, keepdims=True) * xy - push @ xy - 0.6 * xy
        length = np.maximum(np.linalg.norm(move, axis=1, keepdims=True), 1e-12)
        xy = xy + move / length * np.minimum(length, step)
    return xy


def _start(groups: Any, rng: np.random.Generator) -> Array:
    """Groups around a circle, members near their group."""
    angle = 2 * np.pi * (groups + 1) / (groups.max(initial=0) + 2)
    radius = np.where(groups < 0, 1.3, 0.6)[:, None]
    return 0.3 * rng.normal(size=(len(groups), 2)) + radius * np.column_stack([np.cos(angle), np.sin(angle)])


def separated(points: Array, *, gap: float | None = None, rounds: int = 200) -> Array:
    """The points, moved as little as it takes to keep every two at least about `gap` apart.

    By default the gap is what T marks on an even grid over the same area would have, times 0.7.

    Examples
    --------
    >>> moved = separated(np.array([[0.0, 0.0], [0.01, 0.0], [10.0, 0.0], [0.0, 10.0]]), gap=1.0)
    >>> bool(cdist(moved, moved)[0, 1] > 0.95), bool(np.abs(moved[2:] - [[10.0, 0.0], [0.0, 10.0]]).max() < 0.01)
    (True, True)
    """
    T = len(points)
    extent = np.maximum(np.ptp(points, axis=0), TINY)
    if gap is None:
        gap = 0.7 * float(np.prod(extent)) ** (1 / points.shape[1]) / max(T, 1) ** (1 / points.shape[1])
    # Points in one place need directions to part in.
    moved = points + 1e-3 * gap * np.random.default_rng(0).normal(size=points.shape)
    for _ in range(rounds):
        difference = moved[:, None] - moved[None]
        distance = np.maximum(np.linalg.norm(difference, axis=2), TINY)
        np.fill_diagonal(distance, np.inf)
        overlap = np.maximum(gap - distance, 0.0)
        if overlap.max(initial=0.0) < 0.02 * gap:
            break
        # Both ends of a pair give way by half of what is missing.
        moved = moved + 0.5 * np.einsum("ij,ijk->ik", overlap / distance, difference)
    return moved


def positions(graph: TaskGraph, groups: NDArray[np.intp]) -> Array:
    """Coordinates (T, 2): springs for few tasks, one disc per group for many; outliers at the rim, none overlapping."""
    if len(groups) <= SPRINGS:
        xy = _in_unit_square(layout(graph, random_state=0))
        apart = _in_unit_square(separated(xy, gap=0.75 / np.sqrt(max(len(groups), 1)), rounds=80))
        return 0.5 + min(1.0, len(groups) / FILLING) * (apart - 0.5)
    return _in_unit_square(discs(graph.degree, groups))


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


def _in_unit_square(xy: Array) -> Array:
    low, high = xy.min(axis=0), xy.max(axis=0)
    extent = high - low
    return np.where(extent > TINY, (xy - low) / np.maximum(extent, TINY), 0.5)
