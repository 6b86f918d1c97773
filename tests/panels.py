"""Panels whose future is predicted from the past: seasons, weekdays, hours, holidays, steps, trends, unseen tasks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd


class Panel(NamedTuple):
    """Rows with their task in the column "task", their targets, and the time of every row."""

    table: pd.DataFrame
    y: np.ndarray
    when: np.ndarray
    past: np.ndarray
    future: np.ndarray

    def training(self):
        """Table, targets and times of the past."""
        return self.table[self.past].reset_index(drop=True), self.y[self.past], self.when[self.past]

    def error(self, model):
        """Root mean squared error of the future."""
        return float(np.sqrt(np.mean((model.predict(self.table[self.future]) - self.y[self.future]) ** 2)))


def _waves(rng, time):
    phase = 2 * np.pi * time / rng.choice([4.0, 7.0, 12.0, 24.0, 52.0])
    waves = range(1, 1 + rng.integers(1, 4))
    return {f"{name}{k}": wave(k * phase) for k in waves for name, wave in (("sin", np.sin), ("cos", np.cos))}


def _weekdays(rng, time):
    return {f"day{k}": (time % 7 == k).astype(float) for k in range(1, 7)}


def _hours(rng, time):
    return {"hour": (time % 24).astype(float), "hour2": (time % 24 / 23.0) ** 2}


def _holidays(rng, time):
    return {"holiday": np.isin(time % 20, rng.choice(20, 2, replace=False)).astype(float)}


def _steps(rng, time):
    return {"since": (time >= rng.integers(5, 20)).astype(float), "level_off": np.minimum(time, 20.0)}


def _trends(rng, time):
    return {"log": np.log1p(time), "root": np.sqrt(time), "square": (time / len(time)) ** 2}


KINDS = (_waves, _weekdays, _hours, _holidays, _steps, _trends)


def _inputs(rng, time):
    """One to three kinds of functions of the time, mostly with the time itself, by name."""
    inputs = {}
    for kind in rng.choice(len(KINDS), rng.integers(1, 4), replace=False):
        inputs |= KINDS[kind](rng, time)
    if rng.random() < 0.8:
        inputs["trend"] = time / 10.0
    if rng.random() < 0.3:
        inputs["year"] = 2000.0 + time // 12
    return inputs


def draw_panel(seed):
    """A panel of 8 to 40 tasks over 24 to 60 times and a third as many later ones; shocks may hit all tasks at once."""
    rng = np.random.default_rng(1000 + seed)
    tasks = int(rng.integers(8, 41))
    past = int(rng.integers(24, 61))
    time = np.arange(past + max(8, past // 3))
    inputs = _inputs(rng, time)
    X = np.column_stack(list(inputs.values()))
    slopes = 0.3 * rng.normal(size=X.shape[1]) + 0.1 * rng.normal(size=(tasks, X.shape[1]))
    X_typical = (X - X[:past].mean(axis=0)) / np.maximum(X.std(axis=0), 1e-9)
    shock = rng.choice([0.0, 0.1, 0.3]) * rng.normal(size=len(time))
    noise = rng.choice([0.1, 0.5]) * rng.normal(size=(tasks, len(time)))
    y = rng.normal(size=(tasks, 1)) + slopes @ X_typical.T + shock + noise
    table = pd.DataFrame(np.tile(X, (tasks, 1)), columns=list(inputs))
    table["x"] = rng.normal(size=len(table))
    if rng.random() < 0.3:
        table["constant"] = np.repeat(rng.normal(size=tasks), len(time))  # within tasks
    table["task"] = np.repeat(np.arange(tasks), len(time))
    when = np.tile(time, tasks)
    # Sometimes the first task is seen in the future alone.
    known = (table["task"].to_numpy() > 0) | (rng.random() >= 0.3)
    return Panel(table, y.ravel() + 0.5 * table["x"].to_numpy(), when, (when < past) & known, when >= past)


def draw_season(seed, *, past=36, period=12.0):
    """A panel of 40 tasks with a trend, two waves of a season, and shocks that all tasks share."""
    rng = np.random.default_rng(seed)
    time = np.arange(past + max(12, past // 3))
    phase = 2 * np.pi * time / period
    X = np.column_stack([np.sin(phase), np.cos(phase), np.sin(2 * phase), np.cos(2 * phase), time / period])
    slopes = np.array([0.1, -0.3, 0.05, 0.05, 0.05]) + 0.03 * rng.normal(size=(40, 5))
    y = rng.normal(size=(40, 1)) + slopes @ X.T + 0.1 * rng.normal(size=len(time))
    y = y + 0.1 * rng.normal(size=y.shape)
    table = pd.DataFrame(np.tile(X, (40, 1)), columns=["s1", "c1", "s2", "c2", "trend"])
    table["x"] = rng.normal(size=len(table))
    table["task"] = np.repeat(np.arange(40), len(time))
    when = np.tile(time, 40)
    return Panel(table, y.ravel() + 0.5 * table["x"].to_numpy(), when, when < past, when >= past)
