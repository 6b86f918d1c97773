"""What is worth a notice before a fit: features that carry nothing or too much, single values, kinds of targets."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpstrf
from scipy.special import gammaln

from kinfolk.methods.constant_within import FEWEST_TASKS
from kinfolk.rows.families import Family
from kinfolk.rows.gram import Array, GramStats
from kinfolk.rows.schema import Columns
from kinfolk.rows.table import Rows
from kinfolk.words import counted, listed, warn_user

SAME = 1e-10  # of the variance of a feature: what is left of it beside others is rounding
MOST = 1000  # features that are looked at for combinations: one factorisation of their matrix
SECONDS = 2e-6  # of a search over folds by T d^3: measured for 5 tasks with 100 features, checked for 20 with 60
HOUR = 3600.0
MANY = 50  # rows from which on a target has a kind, and one value can be far from all others
EVENTS = 10  # for every column: fewer say little about its coefficient (Peduzzi et al. 1996)
BY_CHANCE = 100.0  # tables of noise of which one may be said to have a column that separates
SCATTERED = 1.5  # dispersion from which on it is worth a word
TWO_VALUES = "has two values"
LONELY = 100.0  # times as far from the median as any other value: a slip, since no usual law has such a sample


def check_work(T: int, d: int) -> None:
    """A search over folds that will take more than ten minutes says so; one of more than a week is refused."""
    hours = SECONDS * T * float(d) ** 3 / HOUR
    if hours < 1 / 6:
        return
    message = f"{d:,} features of {T:,} tasks: a search over folds will take about {hours:,.3g} hours"
    remedy = (
        "Use fewer features (drop columns; in Python features=PCA(50) or SelectKBest(k=50), a lower "
        "--max-categories on the command line), or a method that solves once, as Pooled, Independent and MeanShrunk do"
    )
    if hours > 7 * 24:
        raise ValueError(f"{message}. {remedy}.")
    warn_user(f"{message}. {remedy}.")


def warn_of_target(y: Array) -> None:
    """Name a target that is no measurement, and the family that it looks like: squared error is used all the same."""
    kind, family = kind_of_target(y)
    if kind:
        also = ", and GAMTLClassifier and GAMTLClassifierCV fit labels" if kind.startswith(TWO_VALUES) else ""
        warn_user(
            f"the target {kind}: squared error is used, so that predictions are means, which may lie outside these "
            f'values, and intervals are those of a normal distribution. family="{family}" is made for it{also}'
        )


def kind_of_target(y: Array) -> tuple[str, str]:
    """What a target of many rows is, if no measurement, and its family: two values, counts with zeros, or shares.

    >>> two = np.arange(60) % 2
    >>> kind_of_target(two), kind_of_target(np.arange(60) % 7), kind_of_target(np.linspace(0.0, 1.0, 60))
    (('has two values, 0 and 1', 'binomial'), ('is counts, 0 to 6', 'poisson'), ('lies between 0 and 1', 'binomial'))
    >>> kind_of_target(np.arange(60.0)), kind_of_target(two[:20])
    (('', 'gaussian'), ('', 'gaussian'))
    """
    y = y[~np.isnan(y)]
    if len(y) < MANY:
        return "", "gaussian"
    low, high = float(y.min()), float(y.max())
    values = np.unique(y)
    if len(values) == 2:
        return f"{TWO_VALUES}, {low:g} and {high:g}", "binomial"
    # Whole numbers from 0 that come again and again; a year or a score of its own for every row is no count.
    if low == 0 and 2 < len(values) <= len(y) / 4 and not (values % 1).any():
        return f"is counts, 0 to {high:g}", "poisson"
    # What hardly leaves the middle feels no limits.
    if low >= 0 and high <= 1 and high - low > 1 / 2:
        return "lies between 0 and 1", "binomial"
    return "", "gaussian"


def warn_of_poverty(rows: Rows, X: Array, names: tuple[str, ...] | None, family: Family) -> None:
    """Name what classes and counts leave open: tasks with one kind of target, few events, columns that separate."""
    at = rows.targets()
    kinds = kinds_of_targets(at.y, family, rows.classes)
    if not kinds:
        return
    _warn_of_one_kind(rows, at.codes, kinds)
    each = [int(of_kind.sum()) for of_kind in kinds.values()]
    events = int(at.y.sum()) if len(kinds) == 1 else min(each)
    single = sum(each) == len(at.y)  # no shares of several trials, whose events are not known
    if 0 < events < EVENTS * X.shape[1] and (single or len(kinds) == 1):
        warn_user(f"{counted(events, 'event')} for {counted(X.shape[1], 'column')}: expect wide intervals")
    if len(kinds) == 2 and single:
        *_, positive = kinds.values()
        for j, tasks in list(separating(X[at.row], positive, at.codes).items())[:3]:
            name = repr(names[j]) if names else f"column {j}"
            warn_user(
                f"{name} separates the classes in {counted(tasks, 'task')}: the size of its coefficient there is set "
                "by the penalty"
            )


def kinds_of_targets(y: Array, family: Family, classes: NDArray[Any] | None) -> dict[str, NDArray[np.bool_]]:
    """Where targets are of each kind that a task may lack, or have alone: classes, or the ends of their range."""
    if classes is not None:
        return {repr(label): y == k for k, label in enumerate(classes.tolist())}
    ends = {"zeros": family.least, "ones": family.most}
    return {} if family.open else {name: y == end for name, end in ends.items() if np.isfinite(end)}


def _warn_of_one_kind(rows: Rows, codes: NDArray[np.intp], kinds: dict[str, NDArray[np.bool_]]) -> None:
    """Name the tasks whose targets are all of one kind, and how many others their levels come from."""
    T = len(rows.schema.labels)
    count = np.bincount(codes, minlength=T)
    by_kind = {
        name: (count > 0) & (np.bincount(codes[of_kind], minlength=T) == count) for name, of_kind in kinds.items()
    }
    others = int((count > 0).sum()) - sum(int(alone.sum()) for alone in by_kind.values())
    for name, alone in by_kind.items():
        labels = [repr(label) for label in rows.schema.labels[alone].tolist()]
        if not labels or others <= 0:
            continue
        more = f" and {len(labels) - 3:,} more" if len(labels) > 3 else ""
        who = f"task {labels[0]} has" if len(labels) == 1 else f"tasks {', '.join(labels[:3])}{more} have"
        level = "its level comes" if len(labels) == 1 else "their levels come"
        warn_user(f"{who} only {name}: {level} from {counted(others, 'other')}")


def separating(X: Array, positive: NDArray[np.bool_], codes: NDArray[np.intp]) -> dict[int, int]:
    """Columns that tell the classes of some tasks apart without error, by more than chance: in how many tasks each.

    >>> y = np.arange(20) >= 10
    >>> separating(np.column_stack([np.arange(20.0), np.arange(20) % 3]), y, np.zeros(20, int))
    {0: 1}
    """
    cells = 2 * codes + positive
    order = np.argsort(cells, kind="stable")
    cell, first, count = np.unique(cells[order], return_index=True, return_counts=True)
    both = np.flatnonzero((cell[1:] == cell[:-1] + 1) & (cell[:-1] % 2 == 0))
    # Noise separates n + m rows with a chance of 2 n! m! / (n + m)! in one column of one task.
    n, m = count[both], count[both + 1]
    ways = gammaln(n + m + 1) - gammaln(n + 1) - gammaln(m + 1)
    both = both[ways > np.log(2 * BY_CHANCE * X.shape[1] * max(len(both), 1))]
    if not len(both):
        return {}
    low = np.minimum.reduceat(X[order], first)
    high = np.maximum.reduceat(X[order], first)
    apart = (high[both] < low[both + 1]) | (high[both + 1] < low[both])
    return {j: tasks for j, tasks in enumerate(apart.sum(axis=0).tolist()) if tasks}


def warn_of_scatter(gram: GramStats | None, family: Family) -> None:
    """Say if counts, or shares, vary more than their family does."""
    noise = None if gram is None else gram.dispersion
    if noise is not None and family.dispersion is not None and noise > SCATTERED:
        warn_user(
            f"the targets vary {noise:.2g} times as much as those of family={family.name!r} with these means: "
            f"intervals are {np.sqrt(noise):.2g} times as wide"
        )


def warn_of_lonely_values(rows: Rows, X: Array, names: tuple[str, ...] | None) -> None:
    """Name the one row in which the target or a feature is far from all other rows: it rules means and slopes."""
    at = rows.targets()
    if len(at.y) < MANY:
        return
    columns = {"the target": at.y}
    columns |= {f"column {names[j]!r}" if names else f"column {j}": X[at.row, j] for j in range(X.shape[1])}
    for name, values in columns.items():
        distance = np.abs(values - np.median(values))
        row = int(distance.argmax())
        if distance[row] > LONELY * np.delete(distance, row).max() > 0:
            task = "" if rows.schema.task is None else f" of task {rows.schema.labels[at.codes[row]].item()!r}"
            warn_user(
                f"{name} is {values[row]:g} in row {at.row[row]}{task}, more than {LONELY:g} times as far from the "
                "median as in any other row: is it a slip? It has a large part in all that is fitted"
            )


def warn_of_collinear_features(gram: GramStats | None, columns: Columns) -> None:
    """Name the columns that are combinations of others within all tasks: their coefficients have no meaning alone."""
    if gram is None or gram.feature_names is None:
        return
    which = columns.plain_features(gram.feature_names)
    # As many features as rows are combinations of each other in any table.
    if not 2 <= len(which) <= MOST or gram.n.sum() - gram.n_tasks <= gram.n_features:
        return
    within = gram.on_columns(which).G.sum(axis=0)
    varies = np.diag(within) > SAME * np.diag(within).max()
    which = which[varies]
    size = np.sqrt(np.diag(within)[varies])
    R = within[np.ix_(varies, varies)] / size / size[:, None]
    _, order, rank, _ = dpstrf(R, tol=SAME)  # pivoted: what is left behind the rank follows from what is before it
    first = order[:rank] - 1
    for j in order[rank:][:3] - 1:
        weight = np.linalg.solve(R[np.ix_(first, first)], R[first, j])
        others = [gram.feature_names[which[k]] for k, w in zip(first, weight, strict=True) if abs(w) > 1e-6]
        warn_user(
            f"column {gram.feature_names[which[j]]!r} follows from {listed([repr(name) for name in others])} within "
            "every task: predictions are right, but read these coefficients together, or drop one of the columns"
        )


def warn_of_common_features(gram: GramStats | None, coef: Array, columns: Columns, *, found: bool) -> None:
    """Name the features that do not vary within tasks (age of a patient): what they do is part of a task's level.

    Those that the user names are no news; facts may also be `found`.
    """
    basis = columns.basis
    if gram is None or basis is not None or not np.ptp(coef, axis=0).any():  # where all slopes are common, so are these
        return
    common = gram.constant_within()
    if gram.roles is not None and not found:
        common &= gram.roles == 0
    if not common.any() or np.ptp(coef[:, common], axis=0).any():
        return
    what = "all tasks have one coefficient of it in common, which their levels tell"
    if (common & gram.facts()).any() and gram.n_tasks >= FEWEST_TASKS:
        what = "it is taken for a fact about tasks, on which their levels and slopes depend as far as they show"
    elif not coef[:, common].any():
        what = "it gets the coefficient 0, as there are too few tasks to tell what it does to their levels"
    warn_user(f"feature {_some_names(gram, common)} is constant within every task: {what}")


def _some_names(gram: GramStats, which: NDArray[np.bool_]) -> str:
    names = [repr(gram.feature_names[j]) if gram.feature_names else str(j) for j in np.flatnonzero(which)]
    return f"{', '.join(names[:5])}{', ...' if len(names) > 5 else ''}"
