"""Rows in the order of time: which part of them a fold is judged by, and which came before it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from kinfolk.rows.kinds import day_format, is_missing, number_in, parsed
from kinfolk.rows.tables import read_table
from kinfolk.rows.tasks import Rows
from kinfolk.words import counted, listed, warn_user

TIMES = re.compile(r"(?i)(.*[_ .-])?(date|year|quarter|month|week|day|hour|time|wave|period|age)s?")
NO_TIMES = re.compile(  # of a birth, and how long something takes; the date of a delivery is a time
    r"(?i)(.*[_ .-])?(birth.*|(duration|reaction|response|travel|waiting|delivery|lead)[_ .-]?(day|week|hour|time)s?)"
)
PERIOD = re.compile(r"(\d{4})[-/. ]?([QWM]?)(\d{1,2})")  # 2024-05, 2024Q2, 2024-W07
LEAST_TIMES = 4
JUDGED = 1 / 3  # of the parts in time; set on the tables of benchmarks/arena.py marked "tuned"
LEAST_JUDGED = 2  # parts: what one alone says may be its own


@dataclass(frozen=True, eq=False)
class InTime:
    """When each row was observed, in place of groups: folds then train on the past and are judged by what follows."""

    when: NDArray[np.intp]

    @classmethod
    def of(cls, time: Any, X: Any, n: int) -> Self:
        """From times, one per row, or the name of a column of X: numbers, dates, or dates as text."""
        if isinstance(time, str):
            table = read_table(X)
            values = table.column(table.position(time))
        else:
            values = np.asarray(time)
        if values.shape != (n,):
            raise ValueError(f"time has shape {values.shape}, expected ({n},): one time per row")
        if any(is_missing(value) for value in values.tolist()):
            raise ValueError("time is missing in some rows: fill it in or drop these rows")
        if values.dtype.kind in "OUS" and all(isinstance(value, str) for value in values.tolist()):
            values = _times_in(values.tolist())
        try:
            return cls(np.unique(values, return_inverse=True)[1].reshape(-1))
        except TypeError:
            kinds = listed(sorted({type(value).__name__ for value in values.tolist()}))
            why = f"it holds {kinds}, or dates with and without a time zone"
            raise ValueError(f"time cannot be put in order: {why}. Give numbers, or dates of one kind") from None

    def __getitem__(self, rows: Any) -> Self:
        return replace(self, when=self.when[rows])

    def folds(self, k: int) -> NDArray[np.intp]:
        """The fold of every row: k + 1 parts of about equal size, the first, -1, is never held out; equal times stay
        together."""
        count = np.bincount(self.when)
        middle = np.cumsum(count) - count / 2
        # Parts that no time falls into are not counted.
        part = np.unique(np.floor(middle / len(self.when) * (k + 1)), return_inverse=True)[1].reshape(-1)
        found = int(part.max())
        if found < 1:
            raise ValueError("all rows have the same time: folds in the order of time need at least 2 times")
        if found < k:
            warn_user(f"there are few different times: {counted(found, 'fold')} in place of cv={k}")
        return np.asarray(part[self.when] - 1)


def last_third(fold: NDArray[np.intp]) -> NDArray[np.intp]:
    """Folds in time of which the last third of all parts is judged; the others are -1, which is never held out.

    Models of the first few rows would favour what is simple.

    >>> last_third(np.array([-1, 0, 1, 2, 3, 4])).tolist()
    [-1, -1, -1, -1, 0, 1]
    """
    parts = int(fold.max()) + 2
    judged = min(max(LEAST_JUDGED, round(JUDGED * parts)), parts - 1)
    return np.maximum(fold - (parts - 1 - judged), -1)


def _times_in(texts: list[str]) -> NDArray[Any]:
    """Numbers that order times written as text: dates, numbers, or months, quarters and weeks of a year.

    >>> _times_in(["2024Q1", "2023Q4"]).tolist(), _times_in(["2024-05", "2023-12"]).argsort().tolist()
    ([202401, 202304], [1, 0])
    """
    different = sorted(set(texts))
    if day := day_format(different):
        return np.array([parsed(text, day) for text in texts])
    if all(number_in(text) is not None for text in different):
        return np.array([number_in(text) for text in texts])
    periods = [PERIOD.fullmatch(text) for text in texts]
    if len({match[2] if match else None for match in periods}) == 1 and periods[0]:
        return np.array([100 * int(match[1]) + int(match[3]) for match in periods if match])
    # Where most texts are times, the one that is none is what to mend.
    odd = [text for text in different if not (day_format([text]) or PERIOD.fullmatch(text))]
    if not odd:
        raise ValueError(f"time is written in several ways, like {texts[0]!r}: give numbers or dates of one kind")
    raise ValueError(f"time holds text like {odd[0]!r}: give numbers or dates")


def in_order(groups: Any, time: Any, X: Any, n: int) -> Any:
    """The groups that keep rows together, or the times that put folds in order."""
    if time is not None and groups is not None:
        raise ValueError("give groups or time: rows of equal time stay together as groups do")
    if time is not None:
        return InTime.of(time, X, n)
    return groups if groups is None or isinstance(groups, InTime) else np.asarray(groups)


def time_column(rows: Rows) -> str | None:
    """The name of a column by which the rows of every task follow each other, at times that tasks share."""
    for name, when in named_times(rows):
        assert rows.codes is not None
        count = int(when.max()) + 1
        once = len(np.unique(rows.codes * count + when)) == len(when)
        if once and LEAST_TIMES <= count <= len(when) / 2:
            return name
    return None


def named_times(rows: Rows) -> Iterator[tuple[str, NDArray[np.intp]]]:
    """The columns of a long table that are called times and hold some, and the number of every row's time."""
    for j, name in enumerate(rows.table.names or ()):
        if rows.codes is None or TIMES.fullmatch(name) is None or NO_TIMES.fullmatch(name):
            continue
        # Texts that are no dates, or gaps, are no times.
        with suppress(TypeError, ValueError):
            yield name, InTime.of(rows.table.column(j), None, len(rows.y)).when


def trains(fold: NDArray[np.intp], f: int) -> NDArray[np.bool_]:
    """Which rows train fold f: those of all others or, in time (where -1 is never held out), those before.

    >>> trains(np.array([0, 1, 2]), 1).tolist(), trains(np.array([-1, 0, 1]), 0).tolist()
    ([True, False, True], [True, False, False])
    """
    return fold < f if (fold < 0).any() else fold != f
