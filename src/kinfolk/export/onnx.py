"""Fitted predictors as ONNX, for programs that do not run Python. The only importer of onnx."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from kinfolk._version import __version__
from kinfolk.files import replacing
from kinfolk.methods.model import Fitted, Model, as_model
from kinfolk.methods.rbf import RBFFeatures
from kinfolk.methods.splines import SplineFeatures
from kinfolk.methods.walks import FADE

OPSET, ML_OPSET, IR = 18, 3, 9
INT64, BOOL = 7, 9  # types of ONNX


def to_onnx(fitted: Fitted, path: str | os.PathLike[str]) -> Path:
    """Write the predictor as an ONNX graph, computing in float64 what `predict` computes.

    Inputs: `task` of shape (n,), texts or int64, and `features` (n, columns without the task column), float64, in the
    order of the table of fit. Output: `prediction` (n,). A model fitted on wide targets has no `task` and one column of
    `prediction` per target. Tasks that fit has not seen get the population model; with `unseen="error"`, as ONNX
    has no errors, they get NaN.

    `features` may be None, StandardScaler, RBFFeatures, or a Pipeline of these.
    """
    onnx = _import_onnx()
    model = as_model(fitted, "to_onnx")
    assert model.columns is not None
    if model.trunk is not None or (model.beyond is not None and model.beyond.trunk is not None):
        raise ValueError(
            "boosted trees take part in these predictions, and have no ONNX form here: fit with trunk=None"
        )
    if model.by_class or model.columns.offsets:
        raise ValueError("several classes, exposure and offset have no ONNX form here: use predict in Python")
    graph = _Graph(onnx)
    X = "features"
    for step in _steps(model.columns.transformer):
        X = _transformed(graph, step, X)
    if model.columns.limits is not None:
        low, high = model.columns.limits
        X = graph.op("Max", graph.op("Min", X, graph.constant(high)), graph.constant(low))
    inputs = [onnx.helper.make_tensor_value_info("features", onnx.TensorProto.DOUBLE, ["n", model.columns.inputs])]
    if model.columns.task is None:
        shape = _wide(graph, model, X)
    else:
        inputs.insert(0, onnx.helper.make_tensor_value_info("task", _label_type(onnx, model), ["n"]))
        shape = ["n"]
        _long(graph, model, X, unseen=getattr(fitted, "unseen", "error"))
    output = onnx.helper.make_tensor_value_info("prediction", onnx.TensorProto.DOUBLE, shape)
    return _write(onnx, graph, inputs, output, Path(path))


class _Graph:
    """Nodes and constants in the making; every call adds one and returns the name of its result."""

    def __init__(self, onnx: Any) -> None:
        self.onnx = onnx
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, value: Any) -> str:
        """A constant array."""
        name = f"c{len(self.constants)}"
        self.constants.append(self.onnx.numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def op(self, kind: str, *inputs: str, output: str | None = None, domain: str = "", **attributes: Any) -> str:
        """An operator of ONNX applied to named values."""
        name = output or f"v{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(kind, list(inputs), [name], domain=domain, **attributes))
        return name


def _steps(transformer: Any) -> list[Any]:
    """What a transformer does, in order."""
    steps = [step for _, step in transformer.steps] if isinstance(transformer, Pipeline) else [transformer]
    steps = [step for step in steps if step is not None and not (isinstance(step, str) and step == "passthrough")]
    for step in steps:
        if type(step) not in (StandardScaler, RBFFeatures, SplineFeatures):
            raise ValueError(
                f"features: {type(step).__name__} has no ONNX form here. Use None, StandardScaler, RBFFeatures or a "
                "Pipeline of these; or apply it before the model, on both sides."
            )
    return steps


def _transformed(graph: _Graph, step: Any, X: str) -> str:
    if isinstance(step, StandardScaler):
        if step.with_mean:
            X = graph.op("Sub", X, graph.constant(step.mean_))
        return graph.op("Div", X, graph.constant(step.scale_)) if step.with_std else X
    if isinstance(step, SplineFeatures):
        return _splines(graph, step, X)
    Z = graph.op("Mul", graph.op("Sub", X, graph.constant(step.mean_)), graph.constant(step._scale()))
    phi = _bumps(graph, step, Z)
    if not step.linear:
        return phi
    return graph.op("Concat", phi, graph.op("Div", Z, graph.constant(np.float64(step.size_))), axis=1)


def _bumps(graph: _Graph, step: RBFFeatures, Z: str) -> str:
    """exp(-(z'z - 2 z'c + c'c) / (2 sigma^2)), the distance not below zero."""
    C = step.centers_
    square = graph.op("ReduceSum", graph.op("Mul", Z, Z), graph.constant(np.array([1])), keepdims=1)
    cross = graph.op("MatMul", Z, graph.constant(-2.0 * C.T))
    distance = graph.op("Add", graph.op("Add", square, cross), graph.constant(np.square(C).sum(axis=1)))
    least = graph.op("Max", distance, graph.constant(np.float64(0.0)))
    return graph.op("Exp", graph.op("Div", least, graph.constant(-2.0 * step.widths_**2)))


def _splines(graph: _Graph, step: SplineFeatures, X: str) -> str:
    """The terms of a walk and of every bent input, which fade beyond its ends; the inputs."""
    parts = []
    if step.walk_ is not None:
        parts.append(_walk(graph, step, X))
    for i, column in enumerate(step.columns_):
        edge, fading = _within(graph, X, int(column), step.ends_[:, i])
        cubes = graph.op("Pow", _hinges(graph, edge, step.knots_[i]), graph.constant(np.float64(3.0)))
        curve = graph.op("MatMul", cubes, graph.constant(step.weights_[i]))
        line = graph.op(
            "Add", graph.op("MatMul", edge, graph.constant(step.lines_[i][1:])), graph.constant(step.lines_[i][0])
        )
        parts.append(graph.op("Mul", graph.op("Sub", curve, line), fading))
    return graph.op("Concat", *parts, X, axis=1)


def _walk(graph: _Graph, step: SplineFeatures, X: str) -> str:
    """Terms that are linear between knots, as what they are at the first, and by how much their slope turns at each."""
    assert step.walk is not None
    assert step.walk_ is not None
    knots, values = step.walk_
    edge, fading = _within(graph, X, step.walk, knots[[0, -1]])
    place = (knots - knots[0]) / (knots[-1] - knots[0])
    slopes = np.diff(values, axis=0) / np.diff(place)[:, None]
    turns = np.diff(slopes, axis=0, prepend=0.0)
    way = graph.op("MatMul", _hinges(graph, edge, place[:-1]), graph.constant(turns))
    return graph.op("Mul", graph.op("Add", way, graph.constant(values[0])), fading)


def _within(graph: _Graph, X: str, column: int, ends: Any) -> tuple[str, str]:
    """A column in units of its range, held at the ends; and the factor by which terms fade beyond."""
    x = graph.op("Gather", X, graph.constant(np.array([column])), axis=1)
    u = graph.op("Div", graph.op("Sub", x, graph.constant(ends[0])), graph.constant(ends[1] - ends[0]))
    edge = graph.op("Max", graph.op("Min", u, graph.constant(np.float64(1.0))), graph.constant(np.float64(0.0)))
    beyond = graph.op("Div", graph.op("Abs", graph.op("Sub", u, edge)), graph.constant(np.float64(-FADE)))
    return edge, graph.op("Exp", beyond)


def _hinges(graph: _Graph, u: str, knots: Any) -> str:
    """(u - k)+ for every knot."""
    return graph.op("Max", graph.op("Sub", u, graph.constant(knots)), graph.constant(np.float64(0.0)))


def _long(graph: _Graph, model: Model, X: str, *, unseen: str) -> None:
    """One row of coefficients per row of the table; rows later than all of fit have those of another model."""
    T = len(model.labels)
    keys = {"keys_strings" if model.labels.dtype.kind == "U" else "keys_int64s": model.labels.tolist()}
    code = graph.op("LabelEncoder", "task", domain="ai.onnx.ml", values_int64s=list(range(T)), default_int64=T, **keys)

    def by_row(one: Model, features: str) -> str:
        level = one.population.intercept if unseen != "error" else np.nan
        W = graph.op("Gather", graph.constant(np.vstack([one.coef, one.population.coef])), code, axis=0)
        linear = graph.op("ReduceSum", graph.op("Mul", features, W), graph.constant(np.array([1])), keepdims=1)
        c = graph.constant(np.append(one.intercept, level)[:, None])
        line = graph.op("Add", linear, graph.op("Gather", c, code, axis=0))
        if not one.facts_move_slopes:
            return line
        assert one.facts is not None
        f = graph.op("Gather", features, graph.constant(one.facts.columns), axis=1)
        slopes = graph.op(
            "MatMul", graph.op("Sub", f, graph.constant(one.facts.mean)), graph.constant(one.facts.slopes)
        )
        moved = graph.op("Mul", slopes, graph.op("Sub", features, graph.constant(one.facts.origin)))
        products = graph.op("ReduceSum", moved, graph.constant(np.array([1])), keepdims=1)
        strange = graph.constant(np.append(~one.seen, True).astype(np.float64)[:, None])
        return graph.op("Add", line, graph.op("Mul", graph.op("Gather", strange, code, axis=0), products))

    prediction = _held(graph, model, X, by_row)
    later = model.beyond
    if later is not None and later.after is not None:
        column, end = later.after
        time = graph.op("Gather", X, graph.constant(np.array([column])), axis=1)
        after = graph.op("Greater", time, graph.constant(np.float64(end)))
        prediction = graph.op("Where", after, _held(graph, later, X, by_row), prediction)
    graph.op("Squeeze", _mean(graph, model, prediction), graph.constant(np.array([1])), output="prediction")


def _mean(graph: _Graph, model: Model, predictor: str) -> str:
    """The mean of the targets at a linear predictor: of two classes the probability of the second, without averaging
    over what is uncertain.
    """
    operator = {"identity": "Identity", "logit": "Sigmoid", "log": "Exp"}[model.target.link]
    return predictor if operator == "Identity" else graph.op(operator, predictor)


def _held(graph: _Graph, model: Model, X: str, linear: Callable[[Model, str], str]) -> str:
    """A linear function of the features of inputs X, held near that of lines beyond the training rows."""
    assert model.columns is not None
    features = X
    for step in _steps(model.columns.basis):
        features = _transformed(graph, step, features)
    prediction = linear(model, features)
    if model.bound is None:
        return prediction
    bound = model.bound
    low, high = map(graph.constant, bound.span)
    out = graph.op("Cast", graph.op("Or", graph.op("Less", X, low), graph.op("Greater", X, high)), to=INT64)
    leaves = graph.op("Cast", graph.op("ReduceMax", out, graph.constant(np.array([1])), keepdims=1), to=BOOL)
    away = graph.op("MatMul", graph.op("Sub", features, graph.constant(bound.center)), graph.constant(bound.root))
    distance = graph.op("ReduceSumSquare", away, graph.constant(np.array([1])), keepdims=1)
    reach = graph.constant(np.float64(bound.reach))
    beyond = graph.op("Or", leaves, graph.op("Greater", distance, reach))
    believed = graph.op("Div", reach, graph.op("Max", distance, reach))
    lines = linear(bound.lines, X)
    most = graph.constant(np.float64(bound.most))
    apart = graph.op("Clip", graph.op("Sub", prediction, lines), graph.op("Neg", most), most)
    return graph.op("Where", beyond, graph.op("Add", lines, graph.op("Mul", believed, apart)), prediction)


def _wide(graph: _Graph, model: Model, X: str) -> list[Any]:
    """All tasks at once, in the columns of the target."""
    assert model.columns is not None
    single = model.columns.single
    order: Any = slice(0, 1) if single else model.columns.schema.columns

    def all_tasks(one: Model, features: str) -> str:
        linear = graph.op("MatMul", features, graph.constant(one.coef[order].T))
        return graph.op("Add", linear, graph.constant(one.intercept[order]))

    prediction = _held(graph, model, X, all_tasks)
    if single:
        graph.op("Squeeze", _mean(graph, model, prediction), graph.constant(np.array([1])), output="prediction")
        return ["n"]
    graph.op("Identity", _mean(graph, model, prediction), output="prediction")
    return ["n", len(model.labels)]


def _label_type(onnx: Any, model: Model) -> int:
    kind = model.labels.dtype.kind
    if kind not in "Ui":
        raise ValueError(
            f"task labels are of type {model.labels.dtype}, but ONNX has texts and int64 only: convert the column, "
            "e.g. with astype(str), and fit again"
        )
    return onnx.TensorProto.STRING if kind == "U" else onnx.TensorProto.INT64


def _import_onnx() -> Any:
    try:
        import onnx
        import onnx.checker
        import onnx.helper
        import onnx.numpy_helper
    except ImportError as error:
        raise ImportError("to_onnx needs onnx: pip install 'kinfolk[onnx]'") from error
    return onnx


def _write(onnx: Any, graph: _Graph, inputs: list[Any], output: Any, path: Path) -> Path:
    made = onnx.helper.make_graph(graph.nodes, "kinfolk", inputs, [output], graph.constants)
    opsets = [onnx.helper.make_opsetid("", OPSET), onnx.helper.make_opsetid("ai.onnx.ml", ML_OPSET)]
    whole = onnx.helper.make_model(
        made, opset_imports=opsets, ir_version=IR, producer_name="kinfolk", producer_version=__version__
    )
    onnx.checker.check_model(whole)
    with replacing(path) as partial:
        partial.write_bytes(whole.SerializeToString(deterministic=True))
    return path
