"""Many methods on one table: tuned inside the training rows, judged on rows that they never saw, and a verdict."""

from __future__ import annotations

import signal
import threading
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from html import escape
from time import process_time
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler

from kinfolk.judge.contestants import BOOSTING, TUNED, Contestant, Transformer, contestants
from kinfolk.judge.tuning import errors_of_rows
from kinfolk.judge.verdict import (
    AS_GOOD,
    Verdict,
    as_good,
    chain_sentence,
    constant_targets,
    graph_of,
    graph_versus,
    judged_gains,
    model_verdict,
    sharing_sentence,
)
from kinfolk.methods.model import Model
from kinfolk.methods.ridges import Independent
from kinfolk.methods.search_report import Gain
from kinfolk.progress import Callback, report
from kinfolk.rows.columns import TableRules
from kinfolk.rows.families import FAMILIES, Family
from kinfolk.rows.schema import Columns, ruled
from kinfolk.rows.splits import fold_of_rows, in_order, trains, whole_tasks
from kinfolk.rows.table import Rows
from kinfolk.search.errors import Errors
from kinfolk.words import counted, cut, decimals, html_table, percent

INDEPENDENT = "independent"
MEAN = "task-mean"
SECONDS = 120.0  # of processor time for a method
SECONDS_GRAPH = 900.0  # what the comparison is about gets the time that it needs
FIRST_SEARCH = 50  # simplicity from which a method searches; simpler ones take less than a second
SEARCH_SECONDS = 10.0  # of such a method on 1,000 rows in 5 folds: measured 6 on 160 rows of 8 tasks, 14 on 2,000 of 40
COLUMNS = ("method", "shares", "mean over tasks", "all rows", "gain over own", "CPU time")
WIDTHS = (20, 20, 16, 10)  # of the numbers
BAD_FIT = (ValueError, TypeError, ImportError, ArithmeticError, np.linalg.LinAlgError)


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a method did: its errors, its processor seconds, and why it was not judged, or ""."""

    contestant: Contestant
    errors: Errors | None
    seconds: float
    trouble: str = ""


@dataclass(frozen=True, eq=False)
class Comparison:
    """Held-out errors of many methods on one table, and what to make of them.

    Attributes
    ----------
    outcomes : what every method did
    folds : number of folds
    names : of the tasks, for sentences
    tuned : the model of gamtlcv for all rows, if it was judged: what a fit says of it is said here too
    constant : (T,), tasks whose target never varies
    family : of the targets, whose losses the errors are
    new_tasks : whether whole tasks were held out
    """

    outcomes: Sequence[Outcome]
    folds: int
    names: Sequence[str] = ()
    tuned: Model | None = None
    constant: NDArray[np.bool_] | None = None
    family: Family = FAMILIES["gaussian"]
    new_tasks: bool = False

    @property
    def judged(self) -> dict[str, Errors]:
        """Errors of the methods that finished, the best mean over tasks first."""
        done = {o.contestant.name: o.errors for o in self.outcomes if o.errors is not None}
        return dict(sorted(done.items(), key=lambda item: item[1].tasks()))

    @property
    def _methods(self) -> dict[str, Contestant]:
        return {outcome.contestant.name: outcome.contestant for outcome in self.outcomes}

    @property
    def use(self) -> str | None:
        """The simplest method that surely loses next to nothing to the best."""
        judged = self.judged
        if not judged:
            return None
        best = next(iter(judged))
        level = [name for name in judged if name == best or as_good(self.gain(best, name))]
        return min(level, key=lambda name: self._methods[name].simplicity)

    def gain(self, name: str, over: str) -> Gain:
        """Relative fall of the RMSE, mean over tasks."""
        return self.judged[name].gain_over(self.judged[over])

    def table(self) -> list[dict[str, Any]]:
        """One row per method, best first, then those that were not judged; a list of these makes a data frame."""
        seconds = {outcome.contestant.name: outcome.seconds for outcome in self.outcomes}
        kind = self._kind
        rows = []
        for name, errors in self.judged.items():
            row = {"method": name, "shares": self._methods[name].shares, f"{kind}_tasks": errors.tasks()}
            row |= {f"{kind}_tasks_se": errors.tasks_error(), f"{kind}_pooled": errors.pooled()}
            row |= {f"{kind}_pooled_se": errors.pooled_error(), "seconds": seconds[name]}
            if INDEPENDENT in self.judged and name != INDEPENDENT:
                gain = self.gain(name, INDEPENDENT)
                row |= {"gain_over_own": gain.mean, "gain_over_own_se": gain.standard_error}
            rows.append(row)
        skipped = [outcome for outcome in self.outcomes if outcome.errors is None]
        rows += [{"method": o.contestant.name, "shares": o.contestant.shares, "trouble": o.trouble} for o in skipped]
        return rows

    @property
    def _kind(self) -> str:
        return "rmse" if self.family.is_plain else "loss"

    @property
    def heading(self) -> str:
        """What the table has."""
        return f"held-out {self.family.error} and its standard error over tasks"

    @property
    def verdict(self) -> list[str]:
        """Whether sharing helps here, whether a graph does, which method to use, and which were not judged."""
        skipped = [f"{o.contestant.name}: {o.trouble}; skipped." for o in self.outcomes if o.errors is None]
        if not self.judged:
            return ["No method finished, so there is no verdict.", *skipped]
        if self.new_tasks:
            return [*self._for_new_tasks(), f"Use {self.use}{self._why()}.", *skipped]
        about = [self._sharing(), *self._chain(), *self._graph(), *self._for_whom()]
        return [*about, f"Use {self.use}{self._why()}.", *skipped]

    def _for_new_tasks(self) -> list[str]:
        """How well a task is predicted that nobody has seen."""
        best = next(iter(self.judged))
        sentence = f"A task without any rows is predicted with an error of {self.judged[best].tasks():.3g} by {best}"
        if best == MEAN or MEAN not in self.judged:
            return [f"{sentence}."]
        gain = self.gain(best, MEAN)
        return [
            f"{sentence}: {percent(gain.mean, sign=True)} (standard error {percent(gain.standard_error)}) less than by "
            "the mean of all tasks."
        ]

    def _sharing(self) -> str:
        sharing = [name for name in self.judged if name not in (INDEPENDENT, MEAN)]
        if INDEPENDENT not in self.judged or not sharing:
            return "Whether sharing helps is not known: compare with independent and a method that shares."
        best = sharing[0]
        tasks = int((self.judged[INDEPENDENT].task_rows > 0).sum())
        lines = self._methods[best].lines
        measure = self.family.measure
        return sharing_sentence(self.gain(best, INDEPENDENT), tasks, best, lines=lines, measure=measure)

    @property
    def gains(self) -> dict[str, Gain] | None:
        """What every step from a ridge per task to gamtlcv gains in a fit to all rows; None if that is not known."""
        return None if self.tuned is None else judged_gains(self.tuned)

    def _chain(self) -> list[str]:
        """What the gain of gamtlcv is made of."""
        verdict = None if self.tuned is None else model_verdict(self.tuned)
        if verdict is None or verdict.chain is None:
            return []
        said = chain_sentence(verdict.gain, verdict.chain, verdict.unit, verdict.measure)
        return [f"{TUNED} in its own cross-validation on all rows: {said}"]

    def _for_whom(self) -> list[str]:
        """Who gains and who loses by the advice, if it shares anything."""
        if (
            INDEPENDENT not in self.judged
            or self.use in (None, INDEPENDENT, MEAN)
            or len(self.judged[INDEPENDENT].task_rows) < 2
        ):
            return []
        assert self.use is not None
        errors = self.judged[self.use]
        ridge = self.judged[INDEPENDENT]
        names = self.names or [str(t) for t in range(len(ridge.task_rows))]
        chance = errors.chance_of_rise(ridge)
        verdict = Verdict.of(
            errors.by_task(),
            ridge.by_task(),
            names,
            self.gain(self.use, INDEPENDENT),
            chance=chance,
            constant=self.constant,
            measure=self.family.measure,
        )
        return [] if verdict is None else [f"With {self.use} {verdict.for_whom()}"]

    def _graph(self) -> list[str]:
        """Whether a graph helps, by gamtlcv with and without it, or else by the best methods with and without one."""
        of_tuned = None if self.tuned is None else graph_of(self.tuned)
        if of_tuned is not None:
            return [of_tuned]
        graphs = {name for name, method in self._methods.items() if method.has_graph}
        best_graph = next((name for name in self.judged if name in graphs), None)
        best_other = next((name for name in self.judged if name not in graphs and name != BOOSTING), None)
        if graphs and best_graph is None:
            return ["Whether a graph helps is not known: no method with a graph was judged."]
        if best_graph is None or best_other is None or len(self.judged[best_graph].task_rows) < 2:
            return []
        return [graph_versus(self.gain(best_graph, best_other), best_graph, best_other)]

    def _why(self) -> str:
        best = next(iter(self.judged))
        if self.use != best:
            return f": simpler than {best}, and its error is higher by less than {percent(AS_GOOD)} at most"
        notes = {
            MEAN: ": the features do not help, so no method beats the mean of each task",
            BOOSTING: " (not a method of kinfolk): trees find more than lines do; gamtlcv with trunk=auto has both",
        }
        return notes.get(best, "")

    def lines(self) -> list[str]:
        """The table as text."""
        lines = []
        for method, shares, *cells in self._cells():
            padded = [cell.rjust(width) for cell, width in zip(cells, WIDTHS, strict=False)] if cells[1:] else cells
            lines.append(" ".join([f"{method:14s} {shares:32s}", *padded]))
        return lines

    def _cells(self) -> list[list[str]]:
        """The table, head first: errors with as many decimals as the least needs, or why a method was not judged."""
        judged = self.judged.values()
        places = {"tasks": decimals([e.tasks() for e in judged]), "pooled": decimals([e.pooled() for e in judged])}
        rows = []
        for row in self.table():
            numbers = [row["trouble"]] if "trouble" in row else _numbers(row, places, self._kind)
            rows.append([row["method"], row["shares"], *numbers])
        return [list(COLUMNS), *rows]

    def __repr__(self) -> str:
        return "\n".join([self.heading, "", *self.lines(), "", *self.verdict])

    def _repr_html_(self) -> str:
        sentences = "".join(f"<li>{escape(sentence)}</li>" for sentence in self.verdict)
        return f'<div class="kinfolk"><ul>{sentences}</ul>{html_table(self._cells())}</div>'


def compare(
    X: Any,
    y: Any,
    *,
    task: str | int | None = None,
    family: str = "gaussian",
    exposure: str | None = None,
    offset: str | None = None,
    facts: Any = None,
    methods: Iterable[Any] | None = None,
    groups: Any = None,
    time: Any = None,
    cv: int | str = 5,
    time_limit: float | None = None,
    n_jobs: int | None = None,
    random_state: Any = 0,
    callback: Callback | None = None,
) -> Comparison:
    """Compare methods on your own table, by nested cross-validation.

    Every method is tuned on folds of its training rows and predicts rows that it never saw; all on the same folds.

    Parameters
    ----------
    X, y, task, family, exposure, offset : as for an estimator; of classes and counts errors are log-loss or deviance
    facts : a frame of facts about tasks, joined to X for all methods; columns of X that are constant within every task
        are facts anyway, for the methods that ask for them
    methods : names (see `kinfolk methods`) or estimators with parameters; all by default
    groups : one label per row (sitting, day) that is kept on one side
    time : times of the rows, or the name of a column of X: every fold trains on the past, outside and inside
    cv : folds, outside and inside; or "tasks": whole tasks are held out, to learn how well a new one is predicted
    time_limit : seconds of processor time for a method; by default 120, and 900 for those with a graph
    n_jobs : processes inside a method, whose time does not count
    random_state : draws the folds
    callback : called with a `Progress` after every fold

    Examples
    --------
    >>> x = np.tile(np.arange(10.0), 3)
    >>> X = np.column_stack([np.repeat([0, 1, 2], 10), x])
    >>> found = compare(X, 2 * x + X[:, 0], task=0, methods=["pooled", "task-mean"], cv=3)
    >>> found.use, round(found.table()[1]["rmse_tasks"], 1)
    ('pooled', 6.0)
    """
    targets = {"family": family, "exposure": exposure, "offset": offset}
    methods = None if methods is None else list(methods)
    if any(hasattr(getattr(method, "facts", None), "columns") for method in methods or ()):
        raise ValueError("all methods are compared on the same columns: give the frame as compare(..., facts=frame)")
    if facts is not None and not hasattr(facts, "columns"):
        raise ValueError(f"facts={facts!r}: give a frame of facts about tasks, or set facts of estimators in methods")
    rows = Independent(task=task, facts=facts, **targets).read(X, y)
    rows = replace(rows, schema=replace(rows.schema, known=None))  # joined already, also to the rows held out
    encoder = encoder_of(rows)
    count, kept = whole_tasks(cv, in_order(groups, time, X, len(rows.y)), rows)
    chosen = contestants(methods, encoder, cv=count, random_state=random_state, n_jobs=n_jobs, targets=targets)
    about = {"time_limit": time_limit, "random_state": random_state, "callback": callback, "family": family}
    found = compare_rows(rows, chosen, encoder, cv=count, groups=kept, **about)
    return replace(found, new_tasks=cv == "tasks", tuned=None if cv == "tasks" else found.tuned)


def expected_time(chosen: Sequence[Contestant], rows: int, cv: int, time_limit: float | None = None) -> str:
    """How long a comparison takes, roughly, and at most.

    Examples
    --------
    >>> expected_time([Contestant("gamtlcv", None, simplicity=50), Contestant("pooled", None, simplicity=1)], 1000, 5)
    'roughly 10 s of processor time, longer with many features or tasks; at most 4 minutes'
    """
    searches = sum(one.simplicity >= FIRST_SEARCH for one in chosen)
    seconds = searches * SEARCH_SECONDS * (max(rows, 1) / 1000) ** (1 / 3) * (cv / 5) ** 2
    most = sum(_seconds_for(one, time_limit) for one in chosen)
    rough = in_minutes(min(max(seconds, 1.0), most))
    return f"roughly {rough} of processor time, longer with many features or tasks; at most {in_minutes(most)}"


def in_minutes(seconds: float) -> str:
    """A time to one digit, in seconds or minutes."""
    minutes = seconds / 60
    return (
        f"{float(f'{seconds:.1g}'):.0f} s" if minutes < 1 else counted(max(1, round(float(f"{minutes:.1g}"))), "minute")
    )


def _seconds_for(one: Contestant, time_limit: float | None) -> float:
    return time_limit or (SECONDS_GRAPH if one.has_graph else SECONDS)


def encoder_of(rows: Rows) -> Transformer:
    """What stands between a table and the methods: standard scores, or the rules for columns that are not numbers."""
    rules = ruled(Columns(rows.schema), rows).transformer
    if rules is None:
        return lambda scale: StandardScaler() if scale else None
    return lambda scale: TableRules(scale=scale, kinds=rules.found_kinds)


def compare_rows(
    rows: Rows,
    chosen: Sequence[Contestant],
    transformer: Transformer,
    *,
    cv: int,
    groups: Any = None,
    time_limit: float | None = None,
    random_state: Any = 0,
    callback: Callback | None = None,
    family: str = "gaussian",
) -> Comparison:
    """`compare` for rows that have been read, and contestants that have been chosen."""
    _, features, feature_names = Independent(task=rows.schema.task, features=transformer(True)).fit_columns(rows)
    gram = rows.gram(features, feature_names)
    # Within tasks, whole groups, common where tasks share their inputs.
    fold = fold_of_rows(rows, features, gram, cv=cv, groups=groups, random_state=random_state)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what a method says about one fold is of no use here
        outcomes = list(_race(chosen, rows, fold, groups, time_limit, callback, family))
        tuned = _on_all_rows(outcomes, rows, groups, time_limit)
    names = [cut(str(label)) for label in rows.schema.labels.tolist()]
    return Comparison(outcomes, int(fold.max()) + 1, names, tuned, constant_targets(gram), FAMILIES[family])


def _on_all_rows(outcomes: Sequence[Outcome], rows: Rows, groups: Any, time_limit: float | None) -> Model | None:
    """The model of the method that tells what its gain is made of; None if it was not judged or takes too long."""
    for outcome in outcomes:
        if outcome.contestant.name == TUNED and outcome.errors is not None:
            with suppress(OutOfTime, *BAD_FIT), limited(time_limit or SECONDS_GRAPH):
                return outcome.contestant.fit(rows, groups).model
    return None


def _race(
    chosen: Sequence[Contestant],
    rows: Rows,
    fold: NDArray[np.intp],
    groups: Any,
    time_limit: float | None,
    callback: Callback | None,
    family: str,
) -> Iterator[Outcome]:
    """Let every method predict every fold from the others, within its time."""
    k = int(fold.max()) + 1
    for place, contestant in enumerate(chosen):
        seconds = _seconds_for(contestant, time_limit)
        prediction = np.full(rows.y.shape, np.nan)
        started = process_time()
        done = 0
        trouble = ""
        try:
            with limited(seconds):
                for f in range(k):
                    training = np.flatnonzero(trains(fold, f))
                    fitted = contestant.fit(rows.take(training), None if groups is None else groups[training])
                    prediction[fold == f] = fitted.predict(rows.take(np.flatnonzero(fold == f)))
                    done += 1
                    report(callback, f"comparing ({contestant.name})", place * k + done, len(chosen) * k)
        except OutOfTime:
            trouble = f"{done} of {k} folds within {seconds:g} s of processor time: raise the time limit"
        except BAD_FIT as error:
            needs_more = contestant.needs and rows.codes is not None
            trouble = f"needs {contestant.needs}" if needs_more else in_short(error)
        errors = None if trouble else errors_of_rows(rows, prediction, fold, FAMILIES[family])
        yield Outcome(contestant, errors, process_time() - started, trouble)


class OutOfTime(BaseException):
    """The time of a method is over. Not an Exception: searches that forgive failures must not forgive this."""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise `OutOfTime` inside after so many seconds of processor time, where the system has such alarms."""
    if not hasattr(signal, "ITIMER_PROF") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(*_: Any) -> NoReturn:
        raise OutOfTime

    before = signal.signal(signal.SIGPROF, ring)
    # Again every second, should the first be lost in a callback that swallows it.
    signal.setitimer(signal.ITIMER_PROF, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


def in_short(error: Exception) -> str:
    """The first sentence of an error; of a failed search, that of its first point."""
    text = " ".join(str(error).split()).split("ValueError: ")[-1]
    return text.split(". ")[0][:160]


def _numbers(row: dict[str, Any], places: dict[str, int], measure: str) -> list[str]:
    numbers = []
    for kind, digits in places.items():
        error, off = row[f"{measure}_{kind}"], row[f"{measure}_{kind}_se"]
        numbers.append(_with_error(f"{error:,.{digits}f}", f"{off:,.{digits}f}", off))
    gain = ""
    if "gain_over_own" in row:
        size = percent(row["gain_over_own"], sign=True).removesuffix(" %")
        off = row["gain_over_own_se"]
        gain = _with_error(size, f"{100 * off:.1f}", off) + " %"
    return [*numbers, gain, f"{row['seconds']:.1f} s"]


def _with_error(value: str, off: str, standard_error: float) -> str:
    """A value with its standard error, where that is known: not of one task."""
    return f"{value} ± {off}" if np.isfinite(standard_error) else value
