"""CSV files by Python's own reader: numbers where all values are numbers, text elsewhere, errors with line numbers."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.readers.frame import Frame
from kinfolk.readers.lines import PROBE, SEPARATORS, checked_lines, open_text, separator_of

BLOCK = 20_000  # rows held as text at a time
MISSING = frozenset({"", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NAN", "null", "NULL", "None", "?"})


def read_csv(
    path: Path,
    *,
    delimiter: str | None = None,
    encoding: str = "utf-8",
    decimal: str = ".",
    text: Iterable[str] = (),
    notify: Callable[[str], object] = lambda message: None,
) -> Frame:
    """Read a CSV file with a header.

    Parameters
    ----------
    path : the file
    delimiter : separator of values; by default found in the first lines, and said if it is not a comma
    encoding : of the text; a byte order mark is understood
    decimal : "." or ","
    text : columns to keep as they are written, whatever they hold
    notify : called with what was assumed, in a sentence
    """
    as_text = set(text)
    while True:
        with open_text(path, encoding) as file:
            lines = checked_lines(file, path.name, encoding)
            first = list(islice(lines, PROBE))
            mark = delimiter or separator_of(first)
            names, rows = _rows(chain(first, lines), mark, path.name)
            columns, found_text = _columns(names, rows, as_text, decimal)
        if not found_text:  # else numbers were followed by text: read again, to keep the text of the numbers too
            break
        as_text |= found_text
    if not columns.lines:
        raise ValueError(f"{path.name} has a header but no rows")
    if delimiter is None and mark != ",":
        notify(f"{path.name}: values are separated by {SEPARATORS[mark]}")
    return columns.frame(path.name, notify)


class _Columns:
    """Blocks of columns as they are read."""

    def __init__(self, names: list[str]) -> None:
        self.parts: dict[str, list[NDArray[Any]]] = {name: [] for name in names}
        self.lines: list[int] = []

    def frame(self, source: str, notify: Callable[[str], object]) -> Frame:
        """The whole table; a nameless first column is what data frames write for their row labels."""
        values = {name: np.concatenate(parts) for name, parts in self.parts.items()}
        if "" in values:
            del values[""]
            notify(f"{source}: the first column has no name and is left out as row labels")
        return Frame(values, np.array(self.lines), source)


def _columns(
    names: list[str], rows: Iterator[tuple[int, list[str]]], as_text: set[str], decimal: str
) -> tuple[_Columns, set[str]]:
    """All columns, and those that turned from numbers to text after the first block."""
    columns, found_text = _Columns(names), set()
    while block := list(islice(rows, BLOCK)):
        columns.lines.extend(line for line, _ in block)
        for name, values in zip(names, zip(*(row for _, row in block), strict=True), strict=True):
            parts = columns.parts[name]
            was_text = bool(parts) and parts[0].dtype == object
            column = None if name in as_text or was_text else numbers(values, decimal)
            if column is None and parts and not was_text and name not in as_text:
                found_text.add(name)
            parts.append(words(values) if column is None else column)
    return columns, found_text


def numbers(values: Iterable[str], decimal: str = ".") -> NDArray[np.float64] | None:
    """The values as floats, NaN where nothing stands; None if one of them is not a number.

    Examples
    --------
    >>> numbers(["1", "", "2.5e3"]), numbers(["1", "x"])
    (array([1.0e+00,     nan, 2.5e+03]), None)
    """
    values = list(values)
    if decimal == ",":
        values = [value.replace(".", "x").replace(",", ".") for value in values]
    try:
        return np.array(values, dtype=np.float64)
    except ValueError:
        pass
    try:
        return np.array(["nan" if value.strip() in MISSING else value for value in values], dtype=np.float64)
    except ValueError:
        return None


def words(values: Iterable[str]) -> NDArray[Any]:
    """The values as text, None where nothing stands."""
    stripped = [value.strip() for value in values]
    return np.array([None if value in MISSING else value for value in stripped], dtype=object)


def _rows(lines: Iterator[str], delimiter: str, name: str) -> tuple[list[str], Iterator[tuple[int, list[str]]]]:
    """The names of the columns, and numbered rows of as many values."""
    records = _records(lines, delimiter, name)
    first = next(records, None)
    if first is None:
        raise ValueError(f"{name} is empty: the first line must name the columns")
    names = [value.strip() for value in first[1]]
    _check_names(names, name)
    return names, _even(records, names, delimiter, name)


def _records(lines: Iterator[str], delimiter: str, name: str) -> Iterator[tuple[int, list[str]]]:
    """Values of every line that has any, with the number of the line on which they begin."""
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    while True:
        begin = reader.line_num + 1
        try:
            values = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise ValueError(f"{name}, line {begin}: {_quote_trouble(str(error))}") from None
        if values:
            yield begin, values


def _quote_trouble(error: str) -> str:
    if "unexpected end" in error or "field larger" in error:
        return "a quote is opened and not closed within 131,072 characters. Close it, or remove it."
    return f"{error}. Inside a quoted value, write a quote as two."


def _even(
    records: Iterator[tuple[int, list[str]]], names: list[str], delimiter: str, name: str
) -> Iterator[tuple[int, list[str]]]:
    for line, values in records:
        if len(values) != len(names):
            mark = SEPARATORS.get(delimiter, repr(delimiter))
            raise ValueError(
                f"{name}, line {line}: {len(values)} values, but the header names {len(names)} columns (separated by "
                f"{mark}). Quote values that contain the separator, or complete the line."
            )
        yield line, values


def _check_names(names: list[str], name: str) -> None:
    twice = next((n for k, n in enumerate(names) if n in names[:k]), None)
    if twice:
        raise ValueError(f"{name} has two columns named {twice!r}: rename one of them in the header")
    nameless = [k + 1 for k, n in enumerate(names) if not n]
    if nameless and (nameless != [1] or len(names) == 1):
        raise ValueError(f"{name}: column {nameless[-1]} has no name in the header. Give it one.")
