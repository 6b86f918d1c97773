"""The command `kinfolk`. Heavy imports stay inside the commands, so that help is instant."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from kinfolk._version import __version__


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help()
        return 2
    try:
        return int(options.run(options))
    except KeyboardInterrupt:
        print("kinfolk: interrupted", file=sys.stderr)
        return 130
    except (ValueError, OSError, ImportError) as error:
        if options.debug:
            raise
        print(f"kinfolk: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="kinfolk", description="Finds which of your tasks are kin and lets them learn from each other."
    )
    parser.add_argument("--version", action="version", version=f"kinfolk {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="command")
    demo = commands.add_parser("demo", help="fit the built-in example, explain it, draw its graph")
    demo.add_argument("--out", type=Path, default=Path("kinfolk-demo"), help="folder for graph.png (%(default)s)")
    demo.add_argument("--seed", type=int, default=0, help="seed of the example data (%(default)s)")
    demo.set_defaults(run=_demo)
    methods = commands.add_parser("methods", help="list the methods that can be fitted and compared")
    methods.set_defaults(run=_methods)
    for command in commands.choices.values():
        command.add_argument("--debug", action="store_true", help="show the traceback of an error")
    return parser


def _demo(options: argparse.Namespace) -> int:
    from kinfolk.demo import run_demo

    for line in run_demo(options.out, seed=options.seed):
        print(line, flush=True)
    return 0


def _methods(options: argparse.Namespace) -> int:
    from kinfolk import GAMTL, GAMTLCV, RBFGAMTL
    from kinfolk.baselines import METHODS

    ours = {"GAMTL": GAMTL, "GAMTLCV": GAMTLCV, "RBFGAMTL": RBFGAMTL}
    for name, method in {**ours, **METHODS}.items():
        print(f"{name:14s} {(method.__doc__ or '').splitlines()[0]}")
    return 0
