"""Groupings of tasks drawn from their posterior distribution: groups, and tasks that stand alone.

The prior: a task stands alone with an unknown probability (uniform); the others sit in groups by a Chinese restaurant
process that opens few of them. One process for both would pay for many lone tasks by splitting groups: of 8 kin among
30 tasks (20 rows, 5 features, five draws) it found 17 % of the pairs, and the two find 46 % (probability of 0.9).

Many chains of Gibbs draws advance in step, each with random numbers of its own, so that a draw is a few operations on
arrays for all of them. What a task says is one matrix, which sums over a group: N, with u as one row more. The Cholesky
factor of I plus that sum then has both parts of the evidence, log det on its diagonal and L^-1 U in its last row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import gammaln

from kinfolk.rows.gram import Array

LEAST_OPEN = 0.1  # alpha of the Chinese restaurant process: from this to one for 20 tasks; larger ones split groups
TASKS_PER_OPENNESS = 20
OPENNESS = 15  # values of alpha
SLOTS = 8  # for groups, at first; there are more as they are needed
Index = NDArray[np.intp]
Pairs = tuple[Index, Index]  # positions of both tasks


@dataclass(frozen=True, eq=False)
class Messages:
    """What every task says about the common part of its group, at W widths of the groups.

    Attributes
    ----------
    bordered : (T, W, r + 1, r + 1), N with u as its last row; see `kinfolk.explain.kin`. The last column is not read
    constant : (W,), log likelihood of all tasks that does not depend on the grouping, but on the width
    """

    bordered: Array
    constant: Array


def together(
    messages: Messages, rngs: Sequence[np.random.Generator], pairs: Pairs, *, uncounted: int, counted: int
) -> Array:
    """Share of drawn groupings in which the two tasks of every pair are in one group, (S, pairs).

    Parameters
    ----------
    messages : what tasks say at every width that groups may have, the widest last; the width is drawn as well
    rngs : one for every chain
    uncounted, counted : Gibbs steps per task before groupings are counted, at least one, and then
    """
    T = len(messages.bordered)
    sweeps = uncounted + counted
    order = np.stack([rng.permuted(np.tile(np.arange(T), (sweeps, 1)), axis=1) for rng in rngs], axis=-1)
    chance = np.stack([rng.random((sweeps, T + 2)) for rng in rngs], axis=-1)
    chains = _Chains(messages, len(rngs))
    i, j = pairs
    counts = np.zeros((len(rngs), len(i)))
    for sweep in range(sweeps):
        for t, random in zip(order[sweep], chance[sweep, :T], strict=True):
            # In the first sweep all go into groups: starting from lone tasks, weak groups took 40 sweeps to form.
            chains.draw(t, random, may_stand_alone=sweep > 0)
        chains.draw_alpha(chance[sweep, T])
        chains.draw_width(chance[sweep, T + 1])
        if sweep >= uncounted:
            group = chains.member[:, i]
            counts += (group == chains.member[:, j]) & (group >= 0)
    return counts / counted


class _Chains:
    """One grouping of all tasks in each of S chains, with sums over every group; at first all tasks stand alone."""

    def __init__(self, messages: Messages, S: int) -> None:
        T, W, q, _ = messages.bordered.shape
        self.messages = messages
        self.chain = np.arange(S)
        self.alone = evidence(messages.bordered + np.eye(q))
        self.member: Index = np.full((S, T), -1)  # -1 stands alone
        self.width = np.full(S, W - 1)
        self.alpha = np.ones(S)
        self.size = np.zeros((S, SLOTS))
        self.held = np.zeros((S, SLOTS))  # evidence of every group
        self.sums = np.empty((S, SLOTS, q, q))  # I and what its tasks say

    def draw(self, t: Index, random: Array, *, may_stand_alone: bool = True) -> None:
        """A place for one task per chain given those of all others: alone, in an old group, or in a new one."""
        message = self.messages.bordered[t, self.width]
        alone = self.alone[t, self.width]
        gain = self._gains_without(t, message)
        grouped = self.size.sum(axis=1)
        K = self.size.shape[1]
        weight = np.empty((len(t), K + 2))
        # Beta(1, 1) for the share of lone tasks: alone : grouped = (others alone + 1) : (others grouped + 1).
        weight[:, :K] = np.log(self.size, out=np.full(self.size.shape, -np.inf), where=self.size > 0) + gain
        weight[:, K] = np.log(self.alpha) + alone
        weight[:, : K + 1] += np.log((grouped + 1) / (grouped + self.alpha))[:, None]
        weight[:, K + 1] = np.log(self.member.shape[1] - grouped) + alone if may_stand_alone else -np.inf
        chosen = _drawn(weight, random)
        self.member[self.chain, t] = np.where(chosen < K, chosen, -1)
        old = np.flatnonzero(chosen < K)
        self._join(old, chosen[old], message[old], gain[old, chosen[old]])
        new = np.flatnonzero(chosen == K)
        if len(new):
            self._open(new, t[new], message[new], alone[new])

    def _gains_without(self, t: Index, message: Array) -> Array:
        """Take a task per chain out of its group; how much the evidence of every group then gains by it."""
        left = self.member[self.chain, t]
        inside = np.flatnonzero(left >= 0)
        self.size[inside, left[inside]] -= 1
        self.sums[inside, left[inside]] -= message[inside]
        s, g = np.nonzero(self.size)
        home = g == left[s]
        # What its own group has with the task is known; what it has without it is not. In the others it is the reverse.
        sums = self.sums[s, g]
        sums[~home] += message[s[~home]]
        other = evidence(sums)
        gain = np.zeros(self.size.shape)
        gain[s, g] = np.where(home, -1, 1) * (other - self.held[s, g])
        self.held[s[home], g[home]] = other[home]
        return gain

    def _join(self, s: Index, group: Index, message: Array, gain: Array) -> None:
        self.size[s, group] += 1
        self.sums[s, group] += message
        self.held[s, group] += gain

    def _open(self, s: Index, t: Index, message: Array, alone: Array) -> None:
        """A group for one task in some chains."""
        slot = np.argmin(self.size[s], axis=1)
        self.member[s, t] = slot
        self.sums[s, slot] = np.eye(message.shape[-1])  # what its last tasks left there is rounding
        self.held[s, slot] = 0.0
        self._join(s, slot, message, alone)
        if self.size.all(axis=1).any():  # there must be room for one more
            self.size, self.held, self.sums = (
                np.concatenate([full, np.zeros_like(full)], axis=1) for full in (self.size, self.held, self.sums)
            )

    def draw_alpha(self, random: Array) -> None:
        """How ready the prior is to open groups, given their sizes; on a grid."""
        count = np.count_nonzero(self.size, axis=1)[:, None]
        alpha = np.geomspace(LEAST_OPEN, max(1.0, self.member.shape[1] / TASKS_PER_OPENNESS), OPENNESS)
        log_density = count * np.log(alpha) + gammaln(alpha) - gammaln(alpha + self.size.sum(axis=1)[:, None])
        self.alpha = alpha[_drawn(log_density, random)]

    def draw_width(self, random: Array) -> None:
        """The width of the groups, given their tasks; sums are made anew, which also rids them of rounding."""
        T, W, q, _ = self.messages.bordered.shape
        S, K = self.size.shape
        chain, t = np.nonzero(self.member >= 0)
        gather = sparse.csr_array((np.ones(len(t)), (chain * K + self.member[chain, t], t)), shape=(S * K, T))
        sums = (gather @ self.messages.bordered.reshape(T, -1)).reshape(S, K, W, q, q) + np.eye(q)
        held = np.zeros((S, K, W))
        occupied = self.size > 0
        held[occupied] = evidence(sums[occupied])
        alone = np.where((self.member < 0)[:, :, None], self.alone, 0.0).sum(axis=1)
        self.width = _drawn(held.sum(axis=1) + alone + self.messages.constant, random)
        self.held = held[self.chain, :, self.width]
        self.sums = sums[self.chain, :, self.width]


def _drawn(weight: Array, random: Array) -> Index:
    """One of several in every row, by the logarithms of their probabilities up to a constant."""
    p = np.cumsum(np.exp(weight - weight.max(axis=1, keepdims=True)), axis=1)
    return np.argmax(p > (p[:, -1] * random)[:, None], axis=1)


def evidence(bordered: Array) -> Array:
    """U' M^-1 U / 2 - log det M / 2 of matrices M >= I with U as one row more; the last entry is written over.

    Examples
    --------
    9 / 2 / 2 - log(2) / 2:

    >>> evidence(np.array([[2.0, 0.0], [3.0, 0.0]])).round(4)
    np.float64(1.9034)
    """
    U = bordered[..., -1, :-1]
    # A factor exists if the last entry is larger than U' M^-1 U, which is at most U'U.
    bordered[..., -1, -1] = 2 + 2 * np.einsum("...r,...r->...", U, U)
    try:
        L = np.linalg.cholesky(bordered)
    except np.linalg.LinAlgError:
        return evidence_beyond_rounding(bordered[..., :-1, :-1], U)
    z = L[..., -1, :-1]
    logdet = np.log(np.diagonal(L, axis1=-2, axis2=-1)[..., :-1]).sum(axis=-1)
    return 0.5 * np.einsum("...r,...r->...", z, z) - logdet


def evidence_beyond_rounding(M: Array, U: Array) -> Array:
    """The same of M (..., r, r) and U (..., r) that rounding has made smaller than I: sums of numbers beyond 1e16.

    >>> evidence_beyond_rounding(np.array([[2.0, 0.0], [0.0, -3.0]]), np.array([3.0, 0.0])).round(4)
    np.float64(1.9034)
    """
    value, vector = np.linalg.eigh(M)
    value = np.maximum(value, 1.0)
    z = np.matmul(U[..., None, :], vector)[..., 0, :]
    return 0.5 * (z**2 / value).sum(axis=-1) - 0.5 * np.log(value).sum(axis=-1)
