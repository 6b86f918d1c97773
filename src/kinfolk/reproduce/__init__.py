"""The paper's experiments by one command: tables and figures, ours beside the published, every method scored alike.

`run` (or `python -m kinfolk.reproduce`) computes what is missing, cell by cell, and writes the tables (CSV, Markdown),
the figures and one HTML page. What must be read in which order: `paper` (published numbers), `settings` (experiments),
`splits` (rows), `methods` (contestants), `referee` (scores), `recovery` (structures), `cells`, `runner`, then
`tables`, `figures` and `page`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kinfolk.progress import Callback

__all__ = ["run"]


def run(which: str, out: Path, *, quick: bool = False, n_jobs: int = 2, callback: Callback | None = None) -> Path:
    """Reproduce a part of the paper, or all of it.

    Every finished cell (a method in a run of a setting) is a file in `out/cells`; a run that was stopped goes on where
    it was. A cell that fails is told on the page and tried again by the next run.

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
    from kinfolk.reproduce.cells import cells_of
    from kinfolk.reproduce.runner import compute_missing, stored
    from kinfolk.reproduce.settings import chosen
    from kinfolk.reproduce.splits import split

    out = Path(out)
    settings = chosen(which, quick=quick)
    cells = [cell for setting in settings for cell in cells_of(setting, quick=quick)]
    for setting in {setting.source: setting for setting in settings}.values():
        split(setting, 0)  # data that are missing are told before the long work
    failures = compute_missing(cells, out, n_jobs=n_jobs, callback=callback)

    from kinfolk.reproduce.page import write_report

    return write_report(settings, stored(cells, out), out, failures=failures)
