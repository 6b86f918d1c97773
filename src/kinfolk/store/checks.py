"""What must hold between the parts of a model that was read from a file, before anyone uses it.

What a field holds is declared beside its record (`kinfolk.declared`), and `check_fields` holds every record of a model
to it. The other checks are of what no declaration says. All take time in proportion to the size of the file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from kinfolk.declared import TYPES, Held, annotated, fits, held_by
from kinfolk.methods.method import MultiTaskRegressor
from kinfolk.methods.model import Bound, Model, Part
from kinfolk.methods.rbf import RBFFeatures
from kinfolk.methods.search_report import ByFeature, ByTask, SearchReport
from kinfolk.methods.splines import SplineFeatures
from kinfolk.methods.trunk import CATEGORIES, LEAVES, BoostedTrees, Trunk
from kinfolk.methods.walks import Walk
from kinfolk.rows.columns import CYCLES, RULES, TableRules, names_of
from kinfolk.rows.families import FAMILIES
from kinfolk.rows.folds import Folds
from kinfolk.rows.schema import Columns
from kinfolk.rows.table import Schema, TaskFacts
from kinfolk.rows.texts import DAYS, mark_of, number_in
from kinfolk.search.rbf_search import FeatureSearch
from kinfolk.search.stream import Stream
from kinfolk.solvers.equations import INTERCEPTS
from kinfolk.store.archive import ModelFileError
from kinfolk.store.classes import TRANSFORMERS
from kinfolk.store.wide import is_repeated

MOST_JOBS = 1024
MOST_TREES = 10_000
MOST_DEGREE, MOST_TERMS = 64, 10**7  # of polynomials and splines
LARGEST = 1e150  # of any number: targets reach 1e40, inputs 1e-35, coefficients 1e75 or 1e-75, precisions its square


def require(holds: bool, what: str) -> None:
    """Raise a ModelFileError unless something holds."""
    if not holds:
        raise ModelFileError(f"is damaged: its parts do not fit together ({what})")


def check_record(record: Any) -> None:
    """The fields of a record, by what its annotations say of them."""
    cls: Any = type(record)
    for name, hint in annotated(cls).items():
        require(fits(getattr(record, name), hint), f"the {name} of a {cls.__name__}")


def check_fields(record: Any, **sizes: int) -> None:
    """A record and all records in it, by what their classes declare; `sizes` are the lengths that are known."""
    cls = type(record)
    for name, held in held_by(cls).items():
        require(hasattr(record, name), f"a {cls.__name__} without {name}")
        value = getattr(record, name)
        if value is None:
            continue
        if held.type != "record":
            _check_value(value, held, sizes, f"the {name} of a {cls.__name__}")
            continue
        lengths = {own: sizes[here] for own, here in held.passed.items() if here in sizes}
        for part in value if type(value) is tuple else (value,):
            check_fields(part, **lengths)
    if cls in CHECKS:
        CHECKS[cls](record, sizes)


def _check_value(value: Any, held: Held, sizes: dict[str, int], what: str) -> None:
    """One value by its declaration; lengths that are met for the first time are noted in `sizes`."""
    if held.type == "number":
        require(fits(value, float) and not (isinstance(value, int) and abs(value) >= 2**53), what)  # else an object
        value = np.float64(value)
    elif held.type == "texts":
        require(fits(value, tuple[str, ...]), what)
        _check_lengths((len(value),), held, sizes, what)
        return
    elif held.type == "sparse":
        require(isinstance(value, sparse.csr_array), what)
        _check_lengths(value.shape, held, sizes, what)
        value = value.data
    else:
        require(isinstance(value, np.ndarray) and value.ndim == len(held.shape), what)
        require("repeats" in held.words or not is_repeated(value), what)
        _check_lengths(value.shape, held, sizes, what)
    kind = TYPES[held.type]
    if not kind:
        require(value.size > 0, what)
        return
    require(value.dtype.kind == kind and (kind != "f" or value.dtype == np.float64), what)
    if value.size and kind in "fi":
        _check_range(value, held, sizes, what)
    sizes |= {letter: int(value.sum()) for letter, here in held.passed.items() if here == "sum"}


def _check_lengths(shape: tuple[int, ...], held: Held, sizes: dict[str, int], what: str) -> None:
    """A shape; lengths that are met for the first time are noted in `sizes`."""
    for length, letter in zip(shape, held.shape, strict=True):
        expected = int(letter) if letter.isdigit() else sizes.setdefault(letter, length)
        require(length == expected, f"{what} is of shape {shape}, expected {letter} = {expected}")


def _check_range(value: Any, held: Held, sizes: dict[str, int], what: str) -> None:
    """Least and largest value, without another array of the same size."""
    least, largest = value.min(), value.max()
    if value.dtype.kind == "i":
        require(not held.below or (least >= 0 and largest < sizes[held.below]), what)
        return
    if "any" in held.words:
        numbers = value[~np.isnan(value)] if np.isnan(least) else value
        least, largest = (numbers.min(), numbers.max()) if numbers.size else (1.0, 1.0)
    require(not np.isnan(least), f"{what} is NaN somewhere")
    finite = held.words & {"any", "infinite"} or (least >= -LARGEST and largest <= LARGEST)
    require(bool(finite), f"{what} is not finite, or beyond {LARGEST:g}")
    within = {">0": least > 0, ">=0": least >= 0, "<=1": largest <= 1}
    require(all(within[word] for word in held.words & {*within}), f"{what} is from {least:.4g} to {largest:.4g}")
    require("ascending" not in held.words or bool((np.diff(value) > 0).all()), f"{what} does not ascend")


def check_estimator(estimator: Any) -> None:
    """Parameters that would reach beyond the model, or stand for endless work, when it is used."""
    params: dict[str, Any] = estimator.get_params(deep=False)
    require(params.get("memory") is None, f"{type(estimator).__name__} with a cache on disk: set memory=None")
    jobs = params.get("n_jobs")
    require(jobs is None or (type(jobs) is int and abs(jobs) <= MOST_JOBS), f"n_jobs={str(jobs)[:40]}")
    degrees = np.ravel(params.get("degree", 0))
    require(degrees.dtype.kind in "iu" and bool((degrees <= MOST_DEGREE).all()), "the degree of a polynomial")
    terms = getattr(estimator, "_n_out_full", 0)
    require(isinstance(terms, (int, np.integer)) and int(terms) <= MOST_TERMS, "the number of terms of a polynomial")


def check_model(estimator: Any) -> None:
    """A whole model: every record as declared, fitted numbers of one size, for the same tasks."""
    require(isinstance(estimator, MultiTaskRegressor), "it is not a model")
    model = vars(estimator).get("model_")
    require(isinstance(model, Model), "the model is not fitted")
    assert isinstance(model, Model)
    check_fields(model)
    assert model.columns is not None
    schema = model.columns.schema
    named = isinstance(estimator.task, str) and schema.names is not None
    require(not named or schema.task == estimator.task, "the name of the task column")
    require(model.columns.offsets == estimator.offsets, "the exposure or the offset")


def _check_fitted(model: Model, sizes: dict[str, int]) -> None:
    """Statistics and a table of the same tasks, and the models of other rows beside this one."""
    require((model.gram is None) == model.private, "a model without statistics")
    require(
        not model.private or not (model.parts or model.held_out or model.report or model.extras),
        "a private model with more",
    )
    require(model.gram is None or not (model.seen & (model.gram.n == 0)).any(), "which tasks had rows")
    require(isinstance(model.stream, Stream | None), "what a search goes on from")
    _check_target(model)
    _check_extras(model.extras, sizes)
    require(model.columns is not None, "a model without a table")
    assert model.columns is not None
    inputs = check_columns(model.columns, sizes["d"])
    labels = model.labels
    require(bool(np.all(labels[:-1] < labels[1:])), "names of tasks that are not sorted, or come twice")
    for part in (model.gram, model.columns.schema, model.structure):
        require(part is None or np.array_equal(part.labels, labels), f"a {type(part).__name__} of other tasks")
    later = model.beyond
    if later is not None:
        require(later.after is not None and 0 <= later.after[0] < inputs, "the input that orders later rows")
        require(np.array_equal(later.labels, model.labels) and later.beyond is None, "later rows of other tasks")


def _check_target(model: Model) -> None:
    """A family that there is, and as many models beside each other as there are classes."""
    require(model.family in FAMILIES, "the family of the targets")
    classes = 0 if model.classes is None else len(model.classes)
    require(classes == 0 or model.family == "binomial", "the family of classes")
    require(len(model.by_class) == (classes if classes > 2 else 0), "the models of the classes")
    for one in model.by_class:
        require(one.classes is None and np.array_equal(one.labels, model.labels), "the models of the classes")
        require(one.family == model.family, "the models of the classes")


def _check_bound(bound: Bound, sizes: dict[str, int]) -> None:
    """Lines in the inputs, which are at most as many as the features."""
    require(sizes["i"] <= sizes["d"], "the lines of other inputs")
    require(bound.lines.bound is None and bound.lines.beyond is None, "lines that are none")


def _check_extras(extras: dict[Any, Any], sizes: dict[str, int]) -> None:
    """Names that may be attributes, and values by task and feature of as many of these."""
    for name, value in extras.items():
        public = type(name) is str and name.isidentifier() and name.endswith("_") and not name.startswith("_")
        require(public, f"the attribute {str(name)[:40]!r}")
        if isinstance(value, ByTask):
            _check_by_task(value, sizes["T"], name)
        if isinstance(value, ByFeature):
            check_fields(value, d=sizes["d"])


def _check_report(report: SearchReport, sizes: dict[str, int]) -> None:
    """The shares of members that have names."""
    require(len(report.mixture) == sizes["M"], "the mixture of a SearchReport")


def _check_by_task(entry: ByTask, T: int, name: str) -> None:
    """An attribute with an entry per task along its axis."""
    shape = entry.values.shape if entry.values.dtype.kind in "fiub" else ()
    require(0 <= entry.axis < len(shape) and shape[entry.axis] == T, f"the attribute {name!r} of {T} tasks")


def check_columns(columns: Columns, d: int) -> int:
    """That a table becomes the d features of a model; returns how many inputs these are made of."""
    require(all(type(step) in TRANSFORMERS.values() for step in columns.steps), "features that transform nothing")
    basis, limits = columns.basis, columns.limits
    inputs = d if basis is None else getattr(basis, "n_features_in_", None)
    require(type(inputs) is int and inputs >= 0, "the inputs of curves")
    assert isinstance(inputs, int)
    if columns.transformer is None:
        require(columns.inputs == inputs, f"a table of {columns.inputs} columns for {inputs} inputs")
    if isinstance(columns.transformer, TableRules):
        check_rules(columns.transformer, columns.schema)
        made = sum(len(names_of(name, rule)) for name, rule in columns.transformer.rules_.items())
        require(made == inputs, f"rules that make {made} of {inputs} inputs")
    if isinstance(basis, (SplineFeatures, RBFFeatures)):
        _check_curves(basis, inputs, d)
    if isinstance(columns.transformer, (SplineFeatures, RBFFeatures)):
        _check_curves(columns.transformer, columns.inputs, inputs)
        named = getattr(columns.transformer, "feature_names_in_", None)
        names = [name for name in columns.schema.names or () if name != columns.schema.task]
        require(named is None or list(named) == names, "the names of the inputs of curves")
    require(limits is None or limits.shape[1] == inputs, f"the limits of {inputs} inputs")
    require(limits is None or bool((limits[0] <= limits[1]).all()), "limits of which the least is the largest")
    reached = limits is None or bool((limits[0] < np.inf).all() and (limits[1] > -np.inf).all())
    require(reached, "limits that no number lies between")
    return inputs


def _check_curves(curves: SplineFeatures | RBFFeatures, inputs: int, d: int) -> None:
    """Curves of so many inputs that make d features."""
    require(getattr(curves, "n_features_in_", None) == inputs, f"curves of other than {inputs} inputs")
    check_fields(curves, n=inputs)
    require(_features_of(curves) == d, f"curves that make other than {d} features")


def _features_of(basis: SplineFeatures | RBFFeatures) -> int:
    """How many features a basis makes."""
    if isinstance(basis, SplineFeatures):
        return basis.n_terms + basis.n_features_in_
    return len(basis.centers_) + (basis.n_features_in_ if basis.linear else 0)


def _check_splines(basis: SplineFeatures, sizes: dict[str, int]) -> None:
    """Curves between ends that differ, and a walk along one of the inputs."""
    require(type(basis.knots) is int and sizes["K"] == basis.knots == sizes["k"] + 2, "the knots of curves")
    require(bool((basis.ends_[0] < basis.ends_[1]).all()), "the ends of curves")
    inside = type(basis.walk) is int and 0 <= basis.walk < sizes["n"]
    require(isinstance(basis.walk_, Walk | None), "a walk")
    require(inside if basis.walk_ is not None else basis.walk is None, "the input of a walk")


def _check_bumps(basis: RBFFeatures, sizes: dict[str, int]) -> None:
    """Centres of radial basis functions, and factors of the inputs, which are a parameter."""
    require(type(basis.linear) is bool and sizes["P"] > 0, "the centres of curves")
    scale = np.ones(sizes["n"]) if basis.scale is None else np.asarray(basis.scale)
    _check_value(scale, Held.of("n"), sizes, "the scale of curves")


def check_rules(rules: TableRules, schema: Schema) -> None:
    """The rules of columns of a table that has these."""
    ruled = getattr(rules, "rules_", None)
    names = {*(schema.names or ())} - {schema.task}
    require(isinstance(ruled, dict) and len(ruled) > 0 and set(ruled) <= names, "rules of other columns")
    assert isinstance(ruled, dict)
    require(type(rules.scale) is bool, "the scale of a table")
    for name, rule in ruled.items():
        _check_rule(rule, f"the rule of column {name[:40]!r}")


def _check_rule(rule: Any, what: str) -> None:
    """One rule by `RULES`, and what holds between its fields."""
    require(isinstance(rule, dict) and isinstance(rule.get("kind"), str) and rule["kind"] in RULES, what)
    declared = RULES[rule["kind"]]
    for field, kind in declared.items():
        name = field.strip("[]")
        optional = name != field and name not in rule
        require(optional or (name in rule and RULE_FIELDS[kind](rule[name])), f"{what}: its {name}")
    require(set(rule) <= {"kind", *(field.strip("[]") for field in declared)}, f"{what}: its fields")
    if rule["kind"] == "learned":
        require(len(rule["effects"]) == len(rule["levels"]), f"{what}: its effects")
    require(len(rule.get("rows", rule.get("levels", ()))) == len(rule.get("levels", ())), f"{what}: its rows")
    unusual = rule.get("unusual")
    require(not unusual or number_in(unusual, mark_of(rule["kind"])) is not None, f"{what}: its unusual text")


def _is_number(value: Any) -> bool:
    return type(value) in (float, int) and abs(value) <= LARGEST


def _is_list(value: Any, kind: Callable[[Any], bool]) -> bool:
    return isinstance(value, list) and all(map(kind, value))


RULE_FIELDS: dict[str, Callable[[Any], bool]] = {
    "number": _is_number,
    "number >0": lambda value: _is_number(value) and value > 0,
    "numbers": lambda value: _is_list(value, _is_number),
    "whole": lambda value: type(value) is int and abs(value) < 2**63,
    "rows of levels": lambda value: _is_list(value, lambda count: type(count) is int and 0 <= count < 2**63),
    "truth": lambda value: type(value) is bool,
    "texts": lambda value: _is_list(value, lambda text: type(text) is str) and len(set(value)) == len(value),
    "a text or None": lambda value: value is None or type(value) is str,
    "cycles": lambda value: _is_list(value, CYCLES.__contains__) and len(set(value)) == len(value),
    "a way to write days": lambda value: value is None or (type(value) is str and set(value.split("|")) <= set(DAYS)),
}


def _check_schema(schema: Schema, sizes: dict[str, int]) -> None:
    """Names of the columns, of which one is the task."""
    require(0 < schema.width < 2**31, "the number of columns")
    names = schema.names
    require(names is None or len(names) == schema.width == len(set(names)), "the names of the columns")
    if isinstance(schema.task, str):
        require(names is not None and schema.task in names, "the name of the task column")
    elif schema.task is not None:
        require(0 <= schema.task < schema.width, "the position of the task column")


def _check_known(known: TaskFacts, sizes: dict[str, int]) -> None:
    """Labels in order, and texts that are some."""
    require(bool(np.all(known.labels[:-1] < known.labels[1:])), "facts of tasks that are not sorted, or come twice")
    texts = [] if known.texts is None else known.texts.ravel().tolist()
    require(all(text is None or type(text) is str for text in texts), "texts about tasks that are none")
    require((known.texts is None) == (not known.text_names), "texts about tasks without a name")


def _check_stream(stream: Stream, sizes: dict[str, int]) -> None:
    """Curves and splines where they belong."""
    for search, kind in ((stream.curves, RBFFeatures), (stream.splines, SplineFeatures)):
        require(search is None or type(search.features) is kind, "the curves of a stream")


def _check_search(search: FeatureSearch, sizes: dict[str, int]) -> None:
    """Curves of one kind, fitted anew in every fold."""
    fitted = (search.features, *search.by_fold)
    require(len({type(features) for features in fitted}) == 1, "the curves of a stream")
    require(len(search.by_fold) == len(search.folds.held_out), "the curves of a stream")
    inputs = getattr(search.features, "n_features_in_", None)
    require(type(inputs) is int, "the curves of a stream")
    for features in fitted:
        check_fields(features, n=inputs)  # type: ignore[arg-type]


def _check_folds(folds: Folds, sizes: dict[str, int]) -> None:
    """Statistics of several folds in the same features."""
    parts = (folds.total, *folds.held_out, *(folds.own or ()))
    require({part.n_features for part in parts} == {folds.total.n_features}, "the features of the folds of a stream")
    require(len(folds.own or folds.held_out) == len(folds.held_out) > 1, "the folds of a stream")


def _check_trees(trees: BoostedTrees, sizes: dict[str, int]) -> None:
    """Trees with fewer splits than leaves, of which the last is never out of reach, and with tables that stay small."""
    R, L = trees.values.shape
    require(R <= MOST_TREES and 0 < L <= LEAVES, "the number of trees or leaves")
    splits = np.bincount(trees.tree, minlength=R)
    require(splits.max(initial=0) < L, "trees with more splits than leaves")
    # What fails all splits of a tree ends in its last leaf, which no split removes.
    require(int(trees.removed.max(initial=0)) < 2 ** (L - 1), "the leaves that splits of trees remove")
    by_category = trees.bitset >= 0
    positions = (trees.bitset >= -1) & (trees.bitset < len(trees.bitsets))
    require(bool(positions.all()) and not np.isnan(trees.threshold[~by_category]).any(), "the splits of trees")
    # One table per feature is made at predict: of categories, or of thresholds, which are few.
    both = np.intersect1d(trees.feature[by_category], trees.feature[~by_category])
    require(not len(both), "splits of trees by categories and by numbers of one feature")
    order = np.lexsort((trees.threshold[~by_category], trees.feature[~by_category]))
    feature, threshold = trees.feature[~by_category][order], trees.threshold[~by_category][order]
    new = np.ones(len(order), bool)
    new[1:] = (np.diff(feature) != 0) | (threshold[1:] != threshold[:-1])
    places = np.unique(feature[new], return_counts=True)[1]
    require(places.max(initial=0) <= CATEGORIES, "the thresholds of trees")


def _check_trunk(trunk: Trunk, sizes: dict[str, int]) -> None:
    """Splits by what a trunk knows of tasks, or by its own features."""
    require(isinstance(trunk.regressor, BoostedTrees), "the regressor of a Trunk")
    inputs = trunk.inputs.shape[1] + len(trunk.columns)
    feature = trunk.regressor.feature
    require(not len(feature) or (feature.min() >= 0 and feature.max() < inputs), "the splits of trees")


def _check_part(part: Part, sizes: dict[str, int]) -> None:
    """A linear map of S tasks with d features: its unknowns, and a coupling of as many."""
    require(part.intercept in INTERCEPTS, "a part")
    ones = part.intercept in ("coupled", "shrunk")
    unknowns = sizes["d"] if part.basis is None else sizes["q"]
    require(sizes["p"] == unknowns + ones, "the unknowns of a part")
    origin = part.origin
    require((origin is None) != ones, "the origin of a part")
    if origin is not None:
        _check_value(origin[0], Held.of("d"), sizes, "the origin of a part")
        _check_value(origin[1], Held.of("number"), sizes, "the origin of a part")


CHECKS: dict[type[Any], Callable[[Any, dict[str, int]], None]] = {
    Model: _check_fitted,
    Bound: _check_bound,
    Part: _check_part,
    SearchReport: _check_report,
    Schema: _check_schema,
    TaskFacts: _check_known,
    Stream: _check_stream,
    FeatureSearch: _check_search,
    Folds: _check_folds,
    Trunk: _check_trunk,
    BoostedTrees: _check_trees,
    SplineFeatures: _check_splines,
    RBFFeatures: _check_bumps,
}
