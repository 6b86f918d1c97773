"""How long work reports on itself: one callback, which the command line turns into a bar."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Progress(NamedTuple):
    """`done` of `total` steps of `stage` are finished; `value` is the objective or error reached, if there is one."""

    stage: str
    done: int
    total: int
    value: float | None = None


Callback = Callable[[Progress], object]


def report(callback: Callback | None, stage: str, done: int, total: int, value: float | None = None) -> None:
    """Tell the callback, if there is one."""
    if callback is not None:
        callback(Progress(stage, done, total, value))
