"""Cells are stored whole, found again, and never computed twice."""

import json
import subprocess
import sys
import time

import pytest

from kinfolk.experiments.reproduction import cells as module
from kinfolk.experiments.reproduction.cells import Cell, cells_of, compute_cell, stored, structure_from_dict
from kinfolk.experiments.reproduction.methods import METHODS, Fitted, Method
from kinfolk.experiments.reproduction.runner import compute_missing
from kinfolk.experiments.reproduction.settings import SETTINGS

SETTING = {setting.key: setting for setting in SETTINGS}["syn1-shared"]


def read_cell(cell, folder):
    return stored([cell], folder)[cell.setting.key][cell.method][cell.run]


def without_times(result):
    return {name: value for name, value in result.items() if not name.endswith("_seconds")}


def test_a_stored_cell_reads_back(tmp_path):
    cell = Cell(SETTING, "TAT", 0)
    computed = compute_cell(cell, tmp_path)
    read = read_cell(cell, tmp_path)
    assert read["tasks"] == pytest.approx(computed["tasks"], rel=1e-7)
    assert read["key"] == json.loads(json.dumps(cell.key))
    tree = structure_from_dict(read["structure"], read["tasks_named"])
    assert tree.labels.tolist() == [str(k) for k in range(1, 21)]
    assert tree.to_dict() == {**read["structure"], "labels": tree.labels.tolist()}
    assert tree.levels.shape == (3, 20)


def test_another_version_grid_run_or_setting_is_another_file(tmp_path, monkeypatch):
    paths = {Cell(SETTING, "Independent", 0).path(tmp_path), Cell(SETTING, "Independent", 1).path(tmp_path)}
    paths.add(Cell(SETTINGS[1], "Independent", 0).path(tmp_path))
    monkeypatch.setattr(module, "VERSION", module.VERSION + 1)
    paths.add(Cell(SETTING, "Independent", 0).path(tmp_path))
    monkeypatch.setitem(METHODS["Independent"].settings, "grid", [1.0])
    paths.add(Cell(SETTING, "Independent", 0).path(tmp_path))
    assert len(paths) == 5


def test_a_method_never_sees_a_test_row(tmp_path, monkeypatch):
    seen = []

    def spy(rows, metric, seed):
        seen.append((len(rows.X_test), len(rows.y_test), metric))
        return Fitted(lambda X: 0 * X[:, 0])

    monkeypatch.setitem(METHODS, "spy", Method("spy", spy, {}, {"synthetic": 1.0}))
    result = compute_cell(Cell(SETTING, "spy", 0), tmp_path)
    assert seen == [(0, 0, "tasks")]
    assert sum(result["test_rows"]) == 1600


def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path, few_methods):
    cells = [cell for cell in cells_of(SETTING) if cell.run < 2]

    def stop_at(limit):
        steps = []

        def callback(step):
            steps.append(step)
            assert len(steps) <= limit, "stopped"

        return callback

    with pytest.raises(AssertionError, match="stopped"):
        compute_missing(cells, tmp_path / "a", n_jobs=1, callback=stop_at(4))
    early = {path: path.stat().st_mtime_ns for path in (tmp_path / "a").rglob("*.json")}
    assert 0 < len(early) < len(cells)
    assert compute_missing(cells, tmp_path / "a", n_jobs=1, callback=None) == []
    assert all(path.stat().st_mtime_ns == time for path, time in early.items())
    assert len([p for p in (tmp_path / "a").rglob("*") if p.is_file()]) == len(cells)  # nothing half written
    compute_missing(cells, tmp_path / "b", n_jobs=1, callback=None)
    for cell in cells:
        assert without_times(read_cell(cell, tmp_path / "a")) == without_times(read_cell(cell, tmp_path / "b"))


def test_a_failing_cell_is_told_and_the_others_go_on(tmp_path, monkeypatch, few_methods):
    def broken(rows, metric, seed):
        raise ValueError("no such luck")

    monkeypatch.setitem(METHODS, "broken", Method("broken", broken, {}, {"synthetic": 0.01}))
    cells = [cell for cell in cells_of(SETTING) if cell.run == 0]
    failures = compute_missing(cells, tmp_path, n_jobs=1, callback=None)
    assert failures == [f"{SETTING.title}, broken, run 0: ValueError: no such luck"]
    assert set(stored(cells, tmp_path)[SETTING.key]) == set(few_methods) - {"broken"}


def test_progress_ends_at_its_total(tmp_path, few_methods):
    cells = [cell for cell in cells_of(SETTING) if cell.run == 0]
    steps = []
    compute_missing(cells, tmp_path, n_jobs=1, callback=steps.append)
    assert steps[-1].done == steps[-1].total
    assert [s.done for s in steps] == sorted(s.done for s in steps)


def test_two_processes_store_the_same_numbers(tmp_path, few_methods):
    cells = [Cell(SETTING, "Independent", run) for run in range(3)]
    compute_missing(cells, tmp_path / "two", n_jobs=2, callback=None)
    compute_missing(cells, tmp_path / "one", n_jobs=1, callback=None)
    for cell in cells:
        assert without_times(read_cell(cell, tmp_path / "two")) == without_times(read_cell(cell, tmp_path / "one"))


SLOW_CELLS = """
import os, time
from pathlib import Path
from kinfolk.experiments.reproduction.runner import compute_missing

class SlowCell:
    seconds = 1.0

    def path(self, folder):
        return folder / "none"

    @property
    def setting(self):
        Path({folder!r}, str(os.getpid())).touch()
        time.sleep(100)

compute_missing([SlowCell(), SlowCell()], Path({folder!r}), n_jobs=2, callback=None)
"""


def test_workers_end_with_a_parent_that_was_killed(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW_CELLS.format(folder=str(tmp_path))], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    while len(list(tmp_path.iterdir())) < 2:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.05)
    process.kill()
    process.communicate(timeout=10)  # the pipes close when the last worker has ended


LATE_WORKER = SLOW_CELLS.rpartition("compute_missing(")[0] + "runner._attempt(SlowCell(), Path({folder!r}), {gone})\n"


def test_a_worker_ends_whose_parent_was_killed_before_its_first_cell(tmp_path):
    script = "from kinfolk.experiments.reproduction import runner\n" + LATE_WORKER.format(
        folder=str(tmp_path), gone=2**30
    )
    done = subprocess.run([sys.executable, "-c", script], check=False, timeout=60, capture_output=True)
    assert done.returncode == 1 and done.stderr == b"", done.stderr
