"""Groupings of tasks drawn from their posterior distribution: groups, and tasks that stand alone.

The prior: a task stands alone with an unknown probability (uniform); the others sit in groups by a Chinese restaurant
process that opens few of them. One process for both would pay for many lone tasks by splitting groups: of 8 kin among
30 tasks (20 rows, 5 features, five draws) it found 17 % of the pairs, and the two find 46 % (probability of 0.9).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from kinfolk.rows.gram import Array

SWEEPS = 6_000  # Gibbs steps in all, at least LEAST_SWEEPS per task; the first third is not counted
LEAST_SWEEPS = 21
MOST_SWEEPS = 60
LEAST_OPEN = 0.1  # alpha of the Chinese restaurant process: from this to one for 20 tasks; larger ones split groups
TASKS_PER_OPENNESS = 20
Pairs = tuple[NDArray[np.intp], NDArray[np.intp]]  # positions of both tasks


@dataclass(frozen=True, eq=False)
class Messages:
    """What every task says about the common part of its group, at one width of the groups.

    Attributes
    ----------
    u, N : (T, r) and (T, r, r), see `kinfolk.explain.kin`; for several sets of statistics u is (T, r, S)
    constant : log likelihood of all tasks that does not depend on the grouping, but on the width; one for every set
    """

    u: Array
    N: Array
    constant: Array


def together(widths: Sequence[Messages], rng: np.random.Generator, pairs: Pairs, sweeps: int | None = None) -> Array:
    """Share of drawn groupings in which the two tasks of every pair are in one group.

    Parameters
    ----------
    widths : what tasks say at every width that groups may have, the widest last; the width is drawn as well
    sweeps : Gibbs steps per task; by default as many as a single answer wants
    """
    T = len(widths[0].u)
    sweeps = sweeps or int(np.clip(SWEEPS // T, LEAST_SWEEPS, MOST_SWEEPS))
    grouping = _Grouping(widths[-1])
    i, j = pairs
    counted = np.zeros(len(i))
    alpha = 1.0
    for sweep in range(sweeps):
        for t in rng.permutation(T):
            # In the first sweep all go into groups: starting from lone tasks, weak groups took 40 sweeps to form.
            grouping.draw(t, alpha, rng, may_stand_alone=sweep > 0)
        alpha = _draw_alpha(grouping.size, rng)
        grouping.take(widths[_drawn([grouping.evidence(width) for width in widths], rng)])
        if sweep >= sweeps // 3:
            counted += (grouping.member[i] == grouping.member[j]) & (grouping.member[i] >= 0)
    return counted / (sweeps - sweeps // 3)


class _Grouping:
    """A grouping of all tasks, with the sums over every group; at first all tasks stand alone."""

    def __init__(self, said: Messages) -> None:
        T = len(said.u)
        self.member: NDArray[np.intp] = np.full(T, -1)  # -1 stands alone
        self.size = np.zeros(T + 1)
        self.take(said)

    def take(self, said: Messages) -> None:
        """The same grouping at another width."""
        self.said = said
        self.alone = evidence(said.u, said.N)
        self.U, self.S = self._sums(said)

    def evidence(self, said: Messages) -> float:
        """Log likelihood of all tasks, grouped like this, at a width."""
        U, S = self._sums(said)
        there = self.size > 0
        lone = self.member < 0
        return float(evidence(U[there], S[there]).sum() + evidence(said.u[lone], said.N[lone]).sum() + said.constant)

    def draw(self, t: int, alpha: float, rng: np.random.Generator, *, may_stand_alone: bool = True) -> None:
        """A place for one task given those of all others: alone, an old group by size and evidence, or a new one."""
        if self.member[t] >= 0:
            self._move(t, self.member[t], -1)
        self.member[t] = -1
        there = np.flatnonzero(self.size > 0)
        joined = evidence(self.U[there] + self.said.u[t], self.S[there] + self.said.N[t])
        gain = joined - evidence(self.U[there], self.S[there])
        grouped = self.size.sum()
        # Beta(1, 1) for the share of lone tasks: alone : grouped = (others alone + 1) : (others grouped + 1).
        prior = np.log((grouped + 1) / (grouped + alpha))
        new = prior + np.log(alpha) + self.alone[t]
        alone = np.log(len(self.member) - grouped) + self.alone[t] if may_stand_alone else -np.inf
        chosen = _drawn(np.concatenate([prior + np.log(self.size[there]) + gain, [new, alone]]), rng)
        if chosen <= len(there):
            empty = int(np.argmin(self.size))
            self.member[t] = there[chosen] if chosen < len(there) else empty
            self._move(t, self.member[t], 1)

    def _move(self, t: int, group: int, sign: int) -> None:
        self.size[group] += sign
        self.U[group] += sign * self.said.u[t]
        self.S[group] += sign * self.said.N[t]

    def _sums(self, said: Messages) -> tuple[Array, Array]:
        inside = np.flatnonzero(self.member >= 0)
        U = np.zeros((len(self.size), said.u.shape[1]))
        S = np.zeros((len(self.size), *said.N.shape[1:]))
        np.add.at(U, self.member[inside], said.u[inside])
        np.add.at(S, self.member[inside], said.N[inside])
        return U, S


def _drawn(weight: Array | list[float], rng: np.random.Generator) -> int:
    """One of several, by the logarithms of their probabilities up to a constant."""
    p = np.cumsum(np.exp(np.asarray(weight) - np.max(weight)))
    return int(np.searchsorted(p, p[-1] * rng.random()))


def _draw_alpha(size: Array, rng: np.random.Generator) -> float:
    """How ready the prior is to open groups, given their sizes; on a grid."""
    count = int((size > 0).sum())
    alpha = np.geomspace(LEAST_OPEN, max(1.0, len(size) / TASKS_PER_OPENNESS), 15)
    return float(alpha[_drawn(count * np.log(alpha) + gammaln(alpha) - gammaln(alpha + size.sum()), rng)])


def evidence(u: Array, N: Array) -> Array:
    """u' (I + N)^-1 u / 2 - log det (I + N) / 2 of every task or group: (m,), or (m, S) for u of shape (m, r, S)."""
    L = np.linalg.cholesky(np.eye(N.shape[-1]) + N)
    z = np.linalg.solve(L, u if u.ndim == 3 else u[:, :, None])
    logdet = np.log(np.diagonal(L, axis1=1, axis2=2)).sum(axis=1, keepdims=True)
    found = 0.5 * np.square(z).sum(axis=1) - logdet
    return found if u.ndim == 3 else found[:, 0]
