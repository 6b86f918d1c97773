"""What makes a group: one sentence per group of tasks and per task that stands alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from kinfolk.explain.coefficients import ERROR_RATE, FeatureMark, marks_of
from kinfolk.explain.joint import Joint, joint_behind
from kinfolk.explain.kin import SURE, Kinship
from kinfolk.methods.model import Model
from kinfolk.words import cut, listed, written

MARKS = 3  # features in a sentence
UNKNOWNS = 5_000  # T times d up to which coefficients are compared
LONERS = 20  # tasks that stand alone of which each gets a sentence
TELLING = 0.5  # standard deviations over all tasks from which a difference is worth a word
NO_GROUPS = "No groups: these tasks scatter around one mean."
SINGLE_ROWS = "No groups: with a single row per task nobody can tell who is alike."


class Community(list[Any]):
    """The tasks of one group, and `said`: what sets them apart, in a sentence."""

    said: str = ""


def without_groups(model: Model) -> str:
    """Why there are no groups to tell of."""
    single = model.gram is not None and bool((model.gram.n <= 1).all()) and len(model.labels) > 1
    return SINGLE_ROWS if single else NO_GROUPS


def group_sentences(
    model: Model, kin: Kinship | None = None, names: Sequence[str] | None = None
) -> tuple[list[str], list[str]]:
    """One sentence per group, and one per task that stands alone; both empty where the method has no groups.

    Features are named whose difference to all other tasks is too large for noise at 5 % over all features together, and
    at least half a standard deviation over tasks, the most telling first.
    """
    if model.structure is None:
        return [], []
    names = names or [cut(str(label)) for label in model.labels.tolist()]
    group = model.structure.groups()
    joint = _joint(model)
    said = []
    for g in range(group.max(initial=-1) + 1):
        inside = np.flatnonzero(group == g)
        word = "Pair" if len(inside) == 2 else f"Group {g + 1}"
        who = listed([names[t] for t in inside.tolist()], 8)
        said.append(f"{word} ({who}): {_apart(joint, model.seen, inside, group)}{_confidence(kin, inside)}.")
    alone = np.flatnonzero(group < 0)[:LONERS]
    loners = [f"{names[t]} stands alone: {_apart(joint, model.seen, np.array([t]), group)}." for t in alone]
    return said, loners


def _confidence(kin: Kinship | None, inside: NDArray[np.intp]) -> str:
    """How probable it is, on average, that two tasks of the group are kin."""
    if kin is None or not kin.found or len(inside) < 2:
        return ""
    pairs = kin.probability[np.ix_(inside, inside)].sum() / (len(inside) * (len(inside) - 1))
    word = "loose"
    if pairs >= 0.5:
        word = "sure" if pairs >= SURE else "likely"
    if len(inside) == 2:
        return f"; a {word} pair: kin with a probability of {pairs:.2f}"
    return f"; a {word} group: two of its tasks are kin with a probability of {pairs:.2f}"


def _joint(model: Model) -> Joint | None:
    """The problem behind the graph, where its coefficients have names and can be compared."""
    # Beside splines the graph is one of slopes; basis functions have no slopes.
    nameless = model.columns is not None and model.columns.basis is not None and not model.curve_terms
    return None if nameless or model.coef.size > UNKNOWNS else joint_behind(model)


def _apart(joint: Joint | None, seen: NDArray[np.bool_], inside: NDArray[np.intp], group: NDArray[np.intp]) -> str:
    """The features that mark some tasks against all others that are not alone, in words."""
    marks: tuple[FeatureMark, ...] = ()
    within = np.isin(np.flatnonzero(seen), inside)  # the joint problem knows of tasks with rows only
    if joint is not None and within.any() and (group[seen] >= 0).any():
        marks = marks_of(joint, within, group[seen])
    telling = [said_of(mark) for mark in marks if _tells(mark, len(marks))]
    if telling:
        return ", ".join(telling[:MARKS])
    return "all tasks" if len(inside) == len(group) > 1 else "no single feature sets it clearly apart"


def _tells(mark: FeatureMark, count: int) -> bool:
    beyond_noise = abs(mark.difference) > stats.norm.isf(ERROR_RATE / (2 * count)) * mark.standard_error
    return bool(beyond_noise and abs(mark.distance) >= TELLING)


def said_of(mark: FeatureMark) -> str:
    """How a coefficient of some tasks differs from that of the others, in words.

    Examples
    --------
    >>> said_of(FeatureMark("price", 2.0, 0.1, 1.0, 1.0, 0.1, 2.0))
    'price matters 2.0 times as much (2 beside 1)'
    >>> said_of(FeatureMark("rain", 0.02, 0.1, 1.0, -0.98, 0.1, -2.0))
    'rain hardly matters (0.02 beside 1)'
    >>> said_of(FeatureMark("heat", -1.0, 0.1, 0.5, -1.5, 0.1, -2.0))
    'heat works the other way (-1 beside 0.5)'
    """
    numbers = f"({written(round(mark.mean, 3))} beside {written(round(mark.rest, 3))})"
    if abs(mark.mean) < 0.2 * abs(mark.rest):
        return f"{mark.feature} hardly matters {numbers}"
    if abs(mark.rest) < 0.2 * abs(mark.mean):
        return f"{mark.feature} matters, elsewhere hardly {numbers}"
    if mark.mean * mark.rest < 0:
        return f"{mark.feature} works the other way {numbers}"
    ratio = mark.mean / mark.rest
    if ratio >= 1.5:
        return f"{mark.feature} matters {ratio:.1f} times as much {numbers}"
    return f"{mark.feature} matters {'more' if ratio > 1 else 'less'} {numbers}"
