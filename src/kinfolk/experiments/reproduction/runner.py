"""All cells of an experiment, in parallel; what is stored already is not computed again."""

from __future__ import annotations

import os
import threading
import time
from functools import cache
from pathlib import Path

import joblib
from threadpoolctl import threadpool_limits

from kinfolk.experiments.reproduction.cells import Cell, cells_of, compute_cell, stored
from kinfolk.experiments.reproduction.page import write_reproduction
from kinfolk.experiments.reproduction.settings import chosen
from kinfolk.experiments.reproduction.splits import split
from kinfolk.progress import Callback, report


def run(which: str, out: Path, *, quick: bool = False, n_jobs: int = 2, callback: Callback | None = None) -> Path:
    """Reproduce a part of the paper, or all of it.

    Every finished cell (a method in a run of a setting) is a file in `out/cells`, so that a stopped run continues where
    it was. The page names the cells that failed; the next run tries them again.

    Parameters
    ----------
    which : "synthetic", "wiener", "birmingham", "parkinsons" or "all"
    out : folder for cells, tables, figures and the page
    quick : one run of a few settings; its cells count for the full version too
    n_jobs : processes
    callback : called with a `Progress` in seconds of estimated work

    Returns
    -------
    Path of the page, `out/reproduction.html`
    """
    out = Path(out)
    settings = chosen(which, quick=quick)
    for setting in {setting.source: setting for setting in settings}.values():
        split(setting, 0)  # missing data must show before the long work
    cells = [cell for setting in settings for cell in cells_of(setting, quick=quick)]
    failures = compute_missing(cells, out, n_jobs=n_jobs, callback=callback)
    return write_reproduction(settings, stored(cells, out), out, failures=failures)


def compute_missing(cells: list[Cell], folder: Path, *, n_jobs: int, callback: Callback | None) -> list[str]:
    """Compute and store the cells that have no file yet, cheap ones first; returns a sentence for each failure.

    Progress counts estimated seconds of work: cells differ a hundredfold, and the time left is to be a good guess.
    """
    total = sum(cell.seconds for cell in cells)
    missing = sorted((c for c in cells if not c.path(folder).exists()), key=lambda cell: cell.seconds)
    done = total - sum(cell.seconds for cell in missing)
    failures = []
    report(callback, "reproduce", round(done), max(round(total), 1))
    jobs = (joblib.delayed(_attempt)(cell, folder, os.getpid()) for cell in missing)
    for cell, failure in joblib.Parallel(n_jobs=n_jobs, return_as="generator_unordered", pre_dispatch="n_jobs")(jobs):
        done += cell.seconds
        if failure:
            failures.append(f"{cell.setting.title}, {cell.method}, run {cell.run}: {failure}")
        report(callback, "reproduce", round(done), max(round(total), 1))
    return failures


def _attempt(cell: Cell, folder: Path, parent: int) -> tuple[Cell, str]:
    """Compute one cell; an error becomes a sentence, since it must not end a long run."""
    if os.getpid() != parent:  # also if that is gone before the first cell
        _end_with(parent)
    try:
        with threadpool_limits(1):
            compute_cell(cell, folder)
    except Exception as error:
        return cell, f"{type(error).__name__}: {error}"
    return cell, ""


@cache
def _end_with(parent: int) -> None:
    """End this worker within a second of its parent, also when the parent was killed and could say nothing."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)  # from a thread, sys.exit would only end the thread

    threading.Thread(target=watch, daemon=True).start()
