"""A fitted model as what it is: a linear map from the targets to the coefficients.

With its graph and penalties held fixed, a method solves M vec V = [b_t], so with N = M^-1

    v_t = sum_s N_ts b_s,

where b_s is all that the coefficients know of the targets of task s. N splits a model by where it came from, and under
the Gaussian prior that the penalties stand for, sigma2 N_tt is the posterior covariance of v_t.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kinfolk.rows.gram import Array
from kinfolk.solvers.equations import NormalEquations


class Inverse(Protocol):
    """The matrix N in blocks (p, p) of tasks."""

    @property
    def at_once(self) -> bool:
        """Whether `diagonal` of all tasks costs little more than that of one."""

    def columns(self, task: int) -> Array:
        """N_st for all s: (T, p, p)."""

    def diagonal(self, tasks: NDArray[np.intp]) -> tuple[Array, Array]:
        """N_tt, and the part of it that noise in the targets makes, (N G N)_tt: two arrays (k, p, p)."""

    def sample(self, most: int) -> NDArray[np.intp]:
        """All tasks, or up to `most` that are coupled with each other, for a likelihood that costs (p most)^3."""

    def likelihood(self, equations: NormalEquations, rows: float, tasks: NDArray[np.intp]) -> tuple[float, float]:
        """sigma2 and kappa of greatest likelihood over some tasks, which have `rows` rows beside free intercepts."""


@dataclass(frozen=True, eq=False)
class LinearMap:
    """One linear model of the tasks with rows: its unknowns, their N, and the way back to coefficients.

    `units` (d,) divides slopes, for a model of features that were put on one scale; `shares` (T,) is its part in the
    mixture of every task.
    """

    equations: NormalEquations
    inverse: Inverse
    units: Array
    shares: Array
    _blocks: dict[int, tuple[Array, Array]] = field(default_factory=dict, repr=False)

    @cached_property
    def to_coef(self) -> Array:
        """Slopes (d, p) from unknowns."""
        basis = np.eye(self.equations.shape[1]) if self.equations.basis is None else self.equations.basis
        # The last unknown is the intercept, where there is one; slopes are the others.
        return basis[: len(self.units)] / self.units[:, None]

    def unknowns(self) -> Array:
        """All v_t from N, task by task."""
        T = len(self.equations.b)
        return np.stack([np.einsum("spq,sp->q", self.inverse.columns(t), self.equations.b) for t in range(T)])

    def design(self, X: Array, codes: NDArray[np.intp]) -> Array:
        """Rows in the unknowns, about the origin of their task's intercept: predictions are rows times v plus y0."""
        # x0 is in the units of the part, X in those of the table.
        rows = (X - self.equations.x0[codes] * self.units) @ self.to_coef
        if self.equations.has_ones:
            rows[:, -1] += 1.0
        return rows

    def diagonal(self, tasks: NDArray[np.intp]) -> tuple[Array, Array]:
        """N_tt and (N G N)_tt of some tasks; every task is computed once."""
        if self.inverse.at_once:
            whole, noise = self._all_blocks
            return whole[tasks], noise[tasks]
        # Each task costs p solves: those asked for before are kept, and all are solved at once where that is cheaper.
        missing = np.array([t for t in tasks.tolist() if t not in self._blocks], dtype=np.intp)
        if len(missing):
            self._blocks.update(zip(missing.tolist(), zip(*self.inverse.diagonal(missing), strict=True), strict=True))
        found = [self._blocks[t] for t in tasks.tolist()]
        return np.stack([whole for whole, _ in found]), np.stack([noise for _, noise in found])

    @cached_property
    def _all_blocks(self) -> tuple[Array, Array]:
        return self.inverse.diagonal(np.arange(len(self.equations.b)))
