"""What held-out errors say about sharing, in sentences: does it help, whom, by how much, and what to do next.

Every place that gives a verdict (command line, report, comparison, summary) takes it from here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from kinfolk.methods.model import Model
from kinfolk.methods.search_report import Gain, SearchReport
from kinfolk.methods.trunk import BoostedTrees
from kinfolk.rows.gram import Array, GramStats
from kinfolk.search.errors import paired_gain
from kinfolk.search.guard import LEAST_GRAPH_GAIN
from kinfolk.solvers.tolerances import SAME_ERRORS
from kinfolk.words import amount, counted, cut, listed, percent, written

CLEAR = 2.0  # standard errors that make a difference
LOSS = 0.05  # relative rise of a task's error from which it is named
FALSE = 0.05  # expected share of false ones among tasks whose rise is called clear
NOTICEABLE = 0.005  # relative difference of errors that is too small to matter, however clear it is
AS_GOOD = 0.01  # upper end of the loss below which a simpler method is advised
LEAST_GRAPH = 0.05  # of the predictions: with less a graph is a map, whatever it gains
LEAST_SHARE = 0.005  # of the predictions, that a sentence mentions
MOST_FACTS = 4  # sentences about what facts do
WHOLE = 0.1  # gain from which per cents are written without a decimal
GIVEN_AWAY = 0.999  # R2 of held-out rows that measurements do not reach unless an input holds the target
CONSTANT = 1e-12  # of a task's mean: targets that vary less are constant but for rounding

HELPS = "helps"
HURTS = "hurts"
SAME = "makes no clear difference"
SLIGHT = "makes next to no difference"
UNKNOWN = "is not judged"
STEPS = {"curves": "curves", "sharing": "sharing", "graph": "the graph", "trees": "trees"}  # of a chain, in words

BOOSTED = "boosted trees"  # the first of the sources of predictions
GIVEN = "predictions of the given regressor"
ALONG_GRAPH = "kin along the graph"

ONE_TASK = "There is one task only: nothing can be shared."
TOO_LARGE = "Curves were not tried: the table is too large for them."
NO_TREES = "Boosted trees were not tried: trunk='auto' judges them."
NO_ROWS = "Boosted trees were not tried: they are fitted to rows, and this model to statistics alone."


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


def sharing_sentence(
    gain: Gain, tasks: int, method: str = "this model", *, lines: bool = True, measure: str = "error"
) -> str:
    """Whether a method beats a ridge per task; if it has straight `lines`, that is by sharing.

    Examples
    --------
    >>> print(sharing_sentence(Gain(-0.2, 0.05), 12, "pooled"))
    Sharing hurts: the held-out error of pooled is higher than that of a ridge per task, by 20.0 % (standard error \
5.0), mean over 12 tasks.
    >>> print(sharing_sentence(Gain(0.2, 0.05), 12, "lightgbm", lines=False))
    The held-out error of lightgbm is lower than that of a ridge per task, by 20.0 % (standard error 5.0), mean over \
12 tasks.
    """
    effect = effect_of(gain)
    if effect == UNKNOWN:
        return ONE_TASK
    start = f"Sharing {effect}: the" if lines else "The"
    over = f"mean over {counted(tasks, 'task')}"
    if abs(gain.mean) < SAME_ERRORS:
        return f"{start} held-out {measure} of {method} is that of a ridge per task, {over}."
    way = "lower" if gain.mean >= 0 else "higher"
    size = amount(gain.mean, gain.standard_error)
    unclear = " That is no clear difference." if not lines and effect == SAME else ""
    return f"{start} held-out {measure} of {method} is {way} than that of a ridge per task, by {size}, {over}.{unclear}"


def most_lost(gain: Gain) -> float:
    """The upper end of what is lost by doing without a gain."""
    return gain.mean + CLEAR * gain.standard_error


def as_good(gain: Gain) -> bool:
    """Whether doing without a gain loses next to nothing at most: what is not clear may still be large.

    Examples
    --------
    >>> as_good(Gain(0.002, 0.001)), as_good(Gain(0.002, 0.02))
    (True, False)
    """
    return most_lost(gain) < AS_GOOD


def chain_sentence(gain: Gain, chain: Mapping[str, Gain], unit: str = "task", measure: str = "error") -> str:
    """What a model gains over a straight-line ridge per task, and what every step on the way to it gives.

    Examples
    --------
    >>> chain = {"curves": Gain(0.57, 0.02), "sharing": Gain(0.003, 0.01), "graph": Gain(0.0, 0.0)}
    >>> chain_sentence(Gain(0.573, 0.02), chain, "airport")
    '57 % less error than a straight-line ridge per airport: curves give 57, sharing 0, the graph 0.'
    >>> chain_sentence(Gain(-0.012, 0.01), {"sharing": Gain(-0.012, 0.01), "graph": Gain(0.0, 0.0)})
    '1.2 % more error than a straight-line ridge per task: sharing gives -1.2, the graph 0.0.'

    Whole numbers that do not add up get a decimal.

    >>> chain_sentence(Gain(0.115, 0.01), {"sharing": Gain(0.024, 0.01), "graph": Gain(0.091, 0.01)})
    '11.5 % less error than a straight-line ridge per task: sharing gives 2.4, the graph 9.1.'
    """
    adds_up = round(100 * gain.mean) == sum(round(100 * step.mean) for step in chain.values())
    places = 0 if abs(gain.mean) >= WHOLE and adds_up else 1
    sizes = [_hundredths(step.mean, places) for step in chain.values()]
    verbs = [" give" if next(iter(chain)) == "curves" else " gives", *[""] * len(chain)]
    parts = ", ".join(f"{STEPS[name]}{verb} {size}" for name, verb, size in zip(chain, verbs, sizes, strict=False))
    whole = _hundredths(abs(gain.mean), places)
    way = "less" if gain.mean > 0 else "more"
    how = f"The same {measure} as" if float(whole) == 0 else f"{whole} % {way} {measure} than"
    return f"{how} a straight-line ridge per {unit}: {parts}."


def _hundredths(share: float, places: int) -> str:
    return f"{round(100 * share, places) + 0.0:.{places}f}"  # plus zero: minus zero becomes zero


def chain_errors(gain: Gain, chain: Mapping[str, Gain], tasks: int) -> str:
    """The standard errors of a chain, and whether the whole of it is clear.

    Examples
    --------
    >>> chain_errors(Gain(0.05, 0.03), {"curves": Gain(0.0, 0.0), "sharing": Gain(0.05, 0.03)}, 12)
    'Mean over 12 tasks; standard errors: in all 3.0 and sharing 3.0. That is no clear difference.'
    """
    errors = {"in all": gain} | {STEPS[name]: step for name, step in chain.items()}
    written = {name: f"{100 * step.standard_error:.1f}" for name, step in errors.items()}
    parts = listed([f"{name} {size}" for name, size in written.items() if size not in ("0.0", "inf")])
    unclear = " That is no clear difference." if effect_of(gain) == SAME else ""
    return f"Mean over {counted(tasks, 'task')}; standard errors: {parts or 'below 0.1'}.{unclear}"


def graph_helps(gain: Gain, share: float) -> bool:
    """Whether a graph with a share in the predictions lowers the error enough to say that it helps."""
    return gain.mean >= NOTICEABLE and share >= LEAST_GRAPH


def graph_sentence(gain: Gain, share: float | None, measure: str = "error") -> str:
    """What the graph of a tuned model does: it has a share in its predictions, or is a map to be read.

    `gain` is what it gives to the predictions, or if it takes no part in them (None) what it would give.

    Examples
    --------
    >>> graph_sentence(Gain(-0.003, 0.004), None)
    'The graph is a map only: with it the held-out error would be higher by 0.3 % (standard error 0.4), so predictions \
do without it.'
    >>> graph_sentence(Gain(0.03, 0.01), 0.42), graph_sentence(Gain(0.03, 0.01), 0.02)
    ('The graph helps: 42 % of the predictions come along it.', 'The graph makes next to no difference: 2 % of the \
predictions come along it. Read it as a map.')
    """
    if share is None:
        return f"The graph is a map only: {without_gain(gain, measure=measure)} so predictions do without it."
    size = f"{100 * share:.0f} %" if share >= 0.005 else "less than 1 %"
    along = f"{size} of the predictions come along it."
    return (
        f"The graph {HELPS}: {along}" if graph_helps(gain, share) else f"The graph {SLIGHT}: {along} Read it as a map."
    )


def graph_versus(gain: Gain, graph: str, other: str) -> str:
    """Whether the best method with a graph gains over the best one without.

    Examples
    --------
    >>> graph_versus(Gain(0.0, 0.0), "gamtl", "pooled")
    'A graph does not add to it: gamtl has the error of pooled.'
    """
    if abs(gain.mean) < SAME_ERRORS:
        return f"A graph does not add to it: {graph} has the error of {other}."
    size = amount(gain.mean, gain.standard_error)
    if effect_of(gain) == HELPS:
        return f"A graph adds to it: {graph} lowers the error of {other}, the best without, by {size}."
    way = "lower" if gain.mean >= 0 else "higher"
    return f"A graph does not add clearly to it: {graph} has a {way} error than {other}, by {size}."


def curves_sentence(mixture: Iterable[str], along: str | None) -> str:
    """Which curves take part: of the features, or a walk along an input.

    Examples
    --------
    >>> curves_sentence(["walk, random slopes", "random slopes"], "year")
    "The curves are levels that wander along 'year'."
    """
    kinds = {name.partition(",")[0] for name in mixture}
    parts = ["splines of the features"] if "curves" in kinds or "walk" not in kinds else []
    parts += [f"levels that wander along {along!r}"] if "walk" in kinds else []
    return f"The curves are {listed(parts)}."


def without_gain(gain: Gain, pronoun: str = "it", measure: str = "error") -> str:
    """Why something is left out of a model.

    Examples
    --------
    >>> without_gain(Gain(0.008, 0.004))
    'with it the held-out error would be lower by 0.8 % (standard error 0.4), which is not clear enough,'
    >>> without_gain(Gain(0.0003, 0.0001))
    'with it the held-out error would be lower by less than 0.1 %, which nobody would notice,'
    """
    start = f"with {pronoun} the held-out {measure} would be"
    if abs(gain.mean) < SAME_ERRORS:
        return f"{start} the same,"
    size = amount(gain.mean, gain.standard_error)
    if gain.mean >= 0:
        why = "is not clear enough" if gain.mean >= LEAST_GRAPH_GAIN else "nobody would notice"
        return f"{start} lower by {size}, which {why},"
    return f"{start} higher by {size},"


@dataclass(frozen=True, eq=False)
class Verdict:
    """What a model does to every task, against a straight-line ridge per task on the same held-out rows.

    Attributes
    ----------
    gain : relative fall of the error, mean over tasks
    errors, ridge : (T,), of the model and of the ridge per task, in units of the target; NaN where one is not known
    names : of the tasks, as they stand in sentences
    chance : (T,), probability of such a rise by chance, NaN where it is unknown
    constant : (T,), tasks whose target never varies: they are named, not judged
    chain : what every step from the ridge to the model gains, if that is known
    unit : what a task is, in a word: the name of the task column
    lines : whether the model is one of straight lines, so that all of the gain is that of sharing
    untried : a sentence about what was not tried
    measure : what an error is, in a word
    """

    gain: Gain
    errors: Array
    ridge: Array
    names: Sequence[str]
    chance: Array
    constant: NDArray[np.bool_]
    chain: Mapping[str, Gain] | None = None
    unit: str = "task"
    lines: bool = True
    untried: str = ""
    measure: str = "error"

    @classmethod
    def of(
        cls,
        errors: Array,
        ridge: Array,
        names: Sequence[str],
        gain: Gain | None = None,
        *,
        chance: Array | None = None,
        constant: NDArray[np.bool_] | None = None,
        **about: Any,
    ) -> Self | None:
        """From the held-out errors of a model and of a ridge per task, both (T,); None if no task has both."""
        judged = np.isfinite(errors) & np.isfinite(ridge)
        if not judged.any():
            return None
        gain = gain or paired_gain(ridge[judged] ** 2, errors[judged] ** 2, np.ones(int(judged.sum())))
        chance = np.full(len(errors), np.nan) if chance is None else chance
        constant = np.zeros(len(errors), bool) if constant is None else constant
        return cls(gain, errors, ridge, names, chance, constant, **about)

    @property
    def effect(self) -> str:
        """One of the five: helps, hurts, makes no clear or next to no difference, is not judged."""
        return effect_of(self.gain)

    @property
    def judged(self) -> NDArray[np.bool_]:
        """Tasks (T,) with both errors."""
        return np.isfinite(self.errors) & np.isfinite(self.ridge)

    @property
    def tasks(self) -> int:
        """How many tasks were judged."""
        return int(self.judged.sum())

    @property
    def varying(self) -> NDArray[np.bool_]:
        """Tasks (T,) that were judged and whose target varies."""
        return self.judged & ~self.constant

    @property
    def rise(self) -> Array:
        """How far (T,) the error of every task lies above that of its own ridge; 0 for others."""
        return np.where(self.varying, np.nan_to_num(self.errors) - np.nan_to_num(self.ridge), 0.0)

    def losers(self, *, clearly: bool) -> list[int]:
        """Tasks whose error is higher by `LOSS` or more than on their own, the largest loss first.

        Those of which it is clear among all that were tested (Benjamini and Hochberg), or those of which it may be
        chance: few rows make any change large, and of many tasks some lose by chance. Of those called clear one in
        twenty at most is expected to be wrong.
        """
        tested = self.varying & np.isfinite(self.chance)
        clear = np.zeros(len(tested), bool)
        if tested.any():
            clear[tested] = stats.false_discovery_control(self.chance[tested]) <= FALSE
        large = (self.rise > 0) & (self.rise >= LOSS * np.nan_to_num(self.ridge))
        lost = np.flatnonzero(large & (clear == clearly))
        return lost[np.argsort(-self.rise[lost], kind="stable")].tolist()

    def for_whom(self) -> str:
        """How many tasks are better off, who loses, and who is not judged: every task is in one of these."""
        better = int((self.rise < 0).sum())
        worse = int((self.rise > 0).sum())
        total = int(self.varying.sum())
        if not total:
            return " ".join(self._not_judged())
        same = total - better - worse
        clear, unclear = (listed([self._rise(t) for t in self.losers(clearly=c)], 3) for c in (True, False))
        have, whose = ("has", "its") if better == 1 else ("have", "their")
        parts = [
            f"{better:,} of {counted(total, 'task')} {have} a lower {self.measure} than with a ridge of {whose} own"
        ]
        parts += [f", {same:,} the same"] if same else []
        parts += [f", {worse:,} a higher one"] if worse else []
        parts += [", none of them clearly"] if worse and not clear and not unclear else []
        parts += [f"; clearly: {clear}"] if clear else []
        parts += [f"; by {percent(LOSS)} or more, perhaps by chance: {unclear}"] if unclear else []
        return " ".join([f"{''.join(parts)}.", *self._not_judged()])

    def _rise(self, t: int) -> str:
        """A task and its two errors, in units of the target."""
        return f"{self.names[t]} ({written(float(self.errors[t]))} instead of {written(float(self.ridge[t]))})"

    def _not_judged(self) -> list[str]:
        """Tasks that are in no count: without variation, with a single row, without rows that were held out."""
        held_out = np.isfinite(self.errors)
        single = int((held_out & ~np.isfinite(self.ridge) & ~self.constant).sum())
        unseen = int((~held_out & ~self.constant).sum())
        constant = [self.names[t] for t in np.flatnonzero(self.constant).tolist()]
        sentences = []
        if constant:
            who = f"{counted(len(constant), 'task')} {'has' if len(constant) == 1 else 'have'}"
            sentences.append(f"{who} a target that never varies: {listed(constant, 3)}.")
        if single:
            without = "has no ridge of its own and is" if single == 1 else "have no ridge of their own and are"
            sentences.append(f"{counted(single, 'task')} with a single row {without} not judged.")
        if unseen:
            are = "is" if unseen == 1 else "are"
            sentences.append(f"{counted(unseen, 'task')} without held-out rows {are} not judged.")
        return sentences

    def next_step(self) -> str:
        """What to do about it, and what else there is to try."""
        return " ".join([f"What to do: {self._advice()}", *([self.untried] if self.untried else [])])

    def _advice(self) -> str:
        if self.effect == HELPS:
            lost = len(self.losers(clearly=True))
            who = "task that clearly loses" if lost == 1 else "tasks that clearly lose"
            return "use this model." + (f" For the {who}, predict with a ridge per task (Independent)." if lost else "")
        if self.effect == HURTS:
            return "fit a ridge per task (Independent), or let `kinfolk compare` find what is better."
        if as_good(self.gain):
            return f"a ridge per task (Independent) is simpler and loses less than {percent(AS_GOOD)} at most."
        most = percent(most_lost(self.gain))
        return f"keeping this model is safe; a ridge per task (Independent) may have up to {most} more {self.measure}."

    def sentences(self, remarks: Sequence[str] = ()) -> list[str]:
        """What is gained and how sure that is, for whom, remarks about parts of the model, and what to do next."""
        if self.chain is None:
            first = [sharing_sentence(self.gain, self.tasks, lines=self.lines, measure=self.measure)]
        else:
            errors = ONE_TASK if self.effect == UNKNOWN else chain_errors(self.gain, self.chain, self.tasks)
            first = [chain_sentence(self.gain, self.chain, self.unit, self.measure), errors]
        if self.effect == UNKNOWN:
            return [*first, *remarks]
        return [*first, self.for_whom(), *remarks, self.next_step()]


def model_verdict(model: Model, names: Sequence[str] | None = None, unit: str | None = None) -> Verdict | None:
    """The verdict by the held-out errors that a model brings along; None if it brings none."""
    ridge = None if model.report is None else model.report.versus_ridge
    if model.held_out is None or ridge is None:
        return None
    return Verdict.of(
        model.held_out.errors,
        ridge.errors,
        names or _names(model),
        ridge.gain,
        chance=ridge.chance,
        chain=judged_gains(model),
        unit=unit or task_word(model),
        lines=has_lines_only(model),
        constant=constant_tasks(model),
        untried=_untried(model),
        measure=model.target.measure,
    )


def _untried(model: Model) -> str:
    """A sentence about boosted trees, if they were not tried."""
    if model.report is not None and model.report.trees is not None:
        return ""
    return NO_ROWS if model.parameter("trunk") == "auto" else NO_TREES


def verdict_of(model: Model, names: Sequence[str] | None = None, verdict: Verdict | None = None) -> list[str]:
    """What held-out errors say about a model and its parts: those given, or those that the model brings along."""
    verdict = verdict or model_verdict(model, names)
    remarks = _remarks(model)
    return remarks if verdict is None else verdict.sentences(remarks)


def _names(model: Model) -> list[str]:
    return [cut(str(label)) for label in model.labels.tolist()]


def task_word(model: Model) -> str:
    """What a task is, in a word: the name of the task column."""
    task = None if model.columns is None else model.columns.task
    return cut(task) if isinstance(task, str) and task.strip() else "task"


def has_lines_only(model: Model) -> bool:
    """Whether the predictions are straight lines, without curves or trees."""
    return model.trunk is None and (model.columns is None or model.columns.basis is None)


def constant_targets(gram: GramStats | None) -> NDArray[np.bool_] | None:
    """Tasks (T,) whose target never varies in several rows; None if the rows are not known."""
    if gram is None:
        return None
    deviation = np.sqrt(np.maximum(gram.yy, 0.0) / np.maximum(gram.n, 1.0))
    return (gram.n > 1) & (deviation <= CONSTANT * np.abs(gram.y_mean))


def constant_tasks(model: Model) -> NDArray[np.bool_] | None:
    """The same of a model; of classes and counts, tasks whose targets are all at one end of their range."""
    family = model.target
    if family.is_plain or model.gram is None:
        return constant_targets(model.gram)
    means = model.target_means
    return (model.rows > 1) & ((means == family.least) | (means == family.most))


def judged_gains(model: Model) -> dict[str, Gain] | None:
    """The chain of gains without steps that were not tried; None for methods that have no chain."""
    report = model.report
    if report is None or report.gains is None:
        return None
    untried = {"curves": report.curves is None, "trees": report.trees is None}
    return {name: gain for name, gain in report.gains.items() if not untried.get(name, False)}


def _remarks(model: Model) -> list[str]:
    """Sentences about the parts of a model: graph, curves, trees, time."""
    sentences = [] if model.report is None else _remarks_of_search(model, model.report)
    if model.parameter("cv") == "tasks" and model.held_out is not None:
        error = float(np.nanmean(model.held_out.errors))
        sentences.insert(0, f"A {task_word(model)} without any rows is predicted with an error of {error:.3g}.")
    sentences += facts_sentences(model)
    explained = explained_share(model)
    if explained > GIVEN_AWAY:
        sentences.append(f"The inputs give the target away (R2 {explained:.5f}): is one of them made from it?")
    return sentences


def facts_sentences(model: Model) -> list[str]:
    """What facts about tasks do to levels and slopes, with standard errors; the clearest first.

    Levels are those at the mean of all inputs.
    """
    facts = model.facts
    if facts is None:
        return []
    names = model.feature_names
    fact_names = [names[j] for j in facts.columns]
    if not facts.levels.any() and not facts.move_slopes:
        return [f"Facts about a {task_word(model)} ({listed(fact_names)}) explain neither levels nor slopes."]
    effects = np.column_stack([facts.levels, facts.slopes])
    errors = np.column_stack([facts.errors[:, -1], facts.errors[:, :-1]])
    clear = np.divide(np.abs(effects), errors, out=np.zeros_like(effects), where=errors > 0)
    places = np.argsort(-clear, axis=None, kind="stable")[: np.count_nonzero(clear >= CLEAR)][:MOST_FACTS]
    sentences = []
    for k, j in zip(*np.unravel_index(places, clear.shape), strict=True):
        effect, error = effects[k, j], errors[k, j]
        does = "raises" if effect > 0 else "lowers"
        what = f"the slope of {names[j - 1]}" if j else "the level"
        sentences.append(f"Each unit of {fact_names[k]} {does} {what} by {abs(effect):.2g} ({error:.1g}).")
    return sentences


def _remarks_of_search(model: Model, report: SearchReport) -> list[str]:
    sentences = []
    graph = graph_of(model)
    if graph is not None:
        sentences.append(graph)
    splines = None if report.curves is None else report.curves.splines
    if splines is not None:
        along = None if splines.walk is None else model.feature_names[model.curve_terms + splines.walk]
        sentences.append(curves_sentence(report.mixture, along))
    if report.too_large_for_curves:
        sentences.append(TOO_LARGE)
    time = report.time_column
    if time is not None:
        sentence = f"Rows of a task follow each other by {time!r}: to predict later ones, fit with time={time!r} "
        sentences.append(f"{sentence}(--time), so that folds are judged by what follows.")
    if report.trees is not None and np.isfinite(report.trees.gain.standard_error):
        sentences.append(trees_sentence(report.trees.gain, model))
    return sentences


def explained_share(model: Model) -> float:
    """R2 of held-out predictions within tasks: levels that differ between tasks count for nothing; NaN if unknown."""
    if model.held_out is None or model.gram is None or not model.target.is_plain:
        return np.nan
    errors = model.held_out.errors
    judged = ~np.isnan(errors)
    squares = float(model.gram.yy[judged].sum())
    return 1 - float(model.gram.n[judged] @ errors[judged] ** 2) / squares if squares > 0 else np.nan


def graph_of(model: Model) -> str | None:
    """What the graph of a tuned model does, in a sentence; None if that was not judged."""
    report = model.report
    if report is None or not np.isfinite(report.graph_gain.standard_error):
        return None
    share = composition(model)[ALONG_GRAPH] if report.graph_helps else None
    return graph_sentence(report.graph_gain, share, model.target.measure)


def is_map(model: Model) -> bool:
    """Whether the graph of a tuned model is there to be read alone: it takes no part that anybody would notice."""
    report = model.report
    if report is None:
        return False
    return not (report.graph_helps and graph_helps(report.graph_gain, composition(model)[ALONG_GRAPH]))


def trees_sentence(gain: Gain, model: Model) -> str:
    """How much of the predictions comes from boosted trees, or a given regressor, and why there is none of it."""
    if model.trunk is None:
        why = without_gain(gain, "them", model.target.measure)
        return f"Boosted trees are left out: {why} so predictions do without them."
    shares = composition(model)
    parts = listed([f"{100 * share:.0f} % {source}" for source, share in shares.items() if share >= LEAST_SHARE])
    does = "help" if gain.mean >= NOTICEABLE else "make next to no difference"
    return f"{trees_word(model).capitalize()} {does}: predictions are {parts}."


def trees_word(model: Model) -> str:
    """What stands beside the lines, in words: boosted trees, or the regressor that was given."""
    return BOOSTED if model.trunk is None or isinstance(model.trunk.regressor, BoostedTrees) else GIVEN


def composition(model: Model) -> dict[str, float]:
    """Shares of the predictions by source, mean over tasks: trees, along the graph, common to all tasks, own data."""
    trees = np.zeros(int(model.seen.sum())) if model.trunk is None else model.trunk.shares[model.seen]
    shares = {trees_word(model): float(trees.mean()), ALONG_GRAPH: 0.0, "common to all tasks": 0.0, "own data": 0.0}
    for part in model.parts:
        shares[part.coupling.source] += float(np.mean((1 - trees) * part.shares))
    return shares
