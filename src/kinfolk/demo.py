"""From data to report on built-in data: the paper's first synthetic set, every task with inputs of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from kinfolk.datasets import make_groups
from kinfolk.estimators.gamtl import GAMTL
from kinfolk.files import replacing
from kinfolk.methods.structures import TaskGraph
from kinfolk.plots import plot_graph
from kinfolk.report import write_report
from kinfolk.rows.gram import Array
from kinfolk.search.errors import Errors

GROUPS = {"tasks 1-12": 0, "tasks 13-18": 1, "tasks 19, 20": -1}


def run_demo(out: Path, *, seed: int = 0) -> Iterator[str]:
    """Fit, give an account line by line, and write `out/graph.png` and `out/report.html`."""
    data = make_groups(random_state=seed)
    yield "20 tasks with 20 rows and 30 features each: two hidden groups (1-12, 13-18) and two outliers (19, 20)."
    yield "Less data than unknowns, so a task on its own is lost. Fitting all of them with a graph over the tasks ..."
    started = perf_counter()
    model = GAMTL(task=data.task).fit(data.data, data.target)
    seconds = perf_counter() - started
    alone = GAMTL(task=data.task, strength=0.0).fit(data.data, data.target)
    yield f"done in {seconds:.2f} s, {model.n_iter_} rounds, duality gap {model.optimality_['duality_gap']:.0e}."
    yield ""
    yield "Test error (RMSE, mean over the tasks of a group; noise alone is 1.0)"
    yield from _error_table(data, model, alone)
    yield ""
    yield "What the graph found, without knowing the groups"
    yield from _graph_lines(model.graph_)
    yield ""
    try:
        draw(model.graph_, out / "graph.png")
        yield f"The picture is in {out / 'graph.png'}."
    except ImportError as error:
        yield f"There is no picture, since {error}"
    page = write_report(model, data.data, data.target, out / "report.html", title="Twenty tasks, two hidden groups")
    yield f"The report is in {page}: open it in a browser."


def _error_table(data: Any, model: GAMTL, alone: GAMTL) -> Iterator[str]:
    with_graph = task_rmse(model, data.test_data, data.test_target)
    without = task_rmse(alone, data.test_data, data.test_target)
    every = np.ones(len(with_graph), dtype=bool)
    rows = [(name, data.groups == group) for name, group in GROUPS.items()]
    yield f"  {'':14s} {'one ridge per task':>20s} {'kinfolk':>10s}"
    for name, tasks in [*rows, ("all", every)]:
        yield f"  {name:14s} {without[tasks].mean():20.2f} {with_graph[tasks].mean():10.2f}"


def _graph_lines(graph: TaskGraph) -> Iterator[str]:
    outliers = graph.outliers()
    for k, members in enumerate(m for m in graph.communities() if m[0] not in outliers):
        yield f"  group {k + 1}: tasks {', '.join(map(str, members))}"
    yield f"  outliers: tasks {', '.join(map(str, outliers)) or 'none'}"
    heaviest = ", ".join(f"{e.task}-{e.neighbor} ({e.weight:.2f})" for e in graph.edges()[:5])
    yield f"  heaviest edges: {heaviest}"


def task_rmse(model: GAMTL, X: Any, y: Array) -> Array:
    """Root mean squared error of every task, in the order of `model.tasks_`."""
    task = np.asarray(X[model.task] if hasattr(X, "columns") else X[:, 0])
    codes = np.searchsorted(model.tasks_, task)
    return Errors.of_predictions(y, model.predict(X), codes, len(model.tasks_)).by_task()


def draw(graph: TaskGraph, path: Path) -> None:
    """Write the graph as a picture."""
    ax = plot_graph(graph)
    ax.set_title("Tasks that are kin: width is strength, colour is group, loops are loners", fontsize=10)
    figure = ax.get_figure(root=True)
    assert figure is not None
    with replacing(path) as partial:
        figure.savefig(partial, dpi=150)
