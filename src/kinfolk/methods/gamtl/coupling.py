"""A graph as what ties tasks together: the weight step with everything held fixed, as a linear map of the targets."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse
from scipy.sparse.csgraph import connected_components

from kinfolk.methods.gamtl.calibrate import Recipe
from kinfolk.methods.gamtl.problem import Penalty, Problem
from kinfolk.methods.linear_map import ErrorBlocks, Scatter
from kinfolk.rows.gram import Array
from kinfolk.solvers.equations import NormalEquations
from kinfolk.solvers.krylov import conjugate_gradients
from kinfolk.solvers.tolerances import WEIGHTS_RESIDUAL
from kinfolk.solvers.weights import WeightSystem
from kinfolk.solvers.weights.cg import make_preconditioner
from kinfolk.solvers.weights.direct import definite_factor

DENSE_UNKNOWNS = 4000  # dT up to which N is held whole: 128 MB
MOST_STEPS = 1000  # of conjugate gradients
ERRORS_RESIDUAL = 1e-6  # of N for standard deviations, which are read to two or three digits
FACTORED = 600  # unknowns of a piece of the graph up to which a factorisation is faster than conjugate gradients


@dataclass(frozen=True, eq=False)
class GraphInverse:
    """N of a weight system whose data part is G: whole when small, by conjugate gradients when large."""

    system: WeightSystem
    G: Array

    @property
    def at_once(self) -> bool:
        """Where N is held whole."""
        return self.system.b.size <= DENSE_UNKNOWNS

    @cached_property
    def whole(self) -> Array:
        """N as (T, p, T, p)."""
        T, p = self.system.b.shape
        factor, unit = definite_factor(self.system)
        inverse = linalg.cho_solve(factor, np.diag(unit), overwrite_b=True)
        return (unit[:, None] * inverse).reshape(T, p, T, p)

    @cached_property
    def pieces(self) -> list[NDArray[np.intp]]:
        """The tasks of every connected piece of the graph, between which N is zero."""
        return connected_pieces(self.system)

    @cached_property
    def _piece_of(self) -> NDArray[np.intp]:
        number = np.empty(len(self.system.b), np.intp)
        for k, piece in enumerate(self.pieces):
            number[piece] = k
        return number

    def columns(self, task: int) -> Array:
        """N_st for all s."""
        piece, inside = self._near(task)
        if len(piece) == len(self.G):
            return inside
        found = np.zeros(self.G.shape)
        found[piece] = inside
        return found

    def _near(self, task: int, tol: float = WEIGHTS_RESIDUAL) -> tuple[NDArray[np.intp], Array]:
        """The piece of a task, and N_st for all s in it, to a relative residual of `tol`."""
        if self.at_once:
            return np.arange(len(self.G)), self.whole[:, :, task, :]
        piece = self.pieces[self._piece_of[task]]
        system = self.system if len(piece) == len(self.G) else self.system.restricted(piece)
        p = system.b.shape[1]
        at = int(np.searchsorted(piece, task))
        if system.b.size <= FACTORED:
            factor, unit = definite_factor(system)
            right = np.diag(unit)[:, at * p : (at + 1) * p]
            inside = unit[:, None] * linalg.cho_solve(factor, right)
            return piece, inside.reshape(len(piece), p, p)
        found = np.empty((len(piece), p, p))
        precondition, _ = make_preconditioner(system)  # one for all columns: it takes as long as a few of them
        for j in range(p):
            unit = np.zeros((len(piece), p))
            unit[at, j] = 1.0
            found[:, :, j] = conjugate_gradients(system.apply, unit, precondition, tol=tol, max_iter=MOST_STEPS).value
        return piece, found

    def diagonal(self, tasks: NDArray[np.intp], scatter: Scatter) -> ErrorBlocks:
        """N_tt, sum_s N_ts G_s N_st, and the same sum of N_ts G_s - [s = t] about the moments of tasks."""
        found = ErrorBlocks(*(np.empty((len(tasks), *self.G.shape[1:])) for _ in ErrorBlocks._fields))
        for k, t in enumerate(tasks):
            piece, C = self._near(t, ERRORS_RESIDUAL)
            at = np.searchsorted(piece, t)
            GC = np.matmul(self.G[piece], C)
            found.whole[k] = C[at]
            found.noise[k] = np.tensordot(C, GC, ((0, 1), (0, 1)))
            GC[at] -= np.eye(len(GC[at]))
            off = GC.sum(axis=0).T @ scatter.mean
            found.pulled[k] = np.tensordot(GC, scatter.covariance @ GC, ((0, 1), (0, 1))) + np.outer(off, off)
        return found


@dataclass(frozen=True, eq=False)
class GraphCoupling:
    """Tasks tied along a fitted graph.

    Attributes
    ----------
    adjacency : CSR (T, T) among the tasks with rows
    penalty : the terms of the objective, with the numbers that were used
    recipe : what these numbers were made from, to make them anew on other statistics
    """

    source: ClassVar[str] = "kin along the graph"
    adjacency: sparse.csr_array
    penalty: Penalty
    recipe: Recipe

    def problem(self, equations: NormalEquations) -> Problem:
        """The objective with the fitted numbers, for tasks with these normal equations."""
        return Problem(**vars(self.penalty), equations=equations)

    def inverse(self, equations: NormalEquations) -> GraphInverse:
        """N of the weight step."""
        return GraphInverse(self.problem(equations).system(self.adjacency), equations.G)


def connected_pieces(system: WeightSystem) -> list[NDArray[np.intp]]:
    """The tasks of every connected piece of a system; a pull towards all tasks makes them one."""
    if system.uniform.any():
        return [np.arange(len(system.b))]
    count, number = connected_components(system.L, directed=False)
    order = np.argsort(number, kind="stable")
    return np.split(order, np.searchsorted(number[order], np.arange(1, count)))
