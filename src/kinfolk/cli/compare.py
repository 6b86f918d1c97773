"""kinfolk compare: every method beside the honest alternatives, on the user's own table."""

from __future__ import annotations

import argparse
from functools import partial
from importlib.util import find_spec
from typing import Any

<<<<<<< HEAD
from kinfolk.cli.columns import training_rows
from kinfolk.cli.console import Console
from kinfolk.cli.encoding import transformer
from kinfolk.cli.fit import roles_of
from kinfolk.cli.tables import read_options
from kinfolk.judge.comparison import HEADING, compare_rows
from kinfolk.judge.contestants import contestants
from kinfolk.readers import read_file
from kinfolk.rows.tasks import read_rows
=======
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
>>>>>>> 9ffaeef82b1e4dbf8876d6d80f94018ab9481be8


def run(options: argparse.Namespace, console: Console) -> None:
    """Compare, print the table, and say what to make of it."""
    if options.cv < 2:
        raise ValueError(f"--cv {options.cv}: a comparison needs at least 2 folds")
<<<<<<< HEAD
    asked = roles_of(options)
    frame = read_file(options.data, text=asked.text, notify=console.note, **read_options(options))
    training = training_rows(frame, asked, console.note)
    rows = read_rows(training.X, training.y, task=options.task)
    encoder = partial(_transformer, training)
    chosen = contestants(options.methods, encoder, cv=options.cv, random_state=options.seed, n_jobs=options.jobs)
    if not options.methods and find_spec("lightgbm") is None:
        console.note("lightgbm is not installed and not compared: pip install 'kinfolk[boosting]'")
=======
    names = chosen_methods(options.methods, console)
    rows = training_rows(open_table(options, console), options, console)
    labels, codes = np.unique(rows.X[options.task].to_numpy(), return_inverse=True)
    fold = outer_folds(rows, cv=options.cv, seed=options.seed)
>>>>>>> 9ffaeef82b1e4dbf8876d6d80f94018ab9481be8
    whole = f", whole groups of {options.groups!r}" if options.groups else ""
    tasks = len(rows.schema.labels)
    console.say(f"{len(rows.y):,} rows, {tasks:,} tasks, {rows.table.width} inputs; {options.cv} folds{whole}")
    found = compare_rows(
        rows,
        chosen,
        encoder,
        cv=options.cv,
        groups=training.groups,
        time_limit=options.time_limit,
        random_state=options.seed,
        callback=console.callback,
    )
    for line in (HEADING, "", *found.lines(), "", *found.verdict):
        console.say(line)
    console.result({"table": found.table(), "verdict": found.verdict, "use": found.use, "folds": found.folds})


def _transformer(training: Any, scale: bool) -> Any:
    return transformer(training.X.columns[1:], training.categories, scale=scale)
