"""The graph step from coefficients, without the T^2 pairs: candidate edges and a certificate that no other is needed.

A pair is zero in the full answer when lam_i + lam_j <= 2 gamma z_ij. So with any numbers reach_i >= lam_i / (2 gamma)
for which all pairs with z_ij < reach_i + reach_j are among the candidates, the answer on the candidates is the answer
over all pairs. Such pairs are found by one pass over all tasks (`pairs_within`), in little more time than a matrix
product; when the new candidates lift a multiplier above its reach, only the tasks that this happened to are looked at
again.

Where most tasks are alike, the answer may have more edges than anybody wants to hold: then the candidates end at the
nearest tasks, and `certified` says for which share of the tasks that was enough.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from kinfolk.rows.gram import TINY, Array
from kinfolk.solvers.batched import lengths, row_dots
from kinfolk.solvers.graph.edges import EdgeList, squared_distances
from kinfolk.solvers.graph.learn import learn_graph, solve_on_pool
from kinfolk.solvers.graph.newton import newton
from kinfolk.solvers.graph.pairs import (
    Index,
    Nearest,
    nearest,
    pair_distances,
    pair_keys,
    pairs_within,
)
from kinfolk.solvers.solution import Solution
from kinfolk.solvers.tolerances import GRAPH_ROUGH, GRAPH_TIE

DENSE_TASKS = 2500  # up to here all pairs may be held at once
ALL_PAIRS = 300  # up to here theta is found with them
FEW = 240  # up to here a graph step over all pairs is faster than one over candidates
NEIGHBORS = 32  # candidates per task at first
MOST_NEIGHBORS = 512
SAMPLE = 256  # tasks from which the number of pairs within reach is foreseen
ROOM = (0.3, 0.1, 0.03, 0.01, 0.0)  # how far beyond the multipliers to reach, in their median
ENOUGH = 24  # pairs per task that more room may add
TOO_MANY = 100  # pairs per task that say that the candidates were poor
MOST_KEPT = 80  # pairs per task carried from one step to the next
LEAST_PRICE = 1e-9  # of the farthest distance: multipliers over a price of zero would reach for all pairs
SAME_THETA = 1e-9  # multipliers found at theta serve another theta this near
ROUNDS = 12  # solves at most until no pair outside the candidates wants in
ROUGH_ROUNDS = 2  # solves of a rough graph: on the pairs at hand, and on those that these asked for
MOST_PAIRS = 10_000_000  # beyond, no graph can be read, and solving for it takes minutes


class Candidates:
    """What one graph step knows about pairs of tasks, for the next.

    The pairs stay when the coefficients move: most neighbours are still neighbours then. As much of the reach stays as
    the moves have left, so that pairs are looked for where it falls short alone. While the coefficients stay, so do the
    nearest neighbours, the reach and the multipliers. There are never many more than `most_pairs`. `rough` ones serve
    graphs that only have to predict: what the first solves give is enough.
    """

    def __init__(self, most_pairs: int = MOST_PAIRS, *, rough: bool = False) -> None:
        self.most_pairs = most_pairs
        self.rough = rough
        self.W = np.empty((0, 0))
        self.near: Nearest | None = None
        self.keys: Index = np.empty(0, np.intp)
        self.reach = np.empty(0)
        self.k = 0
        self.price = 1.0
        self.dual: tuple[float, Array] | None = None

    def move_to(self, W: Array) -> None:
        """Take notice of the coefficients."""
        if np.array_equal(W, self.W):
            return
        if W.shape != self.W.shape:
            self.keys = np.empty(0, np.intp)
            self.reach = np.zeros(len(W))
        else:
            self.reach = _reach_after(self.reach, lengths(W - self.W))
        self.W = W.copy()
        self.near = None
        self.dual = None
        self.k = 0

    def pairs_at(self, W: Array) -> Index:
        """Keys of the pairs of the nearest at these coefficients."""
        self.move_to(W)
        self.search(NEIGHBORS)
        return self.keys

    def begin_at(self, W: Array, keys: Index) -> None:
        """Take notice of coefficients and of pairs that were found for them before."""
        self.move_to(W)
        self.keys = keys
        self.reach = np.zeros(len(W))

    def nearest(self, W: Array, k: int) -> Nearest:
        """The k nearest of every task; at least as many as the graph step will want are looked for."""
        self.move_to(W)
        if self.near is None or self.near.index.shape[1] < min(k, len(W) - 1):
            self.near = nearest(W, max(k, NEIGHBORS))
        return Nearest(self.near.distance[:, :k], self.near.index[:, :k])

    def search(self, k: int) -> None:
        """Add the pairs of the k nearest."""
        T = len(self.W)
        index = self.nearest(self.W, k).index
        self.k = k
        self.add(pair_keys(np.repeat(np.arange(T), index.shape[1]), index.ravel(), T))

    def edges(self) -> tuple[EdgeList, Array]:
        """The pairs and their squared distances."""
        T = len(self.W)
        edges = EdgeList(self.keys // T, self.keys % T, T)
        return edges, pair_distances(self.W, edges.i, edges.j)

    def add(self, keys: Index) -> Index:
        """Add pairs; those that were not there."""
        new = np.setdiff1d(keys, self.keys, assume_unique=True)
        self.keys = np.sort(np.concatenate([self.keys, new]), kind="stable")  # two runs are merged, in linear time
        return new

    def widen(self, dual: Array) -> bool:
        """Look for the pairs that the multipliers need at the tasks that fall short; whether the next solve may differ.

        Multipliers are too large on poor candidates. So where they ask for very many pairs, more of the nearest come
        first; where they still ask for too many then, nothing is added.
        """
        T = len(self.W)
        need = dual / self.price  # the reach that the multipliers ask for
        if self.certified(need) == 1:
            return False
        short = np.flatnonzero(need > self.reach)
        reach, pairs = _foresee(self.W, need, short, self.reach)
        most_neighbors = min(MOST_NEIGHBORS, max(NEIGHBORS, self.most_pairs // T), T - 1)
        # 1 Poor candidates: four times as many of the nearest bring the multipliers down before anything is measured.
        if pairs > min(TOO_MANY * T, self.most_pairs) and self.k < most_neighbors and not self.rough:
            self.search(min(4 * self.k, most_neighbors) if self.near is not None else NEIGHBORS)
            return True
        # 2 Good candidates, and still more pairs than may be held: the answer stays, certified for some of the tasks.
        if pairs > self.most_pairs:
            return False
        # 3 All pairs within reach, from both ends if most tasks fall short: one pass is then cheaper than by task.
        self.reach = reach
        new = self.add(pairs_within(self.W, reach, None if len(short) > T // 2 else short))
        # 4 The reach has room beyond the need: only pairs that want an edge at these multipliers change the answer.
        i = new // T
        j = new % T
        return bool((need[i] + need[j] > pair_distances(self.W, i, j) * (1 + GRAPH_TIE)).any())

    def certified(self, need: Array) -> float:
        """Share of tasks at which no pair outside the candidates wants an edge, for sure."""
        if (need <= self.reach).all():
            return 1.0
        radius = self.reach + self.reach.min()  # all pairs of a task that are nearer are candidates
        if self.near is not None and self.k:
            radius = np.maximum(radius, self.near.distance[:, min(self.k, self.near.distance.shape[1]) - 1])
        return float((need + need.max() <= radius).mean())

    def forget_far_pairs(self, z: Array, edges: EdgeList, need: Array) -> None:
        """Keep memory bounded over many rounds: the edges stay, the nearest pairs, and all within reach."""
        if len(edges) > MOST_KEPT * edges.size:
            ratio = z / edges.at_ends(np.maximum(self.reach, need))
            limit = np.partition(ratio, MOST_KEPT * edges.size // 2)[MOST_KEPT * edges.size // 2]
            far = edges.select(ratio > max(1.0, float(limit)))
            self.keys = np.setdiff1d(self.keys, pair_keys(far.i, far.j, edges.size), assume_unique=True)


def graph_of_weights(
    W: Array,
    *,
    alpha: float,
    beta: float,
    gamma: float,
    self_loops: float | None = None,
    method: str = "auto",
    start: Array | None = None,
    candidates: Candidates | None = None,
    rough: bool = False,
) -> Solution:
    """The graph step at the coefficients W: all pairs for few tasks, certified candidates for many.

    `candidates` carries what was learned about pairs from one call to the next. A `rough` step of very many tasks,
    after which there will be another, leaves it at the pairs that are known.
    """
    terms: dict[str, Any] = {"alpha": alpha, "beta": beta, "gamma": gamma, "self_loops": self_loops}
    if len(W) > min(FEW, DENSE_TASKS) and method != "primal_dual":
        rounds = 1 if rough and len(W) > DENSE_TASKS else ROUNDS
        found = by_candidates(W, start=start, candidates=candidates, rounds=rounds, **terms)
        if len(W) > DENSE_TASKS or found.certified == 1 or (candidates is not None and candidates.rough):
            return found
    return learn_graph(squared_distances(W), method=method, start=start, **terms)


def by_candidates(
    W: Array,
    *,
    alpha: float,
    beta: float,
    gamma: float,
    self_loops: float | None = None,
    start: Array | None = None,
    candidates: Candidates | None = None,
    rounds: int = ROUNDS,
) -> Solution:
    """Solve on candidates, add the pairs within reach, repeat until no pair outside wants in.

    The `certified` share of the result is 1 unless the rounds ran out or too many pairs were wanted: see
    `Candidates.certified`; and 0 if the last solve did not converge.
    """
    known = candidates or Candidates()
    known.move_to(W)
    if not len(known.keys):
        known.search(NEIGHBORS)
    unit = float(np.sqrt(2 * alpha) * np.sqrt(beta))
    farthest = float(((W - W.mean(axis=0)) ** 2).sum(axis=1).max())
    theta = max(gamma / unit, LEAST_PRICE / max(farthest, TINY))  # gamma = 0 wants every pair
    if known.dual is not None and np.isclose(known.dual[0], theta, rtol=SAME_THETA, atol=0):
        start = known.dual[1] * unit
    known.price = 2 * theta * unit
    step = partial(newton, alpha=alpha, beta=beta, gamma=gamma, self_loops=self_loops)
    if known.rough:
        step = partial(step, tol=GRAPH_ROUGH)
        rounds = min(rounds, ROUGH_ROUNDS)
    edges, z, solution = solve_on_pool(known, step, start, rounds)
    assert solution.dual is not None
    known.dual = theta, solution.dual / unit
    need = solution.dual / known.price
    share = known.certified(need)
    known.forget_far_pairs(z, edges, need)
    return replace(
        solution,
        value=edges.adjacency(solution.value),
        method=f"{solution.method} (candidates)",
        certified=share if solution.converged else 0.0,
    )


def _reach_after(reach: Array, moved: Array) -> Array:
    """The reach that is left after tasks have moved: no pair outside the candidates is nearer than its sum.

    Such a pair had ||w_i - w_j||^2 >= R = reach_i + reach_j, and now has (sqrt(R) - moved_i - moved_j)^2 or more, which
    is at least R - 2 sqrt(R) (moved_i + moved_j). It may be less than nothing.

    >>> _reach_after(np.array([2.0, 2.0]), np.array([0.0, 0.25]))
    array([2., 1.])
    """
    return reach - 2 * moved * np.sqrt(np.maximum(reach + reach.max(), 0.0))


def _foresee(W: Array, need: Array, short: Index, reach: Array) -> tuple[Array, float]:
    """The reach to take, with as much room beyond the multipliers as adds few pairs, and the pairs to expect.

    The pairs are counted for some tasks only.
    """
    some = short[:: max(1, len(short) // SAMPLE)]
    V = W - np.median(W, axis=0)
    norm = row_dots(V, V)
    z = norm[some, None] + norm - 2 * V[some] @ V.T
    wide = reach.copy()
    for room in ROOM:
        # A far task gets no more room than a typical one.
        wide[short] = need[short] + room * np.minimum(need[short], np.median(need))
        pairs = (np.count_nonzero(z < wide[some, None] + wide) / len(some) - 1) * len(short)  # but for themselves
        if pairs <= ENOUGH * len(W):
            break
    return wide, pairs
