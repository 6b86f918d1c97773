"""The graph step, by its public name: min over A for fixed weights (`kinfolk.solvers.graph`)."""

from kinfolk.solvers.graph import *  # noqa: F403
from kinfolk.solvers.graph import __all__ as __all__
