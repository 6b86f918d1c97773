"""Statistics of files in one pass over their batches: a few blocks of rows are in memory at any time."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray

from kinfolk.progress import Callback, report
from kinfolk.rows.columns import TableRules
from kinfolk.rows.folds import Folds
from kinfolk.rows.gram import GramStats
from kinfolk.rows.moments import BLOCK_BYTES, Moments
from kinfolk.rows.splits import folds_for_groups
from kinfolk.rows.table import check_lengths, checked_labels
from kinfolk.sources.dealing import Dealer, Dealt, check_folds, folds_of_parts
from kinfolk.sources.files import Source, open_source, polars
from kinfolk.sources.plan import PLAIN, FeaturePlan
from kinfolk.sources.roles import Roles, choose_roles

INTEGER = re.compile(r"-?[1-9]\d{0,17}|0")


class NotFiniteError(ValueError):
    """Values are missing or infinite, or their sums overflow."""


def has_plain_features(source: Source, roles: Roles) -> bool:
    """Whether the features are numbers by their types, to be taken as they are, and none counts the rows."""
    if source.text:
        return False
    schema = source.schema(source.files[0])
    kinds = {name: schema[name] for name in roles.features}
    if not all(kind.is_numeric() or kind == polars().Boolean for kind in kinds.values()):
        return False
    whole = [name for name, kind in kinds.items() if kind.is_integer()]
    return not whole or "id" not in TableRules().read(source.frame(whole)).left_out_.values()


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
    path : CSV, Parquet, Arrow IPC (Feather), NDJSON or Excel; or a folder of files of one of these formats, whose
        sub-folders may be named after values, like `shop=12`
    task, target : names of columns
    drop : columns to leave out
    columns : the features, in this order; by default all columns but task, target and `drop`
    batch_rows : how many rows are held at a time; by default as many as make 96 MB
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
    roles = choose_roles(source.names(), source.name, task=task, target=target, drop=drop, columns=columns)
    return sum_source(source, roles, batch_rows=batch_rows, n_jobs=n_jobs, callback=callback)[0]


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
    **reading: Any,
) -> Folds:
    """Statistics of folds of a file, for `GAMTLCV(...).fit_folds`; folds are drawn in the same single pass.

    The rows of every task are dealt to the folds in turn, shuffled within blocks. Memory is that of the result,
    8 (cv + 1) T (d + 1)^2 bytes, and of a few blocks.

    Parameters
    ----------
    path, task, target, drop, columns : see `gram_of_file`
    cv : number of folds
    groups : a column (day, sitting) whose rows of equal value stay in one fold; no feature unless in `columns`
    random_state : draws the folds; they also depend on `batch_rows`
    reading : `batch_rows`, `n_jobs` and `callback` of `gram_of_file`
    """
    source = open_source(path)
    roles = choose_roles(
        source.names(), source.name, task=task, target=target, drop=drop, columns=columns, groups=groups
    )
    dealer = Dealer(check_folds(cv), random_state)
    return folds_of_parts(sum_source(source, roles, dealer=dealer, **reading), groups=groups)


def sum_source(
    source: Source,
    roles: Roles,
    plan: FeaturePlan = PLAIN,
    *,
    dealer: Dealer | Dealt | None = None,
    frame: Any = None,
    batch_rows: int | None = None,
    n_jobs: int | None = 2,
    callback: Callback | None = None,
) -> list[GramStats]:
    """Statistics of every fold, or of all rows, to the features that the plan makes.

    `frame` is a lazy frame of the columns in use, if something was done with those of the source.
    """
    if frame is None:
        check_types(source, roles, plan)
        frame = frame_of(source, roles, plan)
    threads = effective_n_jobs(n_jobs)
    tasks = Labels(roles.task, source, whole=source.text)
    groups = None if roles.groups is None or dealer is None else Labels(roles.groups, source)
    moments = None
    k = 1 if dealer is None else dealer.k
    batches = frame.collect_batches(chunk_size=checked_rows(batch_rows, len(roles.features) + 2))
    with ThreadPoolExecutor(threads) as pool:
        for batch in reported(source, batches, "reading", callback, plan.numbers(roles)):
            rows = _matrix(batch, roles, plan)
            slots = tasks.numbers(batch[roles.task])
            if dealer is not None:
                together = None if groups is None else groups.numbers(batch[groups.column])
                slots = slots * k + dealer.deal(slots, together)
            moments = moments or Moments(rows.shape[1])
            if not moments.add(rows, slots, pool=(pool, threads)):
                raise not_finite(source, roles, plan)
    if moments is None:
        raise ValueError("the table has no rows")
    if groups is not None:
        folds_for_groups(len(groups.known), k, f"column {groups.column!r}")
    labels, numbers = tasks.sorted()
    names = plan.feature_names(roles)
    return [GramStats.of_moments(moments, numbers * k + f, labels, names) for f in range(k)]


def _matrix(batch: Any, roles: Roles, plan: FeaturePlan) -> NDArray[np.float64]:
    """Features, target and ones, (n, d + 2), NaN where nothing stands."""
    ones = polars().lit(1.0).alias("\0ones")
    if plan.takes_columns:
        return batch.select(*roles.features, roles.target, ones).to_numpy(order="c")
    return np.column_stack([plan.transform(batch.select(roles.features)), batch.select(roles.target, ones).to_numpy()])


def frame_of(source: Source, roles: Roles, plan: FeaturePlan) -> Any:
    """A lazy frame of the columns in use: labels as they are, and those that must be numbers as floats."""
    pl = polars()
    floats = plan.numbers(roles)
    types = dict.fromkeys(roles.labels(), pl.String) | dict.fromkeys(floats, pl.Float64)
    return source.frame(roles.used(), types=types).with_columns(pl.col(floats).cast(pl.Float64))


def reported(
    source: Source, frames: Iterator[Any], stage: str, callback: Callback | None, numbers: Iterable[str] = ()
) -> Iterator[Any]:
    """Batches of a source; the callback hears of bytes, and what stops the reading is named by file, line, column."""
    pl = polars()
    expected = source.rows() if callback is not None else 1
    seen = 0
    try:
        for batch in frames:
            yield batch
            seen += batch.height
            report(callback, stage, min(1.0, seen / max(expected, 1)) * source.size, source.size)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        raise source.explained(error, numbers) from None
    if seen < expected:  # of text, only about so many were expected
        report(callback, stage, source.size, source.size)


class Labels:
    """Numbers 0, 1, 2, ... for the labels of a column, in the order in which they first appear.

    With `whole`, labels that all are written as integers without leading zeros are integers: `007` stays text.
    """

    def __init__(self, column: str, source: Source, whole: bool = False) -> None:
        self.column, self.source, self.whole = column, source, whole
        self.known: Any = None

    def numbers(self, values: Any) -> NDArray[np.intp]:
        """Numbers of the labels of some rows."""
        pl = polars()
        values = plain_labels(values)
        if values.null_count():
            raise ValueError(
                f"column {self.column!r} has no label in {place(self.source, pl.col(self.column).is_null())}: fill it "
                "in or drop the row"
            )
        labels = values.unique(maintain_order=True)
        if labels.dtype == pl.String:
            check_lengths(labels.str.len_chars().max(), self.column)
        if self.known is not None:
            labels = pl.concat([self.known, labels.filter(~labels.is_in(self.known.implode()))])
        self.known = labels
        table = pl.DataFrame({"label": labels, "number": np.arange(len(labels))})
        rows = pl.DataFrame({"label": values})
        return rows.join(table, on="label", how="left", maintain_order="left")["number"].to_numpy()

    def sorted(self) -> tuple[NDArray[Any], NDArray[np.intp]]:
        """All labels in order, and their numbers."""
        labels = self.known.to_numpy()
        try:
            labels = checked_labels(labels, self.column)
        except ValueError as error:
            raise ValueError(f"{self.source.name}: {error}".replace("task column", "column")) from None
        labels = whole_numbers(labels) if self.whole and labels.dtype.kind == "U" else labels
        order = np.argsort(labels, kind="stable")
        return labels[order], order


def plain_labels(values: Any) -> Any:
    """Categories as text; NaN as nothing."""
    pl = polars()
    if values.dtype.base_type() in (pl.Categorical, pl.Enum):
        return values.cast(pl.String)
    return values.fill_nan(None) if values.dtype.is_float() else values


def labels_like(tasks: NDArray[Any], values: Any) -> Any:
    """Labels of rows as those of the `tasks`: if these are whole numbers, so are 007 and 7.0, which are 7."""
    pl = polars()
    labels = plain_labels(values)
    if tasks.dtype.kind not in "iu" or labels.dtype.is_integer():
        return labels
    whole = labels.cast(pl.String).str.strip_suffix(".0").cast(pl.Int64, strict=False)
    return labels if whole.null_count() > labels.null_count() else whole


def whole_numbers(labels: NDArray[Any]) -> NDArray[Any]:
    """Labels read as text, as integers if every one is written as one without leading zeros; else as they are.

    Examples
    --------
    >>> whole_numbers(np.array(["10", "9", "-7"])), whole_numbers(np.array(["10", "007"]))
    (array([10,  9, -7]), array(['10', '007'], dtype='<U3'))
    """
    return labels.astype(np.int64) if all(map(INTEGER.fullmatch, labels.tolist())) else labels


def checked_rows(batch_rows: int | None, width: int) -> int:
    """Rows to hold at a time: as given, or as many as make a block of the usual size."""
    if batch_rows is None:
        return max(1000, BLOCK_BYTES // (8 * width))
    if isinstance(batch_rows, bool) or int(batch_rows) != batch_rows or batch_rows < 1:
        raise ValueError(f"batch_rows={batch_rows!r} must be a whole number, at least 1")
    return int(batch_rows)


def check_types(source: Source, roles: Roles, plan: FeaturePlan) -> None:
    """Every file needs the columns of the first, labels of the same kind, and numbers in target and features."""
    first: dict[str, str] = {}
    for file in source.files:
        schema = source.schema(file)
        for name in roles.used():
            if name not in schema:
                raise ValueError(f"{file} has no column {name!r}, but {source.files[0]} has")
        if source.text:  # which shows what it holds when it is read
            continue
        for name in roles.labels():
            kind = label_kind(schema[name])
            if first.setdefault(name, kind) != kind:
                raise ValueError(
                    f"column {name!r} holds {first[name]} in {source.files[0]} but {kind} in {file}: write it with "
                    "one type"
                )
        for name in plan.numbers(roles):
            check_numeric(name, schema[name], str(file), is_target=name == roles.target)


def label_kind(kind: Any) -> str:
    """What labels of a type are, in a word."""
    pl = polars()
    if kind.is_integer():
        return "integers"
    if kind.base_type() in (pl.String, pl.Categorical, pl.Enum):
        return "text"
    return "truth values" if kind == pl.Boolean else str(kind)


def check_numeric(name: str, kind: Any, source: str, *, is_target: bool) -> None:
    """An error if a column of this type is not numbers."""
    pl = polars()
    if kind.is_numeric() or kind == pl.Boolean:
        return
    if kind == pl.Null:
        raise ValueError(f"column {name!r} of {source} is empty. Leave it out with drop={[name]!r}.")
    what = "holds dates" if kind.is_temporal() else f"is not numeric but {str(kind).lower()}"
    out = "" if is_target else f", leave it out with drop={[name]!r}, or name it as the task column"
    hint = "days since a start, hour of day" if kind.is_temporal() else "e.g. one column of 0 and 1 per value"
    raise ValueError(f"column {name!r} of {source} {what}. Write it as numbers ({hint}){out}.")


def place(source: Source, condition: Any) -> str:
    """The first row of a source where a condition on its columns holds."""
    pl = polars()
    for file in source.files:
        row = source.scan(file).select(pl.arg_where(condition).first()).collect().item()
        if row is not None:
            return f"row {row + 1:,} of {file}"
    return source.name


def not_finite(source: Source, roles: Roles, plan: FeaturePlan) -> Exception:
    """The error for sums that are not finite: it names the first column with missing or infinite values."""
    pl = polars()
    names = plan.numbers(roles)
    for file in source.files:
        values = source.scan(file, types=dict.fromkeys(names, pl.Float64)).select(pl.col(names).cast(pl.Float64))
        wrong = values.with_row_index("\0row").filter(pl.any_horizontal(~pl.col(names).is_finite().fill_null(False)))
        row, *first = next(iter(wrong.head(1).collect().rows()), (None,))
        if row is not None:
            place = next(k for k, value in enumerate(first) if value is None or not math.isfinite(value))
            name = names[place]
            count = values.select((~pl.col(name).is_finite().fill_null(False)).sum()).collect().item()
            kind = "infinite" if first[place] in (math.inf, -math.inf) else "missing"
            more = f", and {count - 1:,} more in this file" if count > 1 else ""
            out = "." if name == roles.target else f", or leave the column out with drop={[name]!r}."
            return NotFiniteError(
                f"column {name!r} has a {kind} value in row {row + 1:,} of {file}{more}. Drop or fill such rows first, "
                f"e.g. polars.scan_parquet(path).drop_nulls().drop_nans().sink_parquet(new_path){out}"
            )
    if not plan.takes_columns:
        return NotFiniteError(
            "the `features` transformer returned NaN or infinite values: impute them before or inside it"
        )
    return NotFiniteError(f"{source.name}: values are so large that their sums overflow. Rescale the columns.")
