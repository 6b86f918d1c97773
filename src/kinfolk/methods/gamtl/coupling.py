"""A graph as what ties tasks together: the weight step with everything held fixed, as a linear map of the targets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from kinfolk.declared import holds
from kinfolk.memory import fits_into_memory
from kinfolk.methods.gamtl.adopt import adopt_tasks
from kinfolk.methods.gamtl.calibrate import Recipe
from kinfolk.methods.gamtl.problem import Penalty, Problem
from kinfolk.methods.part import ErrorBlocks, Joined, Places, Scatter
from kinfolk.rows.gram import Array
from kinfolk.solvers.equations import NormalEquations
from kinfolk.solvers.graph import graph_of_weights
from kinfolk.solvers.krylov import conjugate_gradients
from kinfolk.solvers.tolerances import WEIGHTS_RESIDUAL
from kinfolk.solvers.weights import WeightSystem
from kinfolk.solvers.weights.cg import make_preconditioner
from kinfolk.solvers.weights.direct import definite_inverse

DENSE_UNKNOWNS = 4000  # dT up to which N is kept: 128 MB
MOST_INVERTED = 8000  # unknowns of a piece of the graph up to which its N is held whole for a while: 512 MB
WORTH = 40_000  # a piece of n unknowns is inverted for n^2 / WORTH columns or more: fewer are solved for sooner
MOST_STEPS = 1000  # of conjugate gradients
ERRORS_RESIDUAL = 1e-6  # of N for standard deviations, which are read to two or three digits


@dataclass(frozen=True, eq=False)
class GraphInverse:
    """N of a weight system whose data part is G, piece by piece of the graph: inverted, or by conjugate gradients."""

    system: WeightSystem
    G: Array
    _kept: dict[int, Array] = field(default_factory=dict, repr=False)

    @property
    def at_once(self) -> bool:
        """Where N is kept."""
        return self.system.b.size <= DENSE_UNKNOWNS

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
        k = self._piece_of[task]
        found = np.zeros(self.G.shape)
        found[self.pieces[k]] = next(self._columns(k, np.array([task]), WEIGHTS_RESIDUAL))
        return found

    def _columns(self, k: int, tasks: NDArray[np.intp], tol: float) -> Iterator[Array]:
        """For tasks of a piece in turn, N_st for all s in it: exact, or to a relative residual of `tol`."""
        piece = self.pieces[k]
        system = self.system if len(piece) == len(self.G) else self.system.restricted(piece)
        p = system.b.shape[1]
        asked = np.searchsorted(piece, tasks)
        if self.at_once or worth_inverting(system.b.size, len(tasks) * p):
            N = self._kept[k] if k in self._kept else definite_inverse(system)
            if self.at_once:
                self._kept[k] = N
            yield from (N.reshape(len(piece), p, len(piece), p)[:, :, t, :] for t in asked)
            return
        precondition, _ = make_preconditioner(system)  # one for all columns: it takes as long as a few of them
        for t in asked:
            found = np.empty((len(piece), p, p))
            for j in range(p):
                unit = np.zeros((len(piece), p))
                unit[t, j] = 1.0
                solution = conjugate_gradients(system.apply, unit, precondition, tol=tol, max_iter=MOST_STEPS)
                found[:, :, j] = solution.value
            yield found

    def diagonal(self, tasks: NDArray[np.intp], scatter: Scatter) -> ErrorBlocks:
        """N_tt, sum_s N_ts G_s N_st, and the same sum of N_ts G_s - [s = t] about the moments of tasks."""
        found = ErrorBlocks(*(np.empty((len(tasks), *self.G.shape[1:])) for _ in ErrorBlocks._fields))
        number = self._piece_of[tasks]
        for k in np.unique(number):
            inside = np.flatnonzero(number == k)
            piece = self.pieces[k]
            for i, C in zip(inside, self._columns(k, tasks[inside], ERRORS_RESIDUAL), strict=True):
                at = np.searchsorted(piece, tasks[i])
                GC = np.matmul(self.G[piece], C)
                found.whole[i] = C[at]
                found.noise[i] = np.tensordot(C, GC, ((0, 1), (0, 1)))
                GC[at] -= np.eye(len(GC[at]))
                off = GC.sum(axis=0).T @ scatter.mean
                found.pulled[i] = np.tensordot(GC, scatter.covariance @ GC, ((0, 1), (0, 1))) + np.outer(off, off)
        return found


@holds(adjacency="sparse S S >=0", penalty="record p", recipe="record")
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

    def solved(self, equations: NormalEquations, V: Array) -> Array:
        """The weight step."""
        step = self.problem(equations).weight_step(self.adjacency, V)
        return np.asarray(step.value)

    def cost(self, V: Array) -> float:
        """Ridge and coupling."""
        return self.penalty.of_weights(V, self.adjacency)

    @property
    def constant(self) -> float:
        """Barrier and Frobenius term."""
        return self.penalty.of_graph(self.adjacency)

    @property
    def given_share(self) -> float:
        """What a given graph has of it."""
        return self.recipe.graph_share

    def settled(self, V: Array) -> GraphCoupling:
        """The graph step; with a given graph in it, the graph stays."""
        if self.given_share:
            return self
        degree = np.asarray(self.adjacency.sum(axis=1)).ravel()
        start = self.penalty.alpha / degree if len(V) > 1 and (degree > 0).all() else None
        graph = graph_of_weights(V * self.penalty.scale, **self.penalty.graph_terms, start=start)
        return replace(self, adjacency=graph.value)

    def block(self, unknowns: slice) -> GraphCoupling:
        """The same for some of the unknowns, along the graph of all."""
        own = {name: getattr(self.penalty, name)[unknowns] for name in ("scale", "shrinkage")}
        ridge = self.penalty.ridge[unknowns, unknowns]
        return replace(self, penalty=replace(self.penalty, ridge=ridge, **own))

    def certificates(self, equations: NormalEquations, V: Array) -> dict[str, float]:
        """The optimality conditions of the graph step."""
        return self.problem(equations).of_graph_step(self.adjacency, V, None)

    def among(self, kept: NDArray[np.bool_]) -> GraphCoupling:
        """The same among some of its tasks, without the edges to others."""
        return replace(self, adjacency=sparse.csr_array(self.adjacency[kept][:, kept]))

    def adopted(self, V: Array, places: Places, new: NormalEquations, joined: Joined) -> tuple[GraphCoupling, Array]:
        """The same with new tasks, with the edges and unknowns that are best for them, all else fixed."""
        unknowns, edges = adopt_tasks(self.penalty, self.adjacency, V, new)
        return replace(self, adjacency=_with_edges(self.adjacency, places, edges)), unknowns


def _with_edges(A: sparse.csr_array, places: Places, edges: Array) -> sparse.csr_array:
    """The adjacency of old and new tasks together."""
    T = len(places.old) + len(places.new)
    old = sparse.coo_array(A)
    i, j = np.nonzero(edges)
    here, there = places.new[i], places.old[j]
    row = np.concatenate([places.old[old.coords[0]], here, there])
    column = np.concatenate([places.old[old.coords[1]], there, here])
    weight = np.concatenate([old.data, edges[i, j], edges[i, j]])
    return sparse.csr_array((weight, (row, column)), shape=(T, T))


def connected_pieces(system: WeightSystem) -> list[NDArray[np.intp]]:
    """The tasks of every connected piece of a system; a pull towards all tasks makes them one."""
    if system.uniform.any():
        return [np.arange(len(system.b))]
    count, number = connected_components(system.L, directed=False)
    order = np.argsort(number, kind="stable")
    return np.split(order, np.searchsorted(number[order], np.arange(1, count)))


def worth_inverting(size: int, columns: int) -> bool:
    """Whether an inverse of `size` unknowns takes less time than so many columns of it, and fits into memory."""
    return columns * WORTH >= size**2 and size <= MOST_INVERTED and fits_into_memory(16.0 * size**2)
