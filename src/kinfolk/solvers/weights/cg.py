"""Weight step by conjugate gradients on V -> H_t v_t + coupling, never formed."""

from __future__ import annotations

from dataclasses import replace

from kinfolk.rows.gram import Array
from kinfolk.solvers.krylov import conjugate_gradients
from kinfolk.solvers.solution import Solution
from kinfolk.solvers.tolerances import WEIGHTS_RESIDUAL
from kinfolk.solvers.weights.preconditioners import PRECONDITIONERS, make_preconditioner
from kinfolk.solvers.weights.system import WeightSystem

__all__ = ["PRECONDITIONERS", "solve_cg"]


def solve_cg(
    system: WeightSystem,
    *,
    start: Array | None = None,
    preconditioner: str = "auto",
    laplacian_solver: str = "auto",
    tol: float = WEIGHTS_RESIDUAL,
    max_iter: int = 1000,
) -> Solution:
    """Iterative solution to a relative residual of `tol`; memory T d^2.

    `preconditioner` and `laplacian_solver` are explained in `preconditioners.py`; "auto" tells in the `method` of the
    result what it chose, as in "cg (sum, cmg)".
    """
    apply, name = make_preconditioner(system, preconditioner, laplacian_solver)
    solution = conjugate_gradients(system.apply, system.b, apply, start=start, tol=tol, max_iter=max_iter)
    return replace(solution, method=f"cg ({name})")
