"""The competitors, one method per file: a file in this folder is found, tested, listed and compared."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from kinfolk.base import MultiTaskRegressor


def _methods() -> dict[str, type[MultiTaskRegressor]]:
    """The public estimators defined in the modules of this folder, by name."""
    found = {}
    for module in iter_modules(__path__):
        content = vars(import_module(f"{__name__}.{module.name}"))
        for name, value in content.items():
            is_method = isinstance(value, type) and issubclass(value, MultiTaskRegressor)
            if is_method and value.__module__ == f"{__name__}.{module.name}" and not name.startswith("_"):
                found[name] = value
    return dict(sorted(found.items()))


METHODS: dict[str, type[Any]] = _methods()
globals().update(METHODS)
__all__ = ["METHODS", *METHODS]
