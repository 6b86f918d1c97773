"""How much of the planted structure a method recovers, measured alike for graphs, matrices and trees.

Every structure has one symmetric matrix of scores (`Structure.scores`), the larger the more kin:

- a graph: the weight of the edge, 0 without;
- a covariance: the correlation, with its sign, since kin tasks have similar coefficients, not opposite ones;
- a precision: the partial correlation, with its sign (and, as `correlation_auc`, that of the inverse, which the paper
  draws);
- a tree: the share of levels below the root at which two tasks are in one group;
- and for any linear method, with or without a structure: minus the distance between the fitted coefficients.

The area under the ROC curve asks how well these scores rank the true edges above the other pairs. Communities are those
of one algorithm (Louvain) on the positive scores, with outliers, tasks of hardly any degree, standing alone; they are
compared with the planted groups, in which every planted outlier is a group of its own, by the adjusted Rand index. The
same index of as many clusters as were planted (average linkage of the scores, alike for all methods) does not depend on
how the algorithm chooses their number.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import cdist, squareform
from sklearn.metrics import adjusted_rand_score, roc_auc_score

from kinfolk.methods.structures import Structure, TaskCovariance, TaskPrecision
from kinfolk.rows.gram import Array


def edge_auc(scores: Array, edges: Iterable[tuple[int, int]]) -> float:
    """Area under the ROC curve of the true edges among all pairs; 0.5 is chance.

    Examples
    --------
    >>> edge_auc(np.array([[0.0, 3.0, 1.0], [3.0, 0.0, 2.0], [1.0, 2.0, 0.0]]), [(0, 1)])
    1.0
    """
    T = len(scores)
    i, j = np.triu_indices(T, 1)
    true = np.zeros((T, T), bool)
    for a, b in edges:
        true[a, b] = true[b, a] = True
    return float(roc_auc_score(true[i, j], (scores[i, j] + scores[j, i]) / 2))


def rand_index(groups: NDArray[np.intp], planted: NDArray[np.intp]) -> float:
    """Adjusted Rand index of two groupings, in both of which every -1 is a group of its own."""
    return float(adjusted_rand_score(_single(planted), _single(groups)))


def clusters(scores: Array, count: int) -> NDArray[np.intp]:
    """Tasks in `count` clusters by average linkage: those of the largest mean score join first.

    Examples
    --------
    >>> clusters(np.array([[0.0, 2.0, 0.0], [2.0, 0.0, 1.0], [0.0, 1.0, 0.0]]), 2)
    array([1, 1, 2], dtype=int32)
    """
    both = (scores + scores.T) / 2
    apart = both.max() - both
    np.fill_diagonal(apart, 0.0)
    cluster: NDArray[np.intp] = fcluster(linkage(squareform(apart, checks=False), "average"), count, "maxclust")
    return cluster


def _single(groups: NDArray[np.intp]) -> NDArray[np.intp]:
    alone = groups < 0
    numbered = np.array(groups)
    numbered[alone] = groups.max(initial=0) + 1 + np.arange(alone.sum())
    return numbered


def recovered(structure: Structure | None, coef: Array | None, truth: dict[str, Any]) -> dict[str, Any]:
    """All measures of one fit; without a structure only what its coefficients say."""
    edges = truth["edges"]
    planted = np.asarray(truth["groups"])
    measures: dict[str, Any] = {}
    if coef is not None:
        measures["coefficient_auc"] = edge_auc(-cdist(coef, coef), edges)
    if structure is None:
        return measures
    scores = sparse.csr_array(structure.scores()).toarray()
    measures["edge_auc"] = edge_auc(scores, edges)
    measures["edges"] = np.count_nonzero(np.triu(scores, 1) > 0)
    if "precision" in structure.matrices:
        precision = cast(TaskPrecision, structure)
        inverse = TaskCovariance(precision.covariance, precision.labels)
        measures["correlation_auc"] = edge_auc(inverse.scores(), edges)
    groups = structure.graph(opposed=False).groups()
    if len(np.unique(planted)) > 1:
        measures["rand_index"] = rand_index(groups, planted)
        measures["rand_index_cut"] = rand_index(clusters(scores, len(np.unique(_single(planted)))), planted)
    alone = set(np.flatnonzero(groups < 0).tolist())
    true = set(np.flatnonzero(planted < 0).tolist())
    measures |= {
        "outliers_found": len(alone & true),
        "outliers_planted": len(true),
        "outliers_false": len(alone - true),
    }
    return measures
