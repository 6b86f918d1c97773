"""GAMTL: joint regression of many tasks with a sparse graph over them (Eq. 8 of the paper, with a ridge)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from kinfolk.alternate import Alternation, alternate
from kinfolk.base import Fit, MultiTaskRegressor, warn_of_constant_features
from kinfolk.gram import TINY, Array, GramStats
from kinfolk.graph import DENSE_TASKS, graph_of_weights, nearest, squared_distances, theta_of_weights
from kinfolk.intercepts import INTERCEPTS, NormalEquations, normal_equations
from kinfolk.objective import duality_gap, graph_residual, objective_terms, weights_residual
from kinfolk.progress import Callback
from kinfolk.solution import Solution
from kinfolk.structures import TaskGraph
from kinfolk.weights import solve_weights

ROUNDS, ROUNDS_MANY = 200, 3
LEAST_STRENGTH = 1e-9  # strength=0 still learns a graph, from weights that do not feel it


class GAMTL(MultiTaskRegressor):
    """Graph adjacency multi-task learning: one regression per task, and the graph of tasks that are kin.

    Minimises, over the coefficients W (T, d) and the adjacency A (T, T; symmetric, A >= 0, zero diagonal),

        sum_t ||X_t w_t - y_t||^2 + ridge ||W||^2 + gamma sum_ij B_ij ||w_i - w_j||^2
            - alpha sum_i log(degree_i) + beta ||A||_F^2,       B = (1 - anchor) A + anchor / (T - 1),

    by exact alternating steps; mathematics in docs/maths.md.

    Parameters
    ----------
    task : name or position of the task column of X; None if y has one column per task
    alpha, beta, gamma : the paper's three numbers; all of them or none
    neighbors : about how many neighbours a task has in the first graph (used without alpha, beta, gamma)
    strength : how hard neighbours pull; 1: on average as hard as a task's own data
    ridge : penalty on ||W||^2
    anchor : in [0, 1]; share of the coupling that ties every task to all others alike
    metric : "identity": distances between coefficients as they are, so scale the features
    intercept : "free" (own, unpenalised), "coupled" (along the graph) or None
    features : a transformer for the non-task columns, e.g. StandardScaler()
    weights_solver : "auto", "direct", "shared" or "cg"
    graph_solver : "auto", "newton" or "primal_dual"
    tol, max_iter : stop when a round lowers the objective by less than `tol`, relative, or after `max_iter` rounds; by
        default 200, and 3 for more than 2,500 tasks, where the first rounds give nearly all that there is to gain
    unseen : "error" or "mean": what predict does with tasks that fit has not seen
    random_state : unused here; the method is deterministic
    callback : called with a `Progress` after every round

    Attributes
    ----------
    coef_, intercept_ : arrays of shape (T, d) and (T,); tasks_ : their labels
    adjacency_ : sparse (T, T); graph_ : the same as a `TaskGraph` with names
    alpha_, beta_, gamma_ : the numbers of Eq. 8 that were used
    objective_history_, n_iter_, converged_ : the course of the alternation
    optimality_ : weights_residual, graph_residual and duality_gap at the end

    Examples
    --------
    >>> from kinfolk.datasets import make_groups
    >>> syn = make_groups(random_state=3)
    >>> model = GAMTL(task=syn.task).fit(syn.data, syn.target)
    >>> model.graph_.outliers()
    [19, 20]
    """

    def __init__(
        self,
        task: str | int | None = None,
        *,
        alpha: float | None = None,
        beta: float | None = None,
        gamma: float | None = None,
        neighbors: float = 5,
        strength: float = 1.0,
        ridge: float = 1.0,
        anchor: float = 0.0,
        metric: str = "identity",
        intercept: str | None = "free",
        features: Any = None,
        weights_solver: str = "auto",
        graph_solver: str = "auto",
        tol: float = 1e-6,
        max_iter: int | None = None,
        unseen: str = "error",
        random_state: Any = None,
        callback: Callback | None = None,
    ) -> None:
        self.task = task
        self.alpha = alpha
        self.beta = beta
        self.gamma = gamma
        self.neighbors = neighbors
        self.strength = strength
        self.ridge = ridge
        self.anchor = anchor
        self.metric = metric
        self.intercept = intercept
        self.features = features
        self.weights_solver = weights_solver
        self.graph_solver = graph_solver
        self.tol = tol
        self.max_iter = max_iter
        self.unseen = unseen
        self.random_state = random_state
        self.callback = callback

    @property
    def needs_two_rows(self) -> bool:  # type: ignore[override]
        """Only a free intercept takes a row of its own."""
        return self.intercept == "free"

    def _fit_gram(self, gram: GramStats) -> Fit:
        self._check_parameters(gram.n_tasks)
        if self.intercept == "free":
            warn_of_constant_features(gram)
        equations = normal_equations(gram, self.intercept)
        problem = self._problem(equations)
        result = alternate(
            problem.weight_step,
            problem.graph_step,
            problem.objective,
            problem.start(),
            tol=self.tol,
            max_iter=self._rounds(gram.n_tasks),
            quiet=self.max_iter is None and gram.n_tasks > DENSE_TASKS,
            callback=self.callback,
        )
        W, c = equations.coefficients(result.weights.value)
        graph = TaskGraph(result.graph.value, gram.labels, remoteness(result.weights.value))
        return Fit(W, graph, c, self._attributes(problem, result))

    def _rounds(self, n_tasks: int) -> int:
        return self.max_iter or (ROUNDS if n_tasks <= DENSE_TASKS else ROUNDS_MANY)

    def _problem(self, equations: NormalEquations) -> _Problem:
        ridge = self.ridge * equations.penalised()
        solvers = self.weights_solver, self.graph_solver
        if self.gamma is not None and equations.shape[0] > 1:
            assert self.alpha is not None and self.beta is not None
            return _Problem(equations, ridge, self.anchor, self.alpha, self.beta, self.gamma, *solvers)
        return calibrated(equations, ridge, self.anchor, self.neighbors, self.strength, solvers)

    def _attributes(self, problem: _Problem, result: Alternation) -> dict[str, Any]:
        return {
            "alpha_": problem.alpha,
            "beta_": problem.beta,
            "gamma_": problem.gamma,
            "objective_history_": result.history,
            "n_iter_": result.n_iter,
            "converged_": result.converged,
            "optimality_": problem.optimality(result),
            "solvers_": {"weights": result.weights.method, "graph": result.graph.method},
        }

    @property
    def graph_(self) -> TaskGraph:
        """The task graph, with names."""
        return self.structure_

    @property
    def adjacency_(self) -> sparse.csr_array:
        """The weighted adjacency, CSR (T, T)."""
        return self.structure_.adjacency

    def _check_parameters(self, n_tasks: int) -> None:
        given = [p is not None for p in (self.alpha, self.beta, self.gamma)]
        if any(given) and not all(given) and n_tasks > 1:  # a single task has no graph
            raise ValueError("give all of alpha, beta, gamma (Eq. 8) or none of them (neighbors and strength are used)")
        for name, value, low, strict in (
            ("alpha", self.alpha, 0.0, True),
            ("beta", self.beta, 0.0, True),
            ("gamma", self.gamma, 0.0, False),
            ("neighbors", self.neighbors, 0.0, True),
            ("strength", self.strength, 0.0, False),
            ("ridge", self.ridge, 0.0, False),
        ):
            if value is not None and (not np.isfinite(value) or value < low or (strict and value == low)):
                raise ValueError(
                    f"{name}={value} must be {'greater than' if strict else 'at least'} {low:g} and finite"
                )
        if not 0 <= self.anchor <= 1:
            raise ValueError(f"anchor={self.anchor} must be between 0 and 1")
        if self.intercept not in INTERCEPTS:
            raise ValueError(f"intercept={self.intercept!r}: choose one of {INTERCEPTS}")
        if self.metric != "identity":
            raise ValueError(f'metric={self.metric!r}: choose "identity"')
        if self.unseen not in ("error", "mean"):
            raise ValueError(f'unseen={self.unseen!r}: choose "error" or "mean"')


@dataclass(frozen=True, eq=False)
class _Problem:
    """One instance of Eq. 8: its two steps, its objective and its certificates."""

    equations: NormalEquations
    ridge: Array
    anchor: float
    alpha: float
    beta: float
    gamma: float
    weights_solver: str = "auto"
    graph_solver: str = "auto"

    def start(self) -> Array:
        """Independent ridge fits, moderately shrunk: the distances of wild ones would be noise."""
        return independent(self.equations, self.ridge)

    def weight_step(self, A: sparse.csr_array, W: Array) -> Solution:
        return solve_weights(
            self.equations,
            A,
            self.gamma,
            ridge=self.ridge,
            anchor=self.anchor,
            method=self.weights_solver,
            start=W,
        )

    def graph_step(self, W: Array, dual: Array | None) -> Solution:
        return graph_of_weights(
            W,
            alpha=self.alpha,
            beta=self.beta,
            gamma=self.pull,
            method=self.graph_solver,
            start=dual,
        )

    @property
    def pull(self) -> float:
        """The part of gamma that acts along the graph."""
        return self.gamma * (1 - self.anchor)

    def objective(self, W: Array, A: sparse.csr_array) -> float:
        return objective_terms(
            self.equations,
            W,
            A,
            alpha=self.alpha,
            beta=self.beta,
            gamma=self.gamma,
            ridge=self.ridge,
            anchor=self.anchor,
        ).total

    def optimality(self, result: Alternation) -> dict[str, float]:
        """The certificates of both steps at the end; those of the graph over all pairs, so not for very many tasks."""
        W, A = result.weights.value, result.graph.value
        alpha, beta, gamma = self.alpha, self.beta, self.pull
        Z = squared_distances(W) if len(W) <= DENSE_TASKS else None
        return {
            "weights_residual": weights_residual(
                self.equations, W, A, self.gamma, ridge=self.ridge, anchor=self.anchor
            ),
            "graph_residual": np.nan if Z is None else graph_residual(A, Z, alpha=alpha, beta=beta, gamma=gamma),
            "duality_gap": result.gap if Z is None else duality_gap(A, Z, alpha=alpha, beta=beta, gamma=gamma),
            "certified": result.graph.certified,
        }


def independent(equations: NormalEquations, ridge: Array, floor: float = 0.01) -> Array:
    """Ridge fits of every task alone, with at least `floor` times the mean diagonal of all G_t as penalty."""
    d = equations.shape[1]
    typical = np.trace(equations.G, axis1=1, axis2=2).mean() / d
    penalty = np.maximum(ridge, floor * typical)
    penalty = np.maximum(penalty, TINY)
    H = equations.G + np.diag(penalty)
    return np.linalg.solve(H, equations.b[:, :, None])[:, :, 0]


def calibrated(
    equations: NormalEquations,
    ridge: Array,
    anchor: float,
    neighbors: float,
    strength: float,
    solvers: tuple[str, str],
) -> _Problem:
    """alpha, beta and gamma for about `neighbors` neighbours and a pull of `strength` (docs/maths.md).

    theta comes from the independent fits and stays: chosen anew from coupled weights it would follow noise. gamma is
    set so that the mean of 2 gamma degree is `strength` times the mean of tr(G_t) / d, first for the graph of the
    independent fits, then twice more for the graph that follows from it, whose degrees are larger.
    """
    W0 = independent(equations, ridge)
    theta = theta_of_weights(W0, neighbors)
    own = np.trace(equations.G, axis1=1, axis2=2).mean() / equations.shape[1]
    target = max(strength, LEAST_STRENGTH) * max(own, TINY)

    def problem(gamma: float) -> _Problem:
        along = max(gamma * (1 - anchor), 1e-300)
        return _Problem(equations, ridge, anchor, along / theta, along / (2 * theta), gamma, *solvers)

    gamma = target
    W = W0
    for _ in range(0 if len(W0) == 1 else 3 if len(W0) <= DENSE_TASKS else 1):
        step = problem(gamma)
        graph = step.graph_step(W, None)
        degree = (1 - anchor) * graph.value.sum() / len(W0) + anchor
        gamma = target / (2 * degree)
        W = problem(gamma).weight_step(graph.value, W0).value
    return problem(gamma)


def remoteness(W: Array) -> Array | None:
    """Squared distance of every task to its nearest, over the median of these."""
    if len(W) < 3:
        return None
    least = nearest(W, 1).distance[:, 0]
    return least / max(float(np.median(least)), TINY)
