"""Which pairs of tasks are kin: how probable it is that two tasks share their slopes, from statistics alone.

The slopes of a task are w = m + e, with m ~ N(mu, (1 - omega) Sigma) common to the tasks of a group and e ~
N(0, omega Sigma) its own; a group may be a single task. With noise sigma2 the likelihood of a group is a closed form of
its G and b. Integrating out e leaves K = (I + G omega Sigma / sigma2)^-1 G / sigma2 as what a task knows about m. With
R R' = (1 - omega) Sigma, N = R' K R and u = R' (I + G omega Sigma / sigma2)^-1 (b - G mu) / sigma2, a group has the
evidence

    A = U' (I + S)^-1 U / 2 - log det (I + S) / 2,    U and S the sums of u and N over its tasks.

Two numbers follow. Whether there are kin at all is a test: the evidence of all pairs against that of tasks drawn from
the population with the same inputs and noise. If it says no, all probabilities are 0. If it says yes, groupings are
drawn from their posterior distribution (Chinese restaurant prior, Gibbs steps on single tasks), and the probability of
a pair is the share of draws in which the two are in one group. Of pairs with at least 0.9, one in ten is expected to be
false.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit, gammaln, logit

from kinfolk.explain.joint import graph_of, own_noise, position
from kinfolk.methods.gamtl.defaults import feature_scale
from kinfolk.methods.model import Fitted, Model, as_model
from kinfolk.methods.structures import heaviest_edges
from kinfolk.rows.gram import TINY, Array, GramStats
from kinfolk.solvers.batched import square_root, times
from kinfolk.solvers.random_effects import fit_random_effects

WITHIN = 0.05  # omega: share of the variance between tasks that is left within a group
SURE = 0.9  # probability from which a pair counts as kin; one in ten of these may be false
NULL_SETS = 39  # of unrelated tasks: the level of the test is 1 / 40 times how many of them may look more related
TEST_LEVEL = 0.05
NULL_TASKS = 60  # tasks in each of these sets
MOST_TASKS = 400  # up to which all pairs are judged by default
SHARE_ROUNDS = 30  # of EM for the share of kin
SWEEPS = 6_000  # Gibbs steps in all, at least LEAST_SWEEPS per task; the first third of them is not counted
LEAST_SWEEPS = 21
MOST_SWEEPS = 60
BLOCK = 20_000  # pairs whose matrices are held at a time


class SureEdge(NamedTuple):
    """An edge with the probability that its tasks are kin; a list of these makes a data frame."""

    task: Any
    neighbor: Any
    weight: float
    confidence: float


@dataclass(frozen=True, eq=False)
class Kinship:
    """How probable it is that two tasks are kin.

    Attributes
    ----------
    probability : (T, T), 0 on the diagonal; all 0 where nothing stands out
    labels : task names (T,)
    p_value : how often unrelated tasks look as related as these
    """

    probability: Array
    labels: NDArray[Any]
    p_value: float

    @property
    def found(self) -> bool:
        """Whether any tasks are more alike than chance makes them."""
        return self.p_value <= TEST_LEVEL

    @property
    def confidence(self) -> sparse.csr_array:
        """The probabilities as a sparse matrix."""
        return sparse.csr_array(self.probability)

    def of(self, task: Any, neighbor: Any) -> float:
        """The probability that two tasks are kin, by name."""
        return float(self.probability[position(self.labels, task), position(self.labels, neighbor)])

    def __repr__(self) -> str:
        if not self.found:
            return f"Kinship(no groups: these {len(self.labels)} tasks scatter around one mean)"
        sure = int((np.triu(self.probability) >= SURE).sum())
        return f"Kinship({sure} pairs of {len(self.labels)} tasks with a probability of at least {SURE})"


def kinship(model: Fitted, *, random_state: Any = 0) -> Kinship | None:
    """How probable it is that two tasks are kin; None for fewer than four or more than 400 tasks with rows.

    Parameters
    ----------
    model : any fitted method; the probabilities come from its statistics and do not depend on its graph
    random_state : draws the unrelated tasks

    Examples
    --------
    Tasks 0 to 5 have one set of slopes, 6 to 11 another.

    >>> from kinfolk import GAMTL
    >>> rng = np.random.default_rng(0)
    >>> X = np.column_stack([np.repeat(np.arange(12), 9), rng.normal(size=(108, 6))])
    >>> slopes = np.repeat(rng.normal(size=(2, 6)), 54, axis=0)
    >>> y = np.einsum("nd,nd->n", X[:, 1:], slopes) + 0.1 * rng.normal(size=108)
    >>> found = kinship(GAMTL(task=0).fit(X, y))
    >>> found.of(0, 1) > 0.9, found.of(5, 6) < 0.1
    (True, True)
    """
    model = as_model(model, "kinship")
    if model.gram is None or not 4 <= model.seen.sum() <= MOST_TASKS:
        return None
    T = len(model.labels)
    population = population_of(model.known, related(model))
    rng = np.random.default_rng(random_state)
    p_value = 1.0 if population is None else population.p_value(rng)
    probability = np.zeros((T, T))
    if population is not None and p_value <= TEST_LEVEL:
        sweeps = int(np.clip(SWEEPS // len(population.noise), LEAST_SWEEPS, MOST_SWEEPS))
        probability[np.ix_(model.seen, model.seen)] = population.together(rng, sweeps)
    return Kinship(probability, model.labels, p_value)


def sure_edges(model: Fitted) -> list[SureEdge]:
    """The edges of a fitted graph, heaviest first, each with the probability that its tasks are kin.

    NaN where `kinship` does not judge, beyond 400 tasks.
    """
    graph = graph_of(model, "edges")
    known = kinship(model)
    i, j, weight = heaviest_edges(graph.adjacency)
    sure = np.full(len(i), np.nan) if known is None else known.probability[i, j]
    names = graph.labels.tolist()
    ends = zip(i.tolist(), j.tolist(), weight.tolist(), sure.tolist(), strict=True)
    return [SureEdge(names[a], names[b], w, c) for a, b, w, c in ends]


@dataclass(frozen=True, eq=False)
class Scatter:
    """The statistics of all tasks with rows, their noise, and the population that they would come from alone.

    Features are in units of `scale`.
    """

    gram: GramStats
    noise: Array
    mean: Array
    covariance: Array
    scale: Array

    def on(self, gram: GramStats, noise: Array) -> Self:
        """The same population, of which other statistics of the same tasks come, with other noise."""
        return replace(self, gram=gram.rescaled(self.scale), noise=_at_least(noise, self.covariance))

    def ratios(self, b: Array, tasks: NDArray[np.intp]) -> Array:
        """Log likelihood ratio of every pair i < j of tasks whose statistics b are given."""
        u, N = self.messages(b, tasks)
        alone = _evidence(u, N)
        i, j = np.triu_indices(len(tasks), k=1)
        found = np.empty(len(i))
        for start in range(0, len(i), BLOCK):
            a = i[start : start + BLOCK]
            c = j[start : start + BLOCK]
            both = _evidence(u[a] + u[c], N[a] + N[c])
            found[start : start + BLOCK] = both - alone[a] - alone[c]
        return found

    def messages(self, b: Array, tasks: NDArray[np.intp]) -> tuple[Array, Array]:
        """What every task says about the m of its group: u (k, r) and N (k, r, r)."""
        value, vector = np.linalg.eigh(self.covariance)
        kept = value > 1e-8 * max(float(value[-1]), TINY)
        R = vector[:, kept] * np.sqrt((1 - WITHIN) * value[kept])
        information = self.gram.G[tasks] / self.noise[tasks, None, None]
        away = (b - self.gram.G[tasks] @ self.mean) / self.noise[tasks, None]
        wide = np.eye(len(self.mean)) + WITHIN * information @ self.covariance
        K = np.linalg.solve(wide, information)
        h = np.linalg.solve(wide, away[:, :, None])[:, :, 0]
        return h @ R, R.T @ K @ R

    def p_value(self, rng: np.random.Generator) -> float:
        """Share of sets of unrelated tasks that look as related as these."""
        T = len(self.noise)
        tasks = np.arange(T) if T <= NULL_TASKS else np.sort(rng.choice(T, NULL_TASKS, replace=False))
        observed = evidence_of_kin(self.ratios(self.gram.b[tasks], tasks))
        root = square_root(self.covariance)
        noise_root = square_root(self.gram.G[tasks]) * np.sqrt(self.noise[tasks])[:, None, None]
        above = 0
        for _ in range(NULL_SETS):
            W = self.mean + rng.normal(size=(len(tasks), len(self.mean))) @ root.T
            e = rng.normal(size=W.shape)
            b = times(self.gram.G[tasks], W) + times(noise_root, e)
            above += evidence_of_kin(self.ratios(b, tasks)) >= observed
        return (1 + above) / (1 + NULL_SETS)

    def together(self, rng: np.random.Generator, sweeps: int) -> Array:
        """Share of drawn groupings in which two tasks are in one group, (T, T) with zero diagonal."""
        T = len(self.noise)
        groups = _Groups(*self.messages(self.gram.b, np.arange(T)))
        counted = np.zeros((T, T))
        alpha = 1.0
        for sweep in range(sweeps):
            for t in rng.permutation(T):
                groups.draw(t, alpha, rng)
            alpha = _draw_alpha(int((groups.size > 0).sum()), T, rng)
            if sweep >= sweeps // 3:
                counted += groups.member[:, None] == groups.member
        np.fill_diagonal(counted, 0.0)
        return counted / (sweeps - sweeps // 3)


def related(model: Model) -> NDArray[np.bool_]:
    """Which of the tasks with rows do not stand alone; all, if hardly any are left."""
    count = int(model.seen.sum())
    kin = np.ones(count, bool) if model.structure is None else model.structure.groups()[model.seen] >= 0
    return kin if kin.sum() >= 4 else np.ones(count, bool)


def population_of(gram: GramStats, kin: NDArray[np.bool_]) -> Scatter | None:
    """The population that tasks would come from if nothing but their mean related them; None if they do not vary.

    It is that of the tasks in `kin`: a few far out would make it wide, and all others look alike.
    """
    scale = feature_scale(gram)
    gram = gram.rescaled(scale)
    if not (gram.n > 1).any():  # a row or less per task: no slopes
        return None
    # Slopes often vary along few common directions, and then pairs are near that no group makes: all covariances are
    # estimated where there are tasks enough for them.
    form = "full" if kin.sum() >= 2 * gram.n_features else "diagonal"
    effects = fit_random_effects(gram.select(kin), covariance=form, intercept="free", tol=1e-2)
    noise = own_noise(gram, effects.sigma2)
    spread = float(np.trace(effects.covariance))
    if spread <= 1e-12 * max(float(noise.mean()), TINY):
        return None
    return Scatter(gram, _at_least(noise, effects.covariance), effects.mean, effects.covariance, scale)


def _at_least(noise: Array, covariance: Array) -> Array:
    """Noise that is not quite 0, so that it can be divided by, where rows fit exactly."""
    return np.maximum(noise, 1e-9 * float(np.trace(covariance)))


class _Groups:
    """A grouping of all tasks, with the sums over every group; at first all tasks are outside."""

    def __init__(self, u: Array, N: Array) -> None:
        self.u = u
        self.N = N
        self.alone = _evidence(u, N)
        self.member = np.full(len(u), -1)
        self.size = np.zeros(len(u) + 1)
        self.U = np.zeros((len(u) + 1, u.shape[1]))
        self.S = np.zeros((len(u) + 1, *N.shape[1:]))

    def draw(self, t: int, alpha: float, rng: np.random.Generator) -> None:
        """A group for one task given those of all others: an old one by its size and evidence, or a new one."""
        if self.member[t] >= 0:
            self._move(t, self.member[t], -1)
        there = np.flatnonzero(self.size > 0)
        gain = _evidence(self.U[there] + self.u[t], self.S[there] + self.N[t]) - _evidence(self.U[there], self.S[there])
        weight = np.append(np.log(self.size[there]) + gain, np.log(alpha) + self.alone[t])
        p = np.cumsum(np.exp(weight - weight.max()))
        chosen = int(np.searchsorted(p, p[-1] * rng.random()))
        new = int(np.argmin(self.size))  # the first empty place
        self.member[t] = there[chosen] if chosen < len(there) else new
        self._move(t, self.member[t], 1)

    def _move(self, t: int, group: int, sign: int) -> None:
        self.size[group] += sign
        self.U[group] += sign * self.u[t]
        self.S[group] += sign * self.N[t]


def _draw_alpha(count: int, T: int, rng: np.random.Generator) -> float:
    """How ready the prior is to open groups, given how many there are among T tasks; on a grid."""
    grid = np.geomspace(0.1, 10.0 * T, 25)
    weight = count * np.log(grid) + gammaln(grid) - gammaln(grid + T)
    p = np.exp(weight - weight.max())
    return float(rng.choice(grid, p=p / p.sum()))


def _evidence(u: Array, N: Array) -> Array:
    """u' (I + N)^-1 u / 2 - log det (I + N) / 2 of every task or group."""
    L = np.linalg.cholesky(np.eye(N.shape[-1]) + N)
    z = np.linalg.solve(L, u[:, :, None])[:, :, 0]
    return 0.5 * np.square(z).sum(axis=1) - np.log(np.diagonal(L, axis1=1, axis2=2)).sum(axis=1)


def evidence_of_kin(ratio: Array) -> float:
    """Log likelihood of the best share of kin among all pairs, as if these were independent, over that of none."""
    share = 0.1
    for _ in range(SHARE_ROUNDS):
        # EM: the best share is the mean probability that a pair is kin, given its log ratio and the share.
        share = float(np.clip(expit(ratio + logit(share)).mean(), 1e-6, 0.99))
    return float(np.logaddexp(np.log1p(-share), np.log(share) + ratio).sum())
