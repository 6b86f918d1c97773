"""What the page draws for each kind of structure: a graph with a path of sparsities, a matrix, or a tree."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk.methods.method import MultiTaskRegressor
from kinfolk.methods.model import as_model
from kinfolk.methods.structures import TaskGraph, heaviest_edges
from kinfolk.methods.trees import TaskTree
from kinfolk.progress import Callback, report
from kinfolk.report.plain import short
from kinfolk.report.positions import positions
from kinfolk.rows.gram import TINY, Array
from kinfolk.solvers.graph import DENSE_TASKS, graph_of_weights, theta_of_weights

NEIGHBORS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
NEIGHBORS_MANY = (1, 2, 3, 5, 8)  # for more than MANY tasks: fewer steps keep the file small
MANY = 500
CELLS = 100  # rows and columns of a matrix that are drawn; more tasks are averaged in blocks


def task_groups(model: MultiTaskRegressor) -> NDArray[np.intp]:
    """Group of every task, 0 the largest, -1 for outliers; all 0 where the method says nothing."""
    if model.structure_ is None:
        return np.zeros(len(model.tasks_), np.intp)
    return model.structure_.groups()


def view_of(
    model: MultiTaskRegressor,
    groups: NDArray[np.intp],
    shown: NDArray[np.intp],
    *,
    confidence: sparse.csr_array | None = None,
    callback: Callback | None = None,
) -> dict[str, Any]:
    """The picture of the structure among the tasks at `shown`, as plain data; `kind` is "graph", "matrix" or "tree"."""
    structure = model.structure_
    if structure is not None and len(shown) < len(groups):
        structure = structure.among(shown)
    groups = groups[shown]
    if structure is not None and structure.kind == "graph":
        return _graph_view(model, structure, groups, confidence, callback)
    if structure is not None and structure.kind == "tree":
        return _tree_view(structure)
    if structure is not None:
        return _matrix_view(structure.relations, groups, structure.title)
    return _matrix_view(
        _likeness(model.coef_[shown]),
        groups,
        "Likeness of coefficients: the cosine between two tasks' "
        "coefficients, both less the mean of all. The method itself learns no relation between tasks",
    )


def _graph_view(
    model: MultiTaskRegressor,
    graph: TaskGraph,
    groups: NDArray[np.intp],
    confidence: sparse.csr_array | None,
    callback: Callback | None,
) -> dict[str, Any]:
    report(callback, "report: layout", 0, 1)
    xy = positions(graph, groups)
    learned = as_model(model).graph_part is not None and len(groups) == len(model.tasks_) <= DENSE_TASKS
    path = _learned_path(model, graph, callback) if learned else _thinned_path(graph)
    levels = [_level(A) for A in path]
    fitted = int(np.argmin([abs(A.nnz - graph.adjacency.nnz) for A in path]))
    path[fitted], levels[fitted] = graph.adjacency, _level(graph.adjacency, confidence)
    said = (
        "graphs that the fitted coefficients give when each task should have about this many neighbours"
        if learned
        else "the heaviest edges of the fitted graph only"
    )
    return {"kind": "graph", "xy": short(xy, 3), "levels": levels, "fitted": fitted, "path": said}


def _learned_path(model: MultiTaskRegressor, graph: TaskGraph, callback: Callback | None) -> list[sparse.csr_array]:
    """Graph steps at the fitted coefficients for a row of neighbour counts, and the fitted graph; sparse first."""
    W, T = comparable_coefficients(model), len(graph.labels)
    alpha, beta = getattr(model, "alpha_", 1.0), getattr(model, "beta_", 0.5)
    fitted = graph.adjacency.nnz / T
    wanted = sorted({*(NEIGHBORS if T <= MANY else NEIGHBORS_MANY), round(fitted / 2), round(1.5 * fitted)})
    wanted = [k for k in wanted if 0 < k < T - 1]
    path = [graph.adjacency]
    for done, k in enumerate(wanted):
        theta = theta_of_weights(W, k)
        path.append(graph_of_weights(W, alpha=alpha, beta=beta, gamma=theta * np.sqrt(2 * alpha * beta)).value)
        report(callback, "report: path of graphs", done + 1, len(wanted))
    return _without_twins(path)


def _thinned_path(graph: TaskGraph) -> list[sparse.csr_array]:
    """The fitted graph with only its heaviest edges, k per task on average."""
    T, weight = len(graph.labels), np.sort(graph.adjacency.data)[::-1]
    path = [graph.adjacency]
    for k in NEIGHBORS:
        if k * T < len(weight):
            kept = graph.adjacency.multiply(graph.adjacency >= weight[k * T - 1])
            path.append(sparse.csr_array(kept))
    return _without_twins(path)


def _without_twins(path: list[sparse.csr_array]) -> list[sparse.csr_array]:
    """Sparse first; of graphs with nearly as many edges as one before them only the first, and the fitted one stays."""
    fitted, rest = path[0], path[1:]
    kept = [A for A in rest if A.nnz and abs(A.nnz - fitted.nnz) > 0.05 * fitted.nnz]
    return sorted([*kept, fitted], key=lambda A: A.nnz)


def comparable_coefficients(fitted: Any) -> Array:
    """Coefficients in the units in which the graph compares them: scaled features, or a learned metric."""
    model = as_model(fitted)
    part = model.graph_part
    W = model.coef if part is None or part.units is None else model.coef * part.units
    return W if part is None or part.basis is None else np.linalg.solve(part.basis, W.T).T


def _level(A: sparse.csr_array, confidence: sparse.csr_array | None = None) -> dict[str, Any]:
    """Edges of a graph, heaviest first."""
    i, j, weight = heaviest_edges(A)
    level = {"i": i.tolist(), "j": j.tolist(), "w": short(weight, 3)}
    if confidence is not None:
        level["c"] = short(np.asarray(sparse.csr_array(confidence)[i, j]).ravel(), 2)
    return level | {"neighbors": round(A.nnz / max(A.shape[0], 1), 1)}


def _likeness(W: Array) -> Array:
    centred = W - W.mean(axis=0)
    length = np.linalg.norm(centred, axis=1, keepdims=True)
    unit = np.divide(centred, length, out=np.zeros_like(centred), where=length > 1e-12 * max(np.abs(W).max(), TINY))
    return unit @ unit.T


def _matrix_view(M: Array, groups: NDArray[np.intp], what: str) -> dict[str, Any]:
    """A matrix with the tasks of a group side by side, as it is or averaged over blocks of tasks."""
    order = np.lexsort((np.arange(len(groups)), np.where(groups < 0, groups.max(initial=0) + 1, groups)))
    blocks = np.array_split(order, min(len(order), CELLS))
    gather = np.zeros((len(blocks), len(order)))
    for row, block in enumerate(blocks):
        gather[row, block] = 1 / len(block)
    values = gather @ M @ gather.T
    return {
        "kind": "matrix",
        "what": what,
        "values": short(values, 2),
        "blocks": [block.tolist() for block in blocks],
        "empty": not np.any(M - np.diag(np.diagonal(M))),
    }


def _tree_view(tree: TaskTree) -> dict[str, Any]:
    """Leaves in the order of the nested groups, and the lines that join them: (x1, y1, x2, y2), x the level."""
    lines, _, order = tree.branches()
    return {"kind": "tree", "order": order.tolist(), "lines": short(lines.reshape(-1, 4), 5), "levels": len(tree)}
