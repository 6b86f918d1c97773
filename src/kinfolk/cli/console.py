"""What a command says: notices and a progress bar on stderr, results on stdout, as text or as JSON."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from kinfolk.progress import Callback, Progress

WIDTH = 24  # of the bar, in characters
PAUSE = 0.1  # seconds between two drawings


class Console:
    """Where the words of one command go.

    Parameters
    ----------
    quiet : neither notices nor a bar nor an account of the result
    as_json : the result as JSON on stdout in place of the account
    """

    def __init__(self, *, quiet: bool = False, as_json: bool = False) -> None:
        self.quiet, self.as_json = quiet, as_json
        self.notes: list[str] = []
        self.bar = Bar() if not quiet and sys.stderr.isatty() else None

    def note(self, message: str) -> None:
        """Something the person should know, once."""
        message = " ".join(message.split())
        if message in self.notes:
            return
        self.notes.append(message)
        if not self.quiet:
            self.clear()
            print(f"note: {message}", file=sys.stderr, flush=True)

    def say(self, line: str = "") -> None:
        """A line of the account of the result."""
        if not self.quiet and not self.as_json:
            self.clear()
            print(line, flush=True)

    def result(self, record: dict[str, Any]) -> None:
        """The result for a program, if one asked for it."""
        if self.as_json:
            self.clear()
            print(json.dumps({**record, "notes": self.notes}, indent=2, default=plain), flush=True)

    @property
    def callback(self) -> Callback | None:
        """What long work reports to: a function, since estimators are copied with their callback."""
        bar = self.bar
        return None if bar is None else lambda progress: bar(progress)

    def clear(self) -> None:
        """Take the bar off the screen."""
        if self.bar is not None:
            self.bar.clear()


class Bar:
    """One line on stderr: stage, bar, count and the time that is left at the pace so far.

    A stage begins anew when its count falls or its name changes; the pace is that of the stage.
    """

    def __init__(self, stream: Any = None, clock: Any = time.monotonic) -> None:
        self.stream, self.clock = stream or sys.stderr, clock
        self.stage, self.done, self.began, self.began_at = "", 0, clock(), 0
        self.drawn_at, self.shown = -1.0, False

    def __call__(self, progress: Progress) -> None:
        """Draw, unless it was drawn a moment ago."""
        now = self.clock()
        if progress.stage != self.stage or progress.done < self.done:
            # The work behind the first report began where the stage before ended.
            self.began, self.began_at = self.drawn_at if self.drawn_at >= 0 else self.began, 0
            self.stage = progress.stage
        self.done = progress.done
        if now - self.drawn_at < PAUSE and progress.done < progress.total:
            return
        self.drawn_at, self.shown = now, True
        self.stream.write("\r\x1b[K" + self.line(progress, now))
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
            self.stream.write("\r\x1b[K")
            self.stream.flush()
            self.shown = False


def duration(seconds: float) -> str:
    """Seconds as a person says them.

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


def plain(value: Any) -> Any:
    """NumPy numbers and arrays, and paths, as what JSON has."""
    return value.tolist() if hasattr(value, "tolist") else str(value)
