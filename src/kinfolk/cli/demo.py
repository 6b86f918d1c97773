"""kinfolk demo: the main job on built-in data."""

from __future__ import annotations

import argparse

from kinfolk.cli.console import Console
from kinfolk.cli.outputs import check_folder, check_outputs
from kinfolk.demo import run_demo


def run(options: argparse.Namespace, console: Console) -> None:
    """Print the account line by line."""
    check_folder("--out", options.out)
    picture = options.out / "graph.png"
    page = options.out / "report.html"
    check_outputs({"the picture": (picture, "picture"), "the report": (page, "page")}, options, console)
    for line in run_demo(options.out, seed=options.seed):
        console.say(line)
    console.result({"out": str(options.out)})
