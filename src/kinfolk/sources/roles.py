"""What each column of a table is: the task, the target, a feature, a group, or none of these."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from kinfolk.sources.files import check_column, listed


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
