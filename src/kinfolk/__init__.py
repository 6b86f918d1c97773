"""kinfolk finds which of your tasks are kin and lets them learn from each other."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kinfolk._version import __version__

if TYPE_CHECKING:
    from kinfolk.estimators.classifiers import GAMTLClassifier, GAMTLClassifierCV
    from kinfolk.estimators.formula import fit
    from kinfolk.estimators.gamtl import GAMTL
    from kinfolk.estimators.gamtlcv import GAMTLCV
    from kinfolk.estimators.rbfgamtl import RBFGAMTL
    from kinfolk.judge.comparison import compare
    from kinfolk.judge.tuning import tune
    from kinfolk.methods.rbf import RBFFeatures
    from kinfolk.methods.structures import TaskCovariance, TaskGraph, TaskPrecision
    from kinfolk.methods.trees import TaskTree
    from kinfolk.rows.gram import GramStats
    from kinfolk.store import load

__all__ = [
    "GAMTL",
    "GAMTLCV",
    "RBFGAMTL",
    "GAMTLClassifier",
    "GAMTLClassifierCV",
    "GramStats",
    "RBFFeatures",
    "TaskCovariance",
    "TaskGraph",
    "TaskPrecision",
    "TaskTree",
    "__version__",
    "compare",
    "fit",
    "load",
    "tune",
]

# Loaded on first use, so that the command line can answer before the numerical libraries are in.
_HOMES = {
    "GAMTL": "estimators.gamtl",
    "GAMTLCV": "estimators.gamtlcv",
    "GAMTLClassifier": "estimators.classifiers",
    "GAMTLClassifierCV": "estimators.classifiers",
    "GramStats": "rows.gram",
    "RBFFeatures": "methods.rbf",
    "RBFGAMTL": "estimators.rbfgamtl",
    "TaskCovariance": "methods.structures",
    "TaskGraph": "methods.structures",
    "TaskPrecision": "methods.structures",
    "TaskTree": "methods.trees",
    "fit": "estimators.formula",
    "load": "store",
    "compare": "judge.comparison",
    "tune": "judge.tuning",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'kinfolk' has no attribute {name!r}")
    return getattr(import_module(f"kinfolk.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
