"""From a fitted model to plain JSON and a list of arrays.

Numbers, texts, None and lists are JSON as they are. Everything else is an object of one key, its kind:

    {"array": 3}                       the array `arrays/3.npy`
    {"broadcast": [node, shape]}       an array repeated along some axes, held once
    {"objects": [shape, [...]]}        an array of Python values, e.g. task labels of several types
    {"rows": node}                     wide statistics by the rows that they follow from, see `wide`
    {"entries": [shape, node, node]}   a wide matrix by places and values of what is not zero
    {"estimator": {class, params, state}}, {"record": [class, fields]}, {"tuple": [...]}, {"dict": [[key, value], ...]}

and a few scalars and parameters; `decode` has the full table.
"""

from __future__ import annotations

import math
from collections import UserList
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator

from kinfolk.rows.gram import GramStats
from kinfolk.store.archive import ModelFileError
from kinfolk.store.classes import BSPLINE, ESTIMATORS, NOT_STORED, RECORDS, TRANSFORMERS
from kinfolk.store.scalars import as_text, is_plain
from kinfolk.store.wide import MOST_MADE, ROWS, entries_of, is_repeated, rows_behind

DEEPEST = 60  # levels of nesting
MOST_KEYS = 10_000  # in one dict


class Encoder:
    """Turns values into JSON, collecting arrays on the way; an array met twice is stored once."""

    def __init__(self) -> None:
        self.arrays: list[NDArray[Any]] = []
        self._nodes: dict[int, dict[str, Any]] = {}  # of the arrays that have been met, by id
        self._seen: list[Any] = []  # keeps them alive, so that no two have the same id
        self._may_repeat = False  # only in statistics, where the reader knows the size from other arrays
        self._made = 0  # bytes of matrices that the reader makes

    def value(self, value: Any, where: str, depth: int = 0) -> Any:
        """The JSON of a value; `where` names it in errors."""
        if depth > DEEPEST:
            raise ModelFileError(f"{where} is nested more than {DEEPEST} levels deep, or contains itself")
        if value is None or type(value) in (bool, int, str) or (type(value) is float and math.isfinite(value)):
            return value
        if isinstance(value, UserList):  # scikit-learn 1.6 wraps the columns of a remainder
            value = list(value.data)
        if type(value) is list:
            return self._items(value, where, depth + 1)
        return self._object(value, where, depth + 1)

    def _items(self, values: Any, where: str, depth: int) -> list[Any]:
        return [self.value(value, f"{where}[{k}]", depth) for k, value in enumerate(values)]

    def _named(self, values: dict[str, Any], where: str, depth: int) -> dict[str, Any]:
        return {name: self.value(value, f"{where}.{name}", depth) for name, value in values.items()}

    def _object(self, value: Any, where: str, depth: int) -> dict[str, Any]:
        cls = type(value)
        if cls is tuple:
            return {"tuple": self._items(value, where, depth)}
        if cls is slice:
            return {"slice": self._items((value.start, value.stop, value.step), where, depth)}
        if cls is dict:
            return self._dict(value, where, depth)
        if RECORDS.get(cls.__name__) is cls:
            return self._record(value, where, depth)
        if ESTIMATORS.get(cls.__name__) is cls:
            return {"estimator": self._estimator(value, where, depth)}
        if cls in (np.ndarray, np.memmap):
            return self._array(value, where, depth)
        if sparse.issparse(value):
            return {"sparse": self._sparse(value, where, depth)}
        if cls is BSPLINE[0]:
            return {"spline": self._items([getattr(value, name) for name in BSPLINE[1]], where, depth)}
        if isinstance(value, (np.str_, np.bytes_)) and value[-1:] in ("\0", b"\0"):
            raise ModelFileError(f"{where} is {value!r}, and NumPy drops zero characters at the end: strip them first")
        node = as_text(value)
        if node is None:
            raise ModelFileError(_refusal(value, where))
        return node

    def _dict(self, value: dict[Any, Any], where: str, depth: int) -> dict[str, Any]:
        if len(value) > MOST_KEYS:
            raise ModelFileError(f"{where} has {len(value)} keys, but a model file holds at most {MOST_KEYS} in a dict")
        pairs = [
            [self.value(k, f"a key of {where}", depth), self.value(v, f"{where}[{k!r}]", depth)]
            for k, v in value.items()
        ]
        return {"dict": pairs}

    def _record(self, value: Any, where: str, depth: int) -> dict[str, Any]:
        cls = type(value)
        values = {name: getattr(value, name) for name in stored_fields(cls)}
        if cls is not GramStats:
            return {"record": [cls.__name__, self._named(values, where, depth)]}
        self._may_repeat = True
        G = self._statistics(value, f"{where}.G", depth)
        del values["G"]
        node = {"record": [cls.__name__, self._named(values, where, depth) | {"G": G}]}
        self._may_repeat = False
        return node

    def _statistics(self, gram: GramStats, where: str, depth: int) -> dict[str, Any]:
        """The matrices of all tasks: as they are, or by fewer rows that they follow from."""
        once = gram.G[:1] if gram.G.strides[0] == 0 else gram.G
        fits = self._made + once.nbytes <= MOST_MADE // 2
        rows = gram.once(ROWS, lambda: rows_behind(once)) if fits else None
        if rows is None:
            return self._array(gram.G, where, depth)
        self._made += once.nbytes
        node = {"rows": self._array(rows, where, depth)}
        return node if once is gram.G else {"broadcast": [node, list(gram.G.shape)]}

    def _estimator(self, value: Any, where: str, depth: int) -> dict[str, Any]:
        params = value.get_params(deep=False)
        kept = {name: params[name] for name in sorted(params) if name not in NOT_STORED}
        state = {name: vars(value)[name] for name in sorted(vars(value)) if name not in params}
        return {
            "class": type(value).__name__,
            "params": self._named(kept, where, depth),
            "state": self._named(state, where, depth),
        }

    def _sparse(self, value: Any, where: str, depth: int) -> dict[str, Any]:
        csr = value.tocsr()
        return {
            "class": "array" if isinstance(value, sparse.sparray) else "matrix",
            "shape": [int(n) for n in csr.shape],
            **{part: self.value(getattr(csr, part), where, depth) for part in ("data", "indices", "indptr")},
        }

    def _array(self, value: NDArray[Any], where: str, depth: int) -> dict[str, Any]:
        if value.dtype.kind == "O":
            return {"objects": [list(value.shape), self._items(value.ravel().tolist(), where, depth)]}
        if not is_plain(value.dtype):
            raise ModelFileError(f"{where} is an array of type {value.dtype}, which model files do not hold")
        if self._may_repeat and is_repeated(value):  # shared inputs: one G for all tasks
            once = value[tuple(slice(0, 1 if stride == 0 else None) for stride in value.strides)]
            return {"broadcast": [self._array(once, where, depth), list(value.shape)]}
        if id(value) not in self._nodes:
            self._seen.append(value)
            self._nodes[id(value)] = self._new_array(value, where, depth)
        return self._nodes[id(value)]

    def _new_array(self, value: NDArray[Any], where: str, depth: int) -> dict[str, Any]:
        entries = entries_of(value) if self._made + value.nbytes <= MOST_MADE // 2 else None
        if entries is not None:
            self._made += value.nbytes
            return {"entries": [list(value.shape), *(self._array(part, where, depth) for part in entries)]}
        self.arrays.append(np.asarray(value).astype(value.dtype.newbyteorder("<"), copy=False))
        return {"array": len(self.arrays) - 1}


def stored_fields(cls: type[Any]) -> list[str]:
    """The fields of a record that a file holds; what a record remembers between calls is not among them."""
    if not is_dataclass(cls):
        return list(cls._fields)
    return [f.name for f in fields(cls) if f.init and f.name not in NOT_STORED]


def _refusal(value: Any, where: str) -> str:
    """Why a value cannot be stored, and what to do about it."""
    cls = type(value)
    kind = f"{cls.__module__}.{cls.__qualname__}"
    if isinstance(value, BaseEstimator):
        return (
            f"{where} is a {kind}, which model files do not hold. Use one of {', '.join(sorted(TRANSFORMERS))}; or "
            "apply it to the table before fit, and leave it out of `features`."
        )
    if callable(value):
        return f"{where} is code ({kind}), which model files never hold: leave it out, or do that step before fit"
    name = where.split(".", 1)[-1].split("[")[0].split(".")[0]
    return (
        f"{where} is a {kind}, which model files do not hold: make it numbers, texts, lists or arrays, "
        f"e.g. model.set_params({name}=...) with a plain value before saving"
    )
