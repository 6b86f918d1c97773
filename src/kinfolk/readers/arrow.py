"""Parquet and Arrow files by pyarrow, as NumPy columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.readers.frame import Frame

FORMATS = (".parquet", ".pq", ".arrow", ".feather", ".ipc")


def read_arrow(path: Path) -> Frame:
    """Read a whole Parquet or Arrow (IPC, Feather) file."""
    from kinfolk.large.arrow import arrow

    try:
        pa = arrow()
    except ImportError:
        raise ImportError(
            f"{path.name} is read with pyarrow: pip install 'kinfolk[large]', or export it as CSV"
        ) from None
    try:
        table = pa.parquet.read_table(path) if path.suffix.lower() in (".parquet", ".pq") else _read_ipc(path, pa)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        raise ValueError(f"{path.name} cannot be read as {path.suffix[1:]}: {_first_line(error)}") from None
    names = table.column_names
    twice = next((name for k, name in enumerate(names) if name in names[:k]), None)
    if twice:
        raise ValueError(f"{path.name} has two columns named {twice!r}: rename one of them")
    if table.num_rows == 0:
        raise ValueError(f"{path.name} has no rows")
    return Frame({name: _values(table[name], pa) for name in names}, None, path.name)


def _read_ipc(path: Path, pa: Any) -> Any:
    """An Arrow file, or a stream without an index."""
    with pa.OSFile(str(path)) as raw:
        try:
            return pa.ipc.open_file(raw).read_all()
        except pa.ArrowInvalid:
            raw.seek(0)
            return pa.ipc.open_stream(raw).read_all()


def _values(column: Any, pa: Any) -> NDArray[Any]:
    """Numbers as floats or integers, truth values as booleans if none is missing, dates as dates, text as objects."""
    column = column.combine_chunks()
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    values = column.to_numpy(zero_copy_only=False)
    if pa.types.is_boolean(column.type) and column.null_count:
        return np.array([np.nan if value is None else float(value) for value in values])
    return values


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
