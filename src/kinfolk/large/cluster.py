"""Statistics of Dask data frames: one small record per partition, merged as a tree on the workers that hold them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.large.arrow import Place, Transform, check_numeric, coded, read_block, read_rows, table_of_frame
from kinfolk.large.columns import Columns, choose_columns
from kinfolk.large.dealing import PartitionDealer, check_folds, check_groups, folds_of_parts
from kinfolk.large.labels import kind_of
from kinfolk.large.sums import Rows, Sums
from kinfolk.rows.folds import Folds, generator
from kinfolk.rows.gram import GramStats

MERGED = 8  # records merged at a time on one worker
SOURCE = "the data frame"


def gram_of_dask(
    ddf: Any,
    *,
    task: str,
    target: str,
    drop: str | Iterable[str] = (),
    columns: Iterable[str] | None = None,
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
    used = choose_columns(list(ddf.columns), SOURCE, task=task, target=target, drop=drop, columns=columns)
    return sum_dask(ddf, used)[0]


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
    used = choose_columns(
        list(ddf.columns), SOURCE, task=task, target=target, drop=drop, columns=columns, groups=groups
    )
    dealers = partition_dealers(ddf, used, cv, random_state)
    return folds_of_parts(sum_dask(ddf, used, dealers=dealers), groups=groups)


def sum_dask(
    ddf: Any,
    columns: Columns,
    *,
    dealers: list[PartitionDealer] | None = None,
    transform: Transform | None = None,
    names: tuple[str, ...] | None = None,
) -> list[GramStats]:
    """Statistics of every fold; of all rows, without dealers."""
    names = columns.features if transform is None else names
    functions = [
        partial(
            partition_parts,
            columns=columns,
            names=names,
            number=number,
            dealer=None if dealers is None else dealers[number],
            transform=transform,
        )
        for number in range(ddf.npartitions)
    ]
    parts = _reduced(ddf[columns.used()], functions, merged_parts)
    if parts is None:
        raise ValueError(f"{SOURCE} has no rows")
    return list(parts)


def partition_dealers(ddf: Any, columns: Columns, cv: Any, random_state: Any) -> list[PartitionDealer]:
    """One dealer per partition; groups are collected first."""
    k, rng = check_folds(cv), generator(random_state)
    seed, groups = int(rng.integers(2**31)), None
    if columns.groups is not None:
        functions = [partial(partition_labels, column=columns.groups, number=i) for i in range(ddf.npartitions)]
        labels = _reduced(ddf[[columns.groups]], functions, merged_labels)
        labels = np.empty(0) if labels is None else labels
        check_groups(len(labels), k, columns.groups)
        groups = labels, rng.permutation(len(labels)) % k
    return [PartitionDealer(k, seed, int(turn), groups) for turn in rng.permutation(ddf.npartitions)]


def partition_parts(
    frame: Any,
    *,
    columns: Columns,
    names: tuple[str, ...] | None,
    number: int,
    dealer: PartitionDealer | None,
    transform: Transform | None,
) -> list[GramStats] | None:
    """Statistics of one partition, per fold; None if it has no rows."""
    if not len(frame):
        return None
    place = Place(f"partition {number}")
    table = table_of_frame(frame, place)
    check_numeric(table.schema, columns, place.source, transformed=transform is not None)
    sums = Sums(columns, names, dealer=dealer)
    rows = Rows(read_rows(table, columns, transform), [read_block(table, columns, place, transform)])
    for _ in sums.add_all([rows]):
        pass
    return sums.parts()


def partition_labels(frame: Any, *, column: str, number: int) -> NDArray[Any] | None:
    """Distinct labels of one partition."""
    place = Place(f"partition {number}")
    return coded(table_of_frame(frame, place)[column], column, place).labels if len(frame) else None


def merged_parts(records: list[list[GramStats] | None]) -> list[GramStats] | None:
    """Statistics of several partitions together."""
    known = [record for record in records if record is not None]
    if not known:
        return None
    _check_kinds([record[0].labels for record in known])
    total = known[0]
    for record in known[1:]:
        total = [one + two for one, two in zip(total, record, strict=True)]
    return total


def merged_labels(records: list[NDArray[Any] | None]) -> NDArray[Any] | None:
    """Distinct labels of several partitions."""
    known = [record for record in records if record is not None]
    if not known:
        return None
    _check_kinds(known)
    return np.unique(np.concatenate(known))


def _check_kinds(labels: list[NDArray[Any]]) -> None:
    kinds = sorted({kind_of(each) for each in labels})
    if len(kinds) > 1:
        raise ValueError(f"labels are {' in some partitions and '.join(kinds)} in others: make them one type")


def _reduced(ddf: Any, functions: Sequence[Callable[[Any], Any]], merge: Callable[[list[Any]], Any]) -> Any:
    """`merge` over the functions of the partitions, as a tree."""
    delayed = dask().delayed
    # In a partial, so that Dask does not look for collections inside the arguments.
    nodes = [delayed(function)(part) for function, part in zip(functions, ddf.to_delayed(), strict=True)]
    while len(nodes) > 1:
        nodes = [delayed(merge)(nodes[k : k + MERGED]) for k in range(0, len(nodes), MERGED)]
    return nodes[0].compute()


def dask() -> Any:
    """The dask module."""
    try:
        import dask
        import dask.dataframe
    except ImportError:
        raise ImportError("Dask data frames need dask: pip install 'kinfolk[large]'") from None
    return dask
