"""Tables that the commands are given: what each column is, what becomes of it, and every surprise with its line."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from kinfolk.cli.console import Console
from kinfolk.memory import check_limit, fits_into_memory
from kinfolk.rows.columns import TableRules
from kinfolk.rows.splits import in_order
from kinfolk.sources.addresses import Address
from kinfolk.sources.databases import fetch_query
from kinfolk.sources.files import Reading, Source, open_source, polars, reading_notes
from kinfolk.sources.roles import Roles, check_column, choose_roles, listed
from kinfolk.sources.ruled import complete_rows, labels_of, ruled_frame, with_inputs
from kinfolk.sources.stream import plain_labels, whole_numbers
from kinfolk.words import cut

ADDRESSES = 3 * 2**28  # bytes of address space that BLAS, polars and its threads take: below, they end the process
PER_BYTE = 7  # of a file that is read in blocks: 6 were too few for a text of 210 MB
IN_MEMORY = 12  # bytes that a fit takes per byte of a file: 11 for a million rows of eight numbers as text


@dataclass(frozen=True, eq=False)
class Training:
    """Rows to fit: `X` has the task column first, then the inputs; lazy for a table that is read in blocks.

    `classes` are the labels that targets of 0 and 1 stand for, if the table has texts there.
    """

    X: Any
    y: Any
    groups: Any
    rules: TableRules
    source: Source
    roles: Roles
    classes: tuple[str, ...] = ()

    def features(self, *, scale: bool, but: Mapping[str, Any]) -> Any:
        """What stands between the table and the model; None if inputs are numbers already and need not be scaled.

        Methods that penalise coefficients need inputs on one scale; `scale` is False for those that see to it. The
        columns that `but` names as exposure or offset are no inputs.
        """
        from sklearn.base import clone
        from sklearn.preprocessing import StandardScaler

        rules = self.rules
        if rules.plain:
            return StandardScaler() if scale else None
        kinds = {name: kind for name, kind in rules.found_kinds.items() if name not in but.values()}
        return clone(rules).set_params(scale=scale, kinds=kinds)

    def in_memory(self, frame: Any, options: argparse.Namespace) -> Self:
        """The same with the rows of a frame in memory."""
        groups = frame[options.groups].to_numpy() if options.groups else None
        time = frame[options.time].to_numpy() if options.time else None
        X = frame.select(task_labels(frame[options.task], self.source).alias(options.task), *self.roles.features)
        y = frame[options.target].to_numpy()
        return replace(self, X=X, y=y, groups=in_order(groups, time, None, frame.height))


def open_table(options: argparse.Namespace, console: Console) -> Source:
    """The table of a command; what is assumed about how it is written is noted."""
    mark = {"\\t": "\t", "tab": "\t"}.get(options.delimiter, options.delimiter)
    if mark is not None and len(mark) != 1:
        raise ValueError(f"--delimiter {mark!r}: give one character, or tab")
    if isinstance(options.data, Address):
        fetched = fetch_query(options.data, options.query, files=options.allow_files)
        return fetched.joining(getattr(options, "task", None))
    if options.query:
        raise ValueError(f"--query asks a database, e.g. duckdb:///shop.db, but {options.data} is a file")
    if options.allow_files:
        raise ValueError(f"--allow-files is for queries of DuckDB, but {options.data} is a file: leave it out")
    source = open_source(options.data, Reading(mark, options.encoding, options.decimal))
    check_limit(max(ADDRESSES, ADDRESSES / 2 + PER_BYTE * source.size), f"reading {source.root.name}")
    source = source.joining(getattr(options, "task", None))
    for note in reading_notes(source):
        console.note(note)
    return source


def read_files(*data: Any) -> tuple[Path, ...]:
    """The files behind what a command reads."""
    paths = [table.path if isinstance(table, Address) else table for table in data]
    return tuple(path for path in paths if path is not None)


def in_database(options: argparse.Namespace) -> bool:
    """Whether a database is to compute the statistics itself."""
    return bool(options.stream) and isinstance(options.data, Address) and options.data.kind != "sqlite"


def wants_stream(source: Source, options: argparse.Namespace) -> bool:
    """Whether the table is to be read in blocks: because memory could not hold it, or because it was asked for."""
    return bool(options.stream) or not fits_into_memory(IN_MEMORY * source.size)


def training_rows(source: Source, options: argparse.Namespace, console: Console, *, lazy: bool = False) -> Training:
    """The task, the inputs and the target of a table, checked; what was left out or encoded is noted."""
    roles = _roles(source, options)
    given = {"categorical": tuple(options.categorical), "max_categories": options.max_categories}
    rules = TableRules(**given, learn=not lazy)  # blocks go by once: too late to learn from
    also = [options.time] if options.time else []
    classes = _classes(source, options, console)
    frame = ruled_frame(source, roles, rules, _advice, also=also, lazy=lazy, classes=classes)
    frame = without_gaps(frame, list(roles.labels()), options, console)
    frame, gaps = complete_rows(frame, roles, list(rules.rules_), source, None)
    if gaps and options.impute is False:
        shown = ", ".join(f"{name!r} {count:,}" for name, count in [*gaps.items()][:5])
        raise ValueError(
            f"{source.root.name} has missing values ({shown}), and --no-impute refuses them. Leave these rows out: "
            f"--drop-missing, the columns: --drop {' '.join(map(quoted, gaps))}, or fill them in: --impute"
        )
    frame = without_gaps(frame, list(gaps), options, console)
    if options.drop_missing and any(rule["gaps"] for rule in rules.rules_.values()):
        rules.read(frame.select(roles.features), source.decimal)
    frame, used = with_inputs(frame, roles, rules)
    for note in rules.notes():
        console.note(note)
    if options.groups and options.groups not in (options.task, options.target):
        console.note(f"column {options.groups!r} makes the folds and is no input")
    if lazy:
        return Training(
            frame.select(list(dict.fromkeys([*used.used(), *also]))), None, None, rules, source, used, classes
        )
    return Training(None, None, None, rules, source, used, classes).in_memory(frame.collect().rechunk(), options)


def _classes(source: Source, options: argparse.Namespace, console: Console) -> tuple[str, ...]:
    """The two labels of a target that is text, of which the second will be 1; none of numbers."""
    if options.family not in ("binomial", "auto"):
        return ()
    labels = labels_of(source, options.target)
    if len(labels) > 2:
        shown = listed([cut(label) for label in labels], "")
        raise ValueError(
            f"column {options.target!r} of {source.root.name} holds {len(labels):,} labels ({shown}), and a model file "
            "predicts the probability of one of two. Leave out rows of others, or fit GAMTLClassifier or "
            "GAMTLClassifierCV in Python, which take any number of classes"
        )
    if len(labels) == 1:
        raise ValueError(f"all targets in column {options.target!r} of {source.root.name} are {labels[0]!r}")
    if labels:
        zero, one = labels
        console.note(f"{options.target!r} is {zero!r} or {one!r}: predictions are probabilities of {one!r}")
    return tuple(labels)


def _roles(source: Source, options: argparse.Namespace) -> Roles:
    names = source.names()
    for option, wanted in {"--categorical": options.categorical, "--time": filter(None, [options.time])}.items():
        for name in wanted:
            check_column(name, names, source.root.name, option)
    given = {"task": options.task, "target": options.target, "groups": options.groups}
    return choose_roles(names, source.root.name, drop=[*options.drop, *source.parts], mark="--", **given)


def _advice(names: list[str]) -> str:
    shown = " ".join(map(quoted, names))
    return f"take columns as categories: --categorical {shown}, or leave them out: --drop {shown}"


def without_gaps(frame: Any, gaps: list[str], options: argparse.Namespace, console: Console) -> Any:
    """The rows without missing values in some columns, if the others are to go."""
    pl = polars()
    if not gaps or not options.drop_missing:
        return frame
    counts = frame.lazy().select(pl.len().alias("\0"), pl.col(gaps).is_null().sum()).collect().row(0, named=True)
    rows = counts.pop("\0")
    gaps = [name for name in gaps if counts[name]]
    if not gaps:
        return frame
    worst = sorted(gaps, key=lambda name: -counts[name])
    shown = ", ".join(f"{name!r} {counts[name]:,}" for name in worst[:5]) + (", ..." if len(worst) > 5 else "")
    complete = frame.filter(~pl.any_horizontal(pl.col(gaps).is_null()))
    kept = complete.lazy().select(pl.len()).collect().item()
    if not kept:
        raise ValueError(f"every row has a missing value ({shown}): leave out a column with --drop")
    console.note(f"left out {rows - kept:,} of {rows:,} rows with missing values ({shown})")
    return complete


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
