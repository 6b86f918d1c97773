"""Mean-regularised multi-task learning: every task is drawn towards the mean of all."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from kinfolk.methods.couplings import HubCoupling, ToMean
from kinfolk.methods.parameters import number, parameters
from kinfolk.methods.penalised import Penalised
from kinfolk.rows.gram import Array, GramStats
from kinfolk.solvers.batched import relative, times
from kinfolk.solvers.ridge import Spectrum
from kinfolk.solvers.tolerances import MARGIN

AT_ONCE = 2**16  # entries of the matrices of some tasks, which stay in the cache


@parameters
class MeanShrunk(Penalised):
    """Ridge regressions whose penalty pulls towards the mean of all tasks instead of zero.

    Minimises over all w_t together, each task with an intercept of its own,

        sum_t ||y_t - X_t w_t - c_t||^2 + penalty sum_t ||w_t - mean(w)||^2 + ridge sum_t ||w_t||^2.

    Between `Independent` (penalty = 0) and `Pooled` (penalty to infinity). Solved exactly by T systems of size d and
    one more for the mean. Of many minimisers (ridge = 0, inputs of lower rank than d) the one of least norm.

    Parameters
    ----------
    penalty : a number; or "cv", the number of least held-out error, among multiples of the mean of tr(G_t) / d, on a
        grid that grows while its edge is best
    ridge : the pull towards zero, a number

    Attributes
    ----------
    coef_, intercept_ : arrays of shape (T, d) and (T,); tasks_ : their labels
    penalty_ : the number used; penalties_, penalty_errors_ : those tried and their errors, cv_errors_ : those of
        every task (T,), for "cv"
    optimality_ : residual of the normal equations

    Examples
    --------
    Slopes of 1 and 3 with G = 2 each: a penalty of 2 moves both half-way to their mean.

    >>> X = np.array([["a", -1.0], ["a", 1.0], ["b", -1.0], ["b", 1.0]], dtype=object)
    >>> MeanShrunk(task=0, penalty=2.0).fit(X, [-1.0, 1.0, 7.0, 13.0]).coef_.ravel()
    array([1.5, 2.5])
    """

    shares: ClassVar[str] = "mean of the tasks"
    simplicity: ClassVar[int] = 30
    default_grid: ClassVar[dict[str, tuple[Any, ...]]] = {
        "penalty": (1e-2, 1e-1, 1.0, 1e1, 1e2, 1e3, 1e4),
        "ridge": (1e-3, 1e-1, 1.0, 10.0),
    }

    ridge: float = number(0.0, at_least=0)

    def slopes(self, spectrum: Spectrum, penalty: float) -> Array:
        return shrink_to_mean(spectrum, penalty, self.ridge)

    def coupling(self, gram: GramStats, penalty: float) -> HubCoupling:
        """The mean of all tasks."""
        return ToMean(penalty, self.ridge)

    def residual(self, gram: GramStats, W: Array, penalty: float) -> float:
        gradient = times(gram.G, W) + self.ridge * W - gram.b
        return relative(gradient + penalty * (W - W.mean(axis=0)), gram.b)


def shrink_to_mean(spectrum: Spectrum, penalty: float, ridge: float) -> Array:
    """Solve (G_t + ridge + penalty) w_t = b_t + penalty m for all t, where m is the mean of the w_t.

    With H_t = G_t + ridge + penalty the mean of w_t = H_t^-1 (b_t + penalty m) gives m:

        sum_t H_t^-1 (G_t + ridge) m = sum_t H_t^-1 b_t,

    in which I - penalty H_t^-1 is written without the difference, exact at any penalty.
    """
    Q, copies = spectrum.vector, len(spectrum.b) / len(spectrum.vector)
    spectrum = spectrum.beside(ridge + penalty)
    inverse = spectrum.shrunk(ridge + penalty)
    own = inverse * (spectrum.value + ridge)
    mean = _least_norm(
        copies * _sum_of_products(Q, own),
        spectrum.rotated_back(inverse * spectrum.b).sum(axis=0),
        spectrum.resolution(ridge + penalty),
    )
    towards_mean = (mean @ Q) * penalty
    return spectrum.rotated_back(inverse * (spectrum.b + towards_mean))


def _sum_of_products(Q: Array, weight: Array) -> Array:
    """sum_t Q_t diag(weight_t) Q_t', some tasks at a time: a product with its own transpose takes half the work."""
    d = Q.shape[1]
    total = np.zeros((d, d))
    some = max(1, AT_ONCE // d**2)
    for start in range(0, len(Q), some):
        tasks = slice(start, start + some)
        half = (Q[tasks] * np.sqrt(weight[tasks, None])).transpose(1, 0, 2).reshape(d, -1)
        total += half @ half.T
    return total


def _least_norm(system: Array, target: Array, floor: float) -> Array:
    """The solution of least norm; eigenvalues up to the floor, or at rounding level, count as 0."""
    value, vector = np.linalg.eigh(system)
    seen = value > max(MARGIN * value[-1], floor)
    return vector[:, seen] @ ((target @ vector[:, seen]) / value[seen])
