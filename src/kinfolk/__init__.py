"""kinfolk finds which of your tasks are kin and lets them learn from each other."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kinfolk._version import __version__

if TYPE_CHECKING:
    from kinfolk.gamtl import GAMTL
    from kinfolk.gram import GramStats
    from kinfolk.structures import TaskGraph

__all__ = ["GAMTL", "GramStats", "TaskGraph", "__version__"]

# Loaded on first use, so that the command line can answer before the numerical libraries are in.
_HOMES = {"GAMTL": "kinfolk.gamtl", "GramStats": "kinfolk.gram", "TaskGraph": "kinfolk.structures"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'kinfolk' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
