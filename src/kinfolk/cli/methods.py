"""The methods by the names that the command line uses, what they share, and their parameters."""

from __future__ import annotations

import argparse
import ast
from difflib import get_close_matches
from typing import Any

from kinfolk.cli.console import Console
from kinfolk.methods.registry import all_methods

# Parameters that options of the command set.
OWN = ("task", "features", "callback", "verbose", "cv", "random_state", "n_jobs")


def parse_settings(method: str, settings: list[str]) -> dict[str, Any]:
    """Parameters from NAME=VALUE; values are Python numbers, words or tuples.

    Examples
    --------
    >>> parse_settings("gamtlcv", ["strengths=1", "guard=1.5", "intercept=free"])
    {'strengths': (1,), 'guard': 1.5, 'intercept': 'free'}
    """
    defaults = {name: value for name, value in all_methods()[method]().get_params().items() if name not in OWN}
    given = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        name = name.strip()
        if not equals:
            raise ValueError(f"--set {setting}: write a name and a value, e.g. --set {next(iter(defaults))}=1")
        if name not in defaults:
            near = get_close_matches(name, defaults, n=1)
            guess = f" Did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"{method} has no parameter {name!r} to --set.{guess} It has {', '.join(defaults)}.")
        value = _value(text.strip())
        several = isinstance(defaults[name], tuple)
        given[name] = (value,) if several and not isinstance(value, (tuple, list)) else value
    return given


def _value(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return {"true": True, "false": False, "none": None}.get(text.lower(), text)


def run(options: argparse.Namespace, console: Console) -> None:
    """List all methods: name, what is shared, one line."""
    table = [
        {
            "name": name,
            "class": method.__name__,
            "shares": method.shares,
            "summary": (method.__doc__ or "").strip().splitlines()[0],
        }
        for name, method in all_methods().items()
    ]
    for row in table:
        console.say(f"{row['name']:14s} {row['shares']:28s} {row['summary']}")
    console.result({"methods": table})
