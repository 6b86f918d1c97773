"""What the fields of a record may hold: types by their annotations; shapes and ranges declared beside the record.

A declaration is a few words. Letters and numbers are the lengths of an array; the same letter is the same length, in
this record and in those that it is passed on to.

    holds(labels="names T", G="T d d repeats", n="T >=0", gram="record T d", lines="record T d=i", share="number >=0")
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import NoneType, UnionType
from typing import Any, ClassVar, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

TYPES = {
    "numbers": "f",  # of float64
    "integers": "i",
    "bits": "u",
    "truths": "b",
    "names": "",  # of tasks: an array of any type
    "number": "f",  # a single one
    "texts": "",  # a tuple of them
    "sparse": "f",
    "record": "",  # or a tuple of records
}
# Numbers are neither NaN nor infinite, but for those that may be infinite, or "any". Arrays that repeat take less
# memory than their size.
WORDS = ("infinite", "any", ">0", ">=0", "<=1", "repeats", "ascending")
SCALARS: dict[Any, tuple[type[Any], ...]] = {
    float: (float, int, np.number),
    int: (int, np.integer),
    bool: (bool, np.bool_),
    None: (NoneType,),
}

DECLARED: dict[str, type[Any]] = {}  # all classes with a declaration, by name

Class = TypeVar("Class", bound=type)


class Held(NamedTuple):
    """What one field may hold.

    Attributes
    ----------
    type : a key of `TYPES`
    shape : lengths, as letters or numbers
    words : some of `WORDS`
    below : the length below which integers are positions, or empty
    passed : of a record, its own letters and what they are called here; `S=sum` of truths says how many are true
    """

    type: str
    shape: tuple[str, ...]
    words: frozenset[str]
    below: str
    passed: dict[str, str]

    @classmethod
    def of(cls, text: str) -> Held:
        """The meaning of a declaration.

        >>> Held.of("integers n <d").below, Held.of("T d").shape, Held.of("record T d=i").passed
        ('d', ('T', 'd'), {'T': 'T', 'd': 'i'})
        """
        words = text.split()
        kind = words.pop(0) if words[0] in TYPES else "numbers"
        shape = tuple(word for word in words if len(word) == 1)
        below = next((word[1:] for word in words if word[0] == "<" and word not in WORDS), "")
        renamed = dict(word.split("=") for word in words if word[1:2] == "=" and word[0].isalpha())
        return cls(kind, shape, frozenset(words) & {*WORDS}, below, {letter: letter for letter in shape} | renamed)


def holds(**fields: str) -> Callable[[Class], Class]:
    """A class decorator that declares what the fields of a record hold, and that model files may hold such records.

    Examples
    --------
    >>> @holds(knots="K ascending", values="K q")
    ... class Line: ...
    >>> held_by(Line)["values"].shape
    ('K', 'q')
    """
    declared = {name: Held.of(text) for name, text in fields.items()}

    def declare(cls: Class) -> Class:
        cls.__held__ = declared  # type: ignore[attr-defined]
        DECLARED[cls.__name__] = cls
        return cls

    return declare


def held_by(cls: type[Any]) -> dict[str, Held]:
    """What the fields of a class hold, those that it declares."""
    held: dict[str, Held] = getattr(cls, "__held__", {})
    return held


@cache
def annotated(cls: type[Any]) -> dict[str, Any]:
    """The annotations of the fields of a record."""
    return {name: hint for name, hint in get_type_hints(cls).items() if get_origin(hint) is not ClassVar}


def fits(value: Any, hint: Any) -> bool:
    """Whether a value, with all values in it, is what an annotation says; true and false are no numbers.

    Examples
    --------
    >>> fits((1, 0.5), tuple[int, float] | None), fits({"a": True}, dict[str, float]), fits(["a", 1], list[str])
    (True, False, False)
    """
    kind = get_origin(hint) or hint
    inner = get_args(hint)
    if kind in (Union, UnionType):
        return any(fits(value, choice) for choice in inner)
    if hint is Any:
        return True
    if getattr(kind, "_is_protocol", False):
        members = {*vars(kind), *kind.__annotations__}
        return all(hasattr(value, name) for name in members if not name.startswith("_"))
    if isinstance(value, bool) and kind in (int, float):
        return False
    if not isinstance(value, SCALARS.get(kind, kind)):
        return False
    if not inner or not isinstance(value, dict | list | tuple):
        return True
    if isinstance(value, dict):
        return all(fits(key, inner[0]) and fits(item, inner[1]) for key, item in value.items())
    if kind is list or inner[1:] == (...,):
        return all(fits(item, inner[0]) for item in value)
    return len(value) == len(inner) and all(map(fits, value, inner))
