"""Statistics of files larger than memory in one pass: a few blocks of rows are in memory at any time."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from joblib import effective_n_jobs

from kinfolk.large.arrow import Block, Place, Transform, arrow, check_numeric, read_block, read_rows
from kinfolk.large.columns import Columns, choose_columns
from kinfolk.large.dealing import Dealer, check_folds, folds_of_parts
from kinfolk.large.formats import Request
from kinfolk.large.sources import Piece, Source, open_source
from kinfolk.large.sums import Rows, Sums, in_order
from kinfolk.progress import Callback, report
from kinfolk.rows.folds import Folds
from kinfolk.rows.gram import Array, GramStats

BLOCK_BYTES = 3 * 2**25  # of values in a block of rows: larger ones take memory, smaller ones cost more merges
PIECE_BYTES = 2**24  # of values in what is read at a time: they are still in the cache when they are put row by row


def gram_of_file(
    path: str | os.PathLike[str],
    *,
    task: str,
    target: str,
    drop: str | Iterable[str] = (),
    columns: Iterable[str] | None = None,
    batch_rows: int | None = None,
    n_jobs: int | None = 2,
    callback: Callback | None = None,
) -> GramStats:
    """Statistics of a file, or of a folder of files, that need not fit into memory.

    One pass in blocks of rows. Memory is that of the result, 8 T (d + 1)^2 bytes, and of a few blocks. The result does
    not depend on `n_jobs`, and on `batch_rows` only by rounding.

    Parameters
    ----------
    path : Parquet, Arrow IPC (Feather) or CSV; or a folder of files of one of these formats, whose sub-folders may be
        named after values, like `shop=12`
    task, target : names of columns
    drop : columns to leave out
    columns : the features, in this order; by default all columns but task, target and `drop`
    batch_rows : about how many rows are held at a time; by default as many as make 96 MB
    n_jobs : threads; -1 for all cores
    callback : called with a `Progress` in bytes after every block

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder) / "sales.csv"
    ...     _ = file.write_text("shop,ads,sales\\na,1,1\\na,3,5\\nb,5,7\\n")
    ...     gram = gram_of_file(file, task="shop", target="sales")
    >>> gram.labels, gram.n, gram.G.ravel(), gram.feature_names
    (array(['a', 'b'], dtype='<U1'), array([2., 1.]), array([2., 0.]), ('ads',))
    """
    source = open_source(path)
    used = choose_columns(source.names(), str(source.root), task=task, target=target, drop=drop, columns=columns)
    return sum_file(source, used, batch_rows=batch_rows, n_jobs=n_jobs, callback=callback).parts()[0]


def folds_of_file(
    path: str | os.PathLike[str],
    *,
    task: str,
    target: str,
    drop: str | Iterable[str] = (),
    columns: Iterable[str] | None = None,
    cv: int = 5,
    groups: str | None = None,
    random_state: Any = 0,
    batch_rows: int | None = None,
    n_jobs: int | None = 2,
    callback: Callback | None = None,
) -> Folds:
    """Statistics of folds of a file, for `GAMTLCV(...).fit_folds`; folds are drawn in the same single pass.

    The rows of every task are dealt to the folds in turn, shuffled within blocks. Memory is that of the result,
    8 (cv + 1) T (d + 1)^2 bytes, and of a few blocks.

    Parameters
    ----------
    path, task, target, drop, columns, n_jobs, callback : see `gram_of_file`
    cv : number of folds
    groups : a column (day, sitting) whose rows of equal value stay in one fold; no feature unless in `columns`
    random_state : draws the folds; they also depend on `batch_rows`
    batch_rows : about how many rows are held at a time; by default as many as make 96 MB
    """
    source = open_source(path)
    used = choose_columns(
        source.names(), str(source.root), task=task, target=target, drop=drop, columns=columns, groups=groups
    )
    dealer = Dealer(check_folds(cv), random_state, groups=groups)
    sums = sum_file(source, used, dealer=dealer, batch_rows=batch_rows, n_jobs=n_jobs, callback=callback)
    return folds_of_parts(sums.parts(), groups=groups)


def sum_file(
    source: Source,
    columns: Columns,
    *,
    dealer: Dealer | None = None,
    transform: Transform | None = None,
    names: tuple[str, ...] | None = None,
    batch_rows: int | None = None,
    n_jobs: int | None = 2,
    callback: Callback | None = None,
) -> Sums:
    """One pass over all files; with a `transform` of the features, to features called `names`."""
    threads, size, width = effective_n_jobs(n_jobs), source.size, len(columns.features) + 2
    names = columns.features if transform is None else names
    sums = Sums(columns, names, dealer=dealer, text=source.text, threads=threads)
    block_rows = checked_rows(batch_rows, width)
    piece_rows = block_rows if transform else min(block_rows, max(1, PIECE_BYTES // (8 * width)))
    labels = [columns.task, *([columns.groups] if columns.groups else [])]
    raw = [] if transform is None else list(columns.features)
    request = Request(columns.used(), columns.labels(), raw, piece_rows, threads > 1)
    for file in source.files:
        _check_file(source, file, columns, transformed=transform is not None)
    rooms = Rooms(block_rows, block_rows + 3 * piece_rows // 2 + 1, width)

    def read(item: tuple[Piece, Array, bool]) -> Part:
        piece, room, last = item
        matrix = read_rows(piece.table, columns, transform, room)
        return Part(matrix, piece._replace(table=piece.table.select(labels)), last or transform is not None)

    def code(table: Any, place: Place) -> Block:
        return read_block(table, columns, place, transform)

    for rows in sums.add_all(joined(in_order(read, rooms.assigned(source.pieces(request)), threads), code)):
        rooms.free(rows.matrix)
        report(callback, "reading", rows.done, size)
    if dealer is not None:
        dealer.check()
    return sums


class Rooms:
    """Memory for blocks of about so many rows, used again and again: fresh memory would cost a third more time."""

    def __init__(self, rows: int, capacity: int, width: int) -> None:
        self.rows, self.shape = rows, (capacity, width)
        self.unused: deque[Array] = deque()

    def assigned(self, pieces: Iterable[Piece]) -> Iterator[tuple[Piece, Array, bool]]:
        """Pieces with consecutive parts of a room; True says that the room has enough of them."""
        room, used = None, 0
        for piece in pieces:
            n = piece.table.num_rows
            if room is None:
                room, used = self.unused.pop() if self.unused else np.empty(self.shape), 0
            full = used + n >= self.rows
            yield piece, room[used : used + n], full
            room, used = (None, 0) if full else (room, used + n)

    def free(self, matrix: Array) -> None:
        """Take a room back."""
        if isinstance(matrix.base, np.ndarray) and matrix.base.shape == self.shape:
            self.unused.append(matrix.base)


class Part(NamedTuple):
    """Rows of a piece, of which labels are left; `last` of its room."""

    matrix: Array
    piece: Piece
    last: bool


def joined(parts: Iterable[Part], code: Callable[[Any, Place], Block]) -> Iterator[Rows]:
    """Rows of all parts of a room together."""
    held: list[Part] = []
    for part in parts:
        held.append(part)
        if part.last:
            yield _together(held, code)
            held = []
    if held:
        yield _together(held, code)


def _together(held: list[Part], code: Callable[[Any, Place], Block]) -> Rows:
    """Labels are coded here, per file: one after the other, the parts would have most of their labels in common."""
    matrix = held[0].matrix
    if len(held) > 1:
        room = matrix.base
        assert isinstance(room, np.ndarray)
        matrix = room[: sum(len(part.matrix) for part in held)]
    blocks = []
    for _, same_file in groupby((part.piece for part in held), key=lambda piece: piece.place.source):
        pieces = list(same_file)
        blocks.append(code(arrow().concat_tables([piece.table for piece in pieces]), pieces[0].place))
    return Rows(matrix, blocks, held[-1].piece.done)


def _check_file(source: Source, file: Path, columns: Columns, *, transformed: bool) -> None:
    """Every file needs the columns of the first, and numbers in them; the text of a CSV shows when it is read."""
    schema = source.schema(file)
    for name in columns.used():
        if name not in schema.names:
            raise ValueError(f"{file} has no column {name!r}, but {source.files[0]} has")
    if not source.text:
        check_numeric(schema, columns, str(file), transformed=transformed)


def checked_rows(batch_rows: int | None, width: int) -> int:
    """Rows to hold at a time: as given, or as many as make a block of the usual size."""
    if batch_rows is None:
        return max(1000, BLOCK_BYTES // (8 * width))
    if isinstance(batch_rows, bool) or int(batch_rows) != batch_rows or batch_rows < 1:
        raise ValueError(f"batch_rows={batch_rows!r} must be a whole number, at least 1")
    return int(batch_rows)
