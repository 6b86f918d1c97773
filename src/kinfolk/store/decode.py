"""From the JSON and arrays of a model file back to a model. Everything is checked: the file may come from anyone."""

from __future__ import annotations

import datetime
import decimal
import keyword
import math
import re
import uuid
from collections.abc import Callable
from dataclasses import is_dataclass
from typing import Any

import numpy as np
from scipy import sparse

from kinfolk.rows.gram import GramStats
from kinfolk.store import earlier
from kinfolk.store.archive import DTYPE, Archive, ModelFileError
from kinfolk.store.checks import check_estimator, check_record
from kinfolk.store.classes import BSPLINE, ESTIMATORS, MODELS, NOT_STORED, RECORDS, TYPES, UFUNCS
from kinfolk.store.encode import DEEPEST, MOST_KEYS, stored_fields
from kinfolk.store.wide import ROWS, Room, matrix_of, products_of_rows

PLAIN = (bool, int, float, str)


class Decoder:
    """Turns the nodes that `encode` wrote into values; only the kinds of `KINDS` exist."""

    def __init__(self, archive: Archive) -> None:
        self.archive = archive
        self.depth = 0
        self.may_repeat = False
        self.matrices: dict[str, Any] = {}
        self.room = Room(archive.size)
        self.rows: Any = None  # behind the statistics that were read last

    def value(self, node: Any) -> Any:
        """The value of a node."""
        if node is None or type(node) in PLAIN:
            return node
        self.depth += 1
        if self.depth > 2 * DEEPEST:
            raise ModelFileError(f"values are nested more than {DEEPEST} levels deep")
        found = [self.value(v) for v in node] if type(node) is list else self._object(node)
        self.depth -= 1
        return found

    def _object(self, node: dict[str, Any]) -> Any:
        if len(node) != 1:
            raise ModelFileError(f"a value has the keys {list(node)[:5]}, expected one kind")
        ((kind, content),) = node.items()
        if kind not in KINDS:
            raise ModelFileError(f"a value is of the unknown kind {kind[:40]!r}")
        return KINDS[kind](self, content)

    def _tuple(self, content: Any) -> tuple[Any, ...]:
        return tuple(self.value(v) for v in _typed(content, list))

    def _slice(self, content: Any) -> slice:
        start, stop, step = self._tuple(content)
        return slice(start, stop, step)

    def _dict(self, content: Any) -> dict[Any, Any]:
        pairs = _typed(content, list)
        if len(pairs) > MOST_KEYS:
            raise ModelFileError(f"a dict has {len(pairs)} keys, at most {MOST_KEYS} are allowed")
        return {self.value(key): self.value(value) for key, value in pairs}

    def _broadcast(self, content: Any) -> Any:
        if not self.may_repeat:
            raise ModelFileError("an array is repeated outside of statistics")
        node, shape = content
        once = self.value(node)
        lengths = _shape(shape)
        if not isinstance(once, np.ndarray) or once.ndim != len(lengths):
            raise ModelFileError("a repeated array has another number of axes than its shape")
        return np.broadcast_to(once, lengths)

    def _rows(self, content: Any) -> Any:
        if not self.may_repeat:
            raise ModelFileError("is damaged: rows stand for a matrix outside of statistics")
        self.rows = self.value(content)
        return products_of_rows(self.rows, self.room)

    def _entries(self, content: Any) -> Any:
        """A matrix by what is not zero; the one that several parts of a model refer to is made once."""
        key = str(content)
        if key not in self.matrices:
            shape, places, values = content
            self.matrices[key] = matrix_of(_shape(shape), self.value(places), self.value(values), self.room)
        return self.matrices[key]

    def _objects(self, content: Any) -> Any:
        shape, items = content
        flat = np.empty(len(_typed(items, list)), dtype=object)
        if math.prod(_shape(shape)) != len(flat):
            raise ModelFileError(f"an array of {len(flat)} values cannot have shape {shape}")
        for k, item in enumerate(items):
            flat[k] = self.value(item)
        return flat.reshape(shape)

    def _sparse(self, content: Any) -> Any:
        """A matrix; the one that several parts of a model refer to is made once, so that it is one again."""
        key = str(content)
        if key not in self.matrices:
            self.matrices[key] = self._new_sparse(content)
        return self.matrices[key]

    def _new_sparse(self, content: Any) -> Any:
        data, indices, indptr = (self.value(content[part]) for part in ("data", "indices", "indptr"))
        shape = _shape(content["shape"])
        kinds = ((data, "biuf"), (indices, "i"), (indptr, "i"))
        sound = all(isinstance(part, np.ndarray) and part.ndim == 1 and part.dtype.kind in kind for part, kind in kinds)
        if len(shape) != 2 or not sound:
            raise ModelFileError(f"a sparse matrix has the shape {shape}")
        # SciPy looks at these only where the matrix has entries, and reads whatever they point to.
        ends = [0, len(indices)]
        if len(indptr) != shape[0] + 1 or [indptr[0], indptr[-1]] != ends or (np.diff(indptr) < 0).any():
            raise ModelFileError("is damaged: the rows of a sparse matrix do not follow each other")
        cls = {"array": sparse.csr_array, "matrix": sparse.csr_matrix}[content["class"]]
        matrix = cls((data, indices, indptr), shape=shape)
        matrix.check_format(full_check=True)
        return matrix

    def _scalar(self, content: Any) -> Any:
        code, data = content
        dtype = _dtype(code)
        if code == "|O" or len(data) != 2 * dtype.itemsize:
            raise ModelFileError(f"a number of type {code[:20]!r} has {len(data) // 2} bytes")
        if dtype.kind == "U" and np.frombuffer(bytes.fromhex(data), "<u4").max(initial=0) > 0x10FFFF:
            raise ModelFileError("a text holds characters that do not exist")
        if dtype.kind == "b" and data not in ("00", "01"):
            raise ModelFileError("a truth value is neither 0 nor 1")
        return np.frombuffer(bytes.fromhex(data), dtype)[0]

    def _spline(self, content: Any) -> Any:
        cls, names = BSPLINE
        return cls(**{name: self.value(part) for name, part in zip(names, content, strict=True)})

    def _record(self, content: Any) -> Any:
        name, parts = content
        if name not in RECORDS:
            raise ModelFileError(f"a record is of the unknown class {str(name)[:40]!r}")
        self.may_repeat = name == "GramStats"
        self.rows = None
        values = {key: self.value(part) for key, part in _typed(parts, dict).items()}
        self.may_repeat = False
        earlier.rename_fields(name, values)
        if not _needed(RECORDS[name]) <= set(values) <= set(stored_fields(RECORDS[name])):
            raise ModelFileError(f"a record {name} has other fields than this version of kinfolk")
        record = RECORDS[name](**values)
        check_record(record)
        if isinstance(record, GramStats) and self.rows is not None:
            rows = self.rows
            record.once(ROWS, lambda: rows)
        return record

    def _estimator(self, content: Any) -> Any:
        name = content["class"]
        if name not in ESTIMATORS:
            raise ModelFileError(f"it holds the class {str(name)[:40]!r}, which this version of kinfolk does not load")
        cls = ESTIMATORS[name]
        params = {key: self.value(part) for key, part in _typed(content["params"], dict).items()}
        unknown = set(params) - set(cls._get_param_names()) | set(params) & set(NOT_STORED)
        if unknown:
            raise ModelFileError(f"{name} has no parameter {min(unknown)[:40]!r}")
        estimator = cls(**params)
        for key, part in _typed(content["state"], dict).items():
            if not _may_be_set(cls, key):
                raise ModelFileError(f"{name} has no fitted attribute {key[:40]!r}")
            vars(estimator)[key] = self.value(part)
        check_estimator(estimator)
        return estimator


def _may_be_set(cls: type[Any], name: str) -> bool:
    """Whether a file may give this attribute: of a model its record, of a transformer any plain name of its own."""
    if cls.__name__ in MODELS:
        return name == "model_"
    if not name.isidentifier() or keyword.iskeyword(name) or name.startswith("__") or name in cls._get_param_names():
        return False
    own = getattr(cls, name, None)
    return not callable(own) and not hasattr(own, "__get__")


def _typed(value: Any, cls: type[Any]) -> Any:
    if type(value) is not cls:
        raise ModelFileError(f"a value is {type(value).__name__} where {cls.__name__} is expected")
    return value


def _shape(shape: Any) -> tuple[int, ...]:
    if not all(type(n) is int and 0 <= n < 2**48 for n in _typed(shape, list)):
        raise ModelFileError(f"{str(shape)[:60]} is not the shape of an array")
    return tuple(shape)


def _decimal(text: str) -> decimal.Decimal:
    number = decimal.Decimal(text)
    # As an integer 1e999999999 would fill the memory.
    if len(text) > 100 or (number.is_finite() and abs(number.adjusted()) > 1000):
        raise ModelFileError(f"the decimal number {text[:40]} is out of range")
    return number


def _text(parse: Callable[[str], Any]) -> Callable[[Decoder, Any], Any]:
    return lambda self, content: parse(_typed(content, str))


def _dtype(code: str) -> np.dtype[Any]:
    if code != "|O" and not re.fullmatch(DTYPE, _typed(code, str)):
        raise ModelFileError(f"a number is of the unknown type {str(code)[:40]!r}")
    return np.dtype(code)


KINDS: dict[str, Callable[[Decoder, Any], Any]] = {
    "float": _text({"nan": math.nan, "inf": math.inf, "-inf": -math.inf}.__getitem__),
    "tuple": Decoder._tuple,
    "dict": Decoder._dict,
    "array": lambda self, content: self.archive.array(content),
    "broadcast": Decoder._broadcast,
    "objects": Decoder._objects,
    "rows": Decoder._rows,
    "entries": Decoder._entries,
    "sparse": Decoder._sparse,
    "scalar": Decoder._scalar,
    "spline": Decoder._spline,
    "record": Decoder._record,
    "estimator": Decoder._estimator,
    "slice": Decoder._slice,
    "date": _text(datetime.date.fromisoformat),
    "datetime": _text(datetime.datetime.fromisoformat),
    "time": _text(datetime.time.fromisoformat),
    "decimal": _text(_decimal),
    "uuid": _text(uuid.UUID),
    "type": _text(TYPES.__getitem__),
    "dtype": _text(_dtype),
    "ufunc": _text(UFUNCS.__getitem__),
}


def _needed(cls: type[Any]) -> set[str]:
    """Fields without a default: those that came later have one."""
    return {name for name in stored_fields(cls) if not hasattr(cls, name) or not is_dataclass(cls)}
