"""The joint problem of weights and graph for given statistics: steps, value, certificates, and its calibration."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.memory import check_memory
from kinfolk.methods.gamtl.alternate import Alternation, alternate
from kinfolk.methods.gamtl.objective import (
    duality_gap,
    graph_coupling,
    graph_residual,
    objective_terms,
    uniform_coupling,
)
from kinfolk.progress import Callback
from kinfolk.rows.gram import TINY, Array
from kinfolk.solvers.equations import NormalEquations
from kinfolk.solvers.graph import DENSE_TASKS, Candidates, graph_of_weights, squared_distances, theta_of_weights
from kinfolk.solvers.solution import Solution
from kinfolk.solvers.weights import WeightSystem, solve_system, weight_system

EXACT = 1e-6  # residual of a weight step above which another solver is asked
FACTORISED = 2000  # dT up to which that is a dense factorisation
ROUNDING = 1e-13  # of the terms of a normal equation
NOISE = 1e-14  # of the squared targets: rounding of the objective, which for a good fit is a small difference of them
PROOF = 1e-6  # duality gap above which better multipliers are looked for
LEAST_STRENGTH = 1e-9  # strength=0 still learns a graph, from weights that do not feel it


@dataclass(frozen=True, eq=False)
class Problem:
    """One instance of the objective: its two steps, its value and its certificates.

    `scale` (d,) is 0 for a shrunk intercept, which the graph does not couple, else 1; `shrinkage` (d,) is the penalty
    on the distance of such an unknown to its mean over tasks. `candidates` remembers which pairs were worth trying, for
    many tasks; it makes steps faster, never different.
    """

    equations: NormalEquations
    ridge: Array
    anchor: float
    alpha: float
    beta: float
    gamma: float
    scale: Array
    shrinkage: Array
    weights_solver: str = "auto"
    graph_solver: str = "auto"
    weights_tol: float = 1e-10
    candidates: Candidates = field(default_factory=Candidates, repr=False)

    @property
    def pull(self) -> float:
        """The part of gamma that acts along the graph."""
        return self.gamma * (1 - self.anchor)

    def system(self, A: sparse.csr_array) -> WeightSystem:
        """The linear system of the weight step."""
        T = self.equations.shape[0]
        return weight_system(
            self.equations.G,
            self.equations.b,
            A,
            self.gamma,
            ridge=self.ridge,
            anchor=self.anchor,
            scale=self.scale,
            extra_uniform=self.shrinkage / T,
        )

    def weight_step(self, A: sparse.csr_array, W: Array) -> Solution:
        """The weights that are best for a graph; where unknowns differ too much in size for one solver, by another."""
        system = self.system(A)
        found = solve_system(system, method=self.weights_solver, start=W, tol=self.weights_tol)
        if self.weights_solver == "auto" and found.residual > EXACT:
            second = "direct" if system.b.size <= FACTORISED else "cg"
            found = min(found, solve_system(system, method=second, start=W), key=lambda step: step.residual)
        return replace(found, converged=found.converged and found.residual <= EXACT)

    def graph_step(self, W: Array, dual: Array | None) -> Solution:
        """The graph that is best for weights."""
        return graph_of_weights(
            W * self.scale,
            alpha=self.alpha,
            beta=self.beta,
            gamma=self.pull,
            method=self.graph_solver,
            start=dual,
            candidates=self.candidates,
        )

    def objective(self, W: Array, A: sparse.csr_array) -> float:
        """F."""
        terms = objective_terms(
            self.equations,
            W,
            A,
            alpha=self.alpha,
            beta=self.beta,
            gamma=0.0,
            ridge=self.ridge,
        )
        coupled = W * self.scale
        pull = (1 - self.anchor) * graph_coupling(A, coupled) + self.anchor * uniform_coupling(coupled)
        away = float(((W - W.mean(axis=0)) ** 2 @ self.shrinkage).sum())
        return terms.total + self.gamma * pull + away

    def optimality(self, result: Alternation) -> dict[str, float]:
        """The certificates of both steps at the end; those of the graph over all pairs, so not for very many tasks."""
        W, A = result.weights.value, result.graph.value
        alpha, beta, gamma = self.alpha, self.beta, self.pull
        Z = squared_distances(W * self.scale) if len(W) <= DENSE_TASKS else None
        return {
            "weights_residual": self.system(A).residual(W),
            "graph_residual": np.nan if Z is None else graph_residual(A, Z, alpha=alpha, beta=beta, gamma=gamma),
            "duality_gap": result.gap if Z is None else self._duality_gap(A, Z, W, result.graph.dual),
            "certified": result.graph.certified,
        }

    def _duality_gap(self, A: sparse.csr_array, Z: Array, W: Array, dual: Array | None) -> float:
        """The least gap that multipliers prove: those of the degrees, else those of the best graph for W."""
        proven = partial(duality_gap, A, Z, alpha=self.alpha, beta=self.beta, gamma=self.pull)
        gap = proven()
        return gap if gap <= PROOF else min(gap, proven(dual=self.graph_step(W, dual).dual))


def independent(equations: NormalEquations, ridge: Array, floor: float = 0.01) -> Array:
    """Ridge fits of every task alone, with `floor` times the mean diagonal of all G_t added to the penalty."""
    T, d = equations.shape
    G = equations.G[:1] if equations.is_shared() else equations.G
    check_memory(
        16.0 * G.size,
        f"the normal equations of {T} tasks with {d} unknowns each",
        "Use fewer features (drop, select or project them), or fit groups of tasks apart.",
    )
    typical = np.trace(G, axis1=1, axis2=2).mean() / d
    H = G + ridge + max(floor * typical, TINY) * np.eye(d)
    if len(H) == 1:
        return _solved(H[0], equations.b.T).T
    return _solved(H, equations.b[:, :, None])[:, :, 0]


def _solved(H: Array, b: Array) -> Array:
    """H^-1 b; directions in which unknowns of very different size leave nothing of a matrix get 0."""
    try:
        return np.linalg.solve(H, b)
    except np.linalg.LinAlgError:
        return np.linalg.pinv(H, hermitian=True) @ b


def theta_at_start(problem: Problem, neighbors: float) -> float:
    """theta for about `neighbors` neighbours in the graph of the independent fits.

    Where the fits differ by rounding only (copied tasks, one row per task), rounding would make the graph: theta is
    then in units of the targets, in which it has no effect.
    """
    equations = problem.equations
    V = independent(equations, problem.ridge)
    if _differ_by_rounding(equations, problem.ridge, V, problem.scale > 0):
        unit = float(equations.yy.sum()) / max(float(np.trace(equations.G, axis1=1, axis2=2).sum()), TINY)
        return 1 / unit if 0 < unit < np.inf else 1.0
    return theta_of_weights(V * problem.scale, neighbors, problem.candidates)


def _differ_by_rounding(equations: NormalEquations, ridge: Array, V: Array, coupled: NDArray[np.bool_]) -> bool:
    """Whether the tasks' coupled unknowns differ by no more than cancellation in the normal equations may leave."""
    diagonal = np.diagonal(equations.G, axis1=1, axis2=2) + np.diagonal(ridge)
    terms = np.abs(equations.b) + (np.abs(equations.G) @ np.abs(V)[:, :, None])[:, :, 0]
    apart = diagonal * np.abs(V - V.mean(axis=0))
    return bool((apart <= ROUNDING * terms)[:, coupled].all())


def calibrated(problem: Problem, theta: float, strength: float) -> Problem:
    """The problem with alpha, beta and gamma for a given theta and a pull of `strength` (docs/maths.md).

    theta comes from the independent fits and stays: chosen anew from coupled weights it would follow its own choice,
    and the graph would fall apart into pairs. gamma is set so that the mean of 2 gamma degree is `strength` times the
    mean of tr(G_t) / d, first for the graph of the independent fits, then for the graphs that follow from it, whose
    degrees are larger.
    """
    equations, anchor = problem.equations, problem.anchor
    W0 = independent(equations, problem.ridge)
    own = np.trace(equations.G, axis1=1, axis2=2).mean() / equations.shape[1]
    target = max(strength, LEAST_STRENGTH) * (own if own > TINY else 1.0)  # features that never vary have no weight

    def with_gamma(gamma: float) -> Problem:
        along = gamma * max(1 - anchor, 1e-6)  # with anchor = 1 weights and graph do not meet: any positive letters do
        return replace(problem, alpha=along / theta, beta=along / (2 * theta), gamma=gamma)

    W, gamma = W0, target
    rounds = 0 if len(W0) == 1 else 3 if len(W0) <= DENSE_TASKS else 1
    for k in range(rounds):
        graph = with_gamma(gamma).graph_step(W, None)
        degree = (1 - anchor) * graph.value.sum() / len(W0) + anchor
        gamma = target / (2 * degree)
        W = with_gamma(gamma).weight_step(graph.value, W0).value if k + 1 < rounds else W
    return with_gamma(gamma)


def solve(
    problem: Problem, *, tol: float, max_iter: int, quiet: bool = False, callback: Callback | None = None
) -> Alternation:
    """Alternate from the independent fits."""
    return alternate(
        problem.weight_step,
        problem.graph_step,
        problem.objective,
        independent(problem.equations, problem.ridge),
        tol=tol,
        max_iter=max_iter,
        noise=NOISE * float(problem.equations.yy.sum()),
        quiet=quiet,
        callback=callback,
    )


def remoteness(W: Array, candidates: Candidates | None = None) -> Array | None:
    """Squared distance of every task to its nearest, over the median of these."""
    if len(W) < 3:
        return None
    least = (candidates or Candidates()).least_distance(W)
    # Where most tasks are copies of another, the typical distance is 0; any other is then very far.
    return least / max(float(np.median(least)), 1e-12 * float(least.max()), TINY)
