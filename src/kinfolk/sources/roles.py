"""What each column of a table is: the task (which may join several), the target, a feature, a group, or nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import narwhals as nw

from kinfolk.rows.table import JOINT, joint_parts, joint_trouble


@dataclass(frozen=True)
class Roles:
    """Names of the columns that are used: `features` in the order of the statistics; of all, in that of the table."""

    task: str
    target: str
    features: tuple[str, ...]
    groups: str | None = None
    names: tuple[str, ...] = ()

    def used(self) -> list[str]:
        """All of them, each once."""
        return list(dict.fromkeys([self.task, *self.features, self.target, *([self.groups] if self.groups else [])]))

    def labels(self) -> list[str]:
        """Those that are labels and no features."""
        return [self.task, *([self.groups] if self.groups and self.groups not in self.features else [])]


def choose_roles(
    names: Sequence[str],
    source: str,
    *,
    task: Any,
    target: Any,
    drop: str | Iterable[str] = (),
    columns: Iterable[str] | None = None,
    groups: str | None = None,
    mark: str = "",
) -> Roles:
    """The roles of columns with these `names`; features are `columns`, or all without another role.

    `mark` stands before the name of an option in messages.

    Examples
    --------
    >>> choose_roles(["shop", "day", "x", "price"], "sales.csv", task="shop", target="price", drop="day").features
    ('x',)
    """
    dropped = [drop] if isinstance(drop, str) else list(drop)
    chosen = [columns] if isinstance(columns, str) else columns
    chosen = None if chosen is None else list(chosen)
    given = {"task": task, "target": target} | ({} if groups is None else {"groups": groups})
    for role, name in given.items():
        if not isinstance(name, str):
            raise ValueError(f"{role}={name!r}: give the {role} column of {source} by name, {listed(names)}")
    for role, wanted in [*((r, [n]) for r, n in given.items()), ("drop", dropped), ("columns", chosen or [])]:
        for name in wanted:
            check_column(name, names, source, f"{mark}{role}")
    if task == target:
        raise ValueError(f"column {task!r} cannot be both the task and the target")
    for name in dropped:
        if name in (task, target):
            raise ValueError(f"{mark}drop names {name!r}, which is the task or the target column")
    taken = [name for name in chosen or [] if name in (task, target)]
    if taken:
        raise ValueError(f"columns has {taken[0]!r}, which is the task or the target: leave it out")
    apart = {*given.values(), *dropped}
    rest = [name for name in names if name not in apart]
    features = tuple(dict.fromkeys(rest if chosen is None else chosen))
    if not features:
        apart_from = ", ".join(map(repr, given.values()))
        raise ValueError(f"{source} has no column left to predict from besides {apart_from}: {listed(names)}")
    return Roles(task, target, features, groups, tuple(names))


def check_column(name: str, names: Iterable[str], source: str, role: str) -> None:
    """An error that suggests the nearest name if there is no such column, which was asked for as `role`."""
    names = list(names)
    if name in names:
        return
    near = nearest(str(name), names)
    guess = f" Did you mean {near!r}?" if near else ""
    hint = ""
    if Path(source).suffix.lower() in (".xlsx", ".xls", ".xlsb", ".ods"):
        hint = " Of a workbook the first sheet is read, whose first row must name the columns."
    elif len(names) == 1:
        hint = (
            " There is only one: is the separator another one? Name it on the command line with --delimiter. Titles "
            "above the header must go."
        )
    raise ValueError(f"{source} has no column {name!r} ({role}).{guess} Its columns are {listed(names)}{hint}")


def listed(names: Iterable[str], stop: str = ".") -> str:
    """The first names, as the end of a sentence."""
    names = list(names)
    return ", ".join(map(repr, names[:8])) + (", ..." if len(names) > 8 else stop)


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that is most likely meant; capitals do not count.

    Examples
    --------
    >>> nearest("patiant", ["age", "Patient"])
    'Patient'
    """
    by_lower = {name.lower(): name for name in known}
    found = get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[found[0]] if found else None


def with_joint(frame: Any, name: Any) -> Any:
    """The frame with a column for what `name` joins, if it does, called as the same rows are in memory."""
    parts = joint_parts(name, frame.collect_schema().names())
    if not parts:
        return frame
    schema = frame.collect_schema()
    texts = [_as_label(part, schema[part]) for part in parts]
    return frame.with_columns(nw.concat_str(texts, separator=JOINT).alias(name))


def joined(frame: Any, name: Any) -> Any:
    """The same without the columns that are joined; labels that hold the mark between them are refused.

    They would make different tasks be called alike.
    """
    parts = joint_parts(name, frame.collect_schema().names())
    if not parts:
        return frame
    frame = with_joint(frame, name)
    tasks = frame.select(*parts, name).unique().collect()
    if tasks[name].n_unique() < len(tasks.drop_nulls()):
        raise ValueError(joint_trouble(name))
    return frame.drop(parts)


def _as_label(name: str, kind: Any) -> Any:
    """A column as labels: whole numbers without a decimal point, as people write them."""
    column = nw.col(name)
    if kind == nw.Boolean:
        return nw.when(column).then(nw.lit("True")).otherwise(nw.when(~column).then(nw.lit("False")))
    text = column.cast(nw.String)
    if kind.is_integer():
        return text
    whole = text.str.contains(r"^-?\d+\.0$")
    plain = nw.when(whole).then(text.str.replace_all(".0", "", literal=True)).otherwise(text)
    return nw.when(~column.is_nan()).then(plain) if kind.is_float() else plain
