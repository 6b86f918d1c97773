"""Model files of format 1 (kinfolk 0.1), in which a model was a bag of fitted attributes: from these to the record."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np

from kinfolk.methods.gamtl.calibrate import Recipe, unit_of_levels
from kinfolk.methods.gamtl.coupling import GraphCoupling
from kinfolk.methods.model import Course, Model, Part, Population
from kinfolk.methods.uncertainty import HeldOut
from kinfolk.rows.columns import Columns
from kinfolk.store.checks import require

FORMAT = 1
ONE_STEP = ("Independent", "Pooled", "MeanShrunk")
# What the record holds elsewhere than among its details, or makes by itself.
ELSEWHERE = (
    *("_schema", "_single", "tasks_", "coef_", "intercept_", "population_coef_", "population_intercept_"),
    *("gram_", "structure_", "features_", "feature_names_in_", "n_features_in_", "cv_errors_", "limit_errors_"),
    *("optimality_", "objective_history_", "n_iter_", "converged_", "members_", "feature_scale_"),
)


def model_of_attributes(state: dict[str, Any]) -> Model:
    """The record of a model whose fitted attributes are `state`, as yet without its parts."""
    gram = state["gram_"]
    seen = gram.n > 0
    require(len(seen) == len(state["tasks_"]) == len(state["coef_"]), "numbers of other tasks")
    population = Population(state["population_coef_"], float(state["population_intercept_"]))
    return Model(
        labels=state["tasks_"],
        seen=seen,
        coef=state["coef_"],
        intercept=state["intercept_"],
        population=population,
        structure=state.get("structure_"),
        held_out=_held_out(state, seen),
        course=_course(state),
        details={name: value for name, value in state.items() if name not in ELSEWHERE},
        gram=gram,
        columns=Columns(state["_schema"], state["features_"], state.get("rbf_"), state["_single"]),
    )


def rename_fields(record: str, values: dict[str, Any]) -> None:
    """Bring the fields of an earlier record to the present ones: graphs knew how remote tasks are, and no points."""
    if record == "TaskGraph":
        values.pop("remoteness", None)


def _course(state: dict[str, Any]) -> Course:
    names = ("optimality_", "objective_history_", "n_iter_", "converged_")
    optimality, history, n_iter, converged = (state.get(name) for name in names)
    return Course(optimality or {}, history, n_iter, converged)


def _held_out(state: dict[str, Any], seen: Any) -> HeldOut | None:
    """Errors by task; under the same name format 1 also kept errors by penalty."""
    if "n_splits_" not in state:
        return None
    errors = HeldOut(state["cv_errors_"], state["limit_errors_"], 1 - 1 / state["n_splits_"])
    return errors if len(errors.errors) == len(seen) else errors.placed(np.flatnonzero(seen), len(seen))


def parts_of(estimator: Any, model: Model) -> tuple[Part, ...]:
    """The linear maps of a checked model, where they follow from statistics and fitted numbers in one step.

    A mixture predicts as before, but what it is made of was not kept: standard deviations ask for a new fit.
    """
    name = type(estimator).__name__
    if name == "GAMTL":
        return (_graph_part(estimator, model),)
    if name in ONE_STEP:
        return estimator.unfitted().set_params(penalty=model.details["penalty_"]).learn(model.known).parts
    return ()


def _graph_part(estimator: Any, model: Model) -> Part:
    """GAMTL with the graph and the numbers that were fitted."""
    recipe = Recipe(**{part.name: getattr(estimator, part.name) for part in fields(Recipe)})
    effects = recipe.effects(model.known)
    # Beside an intercept column the unknowns of a learned metric were not in units of its variation.
    unit = 1.0 if effects is None or recipe.metric == "identity" else unit_of_levels(effects)
    alpha, beta, gamma = (float(model.details[name]) for name in ("alpha_", "beta_", "gamma_"))
    used = replace(recipe, alpha=alpha, beta=beta, gamma=gamma / unit**2)
    problem = used.uncalibrated(model.known, effects)
    require(model.structure is not None and len(model.structure.labels) == len(model.labels), "a graph of other tasks")
    graph: Any = model.structure if model.seen.all() else model.structure.among(model.seen)  # type: ignore[union-attr]
    V = problem.equations.unknowns(model.coef[model.seen], model.intercept[model.seen])
    coupling = GraphCoupling(graph.adjacency, problem.penalty, recipe)
    return replace(Part.of("GAMTL", coupling, problem.equations, V, recipe.intercept), shown=True)
