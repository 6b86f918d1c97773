"""A trunk: one model of the rows of all tasks, whose prediction has a share in that of every task."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.declared import holds
from kinfolk.rows.gram import Array

LEAVES = 64  # a tree's leaves are the bits of one number
CATEGORIES = 256
MANY_TREES = 3  # a table is made for all trees if more than one in so many asks for its feature
BLOCK = 2**20  # rows times trees that are walked at a time


@holds(
    baseline="number",
    values="R L",
    tree="integers n <R",
    feature="integers n",
    threshold="n any",
    removed="bits n",
    missing_passes="truths n",
    bitset="integers n",
    bitsets="bits B 8",
)
@dataclass(frozen=True, eq=False)
class BoostedTrees:
    """Boosted regression trees as plain arrays: R trees of at most L leaves, and all their S splits.

    A row either passes a split, to the left, or fails it. The leaves left of the splits that it fails are out of its
    reach, and it ends in the leftmost of the others (Lucchese et al., QuickScorer, SIGIR 2015). So all trees are walked
    at once, by one look into a table per feature.

    Attributes
    ----------
    baseline : what the trees start from
    values : (R, L), of the leaves from left to right
    tree, feature, threshold : (S,), where a split is, and the largest value that passes it
    removed : (S,), bits of the leaves that are out of reach for rows that fail
    missing_passes : (S,), whether a missing value passes
    bitset : (S,), the row of `bitsets` whose bits are the categories that pass; -1 for a feature of numbers
    bitsets : (B, 8), 256 bits each
    """

    baseline: float
    values: Array
    tree: NDArray[np.int32]
    feature: NDArray[np.int32]
    threshold: Array
    removed: NDArray[np.uint64]
    missing_passes: NDArray[np.bool_]
    bitset: NDArray[np.int32]
    bitsets: NDArray[np.uint32]

    @classmethod
    def of(cls, boosting: Any) -> BoostedTrees:
        """The trees of a fitted HistGradientBoostingRegressor, whose categories are 0, 1, ..."""
        values: list[list[float]] = []
        splits: list[tuple[Any, ...]] = []
        bitsets: list[NDArray[np.uint32]] = [np.zeros((0, 8), np.uint32)]
        for (tree,) in boosting._predictors:
            offset = sum(map(len, bitsets))
            values.append([])
            _walk(tree.nodes, 0, values, splits, offset)
            bitsets.append(np.asarray(tree.raw_left_cat_bitsets, np.uint32))
        baseline = float(np.ravel(boosting._baseline_prediction)[0])
        return cls._of_lists(baseline, values, splits, np.concatenate(bitsets))

    @classmethod
    def _of_lists(
        cls,
        baseline: float,
        values: list[list[float]],
        splits: list[tuple[Any, ...]],
        bitsets: NDArray[np.uint32],
    ) -> BoostedTrees:
        """Leaves of every tree, and all splits."""
        widest = max(map(len, values), default=1)
        tree, feature, threshold, removed, passes, bitset = zip(*splits, strict=True) if splits else [()] * 6
        return cls(
            baseline,
            np.array([[*leaves, *[0.0] * (widest - len(leaves))] for leaves in values]).reshape(-1, widest),
            np.array(tree, np.int32),
            np.array(feature, np.int32),
            np.array(threshold, np.float64),
            np.array(removed, np.uint64),
            np.array(passes, np.bool_),
            np.array(bitset, np.int32),
            bitsets,
        )

    @classmethod
    def of_light(cls, trees: list[dict[str, Any]]) -> BoostedTrees:
        """The trees of a LightGBM booster as it describes them; the first holds the mean that they start from."""
        values: list[list[float]] = []
        splits: list[tuple[Any, ...]] = []
        bitsets: list[NDArray[np.uint32]] = []
        for tree in trees:
            values.append([])
            _walk_light(tree["tree_structure"], values, splits, bitsets)
        return cls._of_lists(0.0, values, splits, np.array(bitsets, np.uint32).reshape(-1, 8))

    def predict(self, Z: Array) -> Array:
        """Predictions for rows of features; NaN is a missing value, and so is a category that is not in the tables."""
        R = len(self.values)
        step = max(1, BLOCK // max(R, 1))
        found = np.full(len(Z), self.baseline)
        for start in range(0, len(Z), step):
            block = Z[start : start + step]
            reach = np.full((len(block), R), ~np.uint64(0))
            for feature, trees, edges, table in self._tables:
                left = table[_places(block[:, feature], edges)]
                if trees is None:
                    reach &= left
                else:
                    reach[:, trees] &= left
            lowest = reach & (~reach + np.uint64(1))  # the leftmost leaf is the lowest bit
            leaf = np.frexp(lowest.astype(np.float64))[1] - 1
            found[start : start + step] += self.values[np.arange(R), leaf].sum(axis=1)
        return found

    @cached_property
    def _tables(self) -> list[tuple[int, NDArray[np.intp] | None, Array | None, NDArray[np.uint64]]]:
        """By feature: the trees that ask for it (None for all), its thresholds (None for categories), and the leaves in
        reach by place and tree. The last place is that of missing values.

        A table has as many columns as there are such trees, and at most `CATEGORIES` places: all tables together grow
        with the number of splits, and never with features times trees.
        """
        order = np.argsort(self.feature, kind="stable")
        features, first = np.unique(self.feature[order], return_index=True)
        splits = np.split(order, first[1:]) if len(first) else []
        return [(int(feature), *self._table(of)) for feature, of in zip(features, splits, strict=True)]

    def _table(self, of: NDArray[np.intp]) -> tuple[NDArray[np.intp] | None, Array | None, NDArray[np.uint64]]:
        trees, tree = np.unique(self.tree[of], return_inverse=True)
        if MANY_TREES * len(trees) < len(self.values):
            return trees.astype(np.intp), *self._table_among(of, tree, len(trees))
        return None, *self._table_among(of, self.tree[of], len(self.values))

    def _table_among(
        self, of: NDArray[np.intp], tree: NDArray[Any], count: int
    ) -> tuple[Array | None, NDArray[np.uint64]]:
        """The thresholds of some splits and their table, if they are those of one feature in so many trees."""
        kept = ~self.removed[of]
        by_category = self.bitset[of] >= 0
        edges = None if by_category.any() else np.unique(self.threshold[of])
        places = CATEGORIES if edges is None else len(edges) + 1
        table = np.full((places + 1, count), ~np.uint64(0))
        fails = ~self.missing_passes[of]
        np.bitwise_and.at(table[places], tree[fails], kept[fails])
        if edges is None:
            bits = np.unpackbits(self.bitsets[self.bitset[of]].view(np.uint8), axis=1, bitorder="little")
            split, category = np.nonzero(bits == 0)
            np.bitwise_and.at(table, (category, tree[split]), kept[split])
            return None, table
        # A value above a threshold fails it, and so it does all smaller ones.
        np.bitwise_and.at(table, (np.searchsorted(edges, self.threshold[of]) + 1, tree), kept)
        table[:-1] = np.bitwise_and.accumulate(table[:-1], axis=0)
        return edges, table


def _walk(nodes: Any, at: int, values: list[list[float]], splits: list[tuple[Any, ...]], offset: int) -> None:
    """Note the leaves of a tree's branch from left to right, and its splits."""
    node = nodes[at]
    if node["is_leaf"]:
        values[-1].append(float(node["value"]))
        return
    first = len(values[-1])
    _walk(nodes, int(node["left"]), values, splits, offset)
    removed = (1 << len(values[-1])) - (1 << first)
    bitset = offset + int(node["bitset_idx"]) if node["is_categorical"] else -1
    passes = bool(node["missing_go_to_left"])
    threshold = float(node["num_threshold"])
    splits.append((len(values) - 1, int(node["feature_idx"]), threshold, removed, passes, bitset))
    _walk(nodes, int(node["right"]), values, splits, offset)


def _walk_light(
    node: dict[str, Any], values: list[list[float]], splits: list[tuple[Any, ...]], bitsets: list[NDArray[np.uint32]]
) -> None:
    """Note the leaves of a branch of a LightGBM tree from left to right, and its splits."""
    if "split_feature" not in node:
        values[-1].append(float(node["leaf_value"]))
        return
    first = len(values[-1])
    left, right = node["left_child"], node["right_child"]
    _walk_light(left, values, splits, bitsets)
    removed = (1 << len(values[-1])) - (1 << first)
    threshold, bitset = np.nan, -1
    if node["decision_type"] == "==":  # categories that are not named, and missing ones, go to the right
        bits = np.zeros(CATEGORIES, np.uint8)
        bits[[int(category) for category in node["threshold"].split("||")]] = 1
        bitset = len(bitsets)
        bitsets.append(np.packbits(bits, bitorder="little").view(np.uint32))
        passes = False
    else:
        threshold = float(node["threshold"])
        # Where no training row misses the value, one that does goes with most of them.
        passes = _rows_in(left) >= _rows_in(right) if node["missing_type"] == "None" else bool(node["default_left"])
    splits.append((len(values) - 1, int(node["split_feature"]), threshold, removed, passes, bitset))
    _walk_light(right, values, splits, bitsets)


def _rows_in(node: dict[str, Any]) -> int:
    return int(node["internal_count"] if "split_feature" in node else node["leaf_count"])


def is_regressor(trunk: Any) -> bool:
    """Whether a trunk is a regressor that the user gave, which must have rows; boosted trees are left out without."""
    return trunk is not None and not isinstance(trunk, str)


def _places(x: Array, edges: Array | None) -> NDArray[np.intp]:
    """Rows of a table; -1 is the last, for missing values."""
    if edges is not None:
        return np.where(np.isnan(x), -1, np.searchsorted(edges, x, side="left"))
    known = (x >= 0) & (x < CATEGORIES)
    return np.where(known, x, -1).astype(np.intp)


@holds(
    regressor="record",
    inputs="T q any",
    shares="T >=0 <=1",
    share="number >=0 <=1",
    columns="integers c <d",
    reach="2 c infinite",
    beyond="2 c >=0",
    stranger="number any",
)
@dataclass(frozen=True, eq=False)
class Trunk:
    """A regressor of all rows, with what it knows of every task and its share in the prediction for it.

    Attributes
    ----------
    regressor : its inputs are those of the task, then the features
    inputs : (T, q), what it is told about every task; `stranger` for tasks that it has not seen
    shares : (T,), the other 1 - share is the linear models'; `share` for tasks that come later
    columns : positions of its features among those of the model
    reach : (2, d), least and largest value of these for the whole share: trees know no trend, and beyond an end where
        lines have shown to hold the share is another
    beyond : (2, d), what the share is multiplied by there; beyond several ends, by their mean
    """

    regressor: Any
    inputs: Array
    shares: Array
    share: float
    columns: NDArray[np.intp]
    reach: Array
    beyond: Array
    stranger: float = float("nan")

    def predict(self, X: Array, codes: NDArray[np.intp]) -> Array:
        """Predictions of the regressor for features X (n, d) of the tasks at `codes`; -1 is a task nobody has seen."""
        if not len(X):  # many regressors refuse no rows
            return np.zeros(0)
        q = self.inputs.shape[1]
        told = np.vstack([self.inputs, np.full(q, self.stranger)])[codes]
        return np.asarray(self.regressor.predict(np.column_stack([told, X[:, self.columns]])), np.float64).reshape(-1)

    def share_of(self, X: Array, codes: NDArray[np.intp]) -> Array:
        """The share in the prediction for features X (n, d) of the tasks at `codes`."""
        below, above = self._out_of_reach(X)
        ends = (below | above).sum(axis=1)
        factor = np.where(ends > 0, (below @ self.beyond[0] + above @ self.beyond[1]) / np.maximum(ends, 1), 1.0)
        return np.append(self.shares, self.share)[codes] * factor

    def reaches(self, X: Array) -> NDArray[np.bool_]:
        """Which rows lie where trees know as much as lines."""
        below, above = self._out_of_reach(X)
        return np.asarray(~(below | above).any(axis=1))

    def _out_of_reach(self, X: Array) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        own = X[:, self.columns]
        return own < self.reach[0], own > self.reach[1]

    def placed(self, position: NDArray[np.intp], T: int) -> Trunk:
        """The same among T tasks, where those that it knows stand at `position`."""
        inputs = np.full((T, self.inputs.shape[1]), self.stranger)
        inputs[position] = self.inputs
        shares = np.full(T, self.share)
        shares[position] = self.shares
        return replace(self, inputs=inputs, shares=shares)

    def taken(self, tasks: NDArray[Any]) -> Trunk:
        """The same for some tasks, by position or mask."""
        return replace(self, inputs=self.inputs[tasks], shares=self.shares[tasks])
