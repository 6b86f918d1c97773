"""Quadratic plus a penalty with a known proximal step: accelerated gradients that never climb.

min over W   q(W) + g(W),    q(W) = constant - <B, W> + <W, H W> / 2
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kinfolk.progress import Callback, report
from kinfolk.rows.gram import Array
from kinfolk.solvers.krylov import Operator
from kinfolk.solvers.solution import Solution
from kinfolk.solvers.tolerances import LAST_DIGIT

CHECK_EVERY = 10  # steps between two looks at the certificate, which costs more than a step


@dataclass(frozen=True, eq=False)
class Composite:
    """One problem of this kind.

    Attributes
    ----------
    apply : W -> H W
    B, constant : the rest of q
    curvature : c, a number or one per task (T, 1), such that c ||V||^2 >= <V, H V> for every V
    prox : V -> argmin over W of c/2 ||W - V||^2 + g(W)
    penalty : g
    certificate : (W, gradient of q at W, value at W) -> a number that is zero at the minimum only
    """

    apply: Operator
    B: Array
    constant: float
    curvature: float | Array
    prox: Operator
    penalty: Callable[[Array], float]
    certificate: Callable[[Array, Array, float], float]

    def value(self, W: Array, HW: Array) -> float:
        """The objective at W, where H W is known."""
        return self.constant + float(np.vdot(W, HW / 2 - self.B)) + self.penalty(W)

    def change(self, W: Array, HW: Array, Z: Array, HZ: Array) -> float:
        """Value at Z minus value at W, without the cancellation of two values near a large constant."""
        return float(np.vdot(Z - W, (HZ + HW) / 2 - self.B)) + self.penalty(Z) - self.penalty(W)


def minimise(
    problem: Composite, start: Array, *, tol: float, max_iter: int, callback: Callback | None = None
) -> Solution:
    """Accelerated proximal gradients (Beck & Teboulle 2009); a step that climbs is undone and the momentum dropped.

    So the objective never rises, and on strongly convex problems the rate is linear without knowing the constant. The
    momentum is also dropped where it points uphill (O'Donoghue & Candes 2015, their gradient rule), which still tells
    something when changes of the objective are lost in rounding.

    Examples
    --------
    The smallest of (w - 3)^2 / 2 + |w| lies at w = 2.

    >>> lasso = Composite(
    ...     apply=lambda W: W,
    ...     B=np.array([[3.0]]),
    ...     constant=4.5,
    ...     curvature=1.0,
    ...     prox=lambda V: np.sign(V) * np.maximum(np.abs(V) - 1, 0),
    ...     penalty=lambda W: float(np.abs(W).sum()),
    ...     certificate=lambda W, gradient, value: float(np.abs(gradient + np.sign(W)).max()),
    ... )
    >>> solution = minimise(lasso, np.zeros((1, 1)), tol=1e-9, max_iter=100)
    >>> solution.value, solution.history[-1]
    (array([[2.]]), np.float64(2.5))
    """
    W = start
    HW = problem.apply(start)
    history = [problem.value(W, HW)]
    Y, HY = W, HW  # the point ahead of W, from which a step is taken
    t = 1.0
    residual = problem.certificate(W, HW - problem.B, history[-1])
    for k in range(1, max_iter + 1):
        Z = problem.prox(Y - (HY - problem.B) / problem.curvature)
        HZ = problem.apply(Z)
        change = problem.change(W, HW, Z, HZ)
        plain = t == 1.0
        climbs = change > LAST_DIGIT * abs(history[-1])
        if climbs:
            Y, HY = W, HW
            t = 1.0
        else:
            if np.vdot(Y - Z, Z - W) > 0:  # the momentum points uphill
                t = 1.0
            t_old = t
            t = (1 + np.sqrt(1 + 4 * t * t)) / 2
            momentum = (t_old - 1) / t
            Y = Z + momentum * (Z - W)
            HY = HZ + momentum * (HZ - HW)  # H is linear: the step costs one product
            W, HW = Z, HZ
            history.append(history[-1] + min(change, 0.0))
        stalled = climbs and plain  # by rounding only: nothing more can be gained
        if k % CHECK_EVERY == 0 or stalled or k == max_iter:
            residual = problem.certificate(W, HW - problem.B, history[-1])
            report(callback, "fit", k, max_iter, history[-1])
            if residual <= tol or stalled:
                break
    n_iter = len(history) - 1
    return Solution(W, n_iter, residual, residual <= tol, "accelerated gradients", history=np.array(history))


def soft_threshold(V: Array, level: float | Array) -> Array:
    """Every entry of V moved towards zero by `level`.

    >>> soft_threshold(np.array([-3.0, 0.5, 2.0]), 1.0)
    array([-2.,  0.,  1.])
    """
    return np.sign(V) * np.maximum(np.abs(V) - level, 0.0)
