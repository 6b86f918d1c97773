"""What a fit that ends without a warning has promised: the certificates of its method, held against the data."""

from __future__ import annotations

import numpy as np

LIMITS = {
    "weights_residual": 1e-6,  # of the normal equations of the weights, given graph, covariance or precision
    "precision_gap": 1e-5,
    "stationarity": 1e-5,
    "complementarity": 1e-5,
}
GRAPH_GAP = {True: 1e-3, False: 0.1}  # of the graph for the last weights, whether the table is ordinary
LEAST_SQUARES = ("Independent", "Pooled", "MeanShrunk")
NO_BOUND = ("RandomSlopes", "GAMTLCV")  # their coefficients do not minimise a loss and a penalty that is 0 at 0


def broken_promises(outcome, *, ordinary: bool) -> list[str]:
    """What does not hold, in words; nothing for a good fit."""
    model, name = outcome.model, type(outcome.model).__name__
    found = model.optimality_
    broken = [f"{key} = {found[key]:.1e}" for key, limit in LIMITS.items() if found.get(key, 0.0) > limit]
    gap_limit = GRAPH_GAP[ordinary] if "graph_residual" in found else 10 * getattr(model, "tol", 0.0)
    if found.get("duality_gap", 0.0) > gap_limit:
        broken.append(f"duality_gap = {found['duality_gap']:.1e}, limit {gap_limit:.1e}")
    if found.get("certified", 1.0) < 1.0:
        broken.append(f"the graph is certified for a share of {found['certified']} only")
    if not getattr(model, "converged_", True):
        broken.append("not converged, and no warning said so")
    history = getattr(model, "objective_history_", np.zeros(1))
    if name == "GAMTL" and (np.diff(history) > 1e-11 * np.abs(history).max()).any():
        broken.append(f"the objective rises: {history}")
    if name in LEAST_SQUARES and found["residual"] > least_squares_limit(model):
        broken.append(f"residual = {found['residual']:.1e}, limit {least_squares_limit(model):.1e}")
    if name not in NO_BOUND:
        broken += worse_than_nothing(outcome)
    return broken


def least_squares_limit(model) -> float:
    """Rounding of coefficients alone leaves a gradient of eps ||G + penalty|| ||W||, here relative to ||b||."""
    gram = model.gram_
    stiffness = np.abs(gram.G).max() + model.penalty_
    b = max(float(np.linalg.norm(gram.b)), np.finfo(float).tiny)
    return 1e-5 + 1e-12 * stiffness * float(np.linalg.norm(model.coef_)) / b


def worse_than_nothing(outcome) -> list[str]:
    """Penalties vanish for coefficients of 0, so no fit may have larger errors on its rows than those.

    Methods that give every task the same weight may trade rows of large tasks for rows of small ones.
    """
    model, y = outcome.model, np.where(np.isnan(outcome.y), outcome.prediction, outcome.y)
    intercepts = getattr(model, "intercept", "free") is not None
    level = np.nanmean(outcome.y) if intercepts else 0.0
    nothing = float(np.nansum((outcome.y - level) ** 2))
    rounding = 1e-9 * (np.abs(y).max() + np.abs(model.intercept_).max())
    uneven = model.gram_.n.max() / model.gram_.n[model.gram_.n > 0].min()
    error = float(((outcome.prediction - y) ** 2).sum())
    if error <= uneven * (1 + 1e-6) * nothing + y.size * rounding**2:
        return []
    return [f"squared errors of {error:.3e}, without coefficients {nothing:.3e}"]
