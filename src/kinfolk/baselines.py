"""The methods to compare with, by their public name: every file of `kinfolk.methods` that defines one."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from kinfolk import methods
from kinfolk.methods.method import MultiTaskRegressor


def _found() -> dict[str, type[MultiTaskRegressor]]:
    """The public estimators defined in the modules of the folder, by name."""
    found = {}
    for module in iter_modules(methods.__path__, "kinfolk.methods."):
        for name, value in vars(import_module(module.name)).items():
            is_method = isinstance(value, type) and issubclass(value, MultiTaskRegressor)
            if is_method and value.__module__ == module.name and not name.startswith("_"):
                found[name] = value
    found.pop("MultiTaskRegressor")
    return dict(sorted(found.items()))


METHODS: dict[str, type[Any]] = _found()
globals().update(METHODS)
__all__ = ["METHODS", *METHODS]
