"""Parameters of methods, declared once: default, what is allowed, and the check that follows from both.

    @parameters
    class Ridge(MultiTaskRegressor):
        penalty: float = number(1.0, at_least=0)

makes the constructor that scikit-learn expects (keywords, stored as they are given) and lets `check_parameters` word
the errors. What is allowed is also what a description of the method can show. A docstring describes the parameters of
its own class: what the bases say of theirs is added to its section "Parameters".
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields
from inspect import cleandoc
from typing import Any, TypeVar

import numpy as np

Class = TypeVar("Class")
SECTION = re.compile(r"(^Parameters\n-+\n)((?:.+\n)*)", re.MULTILINE)  # of a docstring
ENTRY = re.compile(r"^(\w[\w, ]*) :.*\n(?: +.*\n)*", re.MULTILINE)  # of that section


@dataclass(frozen=True)
class Number:
    """A finite number within limits, or one of the values `also`; `hint` ends the error when it is not."""

    at_least: float | None = None
    above: float | None = None
    at_most: float | None = None
    below: float | None = None
    whole: bool = False
    also: tuple[Any, ...] = ()
    hint: str = ""

    def error(self, name: str, value: Any) -> str:
        """What is wrong with a value, or nothing."""
        if any(value is other or (isinstance(value, str) and value == other) for other in self.also):
            return ""
        is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
        if is_number and np.isfinite(value) and self._within(float(value)):
            return ""
        return f"{name}={value!r} must be {self.words()}{f': {self.hint}' if self.hint else ''}"

    def _within(self, value: float) -> bool:
        return (
            (self.at_least is None or value >= self.at_least)
            and (self.above is None or value > self.above)
            and (self.at_most is None or value <= self.at_most)
            and (self.below is None or value < self.below)
            and (not self.whole or value == int(value))
        )

    def words(self) -> str:
        """What is allowed, in words."""
        if self.at_least is not None and self.at_most is not None:
            limits = f"between {self.at_least:g} and {self.at_most:g}"
        else:
            low = f"greater than {self.above:g}" if self.above is not None else f"at least {self.at_least or 0:g}"
            high = "finite" if self.at_most is None else f"at most {self.at_most:g}"
            limits = f"{low} and {high if self.below is None else f'below {self.below:g}'}"
        kind = "a whole number, " if self.whole else ""
        others = "".join(f', or "{other}"' if isinstance(other, str) else "" for other in self.also)
        return f"{kind}{limits}{others}"


@dataclass(frozen=True)
class OneOf:
    """One of some values."""

    options: tuple[Any, ...]

    def error(self, name: str, value: Any) -> str:
        """What is wrong with a value, or nothing."""
        return "" if value in self.options else f"{name}={value!r}: choose {self.words()}"

    def words(self) -> str:
        """What is allowed, in words."""
        named = [f'"{option}"' if isinstance(option, str) else str(option) for option in self.options]
        return " or ".join([", ".join(named[:-1]), named[-1]])


def number(default: Any, **allowed: Any) -> Any:
    """A parameter that is a `Number`."""
    return field(default=default, metadata={"allowed": Number(**allowed)})


def choice(default: Any, *options: Any) -> Any:
    """A parameter that is a `OneOf`; the default is one of the options."""
    return field(default=default, metadata={"allowed": OneOf((default, *(o for o in options if o != default)))})


def parameters(cls: type[Class]) -> type[Class]:
    """The constructor that scikit-learn expects, from annotated class attributes, and a docstring of all of them."""
    made = dataclass(kw_only=True, eq=False, repr=False)(cls)
    made.__doc__ = cleandoc(made.__doc__ or "") + "\n"
    entries = _described(made)
    for base in made.__mro__[1:]:
        entries |= {name: text for name, text in _described(base).items() if name not in entries}
    # The task first, as in the constructor; one text may describe several parameters.
    texts = dict.fromkeys([entries.pop("task", ""), *entries.values()])
    made.__doc__ = SECTION.sub(lambda own: own[1] + "".join(texts), made.__doc__, count=1)
    return made


def _described(cls: type[Any]) -> dict[str, str]:
    """The text about every parameter that the docstring of a class describes, by its name."""
    section = SECTION.search(cleandoc(cls.__doc__ or "") + "\n") if cls.__module__.startswith("kinfolk.") else None
    entries = ENTRY.finditer(section[2]) if section else ()
    return {name: entry[0] for entry in entries for name in entry[1].split(", ")}


def check_parameters(method: Any) -> None:
    """Raise a ValueError that names every parameter with a value that is not allowed."""
    wrong = [
        parameter.metadata["allowed"].error(parameter.name, getattr(method, parameter.name))
        for parameter in fields(method)
        if "allowed" in parameter.metadata
    ]
    if any(wrong):
        raise ValueError("; ".join(filter(None, wrong)))
