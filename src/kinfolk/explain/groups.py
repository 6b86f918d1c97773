"""What makes a group: one sentence per group of tasks and per task that stands alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from kinfolk.explain.coefficients import ERROR_RATE, FeatureMark, feature_names, marks_of
from kinfolk.explain.joint import Joint, graph_of, joint_behind
from kinfolk.explain.kin import SURE, Kinship, kinship
from kinfolk.methods.model import Fitted, Model, as_model
from kinfolk.methods.structures import TaskGraph
from kinfolk.threads import on_few_threads
from kinfolk.words import counted, cut, decimals, listed, sizes_of

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
    members = [Community(tasks) for tasks in graph.communities()]
    if graph is not model:
        groups, alone = TaskGroups.of(as_model(cast(Fitted, model))).sentences()
        for community, said in zip(members, groups + alone, strict=False):  # of many outliers only the first have one
            community.said = said
    return members


def outliers(model: Fitted | TaskGraph, below: float | None = None) -> list[Any]:
    """Tasks of a fitted model or a graph that hardly touch the graph; see `TaskGraph.outliers`."""
    return graph_of(model, "outliers").outliers(below)


@dataclass(frozen=True, eq=False)
class TaskGroups:
    """The groups of a fitted model, and the words in which they are told.

    Attributes
    ----------
    model : the fitted model
    kin : what `kinship` found; None where it was not asked or does not judge
    """

    model: Model
    kin: Kinship | None

    @classmethod
    def of(cls, model: Model) -> Self:
        """The groups of a model, and whether they stand out."""
        return cls(model, kinship(model))

    @cached_property
    def number(self) -> NDArray[np.intp]:
        """Group of every task, 0 the largest, -1 for those that stand alone; all 0 where the method has no groups."""
        if self.model.structure is None:
            return np.zeros(len(self.model.labels), np.intp)
        return self.model.structure.groups()

    @property
    def colours(self) -> NDArray[np.intp]:
        """The same, with one group for all that do not stand alone where no groups stand out."""
        return self.number if self.stand_out else np.minimum(self.number, 0)

    @cached_property
    def members(self) -> list[NDArray[np.intp]]:
        """Positions of the tasks of every group."""
        return [np.flatnonzero(self.number == g) for g in range(self.number.max(initial=-1) + 1)]

    @property
    def alone(self) -> NDArray[np.intp]:
        """Positions of the tasks that stand alone."""
        return np.flatnonzero(self.number < 0)

    @property
    def stand_out(self) -> bool:
        """Whether tasks are more alike than chance makes them, as far as that was judged."""
        return self.kin is None or self.kin.found

    @cached_property
    def loose(self) -> bool:
        """Whether there are groups, in none of which two tasks are likely to be kin.

        Then tasks are alike by degrees: groups show who is near whom, and where one ends is not clear.
        """
        if self.kin is None or not self.kin.found or self.model.structure is None:
            return False
        return bool(self.members) and all(self._kin_inside(tasks) < LIKELY for tasks in self.members)

    @property
    def why_none(self) -> str:
        """Why there are no groups, in a sentence."""
        single = self.model.gram is not None and bool((self.model.gram.n <= 1).all()) and len(self.model.labels) > 1
        return SINGLE_ROWS if single else NO_GROUPS

    def in_short(self) -> str:
        """The graph in one line: edges, groups with their sizes, and tasks that stand alone."""
        structure = self.model.structure
        if structure is None:
            return "this method learns no relation between tasks"
        if len(self.model.labels) == 1:
            return "one task, so there are no others to compare it with"
        parts = []
        if not structure.edges_are:
            parts.append(counted(structure.graph().adjacency.nnz // 2, "edge"))
        if not self.stand_out:
            parts.append("no groups stand out")
        elif self.members:
            sizes = [len(tasks) for tasks in self.members]
            tasks = "task" if sum(sizes) == 1 else "tasks"
            parts.append(f"{counted(len(sizes), self._what)} of {sizes_of(sizes)} {tasks}")
        if len(self.alone):
            verb = "stands" if len(self.alone) == 1 else "stand"
            parts.append(f"{counted(len(self.alone), 'task')} {verb} alone")
        return "; ".join(parts)

    def headline(self, names: Sequence[str]) -> list[str]:
        """The same in sentences, with the names of the tasks that stand alone."""
        if len(names) == 1:
            return []
        if self.model.structure is None:
            return ["This method learns no relation between tasks."]
        sentences = []
        if not self.stand_out:
            sentences.append(self.why_none)
        elif len(self.members) > 1:
            form = f"{BY_DEGREES}. There are" if self.loose else "The tasks form"
            sizes = sizes_of([len(tasks) for tasks in self.members])
            sentences.append(f"{form} {counted(len(self.members), self._what)}, of {sizes} tasks.")
        elif self.members:
            sentences.append(f"{BY_DEGREES}." if self.loose else "The tasks form one group.")
        if len(self.alone):
            verb = "stands" if len(self.alone) == 1 else "stand"
            who = listed([names[t] for t in self.alone])
            sentences.append(f"{counted(len(self.alone), 'task')} {verb} alone: {who}.")
        return sentences

    def lines(self) -> list[str]:
        """What makes every group, or that there are none; and what makes every task that stands alone."""
        if len(self.model.labels) == 1 or self.model.structure is None:
            return []
        if not self.stand_out:
            return [self.why_none, *self.each()]
        return [f"{BY_DEGREES}.", *self.each()] if self.loose else self.each()

    def each(self, names: Sequence[str] | None = None) -> list[str]:
        """A sentence for every group that stands out from others, and for every task that stands alone."""
        if len(self.model.labels) == 1:
            return []
        groups, alone = self.sentences(names)
        several = len(groups) > 1 or not self.loose
        return [*groups, *alone] if several and self.stand_out else alone

    def sentences(self, names: Sequence[str] | None = None) -> tuple[list[str], list[str]]:
        """See `group_sentences`."""
        if self.model.structure is None:
            return [], []
        names = names or [cut(str(label)) for label in self.model.labels.tolist()]
        groups = [self.why_none] * len(self.members)
        if self.stand_out:
            groups = [self._sentence(g, names) for g in range(len(self.members))]
        return groups, [f"{names[t]} stands alone{self._differs(np.array([t]))}." for t in self.alone[:LONERS]]

    @property
    def _what(self) -> str:
        return "loose group" if self.loose else "group"

    def _sentence(self, g: int, names: Sequence[str]) -> str:
        """Who is in a group, what sets it apart, and how sure it is."""
        inside = self.members[g]
        word = "Pair" if len(inside) == 2 else f"Group {g + 1}"
        who = listed([names[t] for t in inside.tolist()], 8)
        if self.loose:
            return f"Loose {word.lower()} ({who}){self._differs(inside)}."
        return f"{word} ({who}){self._differs(inside)}{self._how_sure(inside)}."

    def _kin_inside(self, inside: NDArray[np.intp]) -> float:
        """How probable it is, on average, that two tasks of a group are kin."""
        assert self.kin is not None
        pairs = len(inside) * (len(inside) - 1)
        return float(self.kin.probability[np.ix_(inside, inside)].sum() / max(pairs, 1))

    def _how_sure(self, inside: NDArray[np.intp]) -> str:
        """How sure the group is, in words."""
        if self.kin is None or len(inside) < 2:
            return ""
        probability = self._kin_inside(inside)
        what, who = ("pair", "the two") if len(inside) == 2 else ("group", "two of its tasks")
        if probability < LIKELY:
            but = f"but have the same slopes with a probability of {probability:.2f} only"
            return f"; a loose {what}: {who} are alike, {but}"
        word = "sure" if probability >= SURE else "likely"
        return f"; a {word} {what}: {who} have the same slopes with a probability of {probability:.2f}"

    @cached_property
    def _nameless(self) -> bool:
        """Whether features are basis functions, which have no slopes; beside splines the graph is one of slopes."""
        return self.model.columns is not None and self.model.columns.basis is not None and not self.model.curve_terms

    @cached_property
    def _joint(self) -> Joint | None:
        joint = joint_behind(self.model)
        return joint if joint is not None and joint.is_small else None

    def _differs(self, inside: NDArray[np.intp]) -> str:
        """The level of these tasks and the features that mark them, in words, after a colon."""
        if self._nameless:
            return ""
        if len(inside) == len(self.number) > 1:
            return ": all tasks"
        texts = set() if self.model.columns is None else self.model.columns.categories
        marks = self._marks(inside)
        telling = [said_of(mark, category=mark.feature in texts) for mark in marks if _tells(mark, len(marks))]
        return f": {', '.join([*self._level(inside), *(telling[:MARKS] or [NO_FEATURE])])}"

    def _level(self, inside: NDArray[np.intp]) -> list[str]:
        """The level of these tasks at mean inputs, and that of all others that are not alone."""
        within = np.isin(np.arange(len(self.number)), inside)
        others = self.model.seen & (self.number >= 0) & ~within
        within &= self.model.seen
        if self.model.gram is None or not within.any() or not others.any():
            return []
        level = float(self.model.levels[within].mean())
        rest = float(self.model.levels[others].mean())
        style = _style(level, rest)
        return [f"level {level:{style}} (elsewhere {rest:{style}})"]

    def _marks(self, inside: NDArray[np.intp]) -> tuple[FeatureMark, ...]:
        seen = self.model.seen
        group = self.number[seen]
        within = np.isin(np.flatnonzero(seen), inside)  # nothing is known of tasks without rows
        if not within.any() or not (group >= 0).any():
            return ()
        joint = self._joint
        if joint is not None:
            return marks_of(joint.coef, feature_names(joint), within, group, joint, common=joint.gram.common())
        bends = self.model.curve_terms
        common = None if self.model.gram is None else self.model.known.common()[bends:]
        names = self.model.feature_names[bends:]
        return marks_of(self.model.attributes["coef_"][seen], names, within, group, common=common)


def group_sentences(
    model: Fitted, kin: Kinship | None = None, names: Sequence[str] | None = None
) -> tuple[list[str], list[str]]:
    """One sentence per group, and one per task that stands alone; both empty where the method has no groups.

    Where no tasks are more alike than chance makes them, every sentence about a group says that instead. The level
    comes first: what is predicted at the mean of all inputs, mean over the tasks.

    Features are named whose difference to all other tasks is too large for noise at 5 % over all features together, and
    at least half a standard deviation over tasks, the most telling first.
    """
    return TaskGroups(as_model(model, "group_sentences"), kin).sentences(names)


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
