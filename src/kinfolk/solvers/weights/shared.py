"""Weight step when all tasks have the same inputs: two eigenvalue problems and an elementwise division.

With H = Q diag(h) Q' and the coupling matrix L = U diag(m) U', the system W H + L W = b becomes

    (U' W Q)_ij (h_j + m_i) = (U' b Q)_ij.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

from kinfolk.memory import check_memory
from kinfolk.solvers.solution import Solution
from kinfolk.solvers.weights.system import WeightSystem


def can_share(system: WeightSystem) -> bool:
    """Whether the tasks share H and every unknown is coupled alike."""
    return system.shared and np.ptp(system.scale) == 0 and np.ptp(system.uniform) == 0


def solve_shared(system: WeightSystem) -> Solution:
    """Exact solution; time T^3 + d^3."""
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
