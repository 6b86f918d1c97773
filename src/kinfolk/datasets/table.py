"""The table of a data set: the task column first, then the features; and what there is to know about it."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.rows.gram import Array


def task_table(
    name: str, codes: NDArray[np.intp], X: Array, feature_names: Sequence[str], labels: Sequence[str] = ()
) -> tuple[Any, str | int]:
    """Put the task column before the features.

    Parameters
    ----------
    name : of the task column
    codes : task of every row, an integer
    X : features (n, d)
    feature_names : of the d features
    labels : names of the tasks, if they have any: task k is then called labels[k]

    Returns
    -------
    data : with pandas, a DataFrame with the labels (or else the codes) in column `name`; otherwise a float array with
        the codes in column 0
    task : how estimators find the task column of `data`: `name`, or 0

    Examples
    --------
    >>> data, task = task_table("lot", np.array([1, 0]), np.array([[0.5], [0.7]]), ["x"], ["east", "west"])
    >>> np.asarray(data).tolist() in ([["west", 0.5], ["east", 0.7]], [[1.0, 0.5], [0.0, 0.7]])
    True
    """
    try:
        import pandas as pd
    except ImportError:
        return np.column_stack([codes, X]).astype(float), 0
    frame = pd.DataFrame(X, columns=list(feature_names))
    frame.insert(0, name, np.array(labels, dtype=object)[codes] if labels else codes)
    return frame, name


def check_row_counts(n_samples: int, n_test: int) -> None:
    """Rows to train on there must be; rows to test by there may be."""
    if n_samples < 1 or n_test < 0:
        raise ValueError(f"n_samples must be >= 1 and n_test >= 0, got {n_samples} and {n_test}.")


def split_table(
    name: str,
    codes: NDArray[np.intp],
    X: Array,
    feature_names: list[str],
    train: NDArray[np.bool_],
    labels: Sequence[str] = (),
    **values: NDArray[Any],
) -> dict[str, Any]:
    """Tables of the training and the test rows, and further values of the rows (`target`, `time`, ...) beside them.

    The fields are `data`, `test_data`, `task`, `feature_names`, and for every v in `values` v and `test_v`.
    """
    fields: dict[str, Any] = {"feature_names": feature_names}
    for prefix, rows in (("", train), ("test_", ~train)):
        fields[f"{prefix}data"], fields["task"] = task_table(name, codes[rows], X[rows], feature_names, labels)
        fields |= {prefix + one: values[one][rows] for one in values}
    return fields


def description(name: str, package: str = "kinfolk.datasets") -> str:
    """What there is to know about a data set of a package: where it comes from, its licence, its quirks."""
    return files(package).joinpath("descriptions", f"{name}.txt").read_text("utf-8")
