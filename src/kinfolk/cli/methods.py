"""The methods by the names that the command line uses, what they share, and their parameters."""

from __future__ import annotations

import argparse
import ast
import inspect
from typing import Any

from kinfolk.cli.console import Console
from kinfolk.rows.sources.files import nearest

KINDS = {
    "gamtlcv": "graph, tuned and guarded",
    "gamtl": "graph",
    "rbf-gamtl": "graph, nonlinear",
    "independent": "nothing shared",
    "pooled": "one model",
    "mean-shrunk": "mean of the tasks",
    "random-slopes": "mixed model",
    "mtrl": "task covariance",
    "mssl": "task precision",
    "bmsl": "task covariance, Bayesian",
    "tat": "tree of tasks",
    "gfl": "graph of correlated targets",
    "ccmtl": "fixed graph",
}
OWN = ("task", "features", "callback", "cv", "random_state", "n_jobs")  # parameters that options of the command set


def methods() -> dict[str, type[Any]]:
    """Estimator classes by the names that the command line uses, ours first.

    Examples
    --------
    >>> list(methods())[:4]
    ['gamtlcv', 'gamtl', 'rbf-gamtl', 'bmsl']
    """
    from kinfolk import GAMTL, GAMTLCV, RBFGAMTL
    from kinfolk.baselines import METHODS

    ours = {"gamtlcv": GAMTLCV, "gamtl": GAMTL, "rbf-gamtl": RBFGAMTL}
    return {**ours, **{_hyphenated(name): method for name, method in METHODS.items()}}


def _hyphenated(name: str) -> str:
    """MeanShrunk becomes mean-shrunk; MTRL stays one word."""
    pairs = zip(name, name[1:] + " ", strict=True)
    parts = "".join(f"-{c}" if c.isupper() and after.islower() else c for c, after in pairs)
    return parts.strip("-").lower()


def find_method(name: str, *, extra: tuple[str, ...] = ()) -> str:
    """The listed name of a method; capitals, hyphens and underscores do not count."""
    known = {key.replace("-", ""): key for key in (*methods(), *extra)}
    plain = name.lower().replace("-", "").replace("_", "").replace(" ", "")
    if plain in known:
        return known[plain]
    near = nearest(name, known.values())
    guess = f" Did you mean {near!r}?" if near else ""
    raise ValueError(f"there is no method {name!r}.{guess} There are {', '.join(known.values())}.")


def parse_settings(method: str, settings: list[str]) -> dict[str, Any]:
    """Parameters from NAME=VALUE; values are Python numbers, words or tuples.

    Examples
    --------
    >>> parse_settings("gamtlcv", ["strengths=1", "guard=1.5", "intercept=free"])
    {'strengths': (1,), 'guard': 1.5, 'intercept': 'free'}
    """
    defaults = {
        name: parameter.default
        for name, parameter in inspect.signature(methods()[method]).parameters.items()
        if name not in OWN
    }
    found = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        name = name.strip()
        if not equals:
            raise ValueError(f"--set {setting}: write a name and a value, e.g. --set {next(iter(defaults))}=1")
        if name not in defaults:
            near = nearest(name, defaults)
            guess = f" Did you mean {near!r}?" if near else ""
            raise ValueError(f"{method} has no parameter {name!r} to --set.{guess} It has {', '.join(defaults)}.")
        value = _value(text.strip())
        several = isinstance(defaults[name], tuple)
        found[name] = (value,) if several and not isinstance(value, (tuple, list)) else value
    return found


def _value(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return {"true": True, "false": False, "none": None}.get(text.lower(), text)


def summary_line(method: type[Any]) -> str:
    """The first line of its documentation."""
    return (method.__doc__ or "").strip().splitlines()[0]


def run(options: argparse.Namespace, console: Console) -> None:
    """List all methods: name, what is shared, one line."""
    table = [
        {"name": name, "class": method.__name__, "shares": KINDS.get(name, "?"), "summary": summary_line(method)}
        for name, method in methods().items()
    ]
    for row in table:
        console.say(f"{row['name']:14s} {row['shares']:28s} {row['summary']}")
    console.result({"methods": table})
