"""kinfolk demo: the main job on built-in data."""

from __future__ import annotations

import argparse

from kinfolk.cli.console import Console
from kinfolk.cli.outputs import check_folder, check_outputs
from kinfolk.datasets.car_parks import FILE
from kinfolk.files import write_text


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
    from kinfolk.demo import run_demo  # needs matplotlib

    for line in run_demo(options.out, seed=options.seed):
        console.say(line)
    console.result({"out": str(options.out)})
