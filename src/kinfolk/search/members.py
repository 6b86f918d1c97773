"""What GAMTLCV tries: the methods without a graph, GAMTL at points of a grid, and mixed models of curves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from kinfolk.estimators.gamtl import GAMTL
from kinfolk.methods.model import Model
from kinfolk.methods.random_slopes import RandomSlopes
from kinfolk.methods.ridges import Independent, MeanShrunk, Pooled, TaskMean
from kinfolk.rows.folds import Folds
from kinfolk.rows.gram import Array, GramStats
from kinfolk.search.trials import Fittable
from kinfolk.solvers.graph import DENSE_TASKS
from kinfolk.solvers.ridge import choose_penalty, typical_eigenvalue
from kinfolk.solvers.tolerances import MIXED_MODEL

MEAN_RIDGE = 0.02  # on the mean that tasks are shrunk to, in units of a task's own data
CORRELATED = 2  # tasks per coefficient from which these may be correlated: fewer tell more of themselves than of others
DRAFT_STEPS = 40  # of mixed models with correlated slopes on folds, where the last digits do not matter

# Keys of the members that rules speak of; what people read is the name.
OWN = "own"
COMMON_SLOPES = "pooled, own intercepts"
SHRUNK = "shrunk"
SLOPES = "slopes"
SLOPES_OWN = "slopes, own intercepts"
OWN_CURVES = "own curves"
TREES = "trees"
NAMES = {
    OWN: "ridge per task",
    SHRUNK: "shrunk to the mean",
    SLOPES: "random slopes, random intercepts",
    SLOPES_OWN: "random slopes, own intercepts",
    OWN_CURVES: "curves, ridge per task",
    TREES: "trunk",
}


class Learner(Fittable, Protocol):
    """What a mixture asks of a method."""

    def learn(self, gram: GramStats) -> Model:
        """The model of tasks that all have rows."""
        ...


@dataclass(frozen=True, eq=False)
class Member:
    """A method that may take part in a mixture.

    Attributes
    ----------
    key : unique among the members
    name : what people read
    method : as it is fitted on all rows
    draft : as it is tried on folds, where the last digits do not matter; by default the same
    brief : as it is fitted among many tasks where its graph is not shown or takes no part; by default the same
    parameters : what was chosen for it
    has_graph : whether it learns a graph
    on_curves : whether its features are curves and inputs; else inputs on one scale
    yardstick : whether others are only compared with it
    graph_share : what a given graph has of its coupling
    """

    key: str
    name: str
    method: Learner
    draft: Learner | None = None
    brief: Learner | None = None
    parameters: dict[str, Any] = field(default_factory=dict)
    has_graph: bool = False
    on_curves: bool = False
    yardstick: bool = False
    graph_share: float = 0.0


def baselines(folds: Folds, *, mean_ridge: float = MEAN_RIDGE) -> list[Member]:
    """The methods of one line per task that have a penalty, chosen on the folds, and the mean of every task.

    `mean_ridge` is the penalty on the mean to which tasks are shrunk, in multiples of the mean of tr(G_t) / d.
    """
    shrunk = MeanShrunk(ridge=mean_ridge * typical_eigenvalue(folds.total))
    return [
        Member("mean", "task mean", TaskMean()),
        _penalised(OWN, NAMES[OWN], Independent(), folds),
        _penalised(COMMON_SLOPES, COMMON_SLOPES, Pooled(), folds),
        _penalised("pooled", "pooled", Pooled(own_intercepts=False), folds),
        _penalised(SHRUNK, NAMES[SHRUNK], shrunk, folds),
    ]


def _penalised(key: str, name: str, method: Any, folds: Folds) -> Member:
    penalty = choose_penalty(method.path, folds.with_rows(), "tasks").best
    return Member(key, name, method.set_params(penalty=penalty), parameters={"penalty": penalty})


def mixed_models(folds: Folds) -> list[Member]:
    """Random slopes, where there are few tasks also with correlations, and with own intercepts if these leave rows."""
    members = [Member(SLOPES, NAMES[SLOPES], RandomSlopes(intercept="random", tol=MIXED_MODEL))]
    T = folds.total.n_tasks
    if CORRELATED * (folds.total.n_features + 1) <= T <= DENSE_TASKS:  # of more, they cost more than all the others
        full = RandomSlopes(intercept="random", covariance="full", tol=MIXED_MODEL)
        draft = clone(full).set_params(max_iter=DRAFT_STEPS)
        members.append(Member("correlated slopes", f"{NAMES[SLOPES]}, correlated", full, draft))
    if all((folds.training_rows(f) > 1).any() for f in range(len(folds))):
        # Own intercepts take a row of every task: where no task has more, nothing is left to estimate slopes from.
        members.append(Member(SLOPES_OWN, NAMES[SLOPES_OWN], RandomSlopes(intercept="free", tol=MIXED_MODEL)))
    return members


@dataclass(frozen=True)
class Grid:
    """Values of GAMTL's parameters to be combined, by name; `fixed` ones are the same at every point.

    `wrap` makes of a member one that sees other features.
    """

    axes: dict[str, list[Any]]
    fixed: dict[str, Any]
    wrap: Callable[[Member], Member] | None = None

    def along(self, graph: Any, share: float) -> Grid:
        """The same points with a given graph in the coupling, along which levels may vary as well."""
        axes = self.axes | {
            "metric": ["learned"],
            "anchor": [0.1, 0.5],
            "intercept": ["coupled", *self.axes["intercept"]],
        }
        return replace(self, axes=axes, fixed={**self.fixed, "graph": graph, "graph_share": share})

    @property
    def share(self) -> float:
        """What a given graph has of the coupling."""
        return float(self.fixed.get("graph_share", 0.0))

    def member(self, **point: Any) -> Member:
        """A point of the grid."""
        told = {name: value for name, value in point.items() if value is not None}
        words = ", ".join(f"{k} {v:.3g}" if isinstance(v, float) else f"{k} {v}" for k, v in told.items())
        name = f"GAMTL ({words}, given graph {self.share:g})" if self.share else f"GAMTL ({words})"
        given = {**point, **self.fixed}
        whole, draft, brief = (GAMTL(**given, effort=effort) for effort in ("whole", "draft", "brief"))
        member = Member(name, name, whole, draft, brief, point, has_graph=True, graph_share=self.share)
        return member if self.wrap is None else self.wrap(member)


@dataclass(frozen=True, eq=False)
class OnColumns:
    """A method that sees `columns` of the features, divided by `units`."""

    method: Learner
    columns: NDArray[np.intp]
    units: Array

    def learn(self, gram: GramStats) -> Model:
        """The method's model; the other features have coefficients of 0."""
        key = self.columns.tobytes(), self.units.tobytes()
        # Remembered, so that methods share what depends on these statistics alone.
        part = gram.once(key, lambda: gram.on_columns(self.columns).rescaled(self.units))
        model = self.method.model_of(part).in_units(self.units)
        return replace(model.on_columns(self.columns, gram.n_features), gram=gram)

    def model_of(self, gram: GramStats, folds: Folds | None = None) -> Model:
        """The model of all tasks of `gram`."""
        return self.learn(gram.with_rows()).among(gram)
