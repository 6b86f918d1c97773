"""Names and numbers as plain data: what goes into the page is text, short numbers and None."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinfolk.words import cut, plain

DIGITS = 4


def short(values: ArrayLike, digits: int = DIGITS) -> Any:
    """Numbers as nested lists, rounded to so many significant digits; None where there is none.

    Examples
    --------
    >>> short([1234.56, 0.000123456, -0.0, np.nan])
    [1235.0, 0.0001235, 0.0, None]
    """
    return plain(np.asarray(values, dtype=np.float64) + 0.0, digits)  # plus zero: minus zero becomes zero


def plain_names(labels: NDArray[Any]) -> list[str]:
    """Task labels as text that any file can hold: lone surrogates become question marks, nothing becomes "(empty)".

    Examples
    --------
    >>> plain_names(np.array(["a", "", "None"]))
    ['a', '(empty)', 'None']
    """
    return [str(label).encode("utf-8", "replace").decode() or "(empty)" for label in labels.tolist()]


def in_text(name: str) -> str:
    """A name inside a sentence: cut if long, one line, and isolated, so that its writing direction stays its own.

    Examples
    --------
    >>> in_text("a  b")
    '\u2068a b\u2069'
    """
    return "\u2068" + cut(name) + "\u2069"
