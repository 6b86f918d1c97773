"""Labels of classes as numbers, and the weights of classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.rows.gram import Array
from kinfolk.rows.table import read_table, without_mask
from kinfolk.rows.texts import is_missing


def classes_of(y: Any) -> tuple[NDArray[Any], Array, Any]:
    """Sorted labels, the number of each target's class, NaN where there is no label, and names of columns if any.

    >>> classes_of(["yes", "no", None])[:2]
    (array(['no', 'yes'], dtype='<U3'), array([ 1.,  0., nan]))
    """
    names = None
    if hasattr(y, "columns") or hasattr(y, "column_names"):
        table = read_table(y, name="y")
        names = table.names
        values = np.column_stack([np.asarray(table.column(k), dtype=object) for k in range(table.width)])
    else:
        values = without_mask(y)
    if values.ndim not in (1, 2):
        raise ValueError(f"y must have one or two dimensions, got shape {values.shape}")
    missing = _missing(values)
    labels = values[~missing]
    if not len(labels):
        raise ValueError("Input y contains no label: there is no observed class.")
    labels = np.array(labels.tolist()) if labels.dtype.kind == "O" else labels
    if labels.dtype.kind == "f":
        if np.isinf(labels).any():
            raise ValueError("Input y contains infinity or a value too large for dtype('float64').")
        if (labels % 1).any():
            raise ValueError(
                f"Unknown label type: continuous, y has {labels[labels % 1 != 0][0]:g}: classes are labels, that is "
                "texts, truth values or whole numbers. Numbers are for GAMTL and GAMTLCV"
            )
        whole = values.dtype.kind == "O" or bool(missing.any())
        labels = labels.astype(np.int64) if whole else labels
    if labels.dtype.kind not in "iufbUS":
        kinds = sorted({type(label).__name__ for label in values[~missing].tolist()})
        raise ValueError(f"Unknown label type: y has labels of type {' and '.join(kinds)}: make them all one type")
    classes, number = np.unique(labels, return_inverse=True)
    codes = np.full(values.shape, np.nan)
    codes[~missing] = number.reshape(-1)
    return classes, codes, names


def numbers_of(y: Any, known: NDArray[Any]) -> Array:
    """The numbers of labels among those that are known; NaN where there is no label.

    >>> numbers_of(["b", None], np.array(["a", "b"]))
    array([ 1., nan])
    """
    classes, codes, _ = classes_of(y)
    strange = [label for label in classes.tolist() if label not in known.tolist()]
    if strange:
        raise ValueError(f"y has the class {strange[0]!r}, which fit has not seen ({known.tolist()[:8]})")
    number = np.searchsorted(known, classes)[np.nan_to_num(codes).astype(np.intp)]
    return np.where(np.isnan(codes), np.nan, number)


def _missing(values: NDArray[Any]) -> NDArray[np.bool_]:
    if values.dtype.kind == "f":
        return np.isnan(values)
    if values.dtype.kind != "O":
        return np.zeros(values.shape, bool)
    return np.array([is_missing(value) for value in values.ravel()], bool).reshape(values.shape)


def class_weights(class_weight: Any, classes: NDArray[Any], count: Array) -> Array:
    """The weight of every class (K,), whose targets are so many.

    >>> class_weights("balanced", np.array(["a", "b"]), np.array([30.0, 10.0])).round(2)
    array([0.67, 2.  ])
    """
    if class_weight is None:
        return np.ones(len(classes))
    if isinstance(class_weight, str) and class_weight == "balanced":
        return np.asarray(count.sum() / (len(classes) * np.maximum(count, 1.0)))
    if not isinstance(class_weight, Mapping):
        raise ValueError(f'class_weight={class_weight!r} must be None, "balanced" or a weight by class, e.g. {{1: 10}}')
    unknown = [label for label in class_weight if label not in classes.tolist()]
    if unknown:
        raise ValueError(f"class_weight has the class {unknown[0]!r}, but y has {classes.tolist()[:8]}")
    weights = np.array([float(class_weight.get(label, 1.0)) for label in classes.tolist()])
    if not (np.isfinite(weights) & (weights >= 0)).all():
        raise ValueError(f"class_weight={class_weight!r}: weights must be finite and not negative")
    return weights
