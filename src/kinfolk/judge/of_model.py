"""The verdict that a fitted model brings along: its held-out errors, and what its parts do, in sentences."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kinfolk.judge.verdict import (
    NOTICEABLE,
    Verdict,
    curves_sentence,
    graph_helps,
    graph_sentence,
    without_gain,
)
from kinfolk.methods.model import Model
from kinfolk.methods.search_report import Gain, SearchReport
from kinfolk.methods.trunk import BoostedTrees
from kinfolk.rows.gram import GramStats
from kinfolk.words import cut, listed

GIVEN_AWAY = 0.999  # R2 of held-out rows that measurements do not reach unless an input holds the target
LEAST_SHARE = 0.005  # of the predictions, that a sentence mentions
CONSTANT = 1e-12  # of a task's mean: targets that vary less are constant but for rounding
BOOSTED = "boosted trees"
GIVEN = "predictions of the given regressor"
ALONG_GRAPH = "kin along the graph"  # as a source of predictions
NO_TREES = "Boosted trees were not tried: trunk='auto' judges them."
NO_ROWS = "Boosted trees were not tried: they are fitted to rows, and this model to statistics alone."


def model_verdict(model: Model, names: Sequence[str] | None = None, unit: str | None = None) -> Verdict | None:
    """The verdict by the held-out errors that a model brings along; None if it brings none."""
    ridge = None if model.report is None else model.report.versus_ridge
    if model.held_out is None or ridge is None:
        return None
    return Verdict.of(
        model.held_out.errors,
        ridge.errors,
        names or _names(model),
        ridge.gain,
        chance=ridge.chance,
        chain=judged_gains(model),
        unit=unit or task_word(model),
        lines=has_lines_only(model),
        constant=constant_targets(model.gram),
        untried=_untried(model),
    )


def _untried(model: Model) -> str:
    """A sentence about boosted trees, if they were not tried."""
    if model.report is not None and model.report.trees is not None:
        return ""
    return NO_ROWS if model.parameter("trunk") == "auto" else NO_TREES


def verdict_of(model: Model, names: Sequence[str] | None = None, verdict: Verdict | None = None) -> list[str]:
    """What held-out errors say about a model and its parts: those given, or those that the model brings along."""
    verdict = verdict or model_verdict(model, names)
    remarks = _remarks(model)
    return remarks if verdict is None else verdict.sentences(remarks)


def _names(model: Model) -> list[str]:
    return [cut(str(label)) for label in model.labels.tolist()]


def task_word(model: Model) -> str:
    """What a task is, in a word: the name of the task column."""
    task = None if model.columns is None else model.columns.task
    return cut(task) if isinstance(task, str) and task.strip() else "task"


def has_lines_only(model: Model) -> bool:
    """Whether the predictions are straight lines, without curves or trees."""
    return model.trunk is None and (model.columns is None or model.columns.basis is None)


def constant_targets(gram: GramStats | None) -> NDArray[np.bool_] | None:
    """Tasks (T,) whose target never varies in several rows; None if the rows are not known."""
    if gram is None:
        return None
    deviation = np.sqrt(np.maximum(gram.yy, 0.0) / np.maximum(gram.n, 1.0))
    return (gram.n > 1) & (deviation <= CONSTANT * np.abs(gram.y_mean))


def judged_gains(model: Model) -> dict[str, Gain] | None:
    """The chain of gains without steps that were not tried; None for methods that have no chain."""
    report = model.report
    if report is None or report.gains is None:
        return None
    untried = {"curves": report.curves is None, "trees": report.trees is None}
    return {name: gain for name, gain in report.gains.items() if not untried.get(name, False)}


def _remarks(model: Model) -> list[str]:
    """Sentences about the parts of a model: graph, curves, trees, time."""
    said = [] if model.report is None else _remarks_of_search(model, model.report)
    explained = explained_share(model)
    if explained > GIVEN_AWAY:
        said.append(f"The inputs give the target away (R2 {explained:.5f}): is one of them made from it?")
    return said


def _remarks_of_search(model: Model, report: SearchReport) -> list[str]:
    said = []
    graph = graph_of(model)
    if graph is not None:
        said.append(graph)
    splines = None if report.curves is None else report.curves.splines
    if splines is not None:
        along = None if splines.walk is None else model.feature_names[model.curve_terms + splines.walk]
        said.append(curves_sentence(report.mixture, along))
    if report.too_large_for_curves:
        said.append("Curves were not tried: the table is too large for them.")
    time = report.time_column
    if time is not None:
        sentence = f"Rows of a task follow each other by {time!r}: to predict later ones, fit with time={time!r} "
        said.append(f"{sentence}(--time), so that folds are judged by what follows.")
    if report.trees is not None and np.isfinite(report.trees.gain.standard_error):
        said.append(trunk_sentence(report.trees.gain, model))
    return said


def explained_share(model: Model) -> float:
    """R2 of held-out predictions within tasks: levels that differ between tasks count for nothing; NaN if unknown."""
    if model.held_out is None or model.gram is None:
        return np.nan
    errors = model.held_out.errors
    judged = ~np.isnan(errors)
    squares = float(model.gram.yy[judged].sum())
    return 1 - float(model.gram.n[judged] @ errors[judged] ** 2) / squares if squares > 0 else np.nan


def graph_of(model: Model) -> str | None:
    """What the graph of a tuned model does, in a sentence; None if that was not judged."""
    report = model.report
    if report is None or not np.isfinite(report.graph_gain.standard_error):
        return None
    return graph_sentence(report.graph_gain, composition(model)[ALONG_GRAPH] if report.graph_helps else None)


def is_map(model: Model) -> bool:
    """Whether the graph of a tuned model is there to be read alone: it takes no part that anybody would notice."""
    report = model.report
    if report is None:
        return False
    return not (report.graph_helps and graph_helps(report.graph_gain, composition(model)[ALONG_GRAPH]))


def trunk_sentence(gain: Gain, model: Model) -> str:
    """How much of the predictions comes from boosted trees, or another trunk, and why there is none of it."""
    if model.trunk is None:
        return f"Boosted trees are left out: {without_gain(gain, 'them')} so predictions do without them."
    shares = composition(model)
    parts = listed([f"{100 * share:.0f} % {source}" for source, share in shares.items() if share >= LEAST_SHARE])
    does = "help" if gain.mean >= NOTICEABLE else "make next to no difference"
    return f"{trunk_word(model).capitalize()} {does}: predictions are {parts}."


def trunk_word(model: Model) -> str:
    """What stands beside the lines, in words: boosted trees, or the regressor that was given."""
    return BOOSTED if model.trunk is None or isinstance(model.trunk.regressor, BoostedTrees) else GIVEN


def composition(model: Model) -> dict[str, float]:
    """How much of the predictions, mean over tasks, is the trunk, the graph's, common to all tasks, and own data."""
    trunk = np.zeros(int(model.seen.sum())) if model.trunk is None else model.trunk.shares[model.seen]
    found = {trunk_word(model): float(trunk.mean()), ALONG_GRAPH: 0.0, "common to all tasks": 0.0, "own data": 0.0}
    for part in model.parts:
        found[part.coupling.source] += float(np.mean((1 - trunk) * part.shares))
    return found
