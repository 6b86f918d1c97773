"""kinfolk fit: a table becomes a model file and a report; what is not set by hand is chosen by cross-validation."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from kinfolk.cli.console import Console
from kinfolk.cli.methods import parse_settings
from kinfolk.cli.outputs import check_outputs
from kinfolk.cli.tables import Training, in_database, open_table, read_files, training_rows, wants_stream
from kinfolk.explain.summary import account, training_error, verdict_of
from kinfolk.files import is_special
from kinfolk.judge.contestants import find_method
from kinfolk.judge.tuning import cross_validated_error, fit_tuned, open_grid
from kinfolk.memory import in_words
from kinfolk.methods.method import MultiTaskRegressor
from kinfolk.methods.registry import all_methods
from kinfolk.progress import Callback
from kinfolk.rows.kinds import WORDS
from kinfolk.rows.tables import task_name
from kinfolk.rows.tasks import read_rows


def run(options: argparse.Namespace, console: Console) -> None:
    """Read, fit, save, report, and say what was found. Whatever can be wrong with the file is found first."""
    source = None if in_database(options) else open_table(options, console)
    out = options.out or (source.root if source else Path(options.data.name)).with_suffix(".kin")
    outputs = {"--out": (out, "model"), "--report": (options.report, "page")}
    check_outputs(outputs, options, console, inputs=(source.root,) if source else read_files(options.data))
    in_blocks = source is None or wants_stream(source, options)
    if in_blocks and options.report:
        console.note("no report is written, since it needs the rows in memory: use kinfolk report on a part of them")
    rows = training_rows(source, options, console, lazy=in_blocks) if source else None
    started = perf_counter()
    model, error = fit(rows, options, console, in_blocks=in_blocks)
    seconds = perf_counter() - started
    model.save(out)
    report = write_page(model, rows, options, console) if rows and options.report and not in_blocks else None
    kinds = rows.rules.found_kinds if rows else {}
    encoded = [name for name, kind in kinds.items() if kind in WORDS]
    method = find_method(options.method)
    size = "" if is_special(out) else f" ({in_words(out.stat().st_size)})"
    for line in (*account(model.model_, method, seconds, error), f"model:  {out}{size}"):
        console.say(line)
    if report:
        console.say(f"report: {report}")
    record = record_of(model, method, error) | {"encoded": encoded}
    console.result(record | {"seconds": seconds, "model": str(out), "report": report})


def fit(
    rows: Training | None, options: argparse.Namespace, console: Console, *, in_blocks: bool
) -> tuple[MultiTaskRegressor, float | None]:
    """The fitted model, and its cross-validated error if it has one."""
    plan = plan_of(options)
    if rows is None:
        return fit_in_database(plan, options, console)
    if in_blocks:
        return fit_in_blocks(plan, rows, options, console)
    return plan.fit(rows, options.task, console.callback)


def write_page(model: MultiTaskRegressor, rows: Training, options: argparse.Namespace, console: Console) -> str:
    """The report about the rows of the fit; returns its path."""
    from kinfolk.report import write_report

    title = f"{options.target} by {options.task}, {options.data.name}"
    write_report(model, rows.X, rows.y, options.report, title=title, groups=rows.groups, callback=console.callback)
    return str(options.report)


def record_of(model: MultiTaskRegressor, method: str, error: float | None) -> dict[str, Any]:
    """What a fit found, for other programs."""
    record: dict[str, Any] = {
        "method": method,
        "rows": int(model.gram_.n.sum()),
        "tasks": len(model.tasks_),
        "inputs": [name for name in model.feature_names_in_ if name != task_name(model.task)],
        "rmse_cv": error,
        "rmse_training": training_error(model.model_),
        "verdict": verdict_of(model.model_),
    }
    if hasattr(model, "graph_helps_"):
        record |= {"graph_helps": model.graph_helps_, "gain": model.gain_.mean, "gain_se": model.gain_.standard_error}
    graph = model.structure_
    if hasattr(graph, "communities"):
        record |= {"edges": len(graph.edges()), "groups": graph.communities(), "outliers": graph.outliers()}
    return record


@dataclass(frozen=True)
class Plan:
    """A method, the parameters set by hand, and the folds that choose the others."""

    method: str
    settings: dict[str, Any]
    cv: int
    seed: int
    jobs: int = 1

    @property
    def scales_itself(self) -> bool:
        """Whether the method needs no scaler before it."""
        return all_methods()[self.method].scales_itself

    def estimator(self, task: str, features: Any, callback: Callback | None = None) -> MultiTaskRegressor:
        """The estimator, which cross-validates inside fit if it can."""
        cls = all_methods()[self.method]
        own = {"task": task, "features": features, "random_state": self.seed, "n_jobs": self.jobs, "callback": callback}
        if self.cv:
            own |= {"cv": self.cv, "penalty": "cv", "scoring": "tasks"}
        known = cls().get_params(deep=False)
        return cls(**{**{name: value for name, value in own.items() if name in known}, **self.settings})

    def grid(self) -> dict[str, Any]:
        """Values to try of the parameters that were not set, for methods that do not cross-validate themselves."""
        cls = all_methods()[self.method]
        if not self.cv or "cv" in cls().get_params(deep=False):
            return {}
        return open_grid(cls(), self.settings)

    def fit(
        self, rows: Training, task: str, callback: Callback | None = None
    ) -> tuple[MultiTaskRegressor, float | None]:
        """The fitted model and, where one was chosen by it, its cross-validated error: RMSE, mean over tasks."""
        features = rows.features(scale=not self.scales_itself)
        return fit_tuned(
            self.estimator(task, features, callback),
            read_rows(rows.X, rows.y, task=task),
            cv=self.cv,
            groups=rows.groups,
            random_state=self.seed,
            n_jobs=self.jobs,
            fixed=self.settings,
            callback=callback,
        )


def fit_in_blocks(
    plan: Plan, rows: Training, options: argparse.Namespace, console: Console
) -> tuple[MultiTaskRegressor, float | None]:
    """The model fitted from the statistics of a table that is read in blocks."""
    from kinfolk.large.files import fit_source
    from kinfolk.large.transformers import FeaturePlan, plan_features
    from kinfolk.rows.rules import TableRules

    source = rows.source
    console.note(f"{source.root.name} ({in_words(source.size)}) is read in blocks")
    if plan.grid():
        console.note(f"{plan.method} takes the parameters that are not --set as they are by default")
    features = rows.features(scale=not plan.scales_itself)
    model = plan.estimator(options.task, features, console.callback)
    if isinstance(features, TableRules):
        reading = FeaturePlan(features.fit(rows.X), tuple(features.get_feature_names_out()))
    else:
        reading = plan_features(model, rows.roles.features)
    names = list(rows.X.collect_schema())
    fit_source(model, source, names, rows.roles, reading, frame=rows.X, n_jobs=max(2, plan.jobs))
    return model, cross_validated_error(model)


def fit_in_database(
    plan: Plan, options: argparse.Namespace, console: Console
) -> tuple[MultiTaskRegressor, float | None]:
    """The model fitted from statistics that a database computes; no row leaves it."""
    import narwhals as nw
    from sklearn.preprocessing import StandardScaler

    from kinfolk.large.frames import fit_lazy
    from kinfolk.rows.sources.databases import connected, question

    console.note(f"{options.data.name} computes the statistics: all features must be numbers")
    features = None if plan.scales_itself else StandardScaler()
    model = plan.estimator(options.task, features, console.callback)
    with connected(options.data) as connection:
        frame = nw.from_native(connection.sql(question(options.data, connection, options.query)))
        fit_lazy(model, frame.drop(options.drop).to_native(), options.target, options.groups)
    return model, cross_validated_error(model)


def plan_of(options: argparse.Namespace) -> Plan:
    """The method that the options ask for."""
    method = find_method(options.method)
    always = all_methods()[method]().wants_folds()
    if options.cv < 0 or options.cv == 1 or (options.cv == 0 and always):
        least = "2" if always else "2, or 0 for none"
        raise ValueError(f"--cv {options.cv}: {method} needs at least {least} folds")
    return Plan(method, parse_settings(method, options.set), options.cv, options.seed, options.jobs)
