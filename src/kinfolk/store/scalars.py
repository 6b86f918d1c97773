"""Values that are one text in a model file, with the way there and back: dates, types, functions, single numbers."""

from __future__ import annotations

import datetime
import decimal
import math
import re
import uuid
from collections.abc import Callable
from typing import Any

import numpy as np

from kinfolk.store.archive import DTYPE, ModelFileError

# Types and functions that appear as parameters: OneHotEncoder(dtype=...), FunctionTransformer(func=...).
TYPES: dict[str, type[Any]] = {
    **{cls.__name__: cls for cls in (bool, int, float, str, object)},
    **{
        f"numpy.{np.dtype(code).type.__name__}": np.dtype(code).type
        for code in ("b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8", "O", "U")
    },
}
UFUNCS: dict[str, np.ufunc] = {
    ufunc.__name__: ufunc
    for ufunc in (
        *(np.abs, np.sign, np.negative, np.reciprocal, np.square, np.sqrt, np.cbrt),
        *(np.exp, np.exp2, np.expm1, np.log, np.log2, np.log10, np.log1p),
        *(np.sin, np.cos, np.tan, np.sinh, np.cosh, np.tanh, np.arcsinh),
        *(np.floor, np.ceil, np.rint, np.trunc),
    )
}


def as_text(value: Any) -> dict[str, Any] | None:
    """A value as an object of one key, its kind; None if it is of no kind that is stored."""
    if isinstance(value, np.generic) and is_plain(value.dtype):
        little = np.asarray(value).astype(value.dtype.newbyteorder("<"))
        return {"scalar": [little.dtype.str, little.tobytes().hex()]}
    # Types and types of arrays are instances of subclasses; of dates a subclass may hold more, and is refused.
    cls = next((base for base in (type, np.dtype) if isinstance(value, base)), type(value))
    for kind, (stored, write, _) in TEXTS.items():
        if cls is stored and (text := write(value)) is not None:
            return {kind: text}
    return None


def scalar_of(code: str, data: str) -> Any:
    """A single number, truth, date or text of NumPy, from its type and its bytes."""
    dtype = _dtype(code)
    if code == "|O" or len(data) != 2 * dtype.itemsize:
        raise ModelFileError(f"a number of type {code[:20]!r} has {len(data) // 2} bytes")
    content = bytes.fromhex(data)
    if dtype.kind == "U" and np.frombuffer(content, "<u4").max(initial=0) > 0x10FFFF:
        raise ModelFileError("a text holds characters that do not exist")
    if dtype.kind == "b" and content not in (b"\0", b"\1"):
        raise ModelFileError("a truth value is neither 0 nor 1")
    return np.frombuffer(content, dtype)[0]


def is_plain(dtype: np.dtype[Any]) -> bool:
    """Whether an array of this type is numbers, truths, dates or texts, the same on every machine."""
    return re.fullmatch(DTYPE, dtype.newbyteorder("<").str) is not None and dtype.itemsize > 0


def _dtype(code: Any) -> np.dtype[Any]:
    if type(code) is not str or (code != "|O" and not re.fullmatch(DTYPE, code)):
        raise ModelFileError(f"a number is of the unknown type {str(code)[:40]!r}")
    return np.dtype(code)


def _decimal(text: str) -> decimal.Decimal:
    number = decimal.Decimal(text)
    # As an integer 1e999999999 would fill the memory.
    if len(text) > 100 or (number.is_finite() and abs(number.adjusted()) > 1000):
        raise ModelFileError(f"the decimal number {text[:40]} is out of range")
    return number


# The class of the values of each kind, how they become a text, None for one that is not stored, and back.
TEXTS: dict[str, tuple[type[Any], Callable[[Any], str | None], Callable[[str], Any]]] = {
    "float": (float, repr, {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}.__getitem__),
    "date": (datetime.date, datetime.date.isoformat, datetime.date.fromisoformat),
    "datetime": (datetime.datetime, datetime.datetime.isoformat, datetime.datetime.fromisoformat),
    "time": (datetime.time, datetime.time.isoformat, datetime.time.fromisoformat),
    "decimal": (decimal.Decimal, str, _decimal),
    "uuid": (uuid.UUID, str, uuid.UUID),
    "type": (type, {cls: name for name, cls in TYPES.items()}.get, TYPES.__getitem__),
    "dtype": (np.dtype, lambda dtype: dtype.str if is_plain(dtype) or dtype.str == "|O" else None, _dtype),
    "ufunc": (np.ufunc, {ufunc: name for name, ufunc in UFUNCS.items()}.get, UFUNCS.__getitem__),
}
