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

from kinfolk.cli.console import Console, as_options, printable
from kinfolk.cli.parser import build_parser
from kinfolk.files import FULL
from kinfolk.words import shortened

OK = 0
ERROR = 1
USAGE = 2
INTERRUPTED = 130
PIPE_CLOSED = 141
LONGEST = 4_000  # characters of an error: what libraries repeat of a query or table can be much longer
KILLED = ("TerminatedWorkerError", "BrokenProcessPool")
HOMES = {"reproduce": "kinfolk.experiments.command"}  # of commands that stand elsewhere
EXPECTED = (ValueError, TypeError, OSError, ImportError, MemoryError)


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns the exit code.

    0 done, 1 an error that one line explains, 2 wrong usage, 130 interrupted, 141 the output pipe was closed.
    """
    try:
        parser = build_parser()
        options = parser.parse_args(arguments)
        if options.command is None:
            parser.print_help()
            return USAGE
        with _without_noise(options.debug):
            return run(options, Console(quiet=options.quiet, as_json=options.json))
    except KeyboardInterrupt:  # at any time: also before the command has begun, and after it has ended
        print("kinfolk: interrupted", file=sys.stderr)
        return INTERRUPTED


def run(options: argparse.Namespace, console: Console) -> int:
    """Run the command of `options`, turning whatever stops it into one line and an exit code."""
    try:
        with warnings.catch_warnings(), _stopped_by_termination():
            _as_notes(console)
            import_module(HOMES.get(options.command, f"kinfolk.cli.{options.command}")).run(options, console)
            sys.stdout.flush()
        return OK
    except BrokenPipeError:
        # `kinfolk graph ... | head` ends here; without this the interpreter would flush into the closed pipe at exit.
        _leave_stdout()
        return PIPE_CLOSED
    except BaseException as error:
        panicked = type(error).__name__ == "PanicException"  # of a library in Rust, and no Exception
        if options.debug or not (panicked or isinstance(error, Exception)):
            raise
        _print_error(error, options, console)
        return ERROR
    finally:
        console.clear()


def _print_error(error: BaseException, options: argparse.Namespace, console: Console) -> None:
    """The error in one line."""
    console.clear()
    message = str(error) or type(error).__name__
    if isinstance(error, MemoryError):
        message = f"not enough memory ({message})"
    if type(error).__name__ in KILLED:
        message = "a worker process was killed, perhaps as memory ran out: fewer --jobs take less"
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        message = f"{error.filename}: {error.strerror}"
    message = as_options(" ".join(message.split()))
    if not options.debug:
        message = shortened(message, LONGEST)
    if not isinstance(error, EXPECTED) and type(error).__name__ not in KILLED:
        message = f"internal error ({type(error).__name__}: {message}). Run again with --debug and report what it shows"
    if isinstance(error, OSError) and error.errno in FULL and error.filename is None:
        message = f"standard output: {error.strerror}"
        _leave_stdout()
    elif options.json:
        print(json.dumps({"error": message}))
    print(printable(f"kinfolk: {message}"), file=sys.stderr)


def _leave_stdout() -> None:
    """What still waits to be written there is dropped: the interpreter would try again as it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _as_notes(console: Console) -> None:
    """Warnings of the package become notices; those of other libraries are not shown."""

    def show(message: Any, category: type[Warning], *place: Any, **more: Any) -> None:
        if issubclass(category, UserWarning):
            console.note(str(message))

    warnings.simplefilter("default")
    # The commands say the first themselves; the second is no problem, since files are matched by names of columns.
    warnings.filterwarnings("ignore", message="Found unknown categories|.*feature names", category=UserWarning)
    warnings.showwarning = show


@contextmanager
def _without_noise(debug: bool) -> Iterator[None]:
    """Stderr is for the command's own words: what libraries print there (panics, LAPACK) is shown with --debug."""
    voice = sys.stderr
    try:
        kept = -1 if debug or voice.fileno() != 2 else os.dup(2)
    except (OSError, AttributeError, ValueError):  # closed, or no file
        kept = -1
    if kept < 0:
        yield
        return
    voice.flush()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    sys.stderr = os.fdopen(kept, "w", buffering=1, encoding=voice.encoding, errors=voice.errors)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        sys.stderr.close()
        sys.stderr = voice


@contextmanager
def _stopped_by_termination() -> Iterator[None]:
    """SIGTERM ends the command as an interrupt does: temporary files go. Only the main thread can handle signals."""

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
