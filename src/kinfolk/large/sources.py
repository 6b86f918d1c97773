"""Files larger than memory, and folders of them, as a stream of Arrow tables."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

from kinfolk.large.arrow import Place, arrow
from kinfolk.large.formats import CSV, FORMATS, Format, Request, first_line

NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


class Piece(NamedTuple):
    """Some rows of a file, and how many bytes of all files have been read up to here."""

    table: Any
    place: Place
    done: int


@dataclass(frozen=True)
class Source:
    """A file or a folder of files of one format."""

    root: Path
    files: tuple[Path, ...]
    format: Format
    text: bool  # whether labels come as text

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.stat().st_size for file in self.files)

    def schema(self, file: Path) -> Any:
        """Arrow schema of one file, with the columns that its folders name (`shop=12/part.parquet`)."""
        pa = arrow()
        try:
            schema = self.format.schema(file)
        except (pa.ArrowException, OSError) as error:
            raise ValueError(f"{file} cannot be read as {_ending(file)}: {first_line(error)}") from None
        for name, array in self._folder_columns(file, 0).items():
            if name not in schema.names:
                schema = schema.append(pa.field(name, array.type))
        return schema

    def names(self) -> list[str]:
        """Columns of the first file."""
        names = list(self.schema(self.files[0]).names)
        twice = next((name for k, name in enumerate(names) if name in names[:k]), None)
        if twice is not None:
            raise ValueError(f"{self.files[0]} has two columns named {twice!r}: rename or drop one")
        return names

    def pieces(self, request: Request) -> Iterator[Piece]:
        """Tables of about so many rows as requested, file by file."""
        before = 0
        for file in self.files:
            size, first_row = file.stat().st_size, 0
            stored = [name for name in request.columns if name in self.format.schema(file).names]
            batches = self.format.batches(file, request._replace(columns=stored))
            for table, share in _of_about(request.rows, batches):
                for name, array in self._folder_columns(file, table.num_rows).items():
                    table = table if name in stored else table.append_column(name, array)
                yield Piece(table.select(request.columns), Place(str(file), first_row), before + int(share * size))
                first_row += table.num_rows
            before += size

    def _folder_columns(self, file: Path, rows: int) -> dict[str, Any]:
        """Constant columns by folders like `shop=12`: numbers if all folders of that name have numbers."""
        pa = arrow()
        columns = {}
        for key, value in _pairs(self.root, file).items():
            number = all(_is_number(_pairs(self.root, other).get(key)) for other in self.files)
            kind = pa.float64() if number else pa.string()
            scalar = pa.scalar(None if value == NO_VALUE else value, pa.string())
            columns[key] = pa.repeat(scalar.cast(kind), rows)
        return columns


def open_source(path: str | os.PathLike[str]) -> Source:
    """Find the files behind a path and how to read them."""
    root = Path(path)
    if not root.exists():
        raise FileNotFoundError(f"there is no file or folder {str(root)!r}")
    files = _files_below(root) if root.is_dir() else (root,)
    endings = sorted({_ending(file) for file in files})
    if not files or endings[0] not in FORMATS:
        known = ", ".join(f".{ending}" for ending in FORMATS)
        what = "holds no file that can be streamed" if root.is_dir() else "cannot be streamed"
        raise ValueError(f"{root} {what}: files end in {known}; CSV may be compressed (.csv.gz)")
    if len({FORMATS[ending] for ending in endings}) > 1:
        raise ValueError(f"{root} mixes files ending in {', '.join(endings)}: put each format in a folder of its own")
    return Source(root, files, FORMATS[endings[0]], FORMATS[endings[0]] is CSV)


def _files_below(folder: Path) -> tuple[Path, ...]:
    """Data files in order of their names; hidden ones and those like _SUCCESS are not data."""
    found = (file for file in sorted(folder.rglob("*")) if file.is_file() and _ending(file) in FORMATS)
    return tuple(f for f in found if not any(part[0] in "._" for part in f.relative_to(folder).parts))


def _ending(file: Path) -> str:
    suffixes = [s[1:].lower() for s in file.suffixes] or [""]
    packed = suffixes[-1] in ("gz", "bz2", "zst", "lz4") and len(suffixes) > 1 and suffixes[-2] in ("csv", "tsv")
    return suffixes[-2] if packed else suffixes[-1]


def _of_about(rows: int, batches: Iterator[tuple[Any, float]]) -> Iterator[tuple[Any, float]]:
    """Join small batches and cut large ones: between half as many rows and one and a half times as many."""
    from_batches = arrow().Table.from_batches
    held: list[Any] = []
    share = 0.0
    for batch, share in batches:
        for start in range(0, batch.num_rows, rows):
            held.append(batch.slice(start, rows))
            if 2 * sum(b.num_rows for b in held) >= rows:
                yield from_batches(held), share
                held = []
    if held:
        yield from_batches(held), share


def _pairs(root: Path, file: Path) -> dict[str, str]:
    parts = file.relative_to(root).parent.parts if file != root else ()
    pairs = (part.split("=", 1) for part in parts if "=" in part)
    return {unquote(key): unquote(value) for key, value in pairs}


def _is_number(value: str | None) -> bool:
    try:
        return value in (None, NO_VALUE) or float(str(value)) is not None
    except ValueError:
        return False
