"""Predictions of lazy and remote frames: one expression of the columns, which the engine runs when it is asked to."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from kinfolk.methods.model import Model
from kinfolk.rows.gram import Array
from kinfolk.rows.schema import Columns
from kinfolk.sources.frames import with_joint


def predict_frame(model: Model, frame: Any, *, unseen: str = "mean", return_std: bool = False) -> Any:
    """The frame with a column `prediction`, still lazy: coefficients are looked up by task, in one expression.

    Tasks that fit has not seen get the population model; nothing with `unseen="error"`.
    """
    columns = model.columns
    assert columns is not None
    if not model.is_linear:
        raise ValueError(
            "boosted trees or curves take part in these predictions, and are no expression of columns: use "
            "kinfolk.large.predict_file, collect the frame, or fit with trunk=None, nonlinear=False"
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
    given = nw.from_native(frame).collect_schema().names()
    return lazy.with_columns(prediction.alias("prediction")).select(*given, "prediction").to_native()


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
