"""Statistics of Dask data frames: one small record per partition, merged as a tree on the workers.

The grouped aggregation of `frames` gives the same of Dask, in 2.8 times the CPU seconds (docs/scaling.md).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial, reduce
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.rows.folds import Folds
from kinfolk.rows.gram import GramStats
from kinfolk.rows.splits import dealt, folds_for_groups, generator
from kinfolk.rows.table import checked_labels, read_table
from kinfolk.sources.dealing import check_folds, folds_of_parts
from kinfolk.sources.plan import PLAIN, FeaturePlan
from kinfolk.sources.roles import Roles, choose_roles

MERGED = 8  # records merged at a time on one worker
DASK = "the data frame"
KINDS = {"i": "integers", "u": "integers", "U": "text", "b": "truth values", "M": "dates"}


def gram_of_dask(
    ddf: Any, *, task: str, target: str, drop: str | Iterable[str] = (), columns: Iterable[str] | None = None
) -> GramStats:
    """Statistics of a Dask data frame, on the current cluster, or in local threads if there is none.

    Every partition becomes statistics where it is; these, at most 8 T (d + 1)^2 bytes, are added up as a tree. Lost
    workers are for Dask to replace: their partitions are computed again. Progress shows on Dask's dashboard.

    Parameters
    ----------
    ddf : Dask data frame
    task, target : names of columns
    drop : columns to leave out
    columns : the features, in this order; by default all columns but task, target and `drop`
    """
    roles = choose_roles(list(ddf.columns), DASK, task=task, target=target, drop=drop, columns=columns)
    return sum_dask(ddf, roles)[0]


def folds_of_dask(
    ddf: Any,
    *,
    task: str,
    target: str,
    drop: str | Iterable[str] = (),
    columns: Iterable[str] | None = None,
    cv: int = 5,
    groups: str | None = None,
    random_state: Any = 0,
) -> Folds:
    """Statistics of folds of a Dask data frame, for `GAMTLCV(...).fit_folds`.

    The rows of a task are dealt to the folds in turn within every partition, each of which begins at another fold.

    Parameters
    ----------
    ddf, task, target, drop, columns : see `gram_of_dask`
    cv : number of folds
    groups : a column whose rows of equal value stay in one fold; costs a pass over this column before
    random_state : draws the folds; they also depend on the partitions
    """
    names = list(ddf.columns)
    roles = choose_roles(names, DASK, task=task, target=target, drop=drop, columns=columns, groups=groups)
    return folds_of_parts(sum_dask(ddf, roles, k=check_folds(cv), random_state=random_state), groups=groups)


class Deal(NamedTuple):
    """How the rows of one partition go to the folds, without knowledge of the others.

    The rows of a task are dealt in turn from a fold that depends on the task's label and on the partition, so that
    tasks with few rows in each of many partitions get even folds too.

    Attributes
    ----------
    k : number of folds
    seed : of the shuffling; the same for all partitions
    turn : place of the partition in a random order of all
    groups : distinct labels of groups, sorted, and their folds
    """

    k: int
    seed: int
    turn: int
    groups: tuple[NDArray[Any], NDArray[np.intp]] | None = None

    def fold(self, labels: NDArray[Any], codes: NDArray[np.intp], groups: NDArray[Any] | None) -> NDArray[np.intp]:
        """The fold of every row of the partition."""
        if self.groups is not None and groups is not None:
            known, folds = self.groups
            return folds[np.searchsorted(known, groups)]
        first = (scattered(labels, self.seed) + self.turn) % self.k
        order = np.random.default_rng([self.seed, self.turn]).permutation(len(codes))
        return dealt(codes, order, first, self.k)


def partition_deals(ddf: Any, roles: Roles, k: int, random_state: Any) -> list[Deal]:
    """One deal per partition; groups are collected first."""
    rng = generator(random_state)
    seed = int(rng.integers(2**31))
    groups = None
    if roles.groups is not None:
        labels = np.unique(_column(ddf[[roles.groups]].drop_duplicates().compute(), roles.groups))
        k = folds_for_groups(len(labels), k, f"column {roles.groups!r}")
        groups = labels, rng.permutation(len(labels)) % k
    return [Deal(k, seed, int(turn), groups) for turn in rng.permutation(ddf.npartitions)]


def sum_dask(
    ddf: Any, roles: Roles, plan: FeaturePlan = PLAIN, *, k: int = 1, random_state: Any = None
) -> list[GramStats]:
    """Statistics of every fold, of all rows for k = 1. Those of partitions are added up as a tree."""
    deals: Iterable[Deal | None] = repeat(None) if k == 1 else partition_deals(ddf, roles, k, random_state)
    delayed = dask().delayed
    # In a partial, so that Dask does not look for collections inside the arguments.
    nodes = [
        delayed(partial(partition_parts, roles=roles, plan=plan, where=f"partition {number}", deal=deal))(part)
        for number, (part, deal) in enumerate(zip(ddf[roles.used()].to_delayed(), deals, strict=False))
    ]
    while len(nodes) > 1:
        nodes = [delayed(merged_parts)(nodes[k : k + MERGED]) for k in range(0, len(nodes), MERGED)]
    parts = nodes[0].compute()
    if parts is None:
        raise ValueError(f"{DASK} has no rows")
    return list(parts)


def partition_parts(
    frame: Any, *, roles: Roles, plan: FeaturePlan, where: str, deal: Deal | None
) -> list[GramStats] | None:
    """Statistics of one partition, per fold; None if it has no rows."""
    if not len(frame):
        return None
    y = read_table(frame[[roles.target]], name=where).features()[:, 0]
    inputs = frame[list(roles.features)]
    X = read_table(inputs, name=where).features() if plan.takes_columns else plan.transform(inputs)
    names = plan.feature_names(roles)
    labels, codes = np.unique(_column(frame, roles.task), return_inverse=True)
    if deal is None:
        return [GramStats.from_codes(X, y, codes, labels, feature_names=names)]
    fold = deal.fold(labels, codes, None if roles.groups is None else _column(frame, roles.groups))
    return list(Folds.of_rows(X, y, codes, labels, fold, feature_names=names, k=deal.k).held_out)


def _column(frame: Any, name: str) -> NDArray[Any]:
    return checked_labels(read_table(frame[[name]]).column(0), name)


def merged_parts(records: list[list[GramStats] | None]) -> list[GramStats] | None:
    """Statistics of several partitions together; None if none of them has rows."""
    filled = [record for record in records if record is not None]
    kinds = sorted({KINDS.get(record[0].labels.dtype.kind, str(record[0].labels.dtype)) for record in filled})
    if len(kinds) > 1:
        raise ValueError(f"labels are {' in some partitions and '.join(kinds)} in others: make them one type")
    return [reduce(GramStats.__add__, parts) for parts in zip(*filled, strict=True)] if filled else None


def scattered(labels: NDArray[Any], seed: int) -> NDArray[np.intp]:
    """A number for every label that looks random and is the same wherever the label stands.

    Examples
    --------
    >>> both, one = scattered(np.array(["a", "bcd"]), 0), scattered(np.array(["a"]), 0)
    >>> both[0] == one[0], both[0] == both[1]
    (np.True_, np.False_)
    """
    from pandas.util import hash_array  # Dask brings pandas

    hashed = hash_array(labels.astype(str).astype(object), hash_key=f"{seed:016d}")
    return (hashed >> np.uint64(1)).astype(np.intp)


def dask() -> Any:
    """The dask module."""
    try:
        import dask
        import dask.dataframe
    except ImportError:
        raise ImportError("Dask data frames need dask: pip install 'kinfolk[large]'") from None
    return dask
