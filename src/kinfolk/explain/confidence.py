"""How far an edge can be trusted: the probability that its two tasks are kin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.explain.joint import graph_of, joint_of, position
from kinfolk.explain.kin import MOST_TASKS, SURE, kinship, kinship_of_pairs
from kinfolk.methods.model import Fitted, as_model
from kinfolk.methods.structures import heaviest_edges
from kinfolk.progress import Callback, report
from kinfolk.solvers.graph.edges import entries
from kinfolk.threads import on_few_threads
from kinfolk.words import counted, warn_user


class SureEdge(NamedTuple):
    """An edge with the probability that its tasks are kin; a list of these makes a data frame."""

    task: Any
    neighbor: Any
    weight: float
    confidence: float


@dataclass(frozen=True, eq=False)
class EdgeConfidence:
    """Confidence in every edge, and in the pairs that are not edges.

    Attributes
    ----------
    confidence : CSR (T, T); probability that the two tasks are kin
    adjacency : CSR (T, T); the fitted graph that is shown
    labels : task names (T,)
    n : groupings of the tasks that were drawn
    """

    confidence: sparse.csr_array
    adjacency: sparse.csr_array
    labels: NDArray[Any]
    n: int

    def table(self) -> list[dict[str, Any]]:
        """The edges of the fitted graph, most trusted first."""
        return self._rows(sparse.triu(self.adjacency, k=1, format="coo"))

    def missing(self) -> list[dict[str, Any]]:
        """Pairs that are rather kin than not, but are not joined in the fitted graph; most trusted first."""
        likely = (self.confidence > 0.5).astype(float)
        return self._rows(sparse.triu(likely - likely * self.adjacency.astype(bool), k=1, format="coo"))

    def of(self, task: Any, neighbor: Any) -> float:
        """Confidence in the edge between two tasks, by name."""
        i, j = (position(self.labels, name) for name in (task, neighbor))
        return float(self.confidence[i, j])

    def _rows(self, pairs: Any) -> list[dict[str, Any]]:
        i, j = (axis[pairs.data > 0] for axis in pairs.coords)
        weight, confidence = (entries(M, i, j) for M in (self.adjacency, self.confidence))
        order = np.lexsort((j, i, -weight, -confidence))
        columns = (column[order].tolist() for column in (self.labels[i], self.labels[j], weight, confidence))
        return [SureEdge(*row)._asdict() for row in zip(*columns, strict=True)]

    def __repr__(self) -> str:
        rows = self.table()
        sure = sum(row["confidence"] > SURE for row in rows)
        edges = f"{counted(len(rows), 'edge')}, {sure} with confidence above {SURE:g}"
        return f"EdgeConfidence({edges}; {counted(self.n, 'grouping')} drawn)"


def sure_edges(model: Fitted) -> list[SureEdge]:
    """The edges of a fitted graph, heaviest first, each with the probability that its tasks are kin.

    NaN where `kinship` does not judge, beyond 400 tasks.
    """
    graph = graph_of(model, "edges")
    kin = kinship(model)
    i, j, weight = heaviest_edges(graph.adjacency)
    confidence = np.full(len(i), np.nan) if kin is None else kin.probability[i, j]
    columns = (column.tolist() for column in (graph.labels[i], graph.labels[j], weight, confidence))
    return [SureEdge(*row) for row in zip(*columns, strict=True)]


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
    """Confidence in every edge of a fitted graph, in [0, 1]: how probable it is that its two tasks are kin.

    The numbers are those of `kinship`, from `n` groupings of the tasks drawn anew: all 0 where unrelated tasks look as
    related as these. Being joined alone is no reason for confidence: the barrier gives every task some edge, and with
    many rows chance neighbours are stable too. What the number means and does not mean: docs/explanations.md.

    Parameters
    ----------
    model : fitted GAMTL, GAMTLCV or RBFGAMTL; of more than 400 tasks only the pairs that are joined are judged
    n : groupings to be drawn, at least
    X, y, groups, n_jobs : without effect since rows are no longer resampled
    random_state : draws the groupings
    callback : called with a `Progress` at the end

    Examples
    --------
    Tasks 0 to 5 have one set of slopes, 6 to 11 another.

    >>> from kinfolk import GAMTL
    >>> rng = np.random.default_rng(0)
    >>> X = np.column_stack([np.repeat(np.arange(12), 20), rng.normal(size=(240, 12))])
    >>> slopes = np.repeat(rng.normal(size=(2, 12)), 120, axis=0)
    >>> y = np.einsum("nd,nd->n", X[:, 1:], slopes) + 0.1 * rng.normal(size=240)
    >>> sure = edge_confidence(GAMTL(task=0).fit(X, y))
    >>> sure.of(0, 1) > 0.9, sure.of(5, 6) < 0.1
    (True, True)
    """
    if n < 1:
        raise ValueError(f"n={n} must be at least 1 grouping")
    if any(given is not None for given in (X, y, groups)):
        warn_user("edge_confidence reads the statistics of fit: X, y and groups have no effect", FutureWarning)
    model = as_model(model, "edge_confidence")
    joint = joint_of(model, "edge_confidence")
    at = np.flatnonzero(model.seen)
    i, j = np.triu_indices(len(at), k=1)
    if len(at) > MOST_TASKS:
        i, j, _ = heaviest_edges(joint.graph.adjacency)
    _, probability = kinship_of_pairs(model, (i, j), random_state, groupings=n)
    T = len(model.labels)
    upper = sparse.coo_array((probability, (at[i], at[j])), shape=(T, T))
    confidence = sparse.csr_array(upper + upper.T)
    confidence.eliminate_zeros()
    report(callback, "edge confidence", n, n)
    return EdgeConfidence(confidence, graph_of(model, "edge_confidence").adjacency, model.labels, n)
