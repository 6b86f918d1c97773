"""ADMM, the one loop behind the fused lasso and the pairwise fusion of tasks.

    min over W   f(W) + g(Z)   subject to   Z = E W,      with scaled multipliers U (Boyd et al. 2011)

A problem says how to minimise f near a target and g near a point, which answer it would give and how good that is; the
loop takes the steps, keeps the best answer, and changes rho where one residual lags far behind the other.
"""

from __future__ import annotations

import numpy as np

from kinfolk.progress import Callback, report
from kinfolk.rows.gram import TINY, Array
from kinfolk.solvers.batched import relative
from kinfolk.solvers.solution import Solution
from kinfolk.solvers.tolerances import ROUNDING

RELAXATION = 1.6  # over-relaxation; values of 1.5 to 1.8 are known to need fewer iterations (Boyd et al. 2011, 3.4.3)


class Splitting:
    """State and steps of one problem; a subclass sets W, Z, U and rho, and gives the methods that raise here."""

    check_every = 10  # iterations between two looks at the certificate and at the balance, which cost more than a step
    last_balance = 500.0  # iterations up to which rho changes: with a rho that changes for ever, ADMM need not converge
    in_balance = 0.4, 2.5  # factors for rho that are not worth a new factorisation
    widest = 0.1, 10.0  # factors for rho at one time
    noise = 0.0  # rounding of the objective: below it the newer of two answers is better, by its certificate
    W: Array
    Z: Array
    U: Array
    rho: float

    def nearest(self, target: Array) -> Array:
        """argmin over W of f(W) + rho/2 ||E W - target||^2."""
        raise NotImplementedError

    def image(self, W: Array) -> Array:
        """E W."""
        raise NotImplementedError

    def shrunk(self, V: Array) -> Array:
        """argmin over Z of g(Z) + rho/2 ||Z - V||^2."""
        raise NotImplementedError

    def answer(self) -> tuple[float, Array]:
        """The point to return if the iteration stopped here, and the objective there."""
        raise NotImplementedError

    def certificate(self, point: Array, value: float) -> float:
        """A number that is 0 at the minimum only, from a point, the objective there, and the multipliers."""
        raise NotImplementedError

    def change_rho(self, factor: float) -> None:
        """Multiply rho; the multipliers rho U stay."""
        self.rho *= factor
        self.U = self.U / factor

    def factor(self, n_iter: int) -> float:
        """For rho: the root of the ratio of both relative residuals, if that is far from one."""
        primal = relative(self.EW - self.Z, self.Z)
        dual = relative(self.Z - self.Z_old, self.U)
        if n_iter > self.last_balance or primal == 0:
            return 1.0
        factor = float(np.sqrt(primal / max(dual, TINY)))
        low, high = self.in_balance
        return 1.0 if low < factor < high else float(np.clip(factor, *self.widest))

    def step(self) -> None:
        """One round: W, then Z, then U by their mismatch."""
        self.W = self.nearest(self.Z - self.U)
        self.EW = self.image(self.W)
        self.Z_old = self.Z
        V = RELAXATION * self.EW + (1 - RELAXATION) * self.Z + self.U
        self.Z = self.shrunk(V)
        self.U = V - self.Z

    def run(self, *, tol: float, max_iter: int, callback: Callback | None = None) -> Solution:
        """Iterate until the certificate of the best answer is at most `tol`; `history` never rises."""
        value, best = self.answer()
        history = [value]
        residual = self.certificate(best, value)
        k = 0
        while residual > tol and k < max_iter:
            self.step()
            k += 1
            if k % self.check_every and k < max_iter:
                continue
            value, point = self.answer()
            if value <= history[-1] + max(self.noise, ROUNDING * abs(history[-1])):
                best = point
            history.append(min(value, history[-1]))
            residual = self.certificate(best, history[-1])
            report(callback, "fit", k, max_iter, history[-1])
            factor = self.factor(k)
            if residual > tol and factor != 1.0:
                self.change_rho(factor)
        return Solution(best, k, residual, residual <= tol, "ADMM", self.rho * self.U, history=np.array(history))
