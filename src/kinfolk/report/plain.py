"""Names and numbers as plain data: what goes into the page is text, short numbers and None."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinfolk.words import cut

DIGITS = 4
LONGEST = 40  # characters of a name inside a sentence


def short(values: ArrayLike, digits: int = DIGITS) -> Any:
    """Numbers as nested lists, rounded to so many significant digits; None where there is none.

    Examples
    --------
    >>> short([1234.56, 0.000123456, 0.0, np.nan])
    [1235.0, 0.0001235, 0.0, None]
    """
    x = np.asarray(values, dtype=np.float64)
    finite = np.isfinite(x)
    size = np.where(finite & (x != 0), np.abs(x), 1.0)
    places = digits - 1 - np.floor(np.log10(size))
    # Powers of ten are exact up to 22, so the quotient is the double nearest to the short decimal.
    up, down = 10.0 ** np.clip(places, 0, 22), 10.0 ** np.clip(-places, 0, 300)
    rounded = np.round(np.where(finite, x, 0.0) / down * up) / up * down
    rounded = np.where(rounded == 0, 0.0, rounded)
    answer = rounded.astype(object)
    answer[~finite] = None
    return answer.tolist()


def plain_names(labels: NDArray[Any]) -> list[str]:
    """Task labels as text that any file can hold: lone surrogates become question marks, nothing becomes "(empty)".

    Examples
    --------
    >>> plain_names(np.array(["a", "", "None"]))
    ['a', '(empty)', 'None']
    """
    return [str(label).encode("utf-8", "replace").decode() or "(empty)" for label in labels.tolist()]


def in_text(name: str, longest: int = LONGEST) -> str:
    """A name inside a sentence: cut if long, one line, and isolated, so that its writing direction stays its own.

    Examples
    --------
    >>> in_text("a  b" + "c" * 100, 8)
    '\u2068a bcccc…\u2069'
    """
    return "\u2068" + cut(name, longest) + "\u2069"
