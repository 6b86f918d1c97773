"""What a command prints: notices and a progress bar on stderr, results on stdout, as text or as JSON."""

from __future__ import annotations

import json
import re
import sys
from typing import Any

from kinfolk.progress import Bar, Callback
from kinfolk.words import plain

# How Python writes what the options of the command line set.
PYTHON = {
    r"""\bdrop=\[["']([^\]]*?)["']\]""": r"--drop \1",
    r"\bcv=(\d+)": r"--cv \1",
    r'\bunseen="(\w+)"': r"--unseen \1",
    r'\b(\w+)="(\w+)"': r"--set \1=\2",
    r" \(features=StandardScaler\(\)\)": "",
}


class Console:
    """The output of one command.

    Parameters
    ----------
    quiet : print neither notices nor a bar nor the result as text
    as_json : print the result as JSON instead of text
    """

    def __init__(self, *, quiet: bool = False, as_json: bool = False) -> None:
        self.quiet = quiet
        self.as_json = as_json
        self.notes: list[str] = []
        self.to_stderr = False
        self.bar = Bar() if not quiet and sys.stderr.isatty() else None

    def note(self, message: str) -> None:
        """Print a notice, once, and keep it for the JSON."""
        message = as_options(" ".join(message.split()))
        if message in self.notes:
            return
        self.notes.append(message)
        if not self.quiet:
            self.clear()
            print(printable(f"note: {message}"), file=sys.stderr, flush=True)

    def leave_stdout(self) -> None:
        """Stdout is for a file: the account of the result goes to stderr."""
        if self.as_json:
            raise ValueError("--json writes to stdout, and so does an output named -: name a file for it")
        self.to_stderr = True

    def say(self, line: str = "") -> None:
        """Print a line of the result as text."""
        if not self.quiet and not self.as_json:
            self.clear()
            print(printable(line), file=sys.stderr if self.to_stderr else sys.stdout, flush=True)

    def result(self, record: dict[str, Any]) -> None:
        """Print the result as JSON, if that is wanted."""
        if self.as_json:
            self.clear()
            print(json.dumps(plain({**record, "notes": self.notes}), indent=2, allow_nan=False), flush=True)

    @property
    def callback(self) -> Callback | None:
        """What long work reports its progress to."""
        bar = self.bar
        # A function, not the bar: estimators are copied with their callback, and a copied bar would not be cleared.
        return None if bar is None else lambda progress: bar(progress)

    def clear(self) -> None:
        """Take the bar off the screen."""
        if self.bar is not None:
            self.bar.clear()


def as_options(text: str) -> str:
    """Advice as the command line has it, where the text gives it as Python does.

    Examples
    --------
    >>> as_options('leave it out with drop=["x"], or use intercept="coupled"; 3 folds in place of cv=5')
    'leave it out with --drop x, or use --set intercept=coupled; 3 folds in place of --cv 5'
    """
    for pattern, option in PYTHON.items():
        text = re.sub(pattern, option, text)
    return text


def printable(text: str) -> str:
    r"""A text that moves no cursor and colours nothing: control characters are written as escapes.

    Examples
    --------
    >>> print(printable("shop \x1b[31m7 \u202e!"))
    shop \x1b[31m7 \u202e!
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
