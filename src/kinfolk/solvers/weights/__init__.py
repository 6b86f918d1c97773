"""The weight step: min over W for a fixed graph."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike
from scipy import sparse

from kinfolk.rows.gram import Array
from kinfolk.solvers.solution import Solution
from kinfolk.solvers.tolerances import WEIGHTS_RESIDUAL
from kinfolk.solvers.weights.cg import BlockInverses, solve_cg
from kinfolk.solvers.weights.direct import can_share, solve_direct, solve_shared
from kinfolk.solvers.weights.system import WeightSystem, weight_system

__all__ = [
    "METHODS",
    "BlockInverses",
    "WeightSystem",
    "choose_method",
    "solve_system",
    "solve_weights",
    "weight_system",
]

METHODS = ("auto", "direct", "shared", "cg", "cmg")
DIRECT_UNKNOWNS = 300  # dT below which one dense Cholesky is faster than conjugate gradients
SHARED_TASKS = 2000  # the eigenvalues of L cost T^3


def solve_weights(
    gram: Any,
    A: ArrayLike | sparse.csr_array,
    gamma: float,
    *,
    ridge: ArrayLike,
    anchor: float = 0.0,
    method: str = "auto",
    start: Array | None = None,
    tol: float = WEIGHTS_RESIDUAL,
) -> Solution:
    """Coefficients of all tasks for a fixed graph.

    Solves, for W of shape (T, d),

        min  sum_t ||X_t w_t - y_t||^2 + ridge ||W||_F^2 + gamma sum_ij B_ij ||w_i - w_j||^2,

    with B = (1 - anchor) A + anchor / (T - 1) off the diagonal, that is

        (blockdiag(G_t + ridge I) + 2 gamma L_B (x) I) vec W = [b_t].

    Parameters
    ----------
    gram : statistics with `G` (T, d, d) and `b` (T, d): `GramStats` (own intercepts centred out)
    A : adjacency (T, T), sparse or dense
    ridge : a number, one per feature, or a d x d matrix
    method : "direct" (dense Cholesky), "shared" (all G_t equal), "cg" (conjugate gradients, matrix-free, with the
        preconditioner that suits the system), "cmg" (the same with combinatorial multigrid, as in the paper, beside
        every task's own block), or "auto"; the `method` of the result names what was used

    Examples
    --------
    Two tasks with one row each, x = 1 and y = 0 and 3, tied by one edge: they meet half-way of the pull.

    >>> import numpy as np
    >>> from types import SimpleNamespace
    >>> gram = SimpleNamespace(G=np.ones((2, 1, 1)), b=np.array([[0.0], [3.0]]))
    >>> solve_weights(gram, np.array([[0.0, 1.0], [1.0, 0.0]]), 0.5, ridge=0.0).value.ravel()
    array([1., 2.])
    """
    system = weight_system(gram.G, gram.b, sparse.csr_array(A), gamma, ridge=ridge, anchor=anchor)
    return solve_system(system, method=method, start=start, tol=tol)


def solve_system(
    system: WeightSystem,
    *,
    method: str = "auto",
    start: Array | None = None,
    tol: float = WEIGHTS_RESIDUAL,
    blocks: BlockInverses | None = None,
) -> Solution:
    """Solve a weight system by the named method; `blocks` carries a preconditioner from one call to the next."""
    if method not in METHODS:
        raise ValueError(f"unknown weights method {method!r}: choose one of {', '.join(METHODS)}")
    if method == "shared" and not can_share(system):
        raise ValueError('method="shared" needs all tasks to have the same inputs: use "auto"')
    if method == "auto":
        method = choose_method(system)
    if method == "direct":
        return solve_direct(system)
    if method == "shared":
        return solve_shared(system)
    if method == "cmg":
        return solve_cg(system, start=start, preconditioner="sum", laplacian_solver="cmg", tol=tol, blocks=blocks)
    return solve_cg(system, start=start, tol=tol, blocks=blocks)


def choose_method(system: WeightSystem) -> str:
    """The fastest exact method, or conjugate gradients where none is."""
    T, d = system.b.shape
    if can_share(system) and T <= SHARED_TASKS:
        return "shared"
    return "direct" if T * d <= DIRECT_UNKNOWNS else "cg"
