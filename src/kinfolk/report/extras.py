"""What the page takes from `kinfolk.explain`, where the model has it."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinfolk.methods.method import MultiTaskRegressor
from kinfolk.report.plain import short
from kinfolk.rows.gram import Array

UNKNOWNS = 4_000  # T times d up to which contributions are computed: the inverse of the system is then held whole
LISTED = 10  # tasks listed beside a task, by their share


def top_shares(model: MultiTaskRegressor) -> list[Any] | None:
    """For every task whose data made its coefficients; None where that is unknown.

    An entry is [positions of tasks, their shares, share of the penalty], largest first; None for tasks without rows.
    """
    if model.coef_.size > UNKNOWNS or len(model.tasks_) < 2:
        return None
    try:
        from kinfolk.explain.contributions import contributions

        found = contributions(model)
    except (
        ImportError,
        AttributeError,
        NotImplementedError,
        TypeError,
        ValueError,
    ):  # a method without such an account
        return None
    position = np.searchsorted(model.tasks_, found.sources)
    listed: list[Any] = [None] * len(model.tasks_)
    for t, (index, share), prior in zip(
        np.searchsorted(model.tasks_, found.tasks), largest(found.shares), short(found.prior, 3), strict=True
    ):
        listed[t] = [position[index].tolist(), share, prior]
    return listed


def role_names(model: MultiTaskRegressor) -> list[str]:
    """What every task is in the graph: alone, a bridge between groups, or a member of one."""
    from kinfolk.explain.roles import roles

    return ["alone" if role.outlier else "bridge" if role.bridge else "member" for role in roles(model)]


def largest(shares: Array) -> list[Any]:
    """The largest entries of every row: their positions and values.

    Examples
    --------
    >>> largest(np.array([[0.7, 0.3], [0.25, 0.75]]))
    [[[0, 1], [0.7, 0.3]], [[1, 0], [0.75, 0.25]]]
    """
    order = np.argsort(-np.abs(shares), axis=1, kind="stable")[:, :LISTED]
    return [[index.tolist(), short(row[index], 3)] for index, row in zip(order, shares, strict=True)]
