"""What GAMTLCV tries: the limits without a graph, and points of GAMTL's grid, fitted on one set of statistics."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from kinfolk.base import Fit, MultiTaskRegressor
from kinfolk.baselines._ridge import typical_eigenvalue
from kinfolk.baselines.independent import Independent
from kinfolk.baselines.mean_shrunk import MeanShrunk
from kinfolk.baselines.pooled import Pooled
from kinfolk.baselines.random_slopes import RandomSlopes
from kinfolk.folds import Folds, fill_unseen
from kinfolk.gamtl import GAMTL
from kinfolk.gram import Array, GramStats
from kinfolk.problem import calibrated, solve, theta_at_start

ROUNDS = 3  # of the alternation while tuning; the first give nearly all that there is to gain
TOLERANCE = 1e-3  # of the mixed models while tuning
SHRUNK = "shrunk to the mean"
SLOPES = "random slopes, random intercepts"
SLOPES_OWN = "random slopes, own intercepts"


@dataclass(frozen=True, eq=False)
class Candidate:
    """A method with its parameters; `estimator` is None for the task mean."""

    name: str
    estimator: MultiTaskRegressor | None
    parameters: dict[str, Any] = field(default_factory=dict)
    has_graph: bool = False


def limits(folds: Folds, *, mean_ridge: float, slopes: bool) -> list[Candidate]:
    """The methods without a graph, their penalties chosen on the folds; random slopes if asked for.

    `mean_ridge` is the penalty on the mean to which tasks are shrunk, in multiples of the mean of tr(G_t) / d.
    """
    penalised = {
        "ridge per task": Independent(penalty="cv", scoring="tasks"),
        "pooled, own intercepts": Pooled(penalty="cv", scoring="tasks"),
        "pooled": Pooled(penalty="cv", scoring="tasks", own_intercepts=False),
        SHRUNK: MeanShrunk(penalty="cv", scoring="tasks", ridge=mean_ridge * typical_eigenvalue(folds.total)),
    }
    seen = folds.total.n > 0
    known = folds if seen.all() else folds.select(seen)
    found = [Candidate("task mean", None)]
    for name, estimator in penalised.items():
        penalty = estimator._fit_folds(known).attributes["penalty_"]
        found.append(Candidate(name, clone(estimator).set_params(penalty=penalty), {"penalty": penalty}))
    for name, intercept in ((SLOPES, "random"), (SLOPES_OWN, "free")) if slopes else ():
        found.append(Candidate(name, RandomSlopes(intercept=intercept, tol=TOLERANCE)))
    return found


def graph_candidate(**parameters: Any) -> Candidate:
    """A point of GAMTL's grid."""
    words = ", ".join(f"{k} {v:.3g}" if isinstance(v, float) else f"{k} {v}" for k, v in parameters.items())
    return Candidate(f"GAMTL ({words})", GAMTL(**parameters), parameters, has_graph=True)


def fit_candidates(gram: GramStats, candidates: list[Candidate]) -> tuple[Array, Array]:
    """Coefficients (M, T, d) and intercepts (M, T); what candidates have in common is computed once."""
    seen = gram.n > 0
    known = gram if seen.all() else gram.select(seen)
    shared: dict[Any, Any] = {}
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
        fit = _fit_graph(gram, candidate.estimator, shared)
    else:
        fit = candidate.estimator._fit_gram(gram)
    W, c = fit.coef, fit.intercept
    if c is None:
        c = gram.y_mean - np.einsum("td,td->t", gram.x_mean, W)
    return W, c, fit.population or (W.mean(axis=0), float(c.mean()))


def _fit_graph(gram: GramStats, model: GAMTL, shared: dict[Any, Any]) -> Fit:
    """A few rounds of GAMTL; the mixed model and theta are shared by all strengths."""
    kind = model.metric, model.intercept
    if kind not in shared:
        shared[kind] = model._effects(gram)
    problem = model._problem(gram, shared[kind])
    at = *kind, model.ridge, model.neighbors
    if at not in shared:
        shared[at] = theta_at_start(problem, model.neighbors)
    problem = calibrated(problem, shared[at], model.strength)
    result = solve(problem, tol=model.tol, max_iter=ROUNDS, quiet=True)
    W, c = problem.equations.coefficients(result.weights.value)
    return Fit(W, intercept=c)
