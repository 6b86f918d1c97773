"""kinfolk report: a page about a model and the rows of a table."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from kinfolk.cli.console import Console
from kinfolk.cli.new_rows import rows_for
from kinfolk.cli.outputs import check_outputs
from kinfolk.cli.tables import open_table, read_files
from kinfolk.methods.method import MultiTaskRegressor
from kinfolk.rows.table import task_name
from kinfolk.sources.ruled import target_column
from kinfolk.store import load


def run(options: argparse.Namespace, console: Console) -> None:
    """Write the page."""
    check_outputs({"--out": (options.out, "page")}, options, console, inputs=read_files(options.model, options.data))
    model = load(options.model)
    also = {"--target": options.target} | ({"--groups": options.groups} if options.groups else {})
    source = open_table(options, console)
    rows = rows_for(model, source, options, console, also=also)
    X = rows.select(list(model.feature_names_in_))
    y = rows.select(target_column(rows, options.target, source, class_texts(model))).to_series().to_numpy()
    groups = rows[options.groups].to_numpy() if options.groups else None
    write_page(model, X, y, groups, options.out, options, console)
    console.say(f"report: {options.out}")
    console.result({"report": str(options.out), "rows": len(y)})


def class_texts(model: MultiTaskRegressor) -> list[str] | None:
    """The labels that a model has for targets of 0 and 1, if these were texts."""
    classes = model.model_.classes
    return classes.tolist() if classes is not None and classes.dtype.kind == "U" else None


def write_page(
    model: MultiTaskRegressor, X: Any, y: Any, groups: Any, out: Path, options: argparse.Namespace, console: Console
) -> None:
    """The report about a model and the rows of a table."""
    from kinfolk.report import write_report

    title = getattr(options, "title", None) or f"{options.target} by {task_name(model.task)}, {options.data.name}"
    about = {"title": title, "groups": groups, "private": options.private}
    write_report(model, X, y, out, **about, callback=console.callback)
