"""Lines of a text file: the header and the separator, and, when reading failed, the line that is wrong and why."""

from __future__ import annotations

import codecs
import csv
import gzip
import lzma
import re
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from kinfolk.rows.texts import WRITTEN, ZEROS

LONGEST_LINE = 2**20  # characters
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
PROBE = 20  # lines that decide on the separator
SAMPLE = 2_000  # rows that decide on the types of columns, as long as the others agree; of dates, the first hundred
NO_MEMORY = re.compile("(?i)allocat|out of ?memory|code: 1[12]\\b|os error 1[12]\\b|WouldBlock")
PACKED = (".gz", ".zst", ".bz2", ".xz")
CUT = re.compile("(?i)unexpected end of file|incomplete frame|end-of-stream|unexpected eof|ended before|too short")
DAMAGED = re.compile("(?i)corrupt|checksum|invalid (data|block|stored|distance|code|gzip)|incorrect|descriptor|gzipped")
MARKS = {b"PAR1": ".parquet", b"ARRO": ".arrow", b"PK\x03\x04": ".xlsx or .zip"}  # of files that are no text


class Head(NamedTuple):
    """What the first lines say; the first name may be empty, for row labels."""

    names: list[str]
    separator: str
    bytes_per_row: float
    decimal: str = "."


def read_head(file: Path, reading: Any) -> Head:
    """Names of the columns and the separator; whatever else than a table the file is shows here."""
    with open_text(file, reading.encoding) as text:
        lines = list(islice(checked_lines(text, file.name, reading.encoding), PROBE))
    if not lines:
        raise ValueError(f"{file.name} is empty: the first line must name the columns")
    if not lines[0].strip():
        raise ValueError(
            f"{file.name}: the first line is blank, but must name the columns. Remove blank lines above it."
        )
    if lines[0].endswith("\r"):
        raise ValueError(
            f"{file.name}: lines end in a carriage return alone. Save it with line feeds (tr '\\r' '\\n')."
        )
    separator = reading.delimiter or separator_of(lines)
    names = [name.strip() for name in next(csv.reader(lines, delimiter=separator))]
    twice, times = Counter(names).most_common(1)[0]
    if times > 1:
        raise ValueError(f"{file.name} has two columns named {twice!r}: rename one of them in the header")
    nameless = [k + 1 for k, name in enumerate(names) if not name]
    if nameless and (nameless != [1] or len(names) == 1):
        raise ValueError(f"{file.name}: column {nameless[-1]} has no name in the header. Give it one.")
    rest = lines[1:] or lines
    return Head(names, separator, max(1.0, sum(map(len, rest)) / len(rest)), decimal_of(rest, separator))


def check_lines(file: Path, reading: Any, *, name: str) -> None:
    """Read a whole file line by line, for an error with the number of the line that is not like the header."""
    short = Path(name).name
    with open_text(file, reading.encoding) as text:
        lines = checked_lines(text, short, reading.encoding)
        head = read_head(file, reading)
        for line, values in _records(lines, head.separator, short):
            if len(values) != len(head.names):
                mark = SEPARATORS.get(head.separator, repr(head.separator))
                raise ValueError(
                    f"{short}, line {line}: {len(values)} values, but the header names {len(head.names)} columns "
                    f"(separated by {mark}). Quote values that contain the separator, or complete the line."
                )


def may_have_short_lines(file: Path, reading: Any) -> bool:
    """Whether some line has too few separators, or that is not known without reading all: `check_lines` then does.

    Separators inside quotes make lines look longer, and line breaks inside them shorter, which costs time only.
    """
    import polars as pl

    head = read_head(file, reading)
    if not is_utf8(file, reading.encoding) or file.suffix.lower() in (".bz2", ".xz"):
        return True
    lines = pl.scan_csv(
        file, separator="\0", quote_char=None, has_header=False, infer_schema=False, truncate_ragged_lines=True
    )
    line = pl.col(lines.collect_schema().names()[0])
    short = line.str.count_matches(head.separator, literal=True) < len(head.names) - 1
    return bool(lines.select((short & (line.str.len_bytes() > 0)).any()).collect().item())


def line_of_row(file: Path, reading: Any, row: int) -> int:
    """The line on which a row begins, rows counted from 0."""
    with open_text(file, reading.encoding) as text:
        lines = checked_lines(text, file.name, reading.encoding)
        records = _records(lines, read_head(file, reading).separator, file.name)
        return next(islice(records, row + 1, None))[0]


def is_utf8(file: Path, encoding: str) -> bool:
    """Whether polars can read the bytes as they are."""
    try:
        known = codecs.lookup(encoding).name
        "".encode(encoding)  # not all of them are encodings of text
    except LookupError:
        raise ValueError(
            f"unknown encoding {encoding!r}: give --encoding utf-8, latin-1, cp1252, utf-16, ..."
        ) from None
    with file.open("rb") as raw:
        return known in ("utf-8", "utf-8-sig", "ascii") and raw.read(2) not in (b"\xff\xfe", b"\xfe\xff")


@contextmanager
def open_text(file: Path, encoding: str) -> Iterator[TextIO]:
    """A text file for the csv module; undecodable bytes become surrogates, which `checked_lines` finds."""
    with file.open("rb") as raw:
        mark = raw.read(4)
    if 0 < len(mark) < 4 and file.suffix.lower() in PACKED:
        raise ValueError(packed_trouble(file, EOFError()))
    if mark in MARKS:
        raise ValueError(f"{file.name} is no text: it begins as a file ending in {MARKS[mark]} does. Rename it so.")
    if mark[:2] in (b"\xff\xfe", b"\xfe\xff"):
        encoding = "utf-16"
    elif is_utf8(file, encoding):
        encoding = "utf-8-sig"  # the byte order mark is no part of the first name
    options: dict[str, Any] = {"encoding": encoding, "errors": "surrogateescape", "newline": ""}
    if mark[:2] == b"\x1f\x8b":
        stream: Any = gzip.open(file, "rt", **options)  # noqa: SIM115
    elif mark == b"\x28\xb5\x2f\xfd":
        stream = _zstd(file)
    else:
        stream = file.open(**options)
    with stream as text, unpacking(file):
        yield text


@contextmanager
def unpacking(file: Path) -> Iterator[None]:
    """What libraries say about packed data that end too soon or make no sense, in one sentence with the file."""
    try:
        yield
    except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
        trouble = packed_trouble(file, error)
        if trouble is None:
            raise
        raise ValueError(trouble) from None


def packed_trouble(file: Path, error: BaseException) -> str | None:
    """What is wrong with a packed file, if the error is about that.

    >>> packed_trouble(Path("sales.csv.bz2"), EOFError())
    'sales.csv.bz2 is cut: its packed data end before the table does. Copy or download it again'
    >>> packed_trouble(Path("sales.csv"), OSError("disk full"))
    """
    if file.suffix.lower() not in PACKED:
        return None
    if isinstance(error, EOFError) or CUT.search(str(error)):
        return f"{file.name} is cut: its packed data end before the table does. Copy or download it again"
    if isinstance(error, (zlib.error, lzma.LZMAError)) or DAMAGED.search(str(error)):
        return f"{file.name} is damaged: its packed data make no sense ({first_line(error)}). Copy or download it again"
    return None


def _zstd(file: Path) -> TextIO:
    """The first lines of a file that only polars unpacks."""
    import polars as pl

    options: dict[str, Any] = {"separator": "\0", "quote_char": None, "has_header": False, "infer_schema": False}
    try:
        lines = pl.read_csv(file, n_rows=PROBE, truncate_ragged_lines=True, **options)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise ValueError(packed_trouble(file, error) or f"{file} cannot be unpacked: {first_line(error)}") from None
    return StringIO("\n".join(lines.to_series().to_list()), newline="")


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
                "again, or give --encoding utf-16 on the command line if that is how it was written."
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
            "Windows programs write) on the command line, or save the file as UTF-8."
        ) from None
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{name}, near line {number + 1}: not {error.encoding} ({error.reason}). Save the file as UTF-8, or "
            "give its --encoding on the command line."
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
    # Lines of unequal length are an error that is raised later; the header then decides.
    best = max(even or SEPARATORS, key=lambda mark: header[mark][0] if header[mark] else 0)
    return best if header[best] and header[best][0] > 1 else ","


def decimal_of(lines: list[str], separator: str) -> str:
    """The decimal mark: a comma if some numbers can only have that, and none can only have a point.

    Examples
    --------
    >>> decimal_of(["1.250,5;2,25"], ";"), decimal_of(["1,250;2.25"], ";"), decimal_of(["1,250"], ";")
    (',', '.', '.')
    """
    try:
        values = {value.strip() for row in csv.reader(lines, delimiter=separator) for value in row}
    except csv.Error:
        return "."
    as_point = {value for value in values if WRITTEN["."].fullmatch(value)}
    as_comma = {value for value in values if WRITTEN[","].fullmatch(value)}
    return "," if as_comma - as_point and not as_point - as_comma else "."


def _widths(lines: list[str], mark: str) -> list[int]:
    try:
        return [len(row) for row in csv.reader(lines, delimiter=mark) if row]
    except csv.Error:
        return []


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


def first_line(error: object) -> str:
    """What an error says first; a reader that broke down says nothing that helps."""
    if NO_MEMORY.search(str(error)):
        return "not enough memory, or too few threads, are allowed (ulimit -v, ulimit -u)"
    if type(error).__name__ == "PanicException":
        return "it is damaged, and its reader gave up. Write it again, or save it as CSV or Parquet"
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


def kinds_in_text(pl: Any, file: Path, *, full: bool, **options: Any) -> dict[str, Any]:
    """Types of the columns of a text file by its first rows; by all of them, dates among texts, if it is `full`.

    Whole numbers may be followed by others, so they are floats; those with zeros before them are codes, which are text.
    """
    kinds = dict(pl.scan_csv(file, infer_schema_length=None if full else SAMPLE, **options).collect_schema())
    dates = {} if full else pl.scan_csv(file, try_parse_dates=True, **options).collect_schema()
    kinds |= {name: dates[name] for name in dates if kinds[name] == pl.String and dates[name].is_temporal()}
    whole = [name for name, kind in kinds.items() if kind.is_integer()]
    if not whole:
        return kinds
    texts = pl.scan_csv(file, infer_schema=False, ignore_errors=True, truncate_ragged_lines=True, **options)
    padded = pl.all().str.strip_chars().str.contains(f"^{ZEROS.pattern}$").any()
    codes = texts.select(whole).head(SAMPLE).select(padded).collect().row(0)
    return kinds | {name: pl.String if code else pl.Float64 for name, code in zip(whole, codes, strict=True)}
