"""kinfolk fit: a table becomes a model file and a report."""

from __future__ import annotations

import argparse
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from kinfolk.cli.console import Console, duration
from kinfolk.cli.outputs import check_outputs
from kinfolk.cli.tables import Training, counted, in_database, open_table, read_files, training_rows, wants_stream
from kinfolk.files import is_special
from kinfolk.judge.contestants import find_method
from kinfolk.memory import in_words


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
    save_model(model, out)
    report = write_page(model, rows, options, console) if rows and options.report and not in_blocks else None
    kinds = rows.rules.found_kinds if rows else {}
    encoded = [name for name, kind in kinds.items() if kind == "category"]
    record = account(model, find_method(options.method), error) | {"encoded": encoded}
    record |= {"seconds": seconds, "model": str(out), "report": report}
    tell(record, console, out)
    console.result(record)


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


def save_model(model: Any, out: Path) -> None:
    """Write the model file."""
    from kinfolk.store import save

    save(model, out)


def write_page(model: Any, rows: Training, options: argparse.Namespace, console: Console) -> str:
    """The report about the rows of the fit; returns its path."""
    from kinfolk.report import write_report

    title = f"{options.target} by {options.task}, {options.data.name}"
    write_report(model, rows.X, rows.y, options.report, title=title, groups=rows.groups, callback=console.callback)
    return str(options.report)


def account(model: Any, method: str, error: float | None) -> dict[str, Any]:
    """What a fit found, in words and numbers."""
    record: dict[str, Any] = {
        "method": method,
        "rows": int(model.gram_.n.sum()),
        "tasks": len(model.tasks_),
        "inputs": [name for name in model.feature_names_in_ if name != model.task],
        "rmse_cv": error,
        "rmse_training": training_error(model),
    }
    if hasattr(model, "graph_helps_"):
        record |= {"graph_helps": model.graph_helps_, "gain": model.gain_.mean, "gain_se": model.gain_.standard_error}
    graph = model.structure_
    if hasattr(graph, "communities"):
        record |= {"edges": len(graph.edges()), "groups": graph.communities(), "outliers": graph.outliers()}
    return record


def training_error(model: Any) -> float:
    """RMSE over the rows of the fit, from their statistics."""
    from kinfolk.rows.gram import squared_errors

    errors = squared_errors(model.gram_, model.coef_, model.intercept_)
    return float(np.sqrt(np.maximum(errors, 0.0).sum() / model.gram_.n.sum()))


def tell(record: dict[str, Any], console: Console, out: Path) -> None:
    """The account of a fit, line by line."""
    console.say(
        f"fitted {record['method']} on {record['rows']:,} rows, {record['tasks']:,} tasks, {len(record['inputs'])} "
        f"inputs in {duration(record['seconds']) if record['seconds'] >= 1 else 'less than 1 s'}"
    )
    if record["rmse_cv"] is not None:
        console.say(f"cross-validated error (RMSE, mean over tasks): {record['rmse_cv']:.4g}")
    else:
        console.say(f"error on the training rows (RMSE): {record['rmse_training']:.4g}")
    if "graph_helps" in record:
        console.say(graph_sentence(record))
    if "groups" in record:
        sizes = ", ".join(str(len(group)) for group in record["groups"][:12])
        more = ", ..." if len(record["groups"]) > 12 else ""
        console.say(
            f"graph: {record['edges']:,} edges; {counted(len(record['groups']), 'group')} of {sizes}{more} tasks"
        )
    size = "" if is_special(out) else f" ({in_words(out.stat().st_size)})"
    console.say(f"model:  {out}{size}")
    if record["report"]:
        console.say(f"report: {record['report']}")


def graph_sentence(record: dict[str, Any]) -> str:
    """Whether the graph takes part in predictions."""
    error = record["gain_se"]
    size = f"{100 * abs(record['gain']):.1f} %" + (f" (standard error {100 * error:.1f})" if np.isfinite(error) else "")
    if record["graph_helps"]:
        return f"the graph helps: it lowers the error by {size}"
    way = "lower" if record["gain"] >= 0 else "raise"
    return f"the graph is descriptive only: it would {way} the error by {size}, so predictions do without"
