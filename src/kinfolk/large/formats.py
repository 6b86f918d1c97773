"""Parquet, Arrow and CSV files as streams of Arrow batches: one pair of functions per format."""

from __future__ import annotations

import csv
import mmap
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kinfolk.large.arrow import arrow

CSV_BLOCK = 2**24  # bytes of text parsed at a time


class Request(NamedTuple):
    """What to read: columns, those of them that are labels or are to be kept as found, and how.

    Attributes
    ----------
    columns : names, all of which the file has; numbers, where nothing else is said
    labels : of them, labels, which may come as dictionaries of text
    raw : of them, those to be taken as they are
    rows : about how many at a time
    threads : whether to decode columns in parallel
    """

    columns: list[str]
    labels: list[str]
    raw: list[str]
    rows: int
    threads: bool


class Format(NamedTuple):
    """How to see the schema of a file, and how to stream some of its columns with the share of the file read."""

    schema: Callable[[Path], Any]
    batches: Callable[[Path, Request], Iterator[tuple[Any, float]]]


def _parquet_schema(file: Path) -> Any:
    return arrow().parquet.read_schema(file)


def _parquet(file: Path, request: Request) -> Iterator[tuple[Any, float]]:
    pa = arrow()
    schema = _parquet_schema(file)
    words = [
        n for n in request.labels if n in schema.names and schema.field(n).type in (pa.string(), pa.large_string())
    ]
    # Mapped into memory, since reading would copy everything once more.
    with file.open("rb") as raw:
        mapped = mmap.mmap(raw.fileno(), 0, access=mmap.ACCESS_READ)
    source = pa.BufferReader(pa.py_buffer(mapped))
    with pa.parquet.ParquetFile(source, pre_buffer=False, read_dictionary=words) as reader:
        done = 0
        for batch in reader.iter_batches(batch_size=request.rows, columns=request.columns, use_threads=request.threads):
            done += batch.num_rows
            _forget(mapped)
            yield batch, done / max(reader.metadata.num_rows, 1)


def _forget(mapped: mmap.mmap) -> None:
    """Give pages back that count as memory of this process; they stay in the system's cache."""
    if hasattr(mmap, "MADV_DONTNEED"):
        mapped.madvise(mmap.MADV_DONTNEED)


def _ipc_schema(file: Path) -> Any:
    with arrow().OSFile(str(file)) as raw:
        return _ipc_reader(raw, None)[0].schema


def _ipc(file: Path, request: Request) -> Iterator[tuple[Any, float]]:
    pa = arrow()
    included = [_ipc_schema(file).names.index(name) for name in request.columns]
    with pa.OSFile(str(file)) as raw:
        options = pa.ipc.IpcReadOptions(included_fields=included, use_threads=request.threads)
        reader, count = _ipc_reader(raw, options)
        if count is None:  # a stream without an index
            yield from ((batch, raw.tell() / max(raw.size(), 1)) for batch in reader)
        else:
            yield from ((reader.get_batch(k), (k + 1) / count) for k in range(count))


def _ipc_reader(raw: Any, options: Any) -> tuple[Any, int | None]:
    pa = arrow()
    try:
        reader = pa.ipc.open_file(raw, options=options)
        return reader, reader.num_record_batches
    except pa.ArrowInvalid:
        raw.seek(0)
        return pa.ipc.open_stream(raw, options=options), None


def _csv_schema(file: Path) -> Any:
    """Names only: numbers are read as float64, labels as text, whatever the first rows look like."""
    pa = arrow()
    names, _ = _header(file)
    return pa.schema([(name, pa.float64()) for name in names])


def _header(file: Path) -> tuple[list[str], str]:
    """Names of the columns and the separator, from the first lines."""
    from kinfolk.readers.lines import PROBE, separator_of

    with arrow().input_stream(str(file), compression="detect") as stream:
        lines = stream.read(2**16).decode("utf-8-sig", errors="replace").splitlines()[:PROBE]
    if not lines:
        raise ValueError(f"{file} is empty: the first line must name the columns")
    separator = separator_of(lines[:-1] or lines)
    return next(csv.reader(lines, delimiter=separator)), separator


def _csv(file: Path, request: Request) -> Iterator[tuple[Any, float]]:
    from kinfolk.readers.text import MISSING

    pa = arrow()
    names, separator = _header(file)
    words = pa.dictionary(pa.int32(), pa.string())
    convert = pa.csv.ConvertOptions(
        column_types={
            name: words if name in request.labels else pa.float64()
            for name in request.columns
            if name not in request.raw
        },
        include_columns=request.columns,
        null_values=sorted(MISSING),
        strings_can_be_null=True,
    )
    read = pa.csv.ReadOptions(block_size=CSV_BLOCK, use_threads=request.threads)
    parse = pa.csv.ParseOptions(delimiter=separator, newlines_in_values=False)
    with pa.OSFile(str(file)) as raw:
        packed = file.suffix[1:].lower()
        stream = raw if packed in ("csv", "tsv") else pa.CompressedInputStream(raw, packed.replace("gz", "gzip"))
        try:
            with pa.csv.open_csv(stream, read, parse, convert) as reader:
                for batch in reader:
                    yield batch, min(raw.tell() / max(raw.size(), 1), 1.0)
        except pa.ArrowInvalid as error:
            raise ValueError(_csv_trouble(str(error), names, file)) from None


def _csv_trouble(error: str, names: Sequence[str], file: Path) -> str:
    """Arrow's message with the column by its name."""
    column = re.search(r"column #(\d+)", error)
    value = re.search(r"invalid value '(.*)'", error)
    if column is None or value is None:
        return f"{file} cannot be read as CSV: {first_line(error)}"
    name = names[int(column.group(1))]
    return (
        f"column {name!r} of {file} is not numeric: it holds {value.group(1)!r}. Write it as numbers (with a decimal "
        f"point), leave it out with drop={[name]!r}, or name it as the task column."
    )


def first_line(error: object) -> str:
    """What an error says first."""
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


PARQUET, IPC, CSV = Format(_parquet_schema, _parquet), Format(_ipc_schema, _ipc), Format(_csv_schema, _csv)
FORMATS = {
    "parquet": PARQUET,
    "pq": PARQUET,
    "arrow": IPC,
    "feather": IPC,
    "ipc": IPC,
    "csv": CSV,
    "tsv": CSV,
}
