"""kinfolk demo: the main job on built-in data."""

from __future__ import annotations

import argparse

from kinfolk.cli.console import Console
from kinfolk.demo import run_demo


def run(options: argparse.Namespace, console: Console) -> None:
    """Print the account line by line."""
    for line in run_demo(options.out, seed=options.seed):
        console.say(line)
    console.result({"out": str(options.out)})
