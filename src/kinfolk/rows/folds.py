"""Cross-validation without refitting on rows: every fold is a block of statistics, the others add up to its complement.

The complement is never the total minus the fold. Where a fold holds every row of a rare category, such a difference
is rounding: about 1e-17 of G and of b, whose quotient is the answer that was held out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.declared import holds
from kinfolk.rows.gram import NO_ROWS, Array, GramStats
from kinfolk.rows.table import Rows

SCORINGS = ("pooled", "tasks", "normalised")


@holds(total="record T d", held_out="record T d", own="record T d", distinct="T")
@dataclass(frozen=True, eq=False)
class Folds:
    """Statistics of k disjoint parts of the rows of all tasks.

    `own` are the statistics of every fold's training rows where these are not the other parts: for features that are
    fitted anew in every fold, and for folds in time, which train on the past. `distinct` is the share of every task's
    rows (T,) that are observations of their own; None if all are.

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
    distinct: Array | None = None
    _memory: dict[int, dict[Any, Any]] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of_rows(
        cls,
        X: Any,
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
    def of_parts(cls, parts: list[GramStats]) -> Folds:
        """Folds from the statistics of each part."""
        return cls(reduce(GramStats.__add__, parts), tuple(parts))

    def __len__(self) -> int:
        return len(self.held_out)

    def training(self, f: int) -> GramStats:
        """Statistics of all rows but those of fold f, which remember what was made of them."""
        memory = self._memory.setdefault(f, {})
        if self.own is not None:
            return self.own[f].remembering(memory)
        others = [part for g, part in enumerate(self.held_out) if g != f]
        total = self.total.remembering(memory)
        training = total.once_if_small("training", lambda: reduce(GramStats.__add__, others))
        return training.remembering(memory)

    def training_rows(self, f: int) -> Array:
        """How many rows every task has outside fold f, without the rest of their statistics."""
        return self.total.n - self.held_out[f].n if self.own is None else self.own[f].n

    def last_rows(self) -> list[GramStats]:
        """What every task had last before each fold in time, and of all rows: the last part in which it has some."""
        assert self.own is not None
        found = [self.own[0]]
        for part in self.held_out:
            found.append(found[-1].emptied(part.n > 0) + part)
        return found

    def has_both(self) -> NDArray[np.bool_]:
        """Tasks of which some rows are held out while others are trained on: not those with a single row."""
        least = NO_ROWS * self.total.n
        both = [(self.training_rows(f) > least) & (part.n > 0) for f, part in enumerate(self.held_out)]
        return np.any(both, axis=0)

    def check_training(self) -> None:
        """Refuse folds of which one has no rows to train on."""
        for f in range(len(self)):
            if not (self.training_rows(f) > NO_ROWS * self.total.n).any():
                raise ValueError(
                    "a fold of the cross-validation has no rows to train on, as tasks with a single row do not count: "
                    "fit more rows, or fewer folds"
                )

    def leave_single_rows(self) -> bool:
        """Whether in some fold no task has more than one row to train on; in time, where the first has few, in all."""
        # Many rows of small weights are no single row: they vary.
        vary = NO_ROWS * self.total.G.max()
        single = [
            bool((self.training_rows(f) <= 1 + NO_ROWS).all()) and self.training(f).G.max() <= vary
            for f in range(len(self))
        ]
        return all(single) if self.in_time else any(single)

    @property
    def trained_on(self) -> float:
        """Share of the rows that the models of the folds have seen, on average; in time they see the past alone."""
        if self.own is None:
            return 1 - 1 / len(self)
        share = float(sum(part.n.sum() for part in self.own)) / (len(self) * float(self.total.n.sum()))
        return min(share, 1.0)  # weights of working targets are those of each fold, and may add up to more

    @property
    def in_time(self) -> bool:
        """Whether folds train on the past: some rows are then never held out."""
        return self.own is not None and float(self.judged.n.sum()) < (1 - NO_ROWS) * float(self.total.n.sum())

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

    def __add__(self, other: Folds) -> Folds:
        """The folds with more rows in each; tasks may be new."""
        held_out = tuple(one + two for one, two in zip(self.held_out, other.held_out, strict=True))
        own = None
        if self.own is not None or other.own is not None:
            own = tuple(self.training(f) + other.training(f) for f in range(len(self)))
        return Folds(self.total + other.total, held_out, own)

    def scaled(self, factor: float) -> Folds:
        """The folds with the weight of every row multiplied by `factor`."""
        return self._each(lambda part: part.scaled(factor))

    def of_dispersion(self, dispersion: float | None) -> Folds:
        """The folds of targets whose variance is known, if it is."""
        return self if dispersion is None else self._each(lambda part: replace(part, dispersion=dispersion))

    def rescaled(self, scale: Array) -> Folds:
        """Folds of the features divided by `scale` (d,)."""
        return self._each(lambda part: part.rescaled(scale))

    def with_roles(self, roles: NDArray[np.intp] | None) -> Folds:
        """Folds of features with these roles, see `GramStats`."""
        return self if roles is None or not roles.any() else self._each(lambda part: part.with_roles(roles))

    def with_rows(self) -> Folds:
        """The folds of the tasks that have rows."""
        seen = self.total.n > 0
        return self if seen.all() else self.select(seen)

    def emptied(self, tasks: NDArray[np.bool_]) -> Folds:
        """The folds without the rows of some tasks."""
        return self._each(lambda part: part.emptied(tasks))

    def select(self, tasks: NDArray[Any]) -> Folds:
        """The folds of some tasks, by position or mask."""
        distinct = None if self.distinct is None else self.distinct[tasks]
        return replace(self._each(lambda part: part.select(tasks)), distinct=distinct)

    def on_columns(self, columns: NDArray[np.intp]) -> Folds:
        """The folds of some features, by position."""
        return self._each(lambda part: part.on_columns(columns))

    def _each(self, change: Callable[[GramStats], GramStats]) -> Folds:
        own = None if self.own is None else tuple(map(change, self.own))
        return Folds(change(self.total), tuple(map(change, self.held_out)), own, self.distinct)


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


def numbered_folds(rows: Rows, X: Array, gram: GramStats, fold: NDArray[np.intp], in_time: bool) -> Folds:
    """Statistics of folds with given numbers; in time those before each train, and -1 is never held out."""
    if in_time:
        return train_on_the_past(folds_by_number(rows, X, gram, fold + 1))
    return folds_by_number(rows, X, gram, fold)


def folds_by_number(rows: Rows, X: Array, gram: GramStats, fold: NDArray[np.intp]) -> Folds:
    """Statistics of folds of checked rows; `fold` has a number per row."""
    labels, names = gram.labels, gram.feature_names
    if rows.codes is None:
        wide = []  # such targets share their rows, and so their folds
        for f in range(int(fold.max()) + 1):
            at = fold == f
            weight = None if rows.weight is None else rows.weight[at]
            wide.append(GramStats.from_wide(X[at], rows.y[at], labels, weight=weight, feature_names=names))
        return replace(Folds.of_parts(wide), total=gram)
    observed = ~np.isnan(rows.y)
    weight = None if rows.weight is None else rows.weight[observed]
    parts = Folds.of_rows(
        X[observed], rows.y[observed], rows.codes[observed], labels, fold[observed], weight=weight, feature_names=names
    )
    return replace(parts, total=gram)


def folds_as_seen(whole: Folds, seen: Callable[[int], Folds]) -> Folds:
    """Folds with features that their own training rows have made: `seen` gives those of all rows, for every fold."""
    held_out = []
    own = []
    for f in range(len(whole)):
        parts = seen(f)
        held_out.append(parts.held_out[f])
        own.append(parts.training(f))
    return Folds(whole.total, tuple(held_out), tuple(own))


def train_on_the_past(parts: Folds) -> Folds:
    """Every part but the first is held out, and all before it train."""
    past = list(accumulate(parts.held_out, GramStats.__add__))
    return Folds(parts.total, parts.held_out[1:], tuple(past[:-1]))


class Gap(NamedTuple):
    """A feature with missing values: its place, the place of the feature that marks them, and what was filled in."""

    feature: int
    mark: int
    value: float


def refilled(folds: Folds, gaps: Sequence[Gap]) -> Folds:
    """The folds with the fill-in values of their training rows.

    Examples
    --------
    >>> X = np.array([[1.0, 0.0], [3.0, 1.0], [5.0, 0.0], [3.0, 1.0]])  # the second and the last value are missing
    >>> folds = Folds.of_rows(X, np.ones(4), np.zeros(4, int), np.array(["a"]), np.array([0, 0, 1, 1]))
    >>> refilled(folds, [Gap(0, 1, 3.0)]).training(0).x_mean  # of 5 and 5
    array([[5. , 0.5]])
    """
    if not gaps:
        return folds
    own = [folds.training(f) for f in range(len(folds))]
    changes = [_change(part, gaps) for part in own]
    held_out = [part.mapped(A) for part, A in zip(folds.held_out, changes, strict=True)]
    training = [part.mapped(A) for part, A in zip(own, changes, strict=True)]
    return replace(folds, held_out=tuple(held_out), own=tuple(training))


def filled_in(X: Array, gaps: Sequence[Gap], known: NDArray[np.bool_], weight: Array | None = None) -> Array:
    """The same for rows: X with gaps filled in by the means of the rows that are `known`."""
    if not gaps:
        return X
    filled = X.copy()
    w = np.where(known, 1.0 if weight is None else weight, 0.0)
    for feature, mark, value in gaps:
        there = w * (1 - X[:, mark])
        if there.sum() > NO_ROWS * w.sum():
            filled[:, feature] += X[:, mark] * (there @ X[:, feature] / there.sum() - value)
    return filled


def _change(gram: GramStats, gaps: Sequence[Gap]) -> Array:
    """A, by which X A are the features with gaps filled in by the means of these rows."""
    A = np.eye(gram.n_features)
    n = gram.n.sum()
    sums = gram.n @ gram.x_mean
    for feature, mark, value in gaps:
        there = n - sums[mark]
        if there > NO_ROWS * n:
            A[mark, feature] = (sums[feature] - value * sums[mark]) / there - value
    return A
