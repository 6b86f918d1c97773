"""Interior-point Newton for the graph step, for problems whose multipliers differ by orders of magnitude.

The scaled graph step (alpha = 1, beta = 1/2, c = 2 theta z), with degrees d and multipliers lam and s, is solved by

    c + 2a - S'lam = s,    S a = d,    lam_i d_i = 1,    a_e s_e = 0,    all positive.

Newton's method with a_e s_e = mu -> 0 (Mehrotra's predictor and corrector) needs one T x T Cholesky factor per
iteration. The weights a and the slacks s are separate unknowns, so a task a million times farther away than the
rest, or beta = 1e-6, costs no digits and no iterations; in the dual Newton of `newton.py` pairs then turn active one by
one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import linalg

from kinfolk.rows.gram import Array
from kinfolk.solvers.graph.edges import EdgeList
from kinfolk.solvers.solution import Solution
from kinfolk.solvers.tolerances import LAST_DIGIT


@dataclass(frozen=True, eq=False)
class Iterate:
    """Edge weights a, their slacks s, multipliers lam and degrees d; also used for directions."""

    a: Array
    s: Array
    lam: Array
    d: Array

    def moved(self, step: Iterate, t: float) -> Iterate:
        """This point plus t times a direction."""
        return Iterate(self.a + t * step.a, self.s + t * step.s, self.lam + t * step.lam, self.d + t * step.d)

    def room(self, step: Iterate) -> float:
        """How far one can go along a direction before something turns negative."""
        return min(
            room(x, dx) for x, dx in ((self.a, step.a), (self.s, step.s), (self.lam, step.lam), (self.d, step.d))
        )

    @property
    def mu(self) -> float:
        """Mean complementarity a_e s_e."""
        return float(self.a @ self.s / len(self.a))


def interior_point(edges: EdgeList, c: Array, lam: Array, *, tol: float, max_iter: int = 60) -> Solution:
    """Edge weights (`value`) and multipliers (`dual`) of the scaled graph step, to a duality gap of `tol` per task."""
    point = _start(edges, c, lam)
    best = _with_zeros(edges, c, point, 0)
    for k in range(max_iter):
        if best.residual <= tol:
            return replace(best, converged=True)
        system = _System(edges, c, point)
        predictor = system.solve(-point.a * point.s, 1 - point.lam * point.d)
        trial = point.moved(predictor, min(1.0, point.room(predictor)))
        target = point.mu * (trial.mu / point.mu) ** 3
        corrector = system.solve(
            target - point.a * point.s - predictor.a * predictor.s,
            1 - point.lam * point.d - predictor.lam * predictor.d,
        )
        point = point.moved(corrector, min(1.0, 0.995 * point.room(corrector)))
        best = _with_zeros(edges, c, point, k + 1)
    return best


def _with_zeros(edges: EdgeList, c: Array, point: Iterate, n_iter: int) -> Solution:
    """The iterate as an answer: edges whose slack outweighs them, both in units of their ends, become exact zeros."""
    unit = edges.at_ends(point.lam)
    a = np.where(point.a * unit > point.s / unit, point.a, 0.0)
    if not (edges.degrees(a) > 0).all():
        a = point.a
    return Solution(a, n_iter, _gap(edges, c, a, point.lam), False, "interior point", point.lam)


def _start(edges: EdgeList, c: Array, lam: Array) -> Iterate:
    d = 1 / lam
    a = np.minimum(d[edges.i], d[edges.j]) / np.sqrt(edges.size)
    s = np.maximum(c + 2 * a - edges.at_ends(lam), 0.1 * edges.at_ends(lam))
    return Iterate(a, s, lam, d)


def _gap(edges: EdgeList, c: Array, a: Array, lam: Array) -> float:
    """(primal value at a - dual value at lam) / T."""
    excess = np.maximum(edges.at_ends(lam) - c, 0.0)
    primal = c @ a + a @ a - np.log(edges.degrees(a)).sum()
    dual = np.log(lam).sum() + edges.size - excess @ excess / 4
    return float(abs(primal - dual) / edges.size)


class _System:
    """The Newton system at one iterate: factorised once, solved for two right-hand sides."""

    def __init__(self, edges: EdgeList, c: Array, point: Iterate) -> None:
        self.edges = edges
        self.point = point
        self.dual_residual = c + 2 * point.a - edges.at_ends(point.lam) - point.s
        self.primal_residual = edges.degrees(point.a) - point.d
        self.weight = point.a / (2 * point.a + point.s)
        diagonal = edges.degrees(self.weight) + point.d / point.lam
        self.scale = 1 / np.sqrt(diagonal)
        H = np.eye(edges.size)
        off = self.weight * self.scale[edges.i] * self.scale[edges.j]
        H[edges.i, edges.j] = H[edges.j, edges.i] = off
        H[np.diag_indices(edges.size)] += LAST_DIGIT  # singular by rounding only
        self.factor = linalg.cho_factor(H, lower=True, overwrite_a=True)

    def solve(self, edge_target: Array, node_target: Array) -> Iterate:
        """The direction with s da + a ds = edge_target and lam dd + d dl = node_target."""
        p, edges, w = self.point, self.edges, self.weight
        q = edge_target / p.a - self.dual_residual
        right = node_target / p.lam - self.primal_residual - edges.degrees(w * q)
        dlam = self.scale * linalg.cho_solve(self.factor, self.scale * right)
        da = w * (edges.at_ends(dlam) + q)
        return Iterate(da, (edge_target - p.s * da) / p.a, dlam, (node_target - p.d * dlam) / p.lam)


def room(x: Array, dx: Array) -> float:
    """How far one can go from x > 0 along dx before an entry turns negative."""
    shrinking = dx < 0
    return float(np.min(-x[shrinking] / dx[shrinking], initial=np.inf))
