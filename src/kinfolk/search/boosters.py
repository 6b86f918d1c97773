"""Boosted trees that grow round by round: LightGBM's where it is installed, else scikit-learn's.

The only file that imports LightGBM.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from kinfolk.methods.trunk import BoostedTrees
from kinfolk.rows.families import FAMILIES, Family
from kinfolk.rows.gram import Array

LEAVES = (8, 31)
ROUNDS = 1000
LEAST_LEAF = 5  # rows
OBJECTIVES = {"gaussian": "regression", "binomial": "cross_entropy", "poisson": "poisson", "gamma": "gamma"}
ONE_THREAD = 50_000  # rows, up to which one thread is enough


def lightgbm() -> Any:
    """The library; an ImportError says how to install it."""
    try:
        import lightgbm as library
    except ImportError as error:
        raise ImportError("boosting needs lightgbm: pip install 'kinfolk[boosting]'") from error
    return library


def light_settings(leaves: int, seed: int, rows: int = 0, family: str = "gaussian") -> dict[str, Any]:
    """Parameters of LightGBM: categories of few rows may be split off, and the same rows give the same trees."""
    return {
        "objective": OBJECTIVES[family],
        "metric": "rmse",
        "learning_rate": 0.1,
        "num_leaves": leaves,
        "min_data_in_leaf": LEAST_LEAF,
        "min_data_per_group": LEAST_LEAF,
        "cat_smooth": 1.0,
        "num_threads": 1 if rows <= ONE_THREAD else 0,
        "deterministic": True,
        "force_row_wise": True,
        "seed": seed,
        "verbose": -1,
    }


@dataclass(frozen=True, eq=False)
class Boosted:
    """Targets that trees are grown for, with weights, and in a family what is added to their predictor.

    `start` is the predictor that trees of a family begin with, beside the offset.
    """

    y: Array
    weight: Array | None = None
    family: Family = FAMILIES["gaussian"]
    offset: Array | None = None
    start: float = 0.0


class Booster(ABC):
    """Trees of some rows, whose inputs at `category` are numbers of categories."""

    @abstractmethod
    def grow(self, rounds: int) -> None:
        """To so many trees, or as many as can be split."""

    @abstractmethod
    def predict(self, Z: Array, first: int, last: int) -> Array:
        """The sum of the trees from number `first` up to `last`; what all begin with belongs to the first."""

    @abstractmethod
    def trees(self) -> BoostedTrees:
        """All trees so far, as plain arrays."""


def can_boost(targets: Boosted) -> bool:
    """Whether some library grows trees for these targets: a class that all rows have is all there is to know of it."""
    family = targets.family
    if family.is_plain:
        return True
    if not (np.ptp(targets.y) > 0):
        return False
    try:
        lightgbm()
    except ImportError:  # scikit-learn's trees know no offset, and beside one of log odds nothing stands for it
        return family.has_exposure or targets.offset is None or not targets.offset.any()
    return True


def booster(Z: Array, targets: Boosted, *, category: list[int] | None, leaves: int, seed: int) -> Booster:
    """Trees of the best library that there is; those of a family predict its linear predictor, without the offset."""
    try:
        lightgbm()
    except ImportError:
        return _HistTrees(Z, targets, category, leaves, seed)
    return _LightTrees(Z, targets, category, leaves, seed)


class _LightTrees(Booster):
    def __init__(self, Z: Array, targets: Boosted, category: list[int] | None, leaves: int, seed: int) -> None:
        library = lightgbm()
        settings = light_settings(leaves, seed, len(Z), targets.family.name)
        self.threads = settings["num_threads"]
        names = [str(j) for j in range(Z.shape[1])]  # LightGBM warns of categories without names
        self.origin, self.size = _units(Z, category or [])
        about = {"weight": targets.weight, "feature_name": names, "categorical_feature": category or []}
        if not targets.family.is_plain:
            about["init_score"] = np.full(len(Z), targets.start) + (0.0 if targets.offset is None else targets.offset)
        self.start = targets.start  # LightGBM keeps it out of its trees
        self.model = library.Booster(settings, library.Dataset(self._in_units(Z), targets.y, params=settings, **about))
        self.finished = False

    def _in_units(self, Z: Array) -> Array:
        return (Z - self.origin) / self.size

    def grow(self, rounds: int) -> None:
        while not self.finished and self.model.current_iteration() < rounds:
            self.finished = self.model.update()

    def predict(self, Z: Array, first: int, last: int) -> Array:
        start = 0.0 if first else self.start
        if first >= self.model.current_iteration():
            return np.full(len(Z), start)
        # Predictions set the threads of all that follows: two that wait for each other took twenty times as long.
        about = {"start_iteration": first, "num_iteration": last - first, "num_threads": self.threads}
        return start + np.asarray(self.model.predict(self._in_units(Z), raw_score=True, **about))

    def trees(self) -> BoostedTrees:
        trees = BoostedTrees.of_light(self.model.dump_model()["tree_info"])
        threshold = trees.threshold * self.size[trees.feature] + self.origin[trees.feature]
        return replace(trees, baseline=self.start, threshold=threshold)


def _units(Z: Array, category: list[int]) -> tuple[Array, Array]:
    """What to take off every column and to divide it by, so that numbers lie between 1 and 2.

    LightGBM keeps 0 apart and bins what lies below and above it by itself: a shift of a column would make other trees.
    """
    least = np.fmin.reduce(Z, axis=0)
    size = np.fmax.reduce(Z, axis=0) - least
    size = np.where(size > 0, size, 1.0)
    origin = np.nan_to_num(least) - size
    origin[category] = 0.0
    size[category] = 1.0
    return origin, size


class _HistTrees(Booster):
    def __init__(self, Z: Array, targets: Boosted, category: list[int] | None, leaves: int, seed: int) -> None:
        from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

        self.family = targets.family
        settings = {
            "max_leaf_nodes": leaves,
            "min_samples_leaf": LEAST_LEAF,
            "categorical_features": category,
            "early_stopping": False,
            "warm_start": True,
            "random_state": seed,
        }
        self.Z, self.y, self.weight = Z, targets.y, targets.weight
        if self.family.is_plain:
            self.model = HistGradientBoostingRegressor(**settings)
        elif self.family.has_exposure:
            self.model = HistGradientBoostingRegressor(loss=self.family.name, **settings)
            self.y, self.weight = _per_exposure(targets)
        else:
            self.model = HistGradientBoostingClassifier(**settings)
            self.Z, self.y, self.weight = _by_class(Z, targets)

    def grow(self, rounds: int) -> None:
        self.model.set_params(max_iter=rounds).fit(self.Z, self.y, sample_weight=self.weight)

    def predict(self, Z: Array, first: int, last: int) -> Array:
        plain = self.family.is_plain or self.family.has_exposure
        stages = self.model.staged_predict(Z) if plain else self.model.staged_decision_function(Z)
        before = next(islice(stages, first - 1, first)) if first else None
        *_, after = islice(stages, last - first)
        if plain:
            after = self.family.predictor(after)
            before = None if before is None else self.family.predictor(before)
        return np.asarray(after if before is None else after - before)

    def trees(self) -> BoostedTrees:
        return BoostedTrees.of(self.model)


def _per_exposure(targets: Boosted) -> tuple[Array, Array | None]:
    """Targets per unit of exposure, which are the same targets without an offset; counts then weigh by it."""
    if targets.offset is None:
        return targets.y, targets.weight
    exposure = np.exp(targets.offset)
    if targets.family.name != "poisson":
        return targets.y / exposure, targets.weight
    return targets.y / exposure, exposure if targets.weight is None else exposure * targets.weight


def _by_class(Z: Array, targets: Boosted) -> tuple[Array, Array, Array]:
    """A row for every class that is seen in a row, as often as it is."""
    weight = np.ones(len(Z)) if targets.weight is None else targets.weight
    yes = np.flatnonzero(targets.y > 0)
    no = np.flatnonzero(targets.y < 1)
    rows = np.concatenate([yes, no])
    classes = np.repeat([1, 0], [len(yes), len(no)])
    return Z[rows], classes, weight[rows] * np.where(classes == 1, targets.y[rows], 1 - targets.y[rows])
