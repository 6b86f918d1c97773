"""Tables that the commands are given: what each column is, what becomes of it, and every surprise with its line."""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.cli.console import Console
from kinfolk.rows.folds import in_order
from kinfolk.rows.kinds import TRUTH, TextCounts, kind_of_texts
from kinfolk.rows.rules import TableRules, Trouble
from kinfolk.rows.sources.databases import Address, fetch_query
from kinfolk.rows.sources.files import Reading, Source, check_column, open_source, polars, separator_note
from kinfolk.rows.sources.lines import check_lines, line_of_row
from kinfolk.rows.sources.stream import plain_labels, whole_numbers

LARGE = 200 * 2**20  # bytes of a file that is read in blocks


@dataclass(frozen=True, eq=False)
class Training:
    """Rows to fit: `X` has the task column first, then the inputs; lazy for a table that is read in blocks."""

    X: Any
    y: Any
    groups: Any
    rules: TableRules
    source: Source

    def features(self, *, scale: bool) -> Any:
        """What stands between the table and the model; None if inputs are numbers already and need not be scaled.

        Methods that penalise coefficients need inputs on one scale; `scale` is False for those that see to it.
        """
        from sklearn.preprocessing import StandardScaler

        rules = self.rules
        if all(rule["kind"] in ("number", "truth") and not rule["gaps"] for rule in rules.rules_.values()):
            return StandardScaler() if scale else None
        return TableRules(
            categorical=rules.categorical, max_categories=rules.max_categories, scale=scale, kinds=rules.found_kinds
        )

    def take(self, which: NDArray[np.bool_]) -> Training:
        """Some of the rows."""
        groups = None if self.groups is None else self.groups[which]
        return replace(self, X=self.X.filter(which), y=self.y[which], groups=groups)


def open_table(options: argparse.Namespace, console: Console) -> Source:
    """The table of a command; what is assumed about how it is written is noted."""
    mark = {"\\t": "\t", "tab": "\t"}.get(options.delimiter, options.delimiter)
    if mark is not None and len(mark) != 1:
        raise ValueError(f"--delimiter {mark!r}: give one character, or tab")
    if isinstance(options.data, Address):
        return fetch_query(options.data, options.query).joining(getattr(options, "task", None))
    if options.query:
        raise ValueError(f"--query asks a database, e.g. duckdb:///shop.db, but {options.data} is a file")
    source = open_source(options.data, Reading(mark, options.encoding, options.decimal))
    source = source.joining(getattr(options, "task", None))
    note = separator_note(source)
    if note:
        console.note(note)
    if source.text and source.head().names[0] == "":
        console.note(f"{source.root.name}: the first column has no name and is left out as row labels")
    return source


def read_files(*data: Any) -> tuple[Path, ...]:
    """The files behind what a command reads."""
    paths = [table.path if isinstance(table, Address) else table for table in data]
    return tuple(path for path in paths if path is not None)


def in_database(options: argparse.Namespace) -> bool:
    """Whether a database is to compute the statistics itself."""
    return bool(options.stream) and isinstance(options.data, Address) and options.data.kind != "sqlite"


def wants_stream(source: Source, options: argparse.Namespace) -> bool:
    """Whether the table is to be read in blocks: because it is large, or because it was asked for."""
    return bool(options.stream) or source.size > LARGE


def training_rows(source: Source, options: argparse.Namespace, console: Console, *, lazy: bool = False) -> Training:
    """The task, the inputs and the target of a table, checked; what was left out or encoded is noted."""
    pl = polars()
    inputs = _input_names(source, options)
    labels = [options.task, *([options.groups] if options.groups else [])]
    if options.time and lazy:
        raise ValueError("--time puts rows in memory in order, and this table is read in blocks: leave --time out")
    used = list(dict.fromkeys([*labels, *inputs, options.target, *([options.time] if options.time else [])]))
    words = {*labels, *options.categorical}
    rules = TableRules(categorical=tuple(options.categorical), max_categories=options.max_categories)

    def read(full: bool) -> Any:
        frame = source.frame(used, types=dict.fromkeys(words, pl.String), full=full)
        frame = frame if lazy else frame.collect().lazy()
        rules.read(frame.select(inputs))
        return frame

    frame = read_typed(source, read)
    if frame.head(1).collect().height == 0:
        raise ValueError(f"{source.root.name} has a header but no rows")
    frame = frame.with_columns(number_column(frame, options.target, source, "the target"))
    _check_rules(rules, frame, source)
    frame = complete_rows(frame, labels, inputs, source, options, console, lazy=lazy)
    if options.drop_missing and any(rule["gaps"] for rule in rules.rules_.values()):
        rules.read(frame.select(inputs))
    kept = list(rules.rules_)
    if not kept:
        raise ValueError("every input has the same value in all rows: there is nothing to predict from")
    for note in rules.notes():
        console.note(note)
    if options.groups and options.groups not in (options.task, options.target):
        console.note(f"column {options.groups!r} makes the folds and is no input")
    frame = frame.with_columns(_as_floats(rules, frame))
    if lazy:
        return Training(frame.select(list(dict.fromkeys([*labels, *kept, options.target]))), None, None, rules, source)
    frame = frame.collect().rechunk()
    task = task_labels(frame[options.task], source)
    groups = frame[options.groups].to_numpy() if options.groups else None
    groups = in_order(groups, frame[options.time].to_numpy() if options.time else None, None, frame.height)
    X = frame.select(task.alias(options.task), *kept)
    return Training(X, frame[options.target].to_numpy(), groups, rules, source)


def read_typed(source: Source, read: Any) -> Any:
    """Read with types by the first rows, and by all rows if others are not like these."""
    pl = polars()
    try:
        try:
            return read(False)
        except pl.exceptions.PolarsError:
            if not source.text:
                raise
            return read(True)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise source.explained(error) from None


def _input_names(source: Source, options: argparse.Namespace) -> list[str]:
    names = source.names()
    asked = {"--task": [options.task], "--target": [options.target], "--drop": options.drop}
    asked |= {"--categorical": options.categorical, "--groups": [options.groups] if options.groups else []}
    asked |= {"--time": [options.time] if options.time else []}
    for option, wanted in asked.items():
        for name in wanted:
            check_column(name, names, source.root.name, option)
    if options.task == options.target:
        raise ValueError(f"--task and --target both name {options.task!r}: they are two columns")
    for name in options.drop:
        if name in (options.task, *source.parts, options.target):
            raise ValueError(f"--drop names {name!r}, which is the task or the target column")
    apart = {options.task, *source.parts, options.target, options.groups, *options.drop}
    inputs = [name for name in names if name not in apart]
    if not inputs:
        raise ValueError(
            f"{source.root.name} has no column left to predict from beside task, target, groups and --drop"
        )
    return inputs


def _check_rules(rules: TableRules, frame: Any, source: Source) -> None:
    """All problems of all columns in one message, and one option that leaves the columns out."""
    if not rules.problems_:
        return
    check_text(source)
    commas = [name for name, problem in rules.problems_.items() if "decimal comma" in problem.text]
    if commas and source.text and source.reading.decimal == ".":
        told = rules.problems_[commas[0]].text.replace("holds", f"of {source.root.name} holds")
        raise ValueError(f"{told}: give --decimal ,")
    told = ". ".join(_with_place(name, problem, frame, source) for name, problem in rules.problems_.items())
    names = " ".join(quoted(name) for name in rules.problems_)
    raise ValueError(
        f"{told}. Correct or empty these values, take columns as categories: --categorical {names}, or leave them out: "
        f"--drop {names}"
    )


def _with_place(name: str, problem: Trouble, frame: Any, source: Source) -> str:
    pl = polars()
    if problem.value is None:
        return problem.text
    infinite = isinstance(problem.value, float)
    condition = pl.col(name).is_infinite() if infinite else pl.col(name).cast(pl.String) == problem.value
    return f"{where(frame, condition, source)}: {problem.text}"


def where(frame: Any, condition: Any, source: Source) -> str:
    """How a person finds the first row where a condition holds: file and line, or its number counted from 1."""
    row = frame.lazy().select(polars().arg_where(condition).first()).collect().item()
    if not source.text or len(source.files) > 1:
        return f"{source.root.name}, row {row + 1}"
    return f"{source.root.name}, line {line_of_row(source.files[0], source.reading, row)}"


def check_text(source: Source) -> None:
    """What is wrong with the lines of a text file, if anything is."""
    for file in source.files if source.text else ():
        check_lines(file, source.reading, name=str(file))


def number_column(frame: Any, name: str, source: Source, what: str) -> Any:
    """An expression for a column of numbers or truth values as floats, or an error that says what it is instead."""
    pl = polars()
    kind = frame.collect_schema()[name]
    if kind.is_numeric() or kind == pl.Boolean:
        number = pl.col(name).cast(pl.Float64).fill_nan(None)
        if frame.lazy().select(number.is_infinite().any()).collect().item():
            place = where(frame, number.is_infinite(), source)
            raise ValueError(f"{place}: column {name!r} is infinite there. Correct it, or empty it")
        return number
    texts = frame.lazy().select(pl.col(name).cast(pl.String).unique()).collect()[name].drop_nulls().to_list()
    held = "date" if kind.is_temporal() else "other"
    if kind == pl.String:
        held = kind_of_texts(texts)
    if held in ("number", "truth"):
        return from_text(name)
    check_text(source)
    if held in ("comma", "mixed"):
        problem = TableRules()._of_text(name, TextCounts(dict.fromkeys(texts, 1), 0))
        assert isinstance(problem, Trouble)
        remedy = "give --decimal ," if held == "comma" else f"Correct it: {what} is a number"
        raise ValueError(f"{_with_place(name, problem, frame, source)}. {remedy}")
    words = {"date": "dates", "category": "text", "empty": "nothing"}.get(held, "values that are not numbers")
    shown = f" ({texts[0]!r})" if texts else ""
    raise ValueError(
        f"column {name!r} of {source.root.name} cannot be {what}: it holds {words}{shown}, and a regression predicts a "
        "number"
    )


def from_text(name: str) -> Any:
    """Numbers, or true and false, that came as text."""
    pl = polars()
    low = pl.col(name).str.to_lowercase()
    return (
        pl.when(low.is_in(list(TRUTH)))
        .then((low == "true").cast(pl.Float64))
        .otherwise(pl.col(name).cast(pl.Float64, strict=False))
        .alias(name)
    )


def _as_floats(rules: TableRules, frame: Any) -> list[Any]:
    """Expressions for the inputs that are numbers or truth values."""
    pl = polars()
    schema = frame.collect_schema()
    names = [name for name, rule in rules.rules_.items() if rule["kind"] in ("number", "truth")]
    return [from_text(n) if schema[n] == pl.String else pl.col(n).cast(pl.Float64).fill_nan(None) for n in names]


def complete_rows(
    frame: Any,
    labels: list[str],
    inputs: list[str],
    source: Source,
    options: argparse.Namespace,
    console: Console,
    *,
    lazy: bool,
) -> Any:
    """The rows, with `--drop-missing` those with all inputs; a row without a label is an error.

    Rows without a target are left out here if the table is read in blocks, else by whoever fits.
    """
    pl = polars()
    target = options.target
    gaps = frame.select(pl.len().alias("\0"), *(pl.col(c).is_null().sum() for c in {*labels, target, *inputs}))
    count = gaps.collect().row(0, named=True)
    rows = count.pop("\0")
    if source.text and count.get(source.names()[-1]) and rows < 1_000_000:
        check_text(source)  # a line that is too short looks like missing values at its end
    for name in labels:
        if count[name]:
            raise ValueError(
                f"{source.root.name} has missing values in {count[name]:,} of {rows:,} rows ({name!r} {count[name]:,}; "
                f"the first in {where(frame, pl.col(name).is_null(), source).split(', ')[-1]}): a row needs its "
                f"{'task' if name == options.task else 'group'}. Fill it in, or drop the row"
            )
    if count[target] == rows:
        raise ValueError(f"column {target!r} of {source.root.name} cannot be the target: it holds nothing")
    if lazy and count[target]:
        console.note(f"left out {count[target]:,} of {rows:,} rows without a target")
        frame = frame.filter(pl.col(target).is_not_null())
    return without_gaps(frame, [name for name in inputs if count[name]], options, console)


def without_gaps(frame: Any, gaps: list[str], options: argparse.Namespace, console: Console) -> Any:
    """The rows without missing values in some columns, if the others are to go."""
    pl = polars()
    if not gaps or not options.drop_missing:
        return frame
    counts = frame.lazy().select(pl.len().alias("\0"), pl.col(gaps).is_null().sum()).collect().row(0, named=True)
    rows = counts.pop("\0")
    worst = sorted(gaps, key=lambda name: -counts[name])
    told = ", ".join(f"{name!r} {counts[name]:,}" for name in worst[:5]) + (", ..." if len(worst) > 5 else "")
    whole = frame.filter(~pl.any_horizontal(pl.col(gaps).is_null()))
    left = whole.lazy().select(pl.len()).collect().item()
    if not left:
        raise ValueError(f"every row has a missing value ({told}): leave out a column with --drop")
    console.note(f"left out {rows - left:,} of {rows:,} rows with missing values ({told})")
    return whole


def task_labels(values: Any, source: Source) -> Any:
    """Task names; from text as integers if every one is written as one without leading zeros."""
    pl = polars()
    values = plain_labels(values)
    if source.text and whole_numbers(values.unique().to_numpy().astype(str)).dtype.kind == "i":
        return values.cast(pl.Int64)
    return values


def quoted(name: str) -> str:
    """A name as the shell takes it."""
    return name if re.fullmatch(r"[\w.:/-]+", name) else f'"{name}"'


def load_model(path: Path) -> Any:
    """The model in a file."""
    from kinfolk.store import load

    if not path.exists():
        raise FileNotFoundError(f"there is no model file {str(path)!r}: write one with kinfolk fit")
    return load(path)
