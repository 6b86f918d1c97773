"""GAMTL: joint regression of many tasks with a sparse graph over them (Eq. 8 of the paper, with a ridge)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np

from kinfolk.estimators.graph_regressor import GraphRegressor
from kinfolk.methods.gamtl.adopt import adopt_tasks
from kinfolk.methods.gamtl.alternate import Alternation
from kinfolk.methods.gamtl.problem import Problem, calibrated, remoteness, solve, theta_at_start
from kinfolk.methods.method import Fit, warn_of_constant_features
from kinfolk.methods.smoother import Smoother, coupled_smoother
from kinfolk.methods.structures import TaskGraph
from kinfolk.progress import Callback
from kinfolk.rows.gram import TINY, Array, GramStats
from kinfolk.rows.tables import read_table
from kinfolk.rows.tasks import check_rows_per_task, read_rows
from kinfolk.solvers.equations import INTERCEPTS, normal_equations
from kinfolk.solvers.graph import DENSE_TASKS
from kinfolk.solvers.random_effects import RandomEffects, fit_random_effects

ROUNDS, ROUNDS_MANY = 200, 3
METRICS = {"identity": None, "learned": "diagonal", "learned_full": "full"}  # to covariances of the mixed model


class GAMTL(GraphRegressor):
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
    metric : "identity": distances between coefficients as they are, so scale the features; "learned": in units of how
        much each coefficient varies between tasks (a mixed model on the same statistics); "learned_full": with the
        correlations of these variations
    intercept : "free" (own, unpenalised), "shrunk" (towards their mean, as much as a mixed model says), "coupled"
        (along the graph) or None
    features : a transformer for the non-task columns, e.g. StandardScaler()
    weights_solver : "auto", "direct", "shared", "cg" or "cmg" (multigrid, as in the paper); see `solve_weights`
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
    relevance_ : how much each coefficient varies between tasks

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
        effects = self._effects(gram)
        problem = self._problem(gram, effects)
        if self.gamma is None or gram.n_tasks == 1:
            problem = calibrated(problem, theta_at_start(problem, self.neighbors), self.strength)
        result = solve(
            problem,
            tol=self.tol,
            max_iter=self._rounds(gram.n_tasks),
            quiet=self.max_iter is None and gram.n_tasks > DENSE_TASKS,
            callback=self.callback,
        )
        V = result.weights.value
        W, c = problem.equations.coefficients(V)
        graph = TaskGraph(result.graph.value, gram.labels, remoteness(V * problem.scale, problem.candidates))
        attributes = self._attributes(problem, result)
        attributes["relevance_"] = W.std(axis=0) if effects is None else effects.relevance
        return Fit(W, graph, c, attributes)

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None, *, forget: float = 1.0) -> Self:
        """Merge new rows into the statistics and solve again; earlier rows are not needed.

        The first call is `fit`. Without forgetting the result is that of one fit on all rows (with `features` as fitted
        on the first). New tasks may appear.

        Parameters
        ----------
        forget : factor in (0, 1] for the weight of all earlier rows; below 1 a stream forgets
        """
        if not 0 < forget <= 1:
            raise ValueError(f"forget={forget} must be greater than 0 and at most 1")
        if not hasattr(self, "coef_"):
            return self.fit(X, y, sample_weight)
        read_table(X).check_against(self._schema.names, self._schema.width, type(self).__name__)
        rows = read_rows(X, y, task=self.task, sample_weight=sample_weight)
        new = rows.gram(self._transform(rows.table), self.gram_.feature_names)
        if self.task is None and not np.array_equal(new.labels, self.tasks_):
            raise ValueError(f"y has {new.n_tasks} columns, but fit saw {len(self.tasks_)}: pass the same ones")
        gram = self.gram_.scaled(forget) + new
        if self.needs_two_rows:
            check_rows_per_task(gram)
        self._schema = replace(self._schema, labels=gram.labels)
        self._fit_statistics(gram, None)
        return self

    def _fitted_problem(self) -> Problem:
        """The problem of the tasks that had rows, with the numbers that were used."""
        gram = self._seen()
        problem = self._problem(gram, self._effects(gram))
        return replace(problem, alpha=self.alpha_, beta=self.beta_, gamma=self.gamma_)

    def _smoothers(self) -> list[Smoother]:
        problem, seen = self._fitted_problem(), self.gram_.n > 0
        return [coupled_smoother(problem, self.adjacency_[seen][:, seen], np.ones(self.gram_.n_features))]

    def _new_tasks(self, new: GramStats) -> tuple[Array, Array, Array]:
        problem, seen = self._fitted_problem(), self.gram_.n > 0
        V = problem.equations.unknowns(self.coef_[seen], self.intercept_[seen])
        return adopt_tasks(problem, self.adjacency_[seen][:, seen], V, new, self.intercept)

    def _rounds(self, n_tasks: int) -> int:
        return self.max_iter or (ROUNDS if n_tasks <= DENSE_TASKS else ROUNDS_MANY)

    def _effects(self, gram: GramStats) -> RandomEffects | None:
        """The mixed model behind a learned metric and shrunk intercepts, if either is asked for."""
        if self.metric == "identity" and self.intercept != "shrunk":
            return None
        return fit_random_effects(
            gram,
            covariance=METRICS.get(self.metric) or "diagonal",
            intercept="random" if self.intercept in ("shrunk", "coupled") else "free",
            tol=1e-3,
        )

    def _problem(self, gram: GramStats, effects: RandomEffects | None) -> Problem:
        equations = normal_equations(gram, self.intercept)
        ridge = np.diag(self.ridge * equations.penalised())
        if effects is not None and METRICS[self.metric]:
            equations = equations.in_basis(effects.root())
            assert equations.basis is not None
            ridge = equations.basis.T @ ridge @ equations.basis
        scale, shrinkage = np.ones(equations.shape[1]), np.zeros(equations.shape[1])
        if self.intercept == "shrunk":
            assert effects is not None
            scale[-1] = 0.0
            shrinkage[-1] = effects.sigma2 / max(effects.intercept_sd**2, 1e-6 * effects.sigma2, TINY)
        alpha, beta, gamma = self.alpha or 1.0, self.beta or 1.0, self.gamma or 0.0
        solvers = self.weights_solver, self.graph_solver
        return Problem(equations, ridge, self.anchor, alpha, beta, gamma, scale, shrinkage, *solvers)

    def _attributes(self, problem: Problem, result: Alternation) -> dict[str, Any]:
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
        if self.metric not in METRICS:
            raise ValueError(f"metric={self.metric!r}: choose one of {', '.join(map(repr, METRICS))}")
        if self.unseen not in ("error", "mean"):
            raise ValueError(f'unseen={self.unseen!r}: choose "error" or "mean"')
