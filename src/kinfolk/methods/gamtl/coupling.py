"""A graph as what ties tasks together: the weight step with everything held fixed, as a linear map of the targets."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse
from scipy.optimize import minimize_scalar
from scipy.sparse.csgraph import breadth_first_order, connected_components

from kinfolk.methods.gamtl.calibrate import Recipe
from kinfolk.methods.gamtl.problem import Penalty, Problem
from kinfolk.rows.gram import TINY, Array, order_by_content
from kinfolk.solvers.equations import NormalEquations
from kinfolk.solvers.weights import WeightSystem, solve_system
from kinfolk.solvers.weights.direct import scaled_matrix

DENSE_UNKNOWNS = 4000  # dT up to which N is held whole: 128 MB
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
        M, unit = scaled_matrix(self.system, definite=True)
        inverse = linalg.cho_solve(linalg.cho_factor(M, overwrite_a=True), np.diag(unit), overwrite_b=True)
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

    def _near(self, task: int) -> tuple[NDArray[np.intp], Array]:
        """The piece of a task, and N_st for all s in it."""
        if self.at_once:
            return np.arange(len(self.G)), self.whole[:, :, task, :]
        piece = self.pieces[self._piece_of[task]]
        system = self.system if len(piece) == len(self.G) else self.system.restricted(piece)
        p = system.b.shape[1]
        at = int(np.searchsorted(piece, task))
        if system.b.size <= FACTORED:
            M, unit = scaled_matrix(system, definite=True)
            right = np.diag(unit)[:, at * p : (at + 1) * p]
            inside = unit[:, None] * linalg.cho_solve(linalg.cho_factor(M, overwrite_a=True), right)
            return piece, inside.reshape(len(piece), p, p)
        found = np.empty((len(piece), p, p))
        for j in range(p):
            unit = np.zeros((len(piece), p))
            unit[at, j] = 1.0
            found[:, :, j] = solve_system(replace(system, b=unit)).value
        return piece, found

    def diagonal(self, tasks: NDArray[np.intp]) -> tuple[Array, Array]:
        """N_tt and (N G N)_tt = sum_s N_ts G_s N_st."""
        whole = np.empty((len(tasks), *self.G.shape[1:]))
        noise = np.empty_like(whole)
        for k, t in enumerate(tasks):
            piece, C = self._near(t)
            whole[k] = C[np.searchsorted(piece, t)]
            noise[k] = np.tensordot(C, np.matmul(self.G[piece], C), ((0, 1), (0, 1)))
        return whole, noise

    def sample(self, most: int) -> NDArray[np.intp]:
        """All tasks, or up to `most` of them that are near each other in the graph, breadth first from a few seeds."""
        T = len(self.system.b)
        if most >= T:
            return np.arange(T)
        if self.system.uniform.any():  # no small pieces: half of the tasks take an eighth of the time
            most = max(most // 2, 1)
        order = order_by_content(self.G, self.system.b)  # what tasks are called plays no part
        L = self.system.L[order][:, order].sorted_indices()
        found = np.zeros(0, np.intp)
        for seed in np.random.default_rng(0).permutation(T):
            if seed not in found:
                near = breadth_first_order(L, seed, directed=False, return_predecessors=False)
                near = near[: max(most // 4, 1)]
                found = np.append(found, near[~np.isin(near, found)])
            if len(found) >= most:
                break
        return np.sort(order[found[:most]])

    def likelihood(self, equations: NormalEquations, rows: float, tasks: NDArray[np.intp]) -> tuple[float, float]:
        """sigma2 and kappa of greatest likelihood, over the rows of some tasks and the edges between them.

        With U'(G + P)U = I and U'GU = diag(g) for the prior precision P / (kappa sigma2), entries of U'b are
        independent, with variances sigma2 (g + kappa g^2 / (1 - g)); those with g = 1 have no prior and say nothing
        about kappa.
        """
        system = self.system.restricted(tasks)
        shares = []
        entries = []
        # Pieces without an edge between them have eigenvectors of their own: small problems in place of a large one.
        for piece in connected_pieces(system):
            part = system.restricted(piece)
            every = np.arange(len(piece))
            G = np.zeros((len(piece), part.b.shape[1]) * 2)
            G[every, :, every] = equations.G[tasks[piece]]
            # G u = g (G + P) u: g is the share of a direction that the data set, not the prior.
            M, unit = scaled_matrix(part, definite=True)
            g, U = linalg.eigh(unit[:, None] * G.reshape(part.b.size, -1) * unit, M)
            shares.append(np.clip(g, 0.0, 1.0))
            entries.append(U.T @ (unit * part.b.ravel()))
        yy = float(equations.yy[tasks].sum())
        return _best_spread(np.concatenate(shares), np.concatenate(entries), yy, rows)


@dataclass(frozen=True, eq=False)
class GraphCoupling:
    """Tasks tied along a fitted graph.

    Attributes
    ----------
    adjacency : CSR (T, T) among the tasks with rows
    penalty : the terms of the objective, with the numbers that were used
    recipe : what these numbers were made from, to make them anew on other statistics
    """

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


def _best_spread(g: Array, b: Array, yy: float, rows: float) -> tuple[float, float]:
    """sigma2 and kappa from independent entries b with the data's shares g; `rows` and yy count what is left."""
    seen = g > 1e-10  # below: directions that no row looks into
    rest = max(yy - float((b[seen] ** 2 / g[seen]).sum()), 0.0)
    drawn = seen & (g < 1 - 1e-9)  # above: directions without a prior
    g = g[drawn]
    b = b[drawn]
    count = max(rows - float(seen.sum()), 0.0) + len(g)
    if count < 1:
        return TINY, 1.0

    def variance(log_kappa: float) -> Array:
        return g + np.exp(log_kappa) * g**2 / (1 - g)

    def deviance(log_kappa: float) -> float:
        v = variance(log_kappa)
        return count * np.log(max(float((b**2 / v).sum()) + rest, TINY)) + float(np.log(v).sum())

    log_kappa = minimize_scalar(deviance, bounds=(-7.0, 10.0), method="bounded").x if len(g) else 0.0
    return (float((b**2 / variance(log_kappa)).sum()) + rest) / count, float(np.exp(log_kappa))
