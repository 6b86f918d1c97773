"""Commands in forked children, which a campaign may kill, starve or confuse: much cheaper than new interpreters.

The parent imports everything and computes nothing, so that no thread of a library is forked.
"""

from __future__ import annotations

import contextlib
import csv
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars  # noqa: F401  (forked with the child instead of imported by it)

from kinfolk.cli import main
from kinfolk.experiments.reproduction import methods, page, runner, settings  # noqa: F401
from kinfolk.store import archive

FEW = ("MeanShrunk", "Independent", "task mean")
PATIENCE = 60.0  # seconds for a command that nobody stops


def start(arguments: tuple[str, ...], folder: Path, before: Callable[[], None] = lambda: None, tag: str = "") -> int:
    """The process number of a child that runs a command in `folder`; its words go to files beside it."""
    child = os.fork()
    with contextlib.suppress(OSError):  # by both, as either may come first
        os.setpgid(child, child)
    if child:
        return child
    code = 99
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in background jobs of shells without a terminal
    try:
        for number, name in ((1, f"stdout{tag}"), (2, f"stderr{tag}")):
            os.dup2(os.open(f"{folder}.{name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        sys.stdout = os.fdopen(1, "w")
        sys.stderr = os.fdopen(2, "w")
        os.chdir(folder)
        for name in set(methods.METHODS) - set(FEW):
            del methods.METHODS[name]
        settings.SETTINGS = settings.SETTINGS[:1]
        before()
        code = main(list(arguments))
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 98
    except BaseException as error:
        sys.stderr.write(f"escaped: {type(error).__name__}: {error}\n")
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:  # whatever happens, a child never becomes a second parent
            os._exit(code)


def end(child: int, patience: float = PATIENCE) -> int:
    """The exit code of a child, negative for the signal that ended it."""
    limit = time.monotonic() + patience
    while time.monotonic() < limit:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    raise AssertionError(f"no end after {patience} s")


def run(*arguments: str, folder: Path, before: Callable[[], None] = lambda: None) -> int:
    """Run a command to its end."""
    return end(start(arguments, folder, before))


def words(folder: Path, tag: str = "") -> list[str]:
    """What a command said on stderr, without notices and progress."""
    text = Path(f"{folder}.stderr{tag}").read_text(encoding="utf-8", errors="replace")
    assert "Traceback" not in text and "escaped:" not in text and "panicked" not in text, text[-600:]
    return [line for line in text.replace("\r", "\n").splitlines() if line.strip() and not line.startswith("note: ")]


def write_table(path: Path, rng: np.random.Generator) -> Path:
    """A small table of shops."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["shop", "size", "open", "sales"])
        for k in range(60):
            size = rng.normal()
            writer.writerow([f"s{k % 5}", round(size, 4), k % 3, round(2 * size + k % 5 + 0.1 * rng.normal(), 4)])
    return path


def whole(path: Path) -> bool:
    """Whether an output is there whole, by what stands at its end."""
    data = path.read_bytes()
    if path.suffix == ".kin":
        with path.open("rb") as file:
            archive.open_archive(file)
        return True
    if path.suffix == ".html":
        return data.endswith(b"</html>\n")
    ends = {".json": b"}", ".png": b"IEND\xaeB`\x82", ".svg": b"</svg>"}
    return data.rstrip().endswith(ends[path.suffix]) if path.suffix in ends else data.endswith(b"\n")


FIT = ("fit", "t.csv", "--task", "shop", "--target", "sales", "--method", "independent", "--out", "m.kin")
