"""A mixture of methods is a method: what is tried, the shares that held-out errors support, and the model of both.

All members are linear in the same features, so a mixture of them is again one vector of coefficients per task, and the
errors of every mixture follow from statistics: with residuals r_m of member m,

    error(p) = sum_mk p_m p_k <r_m, r_k>,    p >= 0,  sum p = 1.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from scipy.optimize import nnls
from sklearn.exceptions import ConvergenceWarning

from kinfolk.judge.errors import Errors, Gain
from kinfolk.judge.trials import Fittable, Trial, plain_row, try_all
from kinfolk.methods.independent import Independent
from kinfolk.methods.mean_shrunk import MeanShrunk
from kinfolk.methods.model import Model, Part, Population
from kinfolk.methods.pooled import Pooled
from kinfolk.methods.random_slopes import RandomSlopes
from kinfolk.methods.task_mean import TaskMean
from kinfolk.progress import Callback
from kinfolk.rows.folds import Folds
from kinfolk.rows.gram import TINY, Array, GramStats
from kinfolk.solvers.ridge import choose_penalty, typical_eigenvalue

TOLERANCE = 1e-3  # of mixed models, which are estimates themselves
CAUTION = 2.0  # what a share of a member costs that does not clearly beat random slopes, which need no tuning
CLEARLY = 0.05  # relative difference of held-out errors at which random slopes are the wrong model
LEAST_SHARE = 1e-3
LEAST_ERROR = 0.05  # of the median task's error: tasks that are fitted better do not weigh more
OWN = "ridge per task"
SHRUNK = "shrunk to the mean"
SLOPES = "random slopes, random intercepts"
SLOPES_OWN = "random slopes, own intercepts"


class Learner(Fittable, Protocol):
    """What a mixture asks of a method."""

    def learn(self, gram: GramStats) -> Model:
        """The model of tasks that all have rows."""
        ...


@dataclass(frozen=True, eq=False)
class Member:
    """A method in a mixture.

    Attributes
    ----------
    name : unique among the members
    method : as it is fitted on all rows
    draft : as it is tried on folds, where the last digits do not matter; by default the same
    parameters : what was chosen for it
    has_graph : whether it learns a graph
    """

    name: str
    method: Learner
    draft: Learner | None = None
    parameters: dict[str, Any] = field(default_factory=dict)
    has_graph: bool = False


def limits(folds: Folds, *, mean_ridge: float, slopes: bool) -> list[Member]:
    """The methods without a graph, their penalties chosen on the folds; random slopes if asked for.

    `mean_ridge` is the penalty on the mean to which tasks are shrunk, in multiples of the mean of tr(G_t) / d.
    """
    known = folds.with_rows()
    ridge = mean_ridge * typical_eigenvalue(folds.total)
    members = [
        Member("task mean", TaskMean()),
        _penalised(OWN, Independent(), known),
        _penalised("pooled, own intercepts", Pooled(), known),
        _penalised("pooled", Pooled(own_intercepts=False), known),
        _penalised(SHRUNK, MeanShrunk(ridge=ridge), known),
    ]
    if slopes:
        members.append(Member(SLOPES, RandomSlopes(intercept="random", tol=TOLERANCE)))
        members.append(Member(SLOPES_OWN, RandomSlopes(intercept="free", tol=TOLERANCE)))
    return members


def _penalised(name: str, method: Any, folds: Folds) -> Member:
    penalty = choose_penalty(method.prepare, folds, "tasks").best
    return Member(name, method.set_params(penalty=penalty), parameters={"penalty": penalty})


@dataclass(frozen=True, eq=False)
class Mixture:
    """Members with their shares, and their held-out errors; `shown` is the member whose graph people see."""

    members: list[Member]
    shares: Array
    errors: Errors
    shown: Member | None = None

    def learn(self, gram: GramStats) -> Model:
        """The models of all members, added up by their shares; a graph that is shown is fitted even with share 0."""
        fitted = [self._fit(member, gram) for member in self.members]
        shares = self.shares.tolist()
        if self.shown is not None and self.shown not in self.members:
            fitted.append(self._fit(self.shown, gram))
            shares.append(0.0)
        parts = [replace(model.parts[0], share=share) for model, share in zip(fitted, shares, strict=True)]
        coef = sum(share * model.coef for model, share in zip(fitted, shares, strict=True))
        intercept = sum(share * model.intercept for model, share in zip(fitted, shares, strict=True))
        population = Population(
            sum(share * model.population.coef for model, share in zip(fitted, shares, strict=True)),
            float(sum(share * model.population.intercept for model, share in zip(fitted, shares, strict=True))),
        )
        # Structure, course and details are those of the graph that is shown.
        about = next((model for model in fitted if _is_of(model.parts[0], self.shown)), fitted[0])
        parts = [replace(part, shown=_is_of(part, self.shown)) for part in parts]
        return replace(
            about, coef=coef, intercept=intercept, population=population, parts=tuple(parts), seen=about.seen
        )

    def _fit(self, member: Member, gram: GramStats) -> Model:
        with warnings.catch_warnings():
            if member is not self.shown:  # what there is to say about a member, its held-out errors say
                warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.simplefilter("ignore", UserWarning)
            model = member.method.learn(gram)
        return replace(model, parts=(replace(model.parts[0], name=member.name),))


def _is_of(part: Part, member: Member | None) -> bool:
    return member is not None and part.name == member.name


class Search:
    """Members and what they predict for held-out rows, fold by fold."""

    def __init__(self, folds: Folds, n_jobs: int | None, callback: Callback | None) -> None:
        self.folds = folds
        self.n_jobs = n_jobs
        self.callback = callback
        self.tried: dict[str, tuple[Member, Trial]] = {}
        self.rows = np.maximum(sum(part.n for part in folds.held_out), TINY)

    def add(self, members: list[Member]) -> None:
        """Try members on every fold."""
        methods = [member.draft or member.method for member in members]
        trials = try_all(methods, self.folds, n_jobs=self.n_jobs, callback=self.callback)
        self.tried.update({member.name: (member, trial) for member, trial in zip(members, trials, strict=True)})

    def add_axis_by_axis(self, axes: dict[str, list[Any]], member: Callable[..., Member]) -> None:
        """Vary one parameter of the graph's member at a time, strength first, then from the last axis to the first."""
        strengths = sorted(axes["strength"])
        middle = len(strengths) // 2
        best = {name: values[0] for name, values in axes.items()} | {"strength": strengths[middle]}
        self.add([member(**best)])
        # Tasks that have little in common collapse under a strong pull, slowly: weaker ones come first.
        self._add_while_better("strength", strengths[:middle][::-1], member)
        if self.best_graph().parameters == best:
            self._add_while_better("strength", strengths[middle + 1 :], member)
        for name in [name for name in reversed(axes) if name != "strength"]:
            best = self.best_graph().parameters
            self.add([member(**{**best, name: value}) for value in axes[name] if value != best[name]])

    def _add_while_better(self, name: str, values: list[Any], member: Callable[..., Member]) -> None:
        for value in values:
            point = {**self.best_graph().parameters, name: value}
            self.add([member(**point)])
            if self.best_graph().parameters != point:
                return

    def error(self, name: str) -> float:
        """Mean over tasks of the held-out error of a member."""
        return self.tried[name][1].errors.tasks()

    def member(self, name: str) -> Member:
        """A member by name."""
        return self.tried[name][0]

    def limits(self) -> list[str]:
        """The members without a graph."""
        return [name for name, (member, _) in self.tried.items() if not member.has_graph]

    def finalists(self, count: int | None) -> list[str]:
        """The best members with a graph; None for all."""
        graphs = [name for name, (member, _) in self.tried.items() if member.has_graph]
        return sorted(graphs, key=self.error)[:count]

    def best_graph(self) -> Member:
        """The member with a graph of least error."""
        return self.member(self.finalists(1)[0])

    def best_limit(self) -> str:
        """The member without a graph of least error."""
        return min(self.limits(), key=self.error)

    def usual(self) -> str:
        """The member that others must beat: random slopes, unless a limit is clearly better."""
        usual = SLOPES if SLOPES in self.tried else SHRUNK
        best = self.best_limit()
        return best if self.error(best) < (1 - CLEARLY) * self.error(usual) else usual

    def task_weights(self) -> Array:
        """1 / RMSE of every task under the best limit: the gradient of the mean over tasks of the RMSE."""
        squared = self.tried[self.best_limit()][1].errors.squared.sum(axis=0)
        rmse = np.sqrt(squared / self.rows)
        floor = LEAST_ERROR * float(np.median(rmse[self.rows > TINY]))
        return np.where(self.rows > TINY, 1 / np.maximum(rmse, max(floor, TINY)) / self.rows, 0.0)

    def mixture(self, names: list[str], weight: Array) -> Mixture:
        """The mixture of some members with the least weighted held-out error."""
        trials = [self.tried[name][1] for name in names]
        by_fold = [
            cross_errors(part, np.stack([t.coef[f] for t in trials]), np.stack([t.intercept[f] for t in trials]))
            for f, part in enumerate(self.folds.held_out)
        ]
        shares = best_mixture(np.sum(by_fold, axis=0), weight, usual=names.index(self.usual()), caution=CAUTION)
        kept = np.flatnonzero(shares > LEAST_SHARE)  # a member of a thousandth costs a fit and says nothing
        shares = np.where(shares > LEAST_SHARE, shares, 0.0) / shares[kept].sum()
        squared = np.stack([mixture_errors(E, shares) for E in by_fold])
        members = [self.member(names[m]) for m in kept]
        return Mixture(members, shares[kept], Errors(squared, trials[0].errors.rows))

    def trial(self, name: str) -> Trial:
        """What a member predicted, by name."""
        return self.tried[name][1]

    def gain(self, before: Mixture | Trial, after: Mixture) -> Gain:
        """What a mixture gains over another or a member; tasks with the same inputs have the same rows held out."""
        shared = self.folds.total.n_tasks > 1 and self.folds.total.is_shared()
        return after.errors.gain_over(before.errors, shared=shared)

    def table(self) -> list[dict[str, Any]]:
        """One row per member."""
        return [plain_row(trial, name=name, **member.parameters) for name, (member, trial) in self.tried.items()]


def cross_errors(gram: GramStats, W: Array, c: Array) -> Array:
    """<r_m, r_k> of every task over the rows behind `gram`: (T, M, M) for models W (M, T, d), c (M, T).

    Examples
    --------
    Two rows with y = 0 and 2 at x = 0: the models c = 0 and c = 1 miss by (0, 2) and (-1, 1).

    >>> gram = GramStats.from_rows([[0.0], [0.0]], [0.0, 2.0])
    >>> cross_errors(gram, np.zeros((2, 1, 1)), np.array([[0.0], [1.0]]))[0]
    array([[4., 2.],
           [2., 2.]])
    """
    # r = (y - mean) - (x - mean)'w + off: the first two parts are centred, so only off meets itself.
    off = gram.y_mean - c - np.einsum("mtd,td->mt", W, gram.x_mean)
    GW = np.matmul(gram.G, W[:, :, :, None])[:, :, :, 0]
    bw = np.einsum("mtd,td->mt", W, gram.b)
    inside = np.einsum("mtd,ktd->tmk", W, GW)
    E = gram.yy[:, None, None] - bw.T[:, :, None] - bw.T[:, None, :] + inside
    return E + np.einsum("t,mt,kt->tmk", gram.n, off, off)


def mixture_errors(E: Array, p: Array) -> Array:
    """Squared errors of every task (T,) for the mixture p of the models behind E (T, M, M)."""
    return np.maximum(np.einsum("m,tmk,k->t", p, E, p), 0.0)


def best_mixture(E: Array, weight: Array, *, usual: int = 0, caution: float = 0.0) -> Array:
    """p >= 0 with sum 1 of least weighted error: a non-negative least-squares problem in a root of the error matrix.

    Held-out errors are noisy, and those of tuned models are too good. Every model but the `usual` one therefore pays
    for its share: `caution` times the standard error, over tasks, of its difference to the usual one. A model that is
    better by one standard error pays less, and by two nothing. So only what is better by more than chance takes part.

    Examples
    --------
    Two unbiased models with independent errors of equal size are best averaged.

    >>> best_mixture(np.eye(2)[None], np.ones(1)).round(6)
    array([0.5, 0.5])
    """
    weight = weight / max(float(weight.max(initial=0.0)), TINY)  # only ratios count; tasks without error weigh 1 / TINY
    total = np.tensordot(weight, E, axes=1)
    own = weight[:, None] * np.einsum("tmm->tm", E)
    better = own[:, [usual]] - own
    error = np.sqrt(len(own)) * better.std(axis=0)  # of the sum over tasks
    cost = caution * np.clip(2 * error - better.sum(axis=0), 0.0, error)
    # As the shares add up to 1, a cost per share is a quadratic form too, and so is any constant.
    total = total + (cost[:, None] + cost[None, :]) / 2 + cost.max()
    scale = max(float(np.trace(total)) / len(total), TINY)
    value, vector = np.linalg.eigh(total / scale)
    root = np.sqrt(np.maximum(value, 1e-12))[:, None] * vector.T
    # For p = s q with shares q, min over s of s^2 q'Eq + (1 - s)^2 is q'Eq / (q'Eq + 1): the direction of p is that of
    # the best shares.
    p, _ = nnls(np.vstack([root, np.ones(len(total))]), np.append(np.zeros(len(total)), 1.0))
    return p / p.sum()
