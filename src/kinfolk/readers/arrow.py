"""Parquet and Arrow files as NumPy columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.readers.frame import Frame
from kinfolk.rows.sources.files import open_source, polars

FORMATS = (".parquet", ".pq", ".arrow", ".feather", ".ipc")


def read_arrow(path: Path) -> Frame:
    """Read a whole Parquet or Arrow (IPC, Feather) file."""
    source = open_source(path)
    table = source.frame(source.names()).collect()
    if table.height == 0:
        raise ValueError(f"{path.name} has no rows")
    return Frame({name: _values(table[name]) for name in table.columns}, None, path.name)


def _values(column: Any) -> NDArray[Any]:
    """Numbers as floats or integers, truth values as booleans if none is missing, dates as dates, text as objects."""
    pl = polars()
    if column.dtype.is_decimal() or (column.dtype == pl.Boolean and column.null_count()):
        column = column.cast(pl.Float64)
    values = column.to_numpy()
    return np.asarray(values, dtype=object) if values.dtype.kind == "U" else values
