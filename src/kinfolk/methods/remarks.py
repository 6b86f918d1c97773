"""What is worth a notice before a fit: features that carry nothing or too much, single values, kinds of targets."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpstrf

from kinfolk.methods.constant_within import FEWEST_TASKS
from kinfolk.rows.gram import Array, GramStats
from kinfolk.rows.schema import Columns
from kinfolk.rows.table import Rows
from kinfolk.words import listed, warn_user

SAME = 1e-10  # of the variance of a feature: what is left of it beside others is rounding
MOST = 1000  # features that are looked at for combinations: one factorisation of their matrix
SECONDS = 2e-6  # of a search over folds by T d^3: measured for 5 tasks with 100 features, checked for 20 with 60
HOUR = 3600.0
MANY = 50  # rows from which on a target has a kind, and one value can be far from all others
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
    """Name a target that is no measurement: squared error is used for it all the same."""
    kind = kind_of_target(y)
    if kind:
        warn_user(
            f"the target {kind}: squared error is used, so that predictions are means, which may lie outside these "
            "values, and intervals are those of a normal distribution"
        )


def kind_of_target(y: Array) -> str:
    """What a target of many rows is, if no measurement: two values, counts with zeros, or shares between 0 and 1.

    >>> two = np.arange(60) % 2
    >>> kind_of_target(two), kind_of_target(np.arange(60) % 7), kind_of_target(np.linspace(0.0, 1.0, 60))
    ('has two values, 0 and 1', 'is counts, 0 to 6', 'lies between 0 and 1')
    >>> kind_of_target(np.arange(60.0)), kind_of_target(two[:20])
    ('', '')
    """
    y = y[~np.isnan(y)]
    if len(y) < MANY:
        return ""
    low, high = float(y.min()), float(y.max())
    values = np.unique(y)
    if len(values) == 2:
        return f"has two values, {low:g} and {high:g}"
    # Whole numbers from 0 that come again and again; a year or a score of its own for every row is no count.
    if low == 0 and 2 < len(values) <= len(y) / 4 and not (values % 1).any():
        return f"is counts, 0 to {high:g}"
    # What hardly leaves the middle feels no limits.
    return "lies between 0 and 1" if low >= 0 and high <= 1 and high - low > 1 / 2 else ""


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
