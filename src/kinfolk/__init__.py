"""kinfolk finds which of your tasks are kin and lets them learn from each other."""

from kinfolk._version import __version__
from kinfolk.gamtl import GAMTL
from kinfolk.gram import GramStats
from kinfolk.structures import TaskGraph

__all__ = ["GAMTL", "GramStats", "TaskGraph", "__version__"]
