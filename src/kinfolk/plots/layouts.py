"""Where to draw tasks, from the graph alone."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from scipy.spatial.distance import cdist

from kinfolk.methods.structures import TaskGraph
from kinfolk.rows.gram import TINY, Array


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
