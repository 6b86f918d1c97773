"""Which fold every row goes to: spread within tasks, whole groups together, or as it was given."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import check_random_state

from kinfolk.rows.gram import Array, GramStats
from kinfolk.rows.moments import stable_order
from kinfolk.rows.table import Rows, read_table
from kinfolk.rows.texts import day_format, is_missing, number_in, parsed
from kinfolk.words import counted, listed, warn_user


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


def whole_tasks(cv: Any, groups: Any, rows: Rows) -> tuple[Any, Any]:
    """Folds and groups; with cv="tasks" whole tasks are held out, to learn how well new ones are predicted."""
    if not isinstance(cv, str):
        return cv, groups
    if cv != "tasks":
        raise ValueError(f'cv={cv!r} must be a number of folds, (train, test) pairs of row positions, or "tasks"')
    if groups is not None or rows.codes is None or len(rows.schema.labels) < 2:
        raise ValueError('cv="tasks" holds whole tasks out: it needs a task column with 2 tasks, and no groups or time')
    return TASK_FOLDS, rows.codes


def distinct_share(rows: Rows, groups: Any) -> Array:
    """Of every task, the share of its rows (T,) that are observations of their own.

    Rows of one group, or at one time, count as one, whether the time was given or only a column is called one.
    """
    at = rows.targets()
    T = len(rows.schema.labels)
    together = groups.when if isinstance(groups, InTime) else _read_groups(groups, len(rows.y))
    if together is None:
        together = next((when for _, when in named_times(rows)), np.arange(len(rows.y)))
    return share_distinct(at.codes, together[at.row], T)


def share_distinct(codes: NDArray[np.intp], together: NDArray[np.intp], T: int) -> Array:
    """Of each of T tasks, the share of its rows that are left where those of one number `together` count as one.

    >>> share_distinct(np.array([0, 0, 0, 1]), np.array([5, 5, 7, 5]), 2).round(2).tolist()
    [0.67, 1.0]
    """
    first = np.unique(codes * (int(together.max(initial=0)) + 1) + together, return_index=True)[1]
    return np.asarray(np.bincount(codes[first], minlength=T) / np.maximum(np.bincount(codes, minlength=T), 1))


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


TIMES = re.compile(r"(?i)(.*[_ .-])?(date|year|quarter|month|week|day|hour|time|wave|period|age)s?")
NO_TIMES = re.compile(  # of a birth, and how long something takes; the date of a delivery is a time
    r"(?i)(.*[_ .-])?(birth.*|(duration|reaction|response|travel|waiting|delivery|lead)[_ .-]?(day|week|hour|time)s?)"
)
PERIOD = re.compile(r"(\d{4})[-/. ]?([QWM]?)(\d{1,2})")  # 2024-05, 2024Q2, 2024-W07
LEAST_TIMES = 4
TASK_FOLDS = 5  # of whole tasks
JUDGED = 1 / 3  # of the parts in time; set on the tables of benchmarks/arena.py marked "tuned"
LEAST_JUDGED = 2  # parts: what one alone says may be its own


@dataclass(frozen=True, eq=False)
class InTime:
    """When each row was observed, in place of groups: folds then train on the past and are judged by what follows."""

    when: NDArray[np.intp]

    @classmethod
    def of(cls, time: Any, X: Any, n: int) -> Self:
        """From times, one per row, or the name of a column of X: numbers, dates, or dates as text."""
        if isinstance(time, str):
            table = read_table(X)
            values = table.column(table.position(time))
        else:
            values = np.asarray(time)
        if values.shape != (n,):
            raise ValueError(f"time has shape {values.shape}, expected ({n},): one time per row")
        if any(is_missing(value) for value in values.tolist()):
            raise ValueError("time is missing in some rows: fill it in or drop these rows")
        if values.dtype.kind in "OUS" and all(isinstance(value, str) for value in values.tolist()):
            values = _times_in(values.tolist())
        try:
            return cls(np.unique(values, return_inverse=True)[1].reshape(-1))
        except TypeError:
            kinds = listed(sorted({type(value).__name__ for value in values.tolist()}))
            why = f"it holds {kinds}, or dates with and without a time zone"
            raise ValueError(f"time cannot be put in order: {why}. Give numbers, or dates of one kind") from None

    def __getitem__(self, rows: Any) -> Self:
        return replace(self, when=self.when[rows])

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
            warn_user(f"there are few different times: {counted(found, 'fold')} in place of cv={k}")
        return np.asarray(part[self.when] - 1)


def last_third(fold: NDArray[np.intp]) -> NDArray[np.intp]:
    """Folds in time of which the last third of all parts is judged; the others are -1, which is never held out.

    Models of the first few rows would favour what is simple.

    >>> last_third(np.array([-1, 0, 1, 2, 3, 4])).tolist()
    [-1, -1, -1, -1, 0, 1]
    """
    parts = int(fold.max()) + 2
    judged = min(max(LEAST_JUDGED, round(JUDGED * parts)), parts - 1)
    return np.maximum(fold - (parts - 1 - judged), -1)


def _times_in(texts: list[str]) -> NDArray[Any]:
    """Numbers that order times written as text: dates, numbers, or months, quarters and weeks of a year.

    >>> _times_in(["2024Q1", "2023Q4"]).tolist(), _times_in(["2024-05", "2023-12"]).argsort().tolist()
    ([202401, 202304], [1, 0])
    """
    different = sorted(set(texts))
    if day := day_format(different):
        return np.array([parsed(text, day) for text in texts])
    if all(number_in(text) is not None for text in different):
        return np.array([number_in(text) for text in texts])
    periods = [PERIOD.fullmatch(text) for text in texts]
    if len({match[2] if match else None for match in periods}) == 1 and periods[0]:
        return np.array([100 * int(match[1]) + int(match[3]) for match in periods if match])
    # Where most texts are times, the one that is none is what to mend.
    odd = [text for text in different if not (day_format([text]) or PERIOD.fullmatch(text))]
    if not odd:
        raise ValueError(f"time is written in several ways, like {texts[0]!r}: give numbers or dates of one kind")
    raise ValueError(f"time holds text like {odd[0]!r}: give numbers or dates")


def in_order(groups: Any, time: Any, X: Any, n: int) -> Any:
    """The groups that keep rows together, or the times that put folds in order."""
    if time is not None and groups is not None:
        raise ValueError("give groups or time: rows of equal time stay together as groups do")
    if time is not None:
        return InTime.of(time, X, n)
    return groups if groups is None or isinstance(groups, InTime) else np.asarray(groups)


def time_column(rows: Rows) -> str | None:
    """The name of a column by which the rows of every task follow each other, at times that tasks share."""
    for name, when in named_times(rows):
        assert rows.codes is not None
        count = int(when.max()) + 1
        once = len(np.unique(rows.codes * count + when)) == len(when)
        if once and LEAST_TIMES <= count <= len(when) / 2:
            return name
    return None


def named_times(rows: Rows) -> Iterator[tuple[str, NDArray[np.intp]]]:
    """The columns of a long table that are called times and hold some, and the number of every row's time."""
    for j, name in enumerate(rows.table.names or ()):
        if rows.codes is None or TIMES.fullmatch(name) is None or NO_TIMES.fullmatch(name):
            continue
        # Texts that are no dates, or gaps, are no times.
        with suppress(TypeError, ValueError):
            yield name, InTime.of(rows.table.column(j), None, len(rows.y)).when


def trains(fold: NDArray[np.intp], f: int) -> NDArray[np.bool_]:
    """Which rows train fold f: those of all others or, in time (where -1 is never held out), those before.

    >>> trains(np.array([0, 1, 2]), 1).tolist(), trains(np.array([-1, 0, 1]), 0).tolist()
    ([True, False, True], [True, False, False])
    """
    return fold < f if (fold < 0).any() else fold != f
