"""`python -m kinfolk.reproduce`: the same as `run`, with a line of progress."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from kinfolk.progress import Callback, Progress
from kinfolk.reproduce import run
from kinfolk.reproduce.settings import PARTS


def progress_line(started: float) -> Callback:
    """A callback that writes the share done and the time left."""

    first: list[int] = []

    def show(step: Progress) -> None:
        if not first:
            first.append(step.done)
        spent, gained = time.perf_counter() - started, step.done - first[0]
        left = f", about {spent / gained * (step.total - step.done) / 60:.0f} min left" if gained > 0 else ""
        sys.stderr.write(f"\r{step.done / step.total:4.0%} of {step.total} s of work{left}    ")
        sys.stderr.flush()

    return show


def main(arguments: list[str] | None = None) -> int:
    """Parse, run, say where the page is."""
    parser = argparse.ArgumentParser(
        prog="python -m kinfolk.reproduce", description="Reproduce the paper's experiments."
    )
    parser.add_argument("which", nargs="?", default="all", choices=[*PARTS, "all"])
    parser.add_argument("--out", type=Path, default=Path("kinfolk-reproduction"), help="folder (%(default)s)")
    parser.add_argument("--quick", action="store_true", help="one run of a few settings, in minutes")
    parser.add_argument("--jobs", type=int, default=2, help="processes (%(default)s)")
    parser.add_argument("--into", type=Path, help="a Markdown document whose end the tables replace")
    options = parser.parse_args(arguments)
    show = progress_line(time.perf_counter())
    page = run(options.which, options.out, quick=options.quick, n_jobs=options.jobs, callback=show)
    sys.stderr.write(f"\n{page}\n")
    if options.into:
        from kinfolk.reproduce.page import insert_tables

        insert_tables(page.with_suffix(".md"), options.into)
    return 0


if __name__ == "__main__":
    sys.exit(main())
