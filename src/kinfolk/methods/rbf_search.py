"""The choice of RBF features by cross-validation: input weights, centres, widths and linear terms."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.methods.rbf import RBFFeatures, slope_scale
from kinfolk.rows.folds import Folds, generator
from kinfolk.rows.gram import Array, GramStats

EXPONENTS = (0.0, 0.5, 1.0, 2.0, 3.0)
CENTERS = (20, 50, 100)
WIDTHS = (1.0, 2.0, 4.0, 8.0)
LINEAR = (False, True)


class Setting(NamedTuple):
    """One set of features: exponent of `slope_scale`, and parameters of `RBFFeatures`."""

    exponent: float = 1.0
    n_centers: int = 50
    width: float = 4.0
    linear: bool = True


@dataclass(frozen=True)
class Axes:
    """The values that may be combined, ascending; the search moves by one step on them."""

    exponent: tuple[float, ...] = EXPONENTS
    n_centers: tuple[int, ...] = CENTERS
    width: tuple[float, ...] = WIDTHS
    linear: tuple[bool, ...] = LINEAR

    def nearest(self, setting: Setting) -> Setting:
        """The combination closest to a setting."""
        pairs = zip(self._values(), setting, strict=True)
        return Setting(*(axis[int(np.argmin(np.abs(np.array(axis, float) - at)))] for axis, at in pairs))

    def neighbours(self, setting: Setting) -> Iterator[Setting]:
        """One step on one axis, or on exponent and width together: the larger the one, the larger the other."""
        for steps in product((-1, 0, 1), repeat=4):
            e, p, q, linear = map(abs, steps)
            if e + p + q + linear == 1 or (e and q and not p and not linear):
                yield from self._moved(setting, steps)

    def _moved(self, setting: Setting, steps: tuple[int, ...]) -> Iterator[Setting]:
        at = [axis.index(v) + s for axis, v, s in zip(self._values(), setting, steps, strict=True)]
        if all(0 <= i < len(axis) for i, axis in zip(at, self._values(), strict=True)):
            yield Setting(*(axis[i] for i, axis in zip(at, self._values(), strict=True)))

    def _values(self) -> tuple[tuple[Any, ...], ...]:
        return self.exponent, self.n_centers, self.width, self.linear


@dataclass(frozen=True, eq=False)
class FeatureSearch:
    """What `search_features` found.

    Attributes
    ----------
    best : the setting of least error
    features : its transformer, fitted on all rows
    folds : statistics of its features
    errors : setting -> cross-validated error, for all that were tried, in their order
    """

    best: Setting
    features: RBFFeatures
    folds: Folds
    errors: dict[Setting, float]


def search_features(
    X: Array,
    y: Array,
    codes: NDArray[np.intp],
    labels: NDArray[Any],
    fold: NDArray[np.intp],
    *,
    weight: Array | None = None,
    error: Callable[[Folds], float],
    axes: Axes | None = None,
    start: Setting | None = None,
    random_state: Any = None,
) -> FeatureSearch:
    """Walk from setting to best neighbouring setting until none is better.

    Features of all rows are computed once per setting and become the statistics of folds; `error(folds)` is then the
    cross-validated error of a head, least over its own penalties. Neither centres nor input weights are refitted
    without the held-out rows: d weights and unsupervised centres overfit little. A head that shrinks tasks to their
    mean should penalise that mean too (1e-4 times the mean of tr(G_t) / d will do): wide bumps are nearly collinear,
    and a free mean has errors of many times the range of y where rows differ from those of the folds.

    Parameters
    ----------
    X, y, codes : training rows (n, d), targets and task numbers; `labels[codes]` are the tasks
    fold : number of the fold of every row
    weight : of every row, greater than 0
    error : head, as a function of the statistics of folds
    axes, start : the values to combine, and where to begin
    random_state : starts k-means
    """
    axes = axes or Axes()
    seed = int(generator(random_state).integers(2**31 - 1))
    make = _Maker(X, weight, GramStats.from_codes(X, y, codes, labels, weight=weight), seed)

    def folds_at(setting: Setting) -> Folds:
        return Folds.of_rows(make(setting).transform(X), y, codes, labels, fold, weight=weight)

    errors: dict[Setting, float] = {}
    best = axes.nearest(start or Setting())
    errors[best] = error(folds_at(best))
    while True:
        for setting in axes.neighbours(best):
            if setting not in errors:
                errors[setting] = error(folds_at(setting))
        winner = min(errors, key=errors.__getitem__)
        if winner == best:
            return FeatureSearch(best, make(best), folds_at(best), errors)
        best = winner


class _Maker:
    """Fitted transformers by setting; k-means runs once per exponent and number of centres."""

    def __init__(self, X: Array, weight: Array | None, gram: GramStats, seed: int) -> None:
        self.X, self.weight, self.gram, self.seed = X, weight, gram, seed
        self.placed: dict[tuple[float, int], RBFFeatures] = {}

    def __call__(self, setting: Setting) -> RBFFeatures:
        key = setting.exponent, setting.n_centers
        if key not in self.placed:
            scale = slope_scale(self.gram, exponent=setting.exponent)
            features = RBFFeatures(setting.n_centers, scale=scale, random_state=self.seed)
            self.placed[key] = features.fit(self.X, sample_weight=self.weight)
        return self.placed[key].with_width(setting.width, linear=setting.linear)
