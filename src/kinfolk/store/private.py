"""Models without what rows could be rebuilt from, for files and reports that leave the house: see docs/privacy.md."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from kinfolk.methods.model import Bound, Model, Population
from kinfolk.methods.splines import SplineFeatures
from kinfolk.rows.columns import Rule, TableRules, names_of
from kinfolk.rows.gram import Array
from kinfolk.store.archive import ModelFileError
from kinfolk.words import counted

# Rows that a number about them must come from: of fewer, one row is a large part of it. Offices of statistics publish
# no cell of fewer than 3 to 10.
LEAST_ROWS = 5
# A line with as many coefficients as its task has rows passes through all of them: whoever knows the inputs of a row
# reads its target off the coefficients. So many rows more leave it open.
SPARE_ROWS = 2
# Transformers that keep means and deviations of whole columns alone. Others may keep rows (KNNImputer), single values
# (QuantileTransformer) or rare names (OneHotEncoder).
HARMLESS = (TableRules, StandardScaler, Pipeline, SplineFeatures)
LEFT_OUT = "(left out {})"  # in place of the name of a rare category


def private_model(model: Model) -> Model:
    """What predicts, and the graph: without statistics, parts, held-out errors and what names or follows few rows."""
    bare = without_rare(model)
    bound = None if bare.bound is None else bare.bound.changed(_bare)
    beyond = None if bare.beyond is None else _bare(bare.beyond)
    by_class = tuple(_bare(one) for one in bare.by_class)
    structure = bare.structure
    if getattr(structure, "points", None) is not None:  # these hold the covariance of the inputs
        structure = replace(structure, points=None)  # type: ignore[type-var]
    return replace(_bare(bare), structure=structure, bound=bound, beyond=beyond, by_class=by_class)


def _bare(model: Model) -> Model:
    columns = model.columns
    if columns is not None and columns.schema.known is not None:
        # New tasks bring their facts with them: nobody who reads the file needs to know those of others.
        known = columns.schema.known.of_tasks(model.labels[model.seen])
        columns = replace(columns, schema=replace(columns.schema, known=known))
    return replace(model.for_prediction(), held_out=None, private=True, columns=columns)


def without_rare(model: Model) -> Model:
    """The model as if rare categories had not been seen in fit; an error where some task has too few rows."""
    if model.gram is None or model.columns is None:
        raise ModelFileError("private=True looks at the rows of every task, which this copy of a model does not know")
    for step in model.columns.steps:
        _check_step(step)
    _check_tasks(model)
    cleaned, always, never = _without_rare_levels(model)
    names = model.gram.feature_names
    if names is not None and isinstance(cleaned, TableRules):
        names = (*names[: model.curve_terms], *cleaned.get_feature_names_out().tolist())
    blind = _blind(model, always, never, cleaned)
    return replace(blind, gram=replace(model.gram, feature_names=names))


def _blind(model: Model, always: NDArray[np.intp], never: NDArray[np.intp], transformer: Any) -> Model:
    """The model, its lines and that of later rows, as if inputs were `always` 1 or `never`."""

    def change(other: Model) -> Model:
        return _blind(other, always, never, transformer)

    bends = model.coef.shape[1] - _inputs(model)
    ones = bends + always
    zeros = np.append(ones, bends + never)
    coef, slopes = model.coef.copy(), model.population.coef.copy()
    intercept = model.intercept + coef[:, ones].sum(axis=1)
    population = Population(slopes, model.population.intercept + float(slopes[ones].sum()))
    for values in (coef, slopes):
        values[..., zeros] = 0.0
    facts = model.facts
    if facts is not None:
        facts = facts.without(zeros)
        assert model.facts is not None
        moved = ((1 - facts.mean) * np.isin(facts.columns, ones)) @ model.facts.slopes
        moved[zeros] = 0.0
        population = Population(slopes + moved, population.intercept - float(moved @ facts.origin))
    columns = model.columns and replace(model.columns, transformer=transformer)
    bound = None if model.bound is None else _blind_bound(model.bound.changed(change), zeros)
    beyond = None if model.beyond is None else change(model.beyond)
    by_class = tuple(map(change, model.by_class))
    lines = {"coef": coef, "intercept": intercept, "population": population, "facts": facts}
    return replace(model, **lines, columns=columns, bound=bound, beyond=beyond, by_class=by_class)


def _inputs(model: Model) -> int:
    basis = None if model.columns is None else model.columns.basis
    return model.coef.shape[1] if basis is None else int(basis.n_features_in_)


def _blind_bound(bound: Bound, rare: NDArray[np.intp]) -> Bound:
    """A bound that does not look at some features, nor tells how they go with others."""
    center, root = bound.center.copy(), bound.root.copy()
    center[rare], root[rare] = 0.0, 0.0
    return replace(bound, center=center, root=root)


def _check_step(step: Any) -> None:
    if not isinstance(step, HARMLESS):
        raise ModelFileError(
            f"private=True stores no {type(step).__name__}, which may hold rows, single values or rare names. Use "
            "columns as they are, StandardScaler or TableRules, and no curves but splines"
        )
    for _, part in step.steps if isinstance(step, Pipeline) else ():
        _check_step(part)


def _check_tasks(model: Model) -> None:
    """Refuse tasks whose rows are too few for what is stored of them, or all the same."""
    gram = model.gram
    assert gram is not None
    least = max(LEAST_ROWS, own_coefficients(model) + SPARE_ROWS)
    same = (np.abs(np.diagonal(gram.G, axis1=1, axis2=2)).sum(axis=1) == 0) & (gram.yy == 0)
    rows = model.rows
    small = np.flatnonzero((rows > 0) & ((rows < least) | same))
    if len(small):
        shown = ", ".join(f"{gram.labels.tolist()[t]!r} ({rows[t]:g})" for t in small[:5])
        raise ModelFileError(
            f"private=True refuses {counted(len(small), 'task')} with fewer than {least} different rows: {shown}. Of "
            f"fewer than {LEAST_ROWS}, or than {SPARE_ROWS} more than the {own_coefficients(model)} coefficients that "
            "each task has, rows can be told from these. Drop or join these tasks, or fit fewer columns"
        )


def own_coefficients(model: Model) -> int:
    """Coefficients of every task that differ between tasks, and its intercept."""
    return 1 + int((np.ptp(model.coef, axis=0) > 0).sum())


def _without_rare_levels(model: Model) -> tuple[Any, NDArray[np.intp], NDArray[np.intp]]:
    """The transformer without the names of rare categories; inputs that are then always 1, and those that never are."""
    assert model.columns is not None
    rules = model.columns.transformer
    always: list[int] = []
    never: list[int] = []
    if isinstance(rules, TableRules):
        rules = copy(rules)
        cleaned, place = {}, 0
        for name, rule in rules.rules_.items():
            cleaned[name], (first, others) = _cleaned(name, rule)
            always += [place + k for k in first]
            never += [place + k for k in others]
            place += len(names_of(name, rule))
        rules.rules_, rules.problems_ = cleaned, {}
    never += [j for j in _rare_marks(model) if j not in (*always, *never)]
    return rules, np.array(always, np.intp), np.array(never, np.intp)


def _rare_marks(model: Model) -> list[int]:
    """Inputs that are 0 but for a few rows, such as marks of missing values: few by the sums of 0 and 1."""
    assert model.gram is not None
    inputs = slice(model.curve_terms, None)
    gram = model.gram
    marks = np.zeros(_inputs(model), bool)
    if gram.span is not None and isinstance(getattr(model.columns, "transformer", None), TableRules):
        marks = (gram.span[0, inputs] == 0) & (gram.span[1, inputs] == 1)
    count: Array = (gram.n @ gram.x_mean)[inputs]
    return np.flatnonzero(marks & (count < LEAST_ROWS - 0.5)).tolist()


def _cleaned(name: str, rule: Rule) -> tuple[Rule, tuple[list[int], list[int]]]:
    """A rule without observed texts and names of few rows; its features that are then always, or never, 1."""
    cleaned = {key: value for key, value in rule.items() if key not in ("rows", "unusual")}
    if "levels" not in rule:
        return cleaned, ([], [])
    rows = rule.get("rows")
    if rows is None:
        raise ModelFileError(
            f"private=True needs to know how many rows every category of column {name!r} has, and files of earlier "
            "versions do not: fit again"
        )
    rare = np.flatnonzero(np.array(rows, dtype=float) < LEAST_ROWS)
    if rule["kind"] == "learned":
        kept = np.setdiff1d(np.arange(len(rows)), rare)
        return cleaned | {key: [rule[key][k] for k in kept] for key in ("levels", "effects")}, ([], [])
    cleaned["levels"] = [LEFT_OUT.format(k) if k in rare else level for k, level in enumerate(rule["levels"])]
    base = len(rule["levels"]) == 2 and not rule["others"] and not rule["gaps"]  # the first has no feature
    always = [0] if base and 0 in rare else []
    never = [int(k) - base for k in rare if k >= base]
    return cleaned, ([], never + always) if never and always else (always, never)
