"""What tasks have in common, found first: coefficients of some features, facts about tasks, and what these leave.

Beside its own level no task can tell a slope of its age or county. Levels of many tasks can: a mixed model with random
intercepts regresses them on such features, together with all other fixed effects (generalised least squares). Methods
then see y less that part, and the features that vary; a task that nobody has seen is predicted with its own values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from kinfolk.methods.facts import FactEffects
from kinfolk.methods.model import Model, Population
from kinfolk.rows.gram import Array, GramStats
from kinfolk.solvers.mixed import mixed_model, mixed_model_by_facts, too_many_products
from kinfolk.solvers.ridge import Path
from kinfolk.words import warn_user

TASKS_EACH = 3  # tasks per coefficient of levels: fewer would fit the levels at hand and tell nothing of others
FEWEST_TASKS = 10  # among which facts are asked what they do to slopes, and how much of it to believe


def can_tell_common(gram: GramStats) -> bool:
    """Whether there are tasks enough for the coefficients that they have in common; if not, these are exactly 0."""
    return gram.n_tasks >= TASKS_EACH * (int(gram.constant_within().sum()) + 1)


def common_coefficients(gram: GramStats) -> Array:
    """Coefficients (d,) of the features that all tasks have in common, and 0 for all others."""
    common = gram.common()
    coef = np.zeros(gram.n_features)
    if can_tell_common(gram):
        coef[common] = mixed_model(gram).mean[common]
    # Those that vary within tasks need no tasks: rows tell them.
    elif (common & ~gram.constant_within()).any():
        told = np.flatnonzero(~gram.constant_within())
        coef[told] = np.where(common[told], mixed_model(gram.on_columns(told)).mean, 0.0)
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


@dataclass(frozen=True, eq=False)
class Centre:
    """What facts say: coefficients (d,) of their own, products with the other features `own`, and what these leave."""

    coef: Array
    facts: FactEffects
    own: Array
    left: GramStats

    @classmethod
    def of(cls, gram: GramStats, products: str) -> Centre:
        """The centre of tasks as a function of facts; with "none" these move levels alone."""
        assert gram.roles is not None
        is_fact = gram.facts()
        columns, own = np.flatnonzero(is_fact), np.flatnonzero(~is_fact)
        # Facts are no features of the mixed model: beside a level of its own no task can tell a slope of its facts.
        found = mixed_model_by_facts(
            gram.on_columns(own), gram.x_mean[:, columns], gram.roles[columns], products=products
        )
        d = gram.n_features
        coef = np.zeros(d)
        coef[columns] = found.levels
        origin = np.zeros(d)
        origin[own] = found.origin
        slopes = np.zeros((len(columns), d))
        slopes[:, own] = found.slopes
        errors = np.zeros((len(columns), d + 1))
        errors[:, np.append(own, d)] = np.column_stack([found.slope_errors, found.level_errors])
        facts = FactEffects(columns, found.mean, origin, slopes, found.levels, errors)
        # As a part takes them out again later, so that both see the same targets to the last digit.
        left = gram.beside(coef).beside(*facts.lines(gram.x_mean)).on_columns(own)
        return cls(coef, facts, own, left)


def has_facts(gram: GramStats) -> bool:
    """Whether there are facts, something beside them, and tasks enough to ask what facts do."""
    return gram.n_tasks >= FEWEST_TASKS and 0 < gram.facts().sum() < gram.n_features


def warn_of_levels_alone(gram: GramStats | None, products: str) -> None:
    """Say that facts are too many to move slopes."""
    if gram is None or products == "none" or not has_facts(gram):
        return
    is_fact = gram.facts()
    said = too_many_products(gram.on_columns(np.flatnonzero(~is_fact)), int(is_fact.sum()))
    if said:
        warn_user(said)


def centre_of(gram: GramStats, products: str = "shrunk") -> Centre:
    """The centre, found once for all methods."""
    return gram.once(("facts", products), lambda: Centre.of(gram, products))


def beside_facts(learn: Callable[[GramStats], Model], gram: GramStats, products: str = "shrunk") -> Model:
    """The model that `learn` finds in what facts leave, with what they say."""
    if not has_facts(gram):
        return learn(gram)
    centre = centre_of(gram, products)
    model = learn(centre.left).on_columns(centre.own, gram.n_features)
    return replace(model.with_common(centre.coef, centre.facts, gram.x_mean), gram=gram)


def path_beside(prepare: Callable[[GramStats], Path], gram: GramStats, products: str) -> Path:
    """Coefficients and intercepts by penalty, found in what facts leave, with what they say."""
    if not has_facts(gram):
        return prepare(gram)
    centre = centre_of(gram, products)
    path = prepare(centre.left)
    slopes, levels = centre.facts.lines(gram.x_mean)

    def model(penalty: float) -> tuple[Array, Array]:
        W, c = path(penalty)
        coef = centre.coef + slopes
        coef[:, centre.own] += W
        return coef, c + levels

    return model


def one_for_all(gram: GramStats, coef: Array, intercept: Array, population: Population) -> tuple[Array, Array]:
    """The same predictions at the values of every task, with the population's coefficients of common features.

    Members of a mixture may find different ones, and tasks may have different shares of them.
    """
    common = gram.common()
    excess = coef[:, common] - population.coef[common]
    coef = coef.copy()
    coef[:, common] = population.coef[common]
    return coef, intercept + np.einsum("tj,tj->t", gram.x_mean[:, common], excess)
