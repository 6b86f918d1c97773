"""The parts of a fitted model: linear maps from the targets to the coefficients, each with its share.

A mixture is the sum of its parts. With its graph and penalties held fixed, a method solves M vec V = [b_t], so with
N = M^-1

    v_t = sum_s N_ts b_s,

where b_s is all that the coefficients know of the targets of task s. N splits a model by where it came from. If the
true unknowns are u_s and the targets have noise e_s, then b_s = G_s u_s + X_s'e_s, so that v_t misses u_t by

    sum_s (N_ts G_s - [s = t]) u_s + sum_s N_ts X_s'e_s:

what pulling makes of the errors, and what noise makes of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from kinfolk.declared import holds
from kinfolk.methods.facts import FactEffects
from kinfolk.rows.gram import Array, GramStats
from kinfolk.solvers.equations import NormalEquations, normal_equations
from kinfolk.solvers.tolerances import MARGIN

Joined = Callable[[], NormalEquations]


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


class Places(NamedTuple):
    """Where the tasks that are there, and those that come, stand among all of them."""

    old: NDArray[np.intp]
    new: NDArray[np.intp]

    @classmethod
    def among(cls, old: NDArray[Any], new: NDArray[Any]) -> Places:
        """The places of labels in the order of all."""
        labels = np.union1d(old, new)
        return cls(np.searchsorted(labels, old), np.searchsorted(labels, new))

    def merged(self, old: NDArray[Any], new: NDArray[Any]) -> NDArray[Any]:
        """Values by task of both."""
        whole = np.empty((len(self.old) + len(self.new), *old.shape[1:]))
        whole[self.old] = old
        whole[self.new] = new
        return whole


class Coupling(Protocol):
    """What ties tasks together, with all its numbers as fitted; `source` says where predictions come from by it."""

    source: ClassVar[str]

    def inverse(self, equations: NormalEquations) -> Inverse:
        """N for tasks with these normal equations."""

    def among(self, kept: NDArray[np.bool_]) -> Self:
        """The same for some of its tasks."""

    def adopted(self, V: Array, places: Places, new: NormalEquations, joined: Joined) -> tuple[Self, Array]:
        """The same with new tasks, beside those with unknowns V, and the unknowns of these; the old ones keep theirs.

        `new` are the equations of the new tasks, and joined() those of all.
        """

    def solved(self, equations: NormalEquations, V: Array) -> Array:
        """The unknowns that are best for these equations, looked for from V."""

    def cost(self, V: Array) -> float:
        """The penalty, a square of V, for unknowns that differ as the coupling lets them."""

    def settled(self, V: Array) -> Self:
        """The same with the graph that is best for V, if it has one that was learned."""

    @property
    def constant(self) -> float:
        """What the graph alone adds to the objective."""

    def certificates(self, equations: NormalEquations, V: Array) -> dict[str, float]:
        """How far the graph is from the best for V."""

    def block(self, unknowns: slice) -> Self:
        """The same for some of the unknowns, the others as they are."""


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


@holds(
    V="S p",
    coupling="record S p",
    share="number >=0",
    own_shares="S >=0",
    basis="d q",
    units="d >0",
    common="d",
    facts="record d",
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
    facts : what facts about tasks do to slopes, taken out as well; None if nothing
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
    facts: FactEffects | None = None
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
        """Normal equations of some tasks in the unknowns of this part."""
        left = gram if self.common is None else gram.beside(self.common)
        # Tasks that come later have facts too: their mean features hold them.
        taken_out = None if self.facts is None else self.facts.lines(gram.x_mean)
        left = left if taken_out is None else left.beside(*taken_out)
        scaled = left if self.units is None else left.rescaled(self.units)
        found = normal_equations(scaled, self.intercept, origin=self.origin)
        found = found if self.basis is None else found.in_basis(self.basis)
        return found if taken_out is None else replace(found, beside=taken_out)

    def map(self, gram: GramStats) -> LinearMap:
        """The linear map of tasks with these statistics."""
        equations = self.equations(gram)
        units = np.ones(gram.n_features) if self.units is None else self.units
        return LinearMap(equations, self.coupling.inverse(equations), units, self.shares)

    def of_class(self, k: int, K: int) -> Part:
        """The part of one of K classes, whose unknowns stand one class after the other."""
        p = self.V.shape[1] // K
        own = slice(k * p, (k + 1) * p)
        basis = self.basis
        if basis is not None:
            d = len(basis) // K
            others = np.delete(basis[k * d : (k + 1) * d], np.r_[own], axis=1)
            if np.abs(others).max(initial=0.0) > MARGIN * np.abs(basis).max():
                raise ValueError('several classes take no metric that mixes features: use metric="auto" or "learned"')
            basis = basis[k * d : (k + 1) * d, own]
        units = None if self.units is None else np.split(self.units, K)[k]
        return replace(self, coupling=self.coupling.block(own), V=self.V[:, own], basis=basis, units=units)

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
        W = W if self.common is None else W + self.common
        if equations.beside is None:
            return W, c
        slopes, levels = equations.beside
        return W + slopes, c + levels

    def among(self, kept: NDArray[np.bool_]) -> Part:
        """The part of some of its tasks."""
        shares = None if self.own_shares is None else self.own_shares[kept]
        return replace(self, coupling=self.coupling.among(kept), V=self.V[kept], own_shares=shares)

    def adopted(self, old: GramStats, new: GramStats) -> tuple[Part, Array, Array]:
        """The part with new tasks beside its old ones, and the coefficients and intercepts of the new."""
        places = Places.among(old.labels, new.labels)
        equations = self.equations(new)
        coupling, V = self.coupling.adopted(self.V, places, equations, lambda: self.equations(old + new))
        shares = self.own_shares
        if shares is not None:
            shares = places.merged(shares, np.full(new.n_tasks, self.share))
        grown = replace(self, coupling=coupling, V=places.merged(self.V, V), own_shares=shares)
        return grown, *self.coefficients(equations, V)

    def in_units(self, scale: Array) -> Part:
        """The same part, if its features were divided by `scale` before."""
        common = None if self.common is None else self.common / scale
        facts = None if self.facts is None else self.facts.in_units(scale)
        return replace(self, units=scale if self.units is None else scale * self.units, common=common, facts=facts)

    def on_columns(self, columns: NDArray[np.intp], d: int) -> Part:
        """The same part, if its features are `columns` of d."""
        own = np.eye(len(columns)) if self.basis is None else self.basis
        units = None if self.units is None else placed_columns(self.units, columns, np.ones(d))
        origin = None
        if self.origin is not None:
            x0, y0 = self.origin
            origin = placed_columns(x0, columns, np.zeros(d)), y0
        basis = placed_columns(own.T, columns, np.zeros((own.shape[1], d))).T
        common = None if self.common is None else placed_columns(self.common, columns, np.zeros(d))
        facts = None if self.facts is None else self.facts.on_columns(columns, d)
        return replace(self, basis=basis, units=units, origin=origin, common=common, facts=facts)


def placed_columns(values: Array, columns: NDArray[np.intp], others: Array) -> Array:
    """Values by feature at `columns`, beside `others`."""
    others[..., columns] = values
    return others
