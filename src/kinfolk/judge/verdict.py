"""What held-out errors say about sharing, in sentences: does it help, whom, by how much, and what to do next.

Every place that gives a verdict (command line, report, comparison, summary) takes it from here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from kinfolk.judge.errors import Gain, paired_gain
from kinfolk.rows.gram import TINY, Array
from kinfolk.solvers.tolerances import SAME_ERRORS
from kinfolk.words import amount, counted, listed, percent

CLEAR = 2.0  # standard errors that make a difference
LOSS = 0.05  # relative rise of a task's error from which it is named
CHANCE = 0.025  # probability of such a rise by chance up to which it is clear
NOTICEABLE = 0.005  # relative difference of errors that is too small to matter, however clear it is
HELPS = "helps"
HURTS = "hurts"
SAME = "makes no clear difference"
SLIGHT = "makes next to no difference"
UNKNOWN = "is not judged"


def effect_of(gain: Gain) -> str:
    """Whether a gain is clear, and which way it goes.

    Examples
    --------
    >>> effect_of(Gain(0.1, 0.01)), effect_of(Gain(-0.1, 0.01)), effect_of(Gain(0.1, 0.1))
    ('helps', 'hurts', 'makes no clear difference')
    >>> effect_of(Gain(0.001, 0.0001))
    'makes next to no difference'
    """
    if not np.isfinite(gain.standard_error):
        return UNKNOWN
    if abs(gain.mean) <= CLEAR * gain.standard_error:
        return SAME
    if abs(gain.mean) < NOTICEABLE:
        return SLIGHT
    return HELPS if gain.mean > 0 else HURTS


def sharing_sentence(gain: Gain, tasks: int, method: str = "this model") -> str:
    """Whether a method that shares beats a ridge per task.

    Examples
    --------
    >>> print(sharing_sentence(Gain(-0.2, 0.05), 12, "pooled"))
    Sharing hurts: the held-out error of pooled is higher than that of a ridge per task, by 20.0 % (standard error \
5.0), mean over 12 tasks.
    """
    effect = effect_of(gain)
    if effect == UNKNOWN:
        return "There is one task only: nothing can be shared."
    over = f"mean over {counted(tasks, 'task')}"
    if abs(gain.mean) < SAME_ERRORS:
        return f"Sharing {effect}: the held-out error of {method} is that of a ridge per task, {over}."
    way = "lower" if gain.mean >= 0 else "higher"
    size = amount(gain.mean, gain.standard_error)
    return (
        f"Sharing {effect}: the held-out error of {method} is {way} than that of a ridge per task, by {size}, {over}."
    )


def graph_sentence(gain: Gain, used: bool) -> str:
    """Whether the graph of a tuned model takes part in its predictions, and what it gains.

    Examples
    --------
    >>> graph_sentence(Gain(-0.003, 0.004), False)
    'The graph is a description only: with it the held-out error would be higher by 0.3 % (standard error 0.4), so \
predictions do without it.'
    """
    if used:
        return f"The graph {lowers(gain)} beyond the best methods without a graph."
    return f"The graph is a description only: {without_gain(gain)} so predictions do without it."


def curves_sentence(gain: Gain, mixture: Iterable[str], along: str | None) -> str:
    """What curves gain, and a walk along an input, as far as the models of a mixture have them.

    Examples
    --------
    >>> curves_sentence(Gain(0.03, 0.01), ["walk, random slopes", "random slopes"], "year")
    "Levels that wander along 'year' help: they lower the held-out error by 3.0 % (standard error 1.0) beyond lines \
alone."
    """
    kinds = {name.partition(",")[0] for name in mixture}
    parts = ["curves (splines of the features)"] if "curves" in kinds or "walk" not in kinds else []
    parts += [f"levels that wander along {along!r}"] if "walk" in kinds else []
    said = listed(parts)
    return f"{said[0].upper()}{said[1:]} {lowers(gain, plural=True)} beyond lines alone."


def lowers(gain: Gain, *, plural: bool = False) -> str:
    """What a part of a model does that takes part in the predictions.

    Examples
    --------
    >>> lowers(Gain(0.03, 0.01)), lowers(Gain(0.0004, 0.0))
    ('helps: it lowers the held-out error by 3.0 % (standard error 1.0)', 'makes next to no difference: it lowers the \
held-out error by less than 0.1 %')
    >>> lowers(Gain(0.03, 0.01), plural=True)
    'help: they lower the held-out error by 3.0 % (standard error 1.0)'
    """
    worth = HELPS if gain.mean >= NOTICEABLE else SLIGHT
    size = amount(gain.mean, gain.standard_error)
    if plural:
        verb, _, rest = worth.partition("s")  # help, or make next to no difference
        return f"{verb}{rest}: they lower the held-out error by {size}"
    return f"{worth}: it lowers the held-out error by {size}"


def without_gain(gain: Gain) -> str:
    """Why something is left out of a model."""
    if abs(gain.mean) < SAME_ERRORS:
        return "with it the held-out error would be the same,"
    size = amount(gain.mean, gain.standard_error)
    if gain.mean >= 0:
        return f"with it the held-out error would be lower by {size}, which is not clear enough,"
    return f"with it the held-out error would be higher by {size},"


@dataclass(frozen=True, eq=False)
class Verdict:
    """What sharing does to every task, against a ridge per task on the same held-out rows.

    Attributes
    ----------
    gain : relative fall of the error, mean over tasks
    change : (T,), relative rise of every task's error: negative is better; NaN for tasks that were not judged
    names : of the tasks, as they stand in sentences
    chance : (T,), probability of such a rise by chance, NaN where it is unknown; None if it was not computed
    single : tasks that have an error but no ridge of their own to compare with, as they have a single row
    """

    gain: Gain
    change: Array
    names: Sequence[str]
    chance: Array | None = None
    single: int = 0

    @classmethod
    def of(
        cls,
        errors: Array,
        own: Array,
        names: Sequence[str],
        gain: Gain | None = None,
        chance: Array | None = None,
    ) -> Self | None:
        """From the held-out errors of a model and of a ridge per task, both (T,); None if no task has both."""
        known = np.isfinite(errors) & np.isfinite(own)
        if not known.any():
            return None
        gain = gain or paired_gain(own[known] ** 2, errors[known] ** 2, np.ones(int(known.sum())))
        change = np.where(known, errors / np.maximum(own, TINY) - 1, np.nan)
        change[(own <= TINY) & (errors <= TINY)] = 0.0  # neither is off at all
        return cls(gain, change, names, chance, int((np.isfinite(errors) & ~known).sum()))

    @property
    def effect(self) -> str:
        """One of the five: helps, hurts, makes no clear or next to no difference, is not judged."""
        return effect_of(self.gain)

    @property
    def tasks(self) -> int:
        """How many tasks were judged."""
        return int(np.isfinite(self.change).sum())

    def losers(self, *, clearly: bool) -> list[int]:
        """Tasks whose error is higher by `LOSS` or more than on their own, the largest loss first.

        Those of which it is clear, or those of which it may be chance: few rows make any change large.
        """
        change = np.nan_to_num(self.change, nan=-1.0)
        clear = np.ones(len(change), bool) if self.chance is None else self.chance <= CHANCE
        lost = np.flatnonzero((change >= LOSS) & (clear == clearly))
        return lost[np.argsort(-change[lost], kind="stable")].tolist()

    def for_whom(self) -> str:
        """How many tasks are better off, who loses, and who is not judged."""
        better = int((self.change < 0).sum())
        clear = [self._rise(t) for t in self.losers(clearly=True)]
        unclear = [self._rise(t) for t in self.losers(clearly=False)]
        have = "has" if better == 1 else "have"
        said = f"{better:,} of {counted(self.tasks, 'task')} {have} a lower error than alone"
        if clear:
            said = f"{said}; clearly higher: {listed(clear, 3)}"
        if unclear:
            said = f"{said}; higher by {percent(LOSS)} or more, perhaps by chance: {listed(unclear, 3)}"
        if not clear and not unclear:
            said = f"{said}, and none a clearly higher one"
        return f"{said}.{self._unjudged()}"

    def _rise(self, t: int) -> str:
        """A task and its loss; beyond twice, the own error was small by chance, and the ratio says nothing."""
        size = percent(self.change[t], sign=True) if self.change[t] < 1 else "at least twice"
        return f"{self.names[t]} ({size})"

    def _unjudged(self) -> str:
        if not self.single:
            return ""
        verb = "has no ridge of its own and is" if self.single == 1 else "have no ridge of their own and are"
        return f" {counted(self.single, 'task')} with a single row {verb} not judged."

    def next_step(self) -> str:
        """What to do about it."""
        if self.effect == HELPS:
            lost = len(self.losers(clearly=True))
            who = "task that clearly loses" if lost == 1 else "tasks that clearly lose"
            alone = f" For the {who}, predict with a ridge per task (Independent)." if lost else ""
            return f"What to do: use this model.{alone}"
        if self.effect == HURTS:
            return "What to do: fit a ridge per task (Independent), or let `kinfolk compare` find what is better."
        return (
            "What to do: a ridge per task (Independent) is simpler and predicts as well; the graph may still be read."
        )

    def sentences(self) -> list[str]:
        """The verdict, for whom, and what to do next."""
        first = sharing_sentence(self.gain, self.tasks)
        return [first] if self.effect == UNKNOWN else [first, self.for_whom(), self.next_step()]
