"""Lines and dots: the course of a fit, errors by task, predictions over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from kinfolk.methods.model import Fitted, Model, as_model
from kinfolk.plots import canvas
from kinfolk.plots.canvas import Axes
from kinfolk.plots.labels import Names, write_names
from kinfolk.rows.gram import TINY, Array

NAMED = 60  # tasks up to which every task has a row with its name
CHANGES = 12  # named among more tasks than that
LINES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (5, 1.5, 1.2, 1.5)))  # distinct in grey too


def plot_convergence(fitted: Fitted, *, ax: Axes | None = None) -> Axes:
    """Draw the objective after every round above its lowest value, and write down the certificate.

    The scale is logarithmic and in units of the lowest value, so that a straight line is a constant rate; the dashed
    line is the model's `tol`. The last point, at zero, is drawn at the bottom.
    """
    model = as_model(fitted, "plot_convergence")
    if model.course is None or model.course.history is None or not len(model.course.history):
        raise ValueError(
            f"{model.name} has no objective_history_: it solves its problem in one step, so that there is no course to "
            "draw"
        )
    history = np.asarray(model.course.history, dtype=np.float64)
    tol = model.parameter("tol")
    ax = canvas.new_axes(ax, 6.0, 4.0)
    above = (history - history.min()) / max(abs(history.min()), TINY)
    floor = min([*above[above > 0], tol or 1e-6]) / 3  # where zero is drawn: below all else
    rounds = np.arange(1, len(history) + 1)
    ax.semilogy(rounds, np.maximum(above, floor), color=canvas.PALETTE[0], marker="o", markersize=4, linewidth=1.4)
    if tol:
        ax.axhline(tol, color="#707070", linestyle="--", linewidth=0.9)
        style: Any = {"ha": "right", "va": "bottom", "fontsize": 8, "color": "#707070"}
        ax.annotate("tol", (1, tol), xycoords=ax.get_yaxis_transform(), **style)
    ax.set(xlabel="round", ylabel="objective above its lowest, relative")
    ax.locator_params(axis="x", integer=True)
    ax.margins(y=0.1)
    canvas.bare(ax, "top", "right")
    ax.set_title(_certificate(model, history), fontsize=8.5, loc="left")
    return ax


def plot_task_errors(
    errors: Mapping[str, ArrayLike],
    *,
    names: Sequence[Any] | None = None,
    groups: ArrayLike | None = None,
    ax: Axes | None = None,
    quantity: str = "error",
) -> Axes:
    """Draw the errors of two or more models on every task, worst task of the first model on top.

    Up to 60 tasks have a row each, with a line from the lowest to the highest error. More tasks are points from left to
    right, and the tasks that change most from the first model to the last are named.

    Parameters
    ----------
    errors : name of the model -> errors (T,), NaN where a task has none; give the baseline first
    names : task names; by default 0, 1, ...
    groups : a number per task; tasks of a group then stand together
    quantity : what an error is, for the axis: "RMSE"
    """
    table = _error_table(errors)
    T = table.shape[1]
    labels = [canvas.short_name(name) for name in (names if names is not None else range(T))]
    if len(labels) != T:
        raise ValueError(f"{len(labels)} names for {T} tasks: give one name per task")
    few = T <= NAMED
    ax = canvas.new_axes(ax, 7.0, float(np.clip(1.4 + 0.16 * T, 3.0, 11.0)) if few else 4.5)
    group = np.zeros(T, np.intp) if groups is None else canvas.read_groups(groups, T)
    order = np.lexsort((-np.nan_to_num(table[0]), np.where(group < 0, T, group)))
    table = table[:, order]
    legend = [f"{name} (mean {np.nanmean(row):.3g})" for name, row in zip(errors, table, strict=True)]
    _draw_errors(ax, table, legend, upright=few)
    names_in_order = [labels[t] for t in order]
    if few:
        _name_rows(ax, names_in_order)
        ax.set_xlabel(quantity)
    else:
        _name_changes(ax, table, names_in_order)
        ax.set_ylabel(quantity)
        ax.set_xlabel(f"{T} tasks, {'' if groups is None else 'group by group, '}worst of the first model first")
    blocks = canvas.blocks(group[order])
    for start, _ in blocks[1:] if len(blocks) < 13 else ():
        (ax.axhline if few else ax.axvline)(start - 0.5, color="#B0B0B0", linewidth=0.7)
    return ax


def plot_predictions(
    truth: ArrayLike,
    predictions: Mapping[str, ArrayLike],
    *,
    time: ArrayLike | None = None,
    quantity: str = "target",
    ax: Axes | None = None,
) -> Axes:
    """Draw what was observed in one task and what models predicted, in the order of the rows or over time.

    Parameters
    ----------
    truth : observed values (n,)
    predictions : name of the model -> predictions (n,); the legend gives the root mean squared error of each
    time : where the values stand, numbers or dates; by default 0, 1, ...
    """
    y = np.asarray(truth, dtype=np.float64)
    ax = canvas.new_axes(ax, 8.0, 3.6)
    x = np.arange(len(y)) if time is None else np.asarray(time)
    mark = "o" if len(y) == 1 else ""  # one point makes no line
    ax.plot(x, y, color="black", linewidth=1.8, marker=mark, label="observed", zorder=2)
    for k, (name, values) in enumerate(predictions.items()):
        values = np.asarray(values, dtype=np.float64)
        if values.shape != y.shape:
            raise ValueError(f"{name!r} predicts shape {values.shape}, but truth has {y.shape}")
        rmse = np.sqrt(np.nanmean((values - y) ** 2))
        style: Any = {"color": canvas.PALETTE[k % 6], "linestyle": LINES[k % len(LINES)], "marker": mark}
        ax.plot(x, values, linewidth=1.2, label=f"{name} ({rmse:.3g})", zorder=3, **style)
    ax.set(ylabel=quantity, xlabel="row" if time is None else "time")
    canvas.bare(ax, "top", "right")
    canvas.legend_above(ax)
    return ax


def _error_table(errors: Mapping[str, ArrayLike]) -> Array:
    if not errors:
        raise ValueError("errors is empty: give name -> errors by task, for two or more models")
    rows = {name: np.asarray(row, dtype=np.float64) for name, row in errors.items()}
    shapes = {row.shape for row in rows.values()}
    if len(shapes) > 1 or len(next(iter(shapes))) != 1 or shapes == {(0,)}:
        listed = ", ".join(f"{name!r}: {row.shape}" for name, row in rows.items())
        raise ValueError(f"errors have shapes {listed}: give one error per task for every model")
    return np.array(list(rows.values()))


def _draw_errors(ax: Axes, table: Array, legend: list[str], *, upright: bool) -> None:
    """A mark per model and task, and a line from the least to the largest; tasks below each other if `upright`."""
    place = np.arange(table.shape[1])
    span: Any = ax.hlines if upright else ax.vlines
    width = 1.5 if upright else 0.8
    span(place, np.nanmin(table, axis=0), np.nanmax(table, axis=0), color="#CCCCCC", linewidth=width, zorder=1)
    for k, (row, name) in enumerate(zip(table, legend, strict=True)):
        x, y = (row, place) if upright else (place, row)
        style: Any = {"color": canvas.PALETTE[k % 7], "markersize": 5 if upright else 2.6}
        ax.plot(x, y, canvas.MARKERS[k % 7], label=name, zorder=3, **style)
    least = min(0.0, float(np.nanmin(table)))
    if upright:
        ax.set_xlim(left=least)
    else:
        ax.set_ylim(bottom=least)
    canvas.bare(ax, "top", "right", *["left"] * upright)
    canvas.legend_above(ax)


def _name_rows(ax: Axes, labels: list[str]) -> None:
    size = float(np.clip(0.8 * canvas.extent_in_points(ax)[1] / len(labels), 4, 9))
    canvas.tick_names(ax, "y", range(len(labels)), labels, size=size)
    ax.set_ylim(len(labels) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)


def _name_changes(ax: Axes, table: Array, labels: list[str]) -> None:
    """Name the tasks whose error changes most from the first model to the last."""
    ax.set_xticks([])
    T = len(labels)
    change = np.abs(np.nan_to_num(table[-1] - table[0]))
    order = np.argsort(-change, kind="stable")[:CHANGES].tolist()
    tops = np.column_stack([np.arange(T), np.fmax(table[0], table[-1])])
    names = Names(labels, ["#FFFFFF"] * T, 6.5)
    write_names(ax, names, tops, np.full(T, 1.5), order, away_from=sparse.csr_array((T, T)), keep=(), near=True)


def _certificate(model: Model, history: Array) -> str:
    """Rounds, convergence and optimality in words, on two lines."""
    course = model.course
    assert course is not None
    end = {True: "converged", False: "not converged", None: "ended"}[course.converged]
    parts = [_in_words(name.replace("_", " "), value) for name, value in model.optimality.items()]
    lines = [", ".join(parts[k : k + 2]) for k in range(0, len(parts), 2)]
    return "\n".join([f"{end} after {course.n_iter or len(history)} rounds, objective {history[-1]:.6g}", *lines])


def _in_words(name: str, value: Any) -> str:
    steps = {"certified": "last graph step", "shown certified": "graph that is drawn"}
    if name in steps:
        return f"{steps[name]} certified for {100 * value:.0f} % of tasks"
    return f"{name} {value:.1e}" if isinstance(value, (float, np.floating)) else f"{name} {value}"
