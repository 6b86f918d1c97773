"""Models of files larger than memory, and of lazy and remote frames: where the rows are, they become statistics."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import narwhals as nw

from kinfolk.methods.method import MultiTaskRegressor
from kinfolk.progress import Callback
from kinfolk.rows.columns import TableRules
from kinfolk.rows.folds import Folds, refilled
from kinfolk.rows.gram import GramStats
from kinfolk.rows.schema import Columns, check_categorical, roles_of
from kinfolk.rows.table import Schema, task_name
from kinfolk.sources.dealing import Dealer, check_folds, folds_of_parts
from kinfolk.sources.files import Source, open_source, polars
from kinfolk.sources.frames import SOURCE, sum_frame
from kinfolk.sources.partitions import DASK, sum_dask
from kinfolk.sources.plan import PLAIN, FeaturePlan, plan_features, plan_of_rules, standardised
from kinfolk.sources.roles import Roles, choose_roles, joined
from kinfolk.sources.ruled import complete_rows, ruled_frame, with_inputs
from kinfolk.sources.stream import NotFiniteError, has_plain_features, sum_source
from kinfolk.words import warn_user

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
    """Fit a model to a file, or a folder of files, that need not fit into memory.

    The same as `model.fit` on the table read whole, up to rounding, and to the draw of folds where the model
    cross-validates: text, dates, missing values and row numbers go by the same rules, which take a pass over the rows
    before; plain numbers take one. Only text of many values is not learned from the target, but one-hot encoded.
    `features` of the model may be a `StandardScaler`, which is fitted from the statistics, or a transformer that has
    been fitted on a sample and frozen (`sklearn.frozen.FrozenEstimator`).

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
    source = open_source(path).joining(task_name(model.task))
    names = [name for name in source.names() if name not in source.parts]
    roles = roles_for(model, names, source.name, target=target, drop=drop, columns=columns, groups=groups)
    plan = plan_features(model, roles.features)
    check_categorical(model.categorical, roles.features)
    options: dict[str, Any] = {"batch_rows": batch_rows, "n_jobs": n_jobs}
    options["callback"] = callback or getattr(model, "callback", None)

    def fitted(roles: Roles, plan: FeaturePlan, frame: Any = None) -> Model:
        dealer = Dealer(check_folds(model.cv), model.random_state) if model.wants_folds() else None
        return fit_parts(model, sum_source(source, roles, plan, dealer=dealer, frame=frame, **options), roles, plan)

    if model.features is not None or (not model.categorical and has_plain_features(source, roles)):
        try:
            return fitted(roles, plan)
        except NotFiniteError:
            if model.features is not None:
                raise
    return fitted(*_by_rules(source, roles, model.categorical))


def _by_rules(source: Source, roles: Roles, categorical: Sequence[str]) -> tuple[Roles, FeaturePlan, Any]:
    """A source that has more than plain numbers: its columns by the rules, as in memory and on the command line."""
    pl = polars()
    rules = TableRules(categorical=tuple(categorical), learn=False)
    frame = ruled_frame(source, roles, rules, lambda bad: f"or leave these columns out with drop={bad!r}")
    frame, _ = complete_rows(frame, roles, list(rules.rules_), source, warn_user)
    kinds = frame.select(roles.features).collect_schema().values()
    numbers = all(kind.is_numeric() or kind == pl.Boolean for kind in kinds)
    if numbers and rules.plain and set(rules.left_out_.values()) <= {"constant"}:
        return roles, PLAIN, frame.with_columns(pl.col(roles.features).cast(pl.Float64))
    for note in rules.notes():
        warn_user(note)
    frame, roles = with_inputs(frame, roles, rules)
    return roles, plan_of_rules(rules), frame


def fit_frame(model: Model, frame: Any, target: Any, groups: str | None = None, **chosen: Any) -> Model:
    """Fit a model to a lazy or remote frame: what `model.fit(frame, "sales")` does.

    Partitions of Dask become statistics one by one; every other engine computes the statistics itself.

    Parameters
    ----------
    model : any estimator of the package but RBFGAMTL; its `task` names the task column
    frame : polars LazyFrame, DuckDB relation, Dask, PySpark or Ibis table; all columns but task, target and groups are
        features and hold numbers
    target : name of the target column
    groups : a column whose rows of equal value cross-validation keeps in one fold
    chosen : `drop` and `columns` of `gram_of_file`
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
    by_partition = lazy.implementation.is_dask()
    lazy = joined(lazy, task_name(model.task))
    source = DASK if by_partition else SOURCE
    roles = roles_for(model, list(lazy.collect_schema()), source, target=target, groups=groups, **chosen)
    plan = plan_features(model, roles.features)
    k = check_folds(model.cv) if model.wants_folds() else 1
    seed = getattr(model, "random_state", None)
    if by_partition:
        return fit_parts(model, sum_dask(lazy.to_native(), roles, plan, k=k, random_state=seed), roles, plan)
    if not plan.takes_columns:
        raise ValueError(
            f"features={model.features!r}: the engine behind a lazy frame cannot run it. Leave it out, use "
            "StandardScaler(), or fit the rows in memory"
        )
    return fit_parts(model, sum_frame(lazy, roles, k=k, random_state=seed), roles, plan)


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
    return fit_frame(model, ddf, target, groups, drop=drop, columns=columns)


def roles_for(model: MultiTaskRegressor, names: list[str], source: str, **given: Any) -> Roles:
    """Roles by the model's task; features in the order of the table, as `predict` will meet them."""
    task = task_name(model.task)
    if not isinstance(task, str):
        raise ValueError(
            f"{type(model).__name__}(task={model.task!r}): a large table needs the task column by name, "
            f"{type(model).__name__}(task={names[0]!r})"
        )
    roles = choose_roles(names, source, task=task, **given)
    if not model.wants_folds():
        roles = replace(roles, groups=None)
    features = set(roles.features)
    return replace(roles, features=tuple(name for name in names if name in features))


def fit_parts(model: Model, parts: list[GramStats], roles: Roles, plan: FeaturePlan) -> Model:
    """Fit from the statistics of folds, or of all rows, and remember the columns for predict."""
    if not model.wants_folds():
        return fit_statistics(model, parts[0], None, roles, plan)
    folds = folds_of_parts(parts, groups=roles.groups)
    return fit_statistics(model, folds.total, folds, roles, plan)


def fit_statistics(model: Model, gram: GramStats, folds: Folds | None, roles: Roles, plan: FeaturePlan) -> Model:
    """The same from the statistics of all rows, and of folds for methods that cross-validate."""
    fitted = plan.fitted
    if plan.scaler is not None:
        gram, folds, fitted = standardised(gram, folds, plan.scaler)
    columns = columns_of(roles, gram, fitted)
    known = roles_of(model.facts, model.common, gram, columns)
    gram = gram.with_roles(known)
    folds = None if folds is None else refilled(folds, columns.gaps).with_roles(known)
    return model.keep(model.whole_model(gram, folds), columns)


def columns_of(roles: Roles, gram: GramStats, fitted: Any) -> Columns:
    """What predict needs to know about the table of these statistics."""
    seen = tuple(name for name in roles.names if name == roles.task or name in roles.features)
    return Columns(Schema(roles.task, seen, len(seen), gram.labels), fitted)
