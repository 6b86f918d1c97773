"""Models of lazy and remote frames: the engine behind them computes the statistics."""

from __future__ import annotations

from typing import Any

import narwhals as nw

from kinfolk.rows.table import joint_parts, task_name
from kinfolk.sources.cluster import fit_dask
from kinfolk.sources.dealing import check_folds
from kinfolk.sources.fits import Model, fit_parts, roles_for
from kinfolk.sources.frames import SOURCE, check_joint, sum_frame, with_joint
from kinfolk.sources.transformers import plan_features


def fit_lazy(model: Model, frame: Any, target: Any, groups: str | None = None) -> Model:
    """Fit a model to a lazy or remote frame: what `model.fit(frame, "sales")` does.

    Parameters
    ----------
    model : any estimator of the package but RBFGAMTL; its `task` names the task column
    frame : polars LazyFrame, DuckDB relation, Dask, PySpark or Ibis table; all columns but task, target and groups are
        features and hold numbers
    target : name of the target column
    groups : a column whose rows of equal value cross-validation keeps in one fold
    """
    lazy = nw.from_native(frame)
    if not isinstance(target, str) or not (groups is None or isinstance(groups, str)):
        raise ValueError(
            "a lazy frame is fitted by the names of its columns: fit(frame, 'name of the target', groups='name')"
        )
    if model.categorical:
        raise ValueError(
            f"categorical={model.categorical!r}: a lazy frame has numbers alone. Make columns of 0 and 1 of it, or "
            "fit the rows in memory"
        )
    if lazy.implementation.is_dask():
        return fit_dask(model, frame, target=target, groups=groups)
    task = task_name(model.task)
    parts = joint_parts(task, list(lazy.collect_schema()))
    lazy = with_joint(lazy, task)
    check_joint(lazy, task)
    names = [name for name in lazy.collect_schema() if name not in parts]
    roles = roles_for(model, names, SOURCE, target=target, groups=groups)
    plan = plan_features(model, roles.features)
    if plan.transform is not None:
        raise ValueError(
            f"features={model.features!r}: the engine behind a lazy frame cannot run it. Leave it out, use "
            "StandardScaler(), or fit the rows in memory"
        )
    k = check_folds(model.cv) if model.wants_folds() else 1
    return fit_parts(
        model, sum_frame(lazy, roles, k=k, random_state=getattr(model, "random_state", None)), roles, names, plan
    )
