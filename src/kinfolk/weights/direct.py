"""Weight step by one dense Cholesky factorisation of the dT x dT matrix."""

from __future__ import annotations

import numpy as np
from scipy import linalg

from kinfolk.gram import Array
from kinfolk.solution import Solution
from kinfolk.weights.system import WeightSystem


def solve_direct(system: WeightSystem) -> Solution:
    """Exact solution; memory (dT)^2 and time (dT)^3 / 3."""
    W = linalg.cho_solve(linalg.cho_factor(dense_matrix(system), overwrite_a=True), system.b.ravel())
    W = W.reshape(system.b.shape)
    return Solution(W, 0, system.residual(W), True, "direct")


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
