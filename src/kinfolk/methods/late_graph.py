"""A task graph that is made when somebody first looks at it: predictions, and tasks that come and go, do without."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

from numpy.typing import NDArray
from scipy import sparse

from kinfolk.methods.structures import TaskGraph
from kinfolk.rows.gram import Array

Made = tuple[TaskGraph, dict[str, float]]


class LateGraph(TaskGraph):
    """A `TaskGraph` with its certificates, as `make()` returns them, among the tasks `labels`."""

    def __init__(self, make: Callable[[], Made], labels: NDArray[Any]) -> None:
        vars(self).update(make=make, labels=labels)  # the record that it is one of is frozen

    @cached_property
    def _made(self) -> Made:
        graph, certificates = vars(self)["make"]()
        return graph.expanded(self.labels), certificates

    @property
    def certificates(self) -> dict[str, float]:
        """Those of the step that made it."""
        return self._made[1]

    @property
    def adjacency(self) -> sparse.csr_array:
        """Symmetric CSR matrix (T, T)."""
        return self._made[0].adjacency

    @property
    def points(self) -> Array | None:
        """Whose distances the edges were learned from."""
        return self._made[0].points

    def graph(self, above: float = 0.0, *, opposed: bool = True) -> TaskGraph:
        """The graph as a plain record."""
        return self._made[0].graph(above, opposed=opposed)

    def expanded(self, labels: NDArray[Any]) -> LateGraph:
        """The same graph among more tasks, still to be made."""
        return LateGraph(vars(self)["make"], labels)

    def to_dict(self) -> dict[str, Any]:
        """That of the plain record."""
        return self.graph().to_dict()
