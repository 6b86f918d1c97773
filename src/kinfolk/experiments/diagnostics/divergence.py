"""Kullback-Leibler divergence between tasks, from nearest neighbours among their rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist
from scipy.special import digamma
from sklearn.utils import check_random_state

from kinfolk.progress import Callback, report
from kinfolk.rows.gram import Array
from kinfolk.rows.table import Rows, read_rows, read_table

BLOCK = 2**21  # distances held at a time: 16 MB


def knn_divergence(P: ArrayLike, Q: ArrayLike, *, random_state: Any = 0) -> float:
    """Divergence of the distribution of the rows of P from that of the rows of Q, in nats.

    The adaptive nearest-neighbour estimator of Wang, Kulkarni and Verdu (IEEE Trans. Inf. Theory 55(5), 2009). At row i
    of P, the ball that just reaches both the nearest other row of P and the nearest row of Q holds l_i rows of P and
    k_i of Q, the outermost at the distances rho_i and nu_i:

        D = (d / n) sum_i log(nu_i / rho_i) + (1 / n) sum_i [psi(l_i) - psi(k_i)] + log(m / (n - 1)).

    Nothing is standardised, and the estimate can be negative. It is a layout aid, not a measurement: the more columns
    and the larger the divergence, the more it is biased low: with 140 rows of 19 columns, 2 nats come out at
    0.99 +- 0.28 (docs/diagnostics.md has a table, `benchmarks/divergence.py` makes it).

    Parameters
    ----------
    P, Q : rows (n, d) and (m, d); one-dimensional input is one column
    random_state : seed of the jitter for columns that repeat values; see `conditional_kl`

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> P, Q = rng.normal(size=(2000, 1)), 1 + rng.normal(size=(2000, 1))
    >>> round(knn_divergence(P, Q), 1)  # in truth 1/2
    0.5
    """
    P = _points(P, "P")
    Q = _points(Q, "Q")
    if P.shape[1] != Q.shape[1]:
        raise ValueError(f"P has {P.shape[1]} columns and Q has {Q.shape[1]}: rows must be of one kind")
    P, Q = np.split(_without_ties(np.vstack([P, Q]), random_state), [len(P)])
    total = 0.0
    for rows, own in _own_distances(P, len(Q)):
        total += _local_divergence(own, cdist(P[rows], Q, "sqeuclidean"), P.shape[1]).sum()
    return float(total / len(P) + np.log(len(Q) / (len(P) - 1)))


def conditional_kl(
    X: Any,
    y: Any,
    task: Any = None,
    *,
    n_jobs: int | None = None,
    random_state: Any = 0,
    callback: Callback | None = None,
) -> Array:
    """How differently y depends on x in every two tasks: a matrix of dissimilarities, to lay tasks out by.

    By the chain rule, the divergence between p_s(y | x) and p_t(y | x) is D(x, y) - D(x), each estimated as in
    `knn_divergence`; entry (s, t) is the mean of both directions, and at least 0.

    Columns are standardised over all rows. Columns that vary within no task (the age of a patient) are dropped: between
    two such tasks the divergence would be infinite. A column that repeats values gets uniform noise of up to half the
    smallest gap between two of its values, which breaks ties and leaves the order and the divergence as they are.

    Read the matrix as an order of who is near to whom, not as numbers: with 19 columns and 140 rows a task, tasks that
    are 2 nats apart come out at 0.24 +- 0.09, and equal ones at 0.02 +- 0.04 (docs/diagnostics.md).

    Parameters
    ----------
    X, y, task : table, target, and task column by name or position, as estimators take them; or `task` as one label per
        row; or None if y has one column per task
    n_jobs : tasks in parallel, with joblib
    random_state : seed of the jitter
    callback : called with a `Progress` after every task

    Returns
    -------
    array of shape (T, T), symmetric with zero diagonal, in the order of the sorted task labels

    Examples
    --------
    Tasks a and b follow one line, c another:

    >>> rng = np.random.default_rng(0)
    >>> x, task = rng.normal(size=(300, 1)), np.repeat(["a", "b", "c"], 100)
    >>> y = np.where(task == "c", -2, 2) * x[:, 0] + rng.normal(size=300)
    >>> D = conditional_kl(x, y, task)
    >>> (D > 0.5).astype(int)
    array([[0, 0, 1],
           [0, 0, 1],
           [1, 1, 0]])
    """
    tasks = _standardised(_read(X, y, task), random_state)
    T = len(tasks)
    jobs = (delayed(_divergences_from)(s, tasks) for s in range(T))
    D = np.zeros((T, T))
    for s, row in enumerate(Parallel(n_jobs=n_jobs, return_as="generator")(jobs)):
        D[s] = row
        report(callback, "divergences", s + 1, T)
    return np.maximum((D + D.T) / 2, 0.0)


def _local_divergence(own: Array, other: Array, d: int) -> Array:
    """The terms of the estimator's sum, from squared distances of some rows to the rows of P and to those of Q."""
    # The smallest ball around each row that holds a row of both kinds.
    radius = np.maximum(own.min(axis=1), other.min(axis=1))[:, None]
    near = own <= radius
    near_other = other <= radius
    rho = np.where(near, own, 0.0).max(axis=1)
    nu = np.where(near_other, other, 0.0).max(axis=1)
    # d log(nu / rho) in distances is d / 2 times that in squares.
    return d / 2 * np.log(nu / rho) + digamma(near.sum(axis=1)) - digamma(near_other.sum(axis=1))


def _own_distances(P: Array, m: int) -> Iterator[tuple[slice, Array]]:
    """Blocks of rows of P and their squared distances to all of P, infinite to themselves."""
    size = max(1, BLOCK // max(len(P), m))
    for start in range(0, len(P), size):
        rows = slice(start, start + size)
        own = cdist(P[rows], P, "sqeuclidean")
        np.fill_diagonal(own[:, start:], np.inf)  # no row is its own neighbour
        yield rows, own


def _divergences_from(s: int, tasks: list[Array]) -> Array:
    """D(x, y) - D(x) of task s from every task; log(m / (n - 1)) is in both and cancels."""
    X = tasks[s][:, :-1]
    y = tasks[s][:, -1]
    d = X.shape[1]
    total = np.zeros(len(tasks))
    for rows, own in _own_distances(X, max(map(len, tasks))):
        own_joint = own + (y[rows, None] - y) ** 2
        for t in range(len(tasks)):
            if t != s:
                other = cdist(X[rows], tasks[t][:, :-1], "sqeuclidean")
                total[t] -= _local_divergence(own, other, d).sum()
                # One more coordinate adds its square: distances of (x, y) from those of x.
                other += (y[rows, None] - tasks[t][:, -1]) ** 2
                total[t] += _local_divergence(own_joint, other, d + 1).sum()
    return total / len(X)


def _read(X: Any, y: Any, task: Any) -> Rows:
    """Rows as estimators read them; labels of rows become the first column."""
    if task is None or np.ndim(task) == 0:
        return read_rows(X, y, task=task)
    labels = np.asarray(task)
    table = read_table(X)
    if labels.shape != (table.height,):
        raise ValueError(
            f"task has shape {labels.shape}, but X has {table.height} rows: give one label per row, or the task "
            "column of X by name or position"
        )
    columns = np.empty((table.height, table.width + 1), dtype=object)
    columns[:, 0] = labels
    columns[:, 1:] = table.features()
    return read_rows(columns, y, task=0)


def _standardised(rows: Rows, random_state: Any) -> list[Array]:
    """Features and, in the last column, the target of every task, on one scale and without ties."""
    labels = rows.schema.labels
    position, codes, y, _ = rows.targets()
    X = rows.table.features()[position]
    _check_sizes(np.bincount(codes, minlength=len(labels)), labels)
    Z = np.column_stack([X[:, _varies_within(X, codes, len(labels))], y])
    if Z.shape[1] == 1:
        raise ValueError("no column of X varies within any task: there is nothing that y could depend on")
    Z = _without_ties(Z, random_state)
    scale = Z.std(axis=0)
    Z = (Z - Z.mean(axis=0)) / np.where(scale > 0, scale, 1.0)
    return [Z[codes == t] for t in range(len(labels))]


def _varies_within(X: Array, codes: NDArray[np.intp], T: int) -> NDArray[np.bool_]:
    """Columns that take two values in some task."""
    first = np.zeros((T, X.shape[1]))
    first[codes[::-1]] = X[::-1]  # backwards, so that the first row of every task is written last
    return (first[codes] != X).any(axis=0)


def _without_ties(Z: Array, random_state: Any) -> Array:
    """Uniform noise on columns that repeat values, at most half the smallest gap between two values.

    So wide, the noise of one value never reaches that of the next, and the divergence between two such columns is that
    of their values. Differences below 1e-9 standard deviations are rounding, not gaps.
    """
    rng = check_random_state(random_state)
    Z = Z.copy()
    for column in Z.T:
        gaps = np.diff(np.sort(column))
        real = gaps > 1e-9 * column.std()
        width = gaps[real].min() if real.any() else 1.0
        if not real.all():
            column += width * rng.uniform(-0.5, 0.5, size=len(column))
    return Z


def _check_sizes(n: NDArray[np.intp], labels: NDArray[Any]) -> None:
    t = int(np.argmin(n))
    if n[t] < 2:
        rows = "row" if n[t] == 1 else "rows"
        raise ValueError(
            f"task {labels.tolist()[t]!r} has {n[t]} {rows} with a target, but a divergence needs at least 2 (and "
            "means something from about 50): drop the task"
        )


def _points(P: ArrayLike, name: str) -> Array:
    P = np.asarray(P, dtype=np.float64)
    P = P[:, None] if P.ndim == 1 else P
    if P.ndim != 2 or len(P) < 2 or not P.shape[1] or not np.isfinite(P).all():
        raise ValueError(f"{name} of shape {P.shape}: give at least 2 rows and 1 column of finite numbers")
    return P
