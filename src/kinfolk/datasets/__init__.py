"""Data sets: a small table that comes with the package; of the paper three simulated and two public ones.

Every function returns a `sklearn.utils.Bunch`. Its `data` has the task as first column, its `task` names that column:
`GAMTL(task=b.task).fit(b.data, b.target)` works with and without pandas. A function is imported when it is first used:
`import kinfolk.datasets` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kinfolk.datasets.car_parks import load_car_parks
    from kinfolk.datasets.synthetic import make_circle, make_groups
    from kinfolk.experiments.data.birmingham import load_birmingham
    from kinfolk.experiments.data.parkinsons import load_parkinsons
    from kinfolk.experiments.data.wiener import make_wiener_network

__all__ = ["load_birmingham", "load_car_parks", "load_parkinsons", "make_circle", "make_groups", "make_wiener_network"]

# Those of the paper stand with its experiments, which nothing else here imports.
_HOME = {
    "load_birmingham": "kinfolk.experiments.data.birmingham",
    "load_car_parks": "kinfolk.datasets.car_parks",
    "load_parkinsons": "kinfolk.experiments.data.parkinsons",
    "make_circle": "kinfolk.datasets.synthetic",
    "make_groups": "kinfolk.datasets.synthetic",
    "make_wiener_network": "kinfolk.experiments.data.wiener",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
