"""Lazy and remote frames: their engine computes statistics and predictions, and no row travels.

Every engine that narwhals knows: polars LazyFrame, DuckDB relations, Dask, PySpark and Ibis tables. Statistics are one
grouped aggregation: values are taken about the means of their task, which are joined in, so that means of 1e6 cost no
digits; what is left of the rounded means is summed too and taken out at the end (see `moments`). Predictions are one
expression of the columns, which the engine runs when it is asked to.
"""

from __future__ import annotations

from itertools import combinations_with_replacement
from math import gcd
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from kinfolk.methods.model import Model
from kinfolk.rows.gram import Array, GramStats
from kinfolk.rows.moments import Moments
from kinfolk.rows.schema import Columns
from kinfolk.rows.splits import folds_for_groups, generator
from kinfolk.rows.table import checked_labels
from kinfolk.sources.roles import Roles, with_joint

PRIME = 2_147_483_647
SOURCE = "the table"


def is_lazy(frame: Any) -> bool:
    """Whether a table is a lazy or remote frame, whose rows stay where they are."""
    if isinstance(frame, np.ndarray) or type(frame).__module__.startswith("pandas."):
        return False  # narwhals would find that out too, in the time of a prediction
    try:
        return isinstance(nw.from_native(frame, pass_through=True), nw.LazyFrame)
    except (nw.exceptions.NarwhalsError, ValueError):  # two columns of one name: an error where the table is read
        return False


def sum_frame(frame: Any, roles: Roles, *, k: int = 1, random_state: Any = None) -> list[GramStats]:
    """Statistics of every fold of a frame, computed by its engine; of all rows, for k = 1.

    A row goes to the fold that a hash of the seed and of its own numbers says, a group to that of its place among all
    groups: the same on every engine, however the rows are ordered or cut into partitions.

    Examples
    --------
    >>> import polars as pl
    >>> table = pl.LazyFrame({"shop": ["a", "a", "b"], "ads": [1, 3, 5], "sales": [1.0, 5.0, 7.0]})
    >>> gram = sum_frame(nw.from_native(table), Roles("shop", "sales", ("ads",)))[0]
    >>> gram.labels, gram.n, gram.G.ravel(), gram.b.ravel()
    (array(['a', 'b'], dtype='<U1'), array([2., 1.]), array([2., 0.]), array([4., 0.]))
    """
    values = [*roles.features, roles.target]
    _check_numeric(frame, values)
    p = len(values)
    rows = frame.select(
        nw.col(roles.task).alias("_task"),
        *([nw.col(roles.groups).alias("_group")] if roles.groups else []),
        *(nw.col(name).cast(nw.Float64).alias(f"v{j}") for j, name in enumerate(values)),
    )
    rows = _with_fold(rows, p, k, random_state, grouped=roles.groups)
    means = rows.group_by("_task").agg(*(nw.col(f"v{j}").mean().alias(f"m{j}") for j in range(p)))
    centred = [(nw.col(f"v{j}") - nw.col(f"m{j}")).alias(f"c{j}") for j in range(p)]
    pairs = list(combinations_with_replacement(range(p), 2))
    products = [(nw.col(f"c{i}") * nw.col(f"c{j}")).alias(f"p{i}_{j}") for i, j in pairs]
    table = rows.join(means, on="_task", how="left").with_columns(*centred).with_columns(*products)
    sums = table.group_by("_task", "_fold").agg(
        nw.len().alias("n"),
        *(nw.col(f"v{j}").count().alias(f"n{j}") for j in range(p)),
        *(nw.col(f"m{j}").max().alias(f"m{j}") for j in range(p)),
        *(nw.col(f"v{j}").min().alias(f"low{j}") for j in range(p)),
        *(nw.col(f"v{j}").max().alias(f"high{j}") for j in range(p)),
        *(nw.col(f"c{j}").sum().alias(f"s{j}") for j in range(p)),
        *(nw.col(f"p{i}_{j}").sum().alias(f"p{i}_{j}") for i, j in pairs),
    )
    here = sums.collect()
    columns = {name: series.to_numpy() for name, series in here.to_dict(as_series=True).items()}
    if columns["_task"].dtype.kind == "U":  # such arrays have cut zero characters off, and tasks would be one
        columns["_task"] = np.array(here["_task"].to_list(), dtype=object)
    _check_values(columns, values, roles.task)
    return _statistics(columns, roles, p, k)


def _statistics(columns: dict[str, NDArray[Any]], roles: Roles, p: int, k: int) -> list[GramStats]:
    """The sums of an engine as those of the kernel, and from there to statistics."""
    labels, codes = np.unique(checked_labels(columns["_task"], roles.task), return_inverse=True)
    slots = codes * k + columns["_fold"].astype(np.intp)
    moments = Moments(p + 1)
    moments.reserve(len(labels) * k)
    moments.n[slots] = columns["n"]
    for j in range(p):
        moments.reference[slots, j] = columns[f"m{j}"]
        moments.sums[slots, p, j] = columns[f"s{j}"]
        for i in range(j + 1):
            moments.sums[slots, i, j] = moments.sums[slots, j, i] = columns[f"p{i}_{j}"]
    tasks = np.arange(len(labels))
    ends = [[np.min(columns[f"low{j}"]), np.max(columns[f"high{j}"])] for j in range(p)]
    moments.widen(*np.array([*ends, [1.0, 1.0]], dtype=float).T)
    return [GramStats.of_moments(moments, tasks * k + f, labels, roles.features) for f in range(k)]


def _with_fold(rows: Any, p: int, k: int, random_state: Any, *, grouped: str | None) -> Any:
    """The rows with the column `_fold`: by a hash of their numbers, or by the place of their group among all."""
    if k == 1:
        return rows.with_columns(nw.lit(0).alias("_fold"))
    rng = generator(random_state)
    if grouped is None:
        weight = rng.uniform(0.5, 1.5, size=p)
        mixed = sum((nw.col(f"v{j}") * float(weight[j]) for j in range(1, p)), nw.col("v0") * float(weight[0]))
        # The digits of a large multiple of a sine look random, and every engine computes them alike.
        noise = (mixed.sin() * 43_758.5453).abs()
        noise = nw.when(noise < 50_000.0).then(noise).otherwise(0.0)  # NaN is found later, in the statistics
        fold = ((noise - noise.floor()) * k).floor().clip(0, k - 1).cast(nw.Int64)
        return rows.with_columns(fold.alias("_fold"))
    groups = rows.select("_group").unique().with_row_index("_place", order_by="_group")
    count = int(groups.select(nw.len()).collect().item())
    k = folds_for_groups(count, k, f"column {grouped!r}")
    # Multiples of a number without a common divisor go through all places in a mixed order.
    factor = next(int(f) for f in rng.integers(1, PRIME, size=1000) if gcd(int(f), count) == 1)
    place = (nw.col("_place").cast(nw.Int64) * factor + int(rng.integers(count))) % count % k
    return rows.join(groups.with_columns(place.alias("_fold")), on="_group", how="left")


def _check_numeric(frame: Any, names: list[str]) -> None:
    schema = frame.collect_schema()
    wrong = [name for name in names if not (schema[name].is_numeric() or schema[name] == nw.Boolean)]
    if wrong:
        held = ", ".join(f"{name!r} ({schema[name]})" for name in wrong)
        raise ValueError(
            f"{SOURCE} has columns that are not numbers: {held}. Turn them into numbers there (a case per value, days "
            "since a start), select the others, or collect the rows: in memory and in files all columns are understood"
        )


def _check_values(columns: dict[str, NDArray[Any]], names: list[str], task: str) -> None:
    """Whatever is missing or infinite shows in the counts and sums."""
    if not len(columns["n"]):
        raise ValueError(f"{SOURCE} has no rows")
    if any(label is None or label != label for label in columns["_task"].tolist()):
        raise ValueError(f"column {task!r} has rows without a label: fill them in or drop them")
    for j, name in enumerate(names):
        if (columns[f"n{j}"] < columns["n"]).any() or not np.isfinite(columns[f"p{j}_{j}"].astype(float)).all():
            raise ValueError(f"column {name!r} has missing or infinite values: drop or fill such rows first")


def predict_frame(model: Model, frame: Any, *, unseen: str = "mean", return_std: bool = False) -> Any:
    """The frame with a column `prediction`, still lazy: coefficients are looked up by task, in one expression.

    Tasks that fit has not seen get the population model; nothing with `unseen="error"`.
    """
    columns = model.columns
    assert columns is not None
    if not model.is_linear:
        raise ValueError(
            "boosted trees, curves or facts that move slopes take part in these predictions, and are no expression of "
            "columns: use kinfolk.large.predict_file, collect the frame, or fit with trunk=None, nonlinear=False, "
            "facts=None"
        )
    scaler = columns.transformer
    # A scaler is a shift and a unit; anything else the engine cannot run.
    if return_std or columns.basis is not None or not (scaler is None or hasattr(scaler, "scale_")):
        raise ValueError(
            "a lazy frame is predicted by one expression of its columns, without standard deviations and without "
            "`features` other than StandardScaler: use kinfolk.large.predict_file, or collect the frame"
        )
    coef = np.vstack([model.coef, model.population.coef])
    intercept = np.append(model.intercept, model.population.intercept)
    if scaler is not None:
        coef = coef / (1.0 if scaler.scale_ is None else scaler.scale_)
        intercept = intercept - (0.0 if scaler.mean_ is None or not scaler.with_mean else coef @ scaler.mean_)
    task = columns.schema.task
    names = columns.schema.names
    if names is None or not isinstance(task, str):
        raise ValueError(
            f"a lazy frame is predicted by the names of its columns, but {model.name} was fitted without names or "
            "without a task column: fit a table with names, or collect the frame"
        )
    features = [name for name in names if name != task]
    rows = with_joint(nw.from_native(frame), task)
    lazy, by_task = _lookup(rows, task, model.labels, np.column_stack([intercept, coef]), unseen)
    prediction = by_task(0)
    for j, name in enumerate(features):
        prediction = prediction + _within_limits(nw.col(name).cast(nw.Float64), columns, j) * by_task(j + 1)
    prediction = _mean_of(prediction, model.target.link, columns.offsets.columns)
    given = nw.from_native(frame).collect_schema().names()
    return lazy.with_columns(prediction.alias("prediction")).select(*given, "prediction").to_native()


def _mean_of(predictor: Any, link: str, offsets: dict[str, Any]) -> Any:
    """The mean of the targets, for what features and columns beside them add to the linear predictor."""
    for what, name in offsets.items():
        value = nw.col(name).cast(nw.Float64)
        predictor = predictor + (value.log() if what == "exposure" else value)
    if link == "identity":
        return predictor
    return predictor.exp() if link == "log" else 1 / (1 + (-1 * predictor).exp())


def _within_limits(value: Any, columns: Columns, j: int) -> Any:
    """Feature j of every row, in the units of the frame: the mean of fit for a gap, and no farther than is trusted."""
    scaler = columns.transformer
    if columns.means is not None:
        mean = columns.means[None] if scaler is None else scaler.inverse_transform(columns.means[None])
        value = nw.when(~value.is_nan()).then(value).otherwise(nw.lit(float(mean[0, j])))
    if columns.limits is None or not np.isfinite(columns.limits[:, j]).all():
        return value
    low, high = columns.limits[:, j] if scaler is None else scaler.inverse_transform(columns.limits)[:, j]
    return value.clip(float(low), float(high))


def _lookup(frame: Any, task: str, labels: NDArray[Any], numbers: Array, unseen: str) -> tuple[Any, Any]:
    """A frame, and expressions for the columns of `numbers` by task, whose last row is for unseen tasks."""
    known = [label.item() if isinstance(label, np.generic) else label for label in labels]
    if not frame.implementation.is_ibis():

        def by_task(j: int) -> Any:
            default = float(numbers[-1, j]) if unseen != "error" else None
            return nw.col(task).replace_strict(
                known, numbers[:-1, j].tolist(), default=default, return_dtype=nw.Float64
            )

        return frame, by_task
    import ibis

    # PostgreSQL has no such expression before version 16: a small table is joined instead.
    table = ibis.memtable({task: known, **{f"_by_task{j}": column for j, column in enumerate(numbers[:-1].T.tolist())}})

    def joined(j: int) -> Any:
        found = nw.col(f"_by_task{j}")
        return found.fill_null(float(numbers[-1, j])) if unseen != "error" else found

    return frame.join(nw.from_native(table), on=task, how="left"), joined
