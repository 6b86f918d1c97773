"""kinfolk predict: a model and new rows become predictions, one line per row."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import IO, Any

import numpy as np

from kinfolk.cli.console import Console
from kinfolk.cli.new_rows import rows_for
from kinfolk.cli.outputs import check_outputs
from kinfolk.cli.report import class_texts
from kinfolk.cli.tables import open_table, read_files, wants_stream
from kinfolk.export.graphs import write_csv
from kinfolk.files import STDOUT, replacing
from kinfolk.memory import in_words
from kinfolk.methods.method import MultiTaskRegressor
from kinfolk.rows.table import task_name
from kinfolk.sources.files import KINDS, UNPACKED, Source, ending, polars
from kinfolk.sources.roles import check_column
from kinfolk.store import load


def run(options: argparse.Namespace, console: Console) -> None:
    """Predict every row, and write task, what was asked to be kept, prediction and, if asked for, std."""
    options.out = None if options.out == STDOUT else options.out
    outputs = {"--out": (options.out, "table of predictions")}
    check_outputs(outputs, options, console, inputs=read_files(options.model, options.data))
    check_format(options.out)
    model = load(options.model)
    model.set_params(unseen=options.unseen or model.unseen)
    texts = class_texts(model)
    if texts:
        console.note(f"predictions are probabilities of {texts[1]!r}")
    source = open_table(options, console)
    if wants_stream(source, options):
        predict_in_blocks(model, source, options, console)
        console.say(f"predictions in {options.out}")
        console.result({"out": str(options.out)})
        return
    rows = rows_for(model, source, options, console, also={})
    columns = predicted(model, rows, options)
    if options.out:
        write_table(columns, options)
        console.say(f"{len(rows):,} predictions in {options.out}")
    elif not options.json:
        write_columns(columns, sys.stdout, safe=options.safe_csv)
    record: dict[str, Any] = {"rows": len(rows), "out": str(options.out) if options.out else None}
    if not options.out:
        record["predictions"] = {name: list(values) for name, values in columns.items()}
    console.result(record)


def predicted(model: MultiTaskRegressor, rows: Any, options: argparse.Namespace) -> dict[str, Any]:
    """The columns to write."""
    keep = kept_columns(rows, options)
    task = task_name(model.task)
    X = rows.select(list(model.feature_names_in_))
    if options.std:
        prediction, std = model.predict(X, return_std=True)
        new = {"prediction": prediction, "std": std}
    else:
        new = {"prediction": model.predict(X)}
    taken = set(new) & {*keep, task}
    if taken:
        raise ValueError(f"the table has a column {taken.pop()!r} itself: name the columns to --keep without it")
    return {name: rows[name].to_numpy() for name in dict.fromkeys([task, *keep])} | new


def predict_in_blocks(model: MultiTaskRegressor, source: Source, options: argparse.Namespace, console: Console) -> None:
    """Predictions for every row of the table, written block by block."""
    from kinfolk.large import predict_file

    if not options.out:
        raise ValueError(f"{source.root.name} is read in blocks ({in_words(source.size)}): name a file with --out")
    if options.safe_csv:
        raise ValueError("--safe-csv needs the rows in memory: predict a part of them, or leave the option out")
    if options.keep == [] or options.drop_missing:
        raise ValueError("--drop-missing and --keep without names need the rows in memory: name the columns to keep")
    predict_file(model, source, options.out, keep=options.keep or (), return_std=options.std, callback=console.callback)


def kept_columns(rows: Any, options: argparse.Namespace) -> list[str]:
    """Columns of the table to write beside the predictions."""
    asked: list[str] | None = options.keep
    if asked == []:
        return list(rows.columns)
    for name in asked or []:
        check_column(name, rows.columns, options.data.name, "--keep")
    return asked or []


def check_format(out: Path | None) -> None:
    """Refuse an ending that promises another format than is written."""
    if out is not None and (KINDS.get(ending(out), "csv") not in ("csv", "parquet") or out.suffix[1:] in UNPACKED):
        raise ValueError(
            f"--out {out}: predictions are written as CSV or Parquet. Name a file ending in .csv or .parquet"
        )


def write_table(columns: dict[str, Any], options: argparse.Namespace) -> None:
    """A file of predictions: Parquet if its name says so, else CSV."""
    with replacing(options.out) as partial:
        if KINDS.get(ending(options.out)) == "parquet":
            polars().DataFrame(columns).write_parquet(partial)
            return
        with partial.open("w", encoding="utf-8", newline="") as file:
            write_columns(columns, file, safe=options.safe_csv)


def write_columns(columns: dict[str, Any], file: IO[str], *, safe: bool) -> None:
    """A table as CSV; numbers so that reading them gives the same number, missing ones as nothing."""
    write_csv(file, columns, zip(*(_cells(column) for column in columns.values()), strict=True), safe=safe)


def _cells(column: Any) -> list[Any]:
    if column.dtype.kind != "f":
        return ["" if value is None else value for value in column.tolist()]
    whole = [int(v) if v.is_integer() and abs(v) < 1e15 else v for v in np.nan_to_num(column).tolist()]
    return ["" if missing else value for value, missing in zip(whole, np.isnan(column).tolist(), strict=True)]
