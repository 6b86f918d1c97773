"""Features that do not vary within tasks: one coefficient for all, found first, and what it leaves for the methods.

Beside its own level no task can tell a slope of its age or county. Levels of many tasks can: a mixed model with random
intercepts regresses them on such features, together with all other fixed effects (generalised least squares). Methods
then see y less that part, and the features that vary; a task that nobody has seen is predicted with its own values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from kinfolk.methods.model import Model, Population
from kinfolk.rows.gram import Array, GramStats
from kinfolk.solvers.mixed import mixed_model

TASKS_EACH = 3  # tasks per coefficient of levels: fewer would fit the levels at hand and tell nothing of others


def can_tell_common(gram: GramStats) -> bool:
    """Whether there are tasks enough for the coefficients that they have in common; if not, these are exactly 0."""
    return gram.n_tasks >= TASKS_EACH * (int(gram.common().sum()) + 1)


def common_coefficients(gram: GramStats) -> Array:
    """Coefficients (d,) of the features that do not vary within tasks, and 0 for all others."""
    common = gram.common()
    coef = np.zeros(gram.n_features)
    if can_tell_common(gram):
        coef[common] = mixed_model(gram).mean[common]
    return coef


def beside_common(learn: Callable[[GramStats], Model], gram: GramStats) -> Model:
    """The model that `learn` finds in what coefficients in common leave, with these."""
    common = gram.common()
    if not common.any():
        return learn(gram)
    coef = gram.once("common coefficients", lambda: common_coefficients(gram))
    varying = np.flatnonzero(~common)
    left = gram.once("beside common coefficients", lambda: gram.beside(coef).on_columns(varying))
    model = learn(left).on_columns(varying, gram.n_features)
    return replace(model.with_common(coef), gram=gram)


def one_for_all(gram: GramStats, coef: Array, intercept: Array, population: Population) -> tuple[Array, Array]:
    """The same predictions at the values of every task, with the population's coefficients of common features.

    Members of a mixture may find different ones, and tasks may have different shares of them.
    """
    common = gram.common()
    excess = coef[:, common] - population.coef[common]
    coef = coef.copy()
    coef[:, common] = population.coef[common]
    return coef, intercept + np.einsum("tj,tj->t", gram.x_mean[:, common], excess)
