"""The points of GAMTL's parameters that GAMTLCV tries: one parameter varied at a time, beyond an end that is best."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kinfolk.estimators.gamtl import GAMTL, Brief, Draft
from kinfolk.search.mixture import Member, Search

ENLARGE = 2  # times that the strengths may grow at the end where the best one lies


@dataclass(frozen=True)
class Grid:
    """Values of GAMTL's parameters to be combined, by name; `fixed` ones are the same at every point."""

    axes: dict[str, list[Any]]
    fixed: dict[str, Any]

    def member(self, **point: Any) -> Member:
        """A point of the grid."""
        said = {name: value for name, value in point.items() if value is not None}
        words = ", ".join(f"{k} {v:.3g}" if isinstance(v, float) else f"{k} {v}" for k, v in said.items())
        given = {**point, **self.fixed}
        return Member(f"GAMTL ({words})", GAMTL(**given), Draft(**given), Brief(**given), point, has_graph=True)

    def try_on(self, search: Search, wrap: Callable[[Member], Member] = lambda member: member) -> None:
        """Vary one parameter at a time, and go on beyond the strengths where the best one is the least or largest."""

        def made(**point: Any) -> Member:
            return wrap(self.member(**point))

        search.add_axis_by_axis(self.axes, made)
        tried = sorted(set(self.axes["strength"]))
        ratio = tried[-1] / tried[-2] if len(tried) > 1 else 10.0
        for _ in range(ENLARGE):
            best = search.best_graph().parameters
            # A best strength at an end of those tried may lie beyond it.
            edge = {tried[0]: tried[0] / ratio, tried[-1]: tried[-1] * ratio}.get(best["strength"])
            if edge is None:
                return
            tried = sorted([*tried, edge])
            search.add([made(**{**best, "strength": edge})])
