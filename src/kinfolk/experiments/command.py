"""kinfolk reproduce: the paper's tables and figures."""

from __future__ import annotations

import argparse

from kinfolk.cli.console import Console
from kinfolk.cli.outputs import check_folder, check_outputs
from kinfolk.experiments.reproduction import run as reproduce


def run(options: argparse.Namespace, console: Console) -> None:
    """Run the part asked for, or all."""
    check_folder("--out", options.out)
    check_outputs({"the page": (options.out / "reproduction.html", "page")}, options, console)
    page = reproduce(options.which, options.out, quick=options.quick, n_jobs=options.jobs, callback=console.callback)
    if options.into:
        from kinfolk.experiments.reproduction.page import insert_tables

        insert_tables(page.with_suffix(".md"), options.into)
    console.say(f"results: {page}")
    console.result({"out": str(page)})
