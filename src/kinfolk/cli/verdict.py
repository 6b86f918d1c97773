"""From held-out predictions to a table of errors and two sentences: does sharing help, and which method to use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.cli.nested import Outcome
from kinfolk.methods.search import Gain, paired_gain

Array = NDArray[np.float64]

OWN = "independent"
# From the simplest to explain to the most intricate: among equals the first is advised.
SIMPLEST_FIRST = (
    *("task-mean", "pooled", "independent", "mean-shrunk", "random-slopes", "gamtlcv", "gamtl", "ccmtl", "mtrl"),
    *("mssl", "gfl", "tat", "bmsl", "rbf-gamtl", "lightgbm"),
)
WITH_GRAPH = ("gamtlcv", "gamtl", "rbf-gamtl")
CLEAR = 2.0  # standard errors that make a difference


class Scores:
    """Squared held-out errors summed by task, and what they say about each method and each pair."""

    def __init__(self, outcomes: Sequence[Outcome], y: Array, codes: NDArray[np.intp]) -> None:
        self.rows = np.bincount(codes).astype(float)
        done = [outcome for outcome in outcomes if not outcome.trouble]
        self.squared = {o.name: np.bincount(codes, (o.prediction - y) ** 2) for o in done}
        self.outcomes = list(outcomes)

    def tasks(self, name: str) -> tuple[float, float]:
        """Mean over tasks of the RMSE, and its standard error over tasks."""
        rmse = np.sqrt(self.squared[name] / self.rows)
        return float(rmse.mean()), _standard_error(rmse)

    def pooled(self, name: str) -> tuple[float, float]:
        """RMSE over all rows, and its standard error, tasks being drawn as a whole."""
        total, n, T = self.squared[name].sum(), self.rows.sum(), len(self.rows)
        rmse = float(np.sqrt(total / n))
        excess = self.squared[name] - self.rows * total / n
        spread = np.sqrt(T / (T - 1) * np.square(excess).sum()) / n if T > 1 else np.nan
        return rmse, float(spread / (2 * rmse)) if rmse > 0 else 0.0

    def gain(self, name: str, over: str) -> Gain:
        """Relative fall of the RMSE, mean over tasks."""
        return paired_gain(self.squared[over], self.squared[name], self.rows)

    def ranked(self) -> list[str]:
        """Complete methods, best mean over tasks first."""
        return sorted(self.squared, key=lambda name: self.tasks(name)[0])

    def advised(self) -> str:
        """The simplest method that is not more than one standard error of the difference behind the best."""
        ranked = self.ranked()
        level = [name for name in ranked if name == ranked[0] or _within(self.gain(ranked[0], name), 1.0)]
        return min(level, key=lambda name: (_place(name), ranked.index(name)))

    def table(self) -> list[dict[str, Any]]:
        """One row per method, best first, then those that did not finish."""
        seconds = {outcome.name: outcome.seconds for outcome in self.outcomes}
        rows = []
        for name in self.ranked():
            (pooled, pooled_se), (tasks, tasks_se) = self.pooled(name), self.tasks(name)
            row = {"method": name, "rmse_pooled": pooled, "rmse_pooled_se": pooled_se, "rmse_tasks": tasks}
            row |= {"rmse_tasks_se": tasks_se, "seconds": seconds[name]}
            if OWN in self.squared and name != OWN:
                gain = self.gain(name, OWN)
                row |= {"gain_over_own": gain.mean, "gain_over_own_se": gain.standard_error}
            rows.append(row)
        return rows + [{"method": o.name, "trouble": o.trouble} for o in self.outcomes if o.trouble]


def verdict(scores: Scores) -> list[str]:
    """Whether sharing helps here, whether a graph does, and which method to use."""
    if not scores.squared:
        return ["No method finished: raise --time-limit."]
    use = scores.advised()
    return [_sharing(scores), *_graph(scores), f"Use {use}{_why(scores, use)}."]


def _sharing(scores: Scores) -> str:
    sharing = [name for name in scores.ranked() if name not in (OWN, "task-mean")]
    if OWN not in scores.squared or not sharing:
        return "Whether sharing helps is not known: compare with independent and a method that shares."
    best = sharing[0]
    gain = scores.gain(best, OWN)
    if not np.isfinite(gain.standard_error):
        return "There is one task only: nothing can be shared."
    error, tasks = 100 * gain.standard_error, len(scores.rows)
    size = f"{100 * abs(gain.mean):.1f} % (standard error {error:.1f}, over {tasks:,} tasks)"
    if gain.mean > CLEAR * gain.standard_error:
        return f"Sharing helps here: {best} has a lower error than a ridge per task by {size}."
    if gain.mean < -CLEAR * gain.standard_error:
        return f"Sharing hurts here: even {best} has a higher error than a ridge per task, by {size}."
    way = "lower" if gain.mean >= 0 else "higher"
    return (
        f"Sharing makes no clear difference here: the error of {best} is {way} than that of a ridge per task by {size}."
    )


def _graph(scores: Scores) -> list[str]:
    ranked = scores.ranked()
    graphs = [name for name in ranked if name in WITH_GRAPH]
    others = [name for name in ranked if name not in WITH_GRAPH and name != "lightgbm"]
    if not graphs or not others or len(scores.rows) < 2:
        return []
    gain = scores.gain(graphs[0], others[0])
    size = f"{100 * gain.mean:+.1f} % (standard error {100 * gain.standard_error:.1f})"
    if gain.mean > CLEAR * gain.standard_error:
        return [
            f"A graph adds to it: the gain of {graphs[0]} over {others[0]}, the best linear one without, is {size}."
        ]
    return [f"A graph does not add clearly to it: the gain of {graphs[0]} over {others[0]} is {size}."]


def _why(scores: Scores, use: str) -> str:
    best = scores.ranked()[0]
    if use != best:
        return f": simpler than {best}, and within one standard error of it"
    notes = {
        "task-mean": ": the inputs do not help, so the mean of each task is as good as it gets",
        "lightgbm": " (not a method of kinfolk): trees find more here than linear methods do; rbf-gamtl is nearest",
    }
    return notes.get(use, "")


def _within(gain: Gain, errors: float) -> bool:
    return gain.mean <= errors * gain.standard_error


def _place(name: str) -> int:
    return SIMPLEST_FIRST.index(name) if name in SIMPLEST_FIRST else len(SIMPLEST_FIRST)


def _standard_error(values: Array) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")
