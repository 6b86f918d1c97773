"""Weight step by dense factorisations: of the dT x dT matrix, or of H and L where tasks share their inputs."""

from __future__ import annotations

import numpy as np
from scipy import linalg
from scipy.linalg import lapack

from kinfolk.memory import check_memory
from kinfolk.rows.gram import Array
from kinfolk.solvers.solution import Solution
from kinfolk.solvers.tolerances import ROUNDING
from kinfolk.solvers.weights.system import WeightSystem

LEAST_DIAGONAL = 1e-200  # below, an unknown has no effect, and the square of its inverse no number
BLOCK = 512  # rows and columns copied at once


def solve_direct(system: WeightSystem) -> Solution:
    """Exact solution; memory (dT)^2 and time (dT)^3 / 3.

    Where rows, ridge and graph leave directions free (copied columns, a ridge far below the rounding of G), these
    directions get 0.
    """
    size = system.b.size
    check_memory(16.0 * size**2, f"the weights of {len(system.b)} tasks", 'Use weights_solver="cg".')
    M, unit = scaled_matrix(system)
    W = (unit * _solve(M, unit * system.b.ravel())).reshape(system.b.shape)
    return Solution(W, 0, system.residual(W), True, "direct")


def _solve(M: Array, b: Array) -> Array:
    """Cholesky; for a singular matrix the solution of least norm."""
    try:
        return linalg.cho_solve(linalg.cho_factor(M), b)
    except linalg.LinAlgError:
        return linalg.pinvh(M, rtol=len(M) * np.finfo(float).eps) @ b


def scaled_matrix(system: WeightSystem) -> tuple[Array, Array]:
    """unit M unit with a diagonal of 1, and `unit`; features of very different size do not make it look singular."""
    M = dense_matrix(system)
    diagonal = np.diagonal(M).copy()
    nothing = diagonal < LEAST_DIAGONAL
    unit = 1 / np.sqrt(np.where(nothing, 1.0, diagonal))
    M *= unit
    M *= unit[:, None]
    return M, unit


def definite_inverse(system: WeightSystem) -> Array:
    """The inverse of the dT x dT matrix, in the memory of the matrix alone; time (dT)^3.

    The diagonal gets as much as rounding may have taken from directions that are free. A basis whose directions differ
    in size has magnified this rounding; the least eigenvalue then says by how much.
    """
    M, unit = _definite(system)
    factor, failed = lapack.dpotrf(M.T, lower=True, overwrite_a=True, clean=False)
    if failed:
        M, unit = _definite(system)  # half of it was overwritten
        # Of the half that is read: rounding in a basis makes the two differ.
        M[np.diag_indices_from(M)] += 2 * np.abs(linalg.eigvalsh(M, lower=False, subset_by_index=[0, 0]))
        factor, failed = lapack.dpotrf(M.T, lower=True, overwrite_a=True, clean=False)
    if failed:
        raise linalg.LinAlgError(f"the matrix of {len(system.b)} tasks is not positive definite")
    inverse, _ = lapack.dpotri(factor, lower=True, overwrite_c=True)
    _mirror(inverse)
    inverse *= unit
    inverse *= unit[:, None]
    return inverse


def _definite(system: WeightSystem) -> tuple[Array, Array]:
    M, unit = scaled_matrix(system)
    diagonal = np.diag_indices_from(M)
    free = M[diagonal] < 0.5  # all others are 1
    M[diagonal] += max(ROUNDING, len(M) * float(np.finfo(float).eps)) + free
    return M, unit


def _mirror(A: Array) -> None:
    """Copy the lower triangle to the upper one, block by block."""
    for start in range(0, len(A), BLOCK):
        stop = start + BLOCK
        A[start:stop, stop:] = A[stop:, start:stop].T
        own = A[start:stop, start:stop]
        own[:] = np.tril(own) + np.tril(own, -1).T


def dense_matrix(system: WeightSystem) -> Array:
    """The full matrix, tasks outer, unknowns inner."""
    T, d = system.b.shape
    M = np.zeros((T, d, T, d))
    t = np.arange(T)
    M[t, :, t, :] = system.H
    L = system.L.toarray()
    uniform = T * np.eye(T) - 1
    for j in range(d):
        M[:, j, :, j] += system.scale[j] * L + system.uniform[j] * uniform
    return M.reshape(T * d, T * d)


def can_share(system: WeightSystem) -> bool:
    """Whether the tasks share H and every unknown is coupled alike."""
    return system.shared and np.ptp(system.scale) == 0 and np.ptp(system.uniform) == 0


def solve_shared(system: WeightSystem) -> Solution:
    """Exact solution; time T^3 + d^3.

    With H = Q diag(h) Q' and the coupling matrix L = U diag(m) U', the system W H + L W = b becomes

        (U' W Q)_ij (h_j + m_i) = (U' b Q)_ij.
    """
    T = len(system.b)
    check_memory(32.0 * T**2, f"the coupling matrix of {T} tasks", 'Use weights_solver="cg".')
    L = system.scale[0] * system.L.toarray() + system.uniform[0] * (T * np.eye(T) - 1)
    m, U = linalg.eigh(L)
    h, Q = linalg.eigh(system.H[0])
    stiffness = h + np.maximum(m, 0.0)[:, None]
    # Directions that rows, ridge and graph leave free get 0.
    free = stiffness <= len(h) * np.finfo(float).eps * h.max()
    W = U @ np.where(free, 0.0, (U.T @ system.b @ Q) / np.where(free, 1.0, stiffness)) @ Q.T
    return Solution(W, 0, system.residual(W), True, "shared")
