"""From the JSON and arrays of a model file back to a model. Everything is checked: the file may come from anyone."""

from __future__ import annotations

import keyword
import math
from collections.abc import Callable
from dataclasses import is_dataclass
from typing import Any

import numpy as np
from scipy import sparse

from kinfolk.rows.gram import GramStats
from kinfolk.store import earlier
from kinfolk.store.archive import Archive, ModelFileError
from kinfolk.store.checks import check_estimator, check_record
from kinfolk.store.classes import BSPLINE, ESTIMATORS, MODELS, NOT_STORED, RECORDS
from kinfolk.store.encode import DEEPEST, MOST_KEYS, stored_fields
from kinfolk.store.scalars import TEXTS, scalar_of
from kinfolk.store.wide import ROWS, Room, matrix_of, products_of_rows

PLAIN = (bool, int, float, str)


class Decoder:
    """Turns the nodes that `encode` wrote into values; only the kinds of `KINDS` exist."""

    def __init__(self, archive: Archive) -> None:
        self.archive = archive
        self.depth = 0
        self.may_repeat = False
        self.matrices: dict[str, Any] = {}  # those that several parts of a model refer to are made once
        self.room = Room(archive.size)
        self.rows: Any = None  # behind the statistics that were read last

    def value(self, node: Any) -> Any:
        """The value of a node."""
        if node is None or type(node) in PLAIN:
            return node
        self.depth += 1
        if self.depth > 2 * DEEPEST:
            raise ModelFileError(f"values are nested more than {DEEPEST} levels deep")
        value = [self.value(item) for item in node] if type(node) is list else self._object(node)
        self.depth -= 1
        return value

    def _object(self, node: dict[str, Any]) -> Any:
        if len(node) != 1:
            raise ModelFileError(f"a value has the keys {list(node)[:5]}, expected one kind")
        ((kind, content),) = node.items()
        if kind in TEXTS:
            *_, read = TEXTS[kind]
            return read(_typed(content, str))
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

    def _named(self, content: Any) -> dict[str, Any]:
        return {name: self.value(node) for name, node in _typed(content, dict).items()}

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

    def _objects(self, content: Any) -> Any:
        shape, items = content
        flat = np.empty(len(_typed(items, list)), dtype=object)
        if math.prod(_shape(shape)) != len(flat):
            raise ModelFileError(f"an array of {len(flat)} values cannot have shape {shape}")
        for k, item in enumerate(items):
            flat[k] = self.value(item)
        return flat.reshape(shape)

    def _entries(self, content: Any) -> Any:
        """A matrix by what is not zero."""
        key = str(content)
        if key not in self.matrices:
            shape, places, values = content
            self.matrices[key] = matrix_of(_shape(shape), self.value(places), self.value(values), self.room)
        return self.matrices[key]

    def _sparse(self, content: Any) -> Any:
        key = str(content)
        if key not in self.matrices:
            data, indices, indptr = (self.value(content[part]) for part in ("data", "indices", "indptr"))
            cls = {"array": sparse.csr_array, "matrix": sparse.csr_matrix}[content["class"]]
            self.matrices[key] = _csr(cls, data, indices, indptr, _shape(content["shape"]))
        return self.matrices[key]

    def _spline(self, content: Any) -> Any:
        cls, names = BSPLINE
        return cls(**dict(zip(names, self._tuple(content), strict=True)))

    def _record(self, content: Any) -> Any:
        name, parts = content
        if name == earlier.LAST_ROWS:
            earlier.note_of_last_rows()
            return None
        if name not in RECORDS:
            raise ModelFileError(f"a record is of the unknown class {str(name)[:40]!r}")
        self.may_repeat = name == "GramStats"
        self.rows = None
        values = self._named(parts)
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
        params = self._named(content["params"])
        unknown = set(params) - set(cls._get_param_names()) | set(params) & set(NOT_STORED)
        if unknown:
            raise ModelFileError(f"{name} has no parameter {min(unknown)[:40]!r}")
        estimator = cls(**params)
        state = self._named(content["state"])
        for key in state:
            if not _may_be_set(cls, key):
                raise ModelFileError(f"{name} has no fitted attribute {key[:40]!r}")
        vars(estimator).update(state)
        check_estimator(estimator)
        return estimator


def _csr(cls: Any, data: Any, indices: Any, indptr: Any, shape: tuple[int, ...]) -> Any:
    kinds = ((data, "biuf"), (indices, "i"), (indptr, "i"))
    sound = all(isinstance(part, np.ndarray) and part.ndim == 1 and part.dtype.kind in kind for part, kind in kinds)
    if len(shape) != 2 or not sound:
        raise ModelFileError(f"a sparse matrix has the shape {shape}")
    # SciPy looks at these only where the matrix has entries, and reads whatever they point to.
    ends = [0, len(indices)]
    if len(indptr) != shape[0] + 1 or [indptr[0], indptr[-1]] != ends or (np.diff(indptr) < 0).any():
        raise ModelFileError("is damaged: the rows of a sparse matrix do not follow each other")
    matrix = cls((data, indices, indptr), shape=shape)
    matrix.check_format(full_check=True)
    return matrix


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


def _needed(cls: type[Any]) -> set[str]:
    """Fields without a default: those that came later have one."""
    return {name for name in stored_fields(cls) if not hasattr(cls, name) or not is_dataclass(cls)}


KINDS: dict[str, Callable[[Decoder, Any], Any]] = {
    "tuple": Decoder._tuple,
    "slice": Decoder._slice,
    "dict": Decoder._dict,
    "array": lambda self, content: self.archive.array(content),
    "broadcast": Decoder._broadcast,
    "objects": Decoder._objects,
    "rows": Decoder._rows,
    "entries": Decoder._entries,
    "sparse": Decoder._sparse,
    "scalar": lambda self, content: scalar_of(*content),
    "spline": Decoder._spline,
    "record": Decoder._record,
    "estimator": Decoder._estimator,
}
