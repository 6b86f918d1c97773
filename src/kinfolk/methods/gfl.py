"""GFL: a lasso whose coefficients are fused along the correlations of the responses (Chen et al. 2010)."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from kinfolk.methods.method import Fit, MultiTaskRegressor
from kinfolk.methods.structures import TaskGraph
from kinfolk.progress import Callback
from kinfolk.rows.gram import Array, GramStats
from kinfolk.rows.responses import LEAST_COMMON, response_correlation
from kinfolk.rows.tasks import Rows
from kinfolk.solvers.fused_lasso import FusedProblem, solve_fused


class GFL(MultiTaskRegressor):
    """Graph-guided fused lasso: sparse coefficients, alike for tasks whose responses are correlated.

    Minimises, over the coefficients W (T, d) and own intercepts c,

        1/2 sum_t ||X_t w_t + c_t - y_t||^2 + lam ||W||_1 + gamma sum_{i<j} |r_ij| ||w_i - sign(r_ij) w_j||_1,

    where r_ij is the correlation of the responses of tasks i and j over the rows they have in common, or zero if
    |r_ij| <= threshold; lam = sparsity max|X_t'y_t| and gamma = fusion max|X_t'y_t| (centred), so that nothing depends
    on the scale of y or the number of rows, and all coefficients are zero from sparsity = 1 on. The graph is fixed
    beforehand, not learned with W. Convex; solved by ADMM to a duality gap (the paper smooths the fusion instead).

    Parameters
    ----------
    task : name or position of the task column of X; None if y has one column per task
    sparsity, fusion : weights of the two penalties, relative to max|X_t'y_t|; sparsity > 0, fusion >= 0
    absolute : whether sparsity and fusion are lam and gamma themselves
    graph : None for the correlations of the responses, which needs tasks with common rows. Else the signed relations r:
        an array (T, T) in the order of the sorted task labels, or a `TaskGraph`; taken as it is, without threshold
    threshold : in [0, 1): correlations of at most this size are left out
    features : a transformer for the non-task columns, e.g. StandardScaler()
    unseen : "error" or "mean": what predict does with tasks that fit has not seen
    tol, max_iter : stop at a duality gap of `tol` relative to the objective; iterations at most
    callback : called with a `Progress` now and then

    Attributes
    ----------
    coef_, intercept_ : arrays of shape (T, d) and (T,); tasks_ : their labels
    structure_ : |r| as a `TaskGraph`
    correlation_ : r (T, T), zero on the diagonal and where there is no edge
    lambda_, gamma_ : the weights that were used
    objective_history_ : the lowest objective so far, every ten iterations; n_iter_, converged_
    optimality_ : duality_gap (relative)

    References
    ----------
    X. Chen, S. Kim, Q. Lin, J. G. Carbonell, E. P. Xing, Graph-structured multi-task regression and an efficient
    optimization method for general fused lasso, arXiv:1005.3579, 2010.

    Examples
    --------
    Three responses to one input; the second follows the first, the third opposes it.

    >>> X, y = np.arange(5.0)[:, None], np.array([0.0, 1.0, 2.0, 3.0, 4.0])
    >>> model = GFL(sparsity=1e-6, fusion=0.3).fit(X, np.column_stack([y, 1.2 * y, -y]))
    >>> model.correlation_[0]
    array([ 0.,  1., -1.])
    >>> model.coef_.round(3).ravel()
    array([ 1.067,  1.067, -1.067])
    """

    default_grid: ClassVar[dict[str, tuple[float, ...]]] = {
        "sparsity": (1e-3, 1e-2, 1e-1),
        "fusion": (1e-4, 1e-3, 1e-2, 1e-1),
    }

    def __init__(
        self,
        task: str | int | None = None,
        *,
        sparsity: float = 0.01,
        fusion: float = 0.01,
        absolute: bool = False,
        graph: Any = None,
        threshold: float = 0.5,
        features: Any = None,
        unseen: str = "error",
        tol: float = 1e-5,
        max_iter: int = 10_000,
        callback: Callback | None = None,
    ) -> None:
        self.task = task
        self.sparsity = sparsity
        self.fusion = fusion
        self.absolute = absolute
        self.graph = graph
        self.threshold = threshold
        self.features = features
        self.unseen = unseen
        self.tol = tol
        self.max_iter = max_iter
        self.callback = callback

    def _fit_features(self, rows: Rows) -> tuple[Array, tuple[str, ...] | None]:
        """The features; on the way, while the rows are at hand, also the correlations of the responses."""
        X, names = super()._fit_features(rows)
        if self.graph is None:
            self._responses = response_correlation(rows, X)
        return X, names

    def _fit_gram(self, gram: GramStats) -> Fit:
        self._check_parameters()
        R = self._relations()
        present = np.isin(self.tasks_, gram.labels)
        unit = 1.0 if self.absolute else float(np.abs(gram.b).max(initial=0.0)) or 1.0
        lam, gamma = self.sparsity * unit, self.fusion * unit
        R_here = R[np.ix_(present, present)]
        problem = FusedProblem.of(gram, lam, gamma, R_here if gamma > 0 else np.zeros_like(R_here))
        found = solve_fused(problem, tol=self.tol, max_iter=self.max_iter, callback=self.callback)
        if not found.converged:
            warnings.warn(
                f"GFL stopped after {found.n_iter} iterations at a relative duality gap of {found.residual:.1e}, above "
                f"tol={self.tol:g}. Scale the features, raise sparsity, max_iter or tol.",
                ConvergenceWarning,
                stacklevel=4,
            )
        attributes = {
            "correlation_": R,
            "lambda_": lam,
            "gamma_": gamma,
            "objective_history_": found.history,
            "n_iter_": found.n_iter,
            "converged_": found.converged,
            "optimality_": {"duality_gap": found.residual},
        }
        return Fit(found.value, TaskGraph(sparse.csr_array(np.abs(R_here)), gram.labels), None, attributes)

    def _relations(self) -> Array:
        """r over all tasks, from the responses or as given."""
        if self.graph is not None:
            return given_relations(self.graph, self.tasks_)
        # Used once: statistics that come without rows must not meet the correlations of an earlier fit.
        without_rows = "_responses" not in self.__dict__
        R = self.__dict__.pop("_responses", None)
        if len(self.tasks_) == 1:
            return np.zeros((1, 1))
        if without_rows:
            raise ValueError(
                "GFL was given statistics without rows (by fit_gram, fit_folds or tune), which do not hold the "
                "correlations of the tasks' responses that it fuses along. Give the relations between tasks as graph=, "
                "a (T, T) array of signed correlations or a TaskGraph, e.g. graph=GFL().fit(X, Y).correlation_."
            )
        if R is None:
            raise ValueError(
                f"GFL found no two tasks with at least {LEAST_COMMON} rows of the same inputs, so that their responses "
                "have no correlations to fuse along. Give the relations between tasks as graph=, a (T, T) array of "
                "signed correlations or a TaskGraph; or fit(X, Y) with one column of Y per task."
            )
        return np.where(np.abs(R) > self.threshold, R, 0.0)

    def _check_parameters(self) -> None:
        if not (np.isfinite(self.sparsity) and self.sparsity > 0):
            raise ValueError(f"sparsity={self.sparsity} must be finite and greater than 0; it may be tiny")
        if not (np.isfinite(self.fusion) and self.fusion >= 0):
            raise ValueError(f"fusion={self.fusion} must be finite and at least 0")
        if not 0 <= self.threshold < 1:
            raise ValueError(f"threshold={self.threshold} must be at least 0 and below 1")
        if self.unseen not in ("error", "mean"):
            raise ValueError(f'unseen={self.unseen!r}: choose "error" or "mean"')


def given_relations(graph: Any, labels: NDArray[Any]) -> Array:
    """A graph that the user gave, as signed relations (T, T) between the tasks `labels`, zero on the diagonal."""
    if isinstance(graph, TaskGraph):
        absent = np.setdiff1d(labels, graph.labels)
        if len(absent):
            raise ValueError(f"graph has no task {absent.tolist()[0]!r}: it needs all {len(labels)} tasks of the data")
        order = np.argsort(graph.labels, kind="stable")
        position = order[np.searchsorted(graph.labels, labels, sorter=order)]
        R = graph.adjacency.toarray()[np.ix_(position, position)]
    else:
        R = np.array(graph.toarray() if sparse.issparse(graph) else graph, dtype=np.float64)
    T = len(labels)
    if R.shape != (T, T):
        raise ValueError(
            f"graph has shape {R.shape}, but there are {T} tasks: give a ({T}, {T}) array, sorted by label"
        )
    if not np.isfinite(R).all() or not np.allclose(R, R.T):
        raise ValueError("graph must be symmetric and finite: r_ij is the relation of tasks i and j")
    np.fill_diagonal(R, 0.0)
    return R
