"""How far an edge can be trusted: are its tasks kin, and are they joined, when the data are drawn anew?"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.explain.draws import FreshNoise, Reweighted
from kinfolk.explain.groupings import Pairs, together
from kinfolk.explain.joint import Joint, graph_of, joint_of, position, quietly, rows_like
from kinfolk.explain.kin import TEST_LEVEL, CommonPopulation, population_of, related
from kinfolk.methods.gamtl.alternate import Alternation
from kinfolk.methods.gamtl.coupling import GraphCoupling
from kinfolk.methods.gamtl.problem import Problem
from kinfolk.methods.gamtl.shown import shown_graph
from kinfolk.methods.model import Fitted, Model, as_model
from kinfolk.methods.structures import TaskGraph, heaviest_edges
from kinfolk.progress import Callback, report
from kinfolk.rows.gram import Array, GramStats
from kinfolk.rows.splits import generator
from kinfolk.solvers.graph.edges import entries
from kinfolk.threads import on_few_threads

STEPS = 15_000  # Gibbs steps in a resample: fewer than for `kinship`, as there are many resamples
SWEEPS = 3, 15  # but at least and at most so many per task, a third of which is not counted
AT_ONCE = 25  # resamples whose groups are drawn together: more take as long for each, and progress comes late
EVERY_PAIR = 1000  # tasks up to which every pair is judged, and beyond only those that are joined
TOLERANCE = 1e-4  # of the alternation in a resample
WEIGHTS_TOL = 1e-6  # residual of its last weight step: noise moves edges far more
ROUGH_TOL = 1e-4  # and of those before


@dataclass(frozen=True, eq=False)
class EdgeConfidence:
    """Confidence in every edge, and in the pairs that are not edges.

    Attributes
    ----------
    confidence : CSR (T, T); probability that the two tasks are kin, mean over resamples
    joined : CSR (T, T); share of resamples in whose shown graph the pair is joined
    adjacency : CSR (T, T); the fitted graph that is shown
    labels : task names (T,)
    n : resamples; resampled : what was resampled, in words
    """

    confidence: sparse.csr_array
    joined: sparse.csr_array
    adjacency: sparse.csr_array
    labels: NDArray[Any]
    n: int
    resampled: str

    def table(self) -> list[dict[str, Any]]:
        """The edges of the fitted graph, most trusted first."""
        return self._rows(sparse.triu(self.adjacency, k=1, format="coo"))

    def missing(self) -> list[dict[str, Any]]:
        """Pairs that are not joined in the fitted graph, but are in some resamples; most trusted first."""
        edge = self.adjacency.astype(bool)
        return self._rows(sparse.triu(self.joined - self.joined * edge, k=1, format="coo"))

    def of(self, task: Any, neighbor: Any) -> float:
        """Confidence in the edge between two tasks, by name."""
        i, j = (position(self.labels, name) for name in (task, neighbor))
        return float(self.confidence[i, j])

    def _rows(self, pairs: Any) -> list[dict[str, Any]]:
        i, j = (axis[pairs.data > 0] for axis in pairs.coords)
        weight, confidence, joined = (entries(M, i, j) for M in (self.adjacency, self.confidence, self.joined))
        order = np.lexsort((j, i, -weight, -confidence))
        columns = (self.labels[i], self.labels[j], weight, confidence, joined)
        rows = zip(*(column[order].tolist() for column in columns), strict=True)
        return [dict(zip(("task", "neighbor", "weight", "confidence", "joined"), row, strict=True)) for row in rows]

    def __repr__(self) -> str:
        rows = self.table()
        sure = sum(row["confidence"] > 0.9 for row in rows)
        edges = f"{len(rows)} edges, {sure} with confidence above 0.9"
        return f"EdgeConfidence({edges}; {self.n} resamples of {self.resampled})"


@on_few_threads
def edge_confidence(
    model: Fitted,
    X: Any = None,
    y: Any = None,
    *,
    n: int = 100,
    groups: Any = None,
    random_state: Any = 0,
    n_jobs: int | None = None,
    callback: Callback | None = None,
) -> EdgeConfidence:
    """Confidence in every edge of a fitted graph, in [0, 1].

    In each resample the groups of `kinship` are drawn again from its statistics, and the confidence in a pair is the
    probability that its tasks are in one group, mean over resamples. It is 0 where unrelated tasks look as related as
    these. The joint alternation runs again too, from its own independent fits, at the model's alpha, beta, gamma, ridge
    and metric; the other members of a mixture are added, and the graph that is shown at these coefficients says which
    pairs are joined. Being joined alone is no reason for confidence: the barrier gives every task some edge, and with
    many rows chance neighbours are stable too. What the number means and does not mean: docs/explanations.md.

    Parameters
    ----------
    model : fitted GAMTL, GAMTLCV or RBFGAMTL
    X, y : the rows of fit, for a bootstrap of rows; without them fresh noise is added to the stored statistics
    n : number of resamples
    groups : one label per row (sitting, day); whole groups are resampled
    n_jobs : resamples in parallel, with joblib
    callback : called with a `Progress` for every resample; up to 25 come at once

    Examples
    --------
    Tasks 0 to 5 have one set of slopes, 6 to 11 another.

    >>> from kinfolk import GAMTL
    >>> rng = np.random.default_rng(0)
    >>> X = np.column_stack([np.repeat(np.arange(12), 20), rng.normal(size=(240, 12))])
    >>> slopes = np.repeat(rng.normal(size=(2, 12)), 120, axis=0)
    >>> y = np.einsum("nd,nd->n", X[:, 1:], slopes) + 0.1 * rng.normal(size=240)
    >>> sure = edge_confidence(GAMTL(task=0).fit(X, y), n=10)
    >>> sure.of(0, 1) > 0.9, sure.of(5, 6) < 0.1
    (True, True)
    """
    if n < 1:
        raise ValueError(f"n={n} must be at least 1 resample")
    model = as_model(model, "edge_confidence")
    joint = joint_of(model, "edge_confidence")
    rng = generator(random_state)
    source, words = _source(model, joint, X, y, groups)
    # Resamples scatter around the data, and the data around the truth: together twice the noise.
    resample = _Resample(model, joint, _kin_among(model, joint), 2 * joint.cautious_noise, _pairs(joint.graph))
    kin = sparse.csr_array(2 * joint.gram.labels.shape)
    joined = kin.copy()
    rngs = rng.spawn(n)
    step = min(resample.at_once, -(-n // effective_n_jobs(n_jobs)))
    jobs = (delayed(resample.read)(source, rngs[k : k + step]) for k in range(0, n, step))
    done = itertools.count(1)
    for batch in Parallel(n_jobs=n_jobs, return_as="generator")(jobs):
        for probability, edges in batch:
            kin += probability
            joined += edges
            report(callback, "edge confidence", next(done), n)
    confidence, joined = (
        TaskGraph(sparse.csr_array(M / n), joint.gram.labels).expanded(model.labels).adjacency for M in (kin, joined)
    )
    adjacency = graph_of(model, "edge_confidence").adjacency
    return EdgeConfidence(confidence, joined, adjacency, model.labels, n, words)


def _source(model: Model, joint: Joint, X: Any, y: Any, groups: Any) -> tuple[FreshNoise | Reweighted, str]:
    """What resamples are drawn from, and its name."""
    if X is None and y is None:
        if groups is not None:
            raise ValueError("edge_confidence: groups are labels of rows, so pass X and y with them")
        return FreshNoise.of(joint.gram, joint.noise), "the noise"
    rows, features = rows_like(model, X, y, "edge_confidence")
    total = rows.gram(features, joint.gram.feature_names)
    source = Reweighted.of_rows(rows, features, total, groups)
    return source, "rows" if groups is None else f"{len(source.home)} groups of rows"


def _kin_among(model: Model, joint: Joint) -> CommonPopulation | None:
    """The population of the tasks, if any are more alike than chance makes them, by the test of `kinship`."""
    population = population_of(joint.gram, related(model), joint)
    if population is None or population.p_value(np.random.default_rng(0)) > TEST_LEVEL:
        return None
    return population


def _pairs(graph: TaskGraph) -> Pairs:
    """The pairs to be judged."""
    if len(graph.labels) <= EVERY_PAIR:
        return np.triu_indices(len(graph.labels), k=1)
    i, j, _ = heaviest_edges(graph.adjacency)
    return i, j


@dataclass(frozen=True, eq=False)
class _Resample:
    """Reads `pairs` in other statistics of the same tasks, with this `noise`; without a `population` none are kin."""

    model: Model
    joint: Joint
    population: CommonPopulation | None
    noise: Array
    pairs: Pairs

    @property
    def at_once(self) -> int:
        """How many resamples are read together."""
        return AT_ONCE if self.population is None else min(AT_ONCE, self.population.at_once(len(self.pairs[0])))

    def read(
        self, source: FreshNoise | Reweighted, rngs: Sequence[np.random.Generator]
    ) -> list[tuple[sparse.csr_array, sparse.csr_array]]:
        """Of some resamples, probabilities that pairs are kin, and the pairs joined in the shown graph, all (T, T)."""
        grams = [source.draw(rng) for rng in rngs]
        if grams[0].n_tasks != self.joint.gram.n_tasks:
            grams = [gram.reindex(self.joint.gram.labels) for gram in grams]
        kin = self._kin(grams, rngs)
        return [(k, self._shown(gram).astype(bool).astype(float)) for k, gram in zip(kin, grams, strict=True)]

    def _kin(self, grams: Sequence[GramStats], rngs: Sequence[np.random.Generator]) -> list[sparse.csr_array]:
        T = grams[0].n_tasks
        if self.population is None:
            return [sparse.csr_array((T, T)) for _ in grams]
        sweeps = int(np.clip(STEPS // T, *SWEEPS))
        uncounted = sweeps // 3
        said = self.population.messages(grams, self.noise)
        found = []
        for shares in together(said, rngs, self.pairs, uncounted=uncounted, counted=sweeps - uncounted):
            i, j = (axis[shares > 0] for axis in self.pairs)
            upper = sparse.coo_array((shares[shares > 0], (i, j)), shape=(T, T))
            found.append(sparse.csr_array(upper + upper.T))
        return found

    def _shown(self, gram: GramStats) -> sparse.csr_array:
        """The graph that would be shown."""
        # Where alpha, beta, gamma are given, the joint optimum itself is shown; else a graph step at coefficients.
        if self.joint.recipe.gamma is not None:
            return _solved(self.joint.on(gram)).graph.value
        graph, _ = shown_graph(gram, *self._coefficients(gram), self.joint.recipe)
        return graph.adjacency

    def _coefficients(self, gram: GramStats) -> tuple[Array, Array]:
        """Of the parts by which tasks are compared; those with a graph are solved for weights and graph."""
        coef = np.zeros(gram.b.shape)
        intercept = np.zeros(gram.n_tasks)
        for part in self.model.compared:
            if not (part.shares > 0).any():
                continue
            equations = part.equations(gram)
            if isinstance(part.coupling, GraphCoupling):
                V = _solved(part.coupling.problem(equations)).weights.value
            else:
                inverse: Any = part.coupling.inverse(equations)
                V = inverse.unknowns(equations.b)
            W, c = part.coefficients(equations, V)
            coef += part.shares[:, None] * W
            intercept += part.shares * c
        return coef, intercept


def _solved(problem: Problem) -> Alternation:
    return quietly(replace(problem, weights_tol=WEIGHTS_TOL, rough_tol=ROUGH_TOL), tol=TOLERANCE)
