"""Ridge regressions of all tasks for many penalties from one eigendecomposition, and the choice among them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from kinfolk.rows.folds import Folds, cv_error
from kinfolk.rows.gram import TINY, Array, GramStats, is_shared, squared_errors
from kinfolk.solvers.batched import mean_diagonal, row_dots, times, transposed_times
from kinfolk.solvers.tolerances import MARGIN, ROUNDING, SAME_ERRORS, SAME_SQUARE

START = tuple(10.0 ** np.arange(-4, 2.5, 0.5))  # times the mean of tr(G_t) / d
WIDEST = 1e10  # how far from 1 the search may go
GAIN = 1e-4  # relative gain at the edge of the grid that is worth going on for

Path = Callable[[float], tuple[Array, Array]]  # penalty -> coefficients (T, d) and intercepts (T,)
RESOLUTION = 1e-7  # of held-out errors, relative to the target: squares come from differences of statistics


@dataclass(frozen=True, eq=False)
class Spectrum:
    """G_t = Q_t diag(value_t) Q_t' and b_t in that basis; one G for all tasks if they share their inputs."""

    value: Array
    vector: Array
    b: Array
    floor: Array

    @classmethod
    def of(cls, G: Array, b: Array) -> Self:
        """Decompose a stack of Gram matrices once; eigenvalues up to `floor` (T, 1) count as 0."""
        value, vector = np.linalg.eigh(G[:1] if is_shared(G) else G)
        floor = ROUNDING * value.max(axis=1, keepdims=True, initial=0.0)
        seen = value > floor
        # What b has in a direction that no row looks into is rounding: a small penalty would make coefficients of it.
        return cls(np.where(seen, value, 0.0), vector, np.where(seen, transposed_times(vector, b), 0.0), floor)

    def shrunk(self, penalty: float) -> Array:
        """1 / (value + penalty); 0 where both are, so that no penalty means the least-norm solution."""
        total = self.value + penalty
        return np.divide(1.0, total, out=np.zeros_like(total), where=total > TINY)

    def inverse(self, penalty: float) -> Array:
        """(G_t + penalty)^-1, or the pseudo-inverse: one matrix if the tasks share their inputs."""
        return (self.vector * self.shrunk(penalty)[:, None, :]) @ self.vector.transpose(0, 2, 1)

    def inverse_on_rows(self, penalty: float) -> Array:
        """The same for right sides b_t of rows: 0 along directions that no row looks into, where they have rounding."""
        weight = np.where(self.value > 0, self.shrunk(penalty), 0.0)
        return (self.vector * weight[:, None, :]) @ self.vector.transpose(0, 2, 1)

    def beside(self, penalty: float) -> Self:
        """The same where rows may see in a direction what rounding hides, if that can outweigh the penalty."""
        hidden = (self.value == 0) & (self.floor > penalty)
        return replace(self, value=np.where(hidden, self.floor, self.value))

    def resolution(self, penalty: float) -> float:
        """The least that the sum over tasks of G_t / (G_t + penalty) tells: eigenvalues at their floor make as much."""
        small = self.floor[self.floor < penalty]
        return len(self.b) / len(self.vector) * float((small / (small + penalty)).sum())

    def ridge(self, penalty: float) -> Array:
        """argmin over w_t of w'G_t w - 2 b_t'w + penalty ||w||^2, for every task."""
        return self.rotated_back(self.shrunk(penalty) * self.b)

    def rotated_back(self, V: Array) -> Array:
        """Rows in the basis of the Q_t as coefficients."""
        return times(self.vector, V)


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
        copies * ((Q * own[:, None, :]) @ Q.transpose(0, 2, 1)).sum(axis=0),
        spectrum.rotated_back(inverse * spectrum.b).sum(axis=0),
        spectrum.resolution(ridge + penalty),
    )
    towards_mean = (mean @ Q) * penalty
    return spectrum.rotated_back(inverse * (spectrum.b + towards_mean))


def _least_norm(system: Array, target: Array, floor: float) -> Array:
    """The solution of least norm; eigenvalues up to the floor, or at rounding level, count as 0."""
    value, vector = np.linalg.eigh(system)
    seen = value > max(MARGIN * value[-1], floor)
    return vector[:, seen] @ ((target @ vector[:, seen]) / value[seen])


@dataclass(frozen=True, eq=False)
class Choice:
    """The penalties tried, ascending, the cross-validated error of each, the best, and its squared errors by task."""

    best: float
    penalties: Array
    errors: Array
    squared: Array


def own_intercepts(gram: GramStats, W: Array) -> Array:
    """Every task's line goes through its mean."""
    return gram.y_mean - row_dots(gram.x_mean, W)


def typical_eigenvalue(gram: GramStats) -> float:
    """The mean of tr(G_t) / d: penalties are multiples of it, so that a grid fits data of any scale.

    Where features vary between tasks only (one row each), the same of the means; 1 where nothing varies.
    """
    is_fact = gram.facts()
    if is_fact.any() and not is_fact.all():
        gram = gram.on_columns(np.flatnonzero(~is_fact))
    own = float(mean_diagonal(gram.G).mean())
    apart = gram.n @ np.square(gram.x_mean - gram.n @ gram.x_mean / gram.n.sum())
    between = float(apart.mean()) / gram.n_tasks
    level = float((gram.n @ np.square(gram.x_mean)).mean()) / gram.n_tasks
    return next((size for size in (own, between) if size > max(SAME_SQUARE * level, TINY)), 1.0)


def choose_penalty(
    prepare: Callable[[GramStats], Path], folds: Folds, scoring: str, start: Sequence[float] = START
) -> Choice:
    """The penalty of least held-out error; `prepare` does once per fold what all penalties have in common.

    The search begins with the multiples `start` of the typical eigenvalue.
    """
    models = [(_for_all_tasks(prepare, folds.training(f)), part) for f, part in enumerate(folds.held_out)]
    unit = typical_eigenvalue(folds.total)
    judged = folds.judged
    least = RESOLUTION * float(cv_error(judged.yy, judged, scoring))

    def squared(penalty: float) -> Array:
        return np.sum([squared_errors(part, *model(penalty)) for model, part in models], axis=0)

    def error(multiple: float) -> float:
        return max(float(cv_error(squared(multiple * unit), judged, scoring)), least)

    best, multiples, errors = search(error, start)
    return Choice(best * unit, multiples * unit, errors, squared(best * unit))


def search(error: Callable[[float], float], start: Sequence[float] = START) -> tuple[float, Array, Array]:
    """The best of a grid of multiples that grows where the best is at its edge; all multiples, and their errors.

    Examples
    --------
    >>> search(lambda m: abs(np.log10(m) - 4))[0]
    10000.0
    """
    error_at = {m: error(m) for m in start}
    for ratio in (10**0.5, 10**-0.5):
        while True:
            multiples = sorted(error_at, reverse=ratio < 1)
            inner, edge = multiples[-2:]
            best = min(error_at.values())
            if error_at[edge] > best or error_at[inner] - best <= GAIN * best or not 1 / WIDEST < edge < WIDEST:
                break
            beyond = float(f"{edge * ratio:.6g}")
            error_at[beyond] = error(beyond)
    penalties = np.array(sorted(error_at))
    errors = np.array([error_at[m] for m in penalties])
    # Of equals the largest: where nothing is gained, the simpler model.
    return float(penalties[errors <= (1 + SAME_ERRORS) * errors.min()][-1]), penalties, errors


def _for_all_tasks(prepare: Callable[[GramStats], Path], training: GramStats) -> Path:
    """A model of the tasks with training rows, extended by their mean to those whose rows are all held out."""
    seen = training.n > 0
    if seen.all():
        return prepare(training)
    partial = prepare(training.once_if_small("with rows", lambda: training.select(seen)))

    def model(penalty: float) -> tuple[Array, Array]:
        W, c = partial(penalty)
        coef = np.tile(W.mean(axis=0), (len(seen), 1))
        coef[seen] = W
        intercept = np.full(len(seen), c.mean())
        intercept[seen] = c
        return coef, intercept

    return model
