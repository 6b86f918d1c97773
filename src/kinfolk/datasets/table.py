"""The table of a data set: the task column first, then the features."""

from collections.abc import Sequence
from typing import Any

import numpy as np


def task_table(
    name: str,
    codes: np.ndarray,
    features: np.ndarray,
    feature_names: Sequence[str],
    labels: Sequence[str] = (),
) -> tuple[Any, str | int]:
    """Put the task column before the features.

    Parameters
    ----------
    name : str
        Name of the task column.
    codes : ndarray of int, shape (n,)
        Task of each row.
    features : ndarray, shape (n, d)
    feature_names : sequence of d str
    labels : sequence of str, optional
        Names of the tasks: a row of task ``codes[i]`` is then called ``labels[codes[i]]``.

    Returns
    -------
    data : DataFrame or ndarray, d + 1 columns
        A DataFrame if pandas is installed, with the labels (or else the codes) in column `name`; otherwise a
        float array with the codes in column 0.
    task : str or int
        How to address the task column of `data`: `name`, or 0.

    Examples
    --------
    >>> import numpy as np
    >>> data, task = task_table("lot", np.array([1, 0]), np.array([[0.5], [0.7]]), ["x"], ["east", "west"])
    >>> np.asarray(data).tolist() in ([["west", 0.5], ["east", 0.7]], [[1.0, 0.5], [0.0, 0.7]])
    True
    """
    try:
        import pandas as pd
    except ImportError:
        return np.column_stack([codes, features]).astype(float), 0
    frame = pd.DataFrame(features, columns=list(feature_names))
    frame.insert(0, name, np.array(labels, dtype=object)[codes] if labels else codes)
    return frame, name
