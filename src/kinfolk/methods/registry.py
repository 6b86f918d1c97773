"""All methods of the package: a file of these folders that defines one is found, listed and compared."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules

from kinfolk.methods.method import MultiTaskRegressor, command_name

OURS = "kinfolk.estimators"
OTHERS = ("kinfolk.methods", "kinfolk.rivals")


@cache
def all_methods() -> dict[str, type[MultiTaskRegressor]]:
    """Classes by the names that the command line uses, ours first, the simplest of them before.

    Examples
    --------
    >>> list(all_methods())[:4]
    ['gamtlcv', 'gamtl', 'rbf-gamtl', 'bmsl']
    """
    ours = sorted(methods_in(OURS).values(), key=lambda method: method.simplicity)
    others = sorted((method for folder in OTHERS for method in methods_in(folder).values()), key=lambda m: m.__name__)
    named = [*ours, *others]
    return {command_name(method.__name__): method for method in named}


def all_classifiers() -> dict[str, type[MultiTaskRegressor]]:
    """Classes that classify, by their names: they fit labels, where methods fit numbers.

    >>> "GAMTLClassifier" in all_classifiers()
    True
    """
    return methods_in(OURS, classifiers=True)


def methods_in(folder: str, *, classifiers: bool = False) -> dict[str, type[MultiTaskRegressor]]:
    """The public methods that the modules of a folder define, by the names of their classes."""
    spec = find_spec(folder)
    assert spec is not None
    modules = [import_module(module.name) for module in iter_modules(spec.submodule_search_locations, f"{folder}.")]
    found = {
        name: value
        for module in modules
        for name, value in vars(module).items()
        if _is_method(value) and value.__module__ == module.__name__ and value.classifies == classifiers
    }
    return dict(sorted(found.items()))


def _is_method(value: object) -> bool:
    """Whether something is a method with a phrase about itself; common bases have none."""
    return isinstance(value, type) and issubclass(value, MultiTaskRegressor) and bool(value.shares)
