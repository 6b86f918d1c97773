"""Statistics and models of files larger than memory: thin names over the one door."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from kinfolk.methods.method import MultiTaskRegressor
from kinfolk.progress import Callback
from kinfolk.rows.columns import TableRules
from kinfolk.rows.folds import Folds, refilled
from kinfolk.rows.gram import GramStats
from kinfolk.rows.schema import Columns, check_categorical
from kinfolk.rows.table import Schema, task_name
from kinfolk.sources.dealing import Dealer, check_folds, folds_of_parts
from kinfolk.sources.files import Source, open_source, polars
from kinfolk.sources.roles import Roles, choose_roles
from kinfolk.sources.ruled import complete_rows, ruled_frame, with_inputs
from kinfolk.sources.stream import NotFiniteError, has_plain_features, sum_source
from kinfolk.sources.transformers import FeaturePlan, plan_features, standardised
from kinfolk.words import warn_user

Model = TypeVar("Model", bound=MultiTaskRegressor)


def gram_of_file(
    path: str | os.PathLike[str],
    *,
    task: str,
    target: str,
    drop: str | Iterable[str] = (),
    columns: Iterable[str] | None = None,
    batch_rows: int | None = None,
    n_jobs: int | None = 2,
    callback: Callback | None = None,
) -> GramStats:
    """Statistics of a file, or of a folder of files, that need not fit into memory.

    One pass in blocks of rows. Memory is that of the result, 8 T (d + 1)^2 bytes, and of a few blocks. The result does
    not depend on `n_jobs`, and on `batch_rows` only by rounding.

    Parameters
    ----------
    path : CSV, Parquet, Arrow IPC (Feather), NDJSON or Excel; or a folder of files of one of these formats, whose
        sub-folders may be named after values, like `shop=12`
    task, target : names of columns
    drop : columns to leave out
    columns : the features, in this order; by default all columns but task, target and `drop`
    batch_rows : how many rows are held at a time; by default as many as make 96 MB
    n_jobs : threads; -1 for all cores
    callback : called with a `Progress` in bytes after every block

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder) / "sales.csv"
    ...     _ = file.write_text("shop,ads,sales\\na,1,1\\na,3,5\\nb,5,7\\n")
    ...     gram = gram_of_file(file, task="shop", target="sales")
    >>> gram.labels, gram.n, gram.G.ravel(), gram.feature_names
    (array(['a', 'b'], dtype='<U1'), array([2., 1.]), array([2., 0.]), ('ads',))
    """
    source = open_source(path)
    roles = choose_roles(source.names(), source.name, task=task, target=target, drop=drop, columns=columns)
    return sum_source(source, roles, batch_rows=batch_rows, n_jobs=n_jobs, callback=callback)[0]


def folds_of_file(
    path: str | os.PathLike[str],
    *,
    task: str,
    target: str,
    drop: str | Iterable[str] = (),
    columns: Iterable[str] | None = None,
    cv: int = 5,
    groups: str | None = None,
    random_state: Any = 0,
    **reading: Any,
) -> Folds:
    """Statistics of folds of a file, for `GAMTLCV(...).fit_folds`; folds are drawn in the same single pass.

    The rows of every task are dealt to the folds in turn, shuffled within blocks. Memory is that of the result,
    8 (cv + 1) T (d + 1)^2 bytes, and of a few blocks.

    Parameters
    ----------
    path, task, target, drop, columns : see `gram_of_file`
    cv : number of folds
    groups : a column (day, sitting) whose rows of equal value stay in one fold; no feature unless in `columns`
    random_state : draws the folds; they also depend on `batch_rows`
    reading : `batch_rows`, `n_jobs` and `callback` of `gram_of_file`
    """
    source = open_source(path)
    roles = choose_roles(
        source.names(), source.name, task=task, target=target, drop=drop, columns=columns, groups=groups
    )
    dealer = Dealer(check_folds(cv), random_state)
    return folds_of_parts(sum_source(source, roles, dealer=dealer, **reading), groups=groups)


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
    options = {"batch_rows": batch_rows, "n_jobs": n_jobs, "callback": callback}
    plan = plan_features(model, roles.features)
    check_categorical(model.categorical, roles.features)
    if model.features is not None or (not model.categorical and has_plain_features(source, roles)):
        try:
            return fit_source(model, source, names, roles, plan, **options)
        except NotFiniteError:
            if model.features is not None:
                raise
    frame, roles, plan = _by_rules(source, roles, model.categorical)
    return fit_source(model, source, names, roles, plan, frame=frame, **options)


def _by_rules(source: Source, roles: Roles, categorical: Sequence[str]) -> tuple[Any, Roles, FeaturePlan]:
    """A source that has more than plain numbers: its columns by the rules, as in memory and on the command line."""
    pl = polars()
    rules = TableRules(categorical=tuple(categorical), learn=False)
    frame = ruled_frame(source, roles, rules, lambda bad: f"or leave these columns out with drop={bad!r}")
    frame, _ = complete_rows(frame, roles, list(rules.rules_), source, warn_user)
    kinds = frame.select(roles.features).collect_schema().values()
    numbers = all(kind.is_numeric() or kind == pl.Boolean for kind in kinds)
    if numbers and rules.plain and set(rules.left_out_.values()) <= {"constant"}:
        return frame.with_columns(pl.col(roles.features).cast(pl.Float64)), roles, FeaturePlan()
    for note in rules.notes():
        warn_user(note)
    return *with_inputs(frame, roles, rules), FeaturePlan(rules, tuple(rules.get_feature_names_out()))


def fit_source(
    model: Model, source: Source, names: list[str], roles: Roles, plan: FeaturePlan, **options: Any
) -> Model:
    """Fit to the rows of a source with columns `names`, or to a lazy `frame` made from it."""
    options["callback"] = options.get("callback") or getattr(model, "callback", None)
    dealer = Dealer(check_folds(model.cv), model.random_state) if model.wants_folds() else None
    parts = sum_source(source, roles, dealer=dealer, transform=plan.transform, names=plan.names, **options)
    return fit_parts(model, parts, roles, names, plan)


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


def fit_parts(model: Model, parts: list[GramStats], roles: Roles, names: list[str], plan: FeaturePlan) -> Model:
    """Fit from the statistics of folds, or of all rows, and remember the columns for predict."""
    folds: Folds | None = folds_of_parts(parts, groups=roles.groups) if model.wants_folds() else None
    return fit_statistics(model, parts[0] if folds is None else folds.total, folds, roles, names, plan)


def fit_statistics(
    model: Model, gram: GramStats, folds: Folds | None, roles: Roles, names: list[str], plan: FeaturePlan
) -> Model:
    """The same from the statistics of all rows, and of folds for methods that cross-validate."""
    fitted = plan.fitted
    if plan.scaler is not None:
        gram, folds, fitted = standardised(gram, folds, plan.scaler)
    columns = columns_of(roles, names, gram, fitted)
    folds = None if folds is None else refilled(folds, columns.gaps)
    return model.keep(model.whole_model(gram, folds), columns)


def columns_of(roles: Roles, names: list[str], gram: GramStats, fitted: Any) -> Columns:
    """What predict needs to know about the table of these statistics."""
    seen = tuple(name for name in names if name == roles.task or name in roles.features)
    return Columns(Schema(roles.task, seen, len(seen), gram.labels), fitted)
