"""How far an edge can be trusted: does it come back when the data are drawn anew, and closer than chance brings it?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.explain.draws import Blocks, FreshNoise, Unrelated
from kinfolk.explain.joint import Joint, graph_of, joint_of, quietly, rows_like
from kinfolk.methods.gamtl.calibrate import COUPLED, calibrated, theta_at_start
from kinfolk.methods.gamtl.coupling import GraphCoupling
from kinfolk.methods.gamtl.problem import Problem
from kinfolk.methods.gamtl.shown import shown_graph
from kinfolk.methods.model import Fitted, Model, Part, as_model
from kinfolk.methods.structures import TaskGraph
from kinfolk.progress import Callback, report
from kinfolk.rows.fold_numbers import generator
from kinfolk.rows.gram import TINY, Array, GramStats
from kinfolk.solvers.graph.edges import entries
from kinfolk.solvers.graph.pairs import pair_distances

CHANCE_SETS = 40  # sets of unrelated tasks that say how close chance brings a pair
CHANCE = 0.2  # share of such sets whose closest pair of all would count in a single resample
FALSE = 0.1  # of the pairs that count, the share that chance alone would bring as close
EVERY_PAIR = 1000  # tasks up to which every pair is measured, and beyond only those that are joined
TOLERANCE = 1e-4  # of the alternation in a resample


@dataclass(frozen=True, eq=False)
class EdgeConfidence:
    """Confidence in every edge, and in the pairs that are not edges.

    Attributes
    ----------
    confidence : CSR (T, T); share of resamples in which the pair is closer than `level`
    joined : CSR (T, T); share of resamples in whose shown graph the pair is joined
    distance : CSR (T, T); relative squared distance of the joined pairs in the fitted model, see `edge_confidence`
    adjacency : CSR (T, T); the fitted graph that is shown
    labels : task names (T,)
    level : the relative distance below which a pair counts
    n : resamples; resampled : what was resampled, in words
    """

    confidence: sparse.csr_array
    joined: sparse.csr_array
    distance: sparse.csr_array
    adjacency: sparse.csr_array
    labels: NDArray[Any]
    level: float
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
        values = [entries(M, i, j) for M in (self.adjacency, self.confidence, self.joined, self.distance)]
        order = np.lexsort((j, i, -values[0], -values[1]))
        names = self.labels.tolist()
        return [
            {
                "task": names[i[k]],
                "neighbor": names[j[k]],
                "weight": float(values[0][k]),
                "confidence": float(values[1][k]),
                "joined": float(values[2][k]),
                "distance": float(values[3][k]) if values[0][k] > 0 else None,
            }
            for k in order
        ]

    def __repr__(self) -> str:
        rows = self.table()
        sure = sum(row["confidence"] > 0.9 for row in rows)
        return (
            f"EdgeConfidence({len(rows)} edges, {sure} with confidence above 0.9; {self.n} resamples of "
            f"{self.resampled}, a pair counts below {self.level:.3g} of the typical squared distance)"
        )


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

    Each resample runs the joint alternation again, from its own independent fits, at the model's alpha, beta, gamma,
    ridge and metric, adds the other members of a mixture, and reads the graph that is shown at these coefficients. The
    relative distance of a pair is its squared distance in that graph (`graph_metric`) over the mean of all pairs of
    tasks that are not outliers. A pair counts in a resample if this is below `level`: at most a tenth of the pairs that
    count would be as close in sets of unrelated tasks (same inputs, noise and parameters, coefficients drawn
    independently around a common mean), or no pair at all in four of five such sets. Being joined is not enough,
    because the barrier gives every task some edge, and with many rows chance neighbours are stable too; and it is not
    needed, because of many tasks that are alike each is joined to a few. What the number means and does not mean:
    docs/explanations.md.

    Parameters
    ----------
    model : fitted GAMTL, GAMTLCV or RBFGAMTL
    X, y : the rows of fit, for a bootstrap of rows; without them fresh noise is added to the stored statistics
    n : number of resamples
    groups : one label per row (sitting, day); whole groups are resampled
    n_jobs : resamples in parallel, with joblib
    callback : called with a `Progress` after every resample

    Examples
    --------
    Tasks 0 to 5 have one set of slopes, 6 to 11 another.

    >>> from kinfolk import GAMTL
    >>> rng = np.random.default_rng(0)
    >>> X = np.column_stack([np.repeat(np.arange(12), 9), rng.normal(size=(108, 6))])
    >>> slopes = np.repeat(rng.normal(size=(2, 6)), 54, axis=0)
    >>> y = np.einsum("nd,nd->n", X[:, 1:], slopes) + 0.1 * rng.normal(size=108)
    >>> sure = edge_confidence(GAMTL(task=0).fit(X, y), n=10)
    >>> sure.of(0, 1), sure.of(5, 6)
    (1.0, 0.0)
    """
    if n < 1:
        raise ValueError(f"n={n} must be at least 1 resample")
    model = as_model(model, "edge_confidence")
    joint = joint_of(model, "edge_confidence")
    rng = generator(random_state)
    kin = joint.graph.groups() >= 0
    reader = _Reader(model, joint, kin if kin.sum() >= 3 else np.ones_like(kin))
    source, words = _source(model, joint, X, y, groups, rng)
    unrelated = Unrelated.of(joint, reader.kin)
    draws: list[Any] = [partial(reader.by_chance, unrelated) for _ in range(CHANCE_SETS)]
    draws += [partial(reader.resample, source) for _ in range(n)]
    found = []
    jobs = (delayed(draw)(own) for draw, own in zip(draws, rng.spawn(len(draws)), strict=True))
    for k, read in enumerate(Parallel(n_jobs=n_jobs, return_as="generator")(jobs)):
        found.append(read)
        report(callback, "edge confidence", k + 1, len(draws))
    chance = [read.distance.data for read in found[:CHANCE_SETS]]
    level = counting_level(chance, [read.distance.data for read in found[CHANCE_SETS:]])
    return _summary(reader, found[CHANCE_SETS:], level, words)


def _source(
    model: Model, joint: Joint, X: Any, y: Any, groups: Any, rng: np.random.Generator
) -> tuple[FreshNoise | Blocks, str]:
    """What resamples are drawn from, and its name."""
    if X is None and y is None:
        if groups is not None:
            raise ValueError("edge_confidence: groups are labels of rows, so pass X and y with them")
        return FreshNoise.of(joint.gram, joint.noise), "the noise"
    rows, features = rows_like(model, X, y, "edge_confidence")
    total = rows.gram(features, joint.gram.feature_names)
    blocks = Blocks.of_rows(rows, features, total, groups, rng)
    return blocks, "rows" if groups is None else f"{len(blocks.home)} groups of rows"


class _Read(NamedTuple):
    """The graph that would be shown, and relative distances of pairs, both symmetric (T, T)."""

    adjacency: sparse.csr_array
    distance: sparse.csr_array


@dataclass(frozen=True, eq=False)
class _Reader:
    """Reads the graph that would be shown from other statistics of the same tasks; those in `kin` are no outliers."""

    model: Model
    joint: Joint
    kin: NDArray[np.bool_]

    def resample(self, source: FreshNoise | Blocks, rng: np.random.Generator) -> _Read:
        """From one resample."""
        gram = source.draw(rng)
        if gram.n_tasks != self.joint.gram.n_tasks:
            gram = gram.reindex(self.joint.gram.labels)
        return self._read(gram, partial(_problem, gram))

    def by_chance(self, unrelated: Unrelated, rng: np.random.Generator) -> _Read:
        """From one set of unrelated tasks, with the model's parameters in the units of that set."""
        gram = unrelated.draw(rng)

        def in_units(part: Part) -> Problem:
            problem = _problem(gram, part)
            recipe = _graph_coupling(part).recipe
            if recipe.gamma is None:
                return calibrated(problem, theta_at_start(problem, recipe.neighbors or COUPLED), recipe.strength)
            # Coefficients c times as large are the same problem with alpha and beta c^2 times as large.
            own = _spread(self.joint.problem.start() * problem.scale, self.kin)
            factor = _spread(problem.start() * problem.scale, self.kin) / max(own, TINY)
            return replace(problem, alpha=problem.alpha * factor, beta=problem.beta * factor)

        return self._read(gram, in_units)

    def _read(self, gram: GramStats, problem_of: Callable[[Part], Problem]) -> _Read:
        recipe = self.joint.recipe
        if recipe.gamma is not None:
            problem = problem_of(self.joint.part)
            result = quietly(problem, tol=TOLERANCE)
            A = result.graph.value
            points = result.weights.value * problem.scale
        else:
            graph, _ = shown_graph(gram, *self._coefficients(gram, problem_of), recipe)
            A = graph.adjacency
            assert graph.points is not None
            points = graph.points
        pairs = A if len(points) > EVERY_PAIR else sparse.csr_array(1 - np.eye(len(points)))
        return _Read(A, relative_distances(pairs, points, self.kin))

    def _coefficients(self, gram: GramStats, problem_of: Callable[[Part], Problem]) -> tuple[Array, Array]:
        """Of the parts by which tasks are compared; those with a graph are solved for weights and graph."""
        coef = np.zeros(gram.b.shape)
        intercept = np.zeros(gram.n_tasks)
        for part in self.model.compared:
            if not (part.shares > 0).any():
                continue
            equations = part.equations(gram)
            if isinstance(part.coupling, GraphCoupling):
                V = quietly(problem_of(part), tol=TOLERANCE).weights.value
            else:
                inverse: Any = part.coupling.inverse(equations)
                V = inverse.unknowns(equations.b)
            W, c = part.coefficients(equations, V)
            coef += part.shares[:, None] * W
            intercept += part.shares * c
        return coef, intercept

    def fitted(self) -> sparse.csr_array:
        """Relative distances of the pairs that are joined in the fitted graph."""
        graph = self.joint.graph
        points = self.joint.part.V * self.joint.problem.scale if graph.points is None else graph.points
        return relative_distances(graph.adjacency, points, self.kin)


def _problem(gram: GramStats, part: Part) -> Problem:
    """The joint problem of a part with a graph, at its own numbers, for other statistics."""
    return _graph_coupling(part).problem(part.equations(gram))


def _graph_coupling(part: Part) -> GraphCoupling:
    """The coupling of a part with a graph."""
    assert isinstance(part.coupling, GraphCoupling)
    return part.coupling


def counting_level(chance: list[Array], found: list[Array]) -> float:
    """The relative distance below which pairs count, from those of sets of unrelated tasks and of resamples.

    The larger of two: the one that the closest of all pairs stays above in four of five unrelated sets, and the largest
    below which chance brings at most a tenth as many pairs, on average, as resamples have.

    >>> chance = [np.array([0.5, 0.9, 1.0, 1.6]), np.array([0.6, 0.8, 1.1, 1.5])]
    >>> counting_level(chance, [np.array([0.1, 0.2, 0.3, 0.7])]), counting_level(chance, 2 * [np.full(40, 0.7)])
    (0.52, 0.7)
    """
    strict = float(np.quantile([distances.min() for distances in chance], CHANCE))
    near = np.sort(np.concatenate(found))
    far = np.sort(np.concatenate(chance))
    # After the k nearest pairs of all resamples, chance may have brought FALSE k of its own.
    brought = np.searchsorted(far, near, side="right") / len(chance)
    honest = brought <= FALSE * np.arange(1, len(near) + 1) / len(found)
    return max(strict, float(near[honest].max(initial=0.0)))


def relative_distances(A: sparse.csr_array, V: Array, kin: NDArray[np.bool_]) -> sparse.csr_array:
    """||v_i - v_j||^2 of the joined pairs over its mean over all pairs of tasks in `kin`; at least TINY.

    Three tasks at 0, 1 and 3 have the squared distances 1, 4 and 9, on average 14/3.

    >>> A = sparse.csr_array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    >>> relative_distances(A, np.array([[0.0], [1.0], [3.0]]), np.ones(3, bool)).toarray()[0].round(4)
    array([0.    , 0.2143, 0.    ])
    """
    i, j = A.tocoo().coords
    z = pair_distances(V, i, j) / max(_spread(V, kin), TINY)
    return sparse.csr_array((np.maximum(z, TINY), (i, j)), shape=A.shape)


def _spread(V: Array, kin: NDArray[np.bool_]) -> float:
    """Mean over all pairs of ||v_i - v_j||^2, without forming them."""
    inside = V[kin]
    return 2 * float(((inside - inside.mean(axis=0)) ** 2).sum()) / max(len(inside) - 1, 1)


def _summary(reader: _Reader, found: list[_Read], level: float, words: str) -> EdgeConfidence:
    """Shares over resamples, among all tasks of the model."""
    model = reader.model
    known = reader.joint.gram.labels
    T = len(known)
    joined, close = sparse.csr_array((T, T)), sparse.csr_array((T, T))
    for read in found:
        joined = joined + read.adjacency.astype(bool)
        near = read.distance.copy()
        near.data = (near.data <= level).astype(float)
        close = close + near
    close.eliminate_zeros()
    confidence, joined, fitted = (
        TaskGraph(sparse.csr_array(M), known).expanded(model.labels).adjacency
        for M in (close / len(found), joined / len(found), reader.fitted())
    )
    adjacency = graph_of(model, "edge_confidence").adjacency
    return EdgeConfidence(confidence, joined, fitted, adjacency, model.labels, level, len(found), words)


def position(labels: NDArray[Any], name: Any) -> int:
    """Where a task stands, or an error with the names there are."""
    found = np.flatnonzero(labels == name)
    if not len(found):
        shown = ", ".join(map(repr, labels[:5].tolist())) + (", ..." if len(labels) > 5 else "")
        raise ValueError(f"no task {name!r} among {len(labels)} tasks: {shown}")
    return int(found[0])
