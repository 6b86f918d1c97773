"""kinfolk demo: from data to report on built-in data, the paper's first synthetic set; or a table to try fit on."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from kinfolk.cli.console import Console
from kinfolk.cli.outputs import check_folder, check_outputs
from kinfolk.datasets import make_groups
from kinfolk.datasets.car_parks import FILE
from kinfolk.estimators.gamtl import GAMTL
from kinfolk.files import replacing, write_text
from kinfolk.methods.structures import TaskGraph
from kinfolk.plots import plot_graph
from kinfolk.report import write_report
from kinfolk.rows.gram import Array
from kinfolk.search.errors import Errors

GROUPS = {"tasks 1-12": 0, "tasks 13-18": 1, "tasks 19, 20": -1}


def run(options: argparse.Namespace, console: Console) -> None:
    """Print the account line by line."""
    if options.table:
        check_outputs({"--table": (options.table, "table")}, options, console)
        write_text(options.table, FILE.read_text("utf-8"))
        console.say(f"28 car parks, 1,120 rows: {options.table}")
        console.result({"table": str(options.table)})
        return
    check_folder("--out", options.out)
    picture = options.out / "graph.png"
    page = options.out / "report.html"
    check_outputs({"the picture": (picture, "picture"), "the report": (page, "page")}, options, console)
    for line in run_demo(options.out, seed=options.seed):
        console.say(line)
    console.result({"out": str(options.out)})


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
        _draw(model.graph_, out / "graph.png")
        yield f"The picture is in {out / 'graph.png'}."
    except ImportError as error:
        yield f"There is no picture, since {error}"
    page = write_report(model, data.data, data.target, out / "report.html", title="Twenty tasks, two hidden groups")
    yield f"The report is in {page}: open it in a browser."


def _error_table(data: Any, model: GAMTL, alone: GAMTL) -> Iterator[str]:
    with_graph = _test_errors(data, model)
    without = _test_errors(data, alone)
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


def _test_errors(data: Any, model: GAMTL) -> Array:
    """Root mean squared error of every task on its test rows."""
    X = data.test_data
    task = np.asarray(X[data.task] if hasattr(X, "columns") else X[:, 0])
    codes = np.searchsorted(model.tasks_, task)
    prediction = model.predict(X)
    return Errors.of_predictions(data.test_target, prediction, codes, len(model.tasks_)).by_task()


def _draw(graph: TaskGraph, path: Path) -> None:
    """Write the graph as a picture."""
    ax = plot_graph(graph)
    ax.set_title("Tasks that are kin: width is strength, colour is group, loops are loners", fontsize=10)
    figure = ax.get_figure(root=True)
    assert figure is not None
    with replacing(path) as partial:
        figure.savefig(partial, dpi=150)
