"""How methods without a graph let tasks learn from each other, and the linear maps that follow.

Each is a small record with one verb, `inverse(equations)`: the matrix N of `linear_map` for tasks with these normal
equations. All of them have the form of a hub, w_t = m + F u_t with a penalty ||u_t||^2 each and m'R m on the common
part, whose blocks have a closed form.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from kinfolk.declared import holds
from kinfolk.methods.linear_map import ErrorBlocks, Inverse, Scatter
from kinfolk.rows.gram import Array
from kinfolk.solvers.batched import square_root
from kinfolk.solvers.equations import NormalEquations
from kinfolk.solvers.ridge import Spectrum
from kinfolk.solvers.tolerances import MARGIN

AT_ONCE = 2**22  # entries of (T, p, p) up to which the blocks of all tasks are kept


class Coupling(Protocol):
    """What ties tasks together, with all its numbers as fitted; `source` says where predictions come from by it."""

    source: ClassVar[str]

    def inverse(self, equations: NormalEquations) -> Inverse:
        """N for tasks with these normal equations."""


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
        found[task] += self.K[task]
        return found

    def diagonal(self, tasks: NDArray[np.intp], scatter: Scatter) -> ErrorBlocks:
        """N_tt, and the errors with their own block apart from what comes by the common part."""
        G, K, D = self.G[tasks], self.K[tasks], self.D[tasks]
        # N_tt = K_t + C_t Z D_t'; in sum_s N_ts G_s N_ts' the own block appears once squared and twice crossed.
        common = self.C[tasks] @ self.Z
        back = common.transpose(0, 2, 1)
        cross = K @ G @ D @ back
        passed = self.D.transpose(0, 2, 1) @ self.G  # what task s passes on to the common part
        noise = K @ G @ K + cross + cross.transpose(0, 2, 1) + common @ (passed @ self.D).sum(axis=0) @ back
        # N_ts G_s - [s = t], squared about the covariance of tasks: again own block, cross and common part.
        own = K @ G - np.eye(G.shape[1])
        S = scatter.covariance
        cross = own @ S @ passed[tasks].transpose(0, 2, 1) @ back
        among = (passed @ S @ passed.transpose(0, 2, 1)).sum(axis=0)
        pulled = own @ S @ own.transpose(0, 2, 1) + cross + cross.transpose(0, 2, 1) + common @ among @ back
        off = (own + common @ passed.sum(axis=0)) @ scatter.mean
        return ErrorBlocks(K + common @ D.transpose(0, 2, 1), noise, pulled + off[:, :, None] * off[:, None, :])

    def unknowns(self, b: Array) -> Array:
        """v_t = sum_s N_ts b_s for all t: the common part is summed once."""
        common = self.Z @ np.einsum("spq,sp->q", self.D, b)
        return np.einsum("tpq,tq->tp", self.K, b) + self.C @ common


@holds(covariance="p p", centre="p p", weights="S >0")
@dataclass(frozen=True, eq=False)
class Hub:
    """Tasks around a common centre: their covariance (p, p) relative to the noise, and the penalty on the centre.

    `weights` (S,) is how often the rows of each task count, None for once.
    """

    source: ClassVar[str] = "common to all tasks"
    covariance: Array
    centre: Array
    weights: Array | None = None

    def inverse(self, equations: NormalEquations) -> HubInverse:
        """N, from a root F of the covariance."""
        w = 1.0 if self.weights is None else self.weights[:, None, None]
        G = w * equations.G
        F = square_root(self.covariance)
        # F may be singular (a coefficient that all tasks share), so the covariance itself is never inverted.
        K = F @ np.linalg.inv(np.eye(len(F)) + F.T @ G @ F) @ F.T
        C = np.eye(len(F)) - K @ G
        Z = linalg.pinvh((G @ C).sum(axis=0) + self.centre, rtol=MARGIN)
        return HubInverse(equations.G, w * K, C, w * C, Z)


@holds(penalty="number infinite >=0")
@dataclass(frozen=True, eq=False)
class Alone:
    """Nothing in common: a ridge per task; without coefficients if the penalty is infinite."""

    source: ClassVar[str] = "own data"
    penalty: float

    def inverse(self, equations: NormalEquations) -> HubInverse:
        """N_tt = (G_t + penalty)^-1, and nothing between tasks."""
        G = equations.G
        zero = np.zeros_like(G)
        if np.isinf(self.penalty):  # the task mean: no slope is left
            return HubInverse(G, zero, zero, zero, zero[0])
        K = Spectrum.of(G, equations.b).inverse(self.penalty)
        return HubInverse(G, np.broadcast_to(K, G.shape), zero, zero, zero[0])


@holds(penalty="number >=0", ridge="number >=0")
@dataclass(frozen=True, eq=False)
class ToMean:
    """A pull of every task towards the mean of all, and a ridge."""

    source: ClassVar[str] = "common to all tasks"
    penalty: float
    ridge: float

    def inverse(self, equations: NormalEquations) -> HubInverse:
        """N with K_t = C_t = (G_t + ridge + penalty)^-1."""
        G = equations.G
        K = np.broadcast_to(Spectrum.of(G, equations.b).inverse(self.ridge + self.penalty), G.shape)
        own = K @ (G + self.ridge * np.eye(G.shape[1]))
        return HubInverse(G, K, K, K, self.penalty * linalg.pinvh(own.sum(axis=0), rtol=MARGIN))
