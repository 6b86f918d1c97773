"""Heat maps ordered by community: of relations between tasks, and of coefficients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinfolk.methods.model import Fitted, as_model
from kinfolk.methods.structures import Structure, TaskCovariance
from kinfolk.plots import canvas
from kinfolk.plots.canvas import Axes
from kinfolk.rows.gram import Array


def plot_matrix(
    structure: Structure | ArrayLike,
    *,
    show: str | None = None,
    groups: ArrayLike | None = None,
    order: bool = True,
    names: Sequence[Any] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw relations between tasks as a heat map, communities together.

    Colours end at the largest value off the diagonal: a dominant diagonal would hide all else, and is drawn in the last
    colour. White is zero; blue is positive, red negative. If task names do not fit, communities are named instead.

    Parameters
    ----------
    structure : what an estimator has as `structure_`, or a square matrix
    show : "adjacency" of a graph; "covariance" (default) or "correlation"; "precision" (default),
        "partial_correlation" or "covariance" of a precision
    groups : a number per task to order by, below 0 for outliers; by default the communities of the structure
    order : False keeps the order of the tasks
    names : task names for a plain matrix; by default 0, 1, ...
    """
    M, label = _matrix(structure, show)
    T = len(M)
    shown: Any = structure
    if not hasattr(structure, "groups"):
        labels = np.arange(T) if names is None else np.asarray(names)
        shown = TaskCovariance((M + M.T) / 2, labels)
    group = shown.groups() if groups is None else canvas.read_groups(groups, T)
    rows = canvas.group_order(group)
    if not order:
        rows = np.arange(T)
        group = np.zeros(T, np.intp)
    ax = canvas.new_axes(ax, 7.4, 6.6, layout="compressed")
    off_diagonal = np.abs(M - np.diag(np.diagonal(M)))
    _heat_map(ax, M[np.ix_(rows, rows)], label, _limit(off_diagonal, M))
    texts = [canvas.short_name(name) for name in shown.labels[rows].tolist()]
    for axis in ("x", "y"):
        _name_side(ax, axis, texts, group[rows])
    return ax


def plot_coefficients(
    fitted: Fitted, *, relative: bool = False, groups: ArrayLike | None = None, ax: Axes | None = None
) -> Axes:
    """Draw the coefficients of a fitted model, one row per task, communities together.

    Colours end at the largest coefficient of a task that is no outlier.

    Parameters
    ----------
    relative : every column in units of its largest absolute coefficient, for features on different scales
    groups : a number per task to order by; by default the communities of its structure, if it has any
    """
    model = as_model(fitted, "plot_coefficients")
    W = model.coef
    label = "coefficient"
    if relative:
        largest = np.abs(W).max(axis=0)
        W = W / np.where(largest > 0, largest, 1.0)
        label = "coefficient, share of the feature's largest"
    T, d = W.shape
    group = np.zeros(T, np.intp)
    if groups is not None:
        group = canvas.read_groups(groups, T)
    elif model.structure is not None:
        group = model.structure.groups()
    rows = canvas.group_order(group)
    ax = canvas.new_axes(ax, float(np.clip(2.5 + 0.25 * d, 5, 12)), float(np.clip(1.5 + 0.2 * T, 4, 9)))
    _heat_map(ax, W[rows], label, _limit(W[group >= 0], W), aspect="auto")
    _name_side(ax, "y", [canvas.short_name(name) for name in model.labels[rows].tolist()], group[rows])
    names = (model.gram.feature_names if model.gram is not None else None) or range(d)
    _name_side(ax, "x", [canvas.short_name(name) for name in names], np.zeros(d, np.intp), what="feature")
    return ax


def _matrix(structure: Any, show: str | None) -> tuple[Array, str]:
    """The matrix to draw and what it is called."""
    kinds = getattr(structure, "matrices", ())
    if kinds and show is not None and show not in kinds:
        raise ValueError(f"show={show!r}: a {type(structure).__name__} has {', '.join(map(repr, kinds))}")
    chosen = show or (kinds[0] if kinds else "")
    M = getattr(structure, chosen) if kinds else structure
    M = np.asarray(M.toarray() if hasattr(M, "toarray") else M)
    if M.ndim != 2 or M.shape[0] != M.shape[1] or M.dtype.kind not in "fiub":
        raise ValueError(
            f"plot_matrix got {type(structure).__name__} of shape {M.shape}: give a TaskGraph, TaskCovariance, "
            "TaskPrecision or a square matrix (a TaskTree has plot_tree)"
        )
    label = "edge weight" if kinds and chosen == "adjacency" else chosen.replace("_", " ")
    return M.astype(np.float64), label


def _limit(*candidates: Array) -> float:
    """Where the colours end: the largest size in the first array that is not zero."""
    return next((largest for M in candidates if (largest := float(np.abs(M).max(initial=0.0)))), 1.0)


def _heat_map(ax: Axes, M: Array, label: str, limit: float, aspect: Any = "equal") -> None:
    """White at zero; one colour if nothing is negative, else two."""
    least = float(M.min(initial=0.0))
    signed = least < 0
    image = ax.imshow(
        M,
        cmap="RdBu" if signed else "Blues",
        vmin=-limit if signed else 0.0,
        vmax=limit,
        aspect=aspect,
        interpolation="nearest",
    )
    beyond = limit * (1 + 1e-9)
    extend = "neither"
    if least < -beyond:
        extend = "both"
    elif M.max(initial=0.0) > beyond:
        extend = "max"
    bar = ax.figure.colorbar(image, ax=ax, shrink=0.7, aspect=25, pad=0.02, extend=extend)
    bar.set_label(label)
    bar.outline.set_visible(False)
    ax.tick_params(length=0)
    for spine in ax.spines.values():
        spine.set_color("#C0C0C0")


def _name_side(ax: Axes, axis: str, texts: list[str], group: NDArray[np.intp], what: str = "task") -> None:
    """Names along one side if they fit, else the groups or every few features; lines between groups."""
    blocks = canvas.blocks(group)
    for start, _ in blocks[1:]:
        draw = ax.axvline if axis == "x" else ax.axhline
        draw(start - 0.5, color="#404040", linewidth=0.6 if len(blocks) < 13 else 0.25)
    width, height = canvas.extent_in_points(ax)
    room = (width if axis == "x" else height) / max(len(texts), 1)
    size = min(0.85 * room, 8.0)
    turn = 90 if axis == "x" and max(map(len, texts), default=0) * 0.6 * size > 0.9 * room else 0
    if size >= canvas.SMALLEST:
        canvas.tick_names(ax, axis, range(len(texts)), texts, size=size, rotation=turn)
    elif what == "task":
        _name_groups(ax, axis, group, room)
    else:
        step = int(np.ceil(7.0 / (0.85 * room)))
        canvas.tick_names(ax, axis, range(0, len(texts), step), texts[::step], size=6, rotation=turn)


def _name_groups(ax: Axes, axis: str, group: NDArray[np.intp], room: float) -> None:
    """Every group with its size at the middle of its block, where the block has room; `room` is points per row."""
    blocks = canvas.blocks(group)
    named = [(a, b) for a, b in blocks if (b - a) * room >= 8.0 and len(blocks) > 1]
    names = [f"{'outliers' if group[a] < 0 else f'group {group[a] + 1}'} ({b - a})" for a, b in named]
    middle = [(a + b - 1) / 2 for a, b in named]
    canvas.tick_names(ax, axis, middle, names, size=7.5, rotation=90 if axis == "x" else 0)
    (ax.set_xlabel if axis == "x" else ax.set_ylabel)(f"{len(group)} tasks")
