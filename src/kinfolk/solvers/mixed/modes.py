"""The likeliest random effects of all tasks at once, for targets that are not normal: Newton steps with safeguards.

    h_t(b) = sum_i w_i l(y_i, eta_i) - b'b / 2,    eta_i = f_i + z_i'S b,    S = diag(s) the standard deviations,

where f_i is what the row has without random effects and u_t = S b are the effects themselves. With r_i and W_i the
first derivative of w_i l in eta and its negative second, the gradient and the Hessian are

    S Z_t'r - b,    -H_t,    H_t = I + S M_t S,    M_t = Z_t'W Z_t.

l is concave in eta for all families here, so that h_t has one maximum. A step that would move a row too far is cut, and
one that goes beyond the maximum and ends lower is halved, each for its own task; s_j = 0 needs no exception.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.rows.families import Family
from kinfolk.rows.gram import Array
from kinfolk.rows.moments import sorted_by_slot
from kinfolk.solvers.batched import row_dots
from kinfolk.solvers.tolerances import ROUNDING

FARTHEST = 5.0  # that a step may move the linear predictor of a row: beyond, a quadratic says nothing about exp
FLAT = 1e-9  # gradient of h_t at the end, in units of its prior: that of F is as exact as the modes
MOST_STEPS = 200


class Curve(NamedTuple):
    """w l(y, eta), less its maximum; its first derivative in eta, and its negative second."""

    value: Array
    slope: Array
    weight: Array


@dataclass(frozen=True, eq=False)
class OrderedRows:
    """Rows task by task: the columns Z (k, n) of the random effects, and where tasks start in them.

    >>> rows = OrderedRows.of(np.array([[1.0], [2.0], [3.0]]), np.array([1, 0, 1]))
    >>> rows.order, rows.sums(np.ones(3)).ravel(), rows.moments(np.ones(3)).ravel()
    (array([1, 0, 2]), array([2., 4.]), array([ 4., 10.]))
    """

    Z: Array
    order: NDArray[np.intp]  # of the rows in the table
    tasks: NDArray[np.intp]  # their codes, in the order in which they stand here
    count: NDArray[np.intp]
    starts: NDArray[np.intp]

    @classmethod
    def of(cls, Z: Array, codes: NDArray[np.intp]) -> OrderedRows:
        """Columns Z (n, k) of rows whose tasks are `codes`."""
        order, count, tasks = sorted_by_slot(codes)
        starts = np.concatenate([[0], np.cumsum(count)[:-1]])
        return cls(np.ascontiguousarray(Z[order].T), order, tasks, count, starts)

    def sums(self, x: Array) -> Array:
        """Z_t'x_t for every task: (T, k)."""
        return np.stack([np.add.reduceat(z * x, self.starts) for z in self.Z], axis=1)

    def moments(self, w: Array) -> Array:
        """Z_t'diag(w)Z_t for every task: (T, k, k)."""
        k = len(self.Z)
        M = np.empty((len(self.count), k, k))
        for i in range(k):
            weighted = self.Z[i] * w
            for j in range(i + 1):
                M[:, i, j] = M[:, j, i] = np.add.reduceat(weighted * self.Z[j], self.starts)
        return M

    def by_row(self, u: Array) -> Array:
        """z_i'u_t for every row, with the u (T, k) of its task."""
        return np.sum([z * np.repeat(effect, self.count) for z, effect in zip(self.Z, u.T, strict=True)], axis=0)

    def quadratic(self, C: Array) -> Array:
        """z_i'C_t z_i for every row, with the symmetric C (T, k, k) of its task."""
        total = np.zeros(self.Z.shape[1])
        for i, z in enumerate(self.Z):
            beside = [2 * np.repeat(C[:, i, j], self.count) * self.Z[j] for j in range(i)]
            total += z * (np.repeat(C[:, i, i], self.count) * z + np.sum(beside, axis=0))
        return total

    def largest(self, x: Array) -> Array:
        """The largest |x_i| of every task (T,)."""
        return np.maximum.reduceat(np.abs(x), self.starts)


@dataclass(frozen=True, eq=False)
class Modes:
    """Tasks at random effects S b: h (T,), g = Z'r (T, k), M (T, k, k), and the curve (times w) at eta, by row."""

    b: Array
    eta: Array
    curve: Curve
    h: Array
    g: Array
    M: Array
    H: Array

    def instead(self, other: Modes, tasks: NDArray[np.bool_], count: NDArray[np.intp]) -> Modes:
        """These modes, but those of `other` in some tasks."""
        rows = np.repeat(tasks, count)
        curve = Curve(*(np.where(rows, a, b) for a, b in zip(other.curve, self.curve, strict=True)))
        names = ("b", "h", "g", "M", "H")
        both = {name: (getattr(other, name), getattr(self, name)) for name in names}
        arrays = {name: np.where(tasks.reshape(-1, *[1] * (a.ndim - 1)), a, b) for name, (a, b) in both.items()}
        return replace(self, eta=np.where(rows, other.eta, self.eta), curve=curve, **arrays)


@dataclass(frozen=True, eq=False)
class ModeTargets:
    """The rows of a problem with their targets, and weights over the dispersion."""

    rows: OrderedRows
    family: Family
    y: Array
    weight: Array

    def at(self, b: Array, eta: Array, s: Array) -> Modes:
        """Everything about the tasks at b (T, k) and the eta that goes with it."""
        family, y, w = self.family, self.y, self.weight
        curve = Curve(-w / 2 * family.deviance(y, eta), -w * family.slope(y, eta), w * family.curvature(y, eta))
        h = np.add.reduceat(curve.value, self.rows.starts) - (b**2).sum(axis=1) / 2
        M = self.rows.moments(curve.weight)
        return Modes(b, eta, curve, h, self.rows.sums(curve.slope), M, np.eye(len(s)) + s[:, None] * M * s)


def conditional_modes(targets: ModeTargets, fixed: Array, s: Array, b: Array) -> Modes:
    """The maximum of every h_t, looked for from b (T, k), with what rows have without random effects, `fixed` (n,)."""
    rows = targets.rows
    state = targets.at(b, fixed + rows.by_row(s * b), s)
    step = _newton(state, s)
    for _ in range(MOST_STEPS):
        # Rows of large counts may have a gradient that no change of a last digit makes small.
        moving = (np.abs(step) > ROUNDING * (1 + np.abs(state.b))) & (np.abs(s * state.g - state.b) > FLAT)
        if not moving.any():
            break
        towards = rows.by_row(s * step)
        if np.abs(towards).max() > FARTHEST:
            share = FARTHEST / np.maximum(rows.largest(towards), FARTHEST)
            step = share[:, None] * step
            towards = np.repeat(share, rows.count) * towards
        following = targets.at(state.b + step, state.eta + towards, s)
        # Beside large counts h tells nothing near its maximum, and the slope along the step does.
        beyond = row_dots(s * following.g - following.b, step) < -row_dots(s * state.g - state.b, step) / 2
        worse = ~(following.h >= state.h) & beyond
        state = following.instead(state, worse, rows.count) if worse.any() else following
        step = np.where(worse[:, None], step / 2, _newton(state, s))
    return state


def _newton(state: Modes, s: Array) -> Array:
    return solve_tasks(state.H, (s * state.g - state.b)[:, :, None])[:, :, 0]


def solve_tasks(H: Array, B: Array) -> Array:
    """H_t^-1 B_t of every task; with one random effect a division, which takes a twentieth of the time."""
    if H.shape[1] == 1:
        return B / H
    try:
        return np.linalg.solve(H, B)
    except np.linalg.LinAlgError:  # rows that weigh so much that the identity is lost beside them
        return np.linalg.pinv(H, hermitian=True) @ B
