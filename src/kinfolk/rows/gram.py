"""Per-task Gram statistics: the narrow waist between rows and solvers.

With squared loss every method sees task t only through

    n_t,  the means of x and y,  G_t = X_t'X_t,  b_t = X_t'y_t,  yy_t = y_t'y_t   (all about the means).

Rows become these numbers once. Row blocks, files and folds are then additions of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinfolk.declared import holds
from kinfolk.memory import check_memory
from kinfolk.rows.moments import TINY, Array, Moments, centred, moments_of_rows, moments_of_wide

LAST_DIGITS = 8 * float(np.finfo(np.float64).eps)  # of a number, as a share of it
NO_ROWS = 1e-9  # of the rows: weights that add up to less are no rows, but rounding
STILL = 1e-14  # of the variance of a feature over all rows: what is left of it within a task is rounding
FEW_VARY = 0.05  # share of the tasks in which a feature may vary and still count as one of whole tasks: a few mistakes
LITTLE = 0.01  # share of its variance within tasks, at most, of such a feature
SAME_MATRIX = 1e-13  # of the largest entry: sums of the same products in another order agree to this

__all__ = ["TINY", "Array", "GramStats", "check_size", "is_shared", "squared_errors", "task_loss"]

Made = TypeVar("Made")
MOST_KEPT = 2**24  # numbers in the matrices of all tasks, 128 MB, up to which others of that size are kept too


@holds(
    labels="names T",
    n="T >=0",
    x_mean="T d repeats",
    y_mean="T",
    G="T d d repeats",
    b="T d",
    yy="T >=0",
    feature_names="texts d",
    span="2 d infinite",
    roles="integers d",
    dispersion="number >0",
)
@dataclass(frozen=True, eq=False)
class GramStats:
    """Centred second moments of T tasks with d features.

    Attributes
    ----------
    labels : array of shape (T,), sorted and unique
    n : array of shape (T,), rows per task, or the sum of their weights
    x_mean, y_mean : arrays of shape (T, d) and (T,)
    G, b, yy : arrays of shape (T, d, d), (T, d) and (T,), centred at the means
    feature_names : names of the d features, or None
    span : (2, d), least and largest value of every feature in any task, or None if unknown
    roles : (d,), what features are by the user's word: -1, one coefficient for all tasks; k > 0, a fact about tasks, of
        which those of one column have the same k; 0, anything else. None if all are 0
    dispersion : variance of a target of weight 1 about its mean, where it is known; None if it is to be estimated

    Examples
    --------
    >>> stats = GramStats.from_rows([[1.0], [3.0], [5.0]], [1.0, 5.0, 7.0], ["a", "a", "b"])
    >>> stats.n, stats.x_mean.ravel(), stats.G.ravel(), stats.b.ravel()
    (array([2., 1.]), array([2., 5.]), array([2., 0.]), array([4., 0.]))
    """

    labels: NDArray[Any]
    n: Array
    x_mean: Array
    y_mean: Array
    G: Array
    b: Array
    yy: Array
    feature_names: tuple[str, ...] | None = None
    span: Array | None = None
    roles: NDArray[np.intp] | None = None
    dispersion: float | None = None
    _memory: dict[Any, Any] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def from_rows(
        cls,
        X: ArrayLike,
        y: ArrayLike,
        task: ArrayLike | None = None,
        *,
        sample_weight: ArrayLike | None = None,
        feature_names: tuple[str, ...] | None = None,
    ) -> GramStats:
        """Statistics of a long table (`task`: one label per row) or of wide targets (`y` of shape (n, T))."""
        X, y = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
        weight = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        if y.ndim == 2:
            labels = np.arange(y.shape[1]) if task is None else np.asarray(task)
            return cls.from_wide(X, y, labels, weight=weight, feature_names=feature_names)
        labels, codes = np.unique(np.zeros(len(y), int) if task is None else task, return_inverse=True)
        return cls.from_codes(X, y, codes, labels, weight=weight, feature_names=feature_names)

    @classmethod
    def of_moments(
        cls, moments: Moments, slots: NDArray[np.intp], labels: NDArray[Any], names: tuple[str, ...] | None = None
    ) -> GramStats:
        """Statistics of the tasks in some slots."""
        return cls(labels, *moments.statistics(slots), names, moments.span[:, :-2]).without_rounding()

    @classmethod
    def from_codes(
        cls,
        X: Any,
        y: Array,
        codes: NDArray[np.intp],
        labels: NDArray[Any],
        *,
        weight: Array | None = None,
        feature_names: tuple[str, ...] | None = None,
    ) -> GramStats:
        """Statistics of rows whose task is `labels[codes]`."""
        T, d = len(labels), X.shape[1]
        check_size(T, d)
        moments = moments_of_rows(X, y, codes, T, weight)
        return cls.of_moments(moments, np.arange(T), labels, feature_names)

    @classmethod
    def from_wide(
        cls,
        X: Array,
        Y: Array,
        labels: NDArray[Any],
        *,
        weight: Array | None = None,
        feature_names: tuple[str, ...] | None = None,
    ) -> GramStats:
        """Statistics of targets `Y` of shape (n, T) over shared inputs; NaN means not observed.

        Where nothing is missing all tasks share one G, held once and broadcast.
        """
        order = np.argsort(labels, kind="stable")
        Y, labels = Y[:, order], labels[order]
        T, d = Y.shape[1], X.shape[1]
        if np.isnan(Y).any():
            check_size(T, d)
            return cls.of_moments(moments_of_wide(X, Y, weight), np.arange(T), labels, feature_names)
        w = np.ones(len(X)) if weight is None else weight
        x_mean, Xw = centred(X, w)
        y_mean, Yw = centred(Y, w)
        return cls(
            labels,
            np.full(T, w.sum()),
            np.broadcast_to(x_mean, (T, d)),
            y_mean,
            np.broadcast_to(Xw.T @ Xw, (T, d, d)),
            Yw.T @ Xw,
            np.einsum("nt,nt->t", Yw, Yw),
            feature_names,
            np.array([X.min(axis=0, initial=np.inf), X.max(axis=0, initial=-np.inf)]),
        ).without_rounding()

    @property
    def n_tasks(self) -> int:
        """T."""
        return len(self.labels)

    @property
    def n_features(self) -> int:
        """d."""
        return self.G.shape[-1]

    def __add__(self, other: GramStats) -> GramStats:
        """Statistics of both sets of rows together (pairwise update: no raw sums, no cancellation)."""
        one, two = self._aligned(other)
        n = one.n + two.n
        # The mean moves by the second part's share of the rows; the squares grow by what lies between the two means.
        share = np.divide(two.n, n, out=np.zeros_like(n), where=n > 0)
        dx, dy = two.x_mean - one.x_mean, two.y_mean - one.y_mean
        span = None
        if one.span is not None and two.span is not None:
            span = np.array([np.minimum(one.span[0], two.span[0]), np.maximum(one.span[1], two.span[1])])
        return replace(one._updated(n, share, two, dx, dy, sign=1), span=span).without_rounding()

    def __sub__(self, other: GramStats) -> GramStats:
        """Undo an addition: the statistics without the rows of `other`."""
        whole, part = self._aligned(other)
        n = whole.n - part.n
        if (n < -NO_ROWS * whole.n).any():
            bad = whole.labels[np.argmin(n)]
            raise ValueError(f"cannot subtract more rows than task {bad!r} has")
        # Weights that add up to zero only to rounding leave no rows behind.
        n[n < NO_ROWS * whole.n] = 0.0
        share = np.divide(part.n, n, out=np.zeros_like(n), where=n > 0)
        dx, dy = whole.x_mean - part.x_mean, whole.y_mean - part.y_mean
        left = whole._updated(n, share, part, dx, dy, sign=-1)
        # A column or target of which no more is left than rounding, or less than nothing, is constant.
        rounding = SAME_MATRIX * np.diagonal(whole.G, axis1=1, axis2=2)
        yy = np.where(left.yy > SAME_MATRIX * whole.yy, left.yy, 0.0)
        b = np.where(yy[:, None] > 0, left.b, 0.0)
        return replace(left, b=b, yy=yy).emptied(n == 0).without_rounding(rounding)

    def _updated(self, n: Array, share: Array, other: GramStats, dx: Array, dy: Array, sign: int) -> GramStats:
        c = self.n * share
        return replace(
            self,
            n=n,
            x_mean=self.x_mean + dx * share[:, None],
            y_mean=self.y_mean + dy * share,
            # Squares of both: those within each, plus c = n1 n2 / (n1 + n2) times the product of the shifts.
            G=self.G + sign * (other.G + (c[:, None] * dx)[:, :, None] * dx[:, None, :]),
            b=self.b + sign * (other.b + (c * dy)[:, None] * dx),
            yy=self.yy + sign * (other.yy + c * dy**2),
        )

    def without_rounding(self, rounding: Array | float = 0.0) -> GramStats:
        """The same, without features that differ from their mean by its last digits only: they are constant.

        In units of so small a deviation a coefficient is some 1e15, and so is the intercept that it is balanced by.
        Statistics that are a difference know how much `rounding` (T, d) that may have left of the squares.
        """
        squares = np.diagonal(self.G, axis1=1, axis2=2)
        digits = self.n[:, None] * (LAST_DIGITS * self.x_mean) ** 2
        constant = (squares <= np.maximum(digits, rounding)) & ((squares != 0) | (rounding != 0))
        if not constant.any():
            return self
        varies = ~constant
        some = slice(1) if self.G.strides[0] == 0 else slice(None)  # one matrix for all tasks stays one
        G = np.where(varies[some, :, None] & varies[some, None, :], self.G[some], 0.0)
        return replace(self, G=np.broadcast_to(G, self.G.shape), b=np.where(varies, self.b, 0.0))

    def emptied(self, empty: NDArray[np.bool_]) -> GramStats:
        """The same tasks, some of them without rows."""
        if not empty.any():
            return self
        fields = {f: getattr(self, f).copy() for f in ("n", "x_mean", "y_mean", "G", "b", "yy")}
        for values in fields.values():
            values[empty] = 0.0
        return replace(self, **fields)

    def _aligned(self, other: GramStats) -> tuple[GramStats, GramStats]:
        if self.n_features != other.n_features or (
            self.feature_names and other.feature_names and self.feature_names != other.feature_names
        ):
            raise ValueError(
                f"statistics over different features: {self.feature_names or self.n_features} "
                f"and {other.feature_names or other.n_features}"
            )
        if np.array_equal(self.labels, other.labels):
            return self, other
        labels = np.union1d(self.labels, other.labels)
        return self.reindex(labels), other.reindex(labels)

    def reindex(self, labels: NDArray[Any]) -> GramStats:
        """The same statistics for exactly these tasks, in this order; tasks without rows are legal."""
        # Labels are sorted; one that is not there points at its right neighbour and is emptied below.
        position = np.searchsorted(self.labels, labels)
        position = np.minimum(position, len(self.labels) - 1)
        known = self.labels[position] == labels
        fields = {f: getattr(self, f)[position] for f in ("n", "x_mean", "y_mean", "G", "b", "yy")}
        return replace(self, labels=np.asarray(labels), **fields).emptied(~known)

    def select(self, tasks: NDArray[Any]) -> GramStats:
        """The statistics of some tasks, by position or mask."""
        fields = {f: getattr(self, f)[tasks] for f in ("labels", "n", "x_mean", "y_mean", "G", "b", "yy")}
        return replace(self, **fields)

    def on_columns(self, columns: NDArray[np.intp]) -> GramStats:
        """The statistics of some features, by position."""
        G = self.G[:1] if self.G.strides[0] == 0 else self.G  # one matrix for all tasks stays one
        # Taken from flat matrices, each stays whole in memory: indices of two axes would put the tasks innermost.
        flat = (self.n_features * columns[:, None] + columns).ravel()
        G = G.reshape(len(G), -1).take(flat, axis=1).reshape(len(G), len(columns), len(columns))
        G = np.broadcast_to(G, (self.n_tasks, len(columns), len(columns)))
        names = None if self.feature_names is None else tuple(self.feature_names[j] for j in columns)
        span = None if self.span is None else self.span[:, columns]
        roles = None if self.roles is None else self.roles[columns]
        x_mean, b = self.x_mean[:, columns], self.b[:, columns]
        return replace(self, x_mean=x_mean, G=G, b=b, feature_names=names, span=span, roles=roles)

    def scaled(self, factor: ArrayLike) -> GramStats:
        """Statistics with the weight of every task multiplied by `factor` (scalar or one per task).

        A forgetting factor for streams, or 1/n_t so that tasks with many rows do not dominate.
        """
        f = np.broadcast_to(np.asarray(factor, dtype=np.float64), self.n.shape)
        return replace(self, n=self.n * f, G=self.G * f[:, None, None], b=self.b * f[:, None], yy=self.yy * f)

    def rescaled(self, scale: Array) -> GramStats:
        """Statistics of the features divided by `scale` (d,)."""
        # One G for all tasks stays one.
        G = self.G[0] / scale / scale[:, None] if self.G.strides[0] == 0 else self.G / scale / scale[:, None]
        span = None if self.span is None else self.span / scale
        G = np.broadcast_to(G, self.G.shape)
        return replace(self, x_mean=self.x_mean / scale, G=G, b=self.b / scale, span=span)

    def mapped(self, A: Array) -> GramStats:
        """Statistics of the features X A, for A (d, d)."""
        G = self.G[0] if self.G.strides[0] == 0 else self.G
        G = np.broadcast_to(A.T @ G @ A, self.G.shape)
        return replace(self, x_mean=self.x_mean @ A, G=G, b=self.b @ A, span=None)

    def worth_of_a_row(self, rows: Array) -> Array:
        """What a row says about every slope (T, d), in units of G, shared out among tasks of so many `rows` (T,)."""
        away = self.x_mean - self.mean_features()
        squares = np.einsum("tjj->j", self.G) + self.n @ away**2
        return rows[:, None] / rows.sum() ** 2 * squares

    def with_ridge(self, ridge: Array) -> GramStats:
        """The statistics with a ridge (T, d) on slopes, as if rows had told that they are 0."""
        d = np.arange(self.n_features)
        G = self.G.copy()
        G[:, d, d] += ridge
        return replace(self, G=G)

    def mean_features(self) -> Array:
        """Means of the features (d,) over the rows of all tasks."""
        return np.asarray(self.n @ self.x_mean / max(float(self.n.sum()), TINY))

    def is_shared(self) -> bool:
        """Whether all tasks have the same G (shared inputs, nothing missing)."""
        return is_shared(self.G)

    def with_rows(self) -> GramStats:
        """The statistics of the tasks that have rows."""
        seen = self.n > 0
        return self if seen.all() else self.once("tasks with rows", lambda: self.select(seen))

    def lone(self) -> NDArray[np.bool_]:
        """Which tasks have a single row: next to an own intercept it says nothing about slopes."""
        still = (np.abs(self.G).sum(axis=(1, 2)) == 0) & (self.yy == 0)
        return np.asarray(still & (self.n > 0) & (self.n <= 1))

    def common(self) -> NDArray[np.bool_]:
        """Features (d,) that differ between tasks but not within them, as the sex of a patient.

        No task can tell a slope of such a feature from its own level, so all have one coefficient in common. A few
        tasks in which it varies a little change nothing. Where no feature varies within tasks, none is called common.

        Examples
        --------
        >>> X, task = [[0.0, 1.0], [1.0, 1.0], [0.0, 2.0], [1.0, 2.0]], ["a", "a", "b", "b"]
        >>> GramStats.from_rows(X, [0.0, 1.0, 2.0, 3.0], task).common()
        array([False,  True])
        """
        return self.once("common features", self._common)

    def facts(self) -> NDArray[np.bool_]:
        """Features (d,) that are facts about tasks."""
        return np.zeros(self.n_features, bool) if self.roles is None else self.roles > 0

    def with_roles(self, roles: NDArray[np.intp] | None) -> GramStats:
        """The same statistics of features with these roles."""
        return self if roles is None or not roles.any() else replace(self, roles=roles)

    def constant_within(self) -> NDArray[np.bool_]:
        """Those of `common` that the rows show, whatever the user has said."""
        return self.once("constant within tasks", self._constant_within)

    def _common(self) -> NDArray[np.bool_]:
        constant = self.constant_within()
        return constant if self.roles is None else constant | (self.roles < 0)

    def _constant_within(self) -> NDArray[np.bool_]:
        rows = max(float(self.n.sum()), TINY)
        within = np.diagonal(self.G, axis1=1, axis2=2)
        between = self.n @ np.square(self.x_mean - self.n @ self.x_mean / rows)
        total = within.sum(axis=0) + between
        varies = within > self.n[:, None] * np.maximum(STILL * total / rows, (LAST_DIGITS * self.x_mean) ** 2)
        several = self.n > 1
        differs = between > rows * (LAST_DIGITS * np.abs(self.x_mean).max(axis=0, initial=0.0)) ** 2
        few = varies[several].sum(axis=0) <= FEW_VARY * several.sum()
        common = few & (within.sum(axis=0) <= LITTLE * total) & differs
        # A column that is the same in all rows is nothing that varies within tasks.
        moves = differs | varies.any(axis=0)
        return np.zeros_like(common) if common[moves].all() else common

    def beside(self, coef: Array, intercept: Array | float = 0.0) -> GramStats:
        """The statistics of y - X coef - intercept, for coefficients that all tasks share (d,), or of their own (T, d).

        Examples
        --------
        >>> stats = GramStats.from_rows([[0.0], [2.0]], [1.0, 4.0]).beside(np.array([1.0]))
        >>> stats.y_mean, stats.b.ravel(), stats.yy
        (array([1.5]), array([1.]), array([0.5]))
        """
        if coef.ndim == 2:
            explained = np.matmul(self.G, coef[:, :, None])[:, :, 0]
            yy = np.maximum(self.yy - np.einsum("td,td->t", 2 * self.b - explained, coef), 0.0)
            y_mean = self.y_mean - np.einsum("td,td->t", self.x_mean, coef) - intercept
            return replace(self, y_mean=y_mean, b=self.b - explained, yy=yy)
        explained = self.G @ coef
        yy = np.maximum(self.yy - (2 * self.b - explained) @ coef, 0.0)
        return replace(self, y_mean=self.y_mean - self.x_mean @ coef - intercept, b=self.b - explained, yy=yy)

    def once(self, key: Any, make: Callable[[], Made]) -> Made:
        """What `make` returns, computed at the first call with this key: several methods share, e.g., a mixed model."""
        if key not in self._memory:
            self._memory[key] = make()
        return self._memory[key]

    def once_if_small(self, key: Any, make: Callable[[], Made]) -> Made:
        """The same for what is as large as the matrices themselves, unless these would fill the memory."""
        return self.once(key, make) if self.G.size <= MOST_KEPT else make()

    def remembering(self, memory: dict[Any, Any]) -> GramStats:
        """The same statistics with what was computed from equal ones before."""
        same = replace(self)
        object.__setattr__(same, "_memory", memory)
        return same


def task_loss(gram: Any, W: Array) -> Array:
    """||X_t w_t - y_t||^2 for every task, from statistics: yy - 2 b'w + w'Gw; W is (T, d) or a stack (..., T, d)."""
    Gw = W @ gram.G[0] if gram.G.strides[0] == 0 else np.matmul(gram.G, W[..., None])[..., 0]
    return np.maximum(gram.yy + np.einsum("...td,...td->...t", Gw - 2 * gram.b, W), 0.0)


def squared_errors(gram: GramStats, coef: Array, intercept: Array) -> Array:
    """Sum of squared prediction errors of every task over the rows behind `gram`; also for stacks of models."""
    # Centred rows have no cross term with the mean: errors within, plus n times the squared error of the means.
    off = gram.y_mean - intercept - np.einsum("...td,td->...t", coef, gram.x_mean)
    return task_loss(gram, coef) + gram.n * off**2


def order_by_content(G: Array, b: Array) -> NDArray[np.intp]:
    """Positions of tasks ordered by what their features explain, each alone: units, labels and columns play no part."""
    own = np.diagonal(G, axis1=1, axis2=2)
    explained = np.divide(b**2, own, out=np.zeros_like(b), where=own > 0).sum(axis=1)
    return np.argsort(explained, kind="stable")


def evenly_chosen(gram: GramStats, count: int) -> NDArray[np.intp]:
    """Positions of up to `count` tasks that stand for all, whatever these are called."""
    some = np.unique(np.linspace(0, gram.n_tasks - 1, min(count, gram.n_tasks)).astype(np.intp))
    return np.sort(order_by_content(gram.G, gram.b)[some])


def check_size(T: int, d: int) -> None:
    """Announce statistics that will not fit into memory, before the first is made."""
    check_memory(
        2 * 8.0 * T * d**2,
        f"statistics of {T} tasks with {d} features each",
        "Use fewer features (drop, select or project them), or fit groups of tasks apart.",
    )


def is_shared(G: Array) -> bool:
    """Whether a stack of matrices is one matrix repeated, to rounding."""
    if G.strides[0] == 0 or len(G) == 1:
        return True
    rounding = SAME_MATRIX * np.abs(G[0]).max(initial=0.0)
    # The second matrix nearly always decides, and spares the difference of all.
    return bool(np.abs(G[1] - G[0]).max() <= rounding and np.abs(G - G[0]).max() <= rounding)
