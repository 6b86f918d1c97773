"""What GAMTLCV tries: the limits without a graph, and points of GAMTL's grid, fitted on one set of statistics."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from kinfolk.estimators.gamtl import GAMTL
from kinfolk.methods.gamtl.adopt import adopt_tasks
from kinfolk.methods.gamtl.alternate import Alternation
from kinfolk.methods.gamtl.problem import Problem, calibrated, solve, theta_at_start
from kinfolk.methods.independent import Independent
from kinfolk.methods.mean_shrunk import MeanShrunk
from kinfolk.methods.method import Fit, MultiTaskRegressor
from kinfolk.methods.penalised import _Penalised
from kinfolk.methods.pooled import Pooled
from kinfolk.methods.random_slopes import RandomSlopes
from kinfolk.methods.smoother import HubInverse, Smoother, coupled_smoother
from kinfolk.rows.folds import Folds, fill_unseen
from kinfolk.rows.gram import Array, GramStats
from kinfolk.solvers.equations import normal_equations
from kinfolk.solvers.graph import Candidates
from kinfolk.solvers.ridge import typical_eigenvalue

ROUNDS = 3  # of the alternation while tuning; the first give nearly all that there is to gain
PAIRS = 32  # per task, for graphs of many tasks: where all are alike a graph of the nearest does as well
TOLERANCE = 1e-3  # of the mixed models while tuning
WEIGHTS_TOLERANCE = 1e-7  # of weight steps by conjugate gradients
TASK_MEAN, SHRUNK = "task mean", "shrunk to the mean"
SLOPES, SLOPES_OWN = "random slopes, random intercepts", "random slopes, own intercepts"
PENALISED: dict[str, tuple[Any, dict[str, Any]]] = {  # to a class and what is fixed of its parameters
    "ridge per task": (Independent, {}),
    "pooled, own intercepts": (Pooled, {}),
    "pooled": (Pooled, {"own_intercepts": False}),
    SHRUNK: (MeanShrunk, {}),
}
RANDOM = {SLOPES: "random", SLOPES_OWN: "free"}  # to the treatment of the intercept


@dataclass(frozen=True, eq=False)
class Candidate:
    """A method with its parameters; `estimator` is None for the task mean."""

    name: str
    estimator: MultiTaskRegressor | None
    parameters: dict[str, Any] = field(default_factory=dict)
    has_graph: bool = False


def contender(name: str, parameters: dict[str, Any]) -> Candidate:
    """A candidate from its name and parameters."""
    if name in PENALISED:
        method, fixed = PENALISED[name]
        return Candidate(name, method(**fixed, **parameters), parameters)
    if name in RANDOM:
        return Candidate(name, RandomSlopes(intercept=RANDOM[name], tol=TOLERANCE))
    return Candidate(name, None) if name == TASK_MEAN else graph_candidate(**parameters)


def limits(folds: Folds, *, mean_ridge: float, slopes: bool) -> list[Candidate]:
    """The methods without a graph, their penalties chosen on the folds; random slopes if asked for.

    `mean_ridge` is the penalty on the mean to which tasks are shrunk, in multiples of the mean of tr(G_t) / d.
    """
    seen = folds.total.n > 0
    known = folds if seen.all() else folds.select(seen)
    found = [contender(TASK_MEAN, {})]
    for name, (method, fixed) in PENALISED.items():
        ridge = {"ridge": mean_ridge * typical_eigenvalue(folds.total)} if name == SHRUNK else {}
        fit = method(penalty="cv", scoring="tasks", **fixed, **ridge)._fit_folds(known)
        found.append(contender(name, {"penalty": fit.attributes["penalty_"], **ridge}))
    return found + [contender(name, {}) for name in RANDOM if slopes]


def graph_candidate(**parameters: Any) -> Candidate:
    """A point of GAMTL's grid."""
    words = ", ".join(f"{k} {v:.3g}" if isinstance(v, float) else f"{k} {v}" for k, v in parameters.items())
    return Candidate(f"GAMTL ({words})", GAMTL(**parameters), parameters, has_graph=True)


def fit_candidates(
    gram: GramStats, candidates: list[Candidate], shared: dict[Any, Any] | None = None
) -> tuple[Array, Array]:
    """Coefficients (M, T, d) and intercepts (M, T).

    What candidates have in common is computed once, and kept in `shared` for the next call with the same statistics.
    """
    seen = gram.n > 0
    known = gram if seen.all() else gram.select(seen)
    shared = {} if shared is None else shared
    models = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", UserWarning)
        for candidate in candidates:
            W, c, population = _fit(known, candidate, shared)
            models.append(fill_unseen(W, c, seen, *population))
    return np.stack([W for W, _ in models]), np.stack([c for _, c in models])


def _fit(gram: GramStats, candidate: Candidate, shared: dict[Any, Any]) -> tuple[Array, Array, tuple[Array, float]]:
    if candidate.estimator is None:
        fit = Fit(np.zeros_like(gram.b), intercept=gram.y_mean)
    elif isinstance(candidate.estimator, GAMTL):
        problem, result = _solve_graph(gram, candidate.estimator, shared)
        coef, intercept = problem.equations.coefficients(result.weights.value)
        fit = Fit(coef, intercept=intercept)
    else:
        fit = candidate.estimator._fit_gram(gram)
    W, c = fit.coef, fit.intercept
    if c is None:
        c = gram.y_mean - np.einsum("td,td->t", gram.x_mean, W)
    return W, c, fit.population or (W.mean(axis=0), float(c.mean()))


def smoother_of(gram: GramStats, candidate: Candidate, units: Array, shared: dict[Any, Any]) -> Smoother:
    """A candidate on statistics of features that were divided by `units`, as a linear map of the targets."""
    model = candidate.estimator
    if isinstance(model, GAMTL):
        problem, result = _solve_graph(gram, model, shared)
        return coupled_smoother(problem, result.graph.value, units)
    if isinstance(model, RandomSlopes):
        covariance = model._fit_gram(gram).attributes["relative_covariance_"]
        return replace(model._smoother(gram, covariance), units=units)
    if isinstance(model, _Penalised):
        return replace(model._smoother(gram, candidate.parameters["penalty"]), units=units)
    return Smoother(normal_equations(gram, "free"), HubInverse.nothing(gram.G), units)


def adopt_by(old: GramStats, new: GramStats, candidate: Candidate) -> tuple[Array, Array]:
    """Coefficients (k, d) and intercepts (k,) of new tasks, by a candidate that knows the old ones.

    Without a graph a few more tasks hardly move what all have in common: it is fitted with them.
    """
    if isinstance(candidate.estimator, GAMTL):
        problem, result = _solve_graph(old, candidate.estimator, {})
        A, V = result.graph.value, result.weights.value
        return adopt_tasks(problem, A, V, new, candidate.estimator.intercept)[:2]
    together = old + new
    W, c, _ = _fit(together, candidate, {})
    at = np.searchsorted(together.labels, new.labels)
    return W[at], c[at]


def _solve_graph(gram: GramStats, model: GAMTL, shared: dict[Any, Any]) -> tuple[Problem, Alternation]:
    """A few rounds of GAMTL; the mixed model and theta are shared by all strengths."""
    kind = model.metric, model.intercept
    if kind not in shared:
        shared[kind] = model._effects(gram)
    near = Candidates(PAIRS * gram.n_tasks)
    problem = replace(model._problem(gram, shared[kind]), candidates=near, weights_tol=WEIGHTS_TOLERANCE)
    at = *kind, model.ridge, model.neighbors
    if at not in shared:
        shared[at] = theta_at_start(problem, model.neighbors)
    problem = calibrated(problem, shared[at], model.strength)
    return problem, solve(problem, tol=model.tol, max_iter=ROUNDS, quiet=True)
