"""What a fit that ends without a warning has promised: the certificates of its method, held against the data."""

from __future__ import annotations

import numpy as np

from kinfolk.baselines import Pooled
from kinfolk.methods.constant_within import has_facts
from kinfolk.rows.gram import GramStats

LIMITS = {
    "weights_residual": 1e-6,  # of the normal equations of the weights, given graph, covariance or precision
    "precision_gap": 1e-5,
    "stationarity": 1e-5,
    "complementarity": 1e-5,
}
# MTRL promises its duality gap, which is quadratic in the gradient, by a curvature that has the inverse of Om in it.
WEIGHTS_OF_MTRL = {True: 1e-3, False: 0.1}  # whether the table is ordinary
GRAPH_GAP = {True: 1e-3, False: 0.1}  # of the graph for the last weights, whether the table is ordinary
COEFFICIENTS = 1e-5  # residual at coefficients and intercepts in the units of the rows, for an ordinary table
GRADIENT = 1e-8  # of classes, counts and amounts: Newton's decrement, in lengths of the errors
LEAST_SQUARES = ("Independent", "Pooled", "MeanShrunk")
# Their coefficients do not minimise a loss and a penalty that is 0 at 0; those of BMSL are means of draws.
NO_BOUND = ("RandomSlopes", "GAMTLCV", "RBFGAMTL", "BMSL")


def broken_promises(outcome, *, ordinary: bool) -> list[str]:
    """What does not hold, in words; nothing for a good fit."""
    model, name = outcome.model, type(outcome.model).__name__
    found = model.optimality_
    if model.family != "gaussian":
        return broken_promises_of_family(model, ordinary=ordinary)
    limits = LIMITS | ({"weights_residual": WEIGHTS_OF_MTRL[ordinary]} if name == "MTRL" else {})
    broken = [f"{key} = {found[key]:.1e}" for key, limit in limits.items() if found.get(key, 0.0) > limit]
    gap_limit = GRAPH_GAP[ordinary] if "graph_residual" in found else 10 * getattr(model, "tol", 0.0)
    if name == "CCMTL" and (model.gram_.n <= model.gram_.n_features).any():
        gap_limit *= 100  # the notes of the class: it closes long after the objective has settled
    if found.get("duality_gap", 0.0) > gap_limit:
        broken.append(f"duality_gap = {found['duality_gap']:.1e}, limit {gap_limit:.1e}")
    if found.get("certified", 1.0) < 1.0:
        broken.append(f"the graph is certified for a share of {found['certified']} only")
    if not getattr(model, "converged_", True):
        broken.append("not converged, and no warning said so")
    history = getattr(model, "objective_history_", np.zeros(1))
    # A good fit's objective is a small difference of sums of squares, which are rounded by 1e-14 or so.
    rounding = 1e-11 * np.abs(history).max() + 1e-13 * squares_without_coefficients(outcome)
    if name == "GAMTL" and (np.diff(history) > rounding).any():
        broken.append(f"the objective rises: {history}")
    if name in LEAST_SQUARES and found["residual"] > least_squares_limit(model):
        broken.append(f"residual = {found['residual']:.1e}, limit {least_squares_limit(model):.1e}")
    if ordinary and residual_of_coefficients(model) > COEFFICIENTS:
        broken.append(f"the coefficients leave a residual of {residual_of_coefficients(model):.1e}")
    if name not in NO_BOUND:
        broken += worse_than_nothing(outcome)
    return broken


def broken_promises_of_family(model, *, ordinary: bool) -> list[str]:
    """Of Newton's steps to classes, counts and amounts; mixtures have no objective and promise none."""
    found = model.optimality_
    if "gradient" not in found:
        return []
    broken = [f"gradient = {found['gradient']:.1e}"] if found["gradient"] > GRADIENT else []
    if found.get("duality_gap", 0.0) > GRAPH_GAP[ordinary]:
        broken.append(f"duality_gap = {found['duality_gap']:.1e}")
    if not model.converged_:
        broken.append("not converged, and no warning said so")
    if (np.diff(model.objective_history_) > 0).any():
        broken.append(f"the objective rises: {model.objective_history_}")
    b = np.linalg.norm(model.gram_.b)
    # Of targets that have nothing to do with the features, b is rounding: it might be sqrt(||G|| y'y).
    rounded = b <= 1e-9 * np.sqrt(np.linalg.norm(model.gram_.G) * model.gram_.yy.sum())
    if ordinary and not rounded and residual_of_coefficients(model) > COEFFICIENTS:
        broken.append(f"the coefficients leave a residual of {residual_of_coefficients(model):.1e}")
    return broken


def residual_of_coefficients(model) -> float:
    """Of the normal equations at what the model predicts with, computed anew; 0 for methods that solve none."""
    record = model.model_
    if has_facts(record.gram):  # the coefficients of facts come from a mixed model, and the others from what it leaves
        return 0.0
    W = record.coef[record.seen]
    part = record.graph_part
    if type(model).__name__ in ("GAMTL", "GAMTLClassifier") and part is not None:  # none where all tasks get one line
        problem = part.coupling.problem(part.equations(record.known))
        units = 1.0 if part.units is None else part.units
        V = problem.equations.unknowns(W * units, record.intercept[record.seen])
        return problem.system(part.coupling.adjacency).residual(V)
    if type(model).__name__ not in LEAST_SQUARES:
        return 0.0
    if model.learns_nothing(record.known, None):
        return residual_of_one_line(record.known, W, model.penalty_)
    return model.residual(record.known, W, model.penalty_)


def residual_of_one_line(gram, W, penalty) -> float:
    """Where every task has a single row: one ridge regression of all rows, with features in units of their spread."""
    together = GramStats.from_codes(gram.x_mean, gram.y_mean, np.zeros(gram.n_tasks, int), np.arange(1), weight=gram.n)
    spread = np.sqrt(np.diagonal(together.G[0]) / gram.n.sum())
    scale = np.where(spread > 0, spread, 1.0)
    return Pooled(own_intercepts=False).residual(gram.rescaled(scale), W * scale, penalty)


def least_squares_limit(model) -> float:
    """What rounding leaves of a gradient, relative to ||b||.

    That of the coefficients leaves eps ||G + penalty|| ||W||. Directions with eigenvalues below 1e-13 ||G|| cannot be
    told from those without rows, and b has up to sqrt(1e-13 ||G|| y'y) in them (Cauchy and Schwarz).
    """
    gram = model.gram_
    G, b = (gram.G.sum(axis=0), gram.b.sum(axis=0)) if type(model).__name__ == "Pooled" else (gram.G, gram.b)
    stiffness = float(np.trace(G, axis1=-2, axis2=-1).max())
    coefficients = 1e-12 * (stiffness + model.penalty_) * float(np.linalg.norm(model.coef_))
    hidden = np.sqrt(1e-13 * stiffness * float(gram.yy.sum()))
    return 1e-5 + (coefficients + hidden) / max(float(np.linalg.norm(b)), np.finfo(float).tiny)


def squares_without_coefficients(outcome) -> float:
    """Sum of squared targets about their mean, or about zero without intercepts."""
    intercepts = getattr(outcome.model, "intercept", "free") is not None
    level = np.nanmean(outcome.y) if intercepts else 0.0
    return float(np.nansum((outcome.y - level) ** 2))


def worse_than_nothing(outcome) -> list[str]:
    """Penalties vanish for coefficients of 0, so no fit may have larger errors on its rows than those.

    Methods that give every task the same weight may trade rows of large tasks for rows of small ones.
    """
    model, y = outcome.model, np.where(np.isnan(outcome.y), outcome.prediction, outcome.y)
    nothing = squares_without_coefficients(outcome)
    rounding = 1e-9 * (np.abs(y).max() + np.abs(model.intercept_).max())
    uneven = model.gram_.n.max() / model.gram_.n[model.gram_.n > 0].min()
    error = float(((outcome.prediction - y) ** 2).sum())
    if error <= uneven * (1 + 1e-6) * nothing + y.size * rounding**2:
        return []
    return [f"squared errors of {error:.3e}, without coefficients {nothing:.3e}"]
