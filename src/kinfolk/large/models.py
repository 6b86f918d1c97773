"""Models of tables larger than memory: statistics where the rows are, then the fit in memory."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, TypeVar

from kinfolk.large.cluster import SOURCE, partition_dealers, sum_dask
from kinfolk.large.columns import Columns, choose_columns
from kinfolk.large.dealing import Dealer, check_folds, folds_of_parts
from kinfolk.large.sources import open_source
from kinfolk.large.stream import sum_file
from kinfolk.large.transformers import FeaturePlan, plan_features, standardised
from kinfolk.methods.method import MultiTaskRegressor
from kinfolk.progress import Callback
from kinfolk.rows.folds import Folds
from kinfolk.rows.gram import GramStats
from kinfolk.rows.tasks import Schema, check_rows_per_task

Model = TypeVar("Model", bound=MultiTaskRegressor)


def fit_file(
    model: Model,
    path: str | os.PathLike[str],
    *,
    target: str,
    drop: str | Iterable[str] = (),
    columns: Iterable[str] | None = None,
    groups: str | None = None,
    batch_rows: int | None = None,
    n_jobs: int | None = 2,
    callback: Callback | None = None,
) -> Model:
    """Fit a model to a file, or a folder of files, that need not fit into memory; one pass over the rows.

    The same as `model.fit` on the table read whole, up to rounding, and to the draw of folds where the model
    cross-validates. `features` of the model may be a `StandardScaler`, which is fitted from the statistics, or a
    transformer that has been fitted on a sample and frozen (`sklearn.frozen.FrozenEstimator`).

    Parameters
    ----------
    model : any estimator of the package but RBFGAMTL; its `task` names the task column
    path, target, drop, columns, batch_rows, n_jobs : see `gram_of_file`
    groups : a column (day, sitting) that cross-validation keeps together; no feature unless in `columns`
    callback : called with a `Progress` after every block; by default the model's own

    Returns
    -------
    model, fitted: `predict` takes tables with the same columns, without the target

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from kinfolk.baselines import Pooled
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder) / "sales.csv"
    ...     _ = file.write_text("shop,ads,sales\\na,1,1\\na,3,5\\nb,5,7\\nb,7,11\\n")
    ...     model = fit_file(Pooled(task="shop", penalty=0.0), file, target="sales")
    >>> model.coef_.ravel().round(6), model.feature_names_in_
    (array([2., 2.]), array(['shop', 'ads'], dtype=object))
    """
    source = open_source(path)
    names = source.names()
    used = _columns_of(model, names, str(source.root), target=target, drop=drop, columns=columns, groups=groups)
    plan = plan_features(model, used.features)
    dealer = None
    if model._wants_folds():
        dealer = Dealer(check_folds(model.cv), model.random_state, groups=used.groups)
    sums = sum_file(
        source,
        used,
        dealer=dealer,
        transform=plan.transform,
        names=plan.names,
        batch_rows=batch_rows,
        n_jobs=n_jobs,
        callback=callback or getattr(model, "callback", None),
    )
    return _fitted(model, sums.parts(), used, names, plan)


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
    names = list(ddf.columns)
    used = _columns_of(model, names, SOURCE, target=target, drop=drop, columns=columns, groups=groups)
    plan = plan_features(model, used.features)
    dealers = partition_dealers(ddf, used, model.cv, model.random_state) if model._wants_folds() else None
    parts = sum_dask(ddf, used, dealers=dealers, transform=plan.transform, names=plan.names)
    return _fitted(model, parts, used, names, plan)


def _columns_of(model: MultiTaskRegressor, names: list[str], source: str, **given: Any) -> Columns:
    """Columns by the model's task; features in the order of the table, as `predict` will meet them."""
    if not isinstance(model.task, str):
        raise ValueError(
            f"{type(model).__name__}(task={model.task!r}): a large table needs the task column by name, "
            f"{type(model).__name__}(task={names[0]!r})"
        )
    used = choose_columns(names, source, task=model.task, **given)
    if not model._wants_folds():
        used = replace(used, groups=None)
    return replace(used, features=tuple(name for name in names if name in used.features))


def _fitted(model: Model, parts: list[GramStats], used: Columns, names: list[str], plan: FeaturePlan) -> Model:
    """Fit from statistics, and remember the columns for predict."""
    folds: Folds | None = folds_of_parts(parts, groups=used.groups) if model._wants_folds() else None
    gram, fitted = parts[0] if folds is None else folds.total, plan.fitted
    if plan.scaler is not None:
        gram, folds, fitted = standardised(gram, folds, plan.scaler)
    if model.needs_two_rows:
        check_rows_per_task(gram)
    seen = tuple(name for name in names if name == used.task or name in used.features)
    model.features_ = fitted
    model._set_schema(Schema(used.task, seen, len(seen), gram.labels), single=False)
    model._fit_statistics(gram, folds)
    return model
