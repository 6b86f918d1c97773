"""A fitted model as what it is: a linear map from the targets to the coefficients.

With its graph and penalties held fixed, a method solves M vec V = [b_t], so with N = M^-1

    v_t = sum_s N_ts b_s,

where b_s is all that the coefficients know of the targets of task s. N splits a model by where it came from, and under
the Gaussian prior that the penalties stand for, sigma2 N_tt is the posterior covariance of v_t.

Two kinds of N: that of a weight system (a graph, a ridge, a pull to the mean), and that of a hub (w_t = m + F u_t:
mixed models and pooled ones), whose blocks have a closed form.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from kinfolk.methods.gamtl.problem import Problem
from kinfolk.rows.gram import Array
from kinfolk.solvers.equations import NormalEquations
from kinfolk.solvers.tolerances import MARGIN
from kinfolk.solvers.weights import WeightSystem, solve_system
from kinfolk.solvers.weights.direct import dense_matrix

DENSE_UNKNOWNS = 4000  # dT up to which N is held whole: 128 MB


class Inverse(Protocol):
    """The matrix N in blocks (p, p) of tasks."""

    def columns(self, task: int) -> Array:
        """N_st for all s: (T, p, p)."""
        ...

    def diagonal(self, tasks: NDArray[np.intp]) -> tuple[Array, Array]:
        """N_tt, and the part of it that noise in the targets makes, (N G N)_tt: two arrays (k, p, p)."""
        ...


@dataclass(frozen=True, eq=False)
class CoupledInverse:
    """N of a weight system whose data part is G: whole when small, by conjugate gradients when large."""

    system: WeightSystem
    G: Array

    @cached_property
    def whole(self) -> Array:
        """N as (T, p, T, p)."""
        T, p = self.system.b.shape
        factor = linalg.cho_factor(dense_matrix(self.system), overwrite_a=True)
        return linalg.cho_solve(factor, np.eye(T * p), overwrite_b=True).reshape(T, p, T, p)

    def columns(self, task: int) -> Array:
        """N_st for all s."""
        T, p = self.system.b.shape
        if T * p <= DENSE_UNKNOWNS:
            return self.whole[:, :, task, :]
        found = np.empty((T, p, p))
        for j in range(p):
            unit = np.zeros((T, p))
            unit[task, j] = 1.0
            found[:, :, j] = solve_system(replace(self.system, b=unit)).value
        return found

    def diagonal(self, tasks: NDArray[np.intp]) -> tuple[Array, Array]:
        """N_tt and (N G N)_tt = sum_s N_ts G_s N_st."""
        whole, noise = (np.empty((len(tasks), *self.G.shape[1:])) for _ in range(2))
        for k, t in enumerate(tasks):
            C = self.columns(t)
            whole[k], noise[k] = C[t], np.tensordot(C, np.matmul(self.G, C), ((0, 1), (0, 1)))
        return whole, noise


@dataclass(frozen=True, eq=False)
class HubInverse:
    """N of w_t = m + F u_t with a penalty ||u_t||^2 each, and m'R m on the common part.

    With K_t = F (I + F'G_t F)^-1 F', C_t = I - K_t G_t and Z = (sum_t G_t C_t + R)^-1,

        N_ts = [t = s] K_t + C_t Z C_s'.
    """

    G: Array
    K: Array
    C: Array
    Z: Array

    @classmethod
    def of(cls, G: Array, covariance: Array, R: Array) -> HubInverse:
        """From the relative covariance F F' of the tasks and the penalty R on what they have in common."""
        value, vector = np.linalg.eigh(covariance)
        F = vector * np.sqrt(np.maximum(value, 0.0))
        K = F @ np.linalg.inv(np.eye(len(F)) + F.T @ G @ F) @ F.T
        C = np.eye(len(F)) - K @ G
        return cls(G, K, C, linalg.pinvh((G @ C).sum(axis=0) + R, rtol=MARGIN))

    @classmethod
    def alone(cls, K: Array, G: Array) -> HubInverse:
        """Tasks that have nothing in common: N_tt = K_t."""
        zero = np.zeros_like(G)
        return cls(G, np.broadcast_to(K, G.shape), zero, zero[0])

    @classmethod
    def nothing(cls, G: Array) -> HubInverse:
        """The model without coefficients."""
        return cls.alone(np.zeros_like(G[:1]), G)

    def columns(self, task: int) -> Array:
        """N_st for all s."""
        found = self.C @ (self.Z @ self.C[task].T)
        found[task] += self.K[task]
        return found

    def diagonal(self, tasks: NDArray[np.intp]) -> tuple[Array, Array]:
        """N_tt and (N G N)_tt."""
        G, K, C = self.G[tasks], self.K[tasks], self.C[tasks]
        common = C @ self.Z
        cross = K @ G @ C @ self.Z @ C.transpose(0, 2, 1)
        seen = (self.C.transpose(0, 2, 1) @ self.G @ self.C).sum(axis=0)
        noise = K @ G @ K + cross + cross.transpose(0, 2, 1) + common @ seen @ common.transpose(0, 2, 1)
        return K + common @ C.transpose(0, 2, 1), noise


@dataclass(frozen=True, eq=False)
class Smoother:
    """One linear model: its unknowns, their N, and the way back to coefficients.

    `units` (d,) divides slopes, for a model of features that were put on one scale; `share` is its part in a mixture.
    """

    equations: NormalEquations
    inverse: Inverse
    units: Array
    share: float = 1.0

    @cached_property
    def to_coef(self) -> Array:
        """Slopes (d, p) from unknowns."""
        p = self.equations.shape[1]
        basis = np.eye(p) if self.equations.basis is None else self.equations.basis
        return basis[: p - self.equations.has_ones] / self.units[:, None]

    def unknowns(self) -> Array:
        """All v_t from N, task by task."""
        T = len(self.equations.b)
        return np.stack([np.einsum("spq,sp->q", self.inverse.columns(t), self.equations.b) for t in range(T)])

    def design(self, X: Array, codes: NDArray[np.intp]) -> Array:
        """Rows in the unknowns, about the origin of their task's intercept: predictions are rows times v plus y0."""
        dX = X - self.equations.x0[codes] * self.units
        rows = dX @ self.to_coef
        if self.equations.has_ones:
            rows[:, -1] += 1.0
        return rows


def coupled_smoother(problem: Problem, A: sparse.csr_array, units: Array) -> Smoother:
    """The weight step of a problem with its graph held fixed."""
    return Smoother(problem.equations, CoupledInverse(problem.system(A), problem.equations.G), units)
