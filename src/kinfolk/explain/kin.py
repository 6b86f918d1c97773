"""Which pairs of tasks are kin: how probable it is that two tasks share their slopes, from statistics alone.

The slopes of a task are w = m + e, with m common to the tasks of a group and e its own; a task may stand alone. Sigma
is the covariance of all slopes, R R' and V its parts in m and in e: along directions that vary at least a fiftieth as
much as the widest, groups have the share omega of the variance within them; what varies less is each task's own (three
groups span two directions, and what an estimated Sigma has in others is noise). With noise sigma2 the likelihood of a
group is a closed form of its G and b. Integrating out e leaves K = (I + G V / sigma2)^-1 G / sigma2 as what a task
knows about m. With N = R' K R and u = R' (I + G V / sigma2)^-1 (b - G mu) / sigma2, a group has the evidence

    A = U' (I + S)^-1 U / 2 - log det (I + S) / 2,    U and S the sums of u and N over its tasks.

Two numbers follow. Whether there are kin at all is a test: the evidence of all pairs against that of tasks drawn from
the population with the same inputs and noise. If it says no, all probabilities are 0. If it says yes, groupings are
drawn from their posterior distribution, omega among them, and the probability of a pair is the share of draws in which
the two are in one group. Pairs count as found, the surest first, as long as a twentieth of them at most is expected to
be false.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit, logit

from kinfolk.explain.groupings import Index, Messages, Pairs, evidence_beyond_rounding, together
from kinfolk.explain.joint import Joint, joint_behind, position, shrunk_noise
from kinfolk.methods.gamtl.defaults import feature_scale
from kinfolk.methods.model import Fitted, Model, as_model
from kinfolk.rows.gram import TINY, Array, GramStats
from kinfolk.rows.splits import generator
from kinfolk.solvers.batched import square_root, times
from kinfolk.solvers.centre import blocks_around_centre
from kinfolk.solvers.mixed import mixed_model
from kinfolk.solvers.tolerances import MARGIN
from kinfolk.threads import on_few_threads

WITHIN = (0.005, 0.02, 0.05)  # omega: share of the variance between tasks that is left within a group
LEAST_DIRECTION = 0.02  # of the largest variance: directions that vary less say nothing about groups
FALSE_RATE = 0.05  # of the pairs that count as kin, expected not to be; where groups overlap it is up to twice as many
SURE = 0.9  # probability from which a single pair is called sure
NULL_SETS = 39  # of unrelated tasks: the level of the test is 1 / 40 times how many of them may look more related
TEST_LEVEL = 0.05
NULL_TASKS = 60  # tasks in each of these sets
MOST_TASKS = 400  # up to which all pairs are judged by default
STEPS = 2_000  # Gibbs draws of a chain before its groupings are counted
SWEEPS = 7, 20  # but at least and at most so many per task: car parks, which have no clear groups, need all of them
COUNTED = 4  # groupings for every one that is not, shared by the chains
CHAINS = 12
CHAINS_NUMBERS = 10_000_000  # that chains hold together: 80 MB
SHARE_ROUNDS = 30  # of EM for the share of kin
SHARES = 1e-6, 0.99  # least and largest: at 0 and 1 EM would stay
ROUGHLY = 1e-2  # tolerance of the mixed model: the population is an estimate from few tasks
LEAST_NOISE = 1e-9  # of the variance between tasks
BLOCK = 4_000_000  # numbers of the matrices of pairs that are held at a time

# Command line, summary and page ask for the same: a model is judged once.
_KNOWN: WeakKeyDictionary[Model, dict[int, Kinship | None]] = WeakKeyDictionary()


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
        pairs = int(np.triu(self.pairs()).sum())
        return (
            f"Kinship({pairs} pairs of {len(self.labels)} tasks, {FALSE_RATE:.0%} of them at most expected to be false)"
        )

    def pairs(self, false_rate: float = FALSE_RATE) -> NDArray[np.bool_]:
        """Which pairs count as kin, (T, T): the surest, as long as this share of them at most is expected to be false.

        Examples
        --------
        Half of 1 - 0.98 and 1 - 0.94 is 0.04; a third pair of 0.6 would bring the expected share to 0.16.

        >>> P = np.array([[0.0, 0.98, 0.94], [0.98, 0.0, 0.6], [0.94, 0.6, 0.0]])
        >>> Kinship(P, np.arange(3), 0.025).pairs().astype(int).tolist()
        [[0, 1, 1], [1, 0, 0], [1, 0, 0]]
        """
        p = self.probability[np.triu_indices(len(self.probability), k=1)]
        p = np.sort(p[p > 0.5])[::-1]  # a pair that is rather not kin is never listed
        expected = np.cumsum(1 - p) / np.arange(1, len(p) + 1)
        least = p[expected <= false_rate][-1:]
        return self.probability >= (least[0] if len(least) else np.inf)


@on_few_threads
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
    if not isinstance(random_state, int):
        return _judged(model, random_state)
    judged = _KNOWN.setdefault(model, {})
    if random_state not in judged:
        judged[random_state] = _judged(model, random_state)
    return judged[random_state]


def _judged(model: Model, random_state: Any) -> Kinship | None:
    if model.gram is None or not 4 <= model.seen.sum() <= MOST_TASKS:
        return None
    T = len(model.labels)
    at = np.flatnonzero(model.seen)
    i, j = np.triu_indices(len(at), k=1)
    probability = np.zeros((T, T))
    p_value, probability[at[i], at[j]] = kinship_of_pairs(model, (i, j), random_state)
    return Kinship(probability + probability.T, model.labels, p_value)


def kinship_of_pairs(
    model: Model, pairs: Pairs, random_state: Any, *, groupings: int | None = None
) -> tuple[float, Array]:
    """The p-value of the test for kin, and the probability that two tasks are kin for pairs of the tasks with rows.

    Parameters
    ----------
    pairs : positions of both tasks among those with rows
    groupings : how many are drawn at least; by default a few per task, as their number decides how far chains go
    """
    rng = np.random.default_rng(random_state if isinstance(random_state, int) else generator(random_state))
    population = population_of(model.known, related(model), joint_behind(model))
    p_value = 1.0 if population is None else population.p_value(rng)
    if population is None or p_value > TEST_LEVEL:
        return p_value, np.zeros(len(pairs[0]))
    chains = rng.spawn(min(CHAINS, population.at_once(len(pairs[0]))))
    uncounted = int(np.clip(STEPS // len(population.noise), *SWEEPS))
    counted = -(-(groupings or COUNTED * uncounted) // len(chains))
    shares = together(population.messages(), chains, pairs, uncounted=uncounted, counted=counted)
    return p_value, shares.mean(axis=0)


@dataclass(frozen=True, eq=False)
class CommonPopulation:
    """The statistics of all tasks with rows, their noise, and the population that they would come from alone.

    Features are in units of `scale`.
    """

    gram: GramStats
    noise: Array
    mean: Array
    covariance: Array
    scale: Array

    def at_once(self, pairs: int) -> int:
        """How many chains of groupings are drawn together, for so many pairs."""
        T, d = self.gram.b.shape
        return max(1, CHAINS_NUMBERS // (len(WITHIN) * T * (d + 1) ** 2 + 3 * pairs))

    def ratios(self, b: Array, tasks: Index) -> Array:
        """Log likelihood ratios (pairs, S) of the pairs i < j of tasks, for S sets of their statistics b (S, T, d)."""
        u, N, _ = self._evidence_about_groups(self.gram.G[tasks], b, self.noise[tasks], WITHIN[-1])
        u = np.moveaxis(u, 0, -1)
        alone = _evidence_of_sets(u, N)
        i, j = np.triu_indices(len(tasks), k=1)
        ratios = np.empty((len(i), len(b)))
        step = max(1, BLOCK // (N[0].size + u[0].size))
        for start in range(0, len(i), step):
            a = i[start : start + step]
            c = j[start : start + step]
            # One m for both against an m for each: what two tasks say about a common m adds up.
            ratios[start : start + step] = _evidence_of_sets(u[a] + u[c], N[a] + N[c]) - alone[a] - alone[c]
        return ratios

    def _evidence_about_groups(self, G: Array, b: Array, noise: Array, within: float) -> tuple[Array, Array, Array]:
        """u (S, T, r), N (T, r, r) and the constant (S,) of `Messages`, for S sets of statistics b (S, T, d)."""
        value, vector = np.linalg.eigh(self.covariance)
        wide = value > LEAST_DIRECTION * max(float(value[-1]), TINY)
        R = vector[:, wide] * np.sqrt((1 - within) * value[wide])
        V = (vector * np.where(wide, within * value, np.maximum(value, 0.0))) @ vector.T
        information = G / noise[:, None, None]
        # X'(y - X mu) / sigma2: what the rows say beyond the mean of the population.
        excess = (b - G @ self.mean) / noise[:, None]
        p = len(self.mean)
        # In K = V (I + G V)^-1, D' = (I + G V)^-1 and H = D'G nothing is lost where rows tell far more than V leaves.
        K, _, D, H = (x.reshape(G.shape) for x in blocks_around_centre(information.reshape(-1, p, p), V))
        h = np.matmul(excess[..., None, :], D)[..., 0, :]
        logdet = np.maximum(np.linalg.slogdet(np.eye(p) + information @ V)[1], 0.0)
        # The likelihood of e alone: it differs between widths, not between groupings.
        fit = np.einsum("...i,...ij,...j->...", excess, K, excess)
        return h @ R, R.T @ H @ R, 0.5 * fit.sum(axis=-1) - 0.5 * logdet.sum(axis=-1)

    def messages(self) -> Messages:
        """What every task says about the m of its group at all widths."""
        by_width = [self._evidence_about_groups(self.gram.G, self.gram.b[None], self.noise, width) for width in WITHIN]
        T, r = by_width[0][0].shape[1:]
        bordered = np.zeros((T, len(WITHIN), r + 1, r + 1))
        for w, (u, N, _) in enumerate(by_width):
            bordered[:, w, :r, :r] = N
            bordered[:, w, r, :r] = u[0]
        return Messages(bordered, np.concatenate([constant for *_, constant in by_width]))

    def p_value(self, rng: np.random.Generator) -> float:
        """Share of sets of unrelated tasks that look as related as these."""
        T = len(self.noise)
        tasks = np.arange(T) if T <= NULL_TASKS else np.sort(rng.choice(T, NULL_TASKS, replace=False))
        root = square_root(self.covariance)
        noise_root = square_root(self.gram.G[tasks]) * np.sqrt(self.noise[tasks])[:, None, None]
        sets = [self.gram.b[tasks]]
        for _ in range(NULL_SETS):
            # The same inputs, noise and variance of slopes; only that slopes are drawn one by one, so nobody is kin.
            W = self.mean + rng.normal(size=(len(tasks), len(self.mean))) @ root.T
            e = rng.normal(size=W.shape)
            sets.append(times(self.gram.G[tasks], W) + times(noise_root, e))
        observed, *unrelated = [evidence_of_kin(ratio) for ratio in self.ratios(np.stack(sets), tasks).T]
        # If nobody is kin the observed set is one of 1 + NULL_SETS that are alike, so that the level would be exact
        # were the population known. Estimated from these very tasks, it suits them better than those drawn: the true
        # level is lower (docs/explanations.md).
        return (1 + sum(one >= observed for one in unrelated)) / (1 + NULL_SETS)


def related(model: Model) -> NDArray[np.bool_]:
    """Which of the tasks with rows do not stand alone; all, if hardly any are left."""
    count = int(model.seen.sum())
    kin = np.ones(count, bool) if model.structure is None else model.structure.groups()[model.seen] >= 0
    return kin if kin.sum() >= 4 else np.ones(count, bool)


def population_of(gram: GramStats, kin: NDArray[np.bool_], joint: Joint | None) -> CommonPopulation | None:
    """The population that tasks would come from if nothing but their mean related them; None if they do not vary.

    It is that of the tasks in `kin`: a few far out would make it wide, and all others look alike. Where tasks have no
    more rows than features, noise is that of the `joint` fit, if there is one.
    """
    scale = feature_scale(gram)
    gram = gram.rescaled(scale)
    if not (gram.n[kin] > 1).any():  # a row or less per task: no slopes
        return None
    # Slopes often vary along few common directions, and then pairs are near that no group makes: all covariances are
    # estimated where there are tasks enough for them.
    form = "full" if kin.sum() >= 2 * gram.n_features else "diagonal"
    effects = mixed_model(gram.select(kin), form, "free", tol=ROUGHLY)
    noise = shrunk_noise(gram)
    if noise is None:
        # A mixed model of so few rows explains too much: the groups of Syn 1 fell apart in two of eight draws.
        noise = np.full(len(gram.n), effects.sigma2) if joint is None else joint.noise
    if np.trace(effects.covariance) <= MARGIN * max(float(noise.mean()), TINY):
        return None
    return CommonPopulation(gram, _at_least(noise, effects.covariance), effects.mean, effects.covariance, scale)


def _at_least(noise: Array, covariance: Array) -> Array:
    """Noise that is not quite 0, so that it can be divided by, where rows fit exactly."""
    return np.maximum(noise, LEAST_NOISE * float(np.trace(covariance)))


def _evidence_of_sets(u: Array, N: Array) -> Array:
    """u' (I + N)^-1 u / 2 - log det (I + N) / 2 of pairs or tasks with the same N in S sets: (m, S) for u (m, r, S)."""
    M = np.eye(N.shape[-1]) + N
    try:
        L = np.linalg.cholesky(M)
    except np.linalg.LinAlgError:
        return evidence_beyond_rounding(M[:, None], np.moveaxis(u, 1, -1))
    z = np.linalg.solve(L, u)
    logdet = np.log(np.diagonal(L, axis1=1, axis2=2)).sum(axis=1, keepdims=True)
    return 0.5 * np.square(z).sum(axis=1) - logdet


def evidence_of_kin(ratio: Array) -> float:
    """Log likelihood of the best share of kin among all pairs, as if these were independent, over that of none."""
    share = 0.1
    for _ in range(SHARE_ROUNDS):
        # EM: the best share is the mean probability that a pair is kin, given its log ratio and the share.
        share = float(np.clip(expit(ratio + logit(share)).mean(), *SHARES))
    return float(np.logaddexp(np.log1p(-share), np.log(share) + ratio).sum())
