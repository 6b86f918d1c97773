"""The joint problem behind the graph of a fitted model: what is needed to solve it again on other statistics."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from kinfolk.methods.gamtl import coupling
from kinfolk.methods.gamtl.alternate import Alternation
from kinfolk.methods.gamtl.coupling import GraphCoupling, GraphInverse
from kinfolk.methods.gamtl.problem import Problem, usual_rounds
from kinfolk.methods.model import Fitted, Model, Part, as_model, structure_of
from kinfolk.methods.structures import Structure, TaskGraph
from kinfolk.methods.uncertainty import noise_of_tasks
from kinfolk.rows.gram import Array, GramStats, task_loss
from kinfolk.rows.table import Rows
from kinfolk.solvers.batched import times, transposed_times
from kinfolk.solvers.centre import column_sizes
from kinfolk.solvers.weights import solve_system

PROBES = 30  # random vectors that estimate degrees of freedom where the inverse of the system is not kept
PROBE_RESIDUAL = 1e-4  # of their systems: so few random vectors give two digits at most
NO_INPUT = 1e-10  # of the largest eigenvalue of a G_t: directions with less have no rows, only rounding
OWN_ROWS = 4.0  # degrees of freedom from which a task's residuals say something about its noise


@dataclass(frozen=True, eq=False)
class Joint:
    """The joint problem that drew a model's graph, with the numbers that were used.

    Attributes
    ----------
    part : the part of the model with that graph
    coupling : of the part
    gram : statistics of the tasks with rows
    graph : the fitted graph of these tasks
    """

    part: Part
    coupling: GraphCoupling
    gram: GramStats
    graph: TaskGraph

    @cached_property
    def problem(self) -> Problem:
        """The objective at the fitted numbers."""
        return self.coupling.problem(self.part.equations(self.gram))

    @property
    def is_small(self) -> bool:
        """Whether the inverse of the weight system is kept, so that contrasts of many tasks cost little."""
        return self.part.V.size <= coupling.DENSE_UNKNOWNS

    @cached_property
    def coef(self) -> Array:
        """Coefficients (T, d) behind the graph, in the units of the rows."""
        return self.part.coefficients(self.problem.equations, self.part.V)[0]

    @property
    def units(self) -> Array:
        """By which the features were divided, (d,)."""
        return np.ones(self.gram.n_features) if self.part.units is None else self.part.units

    @cached_property
    def inverse(self) -> GraphInverse:
        """N = M^-1 of the weight system at the fitted graph, by which the weights are linear in the targets."""
        return GraphInverse(self.problem.system(self.coupling.adjacency), self.problem.equations.G)

    @cached_property
    def noise(self) -> Array:
        """Variance of the noise of every task: from its own least squares, which needs no kin, or else the joint fit.

        The latter, residuals over n_t minus degrees of freedom, is too large for a task tied to others unlike it, and
        counts for no less than its median over tasks: few rows may look exact by chance.
        """
        noise = shrunk_noise(self._used)
        if noise is not None:
            return noise
        rows: Array = self.gram.n - (self.part.intercept == "free")
        # At least one, or a task with fewer rows than unknowns would have no noise.
        spare = np.maximum(rows - degrees_of_freedom(self.inverse), 1.0)
        noise = task_loss(self.problem.equations, self.part.V) / spare
        return np.maximum(noise, np.median(noise))

    @property
    def _used(self) -> GramStats:
        """Statistics of the features that the part uses: what others explain is noise to it."""
        if self.part.basis is None:
            return self.gram
        used = np.flatnonzero(self.part.basis.any(axis=1))
        return self.gram if len(used) == self.gram.n_features else self.gram.on_columns(used)

    def contrast(self, c: Array) -> tuple[Array, Array]:
        """sum_t c_t w_t and its standard errors, both (d,): exact for the fitted graph, which is taken as given.

        The weights are linear in the targets, W = M^-1 b with cov(b_t) = noise_t G_t, so with S = M^-1 (c x I)
        the covariance of the contrast is sum_t noise_t S_t' G_t S_t. It has the noise, not the bias of the coupling.
        """
        S = np.zeros(self.inverse.G.shape)
        for t in np.flatnonzero(c).tolist():
            S += c[t] * self.inverse.columns(t)
        # G of the normal equations, so an intercept column is part of the noise of b.
        C = np.einsum("t,tij,tia,tjb->ab", self.noise, self.problem.equations.G, S, S, optimize=True)
        return c @ self.coef, self.standard_errors(C)

    def standard_errors(self, C: Array) -> Array:
        """Of slopes, in the units of the rows, from a covariance (p, p) of unknowns."""
        basis = self.problem.equations.basis
        C = C if basis is None else basis @ C @ basis.T
        return np.sqrt(np.maximum(np.diagonal(C)[: self.gram.n_features], 0.0)) / self.units


def joint_of(given: Fitted | Structure, caller: str) -> Joint:
    """The joint problem behind the graph of a model, or an error that says what was given."""
    graph = graph_of(given, caller)
    model = None if graph is given else as_model(cast(Fitted, given), caller)
    if model is not None and model.private:
        model.statistics(caller)
    part = None if model is None else model.graph_part
    if model is None or part is None or not isinstance(part.coupling, GraphCoupling):
        raise TypeError(
            f"{caller} solves the joint problem of GAMTL, GAMTLCV or RBFGAMTL again, but got "
            f"{'TaskGraph' if model is None else model.name}, whose graph comes from elsewhere: fit one of these three"
        )
    count = int(model.seen.sum())
    if count < 3:
        raise ValueError(f"{caller} compares pairs of tasks with others: it needs at least 3 tasks, got {count}")
    return Joint(part, part.coupling, model.known, graph if model.seen.all() else graph.among(model.seen))


def joint_behind(model: Model) -> Joint | None:
    """The joint problem behind the graph of a model, if there is one and three tasks have rows."""
    part = model.graph_part
    if part is None or not isinstance(part.coupling, GraphCoupling) or model.seen.sum() < 3:
        return None
    return joint_of(model, "this")


def graph_of(given: Fitted | Structure, caller: str) -> TaskGraph:
    """The graph of a fitted model, or the graph itself; an error for models whose structure is something else."""
    structure = structure_of(given, caller)
    if structure is None or structure.kind != "graph":
        what = "no structure"
        remedy = ""
        if structure is not None:
            what = f"a {type(structure).__name__}"
            remedy = ", or structure_.graph() as a TaskGraph"
        name = given.name if isinstance(given, Model) else type(given).__name__
        raise TypeError(f"{caller} reads a TaskGraph, but {name} has {what}: use GAMTL, GAMTLCV or RBFGAMTL{remedy}")
    return cast(TaskGraph, structure)  # its kind tells what it is


def rows_like(given: Fitted, X: Any, y: Any, caller: str) -> tuple[Rows, Array]:
    """Rows like those of fit, of the same tasks, and their features."""
    model = as_model(given, caller)
    if X is None or y is None:
        raise ValueError(f"{caller} needs both X and y, or neither")
    assert model.columns is not None
    rows, features = model.columns.read_with_targets(X, y, model.name)
    if not np.array_equal(rows.schema.labels, model.labels):
        of_fit = set(model.labels.tolist())
        of_rows = set(rows.schema.labels.tolist())
        odd = min(of_fit ^ of_rows, key=str)
        where = "in X, but not in fit" if odd in of_rows else "in fit, but not in X"
        raise ValueError(f"{caller}: task {odd!r} is {where}. Pass the rows that the model was fitted on")
    return rows, model.columns.of_training(rows, features)


def position(labels: NDArray[Any], name: Any) -> int:
    """Where a task stands, or an error with the names there are."""
    at = np.flatnonzero(labels == name)
    if not len(at):
        shown = ", ".join(map(repr, labels[:5].tolist())) + (", ..." if len(labels) > 5 else "")
        raise ValueError(f"no task {name!r} among {len(labels)} tasks: {shown}")
    return int(at[0])


def quietly(problem: Problem, *, tol: float) -> Alternation:
    """Solve from the independent fits, without warnings: of many solves a few may stop early."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return problem.solve(tol=tol, max_iter=usual_rounds(len(problem.equations.b)), quiet=True)


def shrunk_noise(gram: GramStats) -> Array | None:
    """Variance of every task's noise: its own, drawn to the common one as far as their scatter is chance.

    None if hardly any task has residuals of its own. Standard deviations of predictions have the noise of tasks alike.

    Examples
    --------
    Own variances 1 and 1 scatter less than chance: both tasks get the common one.

    >>> rows = np.array([[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]] * 4)
    >>> gram = GramStats.from_rows(rows, np.tile([1.0, -1.0, 0.0, 0.0, -1.0, 1.0], 4), np.repeat(np.arange(4), 6))
    >>> shrunk_noise(gram).round(6)
    array([1., 1., 1., 1.])
    """
    squares, freedom = own_residuals(gram)
    return noise_of_tasks(squares, freedom) if (freedom >= OWN_ROWS).sum() >= 4 else None


def own_residuals(gram: GramStats) -> tuple[Array, Array]:
    """Residual sum of squares and degrees of freedom of every task's own least squares with intercept.

    >>> gram = GramStats.from_rows([[0.0], [1.0], [2.0]], [0.0, 3.0, 0.0])
    >>> own_residuals(gram)
    (array([6.]), array([1.]))
    """
    gram = gram.rescaled(column_sizes(gram.G))  # in raw units a column of large numbers would hide the others
    value, vector = spectrum(gram.G)
    inside = value > 0
    along = transposed_times(vector, gram.b)
    fitted = np.divide(along**2, value, out=np.zeros_like(along), where=inside).sum(axis=1)
    return np.maximum(gram.yy - fitted, 0.0), np.maximum(gram.n - 1 - inside.sum(axis=1), 0.0)


def spectrum(G: Array) -> tuple[Array, NDArray[np.float64]]:
    """Eigenvalues (T, d), those at rounding level set to zero, and eigenvectors (T, d, d) of every G_t."""
    distinct = G[:1] if G.strides[0] == 0 else G
    value, vector = np.linalg.eigh(distinct)
    value = np.where(value > NO_INPUT * value[:, -1:], value, 0.0)
    return np.broadcast_to(value, G.shape[:2]), np.broadcast_to(vector, G.shape)


def degrees_of_freedom(inverse: GraphInverse) -> Array:
    """tr(G_t (M^-1)_tt) of every task: how many of its rows the joint fit uses up.

    Exact where the inverse of the dT x dT matrix M is kept, else the mean over random signs z of z_t'(M^-1 G z)_t.
    """
    T, d = inverse.system.b.shape
    if inverse.at_once:
        return np.array([np.sum(inverse.G[t] * inverse.columns(t)[t]) for t in range(T)])
    # E z z' = I, so the mean of z'(M^-1 G) z over random signs is the trace (Hutchinson).
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(PROBES, T, d))
    trace = np.zeros(T)
    for z in signs:
        right = replace(inverse.system, b=times(inverse.G, z))
        trace += np.einsum("td,td->t", z, solve_system(right, tol=PROBE_RESIDUAL).value)
    return np.maximum(trace / PROBES, 0.0)
