"""What a fit says of itself, against fresh rows: `python tests/fuzz/verdicts.py [count]`, see `campaign`.

Every case is a table of tasks with slopes, curves, groups, steps or nothing in common. The outcome of a case says
whether "helps", "hurts" or "no clear difference" is true on fresh rows of the same tasks, and how many links of the
chain of gains lie there within their stated intervals of 90 %. An interval that is right nine times in ten misses some.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler

sys.path.insert(0, str(Path(__file__).parent))

import campaign

from kinfolk import GAMTLCV
from kinfolk.baselines import Independent
from kinfolk.judge.verdict import HELPS, HURTS, effect_of
from kinfolk.methods.search_report import Gain
from kinfolk.search import curves
from kinfolk.search.errors import Errors

FRESH = 100  # rows of every task
WIDE = 1.645  # standard errors of an interval of 90 %
NOTHING = 0.01  # relative difference of errors that no sentence claims to see


def one(rng: np.random.Generator) -> str:
    """Draw a world, fit rows of it, and compare what is said with fresh rows."""
    world = World(rng)
    X, y, codes = world.rows(int(rng.integers(12, 60)))
    said, true = chain_and_truth(X, y, codes, *world.rows(FRESH))
    inside = [_covers(said[name], true[name]) for name in said if name != "in all"]
    verdict = effect_of(said["in all"])
    right = "right" if _is_true(verdict, said["in all"], true["in all"]) else "wrong"
    return f"{verdict}: {right}, {sum(inside)} of {len(inside)} links inside"


class World:
    """Tasks with a level each, and slopes, curves or steps that are their own, common, or those of a group."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.T = int(rng.integers(8, 25))
        self.d = int(rng.integers(2, 6))
        self.level = 2 * rng.normal(size=self.T)
        self.common = rng.normal(size=self.d)
        group = rng.integers(0, 3, self.T)
        self.slopes = rng.choice([0.0, 0.3, 1.0]) * rng.normal(size=(self.T, self.d))
        self.slopes += rng.choice([0.0, 1.0]) * rng.normal(size=(3, self.d))[group]
        self.bend = rng.choice([0.0, 0.0, 1.0, 2.0]) * (1 + rng.choice([0.0, 1.0]) * rng.normal(size=self.T))
        self.step = rng.choice([0.0, 0.0, 2.0])
        self.noise = rng.choice([0.3, 1.0, 2.0])

    def rows(self, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """So many new rows of every task: inputs, targets and the number of the task."""
        codes = np.repeat(np.arange(self.T), n)
        X = self.rng.uniform(-2, 2, size=(len(codes), self.d))
        y = self.level[codes] + X @ self.common + np.einsum("nd,nd->n", X, self.slopes[codes])
        y += self.bend[codes] * np.cos(2 * X[:, 0]) + self.step * ((X[:, 0] > 0) ^ (X[:, 1] > 0))
        return X, y + self.noise * self.rng.normal(size=len(y)), codes


def chain_and_truth(X, y, codes, X_new, y_new, new_codes) -> tuple[dict[str, Gain], dict[str, Gain]]:
    """The gains that a fit states, and those on fresh rows: in all, of curves, of sharing with a graph, of trees."""
    table, new = np.column_stack([codes, X]), np.column_stack([new_codes, X_new])
    with ridge_with_curves() as ridges:
        model = GAMTLCV(task=0).fit(table, y)
    record = model.model_
    features = record.columns.in_basis(X_new)
    straight = Independent(task=0, penalty="cv", features=StandardScaler()).fit(table, y).predict(new)
    bent = ridges[-1].predict(features, new_codes) if model.nonlinear_helps_ else straight
    shared = replace(record, trunk=None).predict(features, new_codes)
    steps = {"curves": bent, "sharing": shared, "trees": record.predict(features, new_codes)}
    T = int(codes.max()) + 1
    start, *errors = (Errors.of_predictions(y_new, p, new_codes, T) for p in (straight, *steps.values()))
    before = [start, *errors]
    gains = [two.gain_over(one, level=start.tasks()) for one, two in pairwise(before)]
    true = dict(zip(steps, gains, strict=True)) | {"in all": errors[-1].gain_over(start)}
    stated = model.gains_
    together = Gain(stated["sharing"].mean + stated["graph"].mean, np.hypot(stated["sharing"][1], stated["graph"][1]))
    said = {"in all": model.own_gain_, "curves": stated["curves"], "sharing": together, "trees": stated["trees"]}
    return {name: gain for name, gain in said.items() if gain != (0.0, 0.0)}, true


@contextmanager
def ridge_with_curves() -> Iterator[list[Any]]:
    """The ridges per task with curves that fits compare themselves with, fitted to all rows."""
    found: list[Any] = []

    def noted(folds, *columns):
        member = own_curves(folds, *columns)
        found.append(member.method.learn(folds.total))
        return member

    own_curves = curves._own_curves
    curves._own_curves = noted
    try:
        yield found
    finally:
        curves._own_curves = own_curves


def _covers(said: Gain, true: Gain) -> bool:
    width = WIDE * np.hypot(said.standard_error, true.standard_error)
    return bool(abs(said.mean - true.mean) <= max(width, NOTHING))


def _is_true(verdict: str, said: Gain, true: Gain) -> bool:
    if verdict in (HELPS, HURTS):
        return bool(true.mean > 0) is (verdict == HELPS)
    return bool(abs(true.mean) <= NOTHING) or _covers(said, true)


if __name__ == "__main__":
    sys.exit(campaign.main("verdicts", one, count=500))
