"""kinfolk fit: a table becomes a model file and a report; what is not set by hand is chosen by cross-validation."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from kinfolk.cli.console import Console
from kinfolk.cli.methods import parse_settings
from kinfolk.cli.outputs import check_outputs
from kinfolk.cli.report import write_page
from kinfolk.cli.tables import Training, in_database, open_table, read_files, training_rows, wants_stream
from kinfolk.explain.summary import account, training_error
from kinfolk.files import is_special
from kinfolk.judge.contestants import find_method, with_known
from kinfolk.judge.tuning import cross_validated_error, fit_tuned, open_grid
from kinfolk.judge.verdict import verdict_of
from kinfolk.memory import in_words
from kinfolk.methods.method import MultiTaskRegressor
from kinfolk.methods.registry import all_methods
from kinfolk.methods.remarks import kind_of_target
from kinfolk.methods.search_report import Gain
from kinfolk.progress import LONG, rest_of_fit
from kinfolk.rows.table import task_name
from kinfolk.rows.texts import WORDS
from kinfolk.sources.files import polars


def run(options: argparse.Namespace, console: Console) -> None:
    """Read, fit, save, report, and say what was found. Whatever can be wrong with the file is found first."""
    source = None if in_database(options) else open_table(options, console)
    out = options.out or beside(source.root if source else options.data.table)
    outputs = {"--out": (out, "model"), "--report": (options.report, "page")}
    check_outputs(outputs, options, console, inputs=(source.root,) if source else read_files(options.data))
    in_blocks = source is None or wants_stream(source, options)
    if source is None and options.report:
        console.note("no report is written, since no row leaves the database: use kinfolk report on some of them")
    rows = training_rows(source, options, console, lazy=in_blocks) if source else None
    started = perf_counter()
    model, error, rows = fitted(rows, options, console, in_blocks=in_blocks)
    seconds = perf_counter() - started
    if seconds > LONG:
        console.note(rest_of_fit(seconds, "the report with the verdict" if options.report else "the verdict"))
    model.save(out, private=options.private)
    page = options.report if rows else None
    if rows and page:
        write_page(model, rows.X, rows.y, rows.groups, page, options, console)
    kinds = rows.rules.found_kinds if rows else {}
    encoded = [name for name, kind in kinds.items() if kind in WORDS]
    size = "" if is_special(out) else f" ({in_words(out.stat().st_size)})"
    for line in (*account(model.model_, model.name, seconds, error), f"model:  {out}{size}"):
        console.say(line)
    if page:
        console.say(f"report: {page}")
    record = record_of(model, error) | {"encoded": encoded}
    console.result(record | {"seconds": seconds, "model": str(out), "report": page and str(page)})


def beside(table: Path) -> Path:
    """The model that belongs to a table, if no other name is given."""
    if table.name in ("", ".."):
        raise ValueError(
            f"the folder {str(table)!r} has no name for the model: give one outside it, --out ../model.kin"
        )
    return table.with_suffix(".kin")


def fitted(
    rows: Training | None, options: argparse.Namespace, console: Console, *, in_blocks: bool
) -> tuple[MultiTaskRegressor, float | None, Training | None]:
    """The fitted model, its cross-validated error if it has one (RMSE, mean over tasks), and rows for a report."""
    model, settings = method_of(options, console)
    if rows is None or in_blocks:
        check_statistics(options)
    if rows is None:
        fit_in_database(model, options, console)
        return model, cross_validated_error(model), None
    targets = {} if in_blocks else targets_of(options, rows.y, console, rows.classes)
    model.set_params(features=rows.features(scale=not model.scales_itself, but=targets), **targets)
    if in_blocks:
        if options.cv and not hasattr(model, "cv") and open_grid(model, settings):
            console.note(f"{model.name} takes the parameters that are not --set as they are by default")
        rows = fit_in_blocks(model, rows, options, console)
        return model, cross_validated_error(model), rows
    tuned = fit_tuned(
        model,
        model.read(rows.X, rows.y),
        cv=options.cv,
        groups=rows.groups,
        random_state=options.seed,
        n_jobs=options.jobs,
        fixed=settings,
        callback=console.callback,
    )
    fitted_model, error = tuned
    if rows.classes:
        fitted_model.model_ = replace(fitted_model.model_, classes=np.array(rows.classes))
    return fitted_model, error, rows


def targets_of(options: argparse.Namespace, y: Any, console: Console, classes: tuple[str, ...] = ()) -> dict[str, Any]:
    """The family of the targets, and the columns that are added to their linear predictor."""
    family = options.family
    if family == "auto" and classes:
        family = "binomial"
    if family == "auto":
        _, family = kind_of_target(np.asarray(y))
        console.note(f"--family auto takes {family!r} for these targets")
    return {"family": family, "exposure": options.exposure, "offset": options.offset}


def check_statistics(options: argparse.Namespace) -> None:
    """Refuse families for tables whose rows are not in memory."""
    if options.family not in ("gaussian", "auto") or options.exposure or options.offset:
        raise ValueError(
            f"--family {options.family}, --exposure and --offset need rows in memory, since statistics of classes and "
            "counts change with the fit: leave out --stream, or fit a sample of the table"
        )


def method_of(options: argparse.Namespace, console: Console) -> tuple[MultiTaskRegressor, dict[str, Any]]:
    """The method that the options ask for, which cross-validates inside fit if it can, and what was set by hand."""
    method = all_methods()[find_method(options.method)]()
    if options.cv < 0 or options.cv == 1 or (options.cv == 0 and method.wants_folds()):
        least = "2" if method.wants_folds() else "2, or 0 for none"
        raise ValueError(f"--cv {options.cv}: {method.name} needs at least {least} folds")
    given = {"task": options.task, "random_state": options.seed, "n_jobs": options.jobs, "callback": console.callback}
    if options.cv:
        given |= {"cv": options.cv, "penalty": "cv", "scoring": "tasks"}
    settings = parse_settings(method.name, options.set)
    return with_known(method, given | settings), settings


def record_of(model: MultiTaskRegressor, error: float | None) -> dict[str, Any]:
    """What a fit found, for other programs."""
    record: dict[str, Any] = {
        "method": model.name,
        "rows": round(float(model.model_.rows.sum())),
        "tasks": len(model.tasks_),
        "inputs": [name for name in model.feature_names_in_ if name != task_name(model.task)],
        **errors_record(model, error),
        "verdict": verdict_of(model.model_),
    }
    if hasattr(model, "graph_helps_"):
        record |= {"graph_helps": model.graph_helps_, "gain": model.gain_.mean, "gain_se": model.gain_.standard_error}
    if hasattr(model, "gains_"):
        record["gains"] = gains_record(model.gains_)
        record["gain_over_own"] = model.own_gain_._asdict()
    graph = model.structure_
    if hasattr(graph, "communities"):
        record |= {"edges": len(graph.edges()), "groups": graph.communities(), "outliers": graph.outliers()}
    return record


def errors_record(model: MultiTaskRegressor, error: float | None) -> dict[str, Any]:
    """Errors on held-out and training rows; of classes and counts the loss on held-out rows."""
    family = model.target
    if family.is_plain:
        return {"rmse_cv": error, "rmse_training": training_error(model.model_)}
    return {"family": family.name, "loss": family.error, "loss_cv": error}


def gains_record(gains: Mapping[str, Gain]) -> dict[str, Any]:
    """What every step from a ridge per task to a model gains, for other programs."""
    return {name: gain._asdict() for name, gain in gains.items()}


def fit_in_blocks(model: MultiTaskRegressor, rows: Training, options: argparse.Namespace, console: Console) -> Training:
    """Fit to a table that is read in blocks; returns a sample of its rows, for what needs rows."""
    from kinfolk.rows.columns import TableRules
    from kinfolk.sources.plan import check_statistics_suffice, plan_features, plan_of_rules
    from kinfolk.sources.sampled import draw_rows, fit_sampled, sample_of

    source = rows.source
    features = model.features
    if isinstance(features, TableRules):
        check_statistics_suffice(model)
        reading = plan_of_rules(features.fit(rows.X))
    else:
        reading = plan_features(model, rows.roles.features)
    drawn = draw_rows(model, source, rows.X, rows.roles, time=options.time)
    frame = with_target(rows, console)
    sample = sample_of(frame, drawn)
    whole = sample.height == len(drawn.part)
    part = (
        "" if whole else f"; curves, trees, ends in time and the report are those of {sample.height:,} drawn at random"
    )
    console.note(
        f"{source.root.name} ({in_words(source.size)}) is read in blocks: the model is that of all "
        f"{len(drawn.part):,} rows{part}"
    )
    about = {"frame": frame, "drawn": drawn, "sample": sample, "n_jobs": max(2, options.jobs)}
    fit_sampled(model, source, rows.roles, reading, callback=console.callback, **about)
    return rows.in_memory(sample, options)


def with_target(rows: Training, console: Console) -> Any:
    """The rows that have a target, as a lazy frame; the others have told what the inputs are like."""
    pl = polars()
    target = pl.col(rows.roles.target)
    count, missing = rows.X.select(pl.len(), target.is_null().sum().alias("missing")).collect().row(0)
    if missing:
        console.note(f"left out {missing:,} of {count:,} rows without a target")
    return rows.X.filter(target.is_not_null()) if missing else rows.X


def fit_in_database(model: MultiTaskRegressor, options: argparse.Namespace, console: Console) -> None:
    """Fit from statistics that a database computes; no row leaves it."""
    import narwhals as nw
    from sklearn.preprocessing import StandardScaler

    from kinfolk.sources.databases import lazy_query
    from kinfolk.sources.fits import fit_frame

    console.note(f"{options.data.name} computes the statistics: all features must be numbers")
    model.set_params(features=None if model.scales_itself else StandardScaler())
    with lazy_query(options.data, options.query, files=options.allow_files) as asked:
        frame = nw.from_native(asked)
        fit_frame(model, frame.drop(options.drop).to_native(), options.target, options.groups)
