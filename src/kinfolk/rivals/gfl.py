"""GFL: a lasso whose coefficients are fused along the correlations of the responses (Chen et al. 2010)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse

from kinfolk.methods.given_graph import AlongGraph, named_graph
from kinfolk.methods.model import Course, Model
from kinfolk.methods.parameters import number, parameters
from kinfolk.methods.structures import TaskGraph
from kinfolk.progress import Callback
from kinfolk.rivals.responses import LEAST_COMMON, response_correlation
from kinfolk.rivals.solvers.fused_lasso import FusedProblem, solve_fused
from kinfolk.rivals.solvers.stopped import warn_of_stop
from kinfolk.rows.folds import Folds
from kinfolk.rows.gram import GramStats
from kinfolk.rows.table import Rows


@parameters
class GFL(AlongGraph):
    """Graph-guided fused lasso: sparse coefficients, alike for tasks whose responses are correlated.

    Minimises, over the coefficients W (T, d) and own intercepts c,

        1/2 sum_t ||X_t w_t + c_t - y_t||^2 + lam ||W||_1 + gamma sum_{i<j} |r_ij| ||w_i - sign(r_ij) w_j||_1,

    where r_ij is the correlation of the responses of tasks i and j over the rows they have in common, or zero if
    |r_ij| <= threshold; lam = sparsity max|X_t'y_t| and gamma = fusion max|X_t'y_t| (centred), so that nothing depends
    on the scale of y or the number of rows, and all coefficients are zero from sparsity = 1 on. The graph is fixed
    beforehand, not learned with W. Convex; solved by ADMM to a duality gap (the paper smooths the fusion instead).

    Parameters
    ----------
    sparsity, fusion : weights of the two penalties, relative to max|X_t'y_t|; sparsity > 0, fusion >= 0
    absolute : whether sparsity and fusion are lam and gamma themselves
    graph : None for the correlations of the responses, which needs tasks with common rows. Else the signed relations r:
        an array (T, T) in the order of the sorted task labels, or a `TaskGraph`; taken as it is, without threshold
    threshold : in [0, 1): correlations of at most this size are left out
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

    shares: ClassVar[str] = "graph of correlated targets"
    simplicity: ClassVar[int] = 100
    only_numbers: ClassVar[str] = (
        "its graph is of correlations between targets, and its duality gap is that of squared errors"
    )
    quick: ClassVar[dict[str, Any]] = {"tol": 1e-3, "max_iter": 1000}
    needs: ClassVar[str] = "all tasks measured at the same rows"
    default_grid: ClassVar[dict[str, tuple[Any, ...]]] = {"sparsity": (1e-3, 1e-2), "fusion": (1e-4, 1e-3, 1e-2, 1e-1)}

    facts: Any = None
    sparsity: float = number(0.01, above=0, hint="it may be tiny")
    fusion: float = number(0.01, at_least=0)
    absolute: bool = False
    threshold: float = number(0.5, at_least=0, below=1)
    tol: float = 1e-5
    max_iter: int = 10_000
    callback: Callback | None = None

    def fit_rows(self, rows: Rows, groups: Any = None) -> Self:
        """Fit along the given relations, or along the correlations of the responses, for which rows are needed."""
        if self.graph is not None or len(rows.schema.labels) == 1:
            return super().fit_rows(rows, groups)
        columns, features, names = self.fit_columns(rows)
        gram = rows.gram(columns.of_training(rows, features), names)
        R = response_correlation(rows, features)
        R = np.zeros((gram.n_tasks, gram.n_tasks)) if R is None and self.learns_nothing(gram, None) else R
        if R is None:
            raise ValueError(
                f"GFL found no two tasks with at least {LEAST_COMMON} rows of the same inputs, so that their responses "
                "have no correlations to fuse along. In Python, give the relations between tasks as graph=, a (T, T) "
                "array of signed correlations or a TaskGraph; or fit(X, Y) with one column of Y per task."
            )
        # Weak correlations are noise: below the threshold no two tasks are fused.
        along = self.unfitted().set_params(graph=np.where(np.abs(R) > self.threshold, R, 0.0), callback=self.callback)
        return self.keep(along.whole_model(gram), self.limited(columns, rows, features))

    def model_of(self, gram: GramStats, folds: Folds | None = None) -> Model:
        """The fit, and the relations between all tasks."""
        model = super().model_of(gram, folds)
        R = np.zeros((gram.n_tasks, gram.n_tasks))
        if self.graph is not None:
            R = named_graph(self.graph, gram.labels, gram.labels).adjacency.toarray()
        return replace(model, extras={**model.extras, "correlation_": R})

    def learn(self, gram: GramStats) -> Model:
        if self.graph is None and gram.n_tasks > 1:
            raise ValueError(
                "GFL was given statistics without rows (by fit_gram, fit_folds or tune), which do not hold the "
                "correlations of the tasks' responses that it fuses along. Give the relations between tasks as graph=, "
                "a (T, T) array of signed correlations or a TaskGraph, e.g. graph=GFL().fit(X, Y).correlation_."
            )
        R = np.zeros((1, 1)) if self.graph is None else self.graph.adjacency.toarray()
        # The largest |b| is the penalty at which all coefficients vanish: sparsity and fusion are shares of it.
        unit = 1.0 if self.absolute else float(np.abs(gram.b).max(initial=0.0)) or 1.0
        lam = self.sparsity * unit
        gamma = self.fusion * unit
        problem = FusedProblem.of(gram, lam, gamma, R if gamma > 0 else np.zeros_like(R))
        solution = solve_fused(problem, tol=self.tol, max_iter=self.max_iter, callback=self.callback)
        certificates = {"duality_gap": solution.residual}
        if not solution.converged:
            remedy = "Scale the features, raise sparsity, max_iter or tol."
            warn_of_stop("GFL", f"{solution.n_iter} iterations", certificates, self.tol, remedy)
        course = Course(certificates, solution.history, solution.n_iter, solution.converged)
        # Opposed tasks are fused with opposite signs; the graph shows how strongly, not which way.
        graph = TaskGraph(sparse.csr_array(np.abs(R)), gram.labels)
        extras = {"lambda_": lam, "gamma_": gamma}
        return Model.of(gram, solution.value, structure=graph, course=course, extras=extras)
