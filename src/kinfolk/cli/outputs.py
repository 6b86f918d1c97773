"""The one rule for files that commands write.

Checked before the work: an output is no input and no other output, its folder can be written to, and an existing file
is replaced only if it is what the command writes, or with --force. `-` is stdout.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

from kinfolk.cli.console import Console
from kinfolk.files import STDOUT, is_special, same_file

LOOK = 4096  # bytes at either end of a file that tell what it is
# What the first bytes, in small letters, and the last ones of a file say.
KINDS: dict[str, Callable[[bytes, bytes], bool]] = {
    "model": lambda head, tail: b"kinfolk model" in tail[-128:],
    "page": lambda head, tail: head.lstrip().startswith((b"<!doctype html", b"<html")),
    "picture": lambda head, tail: head.startswith(b"\x89png"),
    "table of predictions": lambda head, tail: b"prediction" in head.partition(b"\n")[0] or head.startswith(b"par1"),
    "table": lambda head, tail: head.startswith(b"car_park,when"),
    "graph": lambda head, tail: head.startswith((b"task,neighbor,weight", b"{")) or b"<graphml" in head,
}


def output_path(text: str) -> Path:
    """The path that an option names; `-` is stdout."""
    if "://" in text:
        raise argparse.ArgumentTypeError("what is written is a file, not a database: name one")
    return STDOUT if text == "-" else Path(text)


def check_outputs(
    outputs: dict[str, tuple[Path | None, str]],
    options: argparse.Namespace,
    console: Console,
    *,
    inputs: tuple[Path, ...] = (),
) -> None:
    """Find out before the work, not after it, that a file cannot or must not be written.

    Parameters
    ----------
    outputs : option -> path, or None if not asked for, and its kind, a key of `KINDS`
    inputs : files that the command reads
    """
    given = {option: path for option, (path, _) in outputs.items() if path is not None}
    for option, path in given.items():
        for read in inputs:
            if same_file(path, read) or (read.is_dir() and read.resolve() in path.resolve().parents):
                raise ValueError(f"{option} {path} is a file that is read ({read}): name another file to write")
        _check_place(path)
        if not options.force:
            _check_kind(option, path, outputs[option][1])
    for (one, first), (two, second) in combinations(given.items(), 2):
        # Where case matters two such names are two files, but nobody means that.
        alike = str(first.absolute()).casefold() == str(second.absolute()).casefold()
        if (alike or same_file(first, second)) and str(first) != os.devnull:
            raise ValueError(f"{one} {first} and {two} {second} are one file: name two")
    if STDOUT in given.values():
        console.leave_stdout()


def check_folder(option: str, folder: Path) -> None:
    """Find out before the work that files cannot be written to a folder."""
    if folder == STDOUT or (folder.exists() and not folder.is_dir()):
        raise NotADirectoryError(
            f"{option} {folder} is not a folder: several files are written, name a folder for them"
        )
    _check_place(folder / "file")


def _check_place(path: Path) -> None:
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: give the path of a file")
    if path.is_socket():
        raise ValueError(f"{path} is a socket, which cannot be opened by its name: write to a file or a pipe")
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if not folder.is_dir():
        raise NotADirectoryError(f"{path} cannot be written: {folder} is not a folder")
    if not is_special(path) and not os.access(folder, os.W_OK):
        raise PermissionError(f"{path} cannot be written: no permission for {folder}")


def _check_kind(option: str, path: Path, kind: str) -> None:
    """An existing file is empty, or what the command writes."""
    if is_special(path) or not path.exists():
        return
    if not os.access(path, os.W_OK):
        raise PermissionError(f"{option} {path} is write-protected: name another file, or replace it with --force")
    with path.open("rb") as file:
        head = file.read(LOOK)
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - LOOK, 0))
        tail = file.read(LOOK)
    if size and not KINDS[kind](head.lower(), tail):
        raise FileExistsError(
            f"{option} {path} exists and is not a {kind}: name another file, or replace it with --force"
        )
