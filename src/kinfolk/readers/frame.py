"""A table of named columns as it came from a file: NumPy arrays, and the line that each row stood on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Frame:
    """Columns by name: floats and integers, booleans, dates, or objects that are text or None where nothing stands.

    Every estimator takes one in place of a data frame, so that reading a file needs no further library.

    Attributes
    ----------
    values : the columns
    lines : line of the file for every row, or None where rows have no lines
    source : name of the file, for messages

    Examples
    --------
    >>> frame = Frame({"lot": np.array(["a", "b"]), "x": np.array([1.0, 2.0])})
    >>> frame.shape, frame.select(["x"])[:, [0]].tolist()
    ((2, 2), [[1.0], [2.0]])
    """

    values: dict[str, NDArray[Any]]
    lines: NDArray[np.intp] | None = None
    source: str = field(default="the table")

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return list(self.values)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return (len(next(iter(self.values.values()))) if self.values else 0), len(self.values)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Any:
        """A column by name; rows as `frame[rows, ...]`; columns as one array as `frame[:, positions]`."""
        if isinstance(key, str):
            return self.values[key]
        rows, columns = key
        if columns is Ellipsis:
            return self.take(rows)
        names = np.array(self.columns, dtype=object)[columns]
        return np.asarray(self.select([names] if isinstance(names, str) else list(names)))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        columns = list(self.values.values())
        number = all(column.dtype.kind in "iufb" for column in columns)
        array = np.empty(self.shape, dtype=np.float64 if number else object)
        for k, column in enumerate(columns):
            array[:, k] = column
        return array if dtype is None else array.astype(dtype)

    def select(self, names: Iterable[str]) -> Frame:
        """Some columns, in the order given."""
        return replace(self, values={name: self.values[name] for name in names})

    def take(self, rows: Any) -> Frame:
        """Some rows, by position or mask."""
        lines = None if self.lines is None else self.lines[rows]
        return replace(self, values={name: column[rows] for name, column in self.values.items()}, lines=lines)

    def where(self, row: int) -> str:
        """How a person finds a row: its line, or its number counted from 1."""
        return f"row {row + 1}" if self.lines is None else f"line {self.lines[row]}"

    def check_column(self, name: str, option: str) -> None:
        """An error that suggests the nearest name if there is no column `name`, which was asked for with `option`."""
        if name in self.values:
            return
        near = nearest(name, self.columns)
        guess = f" Did you mean {near!r}?" if near else ""
        listed = ", ".join(map(repr, self.columns[:8])) + (", ..." if len(self.columns) > 8 else "")
        single = (
            " There is only one: is the separator another one? Name it with --delimiter." if self.shape[1] == 1 else ""
        )
        raise ValueError(
            f"{self.source} has no column {name!r} ({option}).{guess} Its columns are {listed}.{single}".replace(
                "....", "..."
            )
        )


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that is most likely meant; capitals do not count.

    Examples
    --------
    >>> nearest("patiant", ["age", "Patient"])
    'Patient'
    """
    by_lower = {name.lower(): name for name in known}
    found = get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[found[0]] if found else None
