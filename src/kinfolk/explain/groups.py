"""What makes a group: one sentence per group of tasks and per task that stands alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from kinfolk.explain.coefficients import ERROR_RATE, FeatureMark, feature_names, marks_of
from kinfolk.explain.joint import graph_of, joint_behind
from kinfolk.explain.kin import SURE, Kinship, kinship
from kinfolk.methods.model import Fitted, Model, as_model
from kinfolk.methods.structures import TaskGraph
from kinfolk.threads import on_few_threads
from kinfolk.words import cut, decimals, listed

MARKS = 3  # features in a sentence
LONERS = 20  # tasks that stand alone of which each gets a sentence
TELLING = 0.5  # standard deviations over all tasks from which a difference is worth a word
HARDLY = 0.1  # of the coefficient of others: below that a feature hardly matters
LIKELY = 0.5  # probability that two of its tasks are kin, mean over pairs, from which a group is more than loose
NO_FEATURE = "no single feature sets it clearly apart"
NO_GROUPS = "No groups: these tasks scatter around one mean."
BY_DEGREES = "No clear groups: these tasks differ by degrees"
SINGLE_ROWS = "No groups: a single row per task cannot show who is alike."


class Community(list[Any]):
    """The tasks of one group, and `said`: what sets them apart, in a sentence."""

    said: str = ""


@on_few_threads
def communities(model: Fitted | TaskGraph) -> list[Community]:
    """Groups of tasks of a fitted model or a graph, largest first; outliers stand alone at the end.

    Each is a list of tasks; of a fitted model, its attribute `said` is a sentence about what sets it apart, or that the
    tasks scatter around one mean.
    """
    graph = graph_of(model, "communities")
    found = [Community(tasks) for tasks in graph.communities()]
    if graph is not model:
        fitted = as_model(cast(Fitted, model))
        groups, alone = group_sentences(fitted, kinship(fitted))
        for community, said in zip(found, groups + alone, strict=False):  # of many outliers only the first have one
            community.said = said
    return found


def outliers(model: Fitted | TaskGraph, below: float | None = None) -> list[Any]:
    """Tasks of a fitted model or a graph that hardly touch the graph; see `TaskGraph.outliers`."""
    return graph_of(model, "outliers").outliers(below)


def without_groups(model: Model) -> str:
    """Why there are no groups, in a sentence."""
    single = model.gram is not None and bool((model.gram.n <= 1).all()) and len(model.labels) > 1
    return SINGLE_ROWS if single else NO_GROUPS


def only_loose(model: Model, kin: Kinship | None) -> bool:
    """Whether the graph falls into groups, in none of which two tasks are likely to be kin.

    Then tasks are alike by degrees: groups show who is near whom, and where one ends is not clear.
    """
    if kin is None or not kin.found or model.structure is None:
        return False
    group = model.structure.groups()
    inside = [np.flatnonzero(group == g) for g in range(group.max(initial=-1) + 1)]
    return bool(inside) and all(_kin_inside(kin, tasks) < LIKELY for tasks in inside)


def group_sentences(
    model: Fitted, kin: Kinship | None = None, names: Sequence[str] | None = None
) -> tuple[list[str], list[str]]:
    """One sentence per group, and one per task that stands alone; both empty where the method has no groups.

    Where no tasks are more alike than chance makes them, every sentence about a group says that instead. The level
    comes first: what is predicted at the mean of all inputs, mean over the tasks.

    Features are named whose difference to all other tasks is too large for noise at 5 % over all features together, and
    at least half a standard deviation over tasks, the most telling first.
    """
    model = as_model(model, "group_sentences")
    if model.structure is None:
        return [], []
    names = names or [cut(str(label)) for label in model.labels.tolist()]
    group = model.structure.groups()
    apart = _Apart(model, group)
    groups = [np.flatnonzero(group == g) for g in range(group.max(initial=-1) + 1)]
    if kin is not None and not kin.found:
        said = [without_groups(model)] * len(groups)
    else:
        loose = only_loose(model, kin)
        said = [_sentence(g, inside, apart, names, kin, loose) for g, inside in enumerate(groups)]
    alone = np.flatnonzero(group < 0)[:LONERS]
    return said, [f"{names[t]} stands alone{apart.said(np.array([t]))}." for t in alone]


def _sentence(
    g: int, inside: NDArray[np.intp], apart: _Apart, names: Sequence[str], kin: Kinship | None, loose: bool
) -> str:
    """Who is in a group, what sets it apart, and how sure it is."""
    word = "Pair" if len(inside) == 2 else f"Group {g + 1}"
    sure = "" if loose else _confidence(kin, inside)
    who = listed([names[t] for t in inside.tolist()], 8)
    return f"{f'Loose {word.lower()}' if loose else word} ({who}){apart.said(inside)}{sure}."


def _kin_inside(kin: Kinship, inside: NDArray[np.intp]) -> float:
    """How probable it is, on average, that two tasks of a group are kin."""
    pairs = len(inside) * (len(inside) - 1)
    return float(kin.probability[np.ix_(inside, inside)].sum() / max(pairs, 1))


def _confidence(kin: Kinship | None, inside: NDArray[np.intp]) -> str:
    """How sure the group is, in words."""
    if kin is None or not kin.found or len(inside) < 2:
        return ""
    pairs = _kin_inside(kin, inside)
    what = "pair" if len(inside) == 2 else "group"
    who = "the two" if len(inside) == 2 else "two of its tasks"
    if pairs < LIKELY:
        return f"; a loose {what}: {who} are alike, but have the same slopes with a probability of {pairs:.2f} only"
    word = "sure" if pairs >= SURE else "likely"
    return f"; a {word} {what}: {who} have the same slopes with a probability of {pairs:.2f}"


class _Apart:
    """Tells some tasks from all others that are not alone."""

    def __init__(self, model: Model, group: NDArray[np.intp]) -> None:
        # Beside splines the graph is one of slopes; basis functions have no slopes.
        self.nameless = model.columns is not None and model.columns.basis is not None and not model.curve_terms
        self.joint = None if self.nameless else joint_behind(model)
        self.texts = set() if model.columns is None else model.columns.categories
        self.model = model
        self.group = group

    def said(self, inside: NDArray[np.intp]) -> str:
        """The level of these tasks and the features that mark them, in words, after a colon; nothing beside bumps."""
        if self.nameless:
            return ""
        if len(inside) == len(self.group) > 1:
            return ": all tasks"
        marks = self._marks(inside)
        telling = [said_of(mark, category=mark.feature in self.texts) for mark in marks if _tells(mark, len(marks))]
        return f": {', '.join([*self._level(inside), *(telling[:MARKS] or [NO_FEATURE])])}"

    def _level(self, inside: NDArray[np.intp]) -> list[str]:
        """The level of these tasks at mean inputs, and that of all others that are not alone."""
        within = np.isin(np.arange(len(self.group)), inside)
        others = self.model.seen & (self.group >= 0) & ~within
        within &= self.model.seen
        if self.model.gram is None or not within.any() or not others.any():
            return []
        level = float(self.model.levels[within].mean())
        rest = float(self.model.levels[others].mean())
        style = _style(level, rest)
        return [f"level {level:{style}} (elsewhere {rest:{style}})"]

    def _marks(self, inside: NDArray[np.intp]) -> tuple[FeatureMark, ...]:
        seen = self.model.seen
        group = self.group[seen]
        within = np.isin(np.flatnonzero(seen), inside)  # nothing is known of tasks without rows
        if not within.any() or not (group >= 0).any():
            return ()
        if self.joint is not None and self.joint.inverse.at_once:
            return marks_of(self.joint.coef, feature_names(self.joint), within, group, self.joint)
        names = self.model.feature_names[self.model.curve_terms :]
        return marks_of(self.model.attributes["coef_"][seen], names, within, group)


def _tells(mark: FeatureMark, count: int) -> bool:
    beyond_noise = abs(mark.difference) > stats.norm.isf(ERROR_RATE / (2 * count)) * mark.standard_error
    return bool(beyond_noise and abs(mark.distance) >= TELLING)


def said_of(mark: FeatureMark, *, category: bool = False) -> str:
    """How a coefficient of some tasks differs from that of the others, in words.

    Of a category it is what rows of that category have more, or less, than the task's others.

    Examples
    --------
    >>> said_of(FeatureMark("price", 2.0, 0.1, 1.0, 1.0, 0.1, 2.0))
    'price matters 2.0 times as much (2.00 beside 1.00)'
    >>> said_of(FeatureMark("wind", 1.9412, 0.001, 1.9438, -0.0026, 0.001, -2.0))
    'wind matters less (1.941 beside 1.944)'
    >>> said_of(FeatureMark("rain", 0.02, 0.1, 1.0, -0.98, 0.1, -2.0))
    'rain hardly matters (0.02 beside 1.00)'
    >>> said_of(FeatureMark("heat", -1.0, 0.1, 0.5, -1.5, 0.1, -2.0))
    'heat works the other way (-1.00 beside 0.50)'
    >>> said_of(FeatureMark("day_Sunday", 19.67, 1.0, 1.41, 18.3, 2.0, 2.0), category=True)
    'day_Sunday +19.7 (elsewhere +1.4)'
    """
    style = _style(mark.mean, mark.rest)
    if category:
        return f"{mark.feature} {mark.mean:+{style}} (elsewhere {mark.rest:+{style}})"
    numbers = f"({mark.mean:{style}} beside {mark.rest:{style}})"
    if abs(mark.mean) < HARDLY * abs(mark.rest):
        return f"{mark.feature} hardly matters {numbers}"
    if abs(mark.rest) < HARDLY * abs(mark.mean):
        return f"{mark.feature} matters, elsewhere hardly {numbers}"
    if mark.mean * mark.rest < 0:
        return f"{mark.feature} works the other way {numbers}"
    ratio = mark.mean / mark.rest
    if ratio >= 1.5:
        return f"{mark.feature} matters {ratio:.1f} times as much {numbers}"
    return f"{mark.feature} matters {'more' if ratio > 1 else 'less'} {numbers}"


def _style(one: float, two: float) -> str:
    """How to write the two numbers of a sentence: three digits of the larger, or as many as tell them apart."""
    largest = max(abs(one), abs(two))
    styles = [f",.{decimals([largest], digits)}f" if largest >= 1e-3 else f".{digits}g" for digits in range(3, 9)]
    return next((style for style in styles if f"{one:{style}}" != f"{two:{style}}"), styles[0])
