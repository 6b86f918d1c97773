"""Rows of a family as what methods see: statistics of working targets at a given linear predictor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from kinfolk.rows.families import FARTHEST_TARGET, Family
from kinfolk.rows.gram import TINY, Array, GramStats
from kinfolk.rows.table import Rows, check_magnitudes

MOST_ROWS = 1e9  # that this may take
LEVEL_STEPS = 50  # of Newton's for one level
LEVEL_SETTLED = 1e-10  # a step that ends them
HALF_EVENT = 0.5  # what a task is given at the rate of all, if it has no event, or nothing else: its level is finite


class Quadratic(NamedTuple):
    """The deviance near a predictor as squared errors of working targets.

    Attributes
    ----------
    gram : statistics of the working targets
    levels : intercepts, from coefficients and from the intercepts that go with the statistics
    square : of a step of the predictor of all rows, in the metric of the curvature
    errors, size : the same squares of the working errors and of the targets themselves
    """

    gram: GramStats
    levels: Callable[[Array, Array], Array]
    square: Callable[[Array], float]
    errors: float
    size: float


@dataclass(frozen=True, eq=False)
class WorkingRows:
    """Observed targets one by one, of T tasks.

    Attributes
    ----------
    X, y, codes : features (n, d), targets (n,) and the positions of their tasks in `labels` (T,)
    weight : (n,)
    offset : (n,), what is added to the linear predictor
    family, names : what the targets are; names of the features, or None
    row : (n,), where each stands in the table
    roles : of the features, see `GramStats`
    n_rows : how many of them were observed; those after them stand for what is known of tasks from others
    """

    X: Array
    y: Array
    codes: NDArray[np.intp]
    labels: NDArray[Any]
    weight: Array
    offset: Array
    row: NDArray[np.intp]
    family: Family
    names: tuple[str, ...] | None
    n_rows: int
    roles: NDArray[np.intp] | None = None

    @classmethod
    def of(cls, rows: Rows, X: Array, names: tuple[str, ...] | None, family: Family) -> WorkingRows:
        """The observed targets of checked rows with the features X."""
        at = rows.targets()
        weight = np.ones(len(at.y)) if at.weight is None else at.weight
        offset = np.zeros(len(at.y)) if rows.offset is None else rows.offset[at.row]
        y = family.read(at.y)
        check_magnitudes(X, y, names)
        return cls(X[at.row], y, at.codes, rows.schema.labels, weight, offset, at.row, family, names, len(y))

    def take(self, index: NDArray[np.intp] | NDArray[np.bool_]) -> Self:
        """Some of the rows, by position or mask."""
        fields = {name: getattr(self, name)[index] for name in ("X", "y", "codes", "weight", "offset", "row")}
        return replace(self, **fields, n_rows=len(fields["y"]))

    def among(self, tasks: NDArray[np.bool_]) -> Self:
        """The rows of some tasks, as if there were no others."""
        if tasks.all():
            return self
        place = np.cumsum(tasks) - 1
        kept = self.take(tasks[self.codes])
        return replace(kept, codes=place[kept.codes], labels=self.labels[tasks])

    def counts(self) -> NDArray[np.intp]:
        """Rows of every task."""
        return np.bincount(self.codes, minlength=len(self.labels))

    def sums(self, values: Array) -> Array:
        """Weighted sums over the rows of every task."""
        return np.bincount(self.codes, self.weight * values, minlength=len(self.labels))

    def predictor(self, W: Array, c: Array) -> Array:
        """The linear predictor of every row, for coefficients (T, d) and intercepts (T,)."""
        return np.einsum("nd,nd->n", self.X, W[self.codes]) + c[self.codes] + self.offset

    def working(self, eta: Array, farthest: float = FARTHEST_TARGET) -> tuple[Array, Array]:
        """Working targets, the offset included, and weights at a predictor."""
        z, w = self.family.working(self.y, eta, self.weight, farthest)
        return z, self.weight if w is None else w

    def gram(self, eta: Array) -> GramStats:
        """Statistics of the working targets at a predictor."""
        return self.quadratic(eta).gram

    def quadratic(self, eta: Array, farthest: float = FARTHEST_TARGET) -> Quadratic:
        """The deviance near a predictor; the noise of its targets is known where that of the family is."""
        z, w = self.working(eta, farthest)
        return Quadratic(
            self.summed(z, w),
            lambda _, c: c,
            lambda step: float(w @ step**2),
            float(w @ (z - eta) ** 2),
            float(w @ z**2),
        )

    def summed(self, z: Array, w: Array) -> GramStats:
        """Statistics of working targets and weights."""
        y = z - self.offset
        gram = GramStats.from_codes(self.X, y, self.codes, self.labels, weight=w, feature_names=self.names)
        return replace(gram, dispersion=self.family.dispersion).with_roles(self.roles)

    def even(self) -> Array:
        """The predictor of all rows with one level and no features."""
        return self.level() + self.offset

    def loss(self, eta: Array) -> float:
        """The deviance of all rows."""
        return float(self.weight @ self.family.loss(self.y, eta))

    def level(self) -> Any:
        """The intercept that is best for all rows, without features."""
        family = self.family
        if not self.weight.sum() > 0:
            raise ValueError("there are no rows to fit: every target is missing, or a fold leaves no rows to train on")
        if family.link == "log":
            scale = self.offset if family.name == "poisson" else np.zeros_like(self.offset)
            target = self.y if family.name == "poisson" else self.y * np.exp(-np.clip(self.offset, -600, 600))
            events = max(float(self.weight @ target), HALF_EVENT if family.name == "poisson" else TINY)
            return float(np.log(events) - logsumexp(scale, b=self.weight))
        y = self.y
        if np.isfinite(family.most):  # as if there were half an event of either kind beside: none has no finite level
            y = y + (family.most / 2 - y) / (float(self.weight.sum()) + 1)
        mean = np.average(y, weights=self.weight)
        level = float(family.predictor(mean) - np.average(self.offset, weights=self.weight))
        for _ in range(LEVEL_STEPS):
            eta = level + self.offset
            bend = float(self.weight @ family.curvature(y, eta))
            step = float(np.clip(float(self.weight @ family.slope(y, eta)) / max(bend, TINY), -1.0, 1.0))
            level -= step
            if abs(step) <= LEVEL_SETTLED:
                break
        return level

    def one_sided(self) -> NDArray[np.bool_]:
        """Tasks (T,) whose targets are all at the same end of their range, so that their best level is infinite."""
        family = self.family
        count = self.sums(np.ones(len(self.y)))
        ends = [np.zeros(len(count), bool)]
        if not family.open and np.isfinite(family.least):
            ends.append(self.sums(self.y - family.least) <= 0)
        if not family.open and np.isfinite(family.most):
            ends.append(self.sums(family.most - self.y) <= 0)
        return np.any(ends, axis=0) & (count > 0)

    def with_levels_of_all(self, tasks: NDArray[np.bool_]) -> Self:
        """With one row more for each of some tasks, at the mean of its inputs: half an event at the rate of all."""
        where = np.flatnonzero(tasks)
        if not len(where):
            return self
        total = np.maximum(self.sums(np.ones(len(self.y))), TINY)[where]
        X = np.column_stack([self.sums(column)[where] for column in self.X.T]) / total[:, None]
        offset = self.sums(self.offset)[where] / total
        y = self.family.mean(self.level() + offset)
        rarer = np.minimum(y, self.family.most - y)
        return replace(
            self,
            X=np.vstack([self.X, X]),
            y=np.append(self.y, y),
            codes=np.append(self.codes, where),
            weight=np.append(self.weight, np.minimum(HALF_EVENT / np.maximum(rarer, TINY), MOST_ROWS)),
            offset=np.append(self.offset, offset),
            row=np.append(self.row, np.full(len(where), -1)),
        )

    def levels(self) -> Array:
        """The best intercept of every task (T,) by its rows alone, without features; 0 for tasks without rows."""
        present = self.counts() > 0
        # Steps are short, and offsets of tasks may be far from each other.
        offset = self.sums(self.offset) / np.maximum(self.sums(np.ones(len(self.y))), TINY)
        level = replace(self, offset=np.zeros_like(self.offset)).level() - offset
        for _ in range(LEVEL_STEPS):
            eta = level[self.codes] + self.offset
            bend = np.maximum(self.sums(self.family.curvature(self.y, eta)), TINY)
            level -= np.clip(self.sums(self.family.slope(self.y, eta)) / bend, -1.0, 1.0)
        return np.where(present, level, 0.0)
