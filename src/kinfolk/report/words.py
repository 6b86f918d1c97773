"""What the page says in sentences: the headline, the certificate, the limits of what is shown."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinfolk.explain.groups import TaskGroups
from kinfolk.explain.summary import title
from kinfolk.judge.verdict import (
    HELPS,
    HURTS,
    STEPS,
    Verdict,
    constant_tasks,
    has_lines_only,
    model_verdict,
    task_word,
    verdict_of,
)
from kinfolk.methods.model import Model
from kinfolk.report.errors import TaskErrors
from kinfolk.report.plain import in_text, short
from kinfolk.words import counted, cut, written

CERTIFICATES = {
    "weights_residual": "Gradient in the coefficients, relative (0 at the optimum for the final graph)",
    "graph_residual": "Violation of the optimality conditions of the graph, relative",
    "duality_gap": "Joint gap: so much, relative, the best graph for the final coefficients would lie below this one",
    "last_step_gap": "Duality gap of the last graph step, for the coefficients before it",
    "certified": "Share of tasks for which that step is proven best over all pairs",
    "shown_gap": "Duality gap of the graph that is drawn",
    "shown_certified": "The same share for the graph that is drawn",
    "residual": "Residual of the normal equations, relative",
    "precision_gap": "Duality gap of the precision matrix, per task",
    "gradient": "Gradient of the likelihood at the end, scaled",
    "stationarity": "Gradient against the multipliers, relative",
    "complementarity": "Complementarity of the multipliers (about 0: the global minimum)",
    "eps": "Smoothing left at the end",
    "inner": "Conjugate gradient steps in all",
}


def headline(groups: TaskGroups, names: list[str], errors: TaskErrors | None) -> list[str]:
    """The verdict first: does sharing help, whom, what to do; then the groups, who stands alone, the size."""
    model = groups.model
    shown = [in_text(name) for name in names]
    verdict = page_verdict(model, shown, errors)
    return [*verdict_of(model, shown, verdict), *groups.headline(shown), *_classes(model), _size(model)]


def units(model: Model) -> str:
    """What levels and coefficients of groups are, where they are not in units of the target."""
    if model.target.link == "identity":
        return ""
    of, a = ("the odds", "an") if model.target.link == "logit" else ("the mean", "a")
    return (
        f"Levels and coefficients are those of the logarithm of {of}, at the mean of all inputs; the exponential of a "
        f"coefficient is {a} {model.target.ratio}. In brackets stands the mean over all others "
        "that do not stand alone. Features are named whose difference is too large for noise."
    )


def _classes(model: Model) -> list[str]:
    """What the numbers of a page about classes are of."""
    if model.classes is None or len(model.classes) < 2:
        return []
    first, *others = (in_text(str(label)) for label in model.classes.tolist())
    if len(others) > 1:
        return [f"Of {len(model.classes):,} classes this page is about {first} versus the others."]
    return [
        f"All numbers are about {others[0]} versus {first}: levels and predictions are probabilities of {others[0]}."
    ]


def page_verdict(model: Model, names: list[str], errors: TaskErrors | None) -> Verdict | None:
    """By the errors that the model brings along, or else by those of the rows given to the page."""
    if errors is None or errors.of_fit:
        word = task_word(model)
        return model_verdict(model, names, in_text(word) if word != "task" else word)
    return Verdict.of(
        errors.model,
        errors.own,
        names,
        chance=errors.chance,
        lines=has_lines_only(model),
        constant=constant_tasks(model),
        measure=model.target.measure,
    )


def effect_word(verdict: Verdict | None) -> str:
    """What the model does by its verdict, in one word for the style sheet: helps, hurts, or nothing."""
    return verdict.effect if verdict is not None and verdict.effect in (HELPS, HURTS) else ""


def chain(verdict: Verdict | None) -> list[dict[str, Any]] | None:
    """The steps from a straight-line ridge per task to the model, for the chart; None if they are not known."""
    if verdict is None or verdict.chain is None:
        return None
    return [
        {"name": name, "label": STEPS[name], "mean": float(gain.mean), "error": short(gain.standard_error, 3)}
        for name, gain in verdict.chain.items()
    ]


def _size(model: Model) -> str:
    task = None if model.columns is None else model.columns.task
    column = f" (column {in_text(task)})" if isinstance(task, str) else ""
    return f"{title(model)}{column}."


def certificate(model: Model) -> dict[str, Any]:
    """The course of the objective and how near to optimal the end is, for an expert."""
    course = model.course
    if course is None:
        return {"said": [], "rows": [], "history": []}
    said = []
    if course.converged is not None and course.n_iter is not None:
        state = "Converged" if course.converged else "Stopped before convergence"
        tol = model.parameter("tol")
        said.append(f"{state} after {counted(course.n_iter, 'round')}{'' if tol is None else f' (tol = {tol:g})'}.")
    history = np.asarray(() if course.history is None else course.history, dtype=float)
    if len(history) > 1 and np.isfinite(history).all():
        rises = int((np.diff(history) > 1e-9 * np.abs(history[:-1]).max()).sum())
        end = "and never rose." if rises == 0 else f"and rose in {counted(rises, 'round')}."
        said.append(f"The objective fell from {history[0]:,.6g} to {history[-1]:,.6g} {end}")
    rows = [
        [CERTIFICATES.get(key, key.replace("_", " ")), f"{float(value):.2g}"]
        for key, value in model.optimality.items()
        if np.ndim(value) == 0 and np.isfinite(float(value))
    ]
    return {"said": said, "rows": rows, "history": short(history, 8)}


def settings(model: Model) -> list[list[str]]:
    """The parameters of the model, and what it chose."""
    given = {} if model.method is None else model.method.get_params(deep=False)
    given = {k: v for k, v in given.items() if k != "callback" and v is not None}
    if model.report is not None:
        given |= {f"chosen {k}": v for k, v in (model.report.best_params or {}).items()}
        given |= {f"share of {k}": f"{v:.0%}" for k, v in model.report.mixture.items()}
    return [[k, _value(v)] for k, v in given.items()]


def _value(value: Any) -> str:
    if isinstance(value, float | np.floating):
        return written(float(value))
    return cut(value if isinstance(value, str) else repr(value), 120)
