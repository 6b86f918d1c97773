"""What must hold between the parts of a model that was read from a file, before anyone uses it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from kinfolk.methods.couplings import Alone, Hub, ToMean
from kinfolk.methods.gamtl.coupling import GraphCoupling
from kinfolk.methods.method import MultiTaskRegressor
from kinfolk.methods.model import Bound, Model, Part
from kinfolk.methods.parts import LastRows
from kinfolk.methods.rbf import RBFFeatures
from kinfolk.methods.splines import SplineFeatures
from kinfolk.methods.stream import Stream
from kinfolk.methods.structures import TaskCovariance, TaskGraph, TaskPrecision
from kinfolk.methods.trees import TaskTree
from kinfolk.methods.trunk import CATEGORIES, LEAVES, BoostedTrees, Trunk
from kinfolk.methods.walks import Walk
from kinfolk.rows.columns import Columns
from kinfolk.rows.gram import GramStats
from kinfolk.rows.rules import TableRules
from kinfolk.rows.tasks import Schema
from kinfolk.solvers.equations import INTERCEPTS
from kinfolk.store.archive import ModelFileError
from kinfolk.store.classes import RECORDS, TRANSFORMERS

FIELD_KINDS: dict[str, tuple[type[Any], ...]] = {
    "float": (float, int, np.number),
    "int": (int, np.integer),
    "bool": (bool, np.bool_),
    "str": (str,),
    "None": (type(None),),
    "tuple": (tuple,),
    "dict": (dict,),
    "Array": (np.ndarray,),
    "NDArray": (np.ndarray,),
}
STRUCTURES = (TaskGraph, TaskCovariance, TaskPrecision, TaskTree)
COUPLINGS = (GraphCoupling, Hub, Alone, ToMean)
MOST_JOBS = 1024
MOST_TREES = 10_000
MOST_DEGREE, MOST_TERMS = 64, 10**7  # of polynomials and splines


def require(holds: bool, what: str) -> None:
    """Raise a ModelFileError unless something holds."""
    if not holds:
        raise ModelFileError(f"its parts do not fit together: {what}")


def has_shape(value: Any, *shape: int, repeated: bool = False) -> bool:
    """Whether a value is an array of floats of this shape, all of them in the file unless they may be `repeated`."""
    if not isinstance(value, np.ndarray) or value.dtype != np.float64 or value.shape != shape:
        return False
    return repeated or not is_repeated(value)


def is_repeated(value: np.ndarray[Any, Any]) -> bool:
    """Whether an array is larger than its memory."""
    return any(stride == 0 and size > 1 for stride, size in zip(value.strides, value.shape, strict=True))


def is_labels(value: Any) -> bool:
    """Whether a value can be task names."""
    return isinstance(value, np.ndarray) and value.ndim == 1 and value.size > 0 and not is_repeated(value)


def check_record(record: Any) -> None:
    """The fields of a record, by what its class says of them, and its shapes."""
    for name, kinds in FIELDS.get(type(record), {}).items():
        require(isinstance(getattr(record, name), kinds), f"the {name} of a {type(record).__name__}")
    check = CHECKS.get(type(record))
    if check is not None:
        check(record)


def field_kinds(cls: type[Any]) -> dict[str, tuple[type[Any], ...]]:
    """What the fields of a record may be, of those whose annotation names it.

    Examples
    --------
    >>> from kinfolk.methods.model import Population
    >>> field_kinds(Population)["intercept"]
    (<class 'float'>, <class 'int'>, <class 'numpy.number'>)
    """
    texts = {name: str(getattr(kind, "__forward_arg__", kind)) for name, kind in cls.__annotations__.items()}
    parts = {name: [part.split("[")[0] for part in text.split(" | ")] for name, text in texts.items()}
    known = {**FIELD_KINDS, **{name: (record,) for name, record in RECORDS.items()}}
    return {
        name: tuple(kind for part in some for kind in known[part])
        for name, some in parts.items()
        if all(part in known for part in some)
    }


FIELDS = {cls: field_kinds(cls) for cls in RECORDS.values()}


def _check_gram(gram: GramStats) -> None:
    require(is_labels(gram.labels), "statistics without task names")
    T, d = len(gram.labels), gram.b.shape[-1] if isinstance(gram.b, np.ndarray) and gram.b.ndim == 2 else 0
    shapes = {"n": (T,), "x_mean": (T, d), "y_mean": (T,), "G": (T, d, d), "b": (T, d), "yy": (T,)}
    wrong = [
        name
        for name, shape in shapes.items()
        if not has_shape(getattr(gram, name), *shape, repeated=name in ("x_mean", "G"))
    ]
    require(not wrong, f"the statistics {', '.join(wrong)} are not of {T} tasks and {d} features")
    require(gram.feature_names is None or _is_texts(gram.feature_names, d), f"names of {d} features")
    require(gram.span is None or has_shape(gram.span, 2, d), f"the ranges of {d} features")


def _check_schema(schema: Schema) -> None:
    require(is_labels(schema.labels), "a table without task names")
    require(schema.task is None or type(schema.task) in (str, int), "the task column is neither a name nor a position")
    require(type(schema.width) is int and 0 < schema.width < 2**31, "the number of columns")
    require(schema.names is None or _is_texts(schema.names, schema.width), "the names of the columns")
    columns = schema.columns
    integers = isinstance(columns, np.ndarray) and columns.dtype.kind == "i" and columns.ndim == 1
    require(columns is None or (integers and bool(np.isin(columns, np.arange(len(schema.labels))).all())), "columns")


def _is_texts(names: Any, count: int) -> bool:
    return isinstance(names, tuple) and len(names) == count and all(isinstance(name, str) for name in names)


def _check_graph(graph: TaskGraph) -> None:
    require(is_labels(graph.labels), "a graph without task names")
    T = len(graph.labels)
    A = graph.adjacency
    require(isinstance(A, sparse.csr_array) and A.shape == (T, T) and A.dtype == np.float64, f"a graph of {T} tasks")
    points = graph.points
    width = points.shape[-1] if isinstance(points, np.ndarray) and points.ndim == 2 else 0
    require(points is None or has_shape(points, T, width), "the points of a graph")


def _check_matrix(structure: TaskCovariance | TaskPrecision) -> None:
    require(is_labels(structure.labels), "a matrix without task names")
    require(has_shape(structure.matrix, *2 * structure.labels.shape), f"a matrix of {len(structure.labels)} tasks")


def _check_walk(walk: Walk) -> None:
    knots = walk.knots
    K = len(knots) if isinstance(knots, np.ndarray) and knots.ndim == 1 else 0
    ascends = K > 1 and has_shape(knots, K) and bool(np.isfinite(knots).all() and (np.diff(knots) > 0).all())
    width = walk.values.shape[-1] if isinstance(walk.values, np.ndarray) and walk.values.ndim == 2 else 0
    require(ascends and has_shape(walk.values, K, width), "the knots of a walk")


CHECKS: dict[type[Any], Callable[[Any], None]] = {
    GramStats: _check_gram,
    Schema: _check_schema,
    TaskGraph: _check_graph,
    TaskCovariance: _check_matrix,
    TaskPrecision: _check_matrix,
    Walk: _check_walk,
}


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
    if isinstance(estimator, SplineFeatures):
        walk = getattr(estimator, "walk_", None)
        inside = type(estimator.walk) is int and 0 <= estimator.walk < getattr(estimator, "n_features_in_", 0)
        require(inside if isinstance(walk, Walk) else walk is None and estimator.walk is None, "the input of a walk")


def check_model(estimator: Any) -> None:
    """A whole model: fitted numbers of one size, for the same tasks, finite."""
    require(isinstance(estimator, MultiTaskRegressor), "it is not a model")
    model = vars(estimator).get("model_")
    require(isinstance(model, Model), "the model is not fitted")
    assert isinstance(model, Model)
    # What fields may be is checked here too: the records of files of format 1 were put together from attributes.
    for record in (model, model.population, model.held_out, model.course, model.columns):
        check_record(record)
    _check_columns(model.columns, len(model.labels))
    _check_fitted(model)
    inputs = model.coef.shape[1] - model.curve_terms
    if model.beyond is not None:
        _check_beyond(model.beyond, model, inputs)


def _check_beyond(later: Model, model: Model, inputs: int) -> None:
    """The model of later rows, for the same tasks and inputs."""
    check_record(later)
    require(np.array_equal(later.labels, model.labels) and later.beyond is None, "later rows of other tasks")
    _check_columns(later.columns, len(later.labels))
    _check_fitted(later)
    after = later.after
    sound = isinstance(after, tuple) and len(after) == 2 and type(after[0]) is int and type(after[1]) is float
    require(sound and after is not None and 0 <= after[0] < inputs, "the input that orders later rows")


def _check_bound(bound: Bound, T: int, d: int) -> None:
    """Lines of the same tasks in the inputs, which are at most as many as the features."""
    _check_fitted(bound.lines)
    inputs = bound.lines.coef.shape[1]
    require(len(bound.lines.labels) == T and inputs <= d, "the lines of other tasks")
    require(bound.lines.bound is None and bound.lines.beyond is None, "lines that are none")
    require(has_shape(bound.span, 2, inputs) and not np.isnan(bound.span).any(), f"the ranges of {inputs} inputs")
    require(bool(bound.most >= 0), "how far predictions may differ from lines")
    require(has_shape(bound.center, d) and has_shape(bound.root, d, d), f"the center of {d} features")
    require(bool(np.isfinite(bound.center).all() and np.isfinite(bound.root).all()), "the center of features")
    require(bool(bound.reach > 0), "how far training rows go")


def _check_fitted(model: Model) -> None:
    """Numbers of one size, for the same tasks, finite."""
    W = model.coef
    require(W.ndim == 2 and is_labels(model.labels), "coefficients without tasks")
    T, d = W.shape
    require(has_shape(W, T, d) and has_shape(model.intercept, T) and len(model.labels) == T, f"numbers of {T} tasks")
    require(has_shape(model.population.coef, d) and isinstance(model.population.intercept, float), "population")
    finite = all(np.isfinite(part).all() for part in (W, model.intercept, model.population.coef))
    require(bool(finite), "coefficients are not finite")
    seen = model.seen
    require(seen.dtype == bool and seen.shape == (T,), "which tasks had rows")
    gram = model.gram
    require(gram is not None and gram.b.shape == (T, d), f"statistics of {T} tasks and {d} features")
    assert gram is not None
    require(not (seen & (gram.n == 0)).any(), "which tasks had rows")
    structure = model.structure
    require(structure is None or (type(structure) in STRUCTURES and len(structure.labels) == T), "the structure")
    for name in model.details:
        public = type(name) is str and name.isidentifier() and name.endswith("_") and not name.startswith("_")
        require(public, f"the attribute {str(name)[:40]!r}")
    held_out = model.held_out
    require(held_out is None or has_shape(held_out.errors, T), "its errors")
    without = None if held_out is None else held_out.without_graph
    require(without is None or has_shape(without, T), "its errors without a graph")
    require(model.stream is None or isinstance(model.stream, Stream), "its stream")
    if model.stream is not None:
        _check_stream(model.stream, T)
    for part in model.parts:
        _check_part(part, int(seen.sum()), d)
    if model.trunk is not None:
        _check_trunk(model.trunk, T, d)
    if model.bound is not None:
        _check_bound(model.bound, T, d)


def _check_columns(columns: Columns | None, T: int) -> None:
    require(columns is not None, "a model without a table")
    assert columns is not None
    require(len(columns.schema.labels) == T, f"a table of {T} tasks")
    limits = columns.limits
    require(limits is None or (np.ndim(limits) == 2 and len(limits) == 2), "the limits of features")
    known = all(type(step) in TRANSFORMERS.values() for step in columns.steps)
    require(known, "features that transform nothing")
    if isinstance(columns.transformer, TableRules):
        for rule in columns.transformer.rules_.values():
            require(rule.get("kind") != "learned" or _is_learned(rule), "what the values of a text column add")


def _is_learned(rule: dict[str, Any]) -> bool:
    """Whether a rule has texts and as many finite numbers, in a unit above 0."""
    levels: Any = rule.get("levels")
    added: Any = rule.get("effects")
    unit: Any = rule.get("std")
    if not isinstance(levels, list) or not isinstance(added, list) or len(levels) != len(added):
        return False
    texts = all(isinstance(level, str) for level in levels) and type(rule.get("gaps")) is bool
    return texts and all(type(value) is float and np.isfinite(value) for value in [unit, *added]) and unit > 0


def _check_stream(stream: Stream, T: int) -> None:
    """Statistics of folds of the same T tasks, each kind with its own features."""
    made = [(stream.curves, RBFFeatures), (stream.splines, SplineFeatures)]
    known = [(found, kind) for found, kind in made if found is not None]
    for found, kind in known:
        fitted = (found.features, *found.by_fold)
        require(all(type(features) is kind for features in fitted), "the curves of a stream")
        require(len(found.by_fold) == len(found.folds.held_out), "the curves of a stream")
    for folds in (stream.folds, *(found.folds for found, _ in known)):
        parts = (folds.total, *folds.held_out, *(folds.own or ()))
        d = folds.total.n_features
        require(all(isinstance(g, GramStats) and g.b.shape == (T, d) for g in parts), f"folds of {T} tasks")
        require(len(folds.own or folds.held_out) == len(folds.held_out) > 1, "the folds of a stream")


def _check_trunk(trunk: Trunk, T: int, d: int) -> None:
    """A trunk of T tasks and d features: trees whose splits point into their tables."""
    inputs = trunk.inputs
    require(getattr(inputs, "ndim", 0) == 2 and has_shape(inputs, T, inputs.shape[1]), f"a trunk of {T} tasks")
    require(has_shape(trunk.shares, T) and isinstance(trunk.share, float), f"the shares of {T} tasks")
    require(isinstance(trunk.stranger, float), "what a trunk is told of new tasks")
    ends = (trunk.reach, trunk.beyond)
    known = _is_index(trunk.columns, d) and all(has_shape(part, 2, len(trunk.columns)) for part in ends)
    require(known and bool(np.isfinite(trunk.beyond).all()), "the features of a trunk")
    trees = trunk.regressor
    require(isinstance(trees, BoostedTrees) and isinstance(trees.baseline, float), "a trunk without trees")
    values = trees.values
    shape = values.shape if isinstance(values, np.ndarray) and values.ndim == 2 else (0, 0)
    require(has_shape(values, *shape) and 0 < shape[1] <= LEAVES and bool(np.isfinite(values).all()), "leaves of trees")
    S = len(trees.tree) if shape[0] <= MOST_TREES and _is_index(trees.tree, shape[0]) else -1
    require(S >= 0 and _is_index(trees.feature, inputs.shape[1] + len(trunk.columns)), "the splits of trees")
    kinds = ((trees.threshold, "<f8"), (trees.removed, "<u8"), (trees.missing_passes, "|b1"), (trees.feature, "<i4"))
    sound = all(isinstance(part, np.ndarray) and part.shape == (S,) and part.dtype.str == kind for part, kind in kinds)
    sets = trees.bitsets
    require(isinstance(sets, np.ndarray) and sets.dtype.str == "<u4" and sets.shape[1:] == (8,), "categories of trees")
    require(sound and _is_index(trees.bitset + 1, len(sets) + 1) and len(trees.bitset) == S, "the splits of trees")
    places = [len(np.unique(trees.threshold[trees.feature == j])) for j in np.unique(trees.feature)]
    require(max(places, default=0) <= CATEGORIES, "the thresholds of trees")  # one table per feature, made at predict


def _is_index(value: Any, below: int) -> bool:
    """Whether a value is positions in something of a certain length."""
    if not isinstance(value, np.ndarray) or value.ndim != 1 or value.dtype.kind != "i" or is_repeated(value):
        return False
    return not len(value) or bool(value.min() >= 0 and value.max() < below)


def _check_part(part: Any, S: int, d: int) -> None:
    """A linear map of S tasks with d features: sizes that agree, and a coupling that is one."""
    require(isinstance(part, Part) and type(part.coupling) in COUPLINGS, "a part of the model")
    require(isinstance(part.share, float) and type(part.shown) is bool and part.intercept in INTERCEPTS, "a part")
    ones = part.intercept in ("coupled", "shrunk")
    require(getattr(part.V, "ndim", 0) == 2, f"a part of {S} tasks")
    p = part.V.shape[1]
    require(has_shape(part.V, S, p), f"a part of {S} tasks")
    require(part.own_shares is None or has_shape(part.own_shares, S), f"the shares of {S} tasks")
    last = part.last
    if last is not None:
        shapes = (
            isinstance(last, LastRows) and has_shape(last.n, S) and has_shape(last.x, S, d) and has_shape(last.y, S)
        )
        require(shapes, f"the last rows of {S} tasks")
    require(part.common is None or has_shape(part.common, d), "the common coefficients of a part")
    require(part.units is None or has_shape(part.units, d), "the units of a part")
    require(p == d + ones if part.basis is None else has_shape(part.basis, d, p - ones), "the basis of a part")
    require((part.origin is None) != ones and (part.origin is None or has_shape(part.origin[0], d)), "an origin")
    coupling = part.coupling
    check_record(coupling)  # here too, since files of format 1 do not hold one
    if isinstance(coupling, GraphCoupling):
        penalty = coupling.penalty
        check_record(penalty)
        require(has_shape(penalty.ridge, p, p), "a penalty")
        require(has_shape(penalty.scale, p) and has_shape(penalty.shrinkage, p), "a penalty")
        require(coupling.adjacency.shape == (S, S), f"a graph of {S} tasks")
        check_record(coupling.recipe)
    if isinstance(coupling, Hub):
        require(has_shape(coupling.covariance, p, p) and has_shape(coupling.centre, p, p), "a covariance")
        w = coupling.weights
        require(w is None or (has_shape(w, S) and bool(np.isfinite(w).all() and (w > 0).all())), "weights of tasks")
