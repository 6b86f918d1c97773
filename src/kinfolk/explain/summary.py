"""A fitted model as one labelled table: tasks, coefficients with standard errors, variance components, the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from kinfolk.explain.groups import TaskGroups
from kinfolk.judge.verdict import is_map, verdict_of
from kinfolk.methods.model import Fitted, Model, as_model
from kinfolk.rows.gram import Array, squared_errors
from kinfolk.solvers.mixed import mixed_model
from kinfolk.threads import on_few_threads
from kinfolk.words import (
    aligned,
    beginning,
    captioned,
    counted,
    html_table,
    middle_decimals,
    percent,
)

NINETY = 1.645  # standard errors on either side of a 90 % interval
UNKNOWNS = 5_000  # T times d up to which standard errors and variance components are worked out
ACCOUNT = 8  # sentences about groups that a fit prints
SAID = 20  # such sentences in a summary and on the page
SHOWN_TASKS = 30
SHOWN_FEATURES = 6
AT_MEAN = "level at mean inputs"
BETWEEN = "between tasks: "  # in the names of variance components


@dataclass(frozen=True, eq=False)
class Summary:
    """What `summary` returns; print it, show it in a notebook, or take its tables.

    Attributes
    ----------
    title : method, tasks, rows and features
    verdict : sentences: does sharing help, whom, by how much, what to do next
    groups : a sentence per group and per task that stands alone: what sets it apart
    columns : the table of tasks by column: rows, level, error, alone, gain, group, confidence
    coef, error : (T + 1, d + 1), intercept first; the last row is the population. Standard errors may be NaN
    names : of the features, the intercept first
    tasks : labels, the population last
    components : standard deviation between tasks of every coefficient, and that of the noise
    levels, level_error : (T + 1,), predictions at the mean of all inputs, which are printed in place of the intercepts
    ratio : what the exponential of a coefficient is, "odds ratio" or "rate ratio"; empty for numbers
    """

    title: str
    verdict: list[str]
    groups: list[str]
    tasks: list[Any]
    columns: dict[str, list[Any]]
    names: list[str]
    coef: Array
    error: Array
    components: dict[str, float]
    levels: Array
    level_error: Array
    ratio: str = ""

    def frame(self) -> Any:
        """One row per task and the population: what is known of it, then every coefficient with error and interval."""
        columns: dict[str, Any] = dict(self.columns)
        for j, name in enumerate(self.names):
            columns |= {name: self.coef[:, j], f"{name} se": self.error[:, j]}
            columns |= {f"{name} low": self.low[:, j], f"{name} high": self.high[:, j]}
        return as_frame(columns, self.tasks)

    def coefficients(self) -> Any:
        """One row per task and feature: coef, se, low, high; for classes and counts also its exponential."""
        d = len(self.names)
        columns = {
            "task": [task for task in self.tasks for _ in range(d)],
            "feature": self.names * len(self.tasks),
            **{"coef": self.coef.ravel(), "se": self.error.ravel()},
            **{"low": self.low.ravel(), "high": self.high.ravel()},
        }
        return as_frame(columns | ({self.ratio: np.exp(self.coef.ravel())} if self.ratio else {}))

    @property
    def low(self) -> Array:
        """Lower ends of the 90 % intervals."""
        return self.coef - NINETY * self.error

    @property
    def high(self) -> Array:
        """Upper ends of the 90 % intervals."""
        return self.coef + NINETY * self.error

    def sentences(self) -> list[str]:
        """The verdict, then what makes the largest groups and the first tasks that stand alone."""
        return [*self.verdict, *beginning(self.groups, SAID, "`groups` of this summary")]

    def __repr__(self) -> str:
        tables = "\n\n".join("\n".join([caption, *aligned(rows)]) for caption, rows in self._tables())
        return "\n".join([self.title, *self.sentences(), "", tables])

    def _repr_html_(self) -> str:
        items = "".join(f"<li>{escape(sentence)}</li>" for sentence in self.sentences())
        tables = "".join(html_table(rows, caption) for caption, rows in self._tables())
        return f'<div class="kinfolk"><b>{escape(self.title)}</b><ul>{items}</ul>{tables}</div>'

    def _tables(self) -> list[tuple[str, list[list[str]]]]:
        """Captions and cells, the head first: the tasks, their coefficients, the variance components."""
        shown = [*range(min(len(self.tasks) - 1, SHOWN_TASKS)), len(self.tasks) - 1]
        hidden = len(self.tasks) - len(shown)
        more = f"the first {SHOWN_TASKS}, {hidden:,} more in frame()" if hidden else ""
        return [self._table_of_tasks(shown, more), self._table_of_coefficients(shown, more)]

    def _table_of_tasks(self, shown: list[int], more: str) -> tuple[str, list[list[str]]]:
        like = {"error": self.columns.get("alone")}  # the two are compared
        written = [_cells(key, values, like.get(key) or values) for key, values in self.columns.items()]
        lines = ([str(self.tasks[t]), *(column[t] for column in written)] for t in shown)
        return captioned("Tasks", more), [["task", *self.columns], *lines]

    def _table_of_coefficients(self, shown: list[int], more: str) -> tuple[str, list[list[str]]]:
        """Of the features that differ most, with the levels in place of the intercepts."""
        varies = np.abs(self.coef[:-1, 1:]).std(axis=0) if len(self.tasks) > 2 else np.zeros(len(self.names) - 1)
        features = [0, *sorted(1 + np.argsort(-varies, kind="stable")[:SHOWN_FEATURES])]
        style = {j: f".{middle_decimals(self.coef[:, j] if j else self.levels, 3)}f" for j in features}
        head = ["task", *(self.names[j] if j else AT_MEAN for j in features)]
        lines = [[str(self.tasks[t]), *(self._interval(t, j, style[j]) for j in features)] for t in shown]
        if self.ratio:
            lines.append([f"{self.ratio}s", *(self._ratio(j) if j else "" for j in features)])
        noise = ""
        if self.components:
            deviations = [self.components.get(BETWEEN + self.names[j]) for j in features]
            cells = (_sd_cell(sd, style[j]) for sd, j in zip(deviations, features, strict=True))
            lines.append(["sd between tasks", *cells])
            noise = f"; standard deviation of the noise {self.components['noise']:.3g}"
            if self.ratio:  # of working targets: what targets vary, over what their family says
                noise = f"; dispersion {self.components['noise'] ** 2:.3g}"
        few = len(features) < len(self.names)
        of = f"the {SHOWN_FEATURES} of {len(self.names) - 1} features that differ most" if few else ""
        return captioned("Coefficients with 90 % intervals", of, more) + noise, [head, *lines]

    def _interval(self, t: int, j: int, style: str) -> str:
        value, error = (self.coef[t, j], self.error[t, j]) if j else (self.levels[t], self.level_error[t])
        if not np.isfinite(error):
            return f"{value:{style}}"
        return f"{value:{style}} [{value - NINETY * error:{style}}, {value + NINETY * error:{style}}]"

    def _ratio(self, j: int) -> str:
        """The exponential of a coefficient of the population, with its interval."""
        with np.errstate(over="ignore"):
            low, value, high = np.exp([self.low[-1, j], self.coef[-1, j], self.high[-1, j]])
        return f"{value:.3g} [{low:.3g}, {high:.3g}]" if np.isfinite(low) else f"{value:.3g}"


def _sd_cell(sd: float | None, style: str) -> str:
    """How much a coefficient differs between tasks; None if it is one for all by nature."""
    return "one for all" if sd is None else f"{sd:{style}}"


@on_few_threads
def summary(model: Fitted) -> Summary:
    """Everything that a fit found, as one labelled table.

    Standard errors are those of the posterior that also gives `predict(return_std=True)` its widths: they hold the
    noise and what pulling towards other tasks may have cost. They are NaN for methods that are not linear in their
    targets, and for more than 5,000 coefficients.

    Parameters
    ----------
    model : a fitted estimator, or its `model_`

    Examples
    --------
    >>> from kinfolk.baselines import Pooled
    >>> X = np.array([["a", 0.0], ["a", 1.0], ["a", 2.0], ["b", 0.0], ["b", 1.0], ["b", 3.0]], dtype=object)
    >>> found = summary(Pooled(task=0, penalty=0.0).fit(X, [1.0, 3.0, 5.0, 4.0, 6.0, 10.0]))
    >>> found.title, found.coef.round(3).tolist()
    ('Pooled: 2 tasks, 6 rows, 1 feature', [[1.0, 2.0], [4.0, 2.0], [2.5, 2.0]])
    """
    model = as_model(model, "summary")
    names = ["intercept", *model.feature_names]
    coef = np.column_stack([model.intercept, model.coef])
    population = np.append(model.population.intercept, model.population.coef)
    error = standard_errors(model)
    components = variance_components(model)
    # The mean of T tasks is off by their scatter and by their errors, both over T.
    scatter = np.array([components.get(BETWEEN + name, np.nan) for name in names])
    count = max(int(model.seen.sum()), 1)
    of_mean = np.sqrt((scatter**2 + np.mean(error[model.seen] ** 2, axis=0)) / count)
    groups = TaskGroups.of(model)
    return Summary(
        title=title(model),
        verdict=verdict_of(model),
        groups=groups.lines(),
        tasks=[*model.labels.tolist(), "population"],
        columns=_columns(model, groups),
        names=names,
        coef=np.vstack([coef, population]),
        error=np.vstack([error, of_mean]),
        components=components,
        levels=np.append(model.levels, model.population.intercept + model.population.coef @ model.mean_features),
        level_error=np.append(level_errors(model), np.nan),
        ratio=model.target.ratio,
    )


def coef_frame(model: Fitted) -> Any:
    """Coefficients by task and feature, intercept first: a pandas frame, or a dict of columns without pandas.

    Of several classes every task has a row for each, which the first column names.

    Examples
    --------
    >>> from kinfolk.baselines import Pooled
    >>> X = np.array([["a", 0.0], ["a", 1.0], ["b", 0.0], ["b", 1.0]], dtype=object)
    >>> list(coef_frame(Pooled(task=0).fit(X, [1.0, 3.0, 4.0, 6.0])))
    ['intercept', 'x0']
    """
    model = as_model(model, "coef_frame")
    names = get_feature_names_out(model)
    classes = model.by_class or (model,)
    coef = np.concatenate([one.attributes["coef_"] for one in classes])
    columns = {"intercept": np.concatenate([one.intercept for one in classes]), **dict(zip(names, coef.T, strict=True))}
    if model.classes is not None and model.by_class:
        columns = {"class": np.repeat(model.classes, len(model.labels)), **columns}
    return as_frame(columns, model.labels.tolist() * len(classes))


def get_feature_names_out(model: Fitted, input_features: Any = None) -> Any:
    """Names of the columns of `coef_`: the features without the task, after any transformer."""
    model = as_model(model, "get_feature_names_out")
    return np.asarray(model.feature_names[model.curve_terms :], dtype=object)


def title(model: Model) -> str:
    """Method, tasks, rows and features."""
    T, d = model.attributes["coef_"].shape[-2:]
    rows = "" if model.gram is None else f", {counted(round(float(model.rows.sum())), 'row')}"
    return f"{model.name}: {counted(T, 'task')}{rows}, {counted(d, 'feature')}"


@on_few_threads
def account(fitted: Fitted, method: str, seconds: float, cross_validated: float | None = None) -> list[str]:
    """What a fit found, line by line: the command line prints it, and so does verbose=1."""
    model = as_model(fitted, "summary")
    model.statistics("the account of a fit")
    took = "less than 1 s" if seconds < 1 else f"{seconds:.0f} s"
    rows = counted(round(float(model.rows.sum())), "row")
    inputs = len(model.feature_names) if model.columns is None else model.columns.inputs
    size = f"{rows}, {counted(len(model.labels), 'task')}, {counted(inputs, 'feature column')}"
    if cross_validated is None and model.held_out is not None:
        cross_validated = float(np.nanmean(model.held_out.errors))
    kind = model.target.error
    error = f"{kind} on the training rows"
    if model.target.is_plain:
        error = f"error on the training rows (RMSE): {training_error(model):.4g}"
    if cross_validated is not None:
        error = f"cross-validated error ({kind}, mean over tasks): {cross_validated:.4g}"
    groups = TaskGroups.of(model)
    picture = f"{'map' if is_map(model) else 'graph'}: {groups.in_short()}"
    about = beginning(groups.lines(), ACCOUNT, "summary() or the report")
    return [f"fitted {method} on {size} in {took}", error, *verdict_of(model), picture, *about]


def training_error(model: Model) -> float:
    """RMSE over the rows of the fit, from their statistics."""
    gram = model.statistics("the training error")
    errors = squared_errors(gram, model.coef, model.intercept)
    return float(np.sqrt(np.maximum(errors, 0.0).sum() / gram.n.sum()))


def standard_errors(model: Model) -> Array:
    """Of intercept and slopes, (T, d + 1); NaN where they are not known."""
    errors = np.full((len(model.labels), model.coef.shape[1] + 1), np.nan)
    if model.gram is not None and model.parts and model.coef.size <= UNKNOWNS:
        errors[model.seen] = model.uncertainty.of_coefficients()
    return errors


def level_errors(model: Model) -> Array:
    """Standard errors (T,) of the levels at mean inputs; NaN where they are not known."""
    errors = np.full(len(model.labels), np.nan)
    if model.gram is not None and model.parts and model.coef.size <= UNKNOWNS:
        errors[model.seen] = model.uncertainty.of_levels(model.mean_features)
    return errors


def variance_components(model: Model) -> dict[str, float]:
    """Standard deviations of a mixed model of the same rows: of every coefficient between tasks, and of the noise."""
    if model.gram is None or model.coef.size > UNKNOWNS or model.seen.sum() < 2:
        return {}
    effects = mixed_model(model.known)
    between = [effects.intercept_sd, *effects.relevance.tolist()]
    names = ["intercept", *model.feature_names]
    differs = [True, *(~model.known.common()).tolist()]  # features of whole tasks have no slope that could differ
    deviations = {BETWEEN + name: float(sd) for name, sd, varies in zip(names, between, differs, strict=True) if varies}
    return deviations | {"noise": float(np.sqrt(effects.sigma2))}


def _columns(model: Model, groups: TaskGroups) -> dict[str, list[Any]]:
    """The table of tasks: what is known of each, None for the population where it has no such number."""
    columns: dict[str, Any] = {}
    if model.gram is not None:
        rows = model.rows
        columns["rows"] = [*rows.tolist(), float(rows.sum())]
        means = model.target_means
        columns["level"] = [*means.tolist(), float(np.average(np.nan_to_num(means), weights=rows))]
    if model.held_out is not None:
        errors = model.held_out.errors
        columns["error"] = [*errors.tolist(), float(np.nanmean(errors))]
        ridge = None if model.report is None else model.report.versus_ridge
        if ridge is not None and np.isfinite(ridge.errors).any():
            own = ridge.errors
            columns["alone"] = [*own.tolist(), float(np.nanmean(own))]
            gain = np.divide(own - errors, own, out=np.zeros_like(errors), where=own != 0)
            columns["gain"] = [*gain.tolist(), ridge.gain.mean]
    if model.trunk is not None:
        columns["trunk"] = [*model.trunk.shares.tolist(), model.trunk.share]
    if model.structure is not None and groups.stand_out:
        columns["group"] = [*(int(g) + 1 if g >= 0 else None for g in groups.number), None]
    if groups.kin is not None and groups.kin.found:
        columns["confidence"] = [*groups.kin.probability.max(axis=1).tolist(), None]  # in the surest of its kin
    return columns


def as_frame(columns: dict[str, Any], index: Sequence[Any] | None = None) -> Any:
    """A pandas frame; without pandas the columns themselves, the index first as "task"."""
    try:
        import pandas as pd
    except ImportError:
        return columns if index is None else {"task": list(index), **columns}
    return pd.DataFrame(columns, index=None if index is None else pd.Index(index, name="task"))


def _cells(key: str, values: Sequence[Any], like: Sequence[Any]) -> list[str]:
    """A column of the table of tasks; all its numbers have the decimals that those of `like` need."""
    styles = {"gain": lambda value: percent(value, sign=True), "trunk": "{:.0%}".format, "confidence": "{:.2f}".format}
    known = [value for value in like if value is not None and np.isfinite(value)]
    whole = all(value == round(value) for value in known)
    style = styles.get(key, f"{{:,.{0 if whole else middle_decimals(known, 4)}f}}".format)
    return ["–" if value is None or not np.isfinite(value) else style(value) for value in values]
