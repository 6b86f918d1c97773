"""The parts of a fitted model: linear maps from the targets to the coefficients, each with its share.

A mixture is the sum of its parts. Nothing is solved again to use one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.declared import holds
from kinfolk.methods.couplings import Coupling
from kinfolk.methods.linear_map import LinearMap
from kinfolk.rows.gram import Array, GramStats
from kinfolk.solvers.equations import NormalEquations, normal_equations
from kinfolk.solvers.tolerances import MARGIN


@holds(n="S >=0", x="S d", y="S")
class LastRows(NamedTuple):
    """The last rows of every task, for a part that follows these: how many (S,), and how far from the mean of all.

    `x` (S, d) is that of the features, `y` (S,) that of the target.
    """

    n: Array
    x: Array
    y: Array


@holds(
    V="S p",
    coupling="record S p",
    share="number >=0",
    own_shares="S >=0",
    basis="d q",
    units="d >0",
    common="d",
    last="record S d",
)
@dataclass(frozen=True, eq=False)
class Part:
    """One linear map from targets to coefficients, as fitted: nothing is solved again to use it.

    Attributes
    ----------
    name : the method it comes from, with its parameters
    coupling : what ties the tasks together, with its numbers
    V : unknowns (S, p) of the S tasks with rows
    share : in the mixture; 0 for a graph that is shown, but does not predict
    own_shares : (S,), in the mixture of every task; None if all have the same. New tasks get `share`
    intercept : the treatment of the intercept, see `normal_equations`
    origin : (x0, y0) that an intercept column refers to; None for free intercepts
    basis : (d, p), if the slopes are basis times unknowns: a learned metric, or a part that uses some features only
    units : (d,) by which the features were divided
    common : (d,), coefficients that all tasks share, taken out before it was solved; None if there are none
    last : the rows that its levels are means of, if these are not all rows
    shown : whether its graph is the one that people see
    """

    name: str
    coupling: Coupling
    V: Array
    share: float = 1.0
    own_shares: Array | None = None
    intercept: str | None = "free"
    origin: tuple[Array, float] | None = None
    basis: Array | None = None
    units: Array | None = None
    common: Array | None = None
    last: LastRows | None = None
    shown: bool = False

    @classmethod
    def of(cls, name: str, coupling: Coupling, equations: NormalEquations, V: Array, intercept: str | None) -> Part:
        """A part with the normal equations that it was solved with."""
        # The origin is kept: tasks that come later would move the average of all rows, and with it what V means.
        origin = (equations.x0[0], float(equations.y0[0])) if equations.has_ones else None
        basis = equations.basis
        if basis is not None:
            d, p = np.subtract(basis.shape, int(equations.has_ones))
            basis = basis[:d, :p]
        return cls(name, coupling, V, intercept=intercept, origin=origin, basis=basis)

    def equations(self, gram: GramStats) -> NormalEquations:
        """Normal equations of some tasks in the unknowns of this part; of all its tasks, if it follows the `last`."""
        if self.last is not None:
            gram = replace(gram, x_mean=gram.x_mean + self.last.x, y_mean=gram.y_mean + self.last.y)
        left = gram if self.common is None else gram.beside(self.common)
        scaled = left if self.units is None else left.rescaled(self.units)
        found = normal_equations(scaled, self.intercept, origin=self.origin)
        return found if self.basis is None else found.in_basis(self.basis)

    def map(self, gram: GramStats) -> LinearMap:
        """The linear map of tasks with these statistics."""
        equations = self.equations(gram)
        units = np.ones(gram.n_features) if self.units is None else self.units
        rows = gram.n if self.last is None else self.last.n
        return LinearMap(equations, self.coupling.inverse(equations), units, self.shares, rows)

    @property
    def is_pooled(self) -> bool:
        """Whether all tasks have the same slopes."""
        apart = ((self.V - self.V.mean(axis=0)) ** 2).sum()
        return bool(self.V.any() and apart <= MARGIN * (self.V**2).sum())

    @property
    def shares(self) -> Array:
        """The share of this part in the mixture of every task (S,)."""
        return np.full(len(self.V), self.share) if self.own_shares is None else self.own_shares

    def coefficients(self, equations: NormalEquations, V: Array) -> tuple[Array, Array]:
        """Slopes and intercepts, in the units of the rows, of tasks with these equations and unknowns."""
        W, c = equations.coefficients(V)
        W = W if self.units is None else W / self.units
        return W if self.common is None else W + self.common, c

    def in_units(self, scale: Array) -> Part:
        """The same part, if its features were divided by `scale` before."""
        last = None if self.last is None else self.last._replace(x=scale * self.last.x)
        common = None if self.common is None else self.common / scale
        return replace(self, units=scale if self.units is None else scale * self.units, common=common, last=last)

    def on_columns(self, columns: NDArray[np.intp], d: int) -> Part:
        """The same part, if its features are `columns` of d."""
        own = np.eye(len(columns)) if self.basis is None else self.basis
        units = None if self.units is None else placed_columns(self.units, columns, np.ones(d))
        origin = None
        if self.origin is not None:
            x0, y0 = self.origin
            origin = placed_columns(x0, columns, np.zeros(d)), y0
        last = self.last
        if last is not None:
            last = last._replace(x=placed_columns(last.x, columns, np.zeros((len(last.n), d))))
        basis = placed_columns(own.T, columns, np.zeros((own.shape[1], d))).T
        common = None if self.common is None else placed_columns(self.common, columns, np.zeros(d))
        return replace(self, basis=basis, units=units, origin=origin, common=common, last=last)


def placed_columns(values: Array, columns: NDArray[np.intp], others: Array) -> Array:
    """Values by feature at `columns`, beside `others`."""
    others[..., columns] = values
    return others
