"""How long work reports on itself: one callback, and a bar that draws it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

WIDTH = 24  # of the bar, in characters
NEW_LINE = "\r\x1b[K"  # back to the beginning of the line, which is emptied
PAUSE = 0.1  # seconds between two drawings
LONG = 20.0  # seconds of a fit from which on the time that follows it is announced


class Progress(NamedTuple):
    """`done` of `total` steps of `stage` are finished; `value` is the objective or error reached, if there is one."""

    stage: str
    done: int
    total: int
    value: float | None = None


Callback = Callable[[Progress], object]


def report(callback: Callback | None, stage: str, done: int, total: int, value: float | None = None) -> None:
    """Tell the callback, if there is one."""
    if callback is not None:
        callback(Progress(stage, done, total, value))


class NotebookLine:
    """A stream for the bar in a notebook: one output that is replaced, since saved notebooks keep all of stderr."""

    def __init__(self, display: Any) -> None:
        self.display = display
        self.handle: Any = None

    def write(self, text: str) -> None:
        """Show a line in place of the one before."""
        shown = {"text/plain": text.removeprefix(NEW_LINE)}
        if self.handle is None:
            self.handle = self.display(shown, raw=True, display_id=True)
        else:
            self.handle.update(shown, raw=True)

    def flush(self) -> None:
        """Nothing waits."""


def line_of_this_program() -> Any:
    """Where a bar is drawn: the output of a notebook's cell, or stderr."""
    ipython = sys.modules.get("IPython")  # a kernel has imported it
    shell = None if ipython is None else ipython.get_ipython()
    return NotebookLine(ipython.display.display) if ipython is not None and hasattr(shell, "kernel") else sys.stderr


class Bar:
    """One line on stderr or in a notebook: stage, bar, count and the time that is left at the pace so far.

    A stage begins anew when its count falls or its name changes; the pace is that of the stage.
    """

    def __init__(self, stream: Any = None, clock: Any = time.monotonic) -> None:
        self.stream = stream or line_of_this_program()
        self.clock = clock
        self.stage = ""
        self.done = 0
        self.began = clock()
        self.drawn_at = -1.0
        self.shown = False

    @property
    def can_be_replaced(self) -> bool:
        """Whether a line goes away again: on a terminal and in a notebook, not in a file."""
        return isinstance(self.stream, NotebookLine) or self.stream.isatty()

    def __call__(self, progress: Progress) -> None:
        """Draw, unless it was drawn a moment ago."""
        now = self.clock()
        if progress.stage != self.stage or progress.done < self.done:
            self.stage = progress.stage
            if self.drawn_at >= 0:  # the work behind the first report began where the stage before ended
                self.began = self.drawn_at
        self.done = progress.done
        if now - self.drawn_at < PAUSE and progress.done < progress.total:
            return
        self.drawn_at = now
        self.shown = True
        self.stream.write(NEW_LINE + self.line(progress, now))
        self.stream.flush()

    def line(self, progress: Progress, now: float) -> str:
        """The text of the bar."""
        total = max(progress.total, 1)
        share = min(progress.done / total, 1.0)
        full = round(WIDTH * share)
        left = (now - self.began) * (total - progress.done) / max(progress.done, 1)
        tail = f", {duration(left)} left" if 0 < progress.done < total else ""
        return f"{progress.stage} [{'#' * full}{'.' * (WIDTH - full)}] {progress.done}/{total}{tail}"

    def clear(self) -> None:
        """Take the line off the screen."""
        if self.shown:
            self.stream.write(NEW_LINE)
            self.stream.flush()
            self.shown = False


def duration(seconds: float) -> str:
    """Seconds in words.

    Examples
    --------
    >>> duration(8.3), duration(200), duration(7260)
    ('8 s', '3 min 20 s', '2 h 1 min')
    """
    whole = max(round(seconds), 0)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def rest_of_fit(seconds: float, what: str = "the verdict") -> str:
    """What follows a long fit, which may take as long again.

    >>> rest_of_fit(221)
    'fitted in 3 min 41 s; the verdict follows, which may take as long again'
    """
    return f"fitted in {duration(seconds)}; {what} follows, which may take as long again"
