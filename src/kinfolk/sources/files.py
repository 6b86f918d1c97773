"""Files, and folders of them, as lazy frames of polars: one set of rules at every size."""

from __future__ import annotations

import bz2
import lzma
import os
import re
import shutil
import weakref
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Self
from urllib.parse import unquote

import narwhals as nw

from kinfolk.files import naming_full_disk
from kinfolk.rows.table import JOINT, joint_parts
from kinfolk.rows.texts import MISSING, NO_DIGITS, TRUTH, WRITTEN
from kinfolk.sources.lines import (
    SEPARATORS,
    Head,
    check_lines,
    first_line,
    is_utf8,
    kinds_in_text,
    open_text,
    packed_trouble,
    read_head,
    unpacking,
)
from kinfolk.sources.roles import nearest, with_joint

KINDS = {
    **dict.fromkeys(("parquet", "pq"), "parquet"),
    **dict.fromkeys(("arrow", "feather", "ipc"), "arrow"),
    **dict.fromkeys(("ndjson", "jsonl"), "ndjson"),
    **dict.fromkeys(("xlsx", "xls", "xlsb", "ods"), "excel"),
    **dict.fromkeys(("csv", "tsv", "txt"), "csv"),
}
UNPACKED = {"gz": None, "zst": None, "bz2": bz2.open, "xz": lzma.open}  # None: polars does it on the way
REFUSED = ("zip", "tar", "kin", "json", "html", "pdf")
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
MOST_COLUMNS = 5_000  # statistics of a task have so many numbers squared


def polars() -> Any:
    """The polars module."""
    try:
        import polars as pl

        pl.Series()  # where its library could not be loaded, polars says so only when it is used
    except ImportError:
        raise ImportError("files are read with polars: pip install 'kinfolk[files]'") from None
    except NameError:
        raise MemoryError("polars could not be loaded: give more memory (ulimit -v), or install it again") from None
    return pl


@dataclass(frozen=True)
class Reading:
    """How text files are written; None for what is found in the first lines."""

    delimiter: str | None = None
    encoding: str = "utf-8"
    decimal: str | None = None


@dataclass(frozen=True)
class Source:
    """A file or a folder of files of one kind.

    Attributes
    ----------
    root : what was asked for
    files : in the order of their names
    kind : "csv", "parquet", "arrow", "ndjson" or "excel"
    reading : how text is written
    """

    root: Path
    files: tuple[Path, ...]
    kind: str
    reading: Reading = field(default_factory=Reading)
    joint: str | None = None

    def joining(self, task: Any) -> Self:
        """The source with a column for what `task` joins, if it does."""
        return replace(self, joint=task) if joint_parts(task, self.names()) else self

    @property
    def parts(self) -> list[str]:
        """The columns that are joined."""
        return [] if self.joint is None else self.joint.split(JOINT)

    def joined(self, frame: Any) -> Any:
        """A lazy frame of polars with the joint column."""
        return frame if self.joint is None else with_joint(nw.from_native(frame), self.joint).to_native()

    @property
    def text(self) -> bool:
        """Whether values come as text, and their types are found in it."""
        return self.kind == "csv"

    @property
    def name(self) -> str:
        """How the table is called in messages."""
        return str(self.root)

    @property
    def decimal(self) -> str:
        """The decimal mark of text."""
        return self.reading.decimal or (self.head().decimal if self.text else ".")

    @cached_property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.stat().st_size for file in self.files)

    @cached_property
    def _folder(self) -> Path:
        """For copies of files in other encodings; goes with this object."""
        folder = mkdtemp(prefix="kinfolk-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        return Path(folder)

    @cached_property
    def _known(self) -> dict[Any, Any]:
        """Headers and types that have been looked up."""
        return {}

    def head(self, file: Path | None = None) -> Head:
        """Names and separator of a text file."""
        file = file or self.files[0]
        if file not in self._known:
            self._known[file] = read_head(self._plain(file), self.reading)
        return self._known[file]

    def names(self) -> list[str]:
        """Columns of the first file."""
        if self.text:
            joint = [] if self.joint is None else [self.joint]
            return [*filter(None, self.head().names), *self._folder_columns(self.files[0]), *joint]
        return list(self.schema(self.files[0]))

    def schema(self, file: Path) -> dict[str, Any]:
        """Types of the columns of one file, with those that its folders name (`shop=12/part.parquet`)."""
        return dict(self.scan(file).collect_schema())

    def rows(self) -> int:
        """Number of rows; of text, about so many."""
        if self.text:
            return int(self.size / self.head().bytes_per_row) + 1
        pl = polars()
        return int(pl.concat([self.scan(file).select(pl.len()) for file in self.files]).sum().collect().item())

    def frame(self, columns: Iterable[str], *, types: dict[str, Any] | None = None, full: bool = False) -> Any:
        """A lazy frame of some columns of all files, of these `types` in text files; `full` looks at all rows first."""
        wanted = list(columns)
        frames = [self.scan(file, types=types, full=full).select(wanted) for file in self.files]
        return frames[0] if len(frames) == 1 else polars().concat(frames, how="vertical_relaxed")

    def scan(self, file: Path, *, types: dict[str, Any] | None = None, full: bool = False) -> Any:
        """A lazy frame of one file."""
        pl = polars()
        scans = {
            "csv": lambda: self._scan_csv(file, (types or {}) | dict.fromkeys(self.parts, pl.String), full),
            "parquet": lambda: pl.scan_parquet(file, hive_partitioning=False, glob=False),
            "arrow": lambda: _scan_ipc(file),
            "ndjson": lambda: pl.scan_ndjson(file, infer_schema_length=None),
            "excel": lambda: _read_excel(file),
        }
        try:
            frame = scans[self.kind]()
            names = frame.collect_schema().names()
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
            twice = re.search(r"'(.*)' has more than one occurrence", str(error))
            if twice:
                raise ValueError(f"{file} has two columns named {twice.group(1)!r}: rename or drop one") from None
            why = packed_trouble(file, error) or f"{file} cannot be read as {ending(file)}: {first_line(error)}"
            raise ValueError(why) from None
        given = {name: value for name, value in self._folder_columns(file).items() if name not in names}
        return self.joined(frame.with_columns(**given) if given else frame)

    def _scan_csv(self, file: Path, types: dict[str, Any], full: bool) -> Any:
        pl = polars()
        head = self.head(file)
        options: dict[str, Any] = {
            "separator": head.separator,
            "null_values": list(MISSING),
            "decimal_comma": self.decimal == ",",
            "glob": False,
        }
        plain = self._plain(file)
        if (file, full) not in self._known:
            kinds = kinds_in_text(pl, plain, full=full, **options)
            self._known[file, full] = list(zip(kinds, head.names, kinds.values(), strict=True))
        known = self._known[file, full]
        schema = {as_written: types.get(name, kind) for as_written, name, kind in known}
        frame = pl.scan_csv(plain, schema=schema, **options).rename({as_written: name for as_written, name, _ in known})
        if head.names[0] == "":
            frame = frame.drop("")
        # Spaces around words are no part of them, and a line without any value is no row.
        words = pl.col(pl.String).str.strip_chars()
        return frame.with_columns(words).filter(~pl.all_horizontal(pl.all().is_null()))

    def _plain(self, file: Path) -> Path:
        """The file as polars reads it: unpacked, and in UTF-8."""
        unpack = UNPACKED.get(file.suffix[1:].lower())
        if unpack is None and is_utf8(file, self.reading.encoding):
            return file
        copy = self._folder / f"{self.files.index(file)}.csv"
        if copy.exists():
            return copy
        with naming_full_disk(f"{copy} (a copy of {file.name})"):
            if unpack is not None:
                with unpacking(file), unpack(file, "rb") as packed, copy.open("wb") as out:
                    shutil.copyfileobj(packed, out)
            else:
                with open_text(file, self.reading.encoding) as text, copy.open("w", newline="") as out:
                    shutil.copyfileobj(text, out)
        return copy

    def _folder_columns(self, file: Path) -> dict[str, Any]:
        """Constant columns by folders like `shop=12`: numbers if all folders of that name have numbers."""
        pl = polars()
        columns = {}
        for key, value in _pairs(self.root, file).items():
            number = all(_is_number(_pairs(self.root, other).get(key)) for other in self.files)
            columns[key] = pl.lit(None if value == NO_VALUE else value, pl.String).cast(
                pl.Float64 if number else pl.String
            )
        return columns

    def explained(self, error: Exception, columns: Iterable[str] = ()) -> Exception:
        """What stopped the reading, with file, line and column; `columns` are those that should be numbers."""
        pl = polars()
        for file in self.files if self.text else ():
            plain = self._plain(file)
            trouble = packed_trouble(file, error)
            if trouble is not None and len(self.files) == 1:
                return ValueError(trouble)
            try:
                check_lines(plain, self.reading, name=str(file))
            except ValueError as found:
                return found
            types = dict.fromkeys(columns, pl.String)
            for name in types:
                text = self.scan(file, types=types).select(pl.col(name))
                wrong = text.filter(pl.col(name).cast(pl.Float64, strict=False).is_null() & pl.col(name).is_not_null())
                first = wrong.head(1).collect()
                if first.height:
                    return ValueError(
                        f"column {name!r} of {file} is not numeric: it holds {first.item()!r}. Write it as numbers "
                        f"(with a decimal point), leave it out with drop={[name]!r}, or name it as the task column."
                    )
        return ValueError(f"{self.name} cannot be read: {first_line(error)}")


def open_source(path: str | os.PathLike[str], reading: Reading | None = None) -> Source:
    """Find the files behind a path and how to read them."""
    root = Path(path)
    if str(root) == "-" or (root.exists() and not root.is_file() and not root.is_dir()):
        raise ValueError(
            f"{str(root)!r}: a table is read more than once, and a pipe or device only once. Save it first."
        )
    if root.is_symlink() and not root.exists():
        raise FileNotFoundError(f"{str(root)!r} is a link to a file that is not there")
    if not root.exists():
        near = nearest(root.name, [p.name for p in root.parent.iterdir()]) if root.parent.is_dir() else None
        guess = f" Did you mean {str(root.with_name(near))!r}?" if near else ""
        raise FileNotFoundError(f"there is no file or folder {str(root)!r}.{guess}")
    files = _files_below(root) if root.is_dir() else (root,)
    if not files:
        known = ", ".join(f".{known}" for known in KINDS)
        raise ValueError(f"{root} holds no file that can be read: files end in {known}; text may be packed (.csv.gz)")
    if ending(files[0]) in REFUSED:
        raise ValueError(f"{root.name} is not a table: export it as CSV, Parquet, Arrow, NDJSON or Excel, or unpack it")
    kinds = {KINDS.get(ending(file), "csv") for file in files}
    if len(kinds) > 1:
        endings = ", ".join(sorted({ending(file) for file in files}))
        raise ValueError(f"{root} mixes files ending in {endings}: put each format in a folder of its own")
    source = Source(root, files, kinds.pop(), reading or Reading())
    width = len(source.names())
    if width > MOST_COLUMNS:
        raise ValueError(
            f"{root.name} has {width:,} columns, more than {MOST_COLUMNS:,}: are rows and columns swapped? If "
            "not, select some of them first"
        )
    return source


def from_text(name: str, kind: str = "number") -> Any:
    """Numbers, or true and false, that came as text: `kinds.number_in` as an expression."""
    pl = polars()
    text = pl.col(name)
    low = text.str.to_lowercase()
    mark, thousands = (",", ".") if kind == "comma" else (".", ",")
    digits = text.str.replace_all(NO_DIGITS.pattern, "").str.replace_all(thousands, "", literal=True)
    number = digits.str.replace(mark, ".", literal=True).cast(pl.Float64, strict=False)
    return (
        pl.when(low.is_in(list(TRUTH)))
        .then((low == "true").cast(pl.Float64))
        .when(text.str.contains(f"^(?:{WRITTEN[mark].pattern})$"))
        .then(pl.when(text.str.starts_with("(")).then(-number).otherwise(number))
        .otherwise(text.cast(pl.Float64, strict=False) if mark == "." else None)
        .alias(name)
    )


def ending(file: Path) -> str:
    """What a file holds by its name: the ending, without that of a packer."""
    suffixes = [suffix[1:].lower() for suffix in file.suffixes] or [""]
    packed = suffixes[-1] in UNPACKED and len(suffixes) > 1
    return suffixes[-2] if packed else suffixes[-1]


def reading_notes(source: Source) -> list[str]:
    """What was assumed about how a text file is written and is not the usual."""
    if not source.text:
        return []
    head = source.head()
    said = []
    if not source.reading.delimiter and head.separator != ",":
        said.append(f"values are separated by {SEPARATORS[head.separator]}")
    if not source.reading.decimal and head.decimal == ",":
        said.append("numbers have a decimal comma")
    if head.names[0] == "":
        said.append("the first column has no name and is left out as row labels")
    return [f"{source.root.name}: {note}" for note in said]


def _files_below(folder: Path) -> tuple[Path, ...]:
    """Data files in order of their names; hidden ones and those like _SUCCESS are not data."""
    found = (file for file in sorted(folder.rglob("*")) if file.is_file() and ending(file) in KINDS)
    return tuple(f for f in found if not any(part[0] in "._" for part in f.relative_to(folder).parts))


def _scan_ipc(file: Path) -> Any:
    """An Arrow file, or a stream, which has no index and is read whole."""
    pl = polars()
    try:
        frame = pl.scan_ipc(file, glob=False)
        frame.collect_schema()
        return frame
    except pl.exceptions.ComputeError:
        return pl.read_ipc_stream(file).lazy()


def _read_excel(file: Path) -> Any:
    try:
        return polars().read_excel(file, infer_schema_length=None).lazy()
    except ImportError:
        raise ImportError(f"{file.name} is read with fastexcel: pip install 'kinfolk[files]'") from None
    except Exception as error:  # of whatever reads the file
        raise ValueError(f"{file} cannot be read as {ending(file)}: {first_line(error)}") from None


def _pairs(root: Path, file: Path) -> dict[str, str]:
    parts = file.relative_to(root).parent.parts if file != root else ()
    pairs = (part.split("=", 1) for part in parts if "=" in part)
    return {unquote(key): unquote(value) for key, value in pairs}


def _is_number(value: str | None) -> bool:
    try:
        return value in (None, NO_VALUE) or float(str(value)) is not None
    except ValueError:
        return False
