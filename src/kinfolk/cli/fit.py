"""kinfolk fit: a table becomes a model file and a report."""

from __future__ import annotations

import argparse
from pathlib import Path
from time import perf_counter
from typing import Any

from kinfolk.cli.console import Console
from kinfolk.cli.outputs import check_outputs
from kinfolk.cli.tables import Training, in_database, open_table, read_files, training_rows, wants_stream
from kinfolk.explain.summary import account, training_error, verdict_of
from kinfolk.files import is_special
from kinfolk.judge.contestants import find_method
from kinfolk.memory import in_words
from kinfolk.rows.tables import task_name


def run(options: argparse.Namespace, console: Console) -> None:
    """Read, fit, save, report, and say what was found. Whatever can be wrong with the file is found first."""
    source = None if in_database(options) else open_table(options, console)
    out = options.out or (source.root if source else Path(options.data.name)).with_suffix(".kin")
    outputs = {"--out": (out, "model"), "--report": (options.report, "page")}
    check_outputs(outputs, options, console, inputs=(source.root,) if source else read_files(options.data))
    in_blocks = source is None or wants_stream(source, options)
    if in_blocks and options.report:
        console.note("no report is written, since it needs the rows in memory: use kinfolk report on a part of them")
    rows = training_rows(source, options, console, lazy=in_blocks) if source else None
    started = perf_counter()
    model, error = fit(rows, options, console, in_blocks=in_blocks)
    seconds = perf_counter() - started
    model.save(out)
    report = write_page(model, rows, options, console) if rows and options.report and not in_blocks else None
    kinds = rows.rules.found_kinds if rows else {}
    encoded = [name for name, kind in kinds.items() if kind == "category"]
    method = find_method(options.method)
    size = "" if is_special(out) else f" ({in_words(out.stat().st_size)})"
    for line in (*account(model.model_, method, seconds, error), f"model:  {out}{size}"):
        console.say(line)
    if report:
        console.say(f"report: {report}")
    record = record_of(model, method, error) | {"encoded": encoded}
    console.result(record | {"seconds": seconds, "model": str(out), "report": report})


def fit(
    rows: Training | None, options: argparse.Namespace, console: Console, *, in_blocks: bool
) -> tuple[Any, float | None]:
    """The fitted model, and its cross-validated error if it has one."""
    from kinfolk.cli.recipe import fit_in_blocks, fit_in_database, recipe_of

    recipe = recipe_of(options)
    if rows is None:
        return fit_in_database(recipe, options, console)
    if in_blocks:
        return fit_in_blocks(recipe, rows, options, console)
    return recipe.fit(rows, options.task, console.callback)


def write_page(model: Any, rows: Training, options: argparse.Namespace, console: Console) -> str:
    """The report about the rows of the fit; returns its path."""
    from kinfolk.report import write_report

    title = f"{options.target} by {options.task}, {options.data.name}"
    write_report(model, rows.X, rows.y, options.report, title=title, groups=rows.groups, callback=console.callback)
    return str(options.report)


def record_of(model: Any, method: str, error: float | None) -> dict[str, Any]:
    """What a fit found, for other programs."""
    record: dict[str, Any] = {
        "method": method,
        "rows": int(model.gram_.n.sum()),
        "tasks": len(model.tasks_),
        "inputs": [name for name in model.feature_names_in_ if name != task_name(model.task)],
        "rmse_cv": error,
        "rmse_training": training_error(model.model_),
        "verdict": verdict_of(model.model_),
    }
    if hasattr(model, "graph_helps_"):
        record |= {"graph_helps": model.graph_helps_, "gain": model.gain_.mean, "gain_se": model.gain_.standard_error}
    graph = model.structure_
    if hasattr(graph, "communities"):
        record |= {"edges": len(graph.edges()), "groups": graph.communities(), "outliers": graph.outliers()}
    return record
