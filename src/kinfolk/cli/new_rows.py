"""New rows for a model: columns as they were in fit, and every value that is not, with its line."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from kinfolk.cli.console import Console
from kinfolk.cli.tables import task_labels, without_gaps
from kinfolk.methods.method import MultiTaskRegressor
from kinfolk.rows.columns import TableRules
from kinfolk.rows.table import task_name
from kinfolk.rows.texts import NUMBERS, WORDS, kind_of_texts
from kinfolk.sources.files import Source, from_text, polars
from kinfolk.sources.roles import check_column
from kinfolk.sources.ruled import check_text, number_column, read_typed, where


def rows_for(
    model: MultiTaskRegressor, source: Source, options: argparse.Namespace, console: Console, also: Mapping[str, str]
) -> Any:
    """All columns of a table, those of the model's inputs as the model takes them; `also` are further columns that must
    be there and have no gaps, by the option that asks for them."""
    pl = polars()
    task = task_name(model.task)
    source = source.joining(task)
    names = model_inputs(model, source)
    for option, name in also.items():
        check_column(name, source.names(), source.root.name, option)
    rules = getattr(model, "features_", None)
    known = rules.found_kinds if isinstance(rules, TableRules) else {}
    words = [task, *(name for name in names if known.get(name) in WORDS)]
    frame = read_typed(
        source, lambda full: source.frame(source.names(), types=dict.fromkeys(words, pl.String), full=full).collect()
    )
    if not frame.height:
        raise ValueError(f"{source.root.name} has a header but no rows")
    plain = [n for n in names if n != task and known.get(n, "number") in NUMBERS]
    frame = frame.with_columns([_as_in_fit(frame, name, source) for name in plain])
    must = [task, *also.values(), *(names if options.drop_missing else ())]
    frame = _checked_gaps(frame, list(dict.fromkeys(must)), options, console, source)
    return frame.with_columns(labels_as_in_fit(model, frame, source))


def model_inputs(model: MultiTaskRegressor, source: Source) -> list[str]:
    """Columns of the table that the model takes, in its order, the task column among them."""
    if not isinstance(task_name(getattr(model, "task", None)), str):
        raise ValueError("the model has no task column with a name: fit it with kinfolk fit, or use it in Python")
    task = task_name(model.task)
    for name in model.feature_names_in_:
        role = "the task column of the model" if name == task else "an input of the model"
        check_column(name, source.names(), source.root.name, role)
    return list(model.feature_names_in_)


def _as_in_fit(frame: Any, name: str, source: Source) -> Any:
    """An expression for a column that was numbers in fit; missing values stay missing."""
    pl = polars()
    if frame[name].dtype == pl.Null:
        return pl.lit(None, pl.Float64).alias(name)
    if frame[name].dtype != pl.String:
        return number_column(frame, name, source, "an input of the model")
    kind = kind_of_texts(frame[name].drop_nulls().unique().to_list(), source.decimal)
    number = from_text(name, kind)
    wrong = number.is_null() & pl.col(name).is_not_null()
    strange = frame.filter(wrong)[name]
    if len(strange):
        check_text(source)
        more = f" (and {len(strange) - 1:,} more)" if len(strange) > 1 else ""
        raise ValueError(
            f"{where(frame, wrong, source)}: column {name!r} holds numbers, but here {strange[0]!r}{more}. It was a "
            "number in fit: correct it, or empty it"
        )
    return number


def _checked_gaps(frame: Any, columns: list[str], options: argparse.Namespace, console: Console, source: Source) -> Any:
    """Rows without gaps in some columns: others are left out if asked for, and an error if not."""
    pl = polars()
    gaps = [name for name in columns if frame[name].null_count()]
    if not gaps or options.drop_missing:
        return without_gaps(frame, gaps, options, console)
    condition = pl.any_horizontal(pl.col(gaps).is_null())
    shown = ", ".join(f"{name!r} {frame[name].null_count():,}" for name in gaps[:5])
    first = where(frame, condition, source).split(", ")[-1]
    rows = f"{frame.filter(condition).height:,} of {frame.height:,} rows"
    raise ValueError(
        f"{source.root.name} has missing values in {rows} ({shown}; "
        f"the first in {first}). Leave these rows out: --drop-missing, or fill them in"
    )


def labels_as_in_fit(model: MultiTaskRegressor, frame: Any, source: Source) -> Any:
    """Task labels of the kind that fit saw; unseen tasks are an error if they are to be."""
    pl = polars()
    task = task_name(model.task)
    labels = task_labels(frame[task], source)
    if model.tasks_.dtype.kind == "U":
        labels = labels.cast(pl.String)
    elif labels.dtype == pl.String and model.tasks_.dtype.kind in "iu":
        whole = labels.str.strip_suffix(".0").cast(pl.Int64, strict=False)
        if whole.null_count():
            strange = labels.filter(whole.is_null())[0]
            raise ValueError(
                f"{where(frame, pl.col(task) == strange, source)}: task {strange!r} is text, but the tasks of "
                f"the model are numbers like {model.tasks_[0]}. Correct the column {task!r}"
            )
        labels = whole
    known = pl.Series(model.tasks_)
    strange = labels.filter(~labels.is_in(known.cast(labels.dtype).implode()))
    if len(strange) and model.unseen == "error":
        others = strange.n_unique() - 1
        more = f" and {others:,} more tasks" if others else ""
        place = where(labels.alias("label").to_frame(), pl.col("label") == strange[0], source)
        raise ValueError(
            f"{place}: task {strange[0]}{more} not seen in fit ({len(model.tasks_):,} tasks: {model.tasks_[0]}, ...). "
            "Predict them by the mean of all tasks: --unseen mean, or fit again"
        )
    return labels.alias(task)
