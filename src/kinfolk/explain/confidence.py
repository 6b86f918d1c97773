"""How far an edge can be trusted: does it come back when the data are drawn anew, and closer than chance brings it?"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.explain.draws import Blocks, FreshNoise, Unrelated
from kinfolk.explain.joint import Joint, graph_of, joint_of, quietly, rows_like
from kinfolk.methods.gamtl.calibrate import COUPLED, calibrated, theta_at_start
from kinfolk.methods.gamtl.problem import Problem, independent
from kinfolk.methods.model import Model, as_model
from kinfolk.progress import Callback, report
from kinfolk.rows.folds import generator
from kinfolk.rows.gram import TINY, Array

CHANCE_SETS = 40  # sets of unrelated tasks that say how close chance brings a pair
CHANCE = 0.2  # share of such sets whose closest pair of all would pass for an edge in a single resample
TOLERANCE = 1e-4  # of the alternation in a resample


@dataclass(frozen=True, eq=False)
class EdgeConfidence:
    """Confidence in every edge, and in the pairs that are not edges.

    Attributes
    ----------
    confidence : CSR (T, T); share of resamples in which the pair is joined and closer than `level`
    joined : CSR (T, T); share of resamples in which the pair is joined at all
    distance : CSR (T, T); relative squared distance of the joined pairs in the fitted model, see `edge_confidence`
    adjacency : CSR (T, T); the fitted graph
    labels : task names (T,)
    level : the relative distance below which an edge counts
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
        if not len(i):
            return []
        values = [np.asarray(M[i, j]).ravel() for M in (self.adjacency, self.confidence, self.joined, self.distance)]
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
            f"{self.resampled}, an edge counts below {self.level:.3g} of the typical squared distance)"
        )


def edge_confidence(
    model: Any,
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
    ridge and metric. The relative distance of a pair is ||w_i - w_j||^2 over its mean over all pairs of tasks that
    are not outliers. An edge counts in a resample if the pair is joined there and its relative distance is below the
    `level` that the closest of all pairs reaches in one of five resamples of unrelated tasks: same inputs, noise and
    parameters, coefficients drawn independently around a common mean. Being joined is not enough, because the
    barrier gives every task some edge; being joined again and again is not enough, because with many rows chance
    neighbours are stable too. What the number means and does not mean: docs/explanations.md.

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
    kin = kin if kin.sum() >= 3 else np.ones_like(kin)
    source, words = _source(model, joint, X, y, groups, rng)
    unrelated = Unrelated.of(joint, kin)
    spread = float(_spread(independent(joint.problem.equations, joint.problem.ridge) * joint.problem.scale, kin))
    draws: list[Any] = [partial(_by_chance, joint, unrelated, kin, spread) for _ in range(CHANCE_SETS)]
    draws += [partial(_resample, joint, source, kin) for _ in range(n)]
    found = []
    jobs = (delayed(draw)(own) for draw, own in zip(draws, rng.spawn(len(draws)), strict=True))
    for k, pairs in enumerate(Parallel(n_jobs=n_jobs, return_as="generator")(jobs)):
        found.append(pairs)
        report(callback, "edge confidence", k + 1, len(draws))
    level = float(np.quantile([pairs.data.min() for pairs in found[:CHANCE_SETS]], CHANCE))
    return _summary(model, joint, found[CHANCE_SETS:], level, kin, words)


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


def _resample(joint: Joint, source: FreshNoise | Blocks, kin: NDArray[np.bool_], rng: np.random.Generator) -> Any:
    """Relative distances of the pairs that are joined in one resample."""
    gram = source.draw(rng)
    if gram.n_tasks != joint.gram.n_tasks:
        gram = gram.reindex(joint.gram.labels)
    return _joined_pairs(joint.on(gram), joint, kin)


def _by_chance(
    joint: Joint, unrelated: Unrelated, kin: NDArray[np.bool_], spread: float, rng: np.random.Generator
) -> Any:
    """The same for one set of unrelated tasks, with the model's parameters in the units of that set."""
    problem = joint.on(unrelated.draw(rng))
    recipe = joint.recipe
    if recipe.gamma is None:
        problem = calibrated(problem, theta_at_start(problem, recipe.neighbors or COUPLED), recipe.strength)
    else:
        # Coefficients c times as large are the same problem with alpha and beta c^2 times as large.
        factor = _spread(independent(problem.equations, problem.ridge) * problem.scale, kin) / max(spread, TINY)
        problem = replace(problem, alpha=problem.alpha * factor, beta=problem.beta * factor)
    return _joined_pairs(problem, joint, kin)


def _joined_pairs(problem: Problem, joint: Joint, kin: NDArray[np.bool_]) -> sparse.csr_array:
    result = quietly(problem, tol=TOLERANCE)
    return relative_distances(result.graph.value, result.weights.value * problem.scale, kin)


def relative_distances(A: sparse.csr_array, V: Array, kin: NDArray[np.bool_]) -> sparse.csr_array:
    """||v_i - v_j||^2 of the joined pairs over its mean over all pairs of tasks in `kin`; at least TINY.

    Three tasks at 0, 1 and 3 have the squared distances 1, 4 and 9, on average 14/3.

    >>> A = sparse.csr_array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    >>> relative_distances(A, np.array([[0.0], [1.0], [3.0]]), np.ones(3, bool)).toarray()[0].round(4)
    array([0.    , 0.2143, 0.    ])
    """
    pairs = A.tocoo()
    i, j = pairs.coords
    difference = V[i] - V[j]
    z = np.einsum("ed,ed->e", difference, difference) / max(_spread(V, kin), TINY)
    return sparse.csr_array(sparse.coo_array((np.maximum(z, TINY), (i, j)), shape=A.shape))


def _spread(V: Array, kin: NDArray[np.bool_]) -> float:
    """Mean over all pairs of ||v_i - v_j||^2, without forming them."""
    inside = V[kin]
    return 2 * float(((inside - inside.mean(axis=0)) ** 2).sum()) / max(len(inside) - 1, 1)


def _summary(
    model: Model, joint: Joint, found: list[sparse.csr_array], level: float, kin: NDArray[np.bool_], words: str
) -> EdgeConfidence:
    """Shares over resamples, among all tasks of the model."""
    T = joint.gram.n_tasks
    joined, close = sparse.csr_array((T, T)), sparse.csr_array((T, T))
    for pairs in found:
        joined = joined + replace_data(pairs, np.ones(pairs.nnz))
        close = close + replace_data(pairs, (pairs.data < level).astype(float))
    close.eliminate_zeros()
    fitted = relative_distances(joint.graph.adjacency, joint.part.V * joint.problem.scale, kin)
    matrices = [sparse.csr_array(close / len(found)), sparse.csr_array(joined / len(found)), fitted]
    if len(model.labels) > T:
        grow = np.searchsorted(model.labels, joint.gram.labels)
        place = sparse.csr_array((np.ones(T), (grow, np.arange(T))), shape=(len(model.labels), T))
        matrices = [sparse.csr_array(place @ M @ place.T) for M in matrices]
    confidence, joined, fitted = matrices
    adjacency = graph_of(model, "edge_confidence").adjacency
    return EdgeConfidence(confidence, joined, fitted, adjacency, model.labels, level, len(found), words)


def replace_data(A: sparse.csr_array, data: Array) -> sparse.csr_array:
    """The same pattern with other values."""
    return sparse.csr_array((data, A.indices.copy(), A.indptr.copy()), shape=A.shape)


def position(labels: NDArray[Any], name: Any) -> int:
    """Where a task stands, or an error with the names there are."""
    found = np.flatnonzero(labels == name)
    if not len(found):
        shown = ", ".join(map(repr, labels[:5].tolist())) + (", ..." if len(labels) > 5 else "")
        raise ValueError(f"no task {name!r} among {len(labels)} tasks: {shown}")
    return int(found[0])
