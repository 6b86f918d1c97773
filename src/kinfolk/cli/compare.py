"""kinfolk compare: every method beside the honest alternatives, on the user's own table."""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from typing import Any

from kinfolk.cli.console import Console
from kinfolk.cli.fit import gains_record, targets_of
from kinfolk.cli.tables import open_table, training_rows
from kinfolk.judge.comparison import compare_rows, expected_time
from kinfolk.judge.contestants import contestants
from kinfolk.methods.ridges import Independent
from kinfolk.words import counted


def run(options: argparse.Namespace, console: Console) -> None:
    """Compare, print the table, and say what to make of it."""
    if options.cv < 2:
        raise ValueError(f"--cv {options.cv}: a comparison needs at least 2 folds")
    training = training_rows(open_table(options, console), options, console)
    targets = targets_of(options, training.y, console, training.classes)
    rows = Independent(task=options.task, **targets).read(training.X, training.y)

    def encoder(scale: bool) -> Any:
        return training.features(scale=scale, but=targets)

    about = {"cv": options.cv, "random_state": options.seed, "n_jobs": options.jobs, "targets": targets}
    chosen = contestants(options.methods, encoder, **about)
    if not options.methods and find_spec("lightgbm") is None:
        console.note("lightgbm is not installed and not compared: pip install 'kinfolk[boosting]'")
    dealt = f", whole groups of {options.groups!r}" if options.groups else ""
    dealt = f", in the order of {options.time!r}" if options.time else dealt
    tasks = counted(len(rows.schema.labels), "task")
    size = f"{counted(len(rows.y), 'row')}, {tasks}, {counted(rows.table.width, 'feature column')}"
    console.say(f"{size}; {options.cv} folds{dealt}")
    takes = expected_time(chosen, len(rows.y), options.cv, options.time_limit)
    console.note(f"comparing {counted(len(chosen), 'method')} takes {takes}")
    comparison = compare_rows(
        rows,
        chosen,
        encoder,
        cv=options.cv,
        groups=training.groups,
        time_limit=options.time_limit,
        random_state=options.seed,
        callback=console.callback,
        family=targets["family"],
    )
    for line in (comparison.heading, "", *comparison.lines(), "", *comparison.verdict):
        console.say(line)
    record = {name: getattr(comparison, name) for name in ("verdict", "use", "folds")}
    gains = comparison.gains and gains_record(comparison.gains)
    console.result(record | {"table": comparison.table(), "gains": gains})
