"""The graph step for a full matrix of distances: min over A of gamma <A, Z> - alpha 1'log(A1) + beta ||A||_F^2."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from kinfolk.rows.gram import Array
from kinfolk.solvers.graph.edges import EdgeList
from kinfolk.solvers.graph.newton import newton
from kinfolk.solvers.graph.primal_dual import primal_dual
from kinfolk.solvers.solution import Solution
from kinfolk.solvers.tolerances import GRAPH_CHANGE, GRAPH_GAP, GRAPH_TIE

CANDIDATES = 32  # nearest neighbours of every task that are looked at to guess its multiplier
LIKELY = 1.3  # a guessed multiplier may be this much too small: more pairs cost less than another solve
LONELY = 10.0  # cost of its nearest pair, in units of alpha and beta, above which a task may link to anyone
ABOVE = 1.15  # times the guess: Newton starts from above, where all pairs that will be active are
SYMMETRIC = 1e-8  # of the largest distance: what distances from single precision may lack in symmetry
METHODS = ("auto", "newton", "primal_dual")


def learn_graph(
    Z: ArrayLike,
    *,
    alpha: float,
    beta: float,
    gamma: float = 1.0,
    self_loops: float | None = None,
    method: str = "auto",
    start: Array | None = None,
    tol: float | None = None,
) -> Solution:
    """Learn a sparse weighted graph from squared distances between tasks.

    Solves, over symmetric A >= 0 with zero diagonal,

        min  gamma <A, Z> - alpha 1'log(A 1) + beta ||A||_F^2.

    Parameters
    ----------
    Z : array of shape (T, T), symmetric, non-negative, zero on the diagonal
    alpha, beta : positive; theta = gamma / sqrt(2 alpha beta) alone sets how sparse the graph is
    gamma : non-negative weight of the distances
    self_loops : price kappa of a self-loop s_i >= 0, which then adds to the degree: - alpha log(degree_i + s_i)
        + kappa s_i. A task whose nearest are farther than the price has no edge. By default every task has one
    method : "newton" (exact; what "auto" takes) or "primal_dual" (the paper's Algorithm 2)
    start : multipliers of an earlier solution (its `dual`)
    tol : duality gap per task ("newton", default 1e-12) or relative change ("primal_dual", default 1e-8)

    Returns
    -------
    Solution
        `value` is the adjacency, a symmetric CSR matrix with exact zeros; `dual` the multipliers alpha / degree, at
        most kappa; `details["self_loops"]` the weights of the self-loops.

    Examples
    --------
    Two near tasks and a far one: with theta large every task keeps only its nearest.

    >>> Z = np.array([[0.0, 1.0, 9.0], [1.0, 0.0, 4.0], [9.0, 4.0, 0.0]])
    >>> learn_graph(Z, alpha=1.0, beta=0.1).value.toarray().round(3)
    array([[0.   , 0.797, 0.   ],
           [0.797, 0.   , 0.143],
           [0.   , 0.143, 0.   ]])

    At a price of 6 the far one is left alone: 6 + 1.1, the sum of both multipliers, is less than 2 gamma 4.

    >>> learn_graph(Z, alpha=1.0, beta=0.1, self_loops=6.0).value.toarray().round(3)
    array([[0.   , 0.854, 0.   ],
           [0.854, 0.   , 0.   ],
           [0.   , 0.   , 0.   ]])
    """
    Z = check_distances(Z)
    if min(alpha, beta) <= 0 or gamma < 0 or not np.isfinite([alpha, beta, gamma]).all():
        raise ValueError(f"need alpha > 0, beta > 0, gamma >= 0; got {alpha=}, {beta=}, {gamma=}")
    if method not in METHODS:
        raise ValueError(f"unknown graph method {method!r}: choose one of {', '.join(METHODS)}")
    if self_loops is not None and not self_loops > 0:
        raise ValueError(f"self_loops={self_loops} must be greater than 0, or None")
    if self_loops is not None and method == "primal_dual":
        raise ValueError('self_loops need method="newton": the paper\'s algorithm has none')
    T = len(Z)
    if T == 1:
        return Solution(sparse.csr_array((1, 1)), 0, 0.0, True, "nothing to connect", np.zeros(1))

    solve, default_tol = (primal_dual, GRAPH_CHANGE) if method == "primal_dual" else (newton, GRAPH_GAP)
    step = partial(solve, alpha=alpha, beta=beta, gamma=gamma, tol=default_tol if tol is None else tol)
    step = step if self_loops is None else partial(step, self_loops=self_loops)
    if T <= 4 * CANDIDATES or method == "primal_dual":
        edges = EdgeList.complete(T)
        solution = step(edges, Z[edges.i, edges.j], start=start)
    else:
        unit = float(np.sqrt(2 * alpha) * np.sqrt(beta))
        pool = _AllPairs(Z, price=2 * gamma, unit=unit)
        start = ABOVE * unit * pool.guess if start is None else start
        edges, _, solution = solve_on_pool(pool, step, start, rounds=T * T)  # every round but the last adds a pair
    return replace(solution, value=edges.adjacency(solution.value))


class Pool(Protocol):
    """Pairs that are tried for an edge, and the rule by which there come to be more."""

    def edges(self) -> tuple[EdgeList, Array]:
        """The pairs and their squared distances."""
        ...

    def widen(self, dual: Array) -> bool:
        """Add the pairs that want an edge at these multipliers; whether the next solve may differ."""
        ...


def solve_on_pool(
    pool: Pool, step: Callable[..., Solution], start: Array | None, rounds: int
) -> tuple[EdgeList, Array, Solution]:
    """Solve on likely pairs, add those that want an edge, repeat until none does or the rounds end.

    A pair is zero in the full answer when lam_i + lam_j <= 2 gamma z_ij. So where no pair outside the pool wants in,
    the answer on the pool is the answer over all pairs, at the cost of the pool.
    """
    n_iter = 0
    for left in reversed(range(rounds)):
        edges, z = pool.edges()
        solution = step(edges, z, start=start)
        n_iter += solution.n_iter
        start = solution.dual
        assert start is not None
        # After the last solve nothing is added: a certificate must not count pairs that no solve has seen.
        if left == 0 or not pool.widen(start):
            break
    return edges, z, replace(solution, n_iter=n_iter)


class _AllPairs:
    """Likely pairs of a full matrix Z of distances; every other pair is looked at after every solve."""

    def __init__(self, Z: Array, *, price: float, unit: float) -> None:
        self.Z = Z
        self.price = price
        self.chosen, self.guess = _likely_pairs((price / unit) * Z)

    def edges(self) -> tuple[EdgeList, Array]:
        i, j = np.nonzero(self.chosen)
        return EdgeList(i, j, len(self.Z)), self.Z[i, j]

    def widen(self, dual: Array) -> bool:
        reach = dual / (self.price * (1 + GRAPH_TIE))
        wants_in = reach[:, None] + reach > self.Z
        wants_in &= ~self.chosen
        missing = np.triu(wants_in, k=1)
        self.chosen |= missing
        return bool(missing.any())


def _likely_pairs(c: Array) -> tuple[NDArray[np.bool_], Array]:
    """Upper-triangular mask of the pairs to try first, and guessed multipliers, from scaled distances c = 2 theta Z.

    Alone with neighbours like itself, a task would have the multiplier lam with sum_j [lam - c_j / 2]_+ = 1 / lam: over
    its k nearest that is a quadratic equation, and the least root over k is the answer. Pairs with lam_i + lam_j near
    or above c_ij are likely. The few tasks without a near one may link to any other. The diagonal of c is overwritten.
    """
    np.fill_diagonal(c, np.inf)
    half = np.sort(np.partition(c, CANDIDATES, axis=1)[:, :CANDIDATES], axis=1) / 2
    k = np.arange(1, CANDIDATES + 1)
    total = np.cumsum(half, axis=1)
    lam = ((total + np.sqrt(total**2 + 4 * k)) / (2 * k)).min(axis=1)
    reach = LIKELY * lam
    mask = reach[:, None] + reach > c
    mask |= c <= 2 * half[:, -1:]
    lonely = np.flatnonzero(2 * half[:, 0] > LONELY)
    if len(lonely) <= len(c) // 20:
        mask[lonely] = True
    return np.triu(mask | mask.T, k=1), lam


def check_distances(Z: ArrayLike) -> Array:
    """Z as a float array, or an error that says what is wrong with it."""
    Z = np.asarray(Z, dtype=np.float64)
    if Z.ndim != 2 or Z.shape[0] != Z.shape[1] or Z.size == 0:
        raise ValueError(f"Z must be a square matrix of squared distances, got shape {Z.shape}")
    least = Z.min()
    scale = Z.max()
    if not np.isfinite([least, scale]).all():  # both are NaN where one entry is
        raise ValueError("Z has NaN or infinite entries")
    if least < 0:
        raise ValueError(f"Z must not be negative: its least entry is {least:.3g}")
    same = (Z == Z.T).all()  # in a third of the time that differences take
    if (not same and np.abs(Z - Z.T).max() > SYMMETRIC * scale) or np.abs(np.diagonal(Z)).max() > SYMMETRIC * scale:
        raise ValueError("Z must be symmetric with a zero diagonal")
    return Z
