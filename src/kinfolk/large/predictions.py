"""Predictions for tables larger than memory, block by block."""

from __future__ import annotations

import os
from collections.abc import Iterable
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from kinfolk.files import replacing
from kinfolk.large.arrow import Coded, coded, table_writer
from kinfolk.large.cluster import dask
from kinfolk.large.columns import check_name
from kinfolk.large.formats import Request
from kinfolk.large.labels import as_known_numbers, kind_of
from kinfolk.large.sources import Piece, Source, open_source
from kinfolk.large.stream import checked_rows
from kinfolk.large.sums import in_order
from kinfolk.methods.method import MultiTaskRegressor
from kinfolk.progress import Callback, report
from kinfolk.rows.tables import read_table
from kinfolk.rows.tasks import task_codes


def predict_file(
    model: MultiTaskRegressor,
    path: str | os.PathLike[str],
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
    batch_rows, n_jobs, callback : see `gram_of_file`
    """
    source, task, features = open_source(path), *_model_columns(model)
    out, kept = Path(out), [keep] if isinstance(keep, str) else list(keep)
    if out.exists() and any(file.samefile(out) for file in source.files):
        raise ValueError(f"{out} is the table to predict for: write the predictions to another file")
    names = source.names()
    for role, wanted in ("task", [task]), ("feature of the model", features), ("keep", kept):
        for name in wanted:
            check_name(name, names, str(source.root), role)
    raw = [] if model.features_ is None else features
    columns = list(dict.fromkeys([*kept, task, *features]))
    labels = [name for name in columns if name not in features]
    threads, size = effective_n_jobs(n_jobs), source.size
    request = Request(columns, labels, raw, checked_rows(batch_rows, len(features)), threads > 1)
    first = list(dict.fromkeys([*kept, task]))

    def predicted(piece: Piece) -> tuple[Any, int]:
        return _with_predictions(model, source, piece, first, return_std), piece.done

    with replacing(out) as partial, table_writer(partial) as write:
        for table, done in in_order(predicted, source.pieces(request), threads):
            write(table)
            report(callback, "predicting", done, size)
    return out


def predict_dask(model: MultiTaskRegressor, ddf: Any) -> Any:
    """Predictions for a Dask data frame as a Dask series named `prediction`; nothing is computed yet.

    Columns that the model does not know are ignored.
    """
    task, features = _model_columns(model)
    for name in (task, *features):
        check_name(name, list(ddf.columns), "the data frame", "column of the model")
    # Workers need coefficients, not statistics; callbacks may not travel.
    light = copy(model)
    light.__dict__.pop("gram_", None)
    if hasattr(light, "callback"):
        light.callback = None
    shipped = dask().delayed(light, pure=True)
    columns = list(model._schema.names or ())
    return ddf[columns].map_partitions(_predict_frame, shipped, meta=("prediction", "f8"))


def _predict_frame(frame: Any, model: MultiTaskRegressor) -> Any:
    values = model.predict(frame) if len(frame) else np.empty(0)
    return frame.assign(prediction=values)["prediction"]


def _model_columns(model: MultiTaskRegressor) -> tuple[str, list[str]]:
    """The task column and the other columns that a model was fitted with."""
    check_is_fitted(model, "coef_")
    schema = model._schema
    if schema.names is None or schema.task is None:
        raise ValueError(
            f"this {type(model).__name__} was fitted without "
            f"{'names of columns' if schema.names is None else 'a task column'}: fit it on a data frame or a file with "
            "a task column, so that the columns to predict from are known"
        )
    task = str(schema.task) if schema.task in schema.names else schema.names[int(schema.task)]
    return task, [name for name in schema.names if name != task]


def _with_predictions(model: MultiTaskRegressor, source: Source, piece: Piece, first: list[str], std: bool) -> Any:
    """The columns `first` of a piece, then prediction and std."""
    task, features = _model_columns(model)
    labels = coded(piece.table[task], task, piece.place)
    whole = piece.table
    if source.text and model.tasks_.dtype.kind in "iu":
        labels = labels._replace(labels=as_known_numbers(labels.labels))
        whole = whole.set_column(whole.schema.names.index(task), task, labels.column())
    table = whole.select(features)
    try:
        X = model._transform(read_table(table if model.features_ is None else table.to_pandas()))
        codes = _codes(model, labels)
    except ValueError as error:
        raise ValueError(f"{piece.place.source}, rows from {piece.place.first_row + 1:,} on: {error}") from None
    out = whole.select(first).append_column("prediction", [model._predict_rows(X, codes)])
    return out.append_column("std", [model._std(X, codes)]) if std else out


def _codes(model: MultiTaskRegressor, labels: Coded) -> NDArray[np.intp]:
    """Positions of the tasks of all rows in the model, by way of the distinct labels."""
    known, now = kind_of(model.tasks_), kind_of(labels.labels)
    if known != now:
        raise ValueError(
            f"task labels were {known} in fit, like {str(model.tasks_[0])!r}, but are {now} now, like "
            f"{str(labels.labels[0])!r}: convert one of them to the type of the other"
        )
    return task_codes(labels.labels, model.tasks_, model.unseen)[labels.codes]
