"""kinfolk predict: a model and new rows become predictions, one line per row."""

from __future__ import annotations

import argparse
import sys
from typing import IO, Any

import numpy as np

from kinfolk.cli.console import Console
from kinfolk.cli.encoding import NewRows, rows_for
from kinfolk.cli.outputs import check_outputs
from kinfolk.cli.streamed import predict_streamed, wants_stream
from kinfolk.cli.tables import load_model
from kinfolk.export.graphs import write_csv
from kinfolk.files import STDOUT, replacing
from kinfolk.readers import checked_path


def run(options: argparse.Namespace, console: Console) -> None:
    """Predict every row, and write task, what was asked to be kept, prediction and, if asked for, std."""
    options.out = None if options.out == STDOUT else options.out
    outputs = {"--out": (options.out, "table of predictions")}
    check_outputs(outputs, options, console, inputs=(options.model, options.data))
    model = load_model(options.model)
    model.set_params(unseen=options.unseen or model.unseen)
    path = checked_path(options.data)
    if wants_stream(path, options):
        predict_streamed(model, path, options, console)
        console.say(f"predictions in {options.out}")
        console.result({"out": str(options.out)})
        return
    rows = rows_for(model, options, console, unseen=model.unseen)
    columns = predicted(model, rows, options)
    if options.out:
        with replacing(options.out) as partial, partial.open("w", encoding="utf-8", newline="") as file:
            write_columns(columns, file, safe=options.safe_csv)
        console.say(f"{len(rows.X):,} predictions in {options.out}")
    elif not options.json:
        write_columns(columns, sys.stdout, safe=options.safe_csv)
    record: dict[str, Any] = {"rows": len(rows.X), "out": str(options.out) if options.out else None}
    if not options.out:
        record["predictions"] = {name: list(values) for name, values in columns.items()}
    console.result(record)


def predicted(model: Any, rows: NewRows, options: argparse.Namespace) -> dict[str, Any]:
    """The columns to write."""
    keep = kept_columns(model, rows, options.keep)
    if options.std:
        prediction, std = model.predict(rows.X, return_std=True)
        new = {"prediction": prediction, "std": std}
    else:
        new = {"prediction": model.predict(rows.X)}
    taken = set(new) & {*keep, model.task}
    if taken:
        raise ValueError(f"the table has a column {taken.pop()!r} itself: name the columns to --keep without it")
    beside = {name: rows.frame[name] for name in keep if name != model.task}
    return {model.task: rows.X[model.task], **beside, **new}


def kept_columns(model: Any, rows: NewRows, asked: list[str] | None) -> list[str]:
    """Columns of the table to write beside the predictions."""
    if asked == []:
        return rows.frame.columns
    for name in asked or []:
        rows.frame.check_column(name, "--keep")
    return asked or []


def write_columns(columns: dict[str, Any], file: IO[str], *, safe: bool) -> None:
    """A table as CSV; numbers so that reading them gives the same number, missing ones as nothing."""
    write_csv(file, columns, zip(*(_cells(column) for column in columns.values()), strict=True), safe=safe)


def _cells(column: Any) -> list[Any]:
    if column.dtype.kind != "f":
        return ["" if value is None else value for value in column.tolist()]
    return ["" if np.isnan(v) else int(v) if v.is_integer() and abs(v) < 1e15 else v for v in column.tolist()]
