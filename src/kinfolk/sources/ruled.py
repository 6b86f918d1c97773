"""A source read by the rules for columns: files of every size alike, in Python and on the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from narwhals.exceptions import NarwhalsError

from kinfolk.rows.columns import MICROSECONDS, TableRules, Trouble, trouble_with
from kinfolk.rows.texts import NUMBERS, kind_of_texts
from kinfolk.sources.files import Source, from_text, polars
from kinfolk.sources.lines import check_lines, line_of_row, may_have_short_lines
from kinfolk.sources.roles import Roles

Advice = Callable[[list[str]], str]  # how columns are left out here


def ruled_frame(
    source: Source,
    roles: Roles,
    rules: TableRules,
    advice: Advice,
    *,
    also: Iterable[str] = (),
    lazy: bool = True,
    classes: Sequence[str] | None = None,
) -> Any:
    """A lazy frame of the columns in use and `also`, with the target as floats; the rules have read the features.

    Of two `classes` in the target the second is 1. All problems of all columns are one message, with the `advice` how
    to leave these columns out. Without `lazy` the rows are held in memory.
    """
    pl = polars()
    used = list(dict.fromkeys([*roles.used(), *also]))
    words = dict.fromkeys([*roles.labels(), *rules.categorical, *([roles.target] if classes else [])], pl.String)

    def read(full: bool) -> Any:
        frame = source.frame(used, types=words, full=full)
        if frame.head(1).collect().height == 0:
            raise ValueError(f"{source.root.name} has a header but no rows")
        # Rows in memory are asked as such: a lazy frame of thousands of columns is planned anew for every question.
        frame = frame if lazy else frame.collect()
        rules.read(frame.select(roles.features), source.decimal)
        return frame.lazy()

    frame = read_typed(source, read)
    return frame.with_columns(_target(frame, rules, source, roles.target, advice, classes))


def read_typed(source: Source, read: Any) -> Any:
    """Read with types by the first rows, and by all rows if others are not like these."""
    pl = polars()
    try:
        try:
            return read(False)
        except (pl.exceptions.PolarsError, NarwhalsError, OSError):
            if not source.text:
                raise
            return read(True)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, NarwhalsError, OSError) as error:
        raise source.explained(error) from None


def _target(
    frame: Any, rules: TableRules, source: Source, target: str, advice: Advice, classes: Sequence[str] | None
) -> Any:
    """The target as an expression; all problems of all columns, its own first, are one message."""
    try:
        number = target_column(frame, target, source, classes)
    except ValueError as error:
        raise ValueError(" ".join([str(error), *_problems(rules, frame, source, advice)])) from None
    for message in _problems(rules, frame, source, advice):
        raise ValueError(message)
    return number


def _problems(rules: TableRules, frame: Any, source: Source, advice: Advice) -> list[str]:
    """What is wrong with the inputs, in one sentence with one way to leave them out; nothing if all is well."""
    if not rules.problems_:
        return []
    check_text(source)
    problems = ". ".join(_with_place(name, problem, frame, source) for name, problem in rules.problems_.items())
    return [f"{problems}. Correct or empty these values, {advice(list(rules.problems_))}"]


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


def labels_of(source: Source, name: str) -> list[str]:
    """The sorted labels of a column of text; none if it holds something else."""
    pl = polars()
    frame = read_typed(source, lambda full: source.frame([name], types={name: pl.String}, full=full).unique().collect())
    texts = frame[name].drop_nulls().to_list()
    return sorted(texts) if kind_of_texts(texts, source.decimal) == "category" else []


def target_column(frame: Any, name: str, source: Source, classes: Sequence[str] | None = None) -> Any:
    """An expression for the targets as floats; the second of two `classes`, which are texts, is 1."""
    pl = polars()
    if not classes or frame.collect_schema()[name] != pl.String:
        return number_column(frame, name, source, "the target")
    strange = pl.col(name).is_not_null() & ~pl.col(name).is_in(list(classes))
    texts = frame.lazy().filter(strange).select(pl.col(name).first()).collect()[name].to_list()
    if texts and texts[0] is not None:
        raise ValueError(
            f"{where(frame, strange, source)}: the target {name!r} is {texts[0]!r} there, but the classes of the model "
            f"are {' and '.join(map(repr, classes))}. Correct it, or fit again"
        )
    return (pl.col(name) == classes[1]).cast(pl.Float64).alias(name)


def number_column(frame: Any, name: str, source: Source, what: str) -> Any:
    """An expression for a column of numbers or truth values as floats, or an error that says what it is instead."""
    pl = polars()
    kind = frame.collect_schema()[name]
    if kind.is_numeric() or kind in (pl.Boolean, pl.Duration):
        number = _floats(name, kind)
        if frame.lazy().select(number.is_infinite().any()).collect().item():
            place = where(frame, number.is_infinite(), source)
            raise ValueError(f"{place}: column {name!r} is infinite there. Correct it, or empty it")
        return number
    texts = frame.lazy().select(pl.col(name).cast(pl.String).unique()).collect()[name].drop_nulls().to_list()
    held = "date" if kind.is_temporal() else "other"
    if kind == pl.String:
        held = kind_of_texts(texts, source.decimal)
    if held in NUMBERS:
        return from_text(name, held)
    check_text(source)
    if held == "mixed":
        problem = trouble_with(name, texts)
        raise ValueError(f"{_with_place(name, problem, frame, source)}. Correct it: {what} is a number.")
    words = {"date": "dates", "category": "text", "empty": "nothing"}.get(held, "values that are not numbers")
    shown = f" ({texts[0]!r})" if texts else ""
    two = held == "category" and len(texts) == 2
    labels = ". Two labels are for the family binomial" if two else ""
    raise ValueError(
        f"column {name!r} of {source.root.name} cannot be {what}: it holds {words}{shown}, and a regression predicts a "
        f"number{labels}"
    )


def _floats(name: str, kind: Any) -> Any:
    pl = polars()
    column = pl.col(name).dt.total_microseconds() / MICROSECONDS if kind == pl.Duration else pl.col(name)
    return column.cast(pl.Float64).fill_nan(None)


def with_inputs(frame: Any, roles: Roles, rules: TableRules) -> tuple[Any, Roles]:
    """The frame with numbers and truth values of the features as floats, and the roles without those left out."""
    pl = polars()
    if not rules.rules_:
        raise ValueError("no column is left to predict from: " + "; ".join(rules.notes()))
    schema = frame.collect_schema()
    kinds = {name: kind for name, kind in rules.found_kinds.items() if kind in NUMBERS}
    floats = [
        from_text(name, kind) if schema[name] == pl.String else _floats(name, schema[name])
        for name, kind in kinds.items()
    ]
    return frame.with_columns(floats), replace(roles, features=tuple(rules.rules_))


def complete_rows(
    frame: Any, roles: Roles, inputs: list[str], source: Source, say: Callable[[str], None] | None
) -> tuple[Any, dict[str, int]]:
    """The rows, and how many values are missing in each of the `inputs` with gaps; a row without a label is an error.

    Rows without a target are left out here if `say` can report it, else later, by the fit.
    """
    pl = polars()
    counted = {*roles.labels(), roles.target, *inputs}
    count = frame.select(pl.len().alias("\0"), *(pl.col(name).is_null().sum() for name in counted)).collect()
    gaps = count.row(0, named=True)
    rows = gaps.pop("\0")
    looks_short = source.text and gaps.get(source.names()[-1]) and rows < 1_000_000
    # A line that is too short looks like missing values at its end.
    if looks_short and any(may_have_short_lines(file, source.reading) for file in source.files):
        check_text(source)
    for name in roles.labels():
        if gaps[name]:
            raise ValueError(
                f"{source.root.name} has missing values in {gaps[name]:,} of {rows:,} rows ({name!r} {gaps[name]:,}; "
                f"the first in {where(frame, pl.col(name).is_null(), source).split(', ')[-1]}): a row needs its "
                f"{'task' if name == roles.task else 'group'}. Fill it in, or drop the row (--drop-missing)"
            )
    if gaps[roles.target] == rows:
        raise ValueError(f"column {roles.target!r} of {source.root.name} cannot be the target: it holds nothing")
    if say is not None and gaps[roles.target]:
        say(f"left out {gaps[roles.target]:,} of {rows:,} rows without a target")
        frame = frame.filter(pl.col(roles.target).is_not_null())
    return frame, {name: gaps[name] for name in inputs if gaps[name]}
