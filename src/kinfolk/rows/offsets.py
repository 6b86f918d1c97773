"""Columns of the table that are no features: an exposure, which a mean is proportional to, and an offset.

Both are added to the linear predictor, the exposure by its logarithm. They are columns of X, named in the constructor,
so that they stay beside their rows in pipelines, folds, files and new tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kinfolk.declared import holds
from kinfolk.rows.families import Family
from kinfolk.rows.gram import Array
from kinfolk.rows.table import Table, read_table


@holds()
@dataclass(frozen=True)
class Offsets:
    """Names, or positions, of the two columns; None where there is none."""

    exposure: str | int | None = None
    offset: str | int | None = None

    def __bool__(self) -> bool:
        return bool(self.columns)

    @property
    def columns(self) -> dict[str, str | int]:
        """Those that there are, by what they are."""
        both = {"exposure": self.exposure, "offset": self.offset}
        return {what: key for what, key in both.items() if key is not None}

    @property
    def names(self) -> list[str]:
        """Those that have names."""
        return [key for key in self.columns.values() if isinstance(key, str)]

    def check(self, family: Family) -> None:
        """Refuse an exposure where no mean is proportional to anything."""
        if self.exposure is not None and not family.has_exposure:
            raise ValueError(
                f"exposure={self.exposure!r} is for counts and amounts, whose mean is proportional to it: give "
                f'family="poisson" or "gamma", or make it a feature (family={family.name!r} has none)'
            )

    def split(self, X: Any) -> tuple[Table, Array | None]:
        """A table without these columns, and what they add to the linear predictor of every row."""
        table = read_table(X)
        if not self:
            return table, None
        total = np.zeros(table.height)
        for what, key in self.columns.items():
            values = _numbers(table, what, key)
            total += np.log(values) if what == "exposure" else values
        # Positions are those in the whole table: the last goes first.
        for position in sorted({table.position(key) for key in self.columns.values()}, reverse=True):
            table, _ = table.split(position)
        return table, total


NO_OFFSETS = Offsets()


def _numbers(table: Table, name: str, key: Any) -> Array:
    """The values of one of the columns, or an error that says which row has none."""
    try:
        position = table.position(key)
    except ValueError as error:
        raise ValueError(f"{name}={key!r} is a column that {table.name} must have, as in fit: {error}") from None
    values = np.asarray(table.column(position))
    try:
        values = values.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name}={key!r}: this column of {table.name} must hold numbers, but has text") from None
    bad = ~np.isfinite(values)
    if name == "exposure":
        bad |= ~(values > 0)
    if bad.any():
        row = int(np.argmax(bad))
        allowed = "greater than 0" if name == "exposure" else "finite"
        raise ValueError(
            f"{name}={key!r}: column {key!r} of {table.name} must be {allowed}, but is {values[row]:g} in row {row} "
            f"({int(bad.sum()):,} such rows in all)"
        )
    return values
