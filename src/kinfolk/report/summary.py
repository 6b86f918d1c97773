"""A fitted model as a plain dict: everything the page shows, and nothing that JSON cannot hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from kinfolk._version import __version__
from kinfolk.estimators.gamtlcv import feature_scale
from kinfolk.methods.method import MultiTaskRegressor
from kinfolk.methods.model import as_model
from kinfolk.plots import OUTLIER, PALETTE
from kinfolk.progress import Callback, report
from kinfolk.report.errors import TaskErrors, task_errors
from kinfolk.report.extras import role_names, top_shares
from kinfolk.report.plain import counted, plain_names, short, written
from kinfolk.report.views import task_groups, view_of
from kinfolk.report.words import certificate, headline, settings
from kinfolk.rows.gram import Array, GramStats
from kinfolk.rows.tasks import Rows, read_for_predict, read_rows

NUMBERS = 200_000  # coefficients that the page holds; of more features those that vary most between tasks
POINTS = 60_000  # observed and predicted pairs that the page holds, all tasks together
POINTS_PER_TASK = 60
SHOWN = 2_500  # tasks that the page holds: those with most rows


@dataclass(frozen=True, eq=False)
class _Seen:
    """Rows given for the report: checked, with features and statistics."""

    rows: Rows
    X: Array
    gram: GramStats


def summarize(
    model: MultiTaskRegressor,
    X: Any = None,
    y: Any = None,
    *,
    title: str | None = None,
    groups: Any = None,
    sample_weight: Any = None,
    confidence: Any = None,
    callback: Callback | None = None,
) -> dict[str, Any]:
    """Everything a report says about a fitted model, as plain data.

    Parameters
    ----------
    model : a fitted estimator of the package
    X, y : rows for errors and predictions: those of fit, which are then cross-validated, or a test set. Without them
        the report leaves both out
    title : heading of the page
    groups : one label per row (sitting, day), kept on one side by cross-validation
    sample_weight : the weights of fit, if there were any
    confidence : what `kinfolk.explain.edge_confidence` returns, or a matrix (T, T) of numbers in [0, 1]; shown at the
        edges of the fitted graph
    callback : called with a `Progress` as parts are done

    Examples
    --------
    >>> from kinfolk import GAMTL
    >>> from kinfolk.datasets import make_groups
    >>> syn = make_groups(random_state=0)
    >>> summary = summarize(GAMTL(task=syn.task).fit(syn.data, syn.target))
    >>> summary["headline"][0], summary["view"]["kind"]
    ('20 tasks (column \u2068task\u2069), 400 rows, 30 features, fitted by GAMTL.', 'graph')
    """
    check_is_fitted(model, "coef_")
    names, group = plain_names(model.tasks_), task_groups(model)
    seen = _read(model, X, y, sample_weight) if X is not None and y is not None else None
    errors = None
    if seen is not None:
        errors = task_errors(as_model(model), seen.rows, seen.X, seen.gram, groups=groups, callback=callback)
    shown = _shown(model)
    view = view_of(model, group, shown, confidence=_confidence(confidence, shown, len(names)), callback=callback)
    features, kept = _features(model, len(shown))
    course = certificate(model)
    summary = {
        "title": title or f"{type(model).__name__}: {counted(len(names), 'task')}",
        "version": __version__,
        "palette": list(PALETTE),
        "outlier": OUTLIER,
        "headline": headline(model, names, group, errors),
        "view": view,
        **_tasks(model, names, group, errors, shown),
        "features": features,
        "spread": short(_spread(model)[kept]),
        "coef": short(model.coef_[np.ix_(shown, kept)]),
        "group_coef": [short(model.coef_[group == g][:, kept].mean(axis=0)) for g in range(group.max(initial=-1) + 1)],
        "points": None if seen is None else _points(model, seen, shown),
        "shares": top_shares(model),
        "limit": _limit(len(shown), len(names)),
        "errors": None if errors is None else errors.protocol,
        "course": {**course, "history": short(course["history"], 8)},
        "data": _data(model, seen, kept),
        "settings": settings(model),
    }
    report(callback, "report", 1, 1)
    return summary


def _read(model: MultiTaskRegressor, X: Any, y: Any, sample_weight: Any) -> _Seen:
    """Rows held against what fit saw."""
    columns = as_model(model).columns
    assert columns is not None
    read_for_predict(X, columns.schema, type(model).__name__)
    rows = read_rows(X, y, task=columns.task, sample_weight=sample_weight)
    if not np.isin(rows.schema.labels, model.tasks_).any():
        raise ValueError(
            f"none of the {counted(len(rows.schema.labels), 'task')} in X was seen in fit: pass the table that the "
            "model was fitted on, or another one with the same tasks"
        )
    features = columns.features(rows.table)
    names = getattr(getattr(model, "gram_", None), "feature_names", None)
    return _Seen(rows, features, rows.gram(features, names))


def _confidence(given: Any, shown: NDArray[np.intp], T: int) -> sparse.csr_array | None:
    """Confidence among the tasks shown."""
    if given is None:
        return None
    matrix = sparse.csr_array(getattr(given, "confidence", given))
    if matrix.shape != (T, T):
        raise ValueError(f"confidence has shape {matrix.shape}, expected ({T}, {T}): one number per pair of tasks")
    return sparse.csr_array(matrix[shown][:, shown])


def _shown(model: MultiTaskRegressor) -> NDArray[np.intp]:
    """Positions of the tasks that the page holds."""
    T, gram = len(model.tasks_), getattr(model, "gram_", None)
    rows = np.ones(T) if gram is None else gram.n
    return np.arange(T) if T <= SHOWN else np.sort(np.argsort(-rows, kind="stable")[:SHOWN])


def _limit(shown: int, T: int) -> str:
    if shown == T:
        return ""
    return f"The page holds the {shown:,} tasks with most rows, of {T:,}; sentences and groups are about all of them."


def _tasks(
    model: MultiTaskRegressor,
    names: list[str],
    group: NDArray[np.intp],
    errors: TaskErrors | None,
    shown: NDArray[np.intp],
) -> dict[str, Any]:
    """Columns of the table of tasks: key, heading and what it means, and the values by key."""
    columns: list[tuple[str, str, str, Any]] = [("group", "group", "a dash: stands alone", group.tolist())]
    gram = getattr(model, "gram_", None)
    if gram is not None:
        columns.append(("rows", "rows", "rows of the task in the fit", short(gram.n)))
    if model.structure_ is not None and model.structure_.kind == "graph":
        A = model.structure_.adjacency
        columns.append(("neighbors", "neighbours", "in the fitted graph", np.diff(A.indptr).tolist()))
        columns.append(("role", "role", "a bridge has much of its weight in other groups", role_names(model)))
        columns.append(("degree", "degree", "sum of edge weights", short(model.structure_.degree, 3)))
    if errors is not None:
        gain = np.where(errors.own > 0, 100 * (1 - errors.model / np.where(errors.own > 0, errors.own, 1.0)), np.nan)
        columns.append(("error", "error", "held-out RMSE of the model", short(errors.model)))
        columns.append(("own", "own ridge", "held-out RMSE of a ridge on this task's rows alone", short(errors.own)))
        columns.append(
            ("pooled", "common slopes", "held-out RMSE with one set of slopes for all", short(errors.pooled))
        )
        columns += [(key, key, "held-out RMSE", short(values)) for key, values in errors.others.items()]
        columns.append(("gain", "gain %", "by how much the error is below that of the own ridge", short(gain, 3)))
    values = {key: [column[t] for t in shown] for key, _, _, column in columns}
    return {
        "names": [names[t] for t in shown],
        "columns": [{"key": key, "label": label, "help": said} for key, label, said, _ in columns],
        "tasks": values | {"intercept": short(model.intercept_[shown])},
    }


def _features(model: MultiTaskRegressor, n_tasks: int) -> tuple[list[str], NDArray[np.intp]]:
    """Names and positions of the features whose coefficients are shown."""
    d = model.coef_.shape[1]
    given = getattr(getattr(model, "gram_", None), "feature_names", None)
    names = np.asarray([str(n) for n in given] if given else [f"feature {j}" for j in range(d)], dtype=object)
    most = max(NUMBERS // n_tasks, 10)
    kept = np.arange(d) if d <= most else np.sort(np.argsort(-model.coef_.std(axis=0), kind="stable")[:most])
    return plain_names(names[kept]), kept


def _spread(model: MultiTaskRegressor) -> Array:
    """Standard deviation of every feature within tasks; 1 where the statistics are not at hand."""
    gram = getattr(model, "gram_", None)
    return np.ones(model.coef_.shape[1]) if gram is None else feature_scale(gram)


def _points(model: MultiTaskRegressor, seen: _Seen, shown: NDArray[np.intp]) -> list[Any]:
    """Observed and predicted targets of every shown task, evenly spaced rows of those with many."""
    rows, labels = seen.rows, seen.rows.schema.labels
    most = int(np.clip(POINTS // len(shown), 10, POINTS_PER_TASK))
    observed = ~np.isnan(rows.y)
    if rows.codes is None:
        at = [np.flatnonzero(column) for column in observed.T]
    else:
        order = np.argsort(rows.codes, kind="stable")
        order = order[observed[order]]
        at = np.split(order, np.searchsorted(rows.codes[order], np.arange(1, len(labels))))
    by_label = dict(zip(labels.tolist(), at, strict=True))
    found: list[Any] = []
    for t in shown:
        index = by_label.get(model.tasks_[t : t + 1].tolist()[0], np.empty(0, np.intp))
        index = index[_evenly(len(index), most)]
        y = rows.y[index] if rows.codes is not None else rows.y[index, np.searchsorted(labels, model.tasks_[t])]
        found.append([short(y), short(seen.X[index] @ model.coef_[t] + model.intercept_[t])])
    return found


def _evenly(n: int, most: int) -> NDArray[np.intp]:
    return np.arange(n) if n <= most else np.linspace(0, n - 1, most).round().astype(np.intp)


def _data(model: MultiTaskRegressor, seen: _Seen | None, kept: NDArray[np.intp]) -> list[list[str]]:
    """The data in a few lines."""
    gram = seen.gram if seen is not None else getattr(model, "gram_", None)
    if gram is None:
        return []
    n = gram.n[gram.n > 0]
    mean = float(np.average(gram.y_mean[gram.n > 0], weights=n))
    within = float(np.sqrt(gram.yy.sum() / n.sum()))
    between = float(np.sqrt(np.average((gram.y_mean[gram.n > 0] - mean) ** 2, weights=n)))
    lines = [
        ["Rows", written(float(n.sum()))],
        ["Tasks with rows", f"{len(n):,} of {len(model.tasks_):,} in the model"],
        ["Rows per task", f"{written(n.min())} to {written(n.max())}, median {written(float(np.median(n)))}"],
        [
            "Features",
            f"{gram.n_features:,}"
            + (f" (the {len(kept):,} that vary most between tasks are shown)" if len(kept) < gram.n_features else ""),
        ],
        [
            "Target",
            f"mean {written(mean)}; standard deviation {written(within)} within tasks, {written(between)} between",
        ],
    ]
    strange = 0 if seen is None else int((~np.isin(gram.labels, model.tasks_)).sum())
    return lines + (
        [["Left out", f"{counted(strange, 'task')} in these rows that fit has not seen"]] if strange else []
    )
