"""Data sets: a small table that comes with the package; of the paper three simulated and two public ones.

Every function returns a `sklearn.utils.Bunch`. Its `data` has the task as first column, its `task` names that column:
`GAMTL(task=b.task).fit(b.data, b.target)` works with and without pandas. A function is imported when it is first used:
`import kinfolk.datasets` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kinfolk.datasets.birmingham import load_birmingham
    from kinfolk.datasets.car_parks import load_car_parks
    from kinfolk.datasets.parkinsons import load_parkinsons
    from kinfolk.datasets.synthetic import make_circle, make_groups
    from kinfolk.datasets.wiener import make_wiener_network

__all__ = ["load_birmingham", "load_car_parks", "load_parkinsons", "make_circle", "make_groups", "make_wiener_network"]

_HOME = {
    "load_birmingham": "birmingham",
    "load_car_parks": "car_parks",
    "load_parkinsons": "parkinsons",
    "make_circle": "synthetic",
    "make_groups": "synthetic",
    "make_wiener_network": "wiener",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__
