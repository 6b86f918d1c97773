"""Tables as they come: any size, any label, any scale, gaps, copies and constants; and what a fit may do with them."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
from certificates import broken_promises
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from sklearn.base import is_classifier
from sklearn.exceptions import ConvergenceWarning

from kinfolk.rows.families import FAMILIES

LONG = os.environ.get("KINFOLK_FUZZ") == "1"
SCALES = [1.0] * 4 + [1e-3, 1e3, 1e-8, 1e8, 1e-8, 1e8, 1e-30, 1e30, 1e-35, 1e38, 1e-150, 1e150]
SPREADS = [1.0] * 8 + [1e-6, 1e6, 1e-12, 1e20, 1e-20, 1e100]
LABELS = {
    "integers": lambda T: np.arange(T) * 7 - 3,
    "texts": lambda T: np.array([f"tâsk {t}" for t in range(T)], dtype=object),
    "categories": lambda T: pd.Categorical([f"c{t}" for t in range(T)]),
    "truths": lambda T: np.arange(T) % 2 == 1,
    "dates": lambda T: pd.date_range("2020-01-01", periods=T),
    "whole floats": lambda T: np.arange(T) * 2.0,
    "fractions": lambda T: np.arange(T) + 0.5,
    "mixed": lambda T: np.array([t if t % 2 else str(t) for t in range(T)], dtype=object),
    "missing": lambda T: np.array([None] + [f"t{t}" for t in range(1, T)], dtype=object),
}
SOUND_LABELS = ["integers", "texts", "categories", "truths", "dates", "whole floats"]
KINDS = {
    "two classes": lambda u, rng: np.floor(2 * u),
    "classes": lambda u, rng: np.floor((2 + rng.integers(4)) * u) - 1,
    "binomial": lambda u, rng: np.round(u * [1, 4][rng.integers(2)]) / [1, 4][rng.integers(2)],
    "poisson": lambda u, rng: np.floor([2.0, 30.0, 1e9][rng.integers(3)] * u**3),
    "gamma": lambda u, rng: 10.0 ** (rng.choice([1, 10, -10, 100]) * (u + rng.integers(-1, 2))),
}
SEEN: Counter[str] = Counter()  # how the tables of this run ended


class Outcome(NamedTuple):
    """A fitted model, its predictions, the targets and the table.

    The two are (n,), or (n, T) with NaN where nothing was observed. Of classes the predictions are probabilities.
    """

    model: object
    prediction: np.ndarray
    y: np.ndarray
    table: object


@dataclass(frozen=True)
class Case:
    """A recipe for a table; printed whole when it fails."""

    seed: int
    T: int
    d: int
    rows: int
    labels: str
    x_scale: float
    y_scale: float
    spread: float
    shift: float
    flaws: tuple[str, ...]
    wide: bool
    kind: str = "numbers"

    @property
    def ordinary(self) -> bool:
        """Whether people have such tables: inputs near 1, as after scaling, and targets within a billion."""
        return 1e-4 < self.x_scale < 1e4 and 1e-9 < self.y_scale < 1e9 and self.spread == 1 and self.shift <= 1

    def table(self):
        """X, y and the task column."""
        rng = np.random.default_rng(self.seed)
        sizes = rng.integers(1, self.rows + 1, size=self.T) if "uneven" in self.flaws else np.full(self.T, self.rows)
        sizes[0] = 1 if "one row" in self.flaws else sizes[0]
        code = rng.permutation(np.repeat(np.arange(self.T), sizes))
        X = rng.normal(size=(len(code), self.d)) + self.shift
        W = rng.normal(size=(self.T, self.d))
        with np.errstate(over="ignore"):
            y = np.einsum("nd,nd->n", X, W[code]) + 0.3 * rng.normal(size=len(code))
            X *= self.x_scale * self.spread ** np.linspace(0, 1, self.d)
            y *= self.y_scale
        return self._flawed(X, y, code, rng)

    def _flawed(self, X, y, code, rng):
        if "copied columns" in self.flaws:
            X[:, -1] = X[:, 0]
        if "constant column" in self.flaws:
            X[:, 0] = X[0, 0]
        if "constant target" in self.flaws:
            y[:] = y[0]
        if "zero target" in self.flaws:
            y[:] = 0.0
        if "copied rows" in self.flaws:
            X[:], y[:] = X[0], y[0]
        if "copied tasks" in self.flaws:
            first = np.flatnonzero(code == code[0])
            for t in np.unique(code):
                own = np.flatnonzero(code == t)
                k = min(len(own), len(first))
                X[own[:k]], y[own[:k]] = X[first[:k]], y[first[:k]]
        if "missing x" in self.flaws:
            X[rng.integers(len(X)), rng.integers(self.d)] = np.nan
        if "infinite y" in self.flaws:
            y[rng.integers(len(y))] = np.inf
        if "missing y" in self.flaws:
            y[rng.integers(len(y))] = np.nan
        return X, y, code

    def times(self, n):
        """When the rows were observed, if that is told: few times or many."""
        if "times" not in self.flaws:
            return None
        return np.random.default_rng(self.seed).integers(1 + self.seed % 40, size=n)

    def fit(self, model) -> Outcome:
        """The model fitted on the table, with its predictions."""
        X, y, code = self.table()
        weight = None
        if "zero weights" in self.flaws:
            weight = (np.random.default_rng(self.seed).random(len(y)) < 0.5) * 1.0
        if self.wide:
            Y = np.full((len(y), self.T), np.nan) if "gaps" in self.flaws else np.tile(y[:, None], self.T)
            Y[np.arange(len(y)), code] = y
            if "own columns" in self.flaws:
                Y = Y * np.random.default_rng(self.seed).uniform(0.5, 2.0, size=self.T)
            Y = self.targets(Y)
            Y = Y.ravel() if self.T == 1 and is_classifier(model) else Y  # as its message asks
            model.fit(X, Y, weight, time=self.times(len(X)))
            return Outcome(model, predicted(model, X), counted(Y, weight), X)
        names = LABELS[self.labels](self.T)
        frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(self.d)])
        frame["task"] = names[code]
        task = "task"
        if "two task columns" in self.flaws:
            frame["half"] = np.where(code % 2, "odd", "even")
            task = ["half", "task"]
        if getattr(model, "exposure", None) is not None:
            frame[model.exposure] = 10.0 ** np.random.default_rng(self.seed).uniform(-3, 3, size=len(y))
        y = self.targets(y)
        model.set_params(task=task).fit(frame, y, weight, time=self.times(len(y)))
        return Outcome(model, predicted(model, frame), counted(y, weight), frame)

    def targets(self, y):
        """Numbers as they are; or classes, counts and amounts in the order of these, which noise disturbs or not."""
        if self.kind == "numbers":
            return y
        rng = np.random.default_rng(self.seed)
        seen = np.isfinite(y)
        place = np.searchsorted(np.sort(y[seen]), y[seen]) / max(seen.sum(), 1)
        noise = [0.0, 0.3, 1.0][rng.integers(3)]
        found = y.copy()
        found[seen] = KINDS[self.kind]((1 - noise) * place + noise * rng.random(len(place)), rng)
        return found


def predicted(model, table):
    """Predictions; of classes their probabilities, (n, K) or (n, T, K)."""
    if not hasattr(model, "classes_"):
        return model.predict(table)
    probability = model.predict_proba(table)
    return np.stack(probability, axis=1) if isinstance(probability, list) else probability


def counted(y, weight):
    """Targets without those of weight 0."""
    return y if weight is None else np.where((weight > 0).reshape(-1, *[1] * (y.ndim - 1)), y, np.nan)


FLAWS = (
    *("uneven", "one row", "copied columns", "constant column", "constant target", "zero target", "copied rows"),
    *("copied tasks", "gaps", "own columns", "uneven", "gaps", "own columns", "zero weights"),
    *("times", "two task columns"),
)
FAULTS = ("missing x", "missing y", "infinite y")  # what a fit gets over with a note, and what it cannot
CASES = st.builds(
    Case,
    seed=st.integers(0, 2**20),
    T=st.sampled_from([1, 2, 3, 5, 9, 20, 40]),
    d=st.sampled_from([1, 2, 4, 8]),
    rows=st.sampled_from([1, 2, 3, 6, 15, 6, 15]),
    labels=st.sampled_from(SOUND_LABELS * 4 + list(LABELS)),
    x_scale=st.sampled_from(SCALES),
    y_scale=st.sampled_from(SCALES),
    spread=st.sampled_from(SPREADS),
    shift=st.sampled_from([0.0, 0.0, 1.0, 1e6]),
    flaws=st.lists(st.sampled_from(FLAWS * 4 + FAULTS), max_size=3, unique=True).map(tuple),
    wide=st.sampled_from([False, False, True]),
)


def cases(few: int, many: int):
    """Settings: `few` random cases in the tests, `many` in the long run, always the same few."""
    return settings(
        max_examples=many if LONG else few,
        derandomize=not LONG,
        deadline=None,
        database=None,
        print_blob=False,
        suppress_health_check=list(HealthCheck),
    )


def ends_well(case: Case, model, *, may_warn: bool = True) -> Outcome | None:
    """A finite certified fit with finite predictions, or a ValueError that says what is wrong with the table.

    Of warnings only those for people are allowed: features without effect, and a solver that has not converged, which
    then certifies nothing; the latter never for an ordinary table unless the method `may_warn`.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("error")
        warnings.filterwarnings("always", category=ConvergenceWarning)
        # Rows of weight 0, or without a target, are no training rows, and may lie far from those.
        notes = (
            "feature .* is constant within",
            "left out",
            "missing values are filled in",
            "some rows lie far beyond",
            ".* in place of cv=",
            "(every task has|a fold leaves every task) a single row",
            "column .* names one task",
            "columns? .* follows? from ",
            "the target (has two values|is counts|lies between)",
            "the targets vary .* times as much",
            "all labels are ",
            ".* separates the classes",
            ".* more than .* times as far from the median",
            ".* events? for .* columns?",
            ".* only .*: (its|their) level",
        )
        for note in notes:
            warnings.filterwarnings("ignore", message=note, category=UserWarning)
        try:
            outcome = case.fit(model)
        except ValueError as error:
            assert not isinstance(error, np.linalg.LinAlgError), error
            assert is_clear(str(error)), error
            SEEN["refused with a reason"] += 1
            return None
    for values in (outcome.model.coef_, outcome.model.intercept_, outcome.prediction):
        assert np.isfinite(values).all(), values
    if hasattr(outcome.model, "classes_"):
        assert (outcome.prediction >= 0).all() and np.allclose(outcome.prediction.sum(axis=-1), 1, rtol=0, atol=1e-12)
    else:
        family = FAMILIES[outcome.model.family]
        assert (family.least <= outcome.prediction).all() and (outcome.prediction <= family.most).all(), "out of range"
    if caught:
        SEEN["fitted with a warning"] += 1
        assert may_warn or not case.ordinary, caught[0].message
        return outcome
    SEEN["fitted and certified"] += 1
    broken = broken_promises(outcome, ordinary=case.ordinary)
    assert not broken, broken
    return outcome


NOUNS = (
    "classes",
    "sample_weight",
    "row",
    "task",
    "column",
    "feature",
    "target",
    "y contains",
    "X contains",
    "fold",
    "scale",
    "label",
)
INTERNAL = (
    "broadcast",
    "operands",
    "array must not contain",
    "zero-size",
    "not aligned",
    "leading minor",
    "argmin",
    "argmax",
)


def is_clear(text: str) -> bool:
    """Whether a message speaks of the user's table, not of the inside of a solver."""
    return any(noun in text for noun in NOUNS) and not any(word in text for word in INTERNAL)
