"""New tasks for a solved problem: their weights and edges, with everything else as it is.

For one new task i, minimised over its weights v and its edges a >= 0 to the tasks s that are there,

    v'G_i v - 2 b_i'v + v'R v + 2 gamma sum_s a_s ||v - v_s||^2 + 2 beta ||a||^2
        - alpha log(sum a) - alpha sum_s log(degree_s + a_s).

Given v, the edges follow from one number, the root of an increasing function; given the edges, v from one d x d system.
The problem is convex only in each, and with a handful of rows its value tells little, as v can follow any task in the
directions that the rows do not show. What tells is prediction: the start is the task whose weights, untouched, predict
the new rows best.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.optimize import brentq

from kinfolk.methods.gamtl.problem import Problem
from kinfolk.rows.gram import TINY, Array, GramStats
from kinfolk.solvers.equations import NormalEquations, normal_equations

ROUNDS = 100


@dataclass(frozen=True, eq=False)
class Neighborhood:
    """What a new task meets: the weights V (T, p) of the tasks that are there and their degrees (T,)."""

    problem: Problem
    V: Array
    degree: Array

    def edges(self, v: Array) -> Array:
        """The best edges (T,) of a task with weights v."""
        alpha, beta = self.problem.alpha, self.problem.beta
        cost = 2 * self.problem.pull * (((self.V - v) * self.problem.scale) ** 2).sum(axis=1)
        top = float(cost.min()) + 2 * np.sqrt(alpha * beta)  # at which one edge alone is enough

        def given(own: float) -> Array:
            # The root a >= 0 of 4 beta a = own - cost + alpha / (degree + a), if there is one.
            r = own - cost
            half = (r - 4 * beta * self.degree) / 2
            root = half + np.sqrt(half**2 + 4 * beta * np.maximum(r * self.degree + alpha, 0.0))
            return np.where(r * self.degree + alpha > 0, root / (4 * beta), 0.0)

        own = brentq(lambda x: float(given(x).sum()) - alpha / x, 1e-12 * top, top, xtol=1e-14 * top)
        return given(own)

    def weights(self, G: Array, b: Array, a: Array) -> Array:
        """The best weights of a task with statistics G, b and edges a."""
        problem, T = self.problem, len(self.V)
        along = 2 * problem.pull * problem.scale
        uniform = 2 * problem.gamma * problem.anchor / T * problem.scale + problem.shrinkage / T
        H = G + problem.ridge + np.diag(along * a.sum() + uniform * T)
        return np.linalg.solve(H, b + along * (a @ self.V) + uniform * self.V.sum(axis=0))

    def settle(self, G: Array, b: Array) -> tuple[Array, Array]:
        """Weights and edges, alternated from the weights of the task that predicts the new rows best."""
        misfit = np.einsum("tp,pq,tq->t", self.V, G, self.V) - 2 * self.V @ b
        v = self.V[np.argmin(misfit)]
        a = self.edges(v)
        for _ in range(ROUNDS):
            before, v = v, self.weights(G, b, a)
            a = self.edges(v)
            if np.abs(v - before).max() <= 1e-9 * max(float(np.abs(v).max()), TINY):
                break
        return v, a


def adopt_tasks(
    problem: Problem, A: sparse.csr_array, V: Array, new: GramStats, intercept: str | None
) -> tuple[Array, Array, Array]:
    """Coefficients (k, d), intercepts (k,) and edges (k, T) of new tasks; A and V solve the problem of the old ones."""
    equations = _about_the_same(problem.equations, new, intercept)
    around = Neighborhood(problem, V, np.asarray(A.sum(axis=1)).ravel())
    found = [around.settle(G, b) for G, b in zip(equations.G, equations.b, strict=True)]
    W, c = equations.coefficients(np.stack([v for v, _ in found]))
    return W, c, np.stack([a for _, a in found])


def _about_the_same(equations: NormalEquations, new: GramStats, intercept: str | None) -> NormalEquations:
    """The normal equations of new tasks in the unknowns of the old ones."""
    origin = (equations.x0[0], float(equations.y0[0])) if equations.has_ones else None
    found = normal_equations(new, intercept, origin=origin)
    if equations.basis is None:
        return found
    d = new.n_features
    return found.in_basis(equations.basis[:d, :d])
