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

import datetime
import decimal
import math
import re
import uuid
from collections import UserList
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator

from kinfolk.rows.gram import GramStats
from kinfolk.store.archive import DTYPE, ModelFileError
from kinfolk.store.classes import BSPLINE, ESTIMATORS, NOT_STORED, RECORDS, TRANSFORMERS, TYPES, UFUNCS
from kinfolk.store.wide import MOST_MADE, ROWS, entries_of, rows_behind

DEEPEST = 60  # levels of nesting
MOST_KEYS = 10_000  # in one dict
TEXTS: dict[type, str] = {
    datetime.date: "date",
    datetime.datetime: "datetime",
    datetime.time: "time",
    decimal.Decimal: "decimal",
    uuid.UUID: "uuid",
}
TYPE_NAMES = {cls: name for name, cls in TYPES.items()}
UFUNC_NAMES = {id(ufunc): name for name, ufunc in UFUNCS.items()}


class Encoder:
    """Turns values into JSON, collecting arrays on the way; an array met twice is stored once."""

    def __init__(self) -> None:
        self.arrays: list[NDArray[Any]] = []
        self._index: dict[int, int] = {}
        self._may_repeat = False  # only in statistics, where the reader knows the size from other arrays
        self._wide: dict[int, dict[str, Any]] = {}
        self._made = 0  # bytes of matrices that the reader makes
        self._seen: list[Any] = []  # keeps the arrays alive, so that no two have the same id

    def value(self, value: Any, where: str, depth: int = 0) -> Any:
        """The JSON of a value; `where` names it in errors."""
        if depth > DEEPEST:
            raise ModelFileError(f"{where} is nested more than {DEEPEST} levels deep, or contains itself")
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if isinstance(value, UserList):  # scikit-learn 1.6 wraps the columns of a remainder
            value = list(value.data)
        if type(value) is list:
            return [self.value(v, f"{where}[{k}]", depth + 1) for k, v in enumerate(value)]
        return self._object(value, where, depth + 1)

    def _object(self, value: Any, where: str, depth: int) -> dict[str, Any]:
        cls = type(value)
        if cls is tuple:
            return {"tuple": [self.value(v, f"{where}[{k}]", depth) for k, v in enumerate(value)]}
        if cls is dict:
            return self._dict(value, where, depth)
        if RECORDS.get(cls.__name__) is cls:
            self._may_repeat = cls is GramStats
            record = [cls.__name__, self._fields(value, where, depth)]
            self._may_repeat = False
            return {"record": record}
        if ESTIMATORS.get(cls.__name__) is cls:
            return {"estimator": self._estimator(value, where, depth)}
        if isinstance(value, np.ndarray) and cls in (np.ndarray, np.memmap):
            return self._array(value, where, depth)
        if sparse.issparse(value):
            return {"sparse": self._sparse(value, where, depth)}
        if cls is BSPLINE[0]:
            return {"spline": [self.value(getattr(value, f), f"{where}.{f}", depth) for f in BSPLINE[1]]}
        return self._scalar(value, where)

    def _scalar(self, value: Any, where: str) -> dict[str, Any]:
        cls = type(value)
        if isinstance(value, (np.str_, np.bytes_)) and value[-1:] in ("\0", b"\0"):
            raise ModelFileError(f"{where} is {value!r}, and NumPy drops zero characters at the end: strip them first")
        if isinstance(value, np.generic) and is_plain(value.dtype):
            little = np.asarray(value).astype(value.dtype.newbyteorder("<"))
            return {"scalar": [little.dtype.str, little.tobytes().hex()]}
        if cls in TEXTS:
            return {TEXTS[cls]: value.isoformat() if isinstance(value, (datetime.date, datetime.time)) else str(value)}
        if cls is slice:
            return {"slice": [self.value(v, where, 0) for v in (value.start, value.stop, value.step)]}
        if isinstance(value, type) and value in TYPE_NAMES:
            return {"type": TYPE_NAMES[value]}
        if isinstance(value, np.dtype) and (is_plain(value) or value.str == "|O"):
            return {"dtype": value.str}
        if id(value) in UFUNC_NAMES:
            return {"ufunc": UFUNC_NAMES[id(value)]}
        raise ModelFileError(_refusal(value, where))

    def _dict(self, value: dict[Any, Any], where: str, depth: int) -> dict[str, Any]:
        if len(value) > MOST_KEYS:
            raise ModelFileError(f"{where} has {len(value)} keys, but a model file holds at most {MOST_KEYS} in a dict")
        pairs = [
            [self.value(k, f"a key of {where}", depth), self.value(v, f"{where}[{k!r}]", depth)]
            for k, v in value.items()
        ]
        return {"dict": pairs}

    def _fields(self, value: Any, where: str, depth: int) -> dict[str, Any]:
        names = stored_fields(type(value))
        found = {name: self.value(getattr(value, name), f"{where}.{name}", depth) for name in names if name != "G"}
        if isinstance(value, GramStats):
            found["G"] = self._statistics(value, f"{where}.G", depth)
        return found

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
        state = {k: v for k, v in vars(value).items() if k not in params}
        kept = {k: v for k, v in params.items() if k not in NOT_STORED}
        return {
            "class": type(value).__name__,
            "params": {k: self.value(v, f"{where}.{k}", depth) for k, v in sorted(kept.items())},
            "state": {k: self.value(v, f"{where}.{k}", depth) for k, v in sorted(state.items())},
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
            items = [self.value(v, f"{where}[{k}]", depth) for k, v in enumerate(value.ravel().tolist())]
            return {"objects": [list(value.shape), items]}
        if not is_plain(value.dtype):
            raise ModelFileError(f"{where} is an array of type {value.dtype}, which model files do not hold")
        repeated = [stride == 0 and size > 1 for stride, size in zip(value.strides, value.shape, strict=True)]
        if any(repeated) and self._may_repeat:  # shared inputs: one G for all tasks
            once = value[tuple(slice(0, 1) if r else slice(None) for r in repeated)]
            return {"broadcast": [self._array(once, where, depth), list(value.shape)]}
        if id(value) in self._wide:
            return self._wide[id(value)]
        entries = entries_of(value) if self._made + value.nbytes <= MOST_MADE // 2 else None
        if entries is not None:
            self._made += value.nbytes
            self._seen.append(value)
            node = {"entries": [list(value.shape), *(self._array(part, where, depth) for part in entries)]}
            return self._wide.setdefault(id(value), node)
        if id(value) not in self._index:
            self._index[id(value)] = len(self.arrays)
            self._seen.append(value)
            self.arrays.append(np.asarray(value).astype(value.dtype.newbyteorder("<"), copy=False))
        return {"array": self._index[id(value)]}


def stored_fields(cls: type[Any]) -> list[str]:
    """The fields of a record that a file holds; what a record remembers between calls is not among them."""
    if not is_dataclass(cls):
        return list(cls._fields)
    return [f.name for f in fields(cls) if f.init and f.name not in NOT_STORED]


def is_plain(dtype: np.dtype[Any]) -> bool:
    """Whether an array of this type is numbers, truths, dates or texts, the same on every machine."""
    return re.fullmatch(DTYPE, dtype.newbyteorder("<").str) is not None and dtype.itemsize > 0


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
