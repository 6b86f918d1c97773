"""The command `kinfolk`. Heavy imports stay inside the commands, so that help is instant."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NoReturn

from kinfolk.cli.console import Console
from kinfolk.cli.parser import build_parser

OK, ERROR, USAGE, INTERRUPTED, PIPE_CLOSED = 0, 1, 2, 130, 141
EXPECTED = (ValueError, TypeError, OSError, ImportError, MemoryError)


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns the exit code.

    0 done, 1 an error that one line explains, 2 wrong usage, 130 interrupted, 141 nobody reads the output any more.
    """
    parser = build_parser()
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help()
        return USAGE
    return run(options, Console(quiet=options.quiet, as_json=options.json))


def run(options: argparse.Namespace, console: Console) -> int:
    """Run the command of `options`, turning whatever stops it into one line and an exit code."""
    try:
        with warnings.catch_warnings(), _stopped_by_termination():
            _as_notes(console)
            import_module(f"kinfolk.cli.{options.command}").run(options, console)
            sys.stdout.flush()
        return OK
    except KeyboardInterrupt:
        console.clear()
        print("kinfolk: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # As other filters do when `head` has had enough; the interpreter must not flush into the closed pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
    except Exception as error:
        if options.debug:
            raise
        _tell(error, options, console)
        return ERROR
    finally:
        console.clear()


def _tell(error: Exception, options: argparse.Namespace, console: Console) -> None:
    """The error in one line."""
    console.clear()
    message = " ".join(_text(error).split())
    if not isinstance(error, EXPECTED):
        message = f"internal error ({type(error).__name__}: {message}). Run again with --debug and report what it shows"
    if options.json:
        print(json.dumps({"error": message}))
    print(f"kinfolk: {message}", file=sys.stderr)


def _text(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error) or type(error).__name__


def _as_notes(console: Console) -> None:
    """Warnings of the package become notices; those of other libraries stay out of the way."""

    def show(message: Any, category: type[Warning], *place: Any, **more: Any) -> None:
        if issubclass(category, UserWarning):
            console.note(str(message))

    warnings.simplefilter("default")
    # Said in our own words, or of no concern: files are matched to models by their columns' names.
    warnings.filterwarnings("ignore", message="Found unknown categories|.*feature names", category=UserWarning)
    warnings.showwarning = show


@contextmanager
def _stopped_by_termination() -> Iterator[None]:
    """A polite kill ends as an interrupt does: temporary files go. Only the main thread can hear it."""

    def stop(*_: Any) -> NoReturn:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
