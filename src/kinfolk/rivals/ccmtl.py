"""CCMTL: convex clustering of tasks along a nearest-neighbour graph (He, Alesiani and Shaker, AAAI 2019)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from kinfolk.methods.given_graph import AlongGraph
from kinfolk.methods.model import Course, Model
from kinfolk.methods.parameters import number, parameters
from kinfolk.methods.search_report import ByTask
from kinfolk.methods.structures import TaskGraph
from kinfolk.progress import Callback
from kinfolk.rivals.solvers.fusion import Fusion, fuse, minimise
from kinfolk.rivals.solvers.stopped import warn_of_stop
from kinfolk.rows.gram import TINY, Array, GramStats
from kinfolk.solvers.batched import lengths, mean_diagonal, plus, ridge_alone, solve_each
from kinfolk.solvers.graph.edges import EdgeList
from kinfolk.solvers.solution import Solution
from kinfolk.solvers.tolerances import MARGIN

START_RIDGE = 0.01  # of the mean diagonal of all G_t, in the independent fits behind the graph
FUSED = 1e-4  # of the typical edge length of the independent fits, below which two tasks count as one


@parameters
class CCMTL(AlongGraph):
    """Convex clustering multi-task learning: neighbours in a fixed graph are drawn together until they fuse.

    Minimises, over the coefficients W (T, d),

        sum_t ||X_t w_t - y_t||^2 + rho ||W||_F^2 + lam sum_{edges (i, j)} a_ij ||w_i - w_j||_2,

    where the graph joins every task to its `neighbors` nearest in independently fitted ridge coefficients (an edge if
    either is among the other's nearest; a_ij = 1), and rho is `ridge` times the mean diagonal of all G_t = X_t'X_t:
    small, and there only because without it tasks with fewer rows than features may have no unique answer.

    The norm is not squared, so groups of neighbours become exactly equal as lam grows: `clusters_`. Convex; solved by
    half-quadratic reweighting with preconditioned conjugate gradients, in time linear in the number of edges.

    Parameters
    ----------
    neighbors : k of the k-nearest-neighbour graph
    strength : how hard neighbours pull, free of scale; 1: at the independent fits, on average as hard as a task's own
        data (mean_t lam sum_j a_ij / (2 ||w_i - w_j||) = mean_t tr(G_t) / d)
    lam : the number in the formula; given, it replaces `strength`
    ridge : rho as a multiple of the mean diagonal of all G_t
    graph : `TaskGraph` (matched by task name) or adjacency (T, T) in the order of `tasks_`, used in place of the
        nearest neighbours; its weights are the a_ij
    features : a transformer for the non-task columns, e.g. StandardScaler(): distances need comparable features
    tol, max_iter : relative duality gap to reach; reweightings at most
    callback : called with a `Progress` after every reweighting

    Attributes
    ----------
    coef_, intercept_ : arrays of shape (T, d) and (T,); tasks_ : their labels
    structure_ : `TaskGraph`, the static graph (weights a_ij); it is not learned
    clusters_ : for every task with rows the number of its cluster: tasks whose coefficients have fused
    lam_ : the number in the formula
    objective_history_, n_iter_, converged_ : the objective at the independent fits and after every reweighting
    optimality_ : duality_gap (relative), eps (smoothing at the end) and inner (conjugate gradient steps in all)

    Notes
    -----
    If some tasks have fewer rows than features the duality gap closes long after the objective has settled; the
    iteration then ends when ten steps together gain less than tol / 100, and `optimality_` holds the gap.

    Examples
    --------
    Two tasks with one feature, y = x and y = 2x. Fused, both have the mean slope.

    >>> X = np.array([["a", -1.0], ["a", 1.0], ["b", -1.0], ["b", 1.0]], dtype=object)
    >>> y = np.array([-1.0, 1.0, -2.0, 2.0])
    >>> model = CCMTL(task=0, lam=9.0, ridge=0.0).fit(X, y)
    >>> model.coef_.ravel().round(6).tolist(), model.clusters_.tolist()
    ([1.5, 1.5], [0, 0])
    """

    shares: ClassVar[str] = "fixed graph"
    simplicity: ClassVar[int] = 70
    only_numbers: ClassVar[str] = "its graph is of squared-error fits, and its duality gap is that of squared errors"
    quick: ClassVar[dict[str, Any]] = {"tol": 1e-3, "max_iter": 100}
    default_grid: ClassVar[dict[str, tuple[Any, ...]]] = {
        "strength": (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0),
        "ridge": (1e-6, 1e-2),
    }

    facts: Any = None
    neighbors: int = number(10, at_least=1)
    strength: float = number(1.0, at_least=0)
    lam: float | None = number(None, at_least=0, also=(None,))
    ridge: float = number(1e-6, at_least=0)
    tol: float = number(1e-4, above=0)
    max_iter: int = number(300, at_least=1)
    callback: Callback | None = None

    def learn(self, gram: GramStats) -> Model:
        # The unit of strength and ridge: the mean curvature of the loss, so that both are pure numbers.
        own = max(float(mean_diagonal(gram.G).mean()), np.sqrt(TINY))
        start = ridge_alone(gram.G, gram.b, max(self.ridge, START_RIDGE) * own)
        A = nearest_neighbors(start, self.neighbors) if self.graph is None else self.graph.adjacency
        if A.nnz and A.data.min() < 0:
            raise ValueError("graph must have weights of at least 0: CCMTL draws tasks together, never apart")
        edges, a = edge_list(A)
        u = lengths(start[edges.i] - start[edges.j])
        lam = calibrated_lam(edges, a, u, self.strength * own) if self.lam is None else self.lam
        # Never quite without ridge: with fewer rows than features the problem would be singular.
        H = plus(gram.G, max(self.ridge, MARGIN) * own)
        pulled = a * lam > 0
        problem = Fusion(H, gram.b, float(gram.yy.sum()), edges.select(pulled), (a * lam)[pulled])
        course = self._solve(problem, start)
        # The smoothing keeps fused tasks a hair apart: shorter edges, or a small share of the typical, count as fused.
        shortest = FUSED * float(np.median(u)) if len(u) else 0.0
        cluster, W = fuse(problem, course.value, (max(shortest, 2 * course.details["eps"]), shortest))
        extras = {"lam_": float(lam), "clusters_": ByTask(cluster)}
        graph = TaskGraph(A, gram.labels)
        return Model.of(gram, W, structure=graph, course=_course(problem, course, W), extras=extras)

    def _solve(self, problem: Fusion, start: Array) -> Solution:
        if not len(problem.edges):
            W = solve_each(problem.H, problem.b)
            history = np.array([problem.objective(W)])
            return Solution(W, 0, 0.0, True, "direct", history=history, details={"eps": 0.0, "inner": 0})
        course = minimise(problem, start, tol=self.tol, max_iter=self.max_iter, callback=self.callback)
        if not course.converged:
            remedy = "Raise max_iter or tol, scale the features, or raise ridge."
            gap = {"duality_gap": course.residual}
            warn_of_stop("CCMTL", f"max_iter={self.max_iter} reweightings", gap, self.tol, remedy)
        return course


def nearest_neighbors(W: Array, k: int) -> sparse.csr_array:
    """Adjacency with weight 1 where either task is among the k nearest of the other.

    >>> nearest_neighbors(np.array([[0.0], [1.0], [3.0]]), 1).toarray()
    array([[0., 1., 0.],
           [1., 0., 1.],
           [0., 1., 0.]])
    """
    from sklearn.neighbors import NearestNeighbors  # a tenth of a second that other methods need not wait for

    T = len(W)
    k = min(int(k), T - 1)
    if k == 0:
        return sparse.csr_array((T, T))
    nearest = NearestNeighbors(n_neighbors=k).fit(W).kneighbors(return_distance=False)
    # The k nearest of task t are row t of a CSR matrix with k entries per row.
    directed = sparse.csr_array((np.ones(T * k), nearest.ravel(), np.arange(0, T * k + 1, k)), shape=(T, T))
    return sparse.csr_array(directed.maximum(directed.T))


def edge_list(A: sparse.csr_array) -> tuple[EdgeList, Array]:
    """The edges of an adjacency, each once, and their weights."""
    upper = sparse.triu(A, k=1, format="coo")
    i, j = upper.coords
    return EdgeList(i.astype(np.intp), j.astype(np.intp), A.shape[0]), upper.data


def calibrated_lam(edges: EdgeList, a: Array, u: Array, target: float) -> float:
    """lam such that mean_t lam sum_j a_ij / (2 ||w_i - w_j||) = target, for edge lengths u.

    Lengths far below the average (duplicated tasks) count as a thousandth of it.
    """
    if not u.any():
        return 0.0
    degree = edges.degrees(a / (2 * np.maximum(u, 1e-3 * u.mean())))
    return target / max(float(degree.mean()), TINY)


def _course(problem: Fusion, course: Solution, W: Array) -> Course:
    value = problem.objective(W)
    # Fusing for good moves the objective a little: the gap of the answer is that of the iteration plus this.
    gap = course.residual + (value - course.history[-1]) / problem.scale(value)
    certificates = {"duality_gap": max(float(gap), 0.0), **course.details}
    n_iter = max(course.n_iter, 1)  # one solve, if nothing pulls
    return Course(certificates, np.append(course.history, value), n_iter, course.converged)
