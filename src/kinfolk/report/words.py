"""What the page says in sentences: the headline, the certificate, the limits of what is shown."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.methods.method import MultiTaskRegressor
from kinfolk.report.errors import TaskErrors
from kinfolk.report.plain import counted, in_text, listed, written

CERTIFICATES = {
    "weights_residual": "Gradient in the coefficients, relative (0 at the optimum for the final graph)",
    "graph_residual": "Violation of the optimality conditions of the graph, relative",
    "duality_gap": "Duality gap of the last step: the objective is at most this far, relative, above its minimum",
    "certified": "Share of tasks for which it is proven that no pair outside the candidates wants an edge",
    "residual": "Residual of the normal equations, relative",
    "precision_gap": "Duality gap of the precision matrix, per task",
    "gradient": "Gradient of the likelihood at the end, scaled",
    "stationarity": "Gradient against the multipliers, relative",
    "complementarity": "Complementarity of the multipliers (about 0: the global minimum)",
    "eps": "Smoothing left at the end",
    "inner": "Conjugate gradient steps in all",
}


def headline(
    model: MultiTaskRegressor, names: list[str], groups: NDArray[np.intp], errors: TaskErrors | None
) -> list[str]:
    """How many tasks, whether sharing helps, which groups, who stands alone."""
    return [_size(model), *_sharing(model, errors), *_grouping(model, names, groups)]


def _size(model: MultiTaskRegressor) -> str:
    T, d = model.coef_.shape
    column = f" (column {in_text(str(model.task))})" if isinstance(model.task, str) else ""
    gram = getattr(model, "gram_", None)
    rows = "" if gram is None else f", {counted(round(float(gram.n.sum())), 'row')}"
    return f"{counted(T, 'task')}{column}{rows}, {counted(d, 'feature')}, fitted by {type(model).__name__}."


def _sharing(model: MultiTaskRegressor, errors: TaskErrors | None) -> list[str]:
    said = []
    gain = getattr(model, "gain_", None)
    if gain is not None and np.isfinite(gain.standard_error):
        amount = f"{100 * abs(gain.mean):.1f} % (standard error {100 * gain.standard_error:.1f} %)"
        said.append(
            f"Sharing along the graph helps: it lowers the held-out error by {amount}, beyond the best mixture of "
            "methods without a graph."
            if model.graph_helps_
            else "The graph does not predict clearly better than the best methods without one: it would "
            f"{'lower' if gain.mean >= 0 else 'raise'} the held-out error by {amount}. Predictions do not use it; read "
            "it as a description."
        )
    if errors is None:
        return said
    both = np.isfinite(errors.model) & np.isfinite(errors.own)
    if both.any():
        better = int((errors.model < errors.own)[both].sum())
        ours, own, pooled = (float(np.nanmean(e[both])) for e in (errors.model, errors.own, errors.pooled))
        said.append(
            f"On held-out rows it has a lower error than a ridge of its own for {better:,} of "
            f"{counted(int(both.sum()), 'task')}; mean error (RMSE) {written(ours)}, own ridge {written(own)}, common "
            f"slopes {written(pooled)}."
        )
    return said


def _grouping(model: MultiTaskRegressor, names: list[str], groups: NDArray[np.intp]) -> list[str]:
    if model.structure_ is None:
        return ["This method learns no relation between tasks."]
    sizes = np.bincount(groups[groups >= 0])
    said = []
    if len(sizes) > 1:
        shown = listed([f"{size:,}" for size in sizes]) if len(sizes) <= 6 else f"{sizes.min():,} to {sizes.max():,}"
        said.append(f"The tasks form {counted(len(sizes), 'group')}, of {shown} tasks.")
    elif len(sizes) == 1:
        said.append("The tasks form one group.")
    alone = [names[t] for t in np.flatnonzero(groups < 0)]
    if alone:
        verb = "stands" if len(alone) == 1 else "stand"
        said.append(f"{counted(len(alone), 'task')} {verb} alone: {listed(alone)}.")
    return said


def certificate(model: MultiTaskRegressor) -> dict[str, Any]:
    """The course of the objective and how near to optimal the end is, for an expert."""
    history = np.asarray(getattr(model, "objective_history_", ()), dtype=float)
    said = []
    if hasattr(model, "converged_") and hasattr(model, "n_iter_"):
        state = "Converged" if model.converged_ else "Stopped before convergence"
        tol = f" (tol = {model.tol:g})" if hasattr(model, "tol") else ""
        said.append(f"{state} after {counted(int(np.max(model.n_iter_)), 'round')}{tol}.")
    if len(history) > 1 and np.isfinite(history).all():
        rises = int((np.diff(history) > 1e-9 * np.abs(history[:-1]).max()).sum())
        said.append(
            f"The objective fell from {history[0]:.6g} to {history[-1]:.6g}"
            + (" and never rose." if rises == 0 else f"; it rose in {counted(rises, 'round')}.")
        )
    optimality = getattr(model, "optimality_", {})
    rows = [
        [CERTIFICATES.get(key, key.replace("_", " ")), f"{float(value):.2g}"]
        for key, value in (optimality.items() if isinstance(optimality, dict) else ())
        if np.ndim(value) == 0 and np.isfinite(float(value))
    ]
    return {"said": said, "rows": rows, "history": history}


def settings(model: MultiTaskRegressor) -> list[list[str]]:
    """The parameters of the model, and what it settled on."""
    given = {k: v for k, v in model.get_params(deep=False).items() if k != "callback" and v is not None}
    chosen = {f"chosen {k}": v for k, v in getattr(model, "best_params_", {}).items()}
    mixed = {f"share of {k}": f"{v:.0%}" for k, v in getattr(model, "mixture_", {}).items()}
    return [[k, _value(v)] for k, v in (given | chosen | mixed).items()]


def _value(value: Any, longest: int = 120) -> str:
    if isinstance(value, float | np.floating):
        return written(float(value))
    text = " ".join((value if isinstance(value, str) else repr(value)).split())
    return text if len(text) <= longest else text[: longest - 1] + "…"
