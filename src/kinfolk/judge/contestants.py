"""Who takes part in a comparison: the methods of the package, each tuned on its training rows, and boosted trees."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.base import clone

from kinfolk.judge.boosting import fit_boosting
from kinfolk.judge.tuning import fit_tuned
from kinfolk.methods.method import MultiTaskRegressor
from kinfolk.methods.model import Model
from kinfolk.methods.registry import all_methods
from kinfolk.rows.gram import Array
from kinfolk.rows.schema import as_features
from kinfolk.rows.table import Rows

BOOSTING = "lightgbm"
TUNED = "gamtlcv"
NONLINEAR = (TUNED, "rbf-gamtl")
Predictor = Callable[[Rows], Array]  # predictions in the form of the rows' targets
Transformer = Callable[[bool], Any]  # whether to scale -> a transformer of the columns without the task


@dataclass(frozen=True, eq=False)
class Contestant:
    """A method as a comparison runs it: `fit(training rows, their groups)` gives what predicts other rows.

    `shares` says what tasks share, in one phrase; the simplest method has the lowest `simplicity`. `lines`: whether it
    is one of straight lines, so that whatever it gains over a ridge per task is the gain of sharing. `learn` gives the
    model itself, of methods that tell what their gain is made of. `needs` says what not every table with a task column
    has.
    """

    name: str
    fit: Callable[[Rows, Any], Predictor]
    shares: str = ""
    simplicity: int = 1000
    has_graph: bool = False
    lines: bool = True
    learn: Callable[[Rows, Any], Model] | None = None
    needs: str = ""


def contestants(
    asked: Iterable[Any] | None, transformer: Transformer, *, cv: int, random_state: Any, n_jobs: int | None = None
) -> list[Contestant]:
    """Those asked for, by name or as estimators with parameters; by default all, the simplest first."""
    options = {"cv": cv, "random_state": random_state, "n_jobs": n_jobs}
    if asked is None:
        asked = [name for name, method in all_methods().items() if method.shares]
        asked += [BOOSTING] if find_spec("lightgbm") is not None else []
        return sorted((_contestant(one, transformer, options) for one in asked), key=lambda one: one.simplicity)
    return [_contestant(one, transformer, options) for one in dict.fromkeys(asked)]


def _contestant(asked: Any, transformer: Transformer, options: dict[str, Any]) -> Contestant:
    if isinstance(asked, str):
        name = find_method(asked, extra=(BOOSTING,))
        if name == BOOSTING:
            seed = options["random_state"]
            return Contestant(
                BOOSTING, _boosted(transformer(False), seed), "boosted trees, task as category", 140, lines=False
            )
        asked = all_methods()[name]()
        asked = with_known(asked, {"penalty": "cv", "scoring": "tasks", **options, **asked.quick})
    named: MultiTaskRegressor = asked
    has_graph = hasattr(named, "edge_confidence")  # learned by the method itself
    learn = _tuned(named, transformer, options)
    return Contestant(
        named.name,
        lambda rows, groups: _predictor(learn(rows, groups)),
        named.shares,
        named.simplicity,
        has_graph,
        lines=named.name not in NONLINEAR,
        learn=learn if named.name == TUNED else None,
        needs=named.needs,
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


def _tuned(method: MultiTaskRegressor, transformer: Transformer, options: dict[str, Any]) -> Callable[..., Model]:
    def learn(rows: Rows, groups: Any) -> Model:
        fresh = clone(method).set_params(task=rows.schema.task)
        if fresh.features is None:
            fresh.set_params(features=transformer(not method.scales_itself))
        fitted, _ = fit_tuned(fresh, rows, groups=groups, **options)
        return fitted.model_

    return learn


def _predictor(model: Model) -> Predictor:
    return lambda new: predict_rows(model, new)


def predict_rows(model: Model, rows: Rows) -> Array:
    """Predictions for rows of the same tasks, in the form of their targets: one per row, or a column per task."""
    assert model.columns is not None
    read = model.columns.clipped_features(rows.table)
    return model.predict_all(read) if rows.codes is None else model.predict_read(read, rows.codes)


def _boosted(features: Any, seed: int) -> Callable[..., Predictor]:
    """Boosted trees with the task as a category."""

    def fit(rows: Rows, groups: Any) -> Predictor:
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

        return predict

    return fit
