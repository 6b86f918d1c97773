"""Labels of tasks and groups as they appear along a pass: each gets the next number."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

INTEGER = re.compile(r"\s*(-?[1-9]\d{0,17}|0)\s*")  # the rule of the command line
KINDS = {"i": "integers", "u": "integers", "U": "text", "b": "truth values", "M": "dates"}


class LabelIndex:
    """Numbers 0, 1, 2, ... for labels in the order in which they first appear.

    Examples
    --------
    >>> index = LabelIndex("shop")
    >>> index.numbers(np.array(["b", "d"]), "1.csv"), index.numbers(np.array(["a", "b"]), "2.csv")
    (array([0, 1]), array([2, 0]))
    >>> index.labels, index.order
    (array(['a', 'b', 'd'], dtype='<U1'), array([2, 0, 1]))
    """

    def __init__(self, column: str) -> None:
        self.column = column
        self.labels: NDArray[Any] = np.empty(0)  # sorted
        self.order: NDArray[np.intp] = np.empty(0, np.intp)  # their numbers
        self.seen_in = ""

    def __len__(self) -> int:
        return len(self.labels)

    def numbers(self, labels: NDArray[Any], where: str) -> NDArray[np.intp]:
        """Numbers of some distinct labels, new ones included; `where` they stand is for the error text."""
        if not len(self):
            self.labels, self.seen_in = labels[:0], where
        self._check_kind(labels, where)
        new = ~np.isin(labels, self.labels, assume_unique=True)
        if new.any():
            numbers = np.concatenate([self.order, len(self) + np.arange(new.sum())])
            together = np.concatenate([self.labels, labels[new]])
            ascending = np.argsort(together, kind="stable")
            self.labels, self.order = together[ascending], numbers[ascending]
        return self.order[np.searchsorted(self.labels, labels)]

    def _check_kind(self, labels: NDArray[Any], where: str) -> None:
        one, two = kind_of(self.labels), kind_of(labels)
        if one != two:
            raise ValueError(
                f"column {self.column!r} holds {one} in {self.seen_in} but {two} in {where}: write it with one type"
            )


def kind_of(labels: NDArray[Any]) -> str:
    """What labels are, in a word."""
    return KINDS.get(labels.dtype.kind, str(labels.dtype))


def as_whole_numbers(labels: NDArray[Any]) -> NDArray[Any]:
    """Labels read as text, as integers if every one is written as one without leading zeros; else as they are.

    Examples
    --------
    >>> as_whole_numbers(np.array(["10", "9", "-7"])), as_whole_numbers(np.array(["10", "007"]))
    (array([10,  9, -7]), array(['10', '007'], dtype='<U3'))
    """
    if not all(INTEGER.fullmatch(label) for label in labels.tolist()):
        return labels
    whole = labels.astype(np.int64)
    return whole if len(np.unique(whole)) == len(labels) else labels


def as_known_numbers(labels: NDArray[Any]) -> NDArray[Any]:
    """Labels read as text, for a model whose tasks are integers: however they are written, if they are integers.

    Examples
    --------
    >>> as_known_numbers(np.array(["10", "007", "3.0"])), as_known_numbers(np.array(["10", "B"]))
    (array([10,  7,  3]), array(['10', 'B'], dtype='<U2'))
    """
    try:
        return np.array([int(label.removesuffix(".0")) for label in labels.tolist()], dtype=np.int64)
    except (ValueError, OverflowError):
        return labels
