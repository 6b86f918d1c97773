"""From what a user asks for (neighbours, strength, metric) to the numbers of the objective: GAMTL's recipe, once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.declared import holds
from kinfolk.methods.gamtl.problem import Problem
from kinfolk.rows.gram import TINY, Array, GramStats, evenly_chosen
from kinfolk.solvers.equations import NormalEquations, normal_equations
from kinfolk.solvers.graph import DENSE_TASKS, theta_of_weights
from kinfolk.solvers.graph.candidates import ALL_PAIRS
from kinfolk.solvers.mixed import MixedModel, mixed_model
from kinfolk.solvers.tolerances import ROUNDING

METRICS = {"identity": None, "learned": "diagonal", "learned_full": "full", "function": None}  # covariances of effects
SHOWN_BY = ("function", "shape", "coefficients")
LEAST_VARIANCE = 1e-4  # of the largest, of inputs scaled to variance 1: directions with less count as having this much
COUPLED = 5  # neighbours in the first graph that couples, by default
METRIC_TASKS = 2500  # of the same: variances are then known to 3 %
LEAST_STRENGTH = 1e-9  # strength=0 still learns a graph, from weights that do not feel it
LEAST_LEVELS = 0.01  # of what slopes do to predictions: least variation of intercepts beside them, as a metric has it
LEAST_SHRUNK = 1e-6  # of the noise: least variance of intercepts, so that their penalty is finite


@holds()
@dataclass(frozen=True)
class Recipe:
    """The parameters of GAMTL that shape its problem; either alpha, beta, gamma or neighbors and strength count."""

    alpha: float | None = None
    beta: float | None = None
    gamma: float | None = None
    neighbors: float | None = None
    strength: float = 1.0
    ridge: float = 1.0
    anchor: float = 0.0
    metric: str = "identity"
    intercept: str | None = "free"
    self_loops: float | str | None = "auto"
    graph_metric: str = "function"
    graph_share: float = 0.0

    def problem(self, gram: GramStats, **solvers: Any) -> Problem:
        """The problem for some statistics, with metric, theta and gamma from these statistics alone."""
        effects = self.effects(gram)
        problem = self.uncalibrated(gram, effects, **solvers)
        if self.gamma is not None and gram.n_tasks > 1:
            return problem
        neighbors = self.neighbors or COUPLED
        key = ("theta", self.metric, self.intercept, self.ridge, neighbors)
        start = problem.start()
        # All strengths share theta: it comes from the independent fits, which do not feel the graph.
        theta = gram.once(key, lambda: theta_at_start(problem, start, neighbors))
        if problem.candidates.rough and gram.n_tasks > ALL_PAIRS:
            begin = start * problem.scale
            pairs = gram.once(("pairs", *key), lambda: problem.candidates.pairs_at(begin))
            problem.candidates.begin_at(begin, pairs)
        problem = calibrated(problem, start, theta, self.strength)
        if gram.n_tasks == 1 or not isinstance(self.self_loops, (int, float)):
            return problem
        dual = problem.graph_step(start, None).dual
        assert dual is not None
        return replace(problem, self_loops=self.self_loops * float(np.median(dual)))

    def effects(self, gram: GramStats) -> MixedModel | None:
        """The mixed model behind a learned metric and shrunk intercepts, if either is asked for."""
        if METRICS[self.metric] is None and self.intercept != "shrunk":
            return None
        return metric_model(gram, self.metric, self.intercept)

    def uncalibrated(self, gram: GramStats, effects: MixedModel | None, **solvers: Any) -> Problem:
        """The problem with the numbers that were given; gamma is 0 if none was."""
        equations = normal_equations(gram, self.intercept)
        ridge = np.diag(self.ridge * equations.penalised())
        if self.metric == "function":
            # In the unknowns v with w = root v, ||v_i - v_j||^2 is the mean squared difference of predictions.
            equations = equations.in_basis(function_root(gram))
        elif effects is not None and METRICS[self.metric]:
            # In these the tasks vary alike in every direction, so plain distances do.
            equations = equations.in_basis(effects.root() / unit_of_levels(effects))
        if equations.basis is not None:
            ridge = equations.basis.T @ ridge @ equations.basis
        scale = np.ones(equations.shape[1])
        shrinkage = np.zeros(equations.shape[1])
        if self.intercept == "shrunk":
            assert effects is not None
            scale[-1] = 0.0  # the graph leaves levels alone; a mixed model says how far they lie apart
            shrinkage[-1] = effects.sigma2 / max(effects.intercept_sd**2, LEAST_SHRUNK * effects.sigma2, TINY)
        return Problem(
            ridge=ridge,
            anchor=self.anchor,
            scale=scale,
            shrinkage=shrinkage,
            equations=equations,
            alpha=self.alpha or 1.0,
            beta=self.beta or 1.0,
            gamma=self.gamma or 0.0,
            self_loops=None if self.gamma is None or isinstance(self.self_loops, str) else self.self_loops,
            **solvers,
        )


def unit_of_levels(effects: MixedModel) -> float:
    """Standard deviation of random intercepts; 1 where there are none, or nothing to compare them with.

    Unknowns over it vary as much as the intercepts and have their unit, that of y: sums over both then have a meaning.
    """
    slopes = float((effects.relevance * effects.scale).max())
    if np.isnan(effects.intercept_sd) or slopes == 0:
        return 1.0
    return max(effects.intercept_sd, LEAST_LEVELS * slopes)


def input_moments(gram: GramStats) -> tuple[Array, Array]:
    """Mean (d,) and covariance (d, d) of the inputs of all tasks together."""
    rows = max(float(gram.n.sum()), TINY)
    mean = gram.n @ gram.x_mean / rows
    away = gram.x_mean - mean
    return mean, (gram.G.sum(axis=0) + (gram.n[:, None] * away).T @ away) / rows


def function_root(gram: GramStats) -> Array:
    """A matrix R with R'C R = I for the covariance C of the inputs, so that w'C w = ||v||^2 for w = R v."""
    _, C = input_moments(gram)
    sd = np.sqrt(np.maximum(np.diagonal(C), 0.0))
    unit = np.where(sd > 0, sd, 1.0)
    value, vector = np.linalg.eigh(C / unit / unit[:, None])
    least = LEAST_VARIANCE * max(float(value[-1]), 0.0) or 1.0  # where no input varies, the root only scales
    return vector / np.sqrt(np.maximum(value, least)) / unit[:, None]


def metric_model(gram: GramStats, metric: str, intercept: str | None) -> MixedModel:
    """The mixed model behind a metric; of very many tasks some stand for all, unless these have no rows to spare."""
    if gram.n_tasks > METRIC_TASKS:
        some = gram.once("tasks of a metric", lambda: gram.select(evenly_chosen(gram, METRIC_TASKS)))
        gram = some if (some.n > 1).any() else gram
    random = intercept in ("shrunk", "coupled")
    return mixed_model(gram, METRICS[metric] or "diagonal", "random" if random else "free")


def theta_at_start(problem: Problem, V: Array, neighbors: float) -> float:
    """theta for about `neighbors` neighbours in the graph of the independent fits V.

    Where the fits differ by rounding only (copied tasks, one row per task), rounding would decide who is joined. Theta
    is then taken from the units of the data alone, in which such distances are nothing: all tasks are joined alike.
    """
    equations = problem.equations
    if _differ_by_rounding(equations, problem.ridge, V, problem.scale > 0):
        unit = float(equations.yy.sum()) / max(float(np.trace(equations.G, axis1=1, axis2=2).sum()), TINY)
        return 1 / unit if np.sqrt(TINY) < unit < 1 / np.sqrt(TINY) else 1.0
    return theta_of_weights(V * problem.scale, neighbors, problem.candidates)


def _differ_by_rounding(equations: NormalEquations, ridge: Array, V: Array, coupled: NDArray[np.bool_]) -> bool:
    """Whether the tasks' coupled unknowns differ by no more than cancellation in the normal equations may leave."""
    diagonal = np.diagonal(equations.G, axis1=1, axis2=2) + np.diagonal(ridge)
    terms = np.abs(equations.b) + (np.abs(equations.G) @ np.abs(V)[:, :, None])[:, :, 0]
    apart = diagonal * np.abs(V - V.mean(axis=0))
    return bool((apart <= ROUNDING * terms)[:, coupled].all())


def calibrated(problem: Problem, start: Array, theta: float, strength: float) -> Problem:
    """The problem with alpha, beta and gamma for a given theta and a pull of `strength` (docs/maths.md).

    theta comes from the independent fits and stays: chosen anew from coupled weights it would follow its own choice,
    and the graph would fall apart into pairs. gamma is set so that the mean of 2 gamma degree is `strength` times the
    mean of tr(G_t) / d over the unknowns that the graph couples, first for the graph of the independent fits, then for
    the graphs that follow from it, whose degrees are larger.
    """
    solver = problem.graph_solver
    problem = replace(problem, graph_solver="auto")  # what is asked for solves the problem that is made here
    equations = problem.equations
    anchor = problem.anchor
    own = np.diagonal(equations.G, axis1=1, axis2=2)[:, problem.scale > 0].mean()
    target = max(strength, LEAST_STRENGTH) * (own if own > TINY else 1.0)  # features that never vary have no weight

    def with_gamma(gamma: float) -> Problem:
        along = gamma * max(
            (1 - anchor) * (1 - problem.graph_share), 1e-6
        )  # with anchor = 1 weights and graph do not meet: any positive value does
        return replace(problem, alpha=along / theta, beta=along / (2 * theta), gamma=gamma)

    W = start
    if problem.given is not None and 0 < problem.graph_share < 1:
        # As heavy as the first graph that is learned, so that the share is that of the pull.
        first = with_gamma(target).graph_step(W, None, rough=True).value
        problem = replace(problem, given=problem.given * float(first.sum() / max(problem.given.sum(), TINY)))
    gamma = target
    for k in range(rounds := _rounds(len(start))):
        graph = with_gamma(gamma).graph_step(W, None, rough=True)
        degree = (1 - anchor) * problem.coupling(graph.value).sum() / len(start) + anchor
        gamma = target / (2 * degree)
        if k + 1 < rounds:
            W = with_gamma(gamma).weight_step(graph.value, W, rough=True).value
    return replace(with_gamma(gamma), graph_solver=solver, near=W)


def _rounds(n_tasks: int) -> int:
    """How often gamma is set anew: once for very many tasks, never for a single one."""
    if n_tasks == 1:
        return 0
    return 3 if n_tasks <= DENSE_TASKS else 1
