"""Boosted trees that grow round by round: LightGBM's where it is installed, else scikit-learn's.

The only file that imports LightGBM.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from kinfolk.methods.trunk import BoostedTrees
from kinfolk.rows.gram import Array

LEAVES = (8, 31)
ROUNDS = 1000
LEAST_LEAF = 5  # rows
ONE_THREAD = 50_000  # rows, up to which one thread is enough


def lightgbm() -> Any:
    """The library; an ImportError says how to install it."""
    try:
        import lightgbm as library
    except ImportError as error:
        raise ImportError("boosting needs lightgbm: pip install 'kinfolk[boosting]'") from error
    return library


def light_settings(leaves: int, seed: int, rows: int = 0) -> dict[str, Any]:
    """Parameters of LightGBM: categories of few rows may be split off, and the same rows give the same trees."""
    return {
        "objective": "regression",
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


def booster(Z: Array, y: Array, *, weight: Array | None, category: list[int] | None, leaves: int, seed: int) -> Booster:
    """Trees of the best library that there is."""
    try:
        lightgbm()
    except ImportError:
        return _HistTrees(Z, y, weight, category, leaves, seed)
    return _LightTrees(Z, y, weight, category, leaves, seed)


class _LightTrees(Booster):
    def __init__(
        self, Z: Array, y: Array, weight: Array | None, category: list[int] | None, leaves: int, seed: int
    ) -> None:
        library = lightgbm()
        settings = light_settings(leaves, seed, len(y))
        self.threads = settings["num_threads"]
        names = [str(j) for j in range(Z.shape[1])]  # LightGBM warns of categories without names
        self.origin, self.size = _units(Z, category or [])
        about = {"weight": weight, "feature_name": names, "categorical_feature": category or []}
        self.model = library.Booster(settings, library.Dataset(self._in_units(Z), y, params=settings, **about))
        self.finished = False

    def _in_units(self, Z: Array) -> Array:
        return (Z - self.origin) / self.size

    def grow(self, rounds: int) -> None:
        while not self.finished and self.model.current_iteration() < rounds:
            self.finished = self.model.update()

    def predict(self, Z: Array, first: int, last: int) -> Array:
        if first >= self.model.current_iteration():
            return np.zeros(len(Z))
        # Predictions set the threads of all that follows: two that wait for each other took twenty times as long.
        about = {"start_iteration": first, "num_iteration": last - first, "num_threads": self.threads}
        return np.asarray(self.model.predict(self._in_units(Z), **about))

    def trees(self) -> BoostedTrees:
        trees = BoostedTrees.of_light(self.model.dump_model()["tree_info"])
        return replace(trees, threshold=trees.threshold * self.size[trees.feature] + self.origin[trees.feature])


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
    def __init__(
        self, Z: Array, y: Array, weight: Array | None, category: list[int] | None, leaves: int, seed: int
    ) -> None:
        from sklearn.ensemble import HistGradientBoostingRegressor

        self.Z = Z
        self.y = y
        self.weight = weight
        self.model = HistGradientBoostingRegressor(
            max_leaf_nodes=leaves,
            min_samples_leaf=LEAST_LEAF,
            categorical_features=category,
            early_stopping=False,
            warm_start=True,
            random_state=seed,
        )

    def grow(self, rounds: int) -> None:
        self.model.set_params(max_iter=rounds).fit(self.Z, self.y, sample_weight=self.weight)

    def predict(self, Z: Array, first: int, last: int) -> Array:
        stages = self.model.staged_predict(Z)
        before = next(islice(stages, first - 1, first)) if first else np.zeros(len(Z))
        *_, after = islice(stages, last - first)
        return np.asarray(after - before)

    def trees(self) -> BoostedTrees:
        return BoostedTrees.of(self.model)
