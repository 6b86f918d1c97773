"""Tables from files: CSV without further libraries, Parquet and Arrow with pyarrow. Errors say where and what to do."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from kinfolk.readers.arrow import FORMATS, read_arrow
from kinfolk.readers.frame import Frame, nearest
from kinfolk.readers.text import read_csv

__all__ = ["FORMATS", "Frame", "checked_path", "nearest", "read_csv", "read_file"]


def read_file(
    path: str | os.PathLike[str],
    *,
    delimiter: str | None = None,
    encoding: str = "utf-8",
    decimal: str = ".",
    text: Iterable[str] = (),
    notify: Callable[[str], object] = lambda message: None,
) -> Frame:
    """Read a table by the ending of its name: .parquet, .arrow and .feather by pyarrow, everything else as CSV.

    Parameters
    ----------
    path : the file
    delimiter, encoding, decimal, text, notify : for CSV, see `read_csv`
    """
    path = checked_path(path)
    if path.suffix.lower() in FORMATS:
        return read_arrow(path)
    return read_csv(path, delimiter=delimiter, encoding=encoding, decimal=decimal, text=text, notify=notify)


def checked_path(path: str | os.PathLike[str]) -> Path:
    """The path, if a file is there to be read."""
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: give a file, e.g. {path / 'data.csv'}")
    if not path.exists():
        near = nearest(path.name, [p.name for p in path.parent.iterdir()]) if path.parent.is_dir() else None
        guess = f" Did you mean {str(path.with_name(near))!r}?" if near else ""
        raise FileNotFoundError(f"there is no file {str(path)!r}.{guess}")
    if path.suffix.lower() in (".xls", ".xlsx", ".ods", ".zip", ".gz", ".json", ".kin"):
        raise ValueError(f"{path.name} is not a CSV, Parquet or Arrow file: export or unpack it as one of these")
    return path
