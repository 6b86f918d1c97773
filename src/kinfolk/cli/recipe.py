"""A method with what was set by hand, and the way to a fitted model: the rest is chosen by cross-validation."""

from __future__ import annotations

import argparse
import inspect
from dataclasses import dataclass
from typing import Any

import numpy as np

from kinfolk.cli.console import Console
from kinfolk.cli.methods import find_method, methods, parse_settings
from kinfolk.cli.tables import Training
from kinfolk.memory import in_words
from kinfolk.progress import Callback
from kinfolk.tuning import tune

SCALES_ITSELF = ("gamtlcv", "rbf-gamtl")
GRIDS = {"gamtl": {"strength": (0.01, 0.1, 1.0, 10.0, 100.0), "ridge": (0.01, 1.0)}}
UNTUNED = ("random-slopes",)  # maximum likelihood sets its parameters; a full covariance is there for the asking


@dataclass(frozen=True)
class Recipe:
    """A method, the parameters set by hand, and the folds that choose the others."""

    method: str
    settings: dict[str, Any]
    cv: int
    seed: int
    jobs: int = 1

    def estimator(self, task: str, features: Any, callback: Callback | None = None) -> Any:
        """The estimator, which cross-validates inside fit if it can."""
        cls = methods()[self.method]
        own = {"task": task, "features": features, "random_state": self.seed, "n_jobs": self.jobs, "callback": callback}
        if self.cv:
            own["cv"] = self.cv
            if "penalty" in inspect.signature(cls).parameters:
                own |= {"penalty": "cv", "scoring": "tasks"}
        known = inspect.signature(cls).parameters
        return cls(**{**{name: value for name, value in own.items() if name in known}, **self.settings})

    def grid(self) -> dict[str, Any]:
        """Values to try of the parameters that were not set, for methods that do not cross-validate themselves."""
        cls = methods()[self.method]
        if not self.cv or self.method in UNTUNED or "cv" in inspect.signature(cls).parameters:
            return {}
        grid = getattr(cls, "default_grid", None) or GRIDS.get(self.method, {})
        # The paper's gamma takes the place of strength.
        given = {*self.settings, *(["strength"] if "gamma" in self.settings else [])}
        return {name: list(values) for name, values in grid.items() if name not in given}

    def fit(self, rows: Training, task: str, callback: Callback | None = None, **more: Any) -> tuple[Any, float | None]:
        """The fitted model and, where one was chosen by it, its cross-validated error: RMSE, mean over tasks."""
        features = rows.features(scale=self.method not in SCALES_ITSELF)
        grid = self.grid()
        if not grid:
            model = self.estimator(task, features, callback).set_params(**more)
            model.fit(rows.X, rows.y, groups=rows.groups)
            return model, cross_validated_error(model)
        model = self.estimator(task, features).set_params(**more)
        found = tune(
            model,
            grid,
            rows.X,
            rows.y,
            cv=self.cv,
            groups=rows.groups,
            scoring="tasks",
            n_jobs=self.jobs,
            random_state=self.seed,
            callback=callback,
        )
        return found.best_estimator_, found.best_error_


def cross_validated_error(model: Any) -> float | None:
    """Of a model that cross-validates inside fit: one error per task, or one per penalty tried."""
    if not hasattr(model, "cv_errors_"):
        return None
    errors = np.asarray(model.cv_errors_)
    return float(np.nanmean(errors) if hasattr(model, "limit_errors_") else errors.min())


def fit_in_blocks(
    recipe: Recipe, rows: Training, options: argparse.Namespace, console: Console
) -> tuple[Any, float | None]:
    """The model fitted from the statistics of a table that is read in blocks."""
    from kinfolk.large.files import fit_frame
    from kinfolk.rows.rules import TableRules

    source = rows.source
    console.note(f"{source.root.name} ({in_words(source.size)}) is read in blocks")
    if recipe.grid():
        console.note(f"{recipe.method} takes the parameters that are not --set as they are by default")
    features = rows.features(scale=recipe.method not in SCALES_ITSELF)
    model = recipe.estimator(options.task, features, console.callback)
    fitted = features.fit(rows.X) if isinstance(features, TableRules) else None
    fit_frame(
        model,
        rows.X,
        source,
        target=options.target,
        groups=options.groups,
        fitted=fitted,
        n_jobs=max(2, recipe.jobs),
        callback=console.callback,
    )
    return model, cross_validated_error(model)


def recipe_of(options: argparse.Namespace) -> Recipe:
    """The method that the options ask for."""
    method = find_method(options.method)
    if options.cv < 0 or options.cv == 1 or (options.cv == 0 and method in SCALES_ITSELF):
        least = "2" if method in SCALES_ITSELF else "2, or 0 for none"
        raise ValueError(f"--cv {options.cv}: {method} needs at least {least} folds")
    return Recipe(method, parse_settings(method, options.set), options.cv, options.seed, options.jobs)
