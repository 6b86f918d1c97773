"""What the page draws for each kind of structure: a graph with a path of sparsities, a matrix, or a tree."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.methods.gamtl.shown import graph_of_points
from kinfolk.methods.model import Model
from kinfolk.methods.structures import TaskGraph, heaviest_edges
from kinfolk.methods.trees import TaskTree
from kinfolk.plots.canvas import group_order
from kinfolk.plots.layouts import positions
from kinfolk.progress import Callback, report
from kinfolk.report.plain import short
from kinfolk.rows.gram import TINY, Array
from kinfolk.solvers.graph.edges import entries
from kinfolk.solvers.tolerances import MARGIN

NEIGHBORS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
MANY = 500  # tasks up to which graphs of other sparsity are solved for: 2,000 would take minutes
CELLS = 100  # rows and columns of a matrix that are drawn; more tasks are averaged in blocks
LIKENESS = (
    "Likeness of coefficients: the cosine between two tasks' coefficients, both less the mean of all. The method "
    "itself learns no relation between tasks"
)


def view_of(
    model: Model,
    groups: NDArray[np.intp],
    shown: NDArray[np.intp],
    *,
    confidence: sparse.csr_array | None = None,
    callback: Callback | None = None,
) -> dict[str, Any]:
    """The picture of the structure among the tasks at `shown`, as plain data; `kind` is "graph", "matrix" or "tree"."""
    groups = groups[shown]
    if model.structure is None:
        return _matrix_view(_likeness(model.coef[shown]), groups, LIKENESS)
    structure: Any = model.structure  # its kind tells what it has
    if len(shown) < len(model.labels):
        structure = structure.among(shown)
    if structure.kind == "graph":
        return _graph_view(model, structure, groups, confidence, callback)
    if structure.kind == "tree":
        return _tree_view(structure)
    return _matrix_view(structure.relations, groups, structure.title)


def _graph_view(
    model: Model,
    graph: TaskGraph,
    groups: NDArray[np.intp],
    confidence: sparse.csr_array | None,
    callback: Callback | None,
) -> dict[str, Any]:
    report(callback, "report: layout", 0, 1)
    xy = positions(graph, groups)
    if graph.points is not None and len(groups) == len(model.labels) <= MANY and model.seen.all():
        path = _learned_path(graph, callback)
        text = "graphs that the fitted coefficients give when each task should have about this many neighbours"
    else:
        path = _thinned_path(graph)
        text = "the heaviest edges of the fitted graph only"
    fitted = next(k for k, A in enumerate(path) if A is graph.adjacency)
    levels = [_level(A) for A in path]
    levels[fitted] = _level(graph.adjacency, confidence)
    return {"kind": "graph", "xy": short(xy, 3), "levels": levels, "fitted": fitted, "path": text}


def _learned_path(graph: TaskGraph, callback: Callback | None) -> list[sparse.csr_array]:
    """Graph steps at the fitted coefficients for a row of neighbour counts, and the fitted graph; sparse first."""
    T = len(graph.labels)
    assert graph.points is not None
    fitted = graph.adjacency.nnz / T
    wanted = sorted({*NEIGHBORS, round(fitted / 2), round(1.5 * fitted)})
    wanted = [k for k in wanted if 0 < k < T - 1]
    path = []
    for done, k in enumerate(wanted):
        path.append(graph_of_points(graph.points, k, "auto").value)
        report(callback, "report: path of graphs", done + 1, len(wanted))
    return _around(graph.adjacency, path)


def _thinned_path(graph: TaskGraph) -> list[sparse.csr_array]:
    """The fitted graph with only its heaviest edges, k per task on average."""
    A = graph.adjacency
    weight = np.sort(A.data)[::-1]
    ends = [k * len(graph.labels) for k in NEIGHBORS]  # every edge has two
    return _around(A, [sparse.csr_array(A.multiply(weight[n - 1] <= A)) for n in ends if n < len(weight)])


def _around(fitted: sparse.csr_array, path: list[sparse.csr_array]) -> list[sparse.csr_array]:
    """Graphs with clearly more or fewer edges than the fitted one, and that one itself; sparse first."""
    kept = [A for A in path if A.nnz and abs(A.nnz - fitted.nnz) > 0.05 * fitted.nnz]
    return sorted([*kept, fitted], key=lambda A: A.nnz)


def _level(A: sparse.csr_array, confidence: sparse.csr_array | None = None) -> dict[str, Any]:
    """Edges of a graph, heaviest first."""
    i, j, weight = heaviest_edges(A)
    level = {"i": i.tolist(), "j": j.tolist(), "w": short(weight)}
    if confidence is not None:
        level["c"] = short(entries(confidence, i, j), 2)
    return level | {"neighbors": round(A.nnz / max(A.shape[0], 1), 1)}


def _likeness(W: Array) -> Array:
    centred = W - W.mean(axis=0)
    length = np.linalg.norm(centred, axis=1, keepdims=True)
    unit = np.divide(centred, length, out=np.zeros_like(centred), where=length > MARGIN * max(np.abs(W).max(), TINY))
    return unit @ unit.T


def _matrix_view(M: Array, groups: NDArray[np.intp], what: str) -> dict[str, Any]:
    """A matrix with the tasks of a group side by side, as it is or averaged over blocks of tasks."""
    blocks = np.array_split(group_order(groups), min(len(groups), CELLS))
    gather = np.zeros((len(blocks), len(groups)))
    for row, block in enumerate(blocks):
        gather[row, block] = 1 / len(block)
    return {
        "kind": "matrix",
        "what": what,
        "values": short(gather @ M @ gather.T, 2),
        "blocks": [block.tolist() for block in blocks],
        "empty": not np.any(M - np.diag(np.diagonal(M))),
    }


def _tree_view(tree: TaskTree) -> dict[str, Any]:
    """Leaves in the order of the nested groups, and the lines that join them: (x1, y1, x2, y2), x the level."""
    lines, _, order = tree.branches()
    return {"kind": "tree", "order": order.tolist(), "lines": short(lines.reshape(-1, 4), 5), "levels": len(tree)}
