"""How methods without a graph let tasks learn from each other, and the linear maps that follow.

The verb of each is `inverse(equations)`: the matrix N of `part` for tasks with these normal equations. All of them
have the form of a hub, w_t = m + F u_t with a penalty ||u_t||^2 each and m'R m on the common part, whose blocks have a
closed form.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from kinfolk.declared import holds
from kinfolk.methods.part import Coupling, ErrorBlocks, Joined, Places, Scatter
from kinfolk.rows.gram import Array
from kinfolk.solvers.centre import are_uneven, blocks_around_centre, column_sizes, inverse_for_centre, ridge_inverse
from kinfolk.solvers.equations import NormalEquations
from kinfolk.solvers.ridge import Spectrum
from kinfolk.solvers.tolerances import MARGIN

AT_ONCE = 2**22  # entries of (T, p, p) up to which the blocks of all tasks are kept


class HubCoupling(Coupling, Protocol):
    """One with the form of a hub: without numbers of single tasks, unless it says so."""

    def inverse(self, equations: NormalEquations) -> HubInverse:
        """N in closed form."""

    def among(self, kept: NDArray[np.bool_]) -> Self:
        """The same for some of its tasks."""
        return self

    def adopted(self, V: Array, places: Places, new: NormalEquations, joined: Joined) -> tuple[Self, Array]:
        """The same with new tasks: what all have in common is solved once more, penalties and covariances stay."""
        equations = joined()
        return self, self.inverse(equations).unknowns(equations.b)[places.new]

    def solved(self, equations: NormalEquations, V: Array) -> Array:
        """The best unknowns, in closed form."""
        return self.inverse(equations).unknowns(equations.b)

    def settled(self, V: Array) -> Self:
        """There is no graph."""
        return self

    @property
    def constant(self) -> float:
        """Nothing."""
        return 0.0

    def certificates(self, equations: NormalEquations, V: Array) -> dict[str, float]:
        """There is no graph."""
        return {}

    def block(self, unknowns: slice) -> Self:
        """All unknowns are alike."""
        return self


@dataclass(frozen=True, eq=False)
class HubInverse:
    """N of w_t = m + F u_t with a penalty ||u_t||^2 each, and m'R m on the common part.

    With K_t = F (I + F'G_t F)^-1 F', C_t = I - K_t G_t and Z = (sum_t G_t C_t + R)^-1,

        N_ts = [t = s] K_t + C_t Z D_s',    D_s = C_s.

    Where the rows of task s count w_s times, all this is of w_t G_t, and then K_t and D_t are multiplied by w_t, so
    that N still takes the plain b_s.
    """

    G: Array
    K: Array
    C: Array
    D: Array
    Z: Array

    @property
    def at_once(self) -> bool:
        """Closed forms: all tasks unless they fill the memory."""
        return self.G.size <= AT_ONCE

    def columns(self, task: int) -> Array:
        """N_ts' for all s."""
        found = self.D @ (self.Z @ self.C[task].T)
        found[task] += self.K[task].T
        return found

    def diagonal(self, tasks: NDArray[np.intp], scatter: Scatter) -> ErrorBlocks:
        """N_tt, and the errors with their own block apart from what comes by the common part."""
        G, K, D = self.G[tasks], self.K[tasks], self.D[tasks]
        # N_tt = K_t + C_t Z D_t'; in sum_s N_ts G_s N_ts' the own block appears once squared and twice crossed.
        common = self.C[tasks] @ self.Z
        back = common.transpose(0, 2, 1)
        cross = K @ G @ D @ back
        passed = self.D.transpose(0, 2, 1) @ self.G  # what task s passes on to the common part
        own = K @ G @ K.transpose(0, 2, 1)
        noise = own + cross + cross.transpose(0, 2, 1) + common @ (passed @ self.D).sum(axis=0) @ back
        # N_ts G_s - [s = t], squared about the covariance of tasks: again own block, cross and common part.
        own = K @ G - np.eye(G.shape[1])
        S = scatter.covariance
        cross = own @ S @ passed[tasks].transpose(0, 2, 1) @ back
        among = (passed @ S @ passed.transpose(0, 2, 1)).sum(axis=0)
        pulled = own @ S @ own.transpose(0, 2, 1) + cross + cross.transpose(0, 2, 1) + common @ among @ back
        off = (own + common @ passed.sum(axis=0)) @ scatter.mean
        return ErrorBlocks(K.transpose(0, 2, 1) + D @ back, noise, pulled + off[:, :, None] * off[:, None, :])

    def unknowns(self, b: Array) -> Array:
        """v_t = sum_s N_ts b_s for all t: the common part is summed once."""
        common = self.Z @ np.einsum("spq,sp->q", self.D, b)
        return np.einsum("tpq,tq->tp", self.K, b) + self.C @ common


@holds(covariance="p p", centre="p p", weights="S >0")
@dataclass(frozen=True, eq=False)
class Hub(HubCoupling):
    """Tasks around a common centre: their covariance (p, p) relative to the noise, and the penalty on the centre.

    `weights` (S,) is how often the rows of each task count, None for once.
    """

    source: ClassVar[str] = "common to all tasks"
    covariance: Array
    centre: Array
    weights: Array | None = None

    def among(self, kept: NDArray[np.bool_]) -> Hub:
        """The same for some of its tasks."""
        return self if self.weights is None else replace(self, weights=self.weights[kept])

    def adopted(self, V: Array, places: Places, new: NormalEquations, joined: Joined) -> tuple[Hub, Array]:
        """The same with new tasks, whose rows count once: nobody knows yet how noisy they are."""
        if self.weights is None:
            return super().adopted(V, places, new, joined)
        grown = replace(self, weights=places.merged(self.weights, np.ones(len(places.new))))
        equations = joined()
        return grown, grown.inverse(equations).unknowns(equations.b)[places.new]

    def block(self, unknowns: slice) -> Hub:
        """The same for some of the unknowns."""
        both = (unknowns, unknowns)
        return replace(self, covariance=self.covariance[both], centre=self.centre[both])

    def cost(self, V: Array) -> float:
        """sum_t (v_t - m)'P^-1 (v_t - m) + m'R m at the best m, for the covariance P."""
        m = self._centre_of(V)
        return float(np.square((V - m) @ self._root_of_inverse()).sum() + m @ self.centre @ m)

    def _root_of_inverse(self) -> Array:
        """A root of the inverse of the covariance, in the directions in which tasks differ."""
        size = np.sqrt(np.diagonal(self.covariance))
        size = np.where(size > 0, size, 1.0)
        value, vector = np.linalg.eigh(self.covariance / size / size[:, None])
        varies = value > MARGIN * max(value[-1], 0.0)
        return (vector[:, varies] / np.sqrt(value[varies])) / size[:, None]

    def _centre_of(self, V: Array) -> Array:
        """The best common part of unknowns: their mean, drawn to 0; without a penalty on it their mean."""
        mean = V.mean(axis=0)
        if not self.centre.any():
            return mean
        # mean - m = P R m / T, since sum_t P^-1 (v_t - m) = R m.
        return np.linalg.solve(np.eye(len(mean)) + self.covariance @ self.centre / len(V), mean)

    def inverse(self, equations: NormalEquations) -> HubInverse:
        """N, in units of the columns: eigenvalues and cutoffs in raw units say nothing about the smaller ones."""
        w = 1.0 if self.weights is None else self.weights[:, None, None]
        G = w * equations.G
        size = column_sizes(G)
        units = size * size[:, None]
        scaled = G / units
        centre = self.centre / units
        K, C, D, H = blocks_around_centre(scaled, self.covariance * units)
        Z = inverse_for_centre(H.sum(axis=0) + centre, scaled.sum(axis=0) + centre)
        back = size / size[:, None]
        return HubInverse(equations.G, w * K / units, C * back, w * D * back, Z / units)


@holds(penalty="number infinite >=0")
@dataclass(frozen=True, eq=False)
class Alone(HubCoupling):
    """Nothing in common: a ridge per task; without coefficients if the penalty is infinite."""

    source: ClassVar[str] = "own data"
    penalty: float

    def inverse(self, equations: NormalEquations) -> HubInverse:
        """N_tt = (G_t + penalty)^-1, and nothing between tasks."""
        G = equations.G
        zero = np.zeros_like(G)
        if np.isinf(self.penalty):  # the task mean: no slope is left
            return HubInverse(G, zero, zero, zero, zero[0])
        if are_uneven(G):
            K = ridge_inverse(G, self.penalty)
        else:
            K = Spectrum.of(G, equations.b).inverse_on_rows(self.penalty)
        return HubInverse(G, np.broadcast_to(K, G.shape), zero, zero, zero[0])

    def cost(self, V: Array) -> float:
        """penalty sum_t ||v_t||^2; without coefficients nothing."""
        return 0.0 if np.isinf(self.penalty) else self.penalty * float(np.square(V).sum())


@holds(penalty="number >=0", ridge="number >=0")
@dataclass(frozen=True, eq=False)
class ToMean(HubCoupling):
    """A pull of every task towards the mean of all, and a ridge."""

    source: ClassVar[str] = "common to all tasks"
    penalty: float
    ridge: float

    def inverse(self, equations: NormalEquations) -> HubInverse:
        """N with K_t = C_t = (G_t + ridge + penalty)^-1; for the rows' right sides K is 0 where these see nothing."""
        G = equations.G
        if are_uneven(G):
            return self.around_centre(*equations.shape).inverse(equations)
        total = self.ridge + self.penalty
        spectrum = Spectrum.of(G, equations.b).beside(total)
        K = np.broadcast_to(spectrum.inverse_on_rows(total), G.shape)
        C = np.broadcast_to(spectrum.inverse(total), G.shape)
        share = spectrum.shrunk(total) * (spectrum.value + self.ridge)  # of K_t (G_t + ridge), without their product
        own = (spectrum.vector * share[:, None, :]) @ spectrum.vector.transpose(0, 2, 1)
        system = own.sum(axis=0) * (len(G) / len(own))
        Z = self.penalty * linalg.pinvh(system, atol=spectrum.resolution(total), rtol=MARGIN)
        return HubInverse(G, K, C, K, Z)

    def cost(self, V: Array) -> float:
        """penalty sum_t ||v_t - mean||^2 + ridge sum_t ||v_t||^2."""
        return float(self.penalty * np.square(V - V.mean(axis=0)).sum() + self.ridge * np.square(V).sum())

    def around_centre(self, T: int, p: int) -> Hub | Alone:
        """The same for T tasks with p unknowns as a hub; its centre is the mean of tasks, drawn to 0 by the ridge.

        penalty ||w - m||^2 + ridge ||w||^2 is (penalty + ridge) ||w - c||^2 about c = penalty m / (penalty + ridge),
        and beyond that ridge (penalty + ridge) / penalty ||c||^2.
        """
        if self.penalty == 0:
            return Alone(self.ridge)
        total = self.penalty + self.ridge
        return Hub(np.eye(p) / total, np.eye(p) * (T * self.ridge * total / self.penalty))
