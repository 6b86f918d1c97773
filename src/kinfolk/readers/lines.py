"""Lines of a text file, checked as they come: encoding, length, NUL bytes; and the separator of their values."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

LONGEST_LINE = 2**20  # characters
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
PROBE = 20  # lines that decide on the separator


@contextmanager
def open_text(path: Path, encoding: str) -> Iterator[TextIO]:
    """A text file for the csv module; undecodable bytes become surrogates, which `checked_lines` finds."""
    with path.open("rb") as raw:
        mark = raw.read(2)
    if mark in (b"\xff\xfe", b"\xfe\xff"):
        encoding = "utf-16"
    elif encoding.lower().replace("_", "-") in ("utf-8", "utf8"):
        encoding = "utf-8-sig"  # the byte order mark is no part of the first name
    try:
        file = path.open(encoding=encoding, errors="surrogateescape", newline="")
    except LookupError:
        raise ValueError(
            f"unknown encoding {encoding!r}: give --encoding utf-8, latin-1, cp1252, utf-16, ..."
        ) from None
    with file:
        yield file


def checked_lines(file: TextIO, name: str, encoding: str) -> Iterator[str]:
    """Lines of the file; one that cannot be part of a table is an error with its number."""
    number = 0
    while line := _next_line(file, name, encoding, number):
        number += 1
        if len(line) > LONGEST_LINE:
            raise ValueError(
                f"{name}, line {number}: more than {LONGEST_LINE:,} characters without a line break. A table has one "
                "row per line: is this another kind of file?"
            )
        if "\0" in line:
            raise ValueError(
                f"{name}, line {number}: holds NUL bytes, so it is not plain text in {encoding}. Export it as CSV "
                "again, or give --encoding utf-16 if that is how it was written."
            )
        yield line


def _next_line(file: TextIO, name: str, encoding: str, number: int) -> str:
    """One line, of bounded length, every byte of which is a character."""
    try:
        line = file.readline(LONGEST_LINE + 1)
        if not line.isascii():
            line.encode()
    except UnicodeEncodeError as error:
        byte = ord(error.object[error.start]) - 0xDC00
        raise ValueError(
            f"{name}, line {number + 1}: byte 0x{byte:02x} is not {encoding}. Give --encoding latin-1 (or cp1252, as "
            "Windows programs write), or save the file as UTF-8."
        ) from None
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{name}, near line {number + 1}: not {error.encoding} ({error.reason}). Give its --encoding, or save the "
            "file as UTF-8."
        ) from None
    return line


def separator_of(lines: list[str]) -> str:
    """The separator that cuts the first lines into the same number of values, more than one; commas if none does.

    Examples
    --------
    >>> separator_of(["lot;x\\n", "a;1,5\\n"])
    ';'
    >>> separator_of(["lot,x\\n", "a,1;5\\n"])
    ','
    """
    header = {mark: _widths(lines[:1], mark) for mark in SEPARATORS}
    even = [mark for mark in SEPARATORS if len({*_widths(lines, mark)}) == 1 and header[mark][0] > 1]
    # Lines of unequal length are an error that is told later; the header then decides.
    best = max(even or SEPARATORS, key=lambda mark: header[mark][0] if header[mark] else 0)
    return best if header[best] and header[best][0] > 1 else ","


def _widths(lines: list[str], mark: str) -> list[int]:
    try:
        return [len(row) for row in csv.reader(lines, delimiter=mark) if row]
    except csv.Error:
        return []
