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
from typing import Any, Protocol

import numpy as np
from scipy.optimize import nnls
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning

from kinfolk.judge.errors import Errors, Gain
from kinfolk.judge.trials import Fittable, Trial, plain_row, try_all
from kinfolk.methods.independent import Independent
from kinfolk.methods.mean_shrunk import MeanShrunk
from kinfolk.methods.model import Model, Part, Population
from kinfolk.methods.pooled import Pooled
from kinfolk.methods.random_slopes import RandomSlopes
from kinfolk.methods.task_mean import TaskMean
from kinfolk.methods.uncertainty import moderated
from kinfolk.progress import Callback
from kinfolk.rows.folds import Folds
from kinfolk.rows.gram import TINY, Array, GramStats
from kinfolk.solvers.ridge import choose_penalty, typical_eigenvalue

TOLERANCE = 1e-3  # of mixed models, which are estimates themselves
CAUTION = 2.0  # what a share of a member costs that does not clearly beat random slopes, which need no tuning
CLEARLY = 0.05  # relative difference of held-out errors at which random slopes are the wrong model
LEAST_SHARE = 1e-3
LEAST_ERROR = 0.05  # of the median task's error: tasks that are fitted better do not weigh more
ROUNDING = 1e-12  # of the squared errors
# Set on the tables of benchmarks/arena.py marked "tuned"; docs/maths.md has the numbers.
DOUBT = 1.5  # factor of the variance of a task's own estimate: its folds share rows
PRIOR_TASKS = 5  # tasks that are no loners, added to those at hand
LONER_ROUNDS = 100
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
        return replace(
            about,
            coef=np.einsum("tm,mtd->td", own, [model.coef for model in fitted]),
            intercept=np.einsum("tm,mt->t", own, [model.intercept for model in fitted]),
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
        """The mixture of some members with the least weighted held-out error, and what every task makes of it."""
        trials = [self.tried[name][1] for name in names]
        by_fold = [
            cross_errors(part, np.stack([t.coef[f] for t in trials]), np.stack([t.intercept[f] for t in trials]))
            for f, part in enumerate(self.folds.held_out)
        ]
        E = np.sum(by_fold, axis=0)
        shares = best_mixture(E, weight, usual=names.index(self.usual()), caution=CAUTION)
        shares = np.where(shares > LEAST_SHARE, shares, 0.0)  # a member of a thousandth costs a fit and says nothing
        shares = shares / shares.sum()
        own = np.eye(len(names))[names.index(OWN)]
        away = own_ridge_shares(E, shares, own, self.rows)
        task_shares = shares + away[:, None] * (own - shares)
        kept = np.flatnonzero((task_shares > 0).any(axis=0))
        squared = np.stack([mixture_errors(E, task_shares) for E in by_fold])
        members = [self.member(names[m]) for m in kept]
        return Mixture(members, shares[kept], task_shares[:, kept], Errors(squared, trials[0].errors.rows))

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
    """Squared errors of every task (T,) for the mixture p, (M,) or (T, M), of the models behind E (T, M, M)."""
    p = np.broadcast_to(p, E.shape[:2])
    return np.maximum(np.einsum("tm,tmk,tk->t", p, E, p), 0.0)


def own_ridge_shares(E: Array, p: Array, own: Array, rows: Array) -> Array:
    """How far every task (T,) goes from the mixture p (M,) to the mixture `own`, in [0, 1].

    With residuals r of p and s of `own`, held out, a task does best with x = <r, r - s> / ||r - s||^2, an estimate of
    variance sigma2 / ||r - s||^2. A task is one of many (x = 0) or a loner (x = 1): its share is the probability of the
    latter, given its x and how many of all tasks are loners, which their x tell. A plain choice per task would follow
    chance, and a normal distribution of x draws the few loners back to the others.

    Examples
    --------
    The first model has half the errors of the second in three tasks, and the second in the fourth; twenty rows each.

    >>> E = np.array([np.diag([20.0, 80.0])] * 3 + [np.diag([80.0, 20.0])])
    >>> own_ridge_shares(E, np.array([1.0, 0.0]), np.array([0.0, 1.0]), np.full(4, 20.0)).round(2)
    array([0., 0., 0., 1.])
    """
    toward = p - own
    apart = np.einsum("m,tmk,k->t", toward, E, toward)
    error = np.einsum("m,tmk,k->t", p, E, p)
    known = (rows > 1) & (apart > ROUNDING * error) & (error > 0)
    shares = np.zeros(len(E))
    if known.sum() < 2:
        return shares
    apart, error, freedom = apart[known], error[known], rows[known] - 1
    x = np.einsum("m,tmk,k->t", p, E[known], toward) / apart
    left = np.maximum(error - x**2 * apart, ROUNDING * error)
    # Few rows may fit a mixture of two by chance: variances are drawn towards that of all tasks.
    common = left.sum() / freedom.sum()
    variance = DOUBT * common * moderated(left / (common * freedom), freedom) / apart
    x = np.clip(x, 0.0, 1.0)
    log_odds = (x - 0.5) / variance  # of N(1, v) to N(0, v) at x
    loners = 0.05
    for _ in range(LONER_ROUNDS):
        chance = expit(log_odds + np.log(loners / (1 - loners)))
        loners = max(chance.sum() / (len(x) + PRIOR_TASKS), TINY)
    shares[known] = chance
    return shares


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
