"""All cells of an experiment, in parallel; what is stored already is not computed again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import joblib
from threadpoolctl import threadpool_limits

from kinfolk.progress import Callback, report
from kinfolk.reproduce.cells import Cell, compute_cell, read_cell

Results = dict[str, dict[str, dict[int, dict[str, Any]]]]


def compute_missing(cells: list[Cell], folder: Path, *, n_jobs: int, callback: Callback | None) -> list[str]:
    """Compute and store the cells that have no file yet, cheap ones first; returns what failed, in words.

    Progress counts estimated seconds of work, so that the time left can be told although cells differ a hundredfold.
    """
    total = sum(cell.seconds for cell in cells)
    missing = sorted((c for c in cells if not c.path(folder).exists()), key=lambda cell: cell.seconds)
    done = total - sum(cell.seconds for cell in missing)
    failures = []
    report(callback, "reproduce", round(done), max(round(total), 1))
    jobs = (joblib.delayed(_attempt)(cell, folder) for cell in missing)
    for cell, failure in joblib.Parallel(n_jobs=n_jobs, return_as="generator_unordered", pre_dispatch="n_jobs")(jobs):
        done += cell.seconds
        if failure:
            failures.append(f"{cell.setting.title}, {cell.method}, run {cell.run}: {failure}")
        report(callback, "reproduce", round(done), max(round(total), 1))
    return failures


def _attempt(cell: Cell, folder: Path) -> tuple[Cell, str]:
    """One cell; one failure must not end a long run, and a failed cell is tried again by the next."""
    try:
        with threadpool_limits(1):
            compute_cell(cell, folder)
    except Exception as error:
        return cell, f"{type(error).__name__}: {error}"
    return cell, ""


def stored(cells: list[Cell], folder: Path) -> Results:
    """The results that are there: setting -> method -> run -> result."""
    found: Results = {}
    for cell in cells:
        result = read_cell(cell, folder)
        if result is not None:
            found.setdefault(cell.setting.key, {}).setdefault(cell.method, {})[cell.run] = result
    return found
