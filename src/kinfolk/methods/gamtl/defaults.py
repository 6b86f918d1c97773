"""GAMTL without given numbers: strength, ridge, anchor and metric from a mixed model of the same statistics.

A mixed model says how far tasks lie apart: coefficients vary by Sigma about common ones, noise by sigma2. In units in
which they vary alike a pull of sigma2 / variance is what it stands for, so `strength` follows; half of the pull goes to
all tasks alike (`anchor`). Tasks that fall into groups are another matter: the mixed model takes the distance of groups
for that of all tasks. The graph alone then explains the targets better, by more than its edges cost in Akaike's
criterion, and is used alone. docs/maths.md has the numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from kinfolk.methods.gamtl.calibrate import METRICS, Recipe, metric_model
from kinfolk.methods.gamtl.problem import Problem
from kinfolk.rows.gram import TINY, GramStats, evenly_chosen
from kinfolk.solvers.mixed import MixedModel, mixed_model

# The graph alone; a ridge of 1 weighs as much as one row of features with standard deviation 1.
RAW: dict[str, Any] = {"strength": 1.0, "ridge": 1.0, "anchor": 0.0, "metric": "identity"}
# Set on the tables of benchmarks/arena.py marked "tuned".
AROUND: dict[str, Any] = {"anchor": 0.5, "metric": "learned"}
PULL = 2.0  # times what the mixed model stands for: neighbours are nearer than all tasks are to their mean
LEAST_RIDGE = 1e-5  # rows: keeps directions without data at 0 where targets are fitted exactly
MOST_RIDGE = 1e12  # rows: where the common coefficients are nothing
MOST_STRENGTH = 1e4  # where tasks do not differ
COMPARED = 1000  # unknowns of the tasks that are looked at for groups
FEWEST = 8  # tasks that may fall into groups
WIDTHS = 10.0 ** np.arange(5)  # of the graph's prior, tried against its deviance


def feature_scale(gram: GramStats) -> NDArray[np.float64]:
    """Standard deviation of every feature within tasks, all rows together; 1 for those that never vary.

    For features that do not vary within tasks, that over all rows.
    """
    within = np.diagonal(gram.G, axis1=1, axis2=2).sum(axis=0)
    rows = max(float(gram.n.sum()), TINY)
    between = gram.n @ np.square(gram.x_mean - gram.n @ gram.x_mean / rows)
    variance = np.where(gram.constant_within(), within + between, within) / rows
    return np.where(variance > 0, np.sqrt(variance), 1.0)


def completed(named: dict[str, Any], gram: GramStats) -> Recipe:
    """The recipe with those parameters of `RAW` that are not named, for features on one scale."""
    # Rows that give nothing but levels are not enough for a mixed model, unless their noise is known.
    if (
        (gram.dispersion is None and (gram.n - 1).sum() <= 0)
        or not gram.G.any()
        or ("metric" not in named and fall_into_groups(gram))
    ):
        return Recipe(**RAW | named)
    recipe = Recipe(**AROUND | named)
    effects = metric_model(gram, recipe.metric, recipe.intercept)
    recipe = replace(recipe, ridge=ridge_of_mean(effects, gram.n_tasks))
    return replace(recipe, strength=matching_strength(recipe.uncalibrated(gram, effects), effects, recipe.metric))


def ridge_of_mean(effects: MixedModel, n_tasks: int) -> float:
    """The ridge whose prior is as wide as the common coefficients are large: it acts on T copies of them."""
    size = float(((effects.mean**2 + effects.relevance**2) * effects.scale**2).mean())
    return min(max(effects.sigma2 / max(n_tasks * size, TINY), LEAST_RIDGE), MOST_RIDGE)


def matching_strength(problem: Problem, effects: MixedModel, metric: str) -> float:
    """The strength whose pull is `PULL` times sigma2 / variance, in the unknowns of the problem."""
    own = float(np.diagonal(problem.equations.G, axis1=1, axis2=2)[:, problem.scale > 0].mean())
    d = len(effects.mean)
    covariance = effects.covariance
    if problem.equations.basis is not None:
        back = np.linalg.pinv(problem.equations.basis[:d, :d])
        covariance = back @ covariance @ back.T
    variances = np.diagonal(covariance)
    # A learned metric leaves one variance, apart from those that it has raised to its floor.
    variance = float(variances.max() if METRICS[metric] else variances.mean())
    return min(PULL * effects.sigma2 / max(variance * own, TINY), MOST_STRENGTH)


def fall_into_groups(gram: GramStats) -> bool:
    """Whether a graph explains the targets better than a mixed model does, each edge counted as a parameter."""
    count = min(gram.n_tasks, COMPARED // gram.n_features)
    if count < FEWEST:
        return False
    if count < gram.n_tasks:
        gram = gram.select(evenly_chosen(gram, count))
    effects = mixed_model(gram, intercept="free")
    problem = Recipe(**RAW).problem(gram)
    assert problem.near is not None
    A = problem.graph_step(problem.near, None).value
    around = -2 * float(effects.history[-1]) + 2 * (2 * gram.n_features + 1)
    rows = (gram.n - 1).sum() if gram.dispersion is None else np.maximum(gram.n - 1, 0.0).sum()
    deviances = graph_deviances(problem, A, float(rows), gram.dispersion)
    return any(deviance + A.nnz + 2 * 2 < around for deviance in deviances)


def graph_deviances(problem: Problem, A: sparse.csr_array, rows: float, noise: float | None = None) -> Iterator[float]:
    """Minus twice the log-likelihood of the rows about their task's mean, with the best sigma2, by widths of the prior.

    With the penalty w'Pw, the prior of width kappa gives y = X w + e the covariance sigma2 (I + kappa X P^-1 X'), so

        rows log(2 pi sigma2) + rows + log |P / kappa + G| - log |P / kappa|,
        sigma2 = (y'y - b'(P / kappa + G)^-1 b) / rows;

    where sigma2 is known, the first two terms are rows log(2 pi sigma2) and the bracket over it.
    """
    equations = problem.equations
    T, p = equations.shape
    # P is a matrix of tasks, the same for every unknown.
    prior = problem.system(A).L.toarray() + problem.ridge[0, 0] * np.eye(T)
    log_prior = p * float(np.log(np.linalg.eigvalsh(prior)).sum())
    b = equations.b.ravel()
    yy = float(equations.yy.sum())

    def deviance(kappa: float) -> float:
        H = np.zeros((T, p, T, p))
        H[np.arange(T), :, np.arange(T), :] = equations.G
        for j in range(p):
            H[:, j, :, j] += prior / kappa
        # Transposed, which changes nothing, it is in LAPACK's order and is not copied.
        factor, _ = linalg.cho_factor(H.reshape(T * p, T * p).T, lower=True, overwrite_a=True, check_finite=False)
        explained = linalg.solve_triangular(factor, b, lower=True, check_finite=False)
        squares = max(yy - float(explained @ explained), TINY * yy, TINY)
        misfit = rows if noise is None else squares / noise
        log_both = 2 * float(np.log(np.diagonal(factor)).sum())
        logs = rows * np.log(2 * np.pi * (squares / rows if noise is None else noise)) + misfit
        return float(logs + log_both - log_prior + T * p * np.log(kappa))

    least = np.inf
    for kappa in WIDTHS:
        yield (value := deviance(kappa))
        if value > least:  # it rises again: wider priors explain less
            return
        least = value
