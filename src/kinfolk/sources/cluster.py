"""Statistics and models of Dask data frames: one small record per partition, merged as a tree on the workers."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial, reduce
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from kinfolk.methods.method import MultiTaskRegressor
from kinfolk.methods.model import Model as Record
from kinfolk.methods.model import as_model
from kinfolk.rows.folds import Folds
from kinfolk.rows.gram import GramStats
from kinfolk.rows.splits import dealt, folds_for_groups, generator
from kinfolk.rows.table import checked_labels, joint_parts, read_table, task_name
from kinfolk.sources.dealing import check_folds, folds_of_parts
from kinfolk.sources.files import check_column
from kinfolk.sources.fits import Model, fit_parts, roles_for
from kinfolk.sources.frames import check_joint, with_joint
from kinfolk.sources.predictions import model_columns
from kinfolk.sources.roles import Roles, choose_roles
from kinfolk.sources.stream import Transform
from kinfolk.sources.transformers import plan_features

MERGED = 8  # records merged at a time on one worker
SOURCE = "the data frame"
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
    roles = choose_roles(list(ddf.columns), SOURCE, task=task, target=target, drop=drop, columns=columns)
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
    roles = choose_roles(names, SOURCE, task=task, target=target, drop=drop, columns=columns, groups=groups)
    return folds_of_parts(sum_dask(ddf, roles, deals=partition_deals(ddf, roles, cv, random_state)), groups=groups)


def fit_dask(
    model: Model,
    ddf: Any,
    *,
    target: str,
    drop: str | Iterable[str] = (),
    columns: Iterable[str] | None = None,
    groups: str | None = None,
) -> Model:
    """Fit a model to a Dask data frame: statistics on the cluster, then the fit here.

    Parameters
    ----------
    model, target, groups : see `fit_file`
    ddf, drop, columns : see `gram_of_dask`
    """
    task = task_name(model.task)
    parts = joint_parts(task, ddf.columns)
    if parts:
        joined = with_joint(nw.from_native(ddf), task)
        check_joint(joined, task)
        ddf = joined.drop(parts).to_native()
    names = list(ddf.columns)
    roles = roles_for(model, names, SOURCE, target=target, drop=drop, columns=columns, groups=groups)
    plan = plan_features(model, roles.features)
    deals = partition_deals(ddf, roles, model.cv, model.random_state) if model.wants_folds() else None
    statistics = sum_dask(ddf, roles, deals=deals, transform=plan.transform, names=plan.names)
    return fit_parts(model, statistics, roles, names, plan)


def predict_dask(model: MultiTaskRegressor, ddf: Any) -> Any:
    """Predictions for a Dask data frame as a Dask series named `prediction`; nothing is computed yet.

    Columns that the model does not know are ignored.
    """
    names = model_columns(model)
    parts = joint_parts(task_name(model.task), ddf.columns)
    names = [*parts, *(name for name in names if not parts or name != task_name(model.task))]
    for name in names:
        check_column(name, list(ddf.columns), SOURCE, "column of the model")
    light = dask().delayed(as_model(model).for_prediction(), pure=True)  # workers need coefficients, not statistics
    return ddf[names].map_partitions(_predict_frame, light, model.unseen, meta=("prediction", "f8"))


def _predict_frame(frame: Any, model: Record, unseen: str) -> Any:
    values = model.predict_table(frame, unseen=unseen) if len(frame) else np.empty(0)
    return frame.assign(prediction=values)["prediction"]


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


def partition_deals(ddf: Any, roles: Roles, cv: Any, random_state: Any) -> list[Deal]:
    """One deal per partition; groups are collected first."""
    k = check_folds(cv)
    rng = generator(random_state)
    seed = int(rng.integers(2**31))
    groups = None
    if roles.groups is not None:
        labels = np.unique(_column(ddf[[roles.groups]].drop_duplicates().compute(), roles.groups))
        k = folds_for_groups(len(labels), k, f"column {roles.groups!r}")
        groups = labels, rng.permutation(len(labels)) % k
    return [Deal(k, seed, int(turn), groups) for turn in rng.permutation(ddf.npartitions)]


def sum_dask(
    ddf: Any,
    roles: Roles,
    *,
    deals: list[Deal] | None = None,
    transform: Transform | None = None,
    names: tuple[str, ...] | None = None,
) -> list[GramStats]:
    """Statistics of every fold; of all rows, if none are dealt. Those of partitions are added up as a tree."""
    names = roles.features if transform is None else names
    one_each = deals if deals is not None else [None for _ in range(ddf.npartitions)]
    functions = [
        partial(partition_parts, roles=roles, names=names, number=number, deal=deal, transform=transform)
        for number, deal in enumerate(one_each)
    ]
    delayed = dask().delayed
    # In a partial, so that Dask does not look for collections inside the arguments.
    nodes = [delayed(function)(part) for function, part in zip(functions, ddf[roles.used()].to_delayed(), strict=True)]
    while len(nodes) > 1:
        nodes = [delayed(merged_parts)(nodes[k : k + MERGED]) for k in range(0, len(nodes), MERGED)]
    parts = nodes[0].compute()
    if parts is None:
        raise ValueError(f"{SOURCE} has no rows")
    return list(parts)


def partition_parts(
    frame: Any,
    *,
    roles: Roles,
    names: tuple[str, ...] | None,
    number: int,
    deal: Deal | None,
    transform: Transform | None,
) -> list[GramStats] | None:
    """Statistics of one partition, per fold; None if it has no rows."""
    if not len(frame):
        return None
    where = f"partition {number}"
    y = read_table(frame[[roles.target]], name=where).features()[:, 0]
    inputs = frame[list(roles.features)]
    X = read_table(inputs, name=where).features() if transform is None else transform(inputs)
    X = np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)
    labels, codes = np.unique(_column(frame, roles.task), return_inverse=True)
    if deal is None:
        return [GramStats.from_codes(X, y, codes, labels, feature_names=names)]
    fold = deal.fold(labels, codes, None if roles.groups is None else _column(frame, roles.groups))
    parts = Folds.of_rows(X, y, codes, labels, fold, feature_names=names, k=deal.k)
    return list(parts.held_out)


def _column(frame: Any, name: str) -> NDArray[Any]:
    return checked_labels(read_table(frame[[name]]).column(0), name)


def merged_parts(records: list[list[GramStats] | None]) -> list[GramStats] | None:
    """Statistics of several partitions together; None if none of them has rows."""
    known = [record for record in records if record is not None]
    kinds = sorted({KINDS.get(record[0].labels.dtype.kind, str(record[0].labels.dtype)) for record in known})
    if len(kinds) > 1:
        raise ValueError(f"labels are {' in some partitions and '.join(kinds)} in others: make them one type")
    return [reduce(GramStats.__add__, parts) for parts in zip(*known, strict=True)] if known else None


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
