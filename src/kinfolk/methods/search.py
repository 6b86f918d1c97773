"""The search behind GAMTLCV: candidates on folds, the best mixture of them, and what one mixture gains over another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed

from kinfolk.methods.contenders import SHRUNK, SLOPES, Candidate, fit_candidates, graph_candidate
from kinfolk.methods.stacking import best_mixture, cross_errors, mixture_errors, model_errors
from kinfolk.progress import Callback, report
from kinfolk.rows.folds import Folds
from kinfolk.rows.gram import TINY, Array, GramStats

CAUTION = 2.0  # what a share of a model costs that does not clearly beat random slopes, which need no tuning
CLEARLY = 0.05  # relative difference of held-out errors at which random slopes are the wrong model


class Gain(NamedTuple):
    """Relative reduction of the held-out error by the graph, mean over tasks, and its standard error."""

    mean: float
    standard_error: float


@dataclass(frozen=True, eq=False)
class Mixture:
    """Candidates with their shares, and the held-out squared errors by fold and task."""

    members: list[Candidate]
    shares: Array
    errors: Array

    def fit(self, gram: GramStats) -> tuple[Array, Array]:
        """Coefficients and intercepts on all rows."""
        W, c = fit_candidates(gram, self.members)
        return np.tensordot(self.shares, W, axes=1), np.tensordot(self.shares, c, axes=1)


class Search:
    """Candidates and what they predict for held-out rows, fold by fold."""

    def __init__(self, folds: Folds, n_jobs: int | None, callback: Callback | None) -> None:
        self.folds, self.n_jobs, self.callback = folds, n_jobs, callback
        self.rows = np.maximum(sum(part.n for part in folds.held_out), TINY)
        self.tried: list[Candidate] = []
        self.shared: list[dict[Any, Any]] = [{} for _ in folds.held_out]  # grows unless folds are fitted elsewhere
        self.coef: list[list[Array]] = [[] for _ in folds.held_out]
        self.intercept: list[list[Array]] = [[] for _ in folds.held_out]
        self.squared: list[Array] = []

    def add(self, candidates: list[Candidate]) -> None:
        """Fit candidates on every fold's complement and keep their held-out errors."""
        if not candidates:
            return
        jobs = (
            delayed(fit_candidates)(self.folds.training(f), candidates, shared) for f, shared in enumerate(self.shared)
        )
        errors = np.zeros((len(candidates), len(self.rows)))
        for f, (W, c) in enumerate(Parallel(n_jobs=self.n_jobs, return_as="generator")(jobs)):
            self.coef[f].extend(W)
            self.intercept[f].extend(c)
            errors += model_errors(self.folds.held_out[f], W, c)
            report(self.callback, "cross-validation", f + 1, len(self.folds))
        self.tried.extend(candidates)
        self.squared.extend(np.maximum(errors, 0.0))

    def add_axis_by_axis(self, axes: dict[str, list[Any]]) -> None:
        """Vary one parameter of GAMTL at a time, strength first, then from the last axis to the first."""
        strengths = sorted(axes["strength"])
        middle = len(strengths) // 2
        best = {name: values[0] for name, values in axes.items()} | {"strength": strengths[middle]}
        self.add([graph_candidate(**best)])
        # Tasks that have little in common collapse under a strong pull, slowly: weaker ones come first.
        self._add_while_better("strength", strengths[:middle][::-1])
        if self.best_graph().parameters == best:
            self._add_while_better("strength", strengths[middle + 1 :])
        for name in [name for name in reversed(axes) if name != "strength"]:
            best = self.best_graph().parameters
            self.add([graph_candidate(**{**best, name: value}) for value in axes[name] if value != best[name]])

    def _add_while_better(self, name: str, values: list[Any]) -> None:
        for value in values:
            point = {**self.best_graph().parameters, name: value}
            self.add([graph_candidate(**point)])
            if self.best_graph().parameters != point:
                return

    def score(self, squared: Array) -> float:
        """Mean over tasks of the root mean squared error."""
        seen = self.rows > TINY
        return float(np.sqrt(squared[seen] / self.rows[seen]).mean())

    def error(self, name: str) -> float:
        """Score of a candidate by name."""
        return self.score(self.squared[self._index(name)])

    def candidate(self, name: str) -> Candidate:
        """A candidate by name."""
        return self.tried[self._index(name)]

    def _index(self, name: str) -> int:
        return [c.name for c in self.tried].index(name)

    def limits(self) -> list[int]:
        """Positions of the candidates without a graph."""
        return [k for k, c in enumerate(self.tried) if not c.has_graph]

    def finalists(self, count: int) -> list[int]:
        """Positions of the best graph candidates."""
        graphs = [k for k, c in enumerate(self.tried) if c.has_graph]
        return sorted(graphs, key=lambda k: self.score(self.squared[k]))[:count]

    def best_graph(self) -> Candidate:
        """The graph candidate of least error."""
        return self.tried[self.finalists(1)[0]]

    def best_limit(self) -> int:
        """Position of the candidate of least error without a graph."""
        return min(self.limits(), key=lambda k: self.score(self.squared[k]))

    def favourite(self) -> int:
        """Position of the model that others must beat: random slopes, unless a limit is clearly better."""
        names = [candidate.name for candidate in self.tried]
        usual, best = self._index(SLOPES if SLOPES in names else SHRUNK), self.best_limit()
        is_wrong = self.score(self.squared[best]) < (1 - CLEARLY) * self.score(self.squared[usual])
        return best if is_wrong else usual

    def task_weights(self) -> Array:
        """1 / RMSE of every task under the best limit: the gradient of the mean over tasks of the RMSE."""
        rmse = np.sqrt(self.squared[self.best_limit()] / self.rows)
        floor = 0.05 * float(np.median(rmse[self.rows > TINY]))
        return np.where(self.rows > TINY, 1 / np.maximum(rmse, max(floor, TINY)) / self.rows, 0.0)

    def mixture(self, which: list[int], weight: Array) -> Mixture:
        """The mixture of some candidates with the least weighted held-out error."""
        by_fold = []
        for f, part in enumerate(self.folds.held_out):
            W, c = (np.stack([models[f][k] for k in which]) for models in (self.coef, self.intercept))
            by_fold.append(cross_errors(part, W, c))
        favourite = which.index(self.favourite())
        shares = best_mixture(np.sum(by_fold, axis=0), weight, favourite=favourite, caution=CAUTION)
        kept = shares > 1e-3
        shares = np.where(kept, shares, 0.0) / shares[kept].sum()
        errors = np.stack([mixture_errors(E, shares) for E in by_fold])
        return Mixture([self.tried[k] for k, keep in zip(which, kept, strict=True) if keep], shares[kept], errors)

    def gain(self, before: Mixture, after: Mixture) -> Gain:
        """What the second mixture gains over the first; tasks with the same inputs have the same rows held out."""
        shared = self.folds.total.n_tasks > 1 and self.folds.total.is_shared()
        one, two = (m.errors if shared else m.errors.sum(axis=0) for m in (before, after))
        return paired_gain(one, two, self.rows)

    def table(self) -> list[dict[str, Any]]:
        """One row per candidate."""
        return [
            {
                "name": candidate.name,
                **candidate.parameters,
                "rmse_pooled": float(np.sqrt(squared.sum() / self.rows.sum())),
                "rmse_tasks": self.score(squared),
            }
            for candidate, squared in zip(self.tried, self.squared, strict=True)
        ]


def paired_gain(before: Array, after: Array, rows: Array) -> Gain:
    """Relative fall of the RMSE, mean over tasks, with its standard error over tasks.

    Errors (k, T) by folds that are common to all tasks vary with the fold as well: what all tasks gain or lose in one
    fold counts as one observation then (a variance clustered both ways).
    """
    seen = rows > TINY
    before, after, n = np.atleast_2d(before)[:, seen], np.atleast_2d(after)[:, seen], rows[seen]
    one, two = np.sqrt(before.sum(axis=0) / n), np.sqrt(after.sum(axis=0) / n)
    level = max(float(one.mean()), TINY)
    gain = (one - two) / level
    if len(gain) < 2:
        return Gain(float(gain.mean()), np.inf)
    variance = gain.var(ddof=1) / len(gain)
    if len(before) > 1:
        cells = (before - after) / np.maximum((one + two) * n, TINY) / (level * len(gain))  # they add up to the gain
        variance += max(0.0, len(cells) * float(cells.sum(axis=1).var(ddof=1)) - float(np.square(cells).sum()))
    return Gain(float(gain.mean()), float(np.sqrt(variance)))
