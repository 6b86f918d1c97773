"""The joint problem behind the graph of a fitted model: what is needed to solve it again on other statistics."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from kinfolk.estimators.gamtl import GAMTL
from kinfolk.estimators.gamtlcv import GAMTLCV
from kinfolk.methods.gamtl.alternate import Alternation
from kinfolk.methods.gamtl.problem import Problem, calibrated, solve, theta_at_start
from kinfolk.methods.structures import TaskGraph, structure_of
from kinfolk.rows.gram import Array, GramStats, task_loss
from kinfolk.rows.tables import read_table
from kinfolk.rows.tasks import Rows, read_rows
from kinfolk.solvers.batched import times, transposed_times
from kinfolk.solvers.equations import NormalEquations, normal_equations
from kinfolk.solvers.weights import solve_system
from kinfolk.solvers.weights.direct import dense_matrix

DENSE_UNKNOWNS = 2000  # dT up to which the inverse of the weight system is formed to count degrees of freedom
PROBES = 30  # random vectors that estimate them beyond
OWN_ROWS = 10  # degrees of freedom from which a task's own residuals alone give its noise


@dataclass(frozen=True, eq=False)
class Joint:
    """The GAMTL that drew a model's graph: for GAMTL itself the model, for GAMTLCV its best graph candidate.

    Attributes
    ----------
    estimator : unfitted GAMTL with the parameters in use
    gram : statistics of the tasks with rows, features divided by `scale`
    problem : the objective at the fitted alpha, beta, gamma, ridge and metric
    graph : the fitted graph of these tasks
    scale : array of shape (d,), by which the features were divided
    """

    estimator: GAMTL
    gram: GramStats
    problem: Problem
    graph: TaskGraph
    scale: Array

    def on(self, gram: GramStats) -> Problem:
        """The same problem (letters, ridge, metric) for other statistics of the same tasks and features."""
        equations = normal_equations(gram, self.estimator.intercept)
        basis = self.problem.equations.basis
        if basis is not None:
            equations = equations.in_basis(basis[: gram.n_features, : gram.n_features])
        return replace(self.problem, equations=equations)

    @cached_property
    def solution(self) -> Alternation:
        """The fit itself, solved again."""
        rounds = self.estimator._rounds(self.gram.n_tasks)
        return quietly(self.problem, tol=self.estimator.tol, max_iter=rounds)

    @cached_property
    def coef(self) -> Array:
        """Coefficients (T, d) behind the graph, in the units of the rows."""
        return self.problem.equations.coefficients(self.solution.weights.value)[0] / self.scale

    @cached_property
    def noise(self) -> Array:
        """Variance of the noise of every task.

        From the residuals of the task's own least squares where they have at least ten degrees of freedom: those
        need no kin. Else from the residuals of the joint fit over n_t minus its degrees of freedom, which is too large
        for a task that is tied to others unlike it.
        """
        own, dof = own_residuals(self.gram)
        equations, system = self.problem.equations, self.problem.system(self.solution.graph.value)
        rows: Array = self.gram.n - (self.estimator.intercept == "free")
        left = np.maximum(rows - degrees_of_freedom(system, equations), 1.0)
        joint = task_loss(equations, self.solution.weights.value) / left
        return np.where(dof >= OWN_ROWS, own / np.maximum(dof, 1.0), joint)

    def contrast(self, c: Array) -> tuple[Array, Array]:
        """sum_t c_t w_t and its standard errors, both (d,): exact for the fitted graph, which is taken as given.

        The weights are linear in the targets, W = M^-1 b with cov(b_t) = noise_t G_t, so with S = M^-1 (c x I)
        the covariance of the contrast is sum_t noise_t S_t' G_t S_t. It has the noise, not the bias of the coupling.
        """
        system, d = self.problem.system(self.graph.adjacency), self.gram.n_features
        unknowns = system.b.shape[1]
        S = np.stack(
            [solve_system(replace(system, b=np.outer(c, e))).value for e in np.eye(unknowns)],
            axis=2,
        )
        # G of the normal equations, so an intercept column is part of the noise of b.
        C = np.einsum("t,tij,tia,tjb->ab", self.noise, self.problem.equations.G, S, S, optimize=True)
        basis = self.problem.equations.basis
        C = C if basis is None else basis @ C @ basis.T
        return c @ self.coef, np.sqrt(np.maximum(np.diagonal(C)[:d], 0.0)) / self.scale


def joint_of(model: Any, caller: str) -> Joint:
    """The joint problem of a fitted GAMTL, GAMTLCV or RBFGAMTL, or an error that says what was given."""
    graph = graph_of(model, caller)
    if not isinstance(model, (GAMTL, GAMTLCV)):
        raise TypeError(
            f"{caller} solves the joint problem of GAMTL, GAMTLCV or RBFGAMTL again, but got {type(model).__name__}, "
            "whose graph comes from elsewhere: fit one of these three"
        )
    seen = model.gram_.n > 0
    if seen.sum() < 3:
        raise ValueError(f"{caller} compares pairs of tasks with others: it needs at least 3 tasks, got {seen.sum()}")
    gram = model.gram_ if seen.all() else model.gram_.select(seen)
    graph = graph if seen.all() else graph.among(seen)
    if isinstance(model, GAMTL):
        estimator = clone(model).set_params(callback=None)
        problem = estimator._problem(gram, estimator._effects(gram))
        problem = replace(problem, alpha=model.alpha_, beta=model.beta_, gamma=model.gamma_)
        return Joint(estimator, gram, problem, graph, np.ones(gram.n_features))
    scale, estimator = model._scale(gram), GAMTL(**model.best_params_)
    gram = gram.rescaled(scale)
    problem = estimator._problem(gram, estimator._effects(gram))
    problem = calibrated(problem, theta_at_start(problem, estimator.neighbors), estimator.strength)
    return Joint(estimator, gram, problem, graph, scale)


def graph_of(model: Any, caller: str) -> TaskGraph:
    """The graph of a fitted model, or the graph itself; an error for models whose structure is something else."""
    structure = structure_of(model, caller)
    if structure is None or structure.kind != "graph":
        what = "no structure"
        remedy = ""
        if structure is not None:
            what = f"a {type(structure).__name__}"
            remedy = ", or structure_.graph() as a TaskGraph"
        raise TypeError(
            f"{caller} reads a TaskGraph, but {type(model).__name__} has {what}: use GAMTL, GAMTLCV or RBFGAMTL{remedy}"
        )
    return structure.graph()


def rows_like(model: Any, X: Any, y: Any, caller: str) -> tuple[Rows, Array]:
    """Rows held against those of fit, and their features."""
    if X is None or y is None:
        raise ValueError(f"{caller} needs both X and y, or neither")
    read_table(X).check_against(model._schema.names, model._schema.width, type(model).__name__)
    rows = read_rows(X, y, task=model.task)
    if not np.array_equal(rows.schema.labels, model.tasks_):
        known, here = set(model.tasks_.tolist()), set(rows.schema.labels.tolist())
        odd = sorted(known ^ here, key=str)
        where = "in X, but not in fit" if odd[0] in here else "in fit, but not in X"
        raise ValueError(f"{caller}: task {odd[0]!r} is {where}. Pass the rows that the model was fitted on")
    return rows, model._transform(rows.table)


def quietly(problem: Problem, *, tol: float, max_iter: int) -> Alternation:
    """Solve from the independent fits, without warnings: of many solves a few may stop early."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return solve(problem, tol=tol, max_iter=max_iter, quiet=True)


def own_residuals(gram: GramStats) -> tuple[Array, Array]:
    """Residual sum of squares and degrees of freedom of every task's own least squares with intercept.

    >>> gram = GramStats.from_rows([[0.0], [1.0], [2.0]], [0.0, 3.0, 0.0])
    >>> own_residuals(gram)
    (array([6.]), array([1.]))
    """
    value, vector = spectrum(gram.G)
    inside = value > 0
    along = transposed_times(vector, gram.b)
    fitted = np.divide(along**2, value, out=np.zeros_like(along), where=inside).sum(axis=1)
    return np.maximum(gram.yy - fitted, 0.0), np.maximum(gram.n - 1 - inside.sum(axis=1), 0.0)


def spectrum(G: Array) -> tuple[Array, NDArray[np.float64]]:
    """Eigenvalues (T, d), those at rounding level set to zero, and eigenvectors (T, d, d) of every G_t."""
    distinct = G[:1] if G.strides[0] == 0 else G
    value, vector = np.linalg.eigh(distinct)
    value = np.where(value > 1e-10 * value[:, -1:], value, 0.0)
    return np.broadcast_to(value, G.shape[:2]), np.broadcast_to(vector, G.shape)


def degrees_of_freedom(system: Any, equations: NormalEquations) -> Array:
    """tr(G_t (M^-1)_tt) of every task: how many of its rows the joint fit uses up.

    Exact from the inverse of the dT x dT matrix M; for large ones the mean over random signs z of z_t'(M^-1 G z)_t.
    """
    T, d = system.b.shape
    if T * d <= DENSE_UNKNOWNS:
        inverse = np.linalg.inv(dense_matrix(system)).reshape(T, d, T, d)
        t = np.arange(T)
        return np.einsum("tij,tij->t", equations.G, inverse[t, :, t, :])
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(PROBES, T, d))
    found = np.zeros(T)
    for z in signs:
        right = times(equations.G, z)
        found += np.einsum("td,td->t", z, solve_system(replace(system, b=right), tol=1e-4).value)
    return np.maximum(found / PROBES, 0.0)
