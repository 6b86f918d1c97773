"""What the columns of a file hold, and how they become numbers, names of tasks, or words in a message."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.readers import Frame
from kinfolk.readers.text import numbers

DATE = re.compile(r"(\d{4}([-/.])\d{1,2}\2\d{1,2}|\d{1,2}([-/.])\d{1,2}\3\d{2,4})([ T].*)?|\d{1,2}:\d{2}(:\d{2}.*)?")
INTEGER = re.compile(r"-?[1-9]\d{0,17}|0")
DECIMAL_COMMA = re.compile(r"[-+]?\d*,\d+")
TRUTH = {"true": 1.0, "false": 0.0}


def kind_of(column: NDArray[Any]) -> str:
    """What a column holds: number, truth, date, categories, mixed (numbers and some text), comma (numbers with a
    decimal comma), empty or other.

    Examples
    --------
    >>> [kind_of(np.array(v, dtype=object)) for v in (["a", None], ["true", "False"], ["2024-05-01"], ["1", "2", "x"])]
    ['categories', 'truth', 'date', 'mixed']
    """
    if column.dtype.kind in "iuf":
        return "number" if not len(column) or not np.isnan(column.astype(np.float64)).all() else "empty"
    if column.dtype.kind in "bM":
        return {"b": "truth", "M": "date"}[column.dtype.kind]
    present = [value for value in column if value is not None]
    if not present or not all(isinstance(value, str) for value in present):
        return "other" if present else "empty"
    if {value.lower() for value in present} <= set(TRUTH):
        return "truth"
    if all(DATE.fullmatch(value) for value in present[:100]):
        return "date"
    if any(DECIMAL_COMMA.fullmatch(value) for value in present) and numbers(present, ",") is not None:
        return "comma"
    numeric = sum(numbers([value]) is not None for value in present)
    return "mixed" if 2 * numeric >= len(present) else "categories"


def decimal_comma(frame: Frame, name: str) -> str:
    """The error for a column of numbers written with a comma."""
    first = next(value for value in frame[name] if value is not None and DECIMAL_COMMA.fullmatch(value))
    return f"column {name!r} of {frame.source} holds numbers with a decimal comma ({first!r}): give --decimal ,"


def text_among_numbers(frame: Frame, name: str) -> str:
    """The error for a column of numbers with text in it, with the first place."""
    column = frame[name]
    texts = [(row, value) for row, value in enumerate(column) if value is not None and numbers([str(value)]) is None]
    row, value = texts[0]
    more = f" (and {len(texts) - 1:,} more)" if len(texts) > 1 else ""
    return (
        f"{frame.source}, {frame.where(row)}: column {name!r} holds numbers, but here {value!r}{more}. Correct it, or "
        f"empty it and use --drop-missing, or take the column as categories: --categorical {quoted(name)}, or leave it "
        f"out: --drop {quoted(name)}"
    )


def as_number(frame: Frame, name: str) -> NDArray[np.float64]:
    """A column of numbers or truth values as floats; infinite ones are an error."""
    column = frame[name]
    if column.dtype == object:
        column = np.array([np.nan if value is None else TRUTH[value.lower()] for value in column])
    column = column.astype(np.float64)
    infinite = np.flatnonzero(np.isinf(column))
    if len(infinite):
        raise ValueError(
            f"{frame.source}, {frame.where(infinite[0])}: column {name!r} is infinite there. Correct it, or empty it "
            "and use --drop-missing"
        )
    return column


def task_labels(column: NDArray[Any]) -> NDArray[Any]:
    """Task names as integers if every one is written as one without leading zeros, else as they are written.

    Examples
    --------
    >>> task_labels(np.array(["7", "12"], dtype=object)), task_labels(np.array(["007", "12"], dtype=object))
    (array([ 7, 12]), array(['007', '12'], dtype='<U3'))
    """
    if column.dtype != object:
        return column
    if all(isinstance(value, str) for value in column):
        if all(INTEGER.fullmatch(value) for value in column):
            return column.astype(np.int64)
        return column.astype(str)
    return column


def quoted(name: str) -> str:
    """A name as the shell takes it."""
    return name if re.fullmatch(r"[\w.:/-]+", name) else f'"{name}"'


def listed(names: Iterable[str]) -> str:
    """Up to eight names."""
    names = list(names)
    return ", ".join(map(repr, names[:8])) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def counted(n: int, noun: str) -> str:
    """A number of things.

    >>> counted(1, "row"), counted(2500, "row")
    ('1 row', '2,500 rows')
    """
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def example(column: NDArray[Any]) -> Any:
    """A value of the column, for a message."""
    value = next((value for value in column if value is not None and value == value), None)
    return str(value) if isinstance(value, np.generic) else value
