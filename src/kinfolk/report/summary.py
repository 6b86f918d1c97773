"""A fitted model as a plain dict: everything the page shows, and nothing that JSON cannot hold."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinfolk._version import __version__
from kinfolk.explain.contributions import contributions
from kinfolk.explain.groups import TaskGroups
from kinfolk.explain.kin import kinship
from kinfolk.explain.summary import SAID, standard_errors
from kinfolk.judge.verdict import is_map, task_word
from kinfolk.methods.gamtl.defaults import feature_scale
from kinfolk.methods.model import Fitted, Model, as_model
from kinfolk.plots import OUTLIER, PALETTE
from kinfolk.progress import Callback, report
from kinfolk.report.errors import TaskErrors, means_of_rows, of_first_class, task_errors
from kinfolk.report.plain import in_text, plain_names, short
from kinfolk.report.views import view_of
from kinfolk.report.words import certificate, chain, effect_word, headline, page_verdict, settings, units
from kinfolk.rows.classes import numbers_of
from kinfolk.rows.gram import Array, GramStats
from kinfolk.rows.table import Rows, read_table, task_codes
from kinfolk.store.private import without_rare
from kinfolk.words import beginning, counted, written

NUMBERS = 200_000  # coefficients that the page holds; of more features those that vary most between tasks
POINTS = 60_000  # observed and predicted pairs that the page holds, all tasks together
POINTS_PER_TASK = 60
SHOWN = 2_500  # tasks that the page holds: those with most rows
UNKNOWNS = 4_000  # T times d up to which contributions are computed: the inverse of the system is then held whole
FIXED = {"version": __version__, "palette": list(PALETTE), "outlier": OUTLIER}  # the same for every model
MAP = "This graph is a map of who is alike: it has no noticeable part in the predictions."
LISTED = 10  # tasks listed beside a task, by their share


class _Seen(NamedTuple):
    """Rows given for the report: checked, with features and statistics."""

    rows: Rows
    X: Array
    gram: GramStats


def summarize(
    fitted: Fitted,
    X: Any = None,
    y: Any = None,
    *,
    title: str | None = None,
    groups: Any = None,
    sample_weight: Any = None,
    confidence: Any = None,
    private: bool = False,
    callback: Callback | None = None,
) -> dict[str, Any]:
    """Everything a report says about a fitted model, as plain data.

    Parameters
    ----------
    fitted : a fitted estimator of the package, or its `model_`
    X, y : rows for errors and predictions: those of fit, which are then cross-validated, or a test set. Without them
        the report leaves both out
    title : heading of the page
    groups : one label per row (sitting, day), kept on one side by cross-validation
    sample_weight : the weights of fit, if there were any
    confidence : what `kinfolk.explain.edge_confidence` returns, or a matrix (T, T) of numbers in [0, 1]; shown at the
        edges of the fitted graph. By default that of `kinfolk.explain.kinship`, up to 400 tasks
    private : leave out observed targets and predictions of single rows, and the names and coefficients of categories of
        few rows; refuse tasks of few rows, as `kinfolk.store.save` does
    callback : called with a `Progress` as parts are done

    Examples
    --------
    >>> from kinfolk import GAMTL
    >>> from kinfolk.datasets import make_groups
    >>> syn = make_groups(random_state=0)
    >>> summary = summarize(GAMTL(task=syn.task).fit(syn.data, syn.target))
    >>> summary["headline"][-1], summary["view"]["kind"]
    ('GAMTL: 20 tasks, 400 rows, 30 features (column \u2068task\u2069).', 'graph')
    """
    model = _whole(fitted)
    names = plain_names(model.labels)
    seen = _read(model, X, y, sample_weight)
    errors = None if seen is None else task_errors(model, *seen, groups=groups, callback=callback)
    model = without_rare(model) if private else model
    shown = _shown(model)
    groups_of = TaskGroups(model, kinship(model) if confidence is None and model.structure is not None else None)
    group = groups_of.colours
    sure = _confidence(groups_of.kin if confidence is None else confidence, shown, len(names))
    features = _features(model, len(shown))
    summary = {
        "title": title or f"{model.name}: {counted(len(names), 'task')}",
        **FIXED,
        **_sentences(groups_of, names, errors),
        "view": view_of(model, group, shown, confidence=sure, callback=callback),
        "names": [names[t] for t in shown],
        **_table(model, group, errors, shown),
        **_coefficients(model, group, shown, features),
        "points": _points(model, None if private else seen, shown),
        "shares": top_shares(model) if len(shown) == len(names) else None,
        "limit": _limit(len(shown), len(names)),
        "errors": None if errors is None else errors.protocol,
        "data": _data(model, seen, len(features)),
        "settings": settings(model),
    }
    report(callback, "report", 1, 1)
    return summary


def _whole(fitted: Fitted) -> Model:
    """A fitted model, if its file has not left out what the report is made of."""
    model = as_model(fitted, "report")
    if model.private:
        model.statistics("the report")
    return model


def _sentences(groups: TaskGroups, names: list[str], errors: TaskErrors | None) -> dict[str, Any]:
    """What the report says in words: the verdict, its effect, what makes every group, and how the fit went."""
    model = groups.model
    verdict = page_verdict(model, names, errors)
    return {
        "groupless": not groups.stand_out,
        "headline": headline(groups, names, errors),
        "effect": effect_word(verdict),
        "gains": chain(verdict),
        "map": MAP if is_map(model) else "",
        "ridge": f"straight-line ridge per {task_word(model)}",
        "kinds": beginning(groups.each([in_text(name) for name in names]), SAID, "model.summary().groups"),
        "course": certificate(model),
        "loss": model.target.error,
        "units": units(model),
    }


def _read(model: Model, X: Any, y: Any, sample_weight: Any) -> _Seen | None:
    """Rows like those of fit, and their statistics; None without rows."""
    if X is None or y is None:
        return None
    if model.columns is None:
        raise ValueError("this model was fitted on statistics, not on a table: give neither X nor y")
    if getattr(model.method, "classifies", False) and model.classes is not None:
        table = read_table(X)
        X, y = table.split(y) if isinstance(y, str) else (X, y)
        y = numbers_of(y, model.classes)
    rows, features = model.columns.read_with_targets(X, y, model.name, sample_weight)
    if not np.isin(rows.schema.labels, model.labels).any():
        raise ValueError(
            f"none of the {counted(len(rows.schema.labels), 'task')} in X was seen in fit: pass the table that the "
            "model was fitted on, or another one with the same tasks"
        )
    names = None if model.gram is None else model.gram.feature_names
    return _Seen(rows, features, of_first_class(rows, model).gram(features, names))


def _confidence(given: Any, shown: NDArray[np.intp], T: int) -> sparse.csr_array | None:
    """Confidence among the tasks shown."""
    if given is None:
        return None
    matrix = sparse.csr_array(getattr(given, "confidence", given))
    if matrix.shape != (T, T):
        raise ValueError(f"confidence has shape {matrix.shape}, expected ({T}, {T}): one number per pair of tasks")
    return sparse.csr_array(matrix[shown][:, shown])


def _shown(model: Model) -> NDArray[np.intp]:
    """Positions of the tasks that the page holds."""
    rows = np.ones(len(model.labels)) if model.gram is None else model.rows
    return np.sort(np.argsort(-rows, kind="stable")[:SHOWN])


def _limit(shown: int, T: int) -> str:
    if shown == T:
        return ""
    return f"The page holds the {shown:,} tasks with most rows, of {T:,}; sentences and groups are about all of them."


def _table(model: Model, group: NDArray[np.intp], errors: TaskErrors | None, shown: NDArray[np.intp]) -> dict[str, Any]:
    """Columns of the table of tasks: key, heading and what it means, and the values by key."""
    columns: list[tuple[str, str, str, Any]] = [("group", "group", "a dash: stands alone", group.tolist())]
    if model.gram is not None:
        columns.append(("rows", "rows", "rows of the task in the fit", short(model.rows)))
        columns.append(
            (
                "level",
                "level",
                "what the model predicts at the mean of all inputs",
                short(model.target.mean(model.levels)),
            )
        )
    if model.structure is not None and not model.structure.edges_are:
        graph = model.structure.graph()
        columns += [
            ("neighbors", "neighbours", "in the fitted graph", np.diff(graph.adjacency.indptr).tolist()),
            ("degree", "degree", "sum of edge weights", short(graph.degree, 3)),
        ]
    if errors is not None:
        error = model.target.error
        own = np.where(errors.own > 0, errors.own, np.nan)
        columns += [
            ("error", "error", f"held-out {error} of the model", short(errors.model)),
            ("own", "own ridge", f"held-out {error} of a ridge on this task's rows alone", short(errors.own)),
            ("pooled", "common slopes", f"held-out {error} with one set of slopes for all", short(errors.pooled)),
            *((key, key, f"held-out {error}", short(values)) for key, values in errors.others.items()),
            ("gain", "gain %", "error below that of the own ridge", short(100 * (1 - errors.model / own), 3)),
        ]
    if model.trunk is not None:
        columns.append(
            ("trunk", "trees %", "share of boosted trees in its predictions", short(100 * model.trunk.shares, 3))
        )
    values = {key: [column[t] for t in shown] for key, _, _, column in columns}
    return {
        "columns": [{"key": key, "label": label, "help": text} for key, label, text, _ in columns],
        "tasks": values,
    }


def _features(model: Model, n_tasks: int) -> NDArray[np.intp]:
    """Positions of the features whose coefficients are shown."""
    most = max(NUMBERS // n_tasks, 10)
    return np.sort(np.argsort(-model.coef.std(axis=0), kind="stable")[:most])


def _coefficients(
    model: Model, group: NDArray[np.intp], shown: NDArray[np.intp], features: NDArray[np.intp]
) -> dict[str, Any]:
    """Coefficients of the tasks and their groups, with names and standard deviations of the features."""
    d = model.coef.shape[1]
    scale = np.ones(d) if model.gram is None else feature_scale(model.gram)
    W = model.coef[:, features]
    error = standard_errors(model)[:, 1:][np.ix_(shown, features)]
    texts = np.array(model.feature_names, dtype=object)
    return {
        "features": plain_names(texts[features]),
        "spread": short(scale[features]),
        "coef": short(W[shown]),
        "coef_se": short(error, 3) if np.isfinite(error).any() else None,  # some methods have none
        "group_coef": [short(W[group == g].mean(axis=0)) for g in range(group.max(initial=-1) + 1)],
    }


def _points(model: Model, seen: _Seen | None, shown: NDArray[np.intp]) -> list[Any] | None:
    """Observed and predicted targets of every shown task, evenly spaced rows of those with many; None without rows."""
    if seen is None:
        return None
    most = int(np.clip(POINTS // len(shown), 10, POINTS_PER_TASK))
    at = of_first_class(seen.rows, model).targets()
    codes = task_codes(seen.rows.schema.labels, model.labels, "mean")[at.codes]
    order = np.argsort(codes, kind="stable")
    ends = np.searchsorted(codes[order], [shown, shown + 1])
    points: list[Any] = []
    plain = model.target.is_plain
    known = np.empty(0) if plain else means_of_rows(model, seen.rows)
    for t, start, end in zip(shown, *ends, strict=True):
        index = order[start:end]
        if len(index) > most:
            index = index[np.linspace(0, len(index) - 1, most).round().astype(np.intp)]
        means = model.predict(seen.X[at.row[index]], np.full(len(index), t)) if plain else known[index]
        points.append([short(at.y[index]), short(means)])
    return points


def _data(model: Model, seen: _Seen | None, n_features: int) -> list[list[str]]:
    """The data in a few lines."""
    gram = model.gram if seen is None else seen.gram
    if gram is None:
        return []
    known = model.target.is_plain or seen is not None
    # Statistics of working targets have other weights than rows, and no targets.
    gram = gram if known else replace(gram, n=model.rows)
    tasks = gram.with_rows()
    mean = float(np.average(tasks.y_mean, weights=tasks.n))
    within = written(float(np.sqrt(tasks.yy.sum() / tasks.n.sum())))
    between = written(float(np.sqrt(np.average((tasks.y_mean - mean) ** 2, weights=tasks.n))))
    few, typical, many = (written(float(size)) for size in np.quantile(tasks.n, [0, 0.5, 1]))
    part = ""
    if n_features < gram.n_features:
        part = f" (the {n_features:,} that vary most between tasks are shown)"
    lines = [
        ["Rows", written(float(tasks.n.sum()))],
        ["Tasks with rows", f"{tasks.n_tasks:,} of {len(model.labels):,} in the model"],
        ["Rows per task", f"{few} each" if few == many else f"{few} to {many}, median {typical}"],
        ["Features", f"{gram.n_features:,}{part}"],
    ]
    if known:
        words = f"mean {written(mean)}; standard deviation {within} within tasks, {between} between"
        lines.append(["Target", words])
    strange = int((~np.isin(gram.labels, model.labels)).sum())
    if strange:
        lines.append(["Left out", f"{counted(strange, 'task')} in these rows that fit has not seen"])
    return lines


def top_shares(model: Model) -> list[Any] | None:
    """For every task whose data made its coefficients; None for a method that is not linear in the targets.

    An entry is [positions of tasks, their shares, largest first, share of the penalty, share of its own rows, share of
    the trunk]; None for tasks without rows.
    """
    if not model.parts or model.coef.size > UNKNOWNS or len(model.labels) < 2:
        return None
    split = contributions(model)
    position = np.searchsorted(model.labels, split.sources)
    tasks = np.searchsorted(model.labels, split.tasks)
    listed: list[Any] = [None] * len(model.labels)
    own = (split.shares * (position == tasks[:, None])).sum(axis=1)
    largest = np.argsort(-np.abs(split.shares), axis=1, kind="stable")[:, :LISTED]
    for k, (t, sources) in enumerate(zip(tasks, largest, strict=True)):
        others = short([split.prior[k], own[k], split.trunk[k]], 3)
        listed[t] = [position[sources].tolist(), short(split.shares[k, sources], 3), *others]
    return listed
