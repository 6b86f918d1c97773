"""A mixture of members is a method: the shares that held-out errors support, and the model of all rows.

The members are linear in the same features, so a mixture of them is again one vector of coefficients per task. One
vector of shares for all tasks would pull those that are like no other, so every task may move from the common mixture
towards its own ridge, as far as its held-out errors say more than chance (`own_ridge_shares`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from kinfolk.methods.constant_within import one_for_all
from kinfolk.methods.facts import FactEffects
from kinfolk.methods.model import Model, Part, Population
from kinfolk.rows.gram import Array
from kinfolk.search.cross_errors import CrossErrors
from kinfolk.search.errors import Errors
from kinfolk.search.members import OWN, TREES, Member
from kinfolk.search.shares import best_mixture, own_ridge_shares
from kinfolk.search.tries import Search
from kinfolk.solvers.tolerances import SHARE_STEPS

LEAST_SHARE = 0.02  # what has less costs a fit and says nothing


@dataclass(frozen=True, eq=False)
class Mixture:
    """Members with their shares (M,) for a new task and (T, M) for those of the folds, and their held-out errors.

    `asked` are the keys of all members that might have taken part; `trees` is the share of boosted trees, for a new
    task and (T,) for those of the folds, beside which the shares of the members add up to 1.
    """

    asked: list[str]
    members: list[Member]
    shares: Array
    task_shares: Array
    errors: Errors
    trees: float
    task_trees: Array

    @property
    def has_graph(self) -> bool:
        """Whether a graph takes part."""
        return any(member.has_graph for member in self.members)

    def all_shares(self) -> tuple[dict[str, float], Array]:
        """Shares for a new task by name, and (T, M) of every task; those of trees come last."""
        common = {m.name: float(share) for m, share in zip(self.members, self.shares, strict=True)}
        if not self.trees:
            return common, self.task_shares
        common = {name: share * (1 - self.trees) for name, share in common.items()} | {"trunk": self.trees}
        return common, np.column_stack([self.task_shares * (1 - self.task_trees)[:, None], self.task_trees])


def mixture_of(search: Search, E: CrossErrors, weight: Array) -> Mixture:
    """The mixture of the members of E with the least weighted held-out error, and what every task makes of it."""
    shares, task_shares = _shares(search, E, weight)
    errors = E.errors(task_shares)
    near = E.around(task_shares)
    for _ in range(SHARE_STEPS if near is not E else 0):
        others = _shares(search, near, weight)
        better = E.errors(others[1])
        if not better.pooled() < errors.pooled():
            break
        (shares, task_shares), errors = others, better
        near = E.around(task_shares)

    kept = [m for m, key in enumerate(E.keys) if key != TREES and (task_shares[:, m] > 0).any()]
    is_trees = np.array([key == TREES for key in E.keys])
    trees = float(shares[is_trees].sum())
    task_trees = task_shares[:, is_trees].sum(axis=1)
    shares, task_shares = shares[kept], task_shares[:, kept]
    if trees:
        shares = _among_themselves(shares[None])[0]
        task_shares = _among_themselves(task_shares)
    members = [search.tried[E.keys[m]][0] for m in kept]
    return Mixture(list(E.keys), members, shares, task_shares, errors, trees, task_trees)


def _shares(search: Search, E: CrossErrors, weight: Array) -> tuple[Array, Array]:
    """Shares (M,) for a new task, and (T, M) for those of the folds."""
    by_task = E.by_task()
    shares = best_mixture(by_task, weight)
    shares = np.where(shares > LEAST_SHARE, shares, 0.0)
    shares = shares / shares.sum()
    own = np.eye(len(shares))[E.keys.index(OWN)]
    away = own_ridge_shares(by_task, shares, own, search.observations, search.lines.total.dispersion or 0.0)
    return shares, shares + away[:, None] * (own - shares)


def _among_themselves(shares: Array) -> Array:
    """Shares that add up to 1 without those of trees; the same for all where trees have everything."""
    total = shares.sum(axis=1, keepdims=True)
    alike = np.full(shares.shape, 1 / max(shares.shape[1], 1))
    return np.divide(shares, total, out=alike, where=total > 0)


def learn(search: Search, mixture: Mixture, shown: Member | None) -> Model:
    """The models of all members, added up by their shares; a graph that is `shown` is fitted even with share 0."""
    members = list(mixture.members)
    shares = mixture.shares
    task_shares = mixture.task_shares
    takes_part = shown in members
    if shown is not None and not takes_part:
        members.append(shown)
        shares = np.append(shares, 0.0)
        task_shares = np.column_stack([task_shares, np.zeros(len(task_shares))])
    models = [search.fitted(member, shown=member is shown, takes_part=takes_part) for member in members]

    population = Population(
        np.tensordot(shares, [model.population.coef for model in models], axes=1),
        float(shares @ [model.population.intercept for model in models]),
    )
    coef = np.einsum("tm,mtd->td", task_shares, [model.coef for model in models])
    intercept = np.einsum("tm,mt->t", task_shares, [model.intercept for model in models])
    coef, intercept = one_for_all(search.total, coef, intercept, population)
    about = models[members.index(shown)] if shown is not None else models[0]
    parts = tuple(
        _part(model, member, shares[m], task_shares[:, m], shown)
        for m, (member, model) in enumerate(zip(members, models, strict=True))
    )
    # Structure and course are those of the graph that is shown.
    facts = FactEffects.mixed([model.facts for model in models], shares)
    return replace(about, coef=coef, intercept=intercept, population=population, parts=parts, facts=facts)


def _part(model: Model, member: Member, share: float, task_shares: Array, shown: Member | None) -> Part:
    alike = bool((task_shares == share).all())
    return replace(
        model.parts[0],
        name=member.name,
        share=float(share),
        own_shares=None if alike else task_shares.copy(),
        shown=member is shown,
    )
