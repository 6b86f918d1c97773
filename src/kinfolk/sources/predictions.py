"""Predictions block by block: for files larger than memory, and for the partitions of Dask."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler

from kinfolk.files import replacing
from kinfolk.methods.method import MultiTaskRegressor
from kinfolk.methods.model import Model, as_model
from kinfolk.progress import Callback
from kinfolk.rows.columns import TableRules
from kinfolk.rows.table import joint_parts, task_name
from kinfolk.rows.texts import NUMBERS, WORDS
from kinfolk.sources.files import Source, from_text, open_source, polars
from kinfolk.sources.partitions import DASK, dask
from kinfolk.sources.roles import check_column
from kinfolk.sources.stream import checked_rows, labels_like, plain_labels, reported

WRITERS = {".csv": "sink_csv", ".parquet": "sink_parquet", ".pq": "sink_parquet"}


def predict_file(
    model: MultiTaskRegressor,
    path: str | os.PathLike[str] | Source,
    out: str | os.PathLike[str],
    *,
    keep: str | Iterable[str] = (),
    return_std: bool = False,
    batch_rows: int | None = None,
    n_jobs: int | None = 2,
    callback: Callback | None = None,
) -> Path:
    """Predict every row of a file, or of a folder of files, that need not fit into memory.

    Parameters
    ----------
    model : fitted on a table with names and a task column
    path : as in `gram_of_file`; columns that the model does not know are ignored
    out : a .parquet or .csv file: the columns `keep`, the task and `prediction`, row by row as in the input. It
        appears when it is complete
    keep : columns to carry over, e.g. a row number
    return_std : whether to add a column `std`, see `predict`
    batch_rows, callback : see `gram_of_file`
    n_jobs : not used; polars reads and writes with all cores
    """
    pl = polars()
    source = (path if isinstance(path, Source) else open_source(path)).joining(task_name(model.task))
    out = Path(out)
    kept = [keep] if isinstance(keep, str) else list(keep)
    writer = _writer(out, source)
    used = model_columns(model)
    for role, wanted in ("column of the model", used), ("keep", kept):
        for name in wanted:
            check_column(name, source.names(), source.name, role)
    frame = _frame(model, source, used, kept)
    first = list(dict.fromkeys([*kept, str(task_name(model.task))]))
    schema = dict(frame.select(first).collect_schema()) | {"prediction": pl.Float64}
    if source.text and model.tasks_.dtype.kind in "iu":
        schema[str(task_name(model.task))] = pl.Int64
    if return_std:
        schema["std"] = pl.Float64
    rows = frame.collect_batches(chunk_size=checked_rows(batch_rows, len(used)))

    def predicted(*_: Any) -> Iterator[Any]:
        start = 0
        for batch in reported(source, rows, "predicting", callback):
            try:
                yield _with_predictions(model, source, batch, first, return_std)
            except ValueError as error:
                raise ValueError(f"{source.name}, rows from {start + 1:,} on: {error}") from None
            start += batch.height

    with replacing(out) as partial:
        lazy = pl.io.plugins.register_io_source(predicted, schema=schema)
        getattr(lazy, writer)(partial)
    return out


def predict_dask(model: MultiTaskRegressor, ddf: Any) -> Any:
    """Predictions for a Dask data frame as a Dask series named `prediction`; nothing is computed yet.

    Columns that the model does not know are ignored.
    """
    task = task_name(model.task)
    parts = joint_parts(task, ddf.columns)
    names = [*parts, *(name for name in model_columns(model) if not parts or name != task)]
    for name in names:
        check_column(name, list(ddf.columns), DASK, "column of the model")
    light = dask().delayed(as_model(model).for_prediction(), pure=True)  # workers need coefficients, not statistics
    return ddf[names].map_partitions(_predict_partition, light, model.unseen, meta=("prediction", "f8"))


def _predict_partition(frame: Any, model: Model, unseen: str) -> Any:
    values = model.predict_table(frame, unseen=unseen) if len(frame) else np.empty(0)
    return frame.assign(prediction=values)["prediction"]


def _writer(out: Path, source: Source) -> str:
    """The method of a lazy frame that writes such a file."""
    writer = WRITERS.get(out.suffix.lower())
    if writer is None:
        raise ValueError(f"cannot write {out.suffix or 'a file without ending'}: choose .csv or .parquet")
    if out.exists() and any(file.samefile(out) for file in source.files):
        raise ValueError(f"{out} is the table to predict for: write the predictions to another file")
    return writer


def model_columns(model: MultiTaskRegressor) -> list[str]:
    """The columns that a model was fitted with, the task column among them."""
    columns = as_model(model).columns
    assert columns is not None
    schema = columns.schema
    if schema.names is None or schema.task is None:
        raise ValueError(
            f"this {type(model).__name__} was fitted without "
            f"{'names of columns' if schema.names is None else 'a task column'}: fit it on a data frame or a file with "
            "a task column, so that the columns to predict from are known"
        )
    return [*schema.names, *columns.offsets.names]


def _frame(model: MultiTaskRegressor, source: Source, used: list[str], kept: list[str]) -> Any:
    """The columns to predict from and those to carry over; text keeps its writing where it is only carried over."""
    pl = polars()
    columns = list(dict.fromkeys([*kept, *used]))
    kinds = model.features_.found_kinds if isinstance(model.features_, TableRules) else {}
    plain = model.features_ is None or isinstance(model.features_, StandardScaler)
    numbers = [name for name in used if name != task_name(model.task) and (plain or kinds.get(name) in NUMBERS)]
    words = [task_name(model.task), *(name for name, kind in kinds.items() if kind in WORDS)]
    types = {name: pl.String for name in columns if name not in used or name in words}
    guessed = source.frame(numbers).collect_schema()
    texts = [name for name in numbers if guessed[name] == pl.String]
    kind = "comma" if source.decimal == "," else "number"
    return source.frame(columns, types=types).with_columns([from_text(name, kind) for name in texts])


def _with_predictions(model: MultiTaskRegressor, source: Source, batch: Any, first: list[str], std: bool) -> Any:
    """The columns `first` of a batch, then prediction and std."""
    pl = polars()
    labels = batch[str(task_name(model.task))]
    batch = batch.with_columns(labels_like(model.tasks_, labels) if source.text else plain_labels(labels))
    X = batch.select(model_columns(model))
    prediction, *deviation = np.atleast_2d(model.predict(X, return_std=True) if std else model.predict(X))
    new = {"prediction": prediction} | ({"std": deviation[0]} if std else {})
    return batch.select(first).with_columns(pl.Series(name, values) for name, values in new.items())
