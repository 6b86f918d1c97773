"""Heat maps ordered by community: of relations between tasks, and of coefficients."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinfolk.methods.structures import TaskCovariance, TaskGraph, TaskPrecision
from kinfolk.plots import canvas
from kinfolk.rows.gram import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SMALLEST = 5.0  # points: names smaller than this are not written


def plot_matrix(
    structure: TaskGraph | TaskCovariance | TaskPrecision | ArrayLike,
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
    labels = np.asarray(getattr(structure, "labels", names if names is not None else np.arange(T)))
    group = _communities(structure, M) if groups is None else canvas.read_groups(groups, T)
    rows = np.lexsort((np.arange(T), np.where(group < 0, T, group))) if order else np.arange(T)
    ax = ax if ax is not None else canvas.new_axes(7.4, 6.6, layout="compressed")
    off_diagonal = np.abs(M - np.diag(np.diagonal(M))).max(initial=0.0)
    _heat_map(ax, M[np.ix_(rows, rows)], label, off_diagonal or np.abs(M).max(initial=0.0) or 1.0)
    texts = [canvas.short(name) for name in labels[rows].tolist()]
    parted = group[rows] if order else np.zeros(T, np.intp)
    for axis in ("x", "y"):
        _name_side(ax, axis, texts, parted)
    return ax


def plot_coefficients(
    model: Any, *, relative: bool = False, groups: ArrayLike | None = None, ax: Axes | None = None
) -> Axes:
    """Draw the coefficients of a fitted model, one row per task, communities together.

    Colours end at the largest coefficient of a task that is no outlier.

    Parameters
    ----------
    relative : every column in units of its largest absolute coefficient, for features on different scales
    groups : a number per task to order by; by default the communities of `model.structure_`, if it has any
    """
    if not hasattr(model, "coef_"):
        raise ValueError(f"{type(model).__name__} is not fitted: call fit(X, y) first")
    W = np.asarray(model.coef_, dtype=np.float64)
    T, d = W.shape
    scale = np.abs(W).max(axis=0) if relative else np.ones(d)
    group = _communities(model.structure_, None, T) if groups is None else canvas.read_groups(groups, T)
    rows = np.lexsort((np.arange(T), np.where(group < 0, T, group)))
    ax = (
        ax
        if ax is not None
        else canvas.new_axes(float(np.clip(2.5 + 0.25 * d, 5, 12)), float(np.clip(1.5 + 0.2 * T, 4, 9)))
    )
    shown = (W / np.where(scale > 0, scale, 1.0))[rows]
    label = "coefficient, share of the feature's largest" if relative else "coefficient"
    kin = shown[group[rows] >= 0]
    _heat_map(ax, shown, label, np.abs(kin).max(initial=0.0) or np.abs(shown).max(initial=0.0) or 1.0, aspect="auto")
    _name_side(ax, "y", [canvas.short(name) for name in model.tasks_[rows].tolist()], group[rows])
    names = model.gram_.feature_names or range(d)
    _name_side(ax, "x", [canvas.short(name) for name in names], np.zeros(d, np.intp), what="feature")
    return ax


def _matrix(structure: Any, show: str | None) -> tuple[Array, str]:
    """The matrix to draw and what it is called."""
    known = getattr(structure, "matrices", ())
    if not known:
        M = np.asarray(structure.toarray() if hasattr(structure, "toarray") else structure)
        if M.ndim != 2 or M.shape[0] != M.shape[1] or M.dtype.kind not in "fiub":
            raise ValueError(
                f"plot_matrix got {type(structure).__name__} of shape {M.shape}: give a TaskGraph, TaskCovariance, "
                "TaskPrecision or a square matrix (a TaskTree has plot_tree)"
            )
        return M.astype(np.float64), show or ""
    if show is not None and show not in known:
        raise ValueError(f"show={show!r}: a {type(structure).__name__} has {', '.join(map(repr, known))}")
    chosen = show or known[0]
    M = getattr(structure, chosen)
    label = "edge weight" if chosen == "adjacency" else chosen.replace("_", " ")
    return np.asarray(M.toarray() if hasattr(M, "toarray") else M, dtype=np.float64), label


def _communities(structure: Any, M: Array | None, T: int = 0) -> NDArray[np.intp]:
    """Community of every task, by the structure's own graph or by the size of the entries of M."""
    if hasattr(structure, "groups"):
        return structure.groups()
    if M is None:
        return np.zeros(T, np.intp)
    return TaskCovariance((M + M.T) / 2, np.arange(len(M))).groups()


def _heat_map(ax: Axes, M: Array, label: str, limit: float, aspect: str = "equal") -> None:
    """White at zero; one colour if nothing is negative, else two."""
    signed = bool((M < 0).any())
    beyond = np.abs(M).max(initial=0.0) > limit * (1 + 1e-9)
    image = ax.imshow(
        M,
        cmap="RdBu" if signed else "Blues",
        vmin=-limit if signed else 0.0,
        vmax=limit,
        aspect=aspect,  # type: ignore[arg-type]
        interpolation="nearest",
    )
    canvas.add_colour_bar(
        ax, image, label, "neither" if not beyond else "both" if signed and M.min() < -limit else "max"
    )
    ax.tick_params(length=0)
    for spine in ax.spines.values():
        spine.set_color("#C0C0C0")


def _name_side(ax: Axes, axis: str, texts: list[str], group: NDArray[np.intp], what: str = "task") -> None:
    """Names along one side if they fit, else the groups or every few features; lines between groups."""
    cuts = np.flatnonzero(np.diff(group)) + 0.5
    for cut in cuts:
        (ax.axvline if axis == "x" else ax.axhline)(cut, color="#404040", linewidth=0.6 if len(cuts) < 12 else 0.25)
    width, height = canvas.extent_in_points(ax)
    room = (width if axis == "x" else height) / max(len(texts), 1)
    size = min(0.85 * room, 8.0)
    turn = 90 if axis == "x" and max(map(len, texts), default=0) * 0.6 * size > 0.9 * room else 0
    if size >= SMALLEST:
        canvas.tick_names(ax, axis, range(len(texts)), texts, size=size, rotation=turn)
    elif what == "task":
        _name_groups(ax, axis, group, room)
    else:
        step = int(np.ceil(7.0 / (0.85 * room)))
        canvas.tick_names(ax, axis, range(0, len(texts), step), texts[::step], size=6, rotation=turn)


def _name_groups(ax: Axes, axis: str, group: NDArray[np.intp], room: float) -> None:
    """Every group with its size at the middle of its block, where the block has room; `room` is points per row."""
    starts = np.concatenate([[0], np.flatnonzero(np.diff(group)) + 1, [len(group)]])
    middle, names = [], []
    for start, end in pairwise(starts.tolist()):
        if (end - start) * room >= 8.0 and len(starts) > 2:
            middle.append((start + end - 1) / 2)
            names.append(f"{'outliers' if group[start] < 0 else f'group {group[start] + 1}'} ({end - start})")
    canvas.tick_names(ax, axis, middle, names, size=7.5, rotation=90 if axis == "x" else 0)
    (ax.set_xlabel if axis == "x" else ax.set_ylabel)(f"{len(group)} tasks")
