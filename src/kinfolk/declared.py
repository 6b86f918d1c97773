"""What the fields of a record may hold, declared beside the record: shapes, types and ranges, for whoever reads files.

A declaration is a few words. Letters and numbers are the lengths of an array; the same letter is the same length, in
this record and in those that it is passed on to.

    holds(labels="names T", G="T d d repeats", n="T >=0", gram="record T d", lines="record T d=i", share="number >=0")
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

TYPES = {
    "numbers": "f",  # of float64
    "integers": "i",
    "bits": "u",
    "truths": "b",
    "names": "",  # of tasks: an array of any type
    "number": "",  # a single one
    "texts": "",  # a tuple of them
    "sparse": "f",
    "record": "",  # or a tuple of records
}
VALUES = ("finite", "infinite", "any")  # no NaN and nothing infinite (the default), no NaN, whatever it is
RANGES = (">0", ">=0", "<=1")

Class = TypeVar("Class", bound=type)


class Held(NamedTuple):
    """What one field may hold.

    Attributes
    ----------
    type : a key of `TYPES`
    shape : lengths, as letters or numbers
    values : one of `VALUES`
    ranges : some of `RANGES`
    below : the length below which integers are positions, or empty
    passed : of a record, its own letters and what they are called here; `S=sum` of truths says how many are true
    words : "repeats", if the array may be one that is held once; "ascending"
    """

    type: str
    shape: tuple[str, ...]
    values: str
    ranges: tuple[str, ...]
    below: str
    passed: dict[str, str]
    words: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> Held:
        """The meaning of a declaration.

        >>> Held.of("integers n <d").below, Held.of("T d").shape, Held.of("record T d=i").passed
        ('d', ('T', 'd'), {'T': 'T', 'd': 'i'})
        """
        words = text.split()
        kind = words.pop(0) if words and words[0] in TYPES else "numbers"
        shape = tuple(word for word in words if len(word) == 1)
        return cls(
            kind,
            shape,
            next((word for word in words if word in VALUES), "finite"),
            tuple(word for word in words if word in RANGES),
            next((word[1:] for word in words if word[0] == "<" and word not in RANGES), ""),
            {letter: letter for letter in shape} | dict(word.split("=") for word in words if word[1:2] == "="),
            tuple(word for word in words if word in ("repeats", "ascending")),
        )


def holds(**fields: str) -> Callable[[Class], Class]:
    """A class decorator that declares what the fields of a record hold.

    Examples
    --------
    >>> @holds(knots="K ascending", values="K q")
    ... class Walk: ...
    >>> held_by(Walk)["values"].shape
    ('K', 'q')
    """
    declared = {name: Held.of(text) for name, text in fields.items()}

    def declare(cls: Class) -> Class:
        cls.__held__ = declared  # type: ignore[attr-defined]
        return cls

    return declare


def held_by(cls: type[Any]) -> dict[str, Held]:
    """What the fields of a class hold, those that it declares."""
    found: dict[str, Held] = getattr(cls, "__held__", {})
    return found
