"""What the page takes from `kinfolk.explain`, where the model has it."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinfolk.explain.contributions import contributions
from kinfolk.explain.roles import roles
from kinfolk.methods.model import Model
from kinfolk.report.plain import short
from kinfolk.rows.gram import Array

UNKNOWNS = 4_000  # T times d up to which contributions are computed: the inverse of the system is then held whole
LISTED = 10  # tasks listed beside a task, by their share


def top_shares(model: Model) -> list[Any] | None:
    """For every task whose data made its coefficients; None for a method that is not linear in the targets.

    An entry is [positions of tasks, their shares, largest first, share of the penalty, share of its own rows]; None for
    tasks without rows.
    """
    if not model.parts or model.coef.size > UNKNOWNS or len(model.labels) < 2:
        return None
    found = contributions(model)
    position = np.searchsorted(model.labels, found.sources)
    tasks = np.searchsorted(model.labels, found.tasks)
    listed: list[Any] = [None] * len(model.labels)
    own = short((found.shares * (position == tasks[:, None])).sum(axis=1), 3)
    for t, (index, share), prior, self in zip(tasks, largest(found.shares), short(found.prior, 3), own, strict=True):
        listed[t] = [position[index].tolist(), share, prior, self]
    return listed


def role_names(model: Model) -> list[str]:
    """What every task is in the graph: alone, a bridge between groups, or a member of one."""
    names = {(True, False): "alone", (False, True): "bridge", (False, False): "member"}
    return [names[role.outlier, role.bridge] for role in roles(model)]


def largest(shares: Array) -> list[Any]:
    """The largest entries of every row: their positions and values.

    Examples
    --------
    >>> largest(np.array([[0.7, 0.3], [0.25, 0.75]]))
    [[[0, 1], [0.7, 0.3]], [[1, 0], [0.75, 0.25]]]
    """
    order = np.argsort(-np.abs(shares), axis=1, kind="stable")[:, :LISTED]
    return [[index.tolist(), short(row[index], 3)] for index, row in zip(order, shares, strict=True)]
