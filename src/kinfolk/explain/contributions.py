"""Where a model came from: the exact split of coefficients and predictions by the tasks whose data made them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.methods.model import Fitted, Model, as_model
from kinfolk.methods.part import LinearMap
from kinfolk.rows.gram import Array
from kinfolk.rows.table import task_codes
from kinfolk.threads import on_few_threads
from kinfolk.words import listed


class Contribution(NamedTuple):
    """What one task's data have to do with a task's coefficients; a list of these makes a data frame."""

    task: Any
    source: Any
    share: float


@dataclass(frozen=True, eq=False)
class Contributions:
    """The coefficients of some tasks as sums over the tasks whose targets made them.

    Attributes
    ----------
    tasks : labels of the k tasks that are split; sources : labels of the T tasks that they are split into
    coef, intercept : arrays of shape (k, T, d) and (k, T); summed over sources they are `coef_` and `intercept_`
    shares : array of shape (k, T), the weight of every task's own estimate in the coefficients, mean over directions;
        a row and its `prior` add up to 1. Shares say how much a task is listened to, whatever it says; a share can be
        slightly negative, as a weight in any linear smoother can
    prior : array of shape (k,), the weight of the penalty's pull towards zero
    trunk : array of shape (k,), the share of a trunk in the predictions, 0 without one; coefficients are those of the
        lines beside it, shares and prior of the whole: with `trunk` they add up to 1
    """

    tasks: NDArray[Any]
    sources: NDArray[Any]
    coef: Array
    intercept: Array
    shares: Array
    prior: Array
    model: Model
    trunk: Array

    def of(self, task: Any) -> list[Contribution]:
        """The sources of one task's predictions, the most important first; a trunk is one of them, by that name."""
        at = np.flatnonzero(self.tasks == task)
        if not len(at):
            first = ", ".join(map(repr, self.tasks[:3].tolist()))
            raise ValueError(f"task {task!r} was not split ({len(self.tasks)} tasks: {first}, ...)")
        row = int(at[0])
        names = self.sources.tolist()
        shares = self.shares[row].tolist()
        if self.model.trunk is not None:
            names.append("trunk")
            shares.append(float(self.trunk[row]))
        order = np.argsort(-np.abs(shares), kind="stable")
        return [Contribution(task, names[s], shares[s]) for s in order]

    def split(self, X: Any) -> Array:
        """Predictions for rows of these tasks, by source: (n, T); the parts of a row add up to its prediction.

        Beyond the training rows, predictions may be held near straight lines or come from a model of later rows: parts
        are then those of the mixture without that. With a trunk, its part is one more column, the last.
        """
        assert self.model.columns is not None
        features, labels, *_ = self.model.columns.read(X, self.model.name)
        if labels is None:
            raise ValueError("split takes long tables, with a task column")
        order = np.argsort(self.tasks)
        codes = order[task_codes(labels, self.tasks[order], "error")]
        parts = np.einsum("nd,nsd->ns", features, self.coef[codes]) + self.intercept[codes]
        trunk = self.model.trunk
        if trunk is None:
            return parts
        at = task_codes(labels, self.model.labels, "error")
        share = trunk.share_of(features, at)
        return np.column_stack([(1 - share)[:, None] * parts, share * trunk.predict(features, at)])

    def __repr__(self) -> str:
        own = np.mean([self.shares[k, self.sources == t].sum() for k, t in enumerate(self.tasks)])
        trunk = "" if self.model.trunk is None else f", {self.trunk.mean():.0%} from boosted trees"
        shares = {} if self.model.report is None else self.model.report.mixture
        parts = [f"{share:.0%} {name}" for name, share in shares.items() if share >= 0.005]
        whose = f" of the mixture that predicts: {listed(parts)}" if len(parts) > 1 else ""
        return f"Contributions({len(self.tasks)} tasks{whose}; on average {own:.0%} from their own data{trunk})"


@on_few_threads
def contributions(model: Fitted, tasks: Sequence[Any] | None = None) -> Contributions:
    """Split the coefficients of tasks by the tasks whose data made them, exactly.

    With its graph and penalties held fixed a model is linear in the targets, v_t = sum_s N_ts b_s, so the term s is
    what the targets of task s contribute. As b_s = G_s (own estimate of s), N_ts G_s is the weight that task t gives to
    what task s would say on its own.

    Parameters
    ----------
    model : fitted GAMTL, GAMTLCV, RBFGAMTL, Independent, Pooled, MeanShrunk or RandomSlopes
    tasks : labels of the tasks to split; all by default, with T^2 d numbers

    Examples
    --------
    Slopes of 1 and 3 with G = 2 each, and a penalty of 2 on their distance to the mean: three quarters are own.

    >>> from kinfolk.baselines import MeanShrunk
    >>> X = np.array([["a", -1.0], ["a", 1.0], ["b", -1.0], ["b", 1.0]], dtype=object)
    >>> model = MeanShrunk(task=0, penalty=2.0).fit(X, [-1.0, 1.0, 7.0, 13.0])
    >>> contributions(model).shares
    array([[0.75, 0.25],
           [0.25, 0.75]])
    >>> contributions(model).coef[0].ravel()
    array([0.75, 0.75])
    """
    model = as_model(model, "contributions")
    model.statistics("contributions")
    maps = model.maps
    gram = model.known
    which = np.arange(gram.n_tasks) if tasks is None else task_codes(np.asarray(tasks), gram.labels, "error")
    T, d = gram.b.shape
    coef = np.zeros((len(which), T, d))
    intercept = np.zeros((len(which), T))
    shares = np.zeros((len(which), T))
    for part in maps:
        b = _targets(part)
        for k, t in enumerate(which):
            N = part.inverse.columns(t)  # v_t = sum_s N_ts b_s, and N is symmetric
            unknowns = np.einsum("spq,sp->sq", N, b)
            slopes = unknowns @ part.to_coef.T
            coef[k] += part.shares[t] * slopes
            intercept[k] += part.shares[t] * _levels(part, unknowns, slopes, t)
            # N_ts G_s is a matrix; its mean diagonal is the same in all units of the unknowns.
            shares[k] += part.shares[t] * np.einsum("spq,spq->s", N, part.equations.G) / N.shape[1]
    trunk = np.zeros(len(which)) if model.trunk is None else model.trunk.shares[model.seen][which]
    shares *= 1 - trunk[:, None]
    prior = 1 - shares.sum(axis=1) - trunk
    return Contributions(gram.labels[which], gram.labels, coef, intercept, shares, prior, model, trunk)


def _targets(part: LinearMap) -> Array:
    """b_s about y = 0. The equations are set up about the mean of all targets, to which every task has contributed."""
    equations = part.equations
    if not equations.has_ones:
        return equations.b
    return equations.b + equations.y0[0] * equations.G[:, :, -1]


def _levels(part: LinearMap, unknowns: Array, slopes: Array, task: int) -> Array:
    """The intercept's parts: a task's own mean, or the last unknown, less what the slopes make of the mean input."""
    equations = part.equations
    at_mean = slopes @ (equations.x0[task] * part.units)
    if equations.has_ones:
        return unknowns[:, -1] - at_mean
    level = -at_mean
    level[task] += equations.y0[task]
    return level
