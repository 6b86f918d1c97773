"""Cross-validation without refitting on rows: every fold is a block of statistics, its complement a subtraction."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import check_random_state

from kinfolk.rows.gram import Array, GramStats
from kinfolk.rows.kinds import day_format, is_missing, parsed
from kinfolk.rows.tables import read_table
from kinfolk.rows.tasks import Rows

SCORINGS = ("pooled", "tasks", "normalised")


@dataclass(frozen=True, eq=False)
class Folds:
    """Statistics of k disjoint parts of the rows of all tasks.

    `own` are the statistics of every fold's training rows where these are not the total minus what is held out: for
    features that are fitted anew in every fold, and for folds in time, which train on the past.

    Examples
    --------
    >>> X, y = np.arange(6.0)[:, None], np.arange(6.0)
    >>> folds = Folds.of_rows(X, y, np.zeros(6, int), np.array(["a"]), np.array([0, 0, 1, 1, 2, 2]))
    >>> folds.training(0).n, folds.held_out[0].n
    (array([4.]), array([2.]))
    """

    total: GramStats
    held_out: tuple[GramStats, ...]
    own: tuple[GramStats, ...] | None = None
    _memory: dict[int, dict[Any, Any]] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of_rows(
        cls,
        X: Array,
        y: Array,
        codes: NDArray[np.intp],
        labels: NDArray[Any],
        fold: NDArray[np.intp],
        *,
        weight: Array | None = None,
        feature_names: tuple[str, ...] | None = None,
        k: int | None = None,
    ) -> Folds:
        """One pass over the rows of a long table: (fold, task) is the task of a larger problem."""
        T = len(labels)
        k = k or int(fold.max()) + 1
        wide = GramStats.from_codes(
            X, y, codes + T * fold, np.arange(T * k), weight=weight, feature_names=feature_names
        )
        parts = [replace(wide.select(np.arange(T * f, T * (f + 1))), labels=labels) for f in range(k)]
        return cls.of_parts(parts)

    @classmethod
    def of_wide(
        cls,
        X: Array,
        Y: Array,
        labels: NDArray[Any],
        fold: NDArray[np.intp],
        *,
        weight: Array | None = None,
        feature_names: tuple[str, ...] | None = None,
    ) -> Folds:
        """Folds of wide targets: the rows, and so the folds, are common to all tasks."""
        parts = [
            GramStats.from_wide(
                X[fold == f],
                Y[fold == f],
                labels,
                weight=None if weight is None else weight[fold == f],
                feature_names=feature_names,
            )
            for f in range(int(fold.max()) + 1)
        ]
        return cls.of_parts(parts)

    @classmethod
    def of_parts(cls, parts: list[GramStats]) -> Folds:
        """Folds from the statistics of each part."""
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        return cls(total, tuple(parts))

    def __len__(self) -> int:
        return len(self.held_out)

    def training(self, f: int) -> GramStats:
        """Statistics of all rows but those of fold f; they are subtracted anew, but remember what was made of them."""
        left = self.total - self.held_out[f] if self.own is None else self.own[f]
        return left.remembering(self._memory.setdefault(f, {}))

    @property
    def in_time(self) -> bool:
        """Whether folds train on the past: some rows are then never held out."""
        return self.own is not None and float(self.judged.n.sum()) < float(self.total.n.sum())

    @property
    def judged(self) -> GramStats:
        """Statistics of all rows that are held out once; in time, the first are not."""
        return self.total if self.own is None else Folds.of_parts(list(self.held_out)).total

    def without(self, f: int) -> Folds:
        """The other folds, as folds of their own: what a method that cross-validates may see of the training rows."""
        if self.own is not None and self.in_time:
            return Folds(self.own[f], self.held_out[:f], self.own[:f])
        others = [part for g, part in enumerate(self.held_out) if g != f]
        return replace(Folds.of_parts(others), total=self.training(f))

    def rescaled(self, scale: Array) -> Folds:
        """Folds of the features divided by `scale` (d,)."""
        return self._each(lambda part: part.rescaled(scale))

    def with_rows(self) -> Folds:
        """The folds of the tasks that have rows."""
        seen = self.total.n > 0
        return self if seen.all() else self.select(seen)

    def emptied(self, tasks: NDArray[np.bool_]) -> Folds:
        """The folds without the rows of some tasks."""
        return self._each(lambda part: part.emptied(tasks))

    def select(self, tasks: NDArray[Any]) -> Folds:
        """The folds of some tasks, by position or mask."""
        return self._each(lambda part: part.select(tasks))

    def on_columns(self, columns: NDArray[np.intp]) -> Folds:
        """The folds of some features, by position."""
        return self._each(lambda part: part.on_columns(columns))

    def _each(self, change: Callable[[GramStats], GramStats]) -> Folds:
        own = None if self.own is None else tuple(map(change, self.own))
        return Folds(change(self.total), tuple(map(change, self.held_out)), own)


def cv_error(errors: Array, total: GramStats, scoring: str) -> Array:
    """One number per row of `errors` (..., T), the sums of squared held-out errors of every task over all folds.

        "pooled"      root of the mean over all rows: tasks count by their rows and by the size of their errors
        "tasks"       mean over tasks of their root mean squared errors
        "normalised"  root of the mean over tasks of error over variance of y: a loud task counts as any other

    Examples
    --------
    >>> total = GramStats.from_rows(np.zeros((4, 1)), [0.0, 2.0, 0.0, 20.0], [0, 0, 1, 1])
    >>> [float(cv_error(np.array([2.0, 50.0]), total, s)) for s in SCORINGS]
    [3.605551275463989, 3.0, 0.7905694150420949]
    """
    if scoring not in SCORINGS:
        raise ValueError(f"scoring={scoring!r}: choose one of {', '.join(map(repr, SCORINGS))}")
    if scoring == "pooled":
        return np.sqrt(errors.sum(axis=-1) / total.n.sum())
    seen = total.n > 0
    mean_square = errors[..., seen] / total.n[seen]
    if scoring == "tasks":
        return np.sqrt(mean_square).mean(axis=-1)
    variance = total.yy[seen] / total.n[seen]
    # A task with a constant target has nothing to explain; its variance would be a division by zero.
    floor = 1e-3 * np.median(variance[variance > 0]) if (variance > 0).any() else 1.0
    return np.sqrt((mean_square / np.maximum(variance, floor)).mean(axis=-1))


def folds_of_rows(
    rows: Rows, X: Array, gram: GramStats, *, cv: Any, groups: Any = None, random_state: Any = None
) -> Folds:
    """Statistics of folds (see `fold_of_rows`) of checked rows with the features X, whose statistics are `gram`."""
    fold = fold_of_rows(rows, X, gram, cv=cv, groups=groups, random_state=random_state)
    if isinstance(groups, InTime):
        return train_on_the_past(folds_by_number(rows, X, gram, fold + 1))
    return folds_by_number(rows, X, gram, fold)


def folds_by_number(rows: Rows, X: Array, gram: GramStats, fold: NDArray[np.intp]) -> Folds:
    """Statistics of folds of checked rows; `fold` has a number per row."""
    labels, names = gram.labels, gram.feature_names
    if rows.codes is None:
        return replace(Folds.of_wide(X, rows.y, labels, fold, weight=rows.weight, feature_names=names), total=gram)
    observed = ~np.isnan(rows.y)
    weight = None if rows.weight is None else rows.weight[observed]
    parts = Folds.of_rows(
        X[observed], rows.y[observed], rows.codes[observed], labels, fold[observed], weight=weight, feature_names=names
    )
    return replace(parts, total=gram)


def train_on_the_past(parts: Folds) -> Folds:
    """Every part but the first is held out, and all before it train."""
    past = list(accumulate(parts.held_out, GramStats.__add__))
    return Folds(parts.total, parts.held_out[1:], tuple(past[:-1]))


@dataclass(frozen=True, eq=False)
class InTime:
    """When each row was observed, in place of groups: folds then train on the past and are judged by what follows."""

    when: NDArray[np.intp]

    @classmethod
    def of(cls, time: Any, X: Any, n: int) -> InTime:
        """From times, one per row, or the name of a column of X: numbers, dates, or dates as text."""
        values = read_table(X).column(read_table(X).position(time)) if isinstance(time, str) else np.asarray(time)
        if values.shape != (n,):
            raise ValueError(f"time has shape {values.shape}, expected ({n},): one time per row")
        if any(is_missing(value) for value in values.tolist()):
            raise ValueError("time is missing in some rows: fill it in or drop these rows")
        if values.dtype.kind in "OUS" and isinstance(values[0], str):
            day = day_format(sorted(set(values.tolist())))
            if day is None:
                raise ValueError(f"time holds text like {str(values[0])!r}: give numbers or dates")
            values = np.array([parsed(text, day) for text in values.tolist()])
        return cls(np.unique(values, return_inverse=True)[1].reshape(-1))

    def __getitem__(self, rows: Any) -> InTime:
        return InTime(self.when[rows])

    def folds(self, k: int) -> NDArray[np.intp]:
        """The fold of every row: k + 1 parts of about equal size, the first, -1, is never held out; equal times stay
        together."""
        count = np.bincount(self.when)
        middle = np.cumsum(count) - count / 2
        # Parts that no time falls into are not counted.
        part = np.unique(np.floor(middle / len(self.when) * (k + 1)), return_inverse=True)[1].reshape(-1)
        found = int(part.max())
        if found < 1:
            raise ValueError("all rows have the same time: folds in the order of time need at least 2 times")
        if found < k:
            warnings.warn(f"there are few different times: {found} folds in place of cv={k}", UserWarning, stacklevel=5)
        return np.asarray(part[self.when] - 1)


def in_order(groups: Any, time: Any, X: Any, n: int) -> Any:
    """The groups that keep rows together, or the times that put folds in order."""
    if time is not None and groups is not None:
        raise ValueError("give groups or time: rows of equal time stay together as groups do")
    if time is not None:
        return InTime.of(time, X, n)
    return groups if groups is None or isinstance(groups, InTime) else np.asarray(groups)


def trains(fold: NDArray[np.intp], f: int) -> NDArray[np.bool_]:
    """Which rows train fold f: those of all others or, in time (where -1 is never held out), those before.

    >>> trains(np.array([0, 1, 2]), 1).tolist(), trains(np.array([-1, 0, 1]), 0).tolist()
    ([True, False, True], [True, False, False])
    """
    return fold < f if (fold < 0).any() else fold != f


def fold_of_rows(
    rows: Rows, X: Array, gram: GramStats, *, cv: Any, groups: Any = None, random_state: Any = None
) -> NDArray[np.intp]:
    """The fold of every row: spread within tasks; whole `groups`; common to all tasks where they share their inputs.

    Tasks with the same inputs need common folds: with folds of their own, the errors of one task at an input would
    be seen in training through the others, and cross-validation would claim gains that a test reverses.
    `cv` is the number of folds, or (train, test) pairs of row positions that share out all rows, taken as they are.
    """
    if not isinstance(cv, (int, np.integer)):
        return _given_folds(cv, len(X))
    if cv < 2:
        raise ValueError(f"cv={cv} must be at least 2 folds")
    if isinstance(groups, InTime):
        return groups.folds(int(cv))
    groups = _read_groups(groups, len(X))
    codes = np.zeros(len(X), np.intp) if rows.codes is None else rows.codes
    if rows.codes is not None and gram.n_tasks > 1 and gram.is_shared():
        common = common_rows(X, rows.codes)
        groups = common if groups is None else _joined(common, groups)
    # Rows without any target take no place in a fold.
    used = np.flatnonzero(~np.isnan(rows.y.reshape(len(X), -1)).all(axis=1))
    fold = np.zeros(len(X), np.intp)
    groups = None if groups is None else groups[used]
    fold[used] = assign_folds(codes[used], cv, groups=groups, random_state=random_state)
    return fold


def common_rows(X: Array, codes: NDArray[np.intp]) -> NDArray[np.intp]:
    """A number for every row, the same for equal rows of different tasks; repeats within a task are told apart.

    Examples
    --------
    >>> common_rows(np.array([[5.0], [7.0], [7.0], [5.0]]), np.array([0, 0, 1, 1]))
    array([0, 1, 1, 0])
    """
    # Transformers may round equal rows differently by where they stand.
    scale = np.abs(X).max(axis=0, initial=0.0)
    rounded = np.round(X / np.where(scale > 0, scale, 1.0), 10)
    # Equal rows are of one kind; the k-th of a kind in one task goes with the k-th in the others.
    kind = np.unique(rounded, axis=0, return_inverse=True)[1].reshape(-1)
    pair = np.unique(kind * (codes.max() + 1) + codes, return_inverse=True)[1].reshape(-1)
    order = np.argsort(pair, kind="stable")
    count = np.bincount(pair)
    occurrence = np.empty(len(pair), np.intp)
    occurrence[order] = np.arange(len(pair)) - np.repeat(np.cumsum(count) - count, count)
    return np.unique(kind * len(X) + occurrence, return_inverse=True)[1].reshape(-1)


def _joined(one: NDArray[np.intp], two: NDArray[np.intp]) -> NDArray[np.intp]:
    """The finest grouping that keeps the groups of both together: components of the graph between them."""
    n_one, n_two = one.max() + 1, two.max() + 1
    # Groups of both kinds are nodes, a row links its two: what hangs together must stay together.
    links = sparse.coo_array((np.ones(len(one)), (one, n_one + two)), shape=(n_one + n_two, n_one + n_two))
    return sparse.csgraph.connected_components(links, directed=False)[1][one]


def _given_folds(cv: Any, n: int) -> NDArray[np.intp]:
    """The fold of every row from (train, test) pairs of row positions, as scikit-learn's splitters give them."""
    fold = np.full(n, -1)
    try:
        pairs = [(np.asarray(train), np.asarray(test)) for train, test in cv]
    except TypeError:
        raise ValueError(
            f"cv={cv!r} must be a whole number of folds, or (train, test) pairs of row positions"
        ) from None
    for f, (train, test) in enumerate(pairs):
        if (fold[test] >= 0).any() or len(train) + len(test) != n:
            raise ValueError(
                f"cv: pair {f} overlaps an earlier test part, or leaves rows out: folds must share out all rows"
            )
        fold[test] = f
    if (fold < 0).any():
        raise ValueError(f"cv: row {np.argmin(fold)} is in no test part: folds must share out all rows")
    return fold


def check_fold_numbers(fold: NDArray[np.intp]) -> None:
    """Cross-validation needs rows in two folds at least; `fold` has a number per row."""
    if len(np.unique(fold)) < 2:
        raise ValueError(f"got n_samples={len(fold)} in one fold: cross-validation needs rows in at least 2 folds")


def _read_groups(groups: Any, n: int) -> NDArray[np.intp] | None:
    if groups is None:
        return None
    groups = np.asarray(groups)
    if groups.shape != (n,):
        raise ValueError(f"groups has shape {groups.shape}, expected ({n},): one label per row")
    return np.unique(groups, return_inverse=True)[1].reshape(-1)


def generator(random_state: Any) -> np.random.Generator:
    """A generator from whatever scikit-learn or NumPy users pass as `random_state`."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    return np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))


def assign_folds(
    codes: NDArray[np.intp],
    k: int | np.integer[Any],
    *,
    groups: NDArray[Any] | None = None,
    random_state: Any = None,
) -> NDArray[np.intp]:
    """A fold for every row: each task's rows are spread evenly over the k folds.

    With `groups` (sittings, days; or the row of a shared design) whole groups go to one fold, in all tasks alike.

    Folds follow from the positions of the rows and from which of them share a task or group. Values, units, labels and
    the order of columns play no part; rows in another order are drawn anew, as with another `random_state`.
    """
    rng = generator(random_state)
    if groups is not None:
        group = by_appearance(np.unique(groups, return_inverse=True)[1].reshape(-1))
        count = int(group.max(initial=-1)) + 1
        k = folds_for_groups(count, int(k), "groups")
        return _spread(np.zeros(count, np.intp), k, rng)[group]
    if len(codes) < 2:
        raise ValueError(f"got n_samples={len(codes)} with a target: cross-validation needs at least 2")
    if len(codes) < k:
        warnings.warn(f"there are {len(codes)} rows: {len(codes)} folds in place of cv={k}", UserWarning, stacklevel=4)
    # So few rows are a fold each.
    return rng.permutation(len(codes)) if len(codes) <= k else _spread(by_appearance(codes), k, rng)


def by_appearance(codes: NDArray[np.intp]) -> NDArray[np.intp]:
    """Codes counted in the order in which they first appear.

    Examples
    --------
    >>> by_appearance(np.array([2, 0, 2, 1])).tolist()
    [0, 1, 0, 2]
    """
    position = np.arange(len(codes))
    first = np.full(int(codes.max(initial=-1)) + 1, len(codes))
    first[codes[::-1]] = position[::-1]  # the last assignment stays: that of the first row
    rank = np.empty_like(first)
    rank[np.argsort(first, kind="stable")] = np.arange(len(first))
    return rank[codes]


def folds_for_groups(count: int, k: int, name: str) -> int:
    """How many folds there are of so many groups: k, or with a warning one per group if there are fewer."""
    if count < 2:
        raise ValueError(
            f"cross-validation keeps the rows of a group together, but {name} has {count}: it needs at least 2"
        )
    if count < k:
        warnings.warn(f"{name} has {count} groups: {count} folds in place of cv={k}", UserWarning, stacklevel=3)
    return min(count, k)


def _spread(codes: NDArray[np.intp], k: int | np.integer[Any], rng: np.random.Generator) -> NDArray[np.intp]:
    """Shuffle within tasks and deal the rows out in turn; every task starts at another fold."""
    order = np.lexsort((rng.random(len(codes)), codes))
    counts = np.bincount(codes)
    starts = np.repeat(np.cumsum(counts) - counts, counts)
    # If all began at fold 0, tasks with fewer rows than folds would leave the last folds empty.
    first = rng.integers(k, size=len(counts))[codes[order]]
    fold = np.empty(len(codes), np.intp)
    fold[order] = (np.arange(len(codes)) - starts + first) % k
    return fold
