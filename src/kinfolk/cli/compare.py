"""kinfolk compare: every method beside the honest alternatives, on the user's own table."""

from __future__ import annotations

import argparse
import warnings
from importlib.util import find_spec
from typing import Any

import numpy as np

from kinfolk.cli.console import Console, duration
from kinfolk.cli.methods import KINDS, find_method, methods
from kinfolk.cli.nested import Contender, boosted, by_recipe, outer_folds, race, task_mean
from kinfolk.cli.recipe import Recipe
from kinfolk.cli.tables import open_table, training_rows
from kinfolk.cli.verdict import Scores, verdict

FIRST = ("task-mean", "independent", "pooled", "mean-shrunk", "random-slopes", "lightgbm", "gamtlcv")
EXTRA = {"task-mean": "nothing shared, no inputs", "lightgbm": "boosted trees, task as category"}
MOST_SECONDS = 120.0
SECONDS = {"gamtlcv": 900.0}  # what the comparison is about gets the time that it needs
# Every grid point is fitted in every fold of every fold: errors settle long before the last digits of coefficients do.
SHORTENED: dict[str, dict[str, Any]] = {
    "bmsl": {"n_samples": 300, "n_burn": 200, "n_chains": 2},
    "ccmtl": {"tol": 1e-3, "max_iter": 100},
    "gamtl": {"tol": 1e-4, "max_iter": 30},
    "gfl": {"tol": 1e-4, "max_iter": 2000},
    "mssl": {"tol": 1e-3, "max_iter": 50},
    "mtrl": {"tol": 1e-4},
    "tat": {"tol": 1e-4, "max_iter": 1000},
}


def chosen_methods(asked: list[str] | None, console: Console) -> list[str]:
    """The methods to compare: those asked for, or all, the alternatives first."""
    if asked:
        return list(dict.fromkeys(find_method(name, extra=tuple(EXTRA)) for name in asked))
    names = [*FIRST, *(name for name in methods() if name not in FIRST)]
    if find_spec("lightgbm") is None:
        names.remove("lightgbm")
        console.note("lightgbm is not installed and not compared: pip install 'kinfolk[boosting]'")
    return names


def contender(name: str, options: argparse.Namespace) -> Contender:
    """A method as the comparison runs it."""
    if name == "task-mean":
        return task_mean
    if name == "lightgbm":
        return boosted(options.seed)
    settings = SHORTENED.get(name, {})
    return by_recipe(Recipe(name, settings, options.cv, options.seed, options.jobs))


def run(options: argparse.Namespace, console: Console) -> None:
    """Compare, print the table, and say what to make of it."""
    if options.cv < 2:
        raise ValueError(f"--cv {options.cv}: a comparison needs at least 2 folds")
    names = chosen_methods(options.methods, console)
    rows = training_rows(open_table(options, console), options, console)
    labels, codes = np.unique(rows.X[options.task].to_numpy(), return_inverse=True)
    fold = outer_folds(rows, cv=options.cv, seed=options.seed)
    whole = f", whole groups of {options.groups!r}" if options.groups else ""
    console.say(f"{len(rows.y):,} rows, {len(labels):,} tasks, {rows.X.shape[1] - 1} inputs; {options.cv} folds{whole}")
    contenders = {name: contender(name, options) for name in names}
    seconds = {name: options.time_limit or SECONDS.get(name, MOST_SECONDS) for name in names}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what a method says about one fold is of no use here
        outcomes = list(race(contenders, rows, fold, seconds=seconds, callback=console.callback))
    scores = Scores(outcomes, rows.y, codes)
    print_table(scores, console)
    sentences = verdict(scores)
    console.say()
    for sentence in sentences:
        console.say(sentence)
    advised = scores.advised() if scores.squared else None
    console.result({"table": scores.table(), "verdict": sentences, "use": advised, "folds": options.cv})


def print_table(scores: Scores, console: Console) -> None:
    """Errors, best first."""
    console.say("held-out error (RMSE) and its standard error over tasks")
    console.say()
    console.say(
        f"{'method':14s} {'shares':32s} {'mean over tasks':>20s} {'all rows':>20s} {'gain over own':>16s} {'time':>10s}"
    )
    for row in scores.table():
        name = row["method"]
        start = f"{name:14s} {(KINDS | EXTRA).get(name, ''):32s}"
        if "trouble" in row:
            console.say(f"{start} {row['trouble']}")
            continue
        cells = [f"{row[f'rmse_{kind}']:.4g} ± {row[f'rmse_{kind}_se']:.2g}" for kind in ("tasks", "pooled")]
        gain = (
            f"{100 * row['gain_over_own']:+.1f} ± {100 * row['gain_over_own_se']:.1f} %"
            if "gain_over_own" in row
            else ""
        )
        console.say(f"{start} {cells[0]:>20s} {cells[1]:>20s} {gain:>16s} {duration(row['seconds']):>10s}")
