"""A fitted model as what it is: a linear map from the targets to the coefficients.

With its graph and penalties held fixed, a method solves M vec V = [b_t], so with N = M^-1

    v_t = sum_s N_ts b_s,

where b_s is all that the coefficients know of the targets of task s. N splits a model by where it came from. If the
true unknowns are u_s and the targets have noise e_s, then b_s = G_s u_s + X_s'e_s, so that v_t misses u_t by

    sum_s (N_ts G_s - [s = t]) u_s + sum_s N_ts X_s'e_s:

what pulling makes of the errors, and what noise makes of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from kinfolk.rows.gram import Array
from kinfolk.solvers.equations import NormalEquations


class Scatter(NamedTuple):
    """Where the true unknowns of tasks lie: independently around `mean` (p,), with a covariance (p, p)."""

    mean: Array
    covariance: Array


class ErrorBlocks(NamedTuple):
    """Of some tasks, three arrays (k, p, p).

    Attributes
    ----------
    whole : N_tt
    noise : (N G N)_tt, the covariance that noise of variance 1 makes of the errors
    pulled : second moments of the errors that pulling makes, for a given scatter of tasks
    """

    whole: Array
    noise: Array
    pulled: Array


class Inverse(Protocol):
    """The matrix N in blocks (p, p) of tasks."""

    @property
    def at_once(self) -> bool:
        """Whether `diagonal` of all tasks costs little more than that of one."""

    def columns(self, task: int) -> Array:
        """N_st for all s: (T, p, p)."""

    def diagonal(self, tasks: NDArray[np.intp], scatter: Scatter) -> ErrorBlocks:
        """What the errors of some tasks are made of."""


@dataclass(frozen=True, eq=False)
class LinearMap:
    """One linear model of the tasks with rows: its unknowns, their N, and the way back to coefficients.

    `units` (d,) divides slopes, for a model of features that were put on one scale; `shares` (T,) is its part in the
    mixture of every task, and `rows` (T,) are those that a level is the mean of.
    """

    equations: NormalEquations
    inverse: Inverse
    units: Array
    shares: Array
    rows: Array

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
