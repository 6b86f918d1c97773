"""From a file's columns to what a model takes: roles, kinds, missing values; every surprise is said with its line."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.cli.kinds import (
    as_number,
    decimal_comma,
    example,
    kind_of,
    listed,
    quoted,
    task_labels,
    text_among_numbers,
)
from kinfolk.readers import Frame

Note = Callable[[str], object]


@dataclass(frozen=True)
class Roles:
    """Which column is what; the rest are inputs."""

    task: str
    target: str
    drop: tuple[str, ...] = ()
    groups: str | None = None
    categorical: tuple[str, ...] = ()
    max_categories: int = 50
    drop_missing: bool = False

    @property
    def text(self) -> set[str]:
        """Columns whose values are names, to be read as they are written."""
        return {self.task, *self.categorical, *([self.groups] if self.groups else [])}


@dataclass(frozen=True, eq=False)
class Training:
    """Rows to fit: `X` has the task column first, then the inputs, of which `categories` are text."""

    X: Frame
    y: NDArray[np.float64]
    groups: NDArray[Any] | None
    categories: tuple[str, ...]


def training_rows(frame: Frame, roles: Roles, note: Note) -> Training:
    """The task, the inputs and the target of a file, checked; what was left out or encoded is noted."""
    inputs = _input_names(frame, roles)
    target = number_column(frame, roles.target, "the target")
    kinds = {name: _input_kind(frame, name, roles) for name in inputs}
    columns = {name: as_number(frame, name) if kinds[name] != "categories" else frame[name] for name in inputs}
    others = {roles.task: frame[roles.task], roles.target: target}
    if roles.groups:
        others[roles.groups] = frame[roles.groups]
    keep = complete_rows(frame, {**others, **columns}, drop=roles.drop_missing, note=note)
    kept = frame.take(keep)
    columns = _varying({name: column[keep] for name, column in columns.items()}, note)
    categories = tuple(name for name in columns if kinds[name] == "categories")
    _tell_kinds(columns, kinds, categories, roles, note)
    X = Frame({roles.task: task_labels(kept[roles.task]), **columns}, kept.lines, frame.source)
    return Training(X, target[keep], kept[roles.groups] if roles.groups else None, categories)


def _input_names(frame: Frame, roles: Roles) -> list[str]:
    frame.check_column(roles.task, "--task")
    frame.check_column(roles.target, "--target")
    for option, names in (("--drop", roles.drop), ("--categorical", roles.categorical)):
        for name in names:
            frame.check_column(name, option)
    if roles.groups:
        frame.check_column(roles.groups, "--groups")
    if roles.task == roles.target:
        raise ValueError(f"--task and --target both name {roles.task!r}: they are two columns")
    for name in roles.drop:
        if name in (roles.task, roles.target):
            raise ValueError(f"--drop names {name!r}, which is the task or the target column")
    apart = {roles.task, roles.target, roles.groups, *roles.drop}
    inputs = [name for name in frame.columns if name not in apart]
    if not inputs:
        raise ValueError(f"{frame.source} has no column left to predict from beside task, target, groups and --drop")
    return inputs


def _input_kind(frame: Frame, name: str, roles: Roles) -> str:
    """The kind of an input, or an error that says why it cannot be one."""
    column = frame[name]
    kind = "categories" if name in roles.categorical else kind_of(column)
    if kind in ("number", "truth"):
        return kind
    if kind == "empty":
        raise ValueError(f"column {name!r} of {frame.source} is empty. Leave it out: --drop {quoted(name)}")
    if kind == "date":
        raise ValueError(
            f"column {name!r} of {frame.source} holds dates or times ({example(column)!r}). Turn them into numbers "
            f"(days since a start, hour of the day), or leave the column out: --drop {quoted(name)}"
        )
    if kind == "comma":
        raise ValueError(decimal_comma(frame, name))
    if kind == "mixed":
        raise ValueError(text_among_numbers(frame, name))
    if kind == "other":
        raise ValueError(
            f"column {name!r} of {frame.source} holds {type(example(column)).__name__} values, which are neither "
            f"numbers nor text. Leave it out: --drop {quoted(name)}"
        )
    _check_categories(frame, name, roles.max_categories)
    return kind


def _check_categories(frame: Frame, name: str, most: int) -> None:
    distinct = {value for value in frame[name] if value is not None}
    if len(distinct) > most:
        raise ValueError(
            f"column {name!r} of {frame.source} has {len(distinct):,} different texts, like {example(frame[name])!r}: "
            f"names or free text rather than categories? Leave it out: --drop {quoted(name)}, or allow them: "
            f"--max-categories {len(distinct)}"
        )


def number_column(frame: Frame, name: str, what: str) -> NDArray[np.float64]:
    """A column of numbers or truth values as floats, or an error that says what it is instead."""
    kind = kind_of(frame[name])
    if kind == "comma":
        raise ValueError(decimal_comma(frame, name))
    if kind == "mixed":
        raise ValueError(text_among_numbers(frame, name).split(" Correct it")[0] + f" Correct it: {what} is a number")
    if kind not in ("number", "truth"):
        raise ValueError(
            f"column {name!r} of {frame.source} cannot be {what}: it holds {_in_words(kind)} "
            f"({example(frame[name])!r}), and a regression predicts a number"
        )
    return as_number(frame, name)


def complete_rows(frame: Frame, columns: dict[str, NDArray[Any]], *, drop: bool, note: Note) -> NDArray[np.bool_]:
    """Which rows have a value in every column; an error that names columns and lines unless the others may go."""
    gaps = {name: _missing(column) for name, column in columns.items()}
    gaps = {name: gap for name, gap in gaps.items() if gap.any()}
    if not gaps:
        return np.ones(len(frame), bool)
    bad = np.any(list(gaps.values()), axis=0)
    worst = sorted(gaps, key=lambda name: -int(gaps[name].sum()))
    told = ", ".join(f"{name!r} {int(gaps[name].sum()):,}" for name in worst[:5]) + (", ..." if len(worst) > 5 else "")
    if not drop:
        first = int(np.argmax(bad))
        raise ValueError(
            f"{frame.source} has missing values in {int(bad.sum()):,} of {len(frame):,} rows ({told}; the first in "
            f"{frame.where(first)}). Leave these rows out: --drop-missing, leave a column out: --drop "
            f"{quoted(worst[0])}, or fill them in"
        )
    if bad.all():
        raise ValueError(f"every row of {frame.source} has a missing value ({told}): leave out a column with --drop")
    note(f"left out {int(bad.sum()):,} of {len(frame):,} rows with missing values ({told})")
    return ~bad


def _missing(column: NDArray[Any]) -> NDArray[np.bool_]:
    if column.dtype.kind == "f":
        return np.isnan(column)
    if column.dtype.kind == "M":
        return np.isnat(column)
    if column.dtype == object:
        return np.array([value is None or value != value for value in column], dtype=bool)
    return np.zeros(len(column), bool)


def _varying(columns: dict[str, NDArray[Any]], note: Note) -> dict[str, NDArray[Any]]:
    """The columns without those that hold one value only, which carry nothing."""
    constant = [name for name, column in columns.items() if (column == column[0]).all()]
    if len(constant) == len(columns):
        raise ValueError("every input has the same value in all rows: there is nothing to predict from")
    if constant:
        note(f"left out, since the same in all rows: {listed(constant)}")
    return {name: column for name, column in columns.items() if name not in constant}


def _tell_kinds(
    columns: dict[str, NDArray[Any]], kinds: dict[str, str], categories: Iterable[str], roles: Roles, note: Note
) -> None:
    for name in categories:
        note(f"column {name!r} is text and is one-hot encoded ({len(set(columns[name]))} categories)")
    truths = [name for name in columns if kinds[name] == "truth"]
    if truths:
        note(f"true and false become 1 and 0: {listed(truths)}")
    if roles.groups and roles.groups not in (roles.task, roles.target):
        note(f"column {roles.groups!r} makes the folds and is no input")


def _in_words(kind: str) -> str:
    return {"date": "dates", "categories": "text", "empty": "nothing"}.get(kind, "values that are not numbers")
