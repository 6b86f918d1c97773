"""The paper's figures again: structures of every method on common coordinates, and the traces of the Wiener system."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from kinfolk.experiments.diagnostics import embed
from kinfolk.experiments.reproduction.cells import structure_from_dict
from kinfolk.experiments.reproduction.methods import ORDER
from kinfolk.experiments.reproduction.settings import Setting
from kinfolk.experiments.reproduction.splits import split
from kinfolk.experiments.reproduction.yardsticks import SAME_PLACE, yardstick
from kinfolk.files import replacing
from kinfolk.methods.structures import Structure, TaskGraph
from kinfolk.plots import plot_graph, plot_structure
from kinfolk.plots.canvas import Axes, Figure, bare, new_figure
from kinfolk.plots.layouts import separated
from kinfolk.rows.gram import Array

FAR = 2.0  # times the median distance: tasks that are farther apart are drawn as far as this
DRAWN_AS = {
    "graph": "graph",
    "tree": "tree",
    "covariance": "task covariance",
    "precision": "inverse of the task precision",
}


def layout_of(setting: Setting) -> tuple[Array, str]:
    """Positions of the tasks by the setting's yardstick, and a line that says where they come from.

    Two dimensions, for print (the paper scales to three); tasks that would cover each other are moved apart, and one
    that lies far from all others does not press these together.
    """
    D, source = yardstick(setting)
    embedding = embed(np.minimum(D, FAR * np.median(D[D > 0])), dimensions=2)
    words = f"coordinates: MDS of {source}, at most {FAR:g} times their median, stress {embedding.stress:.2f}"
    return separated(embedding.coordinates), f"{words}, overlaps moved apart"


def structure_figure(setting: Setting, results: Mapping[str, Any], path: Path) -> tuple[Path, str]:
    """All structures of a setting's first run side by side; returns the picture and its caption."""
    xy, source = layout_of(setting)
    drawn = [name for name in ORDER if "structure" in results.get(name, {}).get(0, {})]
    figure, axes = _sheet(len(drawn))
    names = list(range(1, len(xy) + 1))  # numbers as in the paper; car parks in the order of the file
    for ax, name in zip(axes, drawn, strict=False):
        stored = results[name][0]["structure"]
        structure = structure_from_dict(stored, names)
        at = np.array(stored["labels"])
        _draw(ax, structure, xy[at], [str(k) for k in SAME_PLACE] if setting.part == "birmingham" else [])
        ax.set_title(f"{name} ({DRAWN_AS[stored['kind']]})", fontsize=11)
    _save(figure, path)
    return path, f"{setting.title}: the structure that each method learned in the first run; {source}."


def _draw(ax: Axes, structure: Structure, xy: Array, marked: list[str]) -> None:
    options: dict[str, dict[str, Any]] = {
        "graph": {"coordinates": xy, "outliers": "loop", "highlight": marked},
        "tree": {},
        "matrix": {"show": "covariance", "order": False},  # of MSSL too: the paper draws the inverse
    }
    plot_structure(structure, ax=ax, **options[structure.kind])


def trace_figure(setting: Setting, results: Mapping[str, Any], path: Path) -> tuple[Path, str]:
    """What each method predicts for the first task, over the measured output; brackets: pooled RMSE over all tasks."""
    drawn = [name for name in results if "trace" in results[name].get(0, {})]
    figure, axes = _sheet(len(drawn), columns=2, height=1.7)
    for ax, name in zip(axes, drawn, strict=False):
        cell = results[name][0]
        ax.plot(cell["trace"]["target"], color="#9A9A9A", linewidth=1.0, label="measured")
        ax.plot(cell["trace"]["prediction"], color="#0072B2", linewidth=1.2, label="predicted")
        ax.set_title(f"{name} ({cell['pooled']:.4f})", fontsize=10, loc="left")
        ax.tick_params(labelsize=8)
        bare(ax, "top", "right")
    axes[0].legend(fontsize=8, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2, frameon=False)
    _save(figure, path)
    steps = len(results[drawn[0]][0]["trace"]["target"])
    words = f"predictions for node 1 over the first {steps} test steps; in brackets the RMSE over all nodes."
    return path, f"{setting.title}: {words}"


def network_figure(setting: Setting, path: Path) -> tuple[Path, str]:
    """The network that the coefficients were mixed along: solid within groups, dashed between them."""
    rows = split(setting, 0)
    group = rows.truth["groups"]
    A = np.zeros((len(group), len(group)))
    for k, m in rows.truth["topology"]:
        A[k - 1, m - 1] = A[m - 1, k - 1] = 1.0
    graph = TaskGraph(sparse.csr_array(A), np.array([str(t) for t in rows.tasks], dtype=object))
    figure, axes = _sheet(1, columns=1, height=4.5)
    plot_graph(graph, groups=group, ax=axes[0])
    _save(figure, path)
    return path, "The network of the ten nodes: links within groups solid, between them dashed."


def _sheet(count: int, *, columns: int = 3, height: float = 4.2) -> tuple[Figure, list[Any]]:
    lines = max(1, math.ceil(count / columns))
    width = 4.6 * min(columns, 3) if columns != 2 else 12.0
    figure = new_figure(figsize=(width, height * lines), layout="constrained")
    axes = list(np.ravel(figure.subplots(lines, columns, squeeze=False)))
    for ax in axes[count:]:
        ax.set_axis_off()
    return figure, axes


def _save(figure: Figure, path: Path) -> None:
    with replacing(path) as partial:
        figure.savefig(partial, dpi=100)
