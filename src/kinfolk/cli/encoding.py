"""Text columns as numbers, kept inside the model: how it is built for fit, and found again for predict."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from kinfolk.cli.columns import Note, complete_rows
from kinfolk.cli.console import Console
from kinfolk.cli.kinds import as_number, counted, kind_of, listed, task_labels, text_among_numbers
from kinfolk.cli.tables import read_options
from kinfolk.readers import Frame, read_file

NOTHING: Mapping[str, str] = MappingProxyType({})
CATEGORIES = "categories"  # name of the encoder's part


def transformer(inputs: list[str], categories: tuple[str, ...], *, scale: bool) -> Any:
    """What stands between the table and the model: one-hot encoding, and inputs on one scale; None if neither is due.

    Methods that penalise coefficients need inputs on one scale; `scale` is False for those that see to it themselves.
    """
    texts = [k for k, name in enumerate(inputs) if name in categories]
    numbers = [k for k, name in enumerate(inputs) if name not in categories]
    if not texts:
        return StandardScaler() if scale else None
    encoder = OneHotEncoder(drop="if_binary", handle_unknown="ignore", sparse_output=False)
    parts = [("numbers", StandardScaler(), numbers)] if numbers else []
    return ColumnTransformer([*parts, (CATEGORIES, encoder, texts)], verbose_feature_names_out=False)


def known_categories(model: Any) -> dict[str, NDArray[Any]]:
    """Categories that the model's encoder saw in fit, by column."""
    features = getattr(model, "features_", None)
    if not isinstance(features, ColumnTransformer) or CATEGORIES not in features.named_transformers_:
        return {}
    inputs = [name for name in model.feature_names_in_ if name != model.task]
    columns = next(columns for name, _, columns in features.transformers_ if name == CATEGORIES)
    encoder = features.named_transformers_[CATEGORIES]
    return {inputs[k]: known for k, known in zip(columns, encoder.categories_, strict=True)}


def input_columns(model: Any, frame: Frame) -> list[str]:
    """Columns of the file that the model takes, in its order, the task column among them."""
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        raise ValueError(
            "the model was fitted on an array without column names, so columns of a file cannot be matched to it: fit "
            "it on a data frame, or with kinfolk fit"
        )
    for name in names:
        option = "the task column of the model" if name == model.task else "an input of the model"
        frame.check_column(name, option)
    return list(names)


def new_rows(model: Any, frame: Frame, note: Note) -> dict[str, NDArray[Any]]:
    """The columns that the model takes, each of the kind it had in fit; missing values stay missing."""
    known = known_categories(model)
    columns = {}
    for name in input_columns(model, frame):
        if name == model.task:
            columns[name] = frame[name]
        elif name in known:
            columns[name] = frame[name]
            _note_unknown(name, frame[name], known[name], note)
        else:
            columns[name] = _as_in_fit(frame, name)
    return columns


def _as_in_fit(frame: Frame, name: str) -> NDArray[np.float64]:
    kind = kind_of(frame[name])
    if kind == "empty":
        return np.full(len(frame), np.nan)
    if kind not in ("number", "truth"):
        message = text_among_numbers(frame, name).split(" Correct it")[0]
        raise ValueError(f"{message} It was a number in fit: correct it, or empty it and use --drop-missing")
    return as_number(frame, name)


def _note_unknown(name: str, column: NDArray[Any], known: NDArray[Any], note: Note) -> None:
    unknown = {value for value in column if value is not None} - set(known)
    if unknown:
        rows = sum(value in unknown for value in column)
        new = listed(sorted(unknown))
        note(
            f"column {name!r}: {counted(rows, 'row')} with categories that fit has not seen ({new}), which count as "
            "none of the known ones"
        )


def labels_as_in_fit(model: Any, frame: Frame, column: NDArray[Any], unseen: str) -> NDArray[Any]:
    """Task labels of the kind that fit saw; unseen tasks are an error unless they may be."""
    labels = task_labels(column)
    if model.tasks_.dtype.kind == "U":
        labels = labels.astype(str)
    elif labels.dtype.kind == "U":
        labels = _whole_numbers(model, frame, labels)
    strange = ~np.isin(labels, model.tasks_)
    if strange.any() and unseen == "error":
        row = int(np.argmax(strange))
        others = len(np.unique(labels[strange])) - 1
        more = f" and {others:,} more tasks" if others else ""
        raise ValueError(
            f"{frame.source}, {frame.where(row)}: task {labels[row]}{more} not seen in fit ({len(model.tasks_):,} "
            f"tasks: {model.tasks_[0]}, ...). Predict them by the mean of all tasks: --unseen mean, or fit again"
        )
    return labels


def _whole_numbers(model: Any, frame: Frame, labels: NDArray[Any]) -> NDArray[np.int64]:
    """Labels written as text, like 007, for a model whose tasks are numbers."""
    is_number = np.char.isdigit(labels)
    if not is_number.all():
        row = int(np.argmin(is_number))
        raise ValueError(
            f"{frame.source}, {frame.where(row)}: task {str(labels[row])!r} is text, but the tasks of the model are "
            f"numbers like {model.tasks_[0]}. Correct the column {model.task!r}"
        )
    return labels.astype(np.int64)


@dataclass(frozen=True, eq=False)
class NewRows:
    """Rows of a file as a model takes them: `X`, and all columns of the same rows in `frame`."""

    X: Frame
    frame: Frame


def rows_for(
    model: Any,
    options: argparse.Namespace,
    console: Console,
    *,
    unseen: str = "error",
    also: Mapping[str, str] = NOTHING,
) -> NewRows:
    """Read a file and put its rows as the model takes them; `also` are further columns that must be there
    and have no gaps, by the option that asks for them."""
    if not isinstance(getattr(model, "task", None), str):
        raise ValueError("the model has no task column with a name: fit it with kinfolk fit, or use it in Python")
    text = {model.task, *known_categories(model)}
    frame = read_file(options.data, text=text, notify=console.note, **read_options(options))
    columns = new_rows(model, frame, console.note)
    for option, name in also.items():
        frame.check_column(name, option)
    extra = {name: frame[name] for name in also.values()}
    keep = complete_rows(frame, {**columns, **extra}, drop=options.drop_missing, note=console.note)
    frame = frame.take(keep)
    columns = {name: column[keep] for name, column in columns.items()}
    columns[model.task] = labels_as_in_fit(model, frame, columns[model.task], unseen)
    return NewRows(Frame(columns, frame.lines, frame.source), frame)
