"""A method with what was set by hand, and the way to a fitted model: the rest is chosen by cross-validation."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

from kinfolk.cli.console import Console
from kinfolk.cli.methods import parse_settings
from kinfolk.cli.tables import Training
from kinfolk.judge.contestants import find_method
from kinfolk.judge.tuning import cross_validated_error, fit_tuned, open_grid
from kinfolk.memory import in_words
from kinfolk.methods.registry import all_methods
from kinfolk.progress import Callback
from kinfolk.rows.tasks import read_rows


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

    def estimator(self, task: str, features: Any, callback: Callback | None = None) -> Any:
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

    def fit(self, rows: Training, task: str, callback: Callback | None = None) -> tuple[Any, float | None]:
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
) -> tuple[Any, float | None]:
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


def fit_in_database(plan: Plan, options: argparse.Namespace, console: Console) -> tuple[Any, float | None]:
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


def recipe_of(options: argparse.Namespace) -> Plan:
    """The method that the options ask for."""
    method = find_method(options.method)
    always = all_methods()[method]().wants_folds()
    if options.cv < 0 or options.cv == 1 or (options.cv == 0 and always):
        least = "2" if always else "2, or 0 for none"
        raise ValueError(f"--cv {options.cv}: {method} needs at least {least} folds")
    return Plan(method, parse_settings(method, options.set), options.cv, options.seed, options.jobs)
