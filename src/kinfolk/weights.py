"""The weight step, by its public name: min over W for a fixed graph (`kinfolk.solvers.weights`)."""

from kinfolk.solvers.weights import *  # noqa: F403
from kinfolk.solvers.weights import __all__ as __all__
