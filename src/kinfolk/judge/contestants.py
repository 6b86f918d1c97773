"""Who takes part in a comparison: the methods of the package, each tuned on its training rows, and boosted trees."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from kinfolk.judge.tuning import fit_tuned, predicted_rows
from kinfolk.methods.method import MultiTaskRegressor
from kinfolk.methods.model import Model
from kinfolk.methods.registry import all_methods
from kinfolk.rows.gram import Array
from kinfolk.rows.schema import as_features
from kinfolk.rows.splits import InTime, assign_folds, trains
from kinfolk.rows.table import Rows
from kinfolk.search.boosters import LEAVES, ROUNDS, light_settings, lightgbm

BOOSTING = "lightgbm"
TUNED = "gamtlcv"  # the method that tells what its gain is made of
PATIENCE = 20  # rounds without progress before boosting stops
Transformer = Callable[[bool], Any]  # whether to scale -> a transformer of the columns without the task


@dataclass(frozen=True, eq=False)
class Trained:
    """What predicts other rows, in the form of their targets, and the model behind it, if it is one of the package."""

    predict: Callable[[Rows], Array]
    model: Model | None = None


@dataclass(frozen=True, eq=False)
class Contestant:
    """A method as a comparison runs it, on training rows and their groups.

    `shares` says what tasks share, in one phrase; the simplest method has the lowest `simplicity`. `lines`: whether it
    is one of straight lines, so that whatever it gains over a ridge per task is the gain of sharing. `needs` says what
    not every table with a task column has.
    """

    name: str
    fit: Callable[[Rows, Any], Trained]
    shares: str = ""
    simplicity: int = 1000
    has_graph: bool = False
    lines: bool = True
    needs: str = ""


def contestants(
    asked: Iterable[Any] | None,
    transformer: Transformer,
    *,
    cv: int,
    random_state: Any,
    n_jobs: int | None = None,
    targets: dict[str, Any] | None = None,
) -> list[Contestant]:
    """Those asked for, by name or as estimators with parameters; by default all, the simplest first.

    `targets` has the family of the targets, exposure and offset, of which not every method knows.
    """
    options = {"cv": cv, "random_state": random_state, "n_jobs": n_jobs}
    targets = targets or {}
    numbers = not any(value not in ("gaussian", None) for value in targets.values())
    if asked is None:
        fits = {name: numbers or not method.only_numbers for name, method in all_methods().items() if method.shares}
        asked = [name for name, it_does in fits.items() if it_does]
        asked += [BOOSTING] if numbers and find_spec("lightgbm") is not None else []
        made = (_contestant(one, transformer, options, targets) for one in asked)
        return sorted(made, key=lambda one: one.simplicity)
    if BOOSTING in asked and not numbers:
        raise ValueError(f"{BOOSTING} is compared on numbers alone: gamtlcv has boosted trees for classes and counts")
    return [_contestant(one, transformer, options, targets) for one in dict.fromkeys(asked)]


def _contestant(asked: Any, transformer: Transformer, options: dict[str, Any], targets: dict[str, Any]) -> Contestant:
    if isinstance(asked, str):
        name = find_method(asked, extra=(BOOSTING,))
        if name == BOOSTING:
            fit = partial(_fit_boosted, transformer(False), options["random_state"])
            return Contestant(BOOSTING, fit, "boosted trees, task as category", 140, lines=False)
        asked = all_methods()[name]()
        asked = with_known(asked, {"penalty": "cv", "scoring": "tasks", **options, **asked.quick, **targets})
    method: MultiTaskRegressor = asked
    return Contestant(
        method.name,
        partial(_fit_method, method, transformer, options),
        method.shares,
        method.simplicity,
        has_graph=hasattr(method, "edge_confidence"),  # learned by the method itself
        lines=not hasattr(method, "nonlinear"),
        needs=method.needs,
    )


def with_known(method: MultiTaskRegressor, options: dict[str, Any]) -> MultiTaskRegressor:
    """The method with those of the options that it has."""
    known = method.get_params(deep=False)
    return method.set_params(**{name: options[name] for name in options if name in known})


def find_method(name: str, *, extra: tuple[str, ...] = ()) -> str:
    """The listed name of a method; capitals, hyphens and underscores do not count."""
    known = {key.replace("-", ""): key for key in (*all_methods(), *extra)}
    plain = name.lower().replace("-", "").replace("_", "").replace(" ", "")
    if plain in known:
        return known[plain]
    near = get_close_matches(name, known.values(), n=1)
    guess = f" Did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"there is no method {name!r}.{guess} There are {', '.join(known.values())}.")


def _fit_method(
    method: MultiTaskRegressor, transformer: Transformer, options: dict[str, Any], rows: Rows, groups: Any
) -> Trained:
    fresh = clone(method).set_params(task=rows.schema.task)
    if fresh.features is None:
        fresh.set_params(features=transformer(not method.scales_itself))
    model = fit_tuned(fresh, rows, groups=groups, **options)[0].model_
    return Trained(partial(predicted_rows, model), model)


def _fit_boosted(features: Any, seed: int, rows: Rows, groups: Any) -> Trained:
    """Boosted trees with the task as a category, which many would try first."""
    at = rows.targets()
    encoder = None if features is None else clone(features).fit(rows.table.native)

    def table(new: Rows) -> Array:
        return new.table.features() if encoder is None else as_features(encoder.transform(new.table.native))

    labels = None if groups is None else groups[at.row]
    model, _ = fit_boosting(np.column_stack([at.codes, table(rows)[at.row]]), at.y, labels, seed)

    def predict(new: Rows) -> Array:
        X = table(new)
        if new.codes is not None:
            return model(np.column_stack([new.codes, X]))
        T = len(new.schema.labels)
        return np.column_stack([model(np.column_stack([np.full(len(X), t), X])) for t in range(T)])

    return Trained(predict)


def fit_boosting(X: Array, y: Array, groups: Any, seed: int) -> tuple[Callable[[Array], Array], dict[str, Any]]:
    """Number of leaves and of rounds by 5-fold cross-validation; returns the prediction function and the choice.

    Column 0 of X is the number of the task; `groups` are labels of rows that stay in one fold, or None.
    """
    library = lightgbm()

    def data() -> Any:
        return library.Dataset(X, y, categorical_feature=[0], params={"verbose": -1}, free_raw_data=False)

    fold = _boosting_folds(X[:, 0], groups, seed)
    pairs = [(np.flatnonzero(trains(fold, f)), np.flatnonzero(fold == f)) for f in range(fold.max() + 1)]
    tried = []
    for leaves in LEAVES:
        settings = light_settings(leaves, seed)
        stop = library.early_stopping(PATIENCE, verbose=False)
        errors = library.cv(settings, data(), ROUNDS, folds=pairs, callbacks=[stop])["valid rmse-mean"]
        tried.append((min(errors), int(np.argmin(errors)) + 1, settings))
    _, rounds, settings = min(tried, key=lambda choice: choice[0])
    return library.train(settings, data(), rounds).predict, {"num_leaves": settings["num_leaves"], "rounds": rounds}


def _boosting_folds(task: Array, groups: Any, seed: int) -> NDArray[np.intp]:
    if isinstance(groups, InTime):
        return groups.folds(5)
    return assign_folds(np.unique(task, return_inverse=True)[1], 5, groups=groups, random_state=seed)
