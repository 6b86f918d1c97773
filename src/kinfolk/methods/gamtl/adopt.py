"""New tasks for a solved problem: their weights and edges, with everything else as it is.

For one new task i, minimised over its weights v and its edges a >= 0 to the tasks s that are there,

    v'G_i v - 2 b_i'v + v'R v + 2 gamma sum_s a_s ||v - v_s||^2 + 2 beta ||a||^2
        - alpha log(sum a) - alpha sum_s log(degree_s + a_s).

Given v, the edges follow from one number, the root of an increasing function; given the edges, v from one d x d system.
With self-loops at the price kappa no task gains more than kappa by an edge, and a new task may have none.
The problem is convex only in each, and with a handful of rows its value tells little, as v can follow any task in the
directions that the rows do not show. What tells is prediction: the start is the task whose weights, untouched, predict
the new rows best.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import brentq

from kinfolk.methods.gamtl.problem import Penalty
from kinfolk.rows.gram import TINY, Array
from kinfolk.solvers.equations import NormalEquations

ROUNDS = 100
SETTLED = 1e-9  # relative change of the weights in a round


@dataclass(frozen=True, eq=False)
class Neighborhood:
    """What a new task meets: the weights V (T, p) of the tasks that are there and their degrees (T,)."""

    penalty: Penalty
    V: Array
    degree: Array

    def edges(self, v: Array) -> Array:
        """The best edges (T,) of a task with weights v."""
        alpha = self.penalty.alpha
        beta = self.penalty.beta
        cost = 2 * self.penalty.gamma_along * (((self.V - v) * self.penalty.scale) ** 2).sum(axis=1)
        cap = np.inf if self.penalty.self_loops is None else self.penalty.self_loops
        top = min(float(cost.min()) + 2 * np.sqrt(alpha * beta), cap)  # at which one edge alone is enough

        def given(own: float, tasks: Any) -> Array:
            # The root a >= 0 of 4 beta a = own - cost + alpha / (degree + a), if there is one.
            degree = self.degree[tasks]
            r = own - cost[tasks]
            half = (r - 4 * beta * degree) / 2
            root = half + np.sqrt(half**2 + 4 * beta * np.maximum(r * degree + alpha, 0.0))
            open_ended = np.where(r * degree + alpha > 0, root / (4 * beta), 0.0)
            return np.minimum(open_ended, np.maximum(r + cap, 0.0) / (4 * beta))

        found = given(top, slice(None))
        if top == cap and found.sum() <= alpha / cap:
            return found
        some = np.flatnonzero(found)  # edges grow with `own`: pairs without an edge at the top have none below it
        own = brentq(lambda x: float(given(x, some).sum()) - alpha / x, 1e-12 * top, top, xtol=1e-14 * top)
        found[some] = given(own, some)
        return found

    def weights(self, G: Array, b: Array, a: Array) -> Array:
        """The best weights of a task with statistics G, b and edges a."""
        T = len(self.V)
        along = 2 * self.penalty.gamma_along * self.penalty.scale
        uniform = 2 * self.penalty.gamma * self.penalty.anchor / T * self.penalty.scale + self.penalty.shrinkage / T
        # The gradient of the problem above in v, set to zero.
        H = G + self.penalty.ridge + np.diag(along * a.sum() + uniform * T)
        return np.linalg.solve(H, b + along * (a @ self.V) + uniform * self.V.sum(axis=0))

    def settle(self, G: Array, b: Array) -> tuple[Array, Array]:
        """Weights and edges, alternated from the weights of the task that predicts the new rows best."""
        misfit = np.einsum("tp,pq,tq->t", self.V, G, self.V) - 2 * self.V @ b
        v = self.V[np.argmin(misfit)]
        a = self.edges(v)
        for _ in range(ROUNDS):
            before = v
            v = self.weights(G, b, a)
            a = self.edges(v)
            if np.abs(v - before).max() <= SETTLED * max(float(np.abs(v).max()), TINY):
                break
        return v, a


def adopt_tasks(penalty: Penalty, A: sparse.csr_array, V: Array, new: NormalEquations) -> tuple[Array, Array]:
    """Unknowns (k, p) of new tasks with these equations, and their edges (k, T) to the tasks of A with unknowns V."""
    around = Neighborhood(penalty, V, np.asarray(A.sum(axis=1)).ravel())
    settled = [around.settle(G, b) for G, b in zip(new.G, new.b, strict=True)]
    return np.stack([v for v, _ in settled]), np.stack([a for _, a in settled])
