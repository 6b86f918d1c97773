"""Which fold every row goes to: spread within tasks, whole groups together, or as it was given."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import check_random_state

from kinfolk.rows.gram import Array, GramStats
from kinfolk.rows.kinds import is_missing
from kinfolk.rows.moments import stable_order
from kinfolk.rows.tasks import Rows
from kinfolk.rows.time_order import InTime, named_times
from kinfolk.words import warn_user


def fold_of_rows(
    rows: Rows, X: Array, gram: GramStats, *, cv: Any, groups: Any = None, random_state: Any = None
) -> NDArray[np.intp]:
    """The fold of every row: spread within tasks; whole `groups`; common to all tasks where they share their inputs.

    Tasks with the same inputs need common folds: with folds of their own, the errors of one task at an input would
    be seen in training through the others, and cross-validation would claim gains that a test reverses.
    `cv` is the number of folds, or (train, test) pairs of row positions that share out all rows, taken as they are.
    """
    if not isinstance(cv, (int, np.integer)):
        if isinstance(groups, InTime):
            raise ValueError("time makes its own folds: give cv as a number, or leave time out")
        return _given_folds(cv, len(X))
    if cv < 2:
        raise ValueError(f"cv={cv} must be at least 2 folds")
    if isinstance(groups, InTime):
        return groups.folds(int(cv))
    groups = _read_groups(groups, len(X))
    codes = np.zeros(len(X), np.intp) if rows.codes is None else rows.codes
    if rows.codes is not None and gram.n_tasks > 1 and gram.G.any() and gram.is_shared():
        common = common_rows(X, rows.codes)
        groups = common if groups is None else _joined(common, groups)
    # Rows without any target take no place in a fold.
    used = np.flatnonzero(~np.isnan(rows.y.reshape(len(X), -1)).all(axis=1))
    fold = np.zeros(len(X), np.intp)
    groups = None if groups is None else groups[used]
    fold[used] = assign_folds(codes[used], cv, groups=groups, random_state=random_state)
    return fold


def distinct_share(rows: Rows, groups: Any) -> Array:
    """Of every task, the share of its rows (T,) that are observations of their own.

    Rows of one group, or at one time, count as one, whether the time was given or only a column is called one.
    """
    at = rows.targets()
    T = len(rows.schema.labels)
    together = groups.when if isinstance(groups, InTime) else _read_groups(groups, len(rows.y))
    if together is None:
        together = next((when for _, when in named_times(rows)), np.arange(len(rows.y)))
    observation = np.unique(at.codes * (int(together.max(initial=0)) + 1) + together[at.row], return_index=True)[1]
    count = np.bincount(at.codes, minlength=T)
    return np.asarray(np.bincount(at.codes[observation], minlength=T) / np.maximum(count, 1))


def common_rows(X: Array, codes: NDArray[np.intp]) -> NDArray[np.intp]:
    """A number for every row, the same for equal rows of different tasks; repeats within a task have different ones.

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
    return np.unique(kind * len(X) + occurrence(pair), return_inverse=True)[1].reshape(-1)


def occurrence(codes: NDArray[np.intp]) -> NDArray[np.intp]:
    """How many rows of the same code come before each.

    >>> occurrence(np.array([2, 0, 2, 2])).tolist()
    [0, 0, 1, 2]
    """
    order = stable_order(codes.astype(np.uint32))
    count = np.bincount(codes)
    before = np.empty(len(codes), np.intp)
    before[order] = np.arange(len(codes)) - np.repeat(np.cumsum(count) - count, count)
    return before


def _joined(one: NDArray[np.intp], two: NDArray[np.intp]) -> NDArray[np.intp]:
    """The finest grouping that keeps the groups of both together: components of the graph between them."""
    n_one, n_two = one.max() + 1, two.max() + 1
    # Groups of both kinds are nodes, a row links its two: what hangs together must stay together.
    links = sparse.coo_array((np.ones(len(one)), (one, n_one + two)), shape=(n_one + n_two, n_one + n_two))
    return sparse.csgraph.connected_components(links, directed=False)[1][one]


def _given_folds(cv: Any, n: int) -> NDArray[np.intp]:
    """The fold of every row from (train, test) pairs of row positions, as scikit-learn's splitters give them."""
    fold = np.full(n, -1)
    # A splitter is asked by the user, who knows its groups; a generator could not be read again by the next fit.
    if hasattr(cv, "split") or hasattr(cv, "__next__") or not hasattr(cv, "__iter__"):
        raise ValueError(
            f"cv={cv!r} must be a whole number of folds, or (train, test) pairs of row positions: those of a splitter "
            "of scikit-learn are list(splitter.split(X, y, groups))"
        )
    for f, pair in enumerate(cv):
        if not hasattr(pair, "__len__") or len(pair) != 2:
            raise ValueError(f"cv: pair {f} is {pair!r}, and not the positions of training and of test rows")
        train, test = map(np.asarray, pair)
        if not all(part.dtype.kind in "iu" and ((part >= -n) & (part < n)).all() for part in (train, test)):
            raise ValueError(f"cv: pair {f} holds something else than positions of {n} rows")
        both = np.concatenate([train, test]) % n
        if (fold[test] >= 0).any() or len(both) != n or len(np.unique(both)) != n:
            raise ValueError(
                f"cv: pair {f} overlaps an earlier test part, leaves rows out or has one twice: folds must share out "
                "all rows"
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
    if groups.dtype.kind == "O":  # of any types, which need not have an order
        missing = [row for row, label in enumerate(groups.tolist()) if is_missing(label)]
        if missing:
            raise ValueError(f"groups has a missing label in row {missing[0]}: fill it in or drop the row")
        code = {label: k for k, label in enumerate(dict.fromkeys(groups.tolist()))}
        return np.array([code[label] for label in groups.tolist()], dtype=np.intp)
    return np.unique(groups, return_inverse=True)[1].reshape(-1)


def generator(random_state: Any) -> np.random.Generator:
    """A generator from whatever scikit-learn or NumPy users pass as `random_state`."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    return np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))


def assign_folds(
    codes: NDArray[np.intp], k: int | np.integer[Any], *, groups: NDArray[Any] | None = None, random_state: Any = None
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
        return _dealt_at_random(np.zeros(count, np.intp), k, rng)[group]
    if len(codes) < 2:
        raise ValueError(f"got n_samples={len(codes)} with a target: cross-validation needs at least 2")
    if len(codes) < k:
        warn_user(f"there are {len(codes)} rows: {len(codes)} folds in place of cv={k}")
    # So few rows are a fold each.
    return rng.permutation(len(codes)) if len(codes) <= k else _dealt_at_random(by_appearance(codes), k, rng)


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
        warn_user(f"{name} has {count} groups: {count} folds in place of cv={k}")
    return min(count, k)


def _dealt_at_random(codes: NDArray[np.intp], k: int | np.integer[Any], rng: np.random.Generator) -> NDArray[np.intp]:
    """Shuffle within tasks and deal the rows out in turn; every task starts at another fold."""
    order = np.argsort(rng.random(len(codes)), kind="stable")
    # If all began at fold 0, tasks with fewer rows than folds would leave the last folds empty.
    first = rng.integers(k, size=int(codes.max(initial=-1)) + 1)
    return dealt(codes, order, first, int(k))


def dealt(codes: NDArray[np.intp], order: NDArray[np.intp], first: NDArray[np.intp], k: int) -> NDArray[np.intp]:
    """The fold of every row, if they are dealt out in turn in this order, task t from the fold `first[t]` on.

    >>> dealt(np.array([1, 0, 1]), np.array([2, 1, 0]), np.array([2, 0]), 3).tolist()
    [1, 2, 0]
    """
    task = codes[order]
    fold = np.empty(len(codes), np.intp)
    fold[order] = (occurrence(task) + first[task]) % k
    return fold
