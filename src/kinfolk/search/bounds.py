"""What holds curves and trees beyond the training rows: the straight lines, and how far these rows reach."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from kinfolk.methods.model import Bound, Model
from kinfolk.methods.splines import SplineFeatures
from kinfolk.rows.gram import TINY, Array, squared_errors
from kinfolk.search.rbf_search import FeatureSearch, InBasis, TaskRows, block_by_block

LEAST_VARIANCE = 1e-9  # of features of variance 1, in a direction in which rows do not differ but by rounding
FARTHEST = 2.0  # standard deviations of the difference to lines: it is held to these beyond the training rows


def bound_of(model: Model, lines: Model, curves: FeatureSearch | None, data: TaskRows | None) -> Bound:
    """What holds a model with curves or trees near its lines beyond the training rows."""
    assert lines.gram is not None
    span = lines.gram.span
    assert span is not None
    d = span.shape[1]
    used = np.ones(d, bool)
    if model.trunk is None and curves is not None and isinstance(curves.features, SplineFeatures):
        takes_part = (model.coef != 0).any(axis=0)[:-d]
        used = np.isin(np.arange(d), curves.features.input_of_term[takes_part])
    span = np.where(used, span, np.array([[-np.inf], [np.inf]]))
    return Bound(lines, span, FARTHEST * _difference(model, lines, curves, data), *_reach(model, curves, data))


def _reach(model: Model, curves: FeatureSearch | None, data: TaskRows | None) -> tuple[Array, Array, float]:
    """Mean and root of the inverse covariance of the features of all rows, and how far these go in its units.

    Features that are functions of each other have no variance in some directions: a step there is far.
    """
    gram = model.gram
    assert gram is not None
    center = gram.n @ gram.x_mean / gram.n.sum()
    away = gram.x_mean - center
    C = (gram.G.sum(axis=0) + (away.T * gram.n) @ away) / gram.n.sum()
    variance = np.diag(C)
    size = np.sqrt(np.where(variance > TINY, variance, 1.0))  # a feature that never varies has no unit
    value, vector = np.linalg.eigh(C / np.outer(size, size))
    root = vector / np.sqrt(np.maximum(value, LEAST_VARIANCE)) / size[:, None]
    if data is None:  # of statistics alone nobody knows the farthest row
        return center, root, float(np.finfo(float).max)
    distance = block_by_block(features_of(data, curves), lambda X, _: np.square((X - center) @ root).sum(axis=1))
    used = slice(None) if data.weight is None else data.weight > 0
    return center, root, _farthest(distance[used], float(gram.n.sum()))


def _farthest(distance: Array, rows: float) -> float:
    """The largest squared distance of one of so many rows from the others, whose mean and covariance do not know it.

    With as many features as rows every row is far from the others, and no new one lies beyond them.
    """
    others = max(rows - 1, 1.0)
    shared = np.maximum(1 - distance / others, LEAST_VARIANCE)  # 0 if no other row goes its way
    return max(float((rows / others * distance / shared).max()), TINY)  # rows may all be alike


def _difference(model: Model, lines: Model, curves: FeatureSearch | None, data: TaskRows | None) -> float:
    """Root mean square of the difference between the predictions of a model and of its lines for the training rows."""
    if model.trunk is not None:
        assert data is not None
        inputs, codes = data.X, data.codes
        apart = block_by_block(
            features_of(data, curves),
            lambda X, rows: model.predictor(X, codes[rows]) - lines.predictor(inputs[rows], codes[rows]),
        )
        return float(np.sqrt(np.average(apart**2, weights=data.weight)))
    assert model.gram is not None
    assert curves is not None
    factor, origin = curves.features.of_lines()
    W = model.coef.copy()
    W[:, -len(factor) :] -= np.divide(lines.coef, factor, out=np.zeros_like(lines.coef), where=factor > 0)
    c = model.intercept - lines.intercept - lines.coef @ origin
    zero = np.zeros(model.gram.n_tasks)
    without_target = replace(model.gram, b=np.zeros_like(model.gram.b), yy=zero, y_mean=zero)
    return float(np.sqrt(squared_errors(without_target, W, c).sum() / model.gram.n.sum()))


def features_of(data: TaskRows, curves: FeatureSearch | None) -> Any:
    """The features of all rows; those of curves are made when they are asked for."""
    return data.X if curves is None else InBasis(curves.features, data.X, curves.folds.total.n_features)
