"""kinfolk report: a page about a model and the rows of a table."""

from __future__ import annotations

import argparse

from kinfolk.cli.columns import number_column
from kinfolk.cli.console import Console
from kinfolk.cli.encoding import rows_for
from kinfolk.cli.outputs import check_outputs
from kinfolk.cli.tables import load_model
from kinfolk.report import write_report


def run(options: argparse.Namespace, console: Console) -> None:
    """Write the page."""
    check_outputs({"--out": (options.out, "page")}, options, console, inputs=(options.model, options.data))
    model = load_model(options.model)
    also = {"--target": options.target} | ({"--groups": options.groups} if options.groups else {})
    rows = rows_for(model, options, console, also=also)
    y = number_column(rows.frame, options.target, "the target")
    groups = rows.frame[options.groups] if options.groups else None
    title = options.title or f"{options.target} by {model.task}, {options.data.name}"
    write_report(model, rows.X, y, options.out, title=title, groups=groups, callback=console.callback)
    console.say(f"report: {options.out}")
    console.result({"report": str(options.out), "rows": len(y)})
