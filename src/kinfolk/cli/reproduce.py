"""kinfolk reproduce: the paper's tables and figures."""

from __future__ import annotations

import argparse

from kinfolk import reproduce
from kinfolk.cli.console import Console


def run(options: argparse.Namespace, console: Console) -> None:
    """Run the part asked for, or all."""
    path = reproduce.run(
        options.which, options.out, quick=options.quick, n_jobs=options.jobs, callback=console.callback
    )
    console.say(f"results: {path}")
    console.result({"out": str(path)})
