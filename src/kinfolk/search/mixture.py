"""A mixture of methods is a method: what is tried, the shares that held-out errors support, and the model of both.

All members are linear in the same features, so a mixture of them is again one vector of coefficients per task, and the
errors of every mixture follow from statistics: with residuals r_m of member m,

    error(p) = sum_mk p_m p_k <r_m, r_k>,    p >= 0,  sum p = 1.

One p for all tasks would pull those that are like no other. So every task may move from the common mixture towards its
own ridge, as far as its held-out errors say more than chance (`own_ridge_shares`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, Protocol

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from kinfolk.methods.constant_within import one_for_all
from kinfolk.methods.model import ByTask, Model, Part, Population
from kinfolk.methods.random_slopes import FEWEST_TASKS, RandomSlopes
from kinfolk.methods.ridges import Independent, LastMean, MeanShrunk, Pooled, TaskMean
from kinfolk.methods.uncertainty import moderated
from kinfolk.progress import Callback
from kinfolk.rows.folds import Folds
from kinfolk.rows.gram import TINY, Array, GramStats
from kinfolk.search.errors import Errors, Gain
from kinfolk.search.shares import best_mixture, cross_errors, mixture_errors, own_ridge_shares
from kinfolk.search.trials import Fittable, Trial, plain_row, try_all
from kinfolk.solvers.graph import DENSE_TASKS
from kinfolk.solvers.ridge import choose_penalty, typical_eigenvalue
from kinfolk.solvers.tolerances import MIXED_MODEL

CAUTION = 0.5  # what a share of a member costs that does not clearly beat random slopes, which need no tuning
CAUTION_TOGETHER = 1.0  # the same where the errors of all tasks go together in a fold
CLEARLY = 0.05  # relative difference of held-out errors at which random slopes are the wrong model
LEAST_SHARE = 0.02
CORRELATED = 2  # tasks per coefficient from which these may be correlated: fewer tell more of themselves than of others
DRAFT_STEPS = 40  # of mixed models with correlated slopes on folds, where the last digits do not matter
MANY = 300  # tasks from which one fold shows that a point of the grid is hopeless, and the first rounds are enough
HOPELESS = 0.1  # relative loss to the best point on that fold: with less, a point may still have a share in a mixture
CERTAIN = 4.0  # standard errors that this must be
LEAST_ERROR = 0.05  # of the median task's error: tasks that are fitted better do not weigh more
LAST = "mean of the last rows"
OWN = "ridge per task"
OWN_CURVES = "curves, ridge per task"
SHRUNK = "shrunk to the mean"
SLOPES = "random slopes, random intercepts"
SLOPES_OWN = "random slopes, own intercepts"
ALWAYS = (OWN, SHRUNK, SLOPES, SLOPES_OWN)  # what others are compared with


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
    brief : as it is fitted among many tasks where its graph is not shown or takes no part; by default the same
    parameters : what was chosen for it
    has_graph : whether it learns a graph
    """

    name: str
    method: Learner
    draft: Learner | None = None
    brief: Learner | None = None
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
        members.append(Member(SLOPES, RandomSlopes(intercept="random", tol=MIXED_MODEL)))
    few = slopes and folds.total.n_tasks <= DENSE_TASKS  # of more, these cost more than all else that is tried
    if few and folds.total.n_tasks >= FEWEST_TASKS:  # among fewer it is the same model again
        noisy = RandomSlopes(intercept="random", noise="task", tol=MIXED_MODEL)
        members.append(Member(f"{SLOPES}, noise by task", noisy))
    if few and folds.total.n_tasks >= CORRELATED * (folds.total.n_features + 1):
        full = RandomSlopes(intercept="random", covariance="full", tol=MIXED_MODEL)
        members.append(Member(f"{SLOPES}, correlated", full, draft=clone(full).set_params(max_iter=DRAFT_STEPS)))
    if slopes and all((folds.training_rows(f) > 1).any() for f in range(len(folds))):
        # Own intercepts take a row of every task: where no task has more, nothing is left to estimate slopes from.
        members.append(Member(SLOPES_OWN, RandomSlopes(intercept="free", tol=MIXED_MODEL)))
    return members


def _penalised(name: str, method: Any, folds: Folds) -> Member:
    penalty = choose_penalty(method.prepare, folds, "tasks").best
    return Member(name, method.set_params(penalty=penalty), parameters={"penalty": penalty})


@dataclass(frozen=True, eq=False)
class Mixture:
    """Members with their shares (M,) for a new task and (T, M) for those of the folds, and their held-out errors.

    `shown` is the member whose graph people see.
    """

    members: list[Member]
    shares: Array
    task_shares: Array
    errors: Errors
    shown: Member | None = None

    def learn(self, gram: GramStats) -> Model:
        """The models of all members, added up by their shares; a graph that is shown is fitted even with share 0."""
        fitted = [self._fit(member, gram) for member in self.members]
        shares = self.shares
        own = self.task_shares
        if self.shown is not None and self.shown not in self.members:
            fitted.append(self._fit(self.shown, gram))
            shares = np.append(shares, 0.0)
            own = np.column_stack([own, np.zeros(len(own))])
        population = Population(
            np.tensordot(shares, [model.population.coef for model in fitted], axes=1),
            float(shares @ [model.population.intercept for model in fitted]),
        )
        # Structure, course and details are those of the graph that is shown.
        about = next((model for model in fitted if _is_of(model.parts[0], self.shown)), fitted[0])
        coef = np.einsum("tm,mtd->td", own, [model.coef for model in fitted])
        intercept = np.einsum("tm,mt->t", own, [model.intercept for model in fitted])
        coef, intercept = one_for_all(gram, coef, intercept, population)
        return replace(
            about,
            coef=coef,
            intercept=intercept,
            population=population,
            parts=tuple(self._part(model, shares[m], own[:, m]) for m, model in enumerate(fitted)),
            seen=about.seen,
        )

    def _part(self, model: Model, share: float, own: Array) -> Part:
        part = model.parts[0]
        alike = bool((own == share).all())
        return replace(
            part, share=float(share), own_shares=None if alike else own.copy(), shown=_is_of(part, self.shown)
        )

    def _fit(self, member: Member, gram: GramStats) -> Model:
        with warnings.catch_warnings():
            if member is not self.shown:  # what there is to say about a member, its held-out errors say
                warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.simplefilter("ignore", UserWarning)
            model = self._as_fitted(member, gram.n_tasks).model_of(gram)
        return replace(model, parts=(replace(model.parts[0], name=member.name),))

    def _as_fitted(self, member: Member, n_tasks: int) -> Learner:
        """The whole method, or among many tasks its first rounds."""
        # A graph that takes no part is shown as the best one at the predictions, wherever its own rounds end.
        whole = n_tasks < MANY or (member is self.shown and member in self.members)
        return member.method if whole or member.brief is None else member.brief


def _is_of(part: Part, member: Member | None) -> bool:
    return member is not None and part.name == member.name


class Search:
    """Members and what they predict for held-out rows, fold by fold."""

    def __init__(self, folds: Folds, n_jobs: int | None, callback: Callback | None) -> None:
        self.folds = folds
        self.n_jobs = n_jobs
        self.callback = callback
        self.tried: dict[str, tuple[Member, Trial]] = {}
        self.dropped: dict[str, tuple[Member, Trial]] = {}
        self.repeated: dict[str, tuple[Member, Trial]] = {}  # of members that predict as one before them
        self.yardsticks: dict[str, Trial] = {}  # of what is compared with, and takes no part
        self.rows = np.maximum(sum(part.n for part in folds.held_out), TINY)
        self.observations = self.rows if folds.distinct is None else self.rows * folds.distinct

    @property
    def races(self) -> bool:
        """Whether the first fold alone decides about members that lose there by far: among many tasks."""
        return len(self.rows) >= MANY and not self.folds.in_time and bool(self.tried)

    def add(self, members: list[Member]) -> None:
        """Try members on every fold; among many tasks those on the first fold alone that lose there by far."""
        members = [member for member in members if member.name not in self.tried | self.repeated | self.dropped]
        first = self._try(members, range(1 if self.races else len(self.folds)))
        if not self.races:
            self._keep(first)
            return
        for name, (_, trial) in first.items():
            gain = self._gain_on_first_fold(trial)
            if gain.mean < -max(HOPELESS, CERTAIN * gain.standard_error):
                self.dropped[name] = first[name]
        left = self._try([member for member in members if member.name not in self.dropped], range(1, len(self.folds)))
        self._keep({name: (member, first[name][1].joined(rest)) for name, (member, rest) in left.items()})

    def _gain_on_first_fold(self, trial: Trial) -> Gain:
        """What a member that was tried there gains over the best so far."""
        best = self.trial(min(self.tried, key=self.error))
        return trial.errors.gain_over(best.errors.only(range(1)))

    def _keep(self, found: dict[str, tuple[Member, Trial]]) -> None:
        """Remember what was tried, but not what predicts the same as a member before it: the same model once more."""
        for name, (member, trial) in found.items():
            alike = [other for one, other in self.tried.values() if one.has_graph == member.has_graph]
            again = name not in ALWAYS and any(map(trial.predicts_as, alike))
            (self.repeated if again else self.tried)[name] = member, trial

    def add_last_means(self) -> None:
        """In time, the level at which every task was last: inputs that moved in the past may not move it again."""
        if self.folds.in_time:
            *before, last = map(LastMean, self.folds.last_rows())
            trials = [try_all([mean], self.folds, only=[f])[0] for f, mean in enumerate(before)]
            self.tried[LAST] = Member(LAST, last), reduce(Trial.joined, trials)

    def trial_on(self, member: Member, only: range) -> Trial:
        """What a member predicts on some folds."""
        return self._try([member], only)[member.name][1]

    def _try(self, members: list[Member], only: range) -> dict[str, tuple[Member, Trial]]:
        methods = [member.draft or member.method for member in members]
        trials = try_all(methods, self.folds, only=only, n_jobs=self.n_jobs, callback=self.callback)
        return {member.name: (member, trial) for member, trial in zip(members, trials, strict=True)}

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
        """The member with a graph of least error; where all have lost to the limits, on the fold that showed it."""
        found = self.finalists(1)
        return self.member(found[0]) if found else self.hopeless_graph()[0]

    def hopeless_graph(self) -> tuple[Member, Trial]:
        """The best of those with a graph that were tried on one fold."""
        graphs = [(member, trial) for member, trial in self.dropped.values() if member.has_graph]
        return min(graphs, key=lambda one: one[1].errors.tasks())

    def best_limit(self) -> str:
        """The member without a graph of least error."""
        return min(self.limits(), key=self.error)

    def usual(self) -> str:
        """The member that others must beat: random slopes, unless a limit is clearly better."""
        usual = SLOPES if SLOPES in self.tried else SHRUNK
        best = self.best_limit()
        return best if self.error(best) < (1 - CLEARLY) * self.error(usual) else usual

    def task_weights(self) -> Array:
        """1 / RMSE of every task under the best limit: the gradient of the mean over tasks of the RMSE.

        Tasks of few rows have small errors by chance where that limit happens to be good, and would then weigh most. So
        their variances are drawn towards that of all tasks.
        """
        known = self.rows > TINY
        rows = self.rows[known]
        squared = self.trial(self.best_limit()).errors.squared.sum(axis=0)[known]
        common = max(float(squared.sum() / rows.sum()), TINY)
        rmse = np.sqrt(common * moderated(squared / rows / common, rows))
        floor = LEAST_ERROR * float(np.median(rmse) or rmse.max())
        weight = np.zeros(len(known))
        weight[known] = 1 / (np.maximum(rmse, floor) * rows)
        return weight

    def mixture(self, names: list[str], weight: Array) -> Mixture:
        """The mixture of some members with the least weighted held-out error, and what every task makes of it."""
        by_fold = self._cross_errors(names)
        E = np.sum(by_fold, axis=0)
        caution = CAUTION_TOGETHER if self.errors_go_together() else CAUTION
        shares = best_mixture(E, weight, usual=names.index(self.usual()), caution=caution)
        shares = np.where(shares > LEAST_SHARE, shares, 0.0)  # what has less costs a fit and says nothing
        shares = shares / shares.sum()
        own = np.eye(len(names))[names.index(OWN)]
        away = own_ridge_shares(E, shares, own, self.observations)
        task_shares = shares + away[:, None] * (own - shares)
        kept = np.flatnonzero((task_shares > 0).any(axis=0))
        squared = np.stack([mixture_errors(E, task_shares) for E in by_fold])
        members = [self.member(names[m]) for m in kept]
        return Mixture(members, shares[kept], task_shares[:, kept], Errors(squared, self.trial(names[0]).errors.rows))

    def trial(self, name: str) -> Trial:
        """What a member predicted, by name."""
        return self.yardsticks[name] if name in self.yardsticks else self.tried[name][1]

    def beside_own(self, mixture: Mixture) -> dict[str, Any]:
        """What a mixture gains over a ridge per task, of tasks that have one: with a single row nothing is left."""
        both = self.folds.has_both()
        own = self.trial(OWN)
        own = replace(own, errors=own.errors.among(both))
        mixture = replace(mixture, errors=mixture.errors.among(both))
        return {
            "own_errors_": ByTask(own.errors.by_task()),
            "own_gain_": self.gain(own, mixture),
            "own_chance_": ByTask(mixture.errors.chance_of_rise(own.errors)),
        }

    def best_of(self, names: list[str], weight: Array) -> Errors:
        """Errors of the best mixture of some members, the same for every task."""
        by_fold = self._cross_errors(names)
        shares = best_mixture(np.sum(by_fold, axis=0), weight)
        return Errors(np.stack([mixture_errors(E, shares) for E in by_fold]), self.trial(names[0]).errors.rows)

    def _cross_errors(self, names: list[str]) -> list[Array]:
        """Products of the residuals of some members (T, M, M), fold by fold."""
        trials = [self.trial(name) for name in names]
        return [
            cross_errors(part, np.stack([t.coef[f] for t in trials]), np.stack([t.intercept[f] for t in trials]))
            for f, part in enumerate(self.folds.held_out)
        ]

    def held_out_lines(self, mixture: Mixture) -> tuple[Array, Array]:
        """Slopes (k, T, d) and intercepts (k, T) by which a mixture predicts held-out rows."""
        trials = [self.trial(member.name) for member in mixture.members]
        W = np.einsum("tm,mktd->ktd", mixture.task_shares, [trial.coef for trial in trials])
        return W, np.einsum("tm,mkt->kt", mixture.task_shares, [trial.intercept for trial in trials])

    def gain(self, before: Mixture | Trial, after: Mixture) -> Gain:
        """What a mixture gains over another or a member."""
        return after.errors.gain_over(before.errors, shared=self.errors_go_together())

    def errors_go_together(self) -> bool:
        """Whether what all tasks gain or lose in one fold is one observation.

        Tasks with the same inputs have the same rows held out, and in time the same years.
        """
        return self.folds.in_time or (self.folds.total.n_tasks > 1 and self.folds.total.is_shared())

    def table(self) -> list[dict[str, Any]]:
        """One row per member, and the number of folds behind its errors."""
        return [
            plain_row(trial, name=name, **member.parameters, folds=len(trial.coef))
            for name, (member, trial) in (self.tried | self.repeated | self.dropped).items()
        ]
