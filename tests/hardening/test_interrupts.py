"""Ctrl-C and kill -9 in the middle of a command: nothing half-written, one line, and the next run goes on."""

import csv
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "cli"))

from tables_for_tests import COMMAND, ONE_THREAD, kinfolk, shops, write

from kinfolk import load
from kinfolk.cli import main

# What the installed command finds when it starts: three cheap methods, one setting.
SMALL = """
import sys
if sys.argv[0].endswith("kinfolk"):
    from dataclasses import replace
    from kinfolk.experiments.reproduction import methods, settings
    for name in set(methods.METHODS) - {"MeanShrunk", "Independent", "task mean"}:
        del methods.METHODS[name]
    settings.SETTINGS = tuple(replace(s, runs=4) for s in settings.SETTINGS if s.key == "syn1-own")
"""
FIT = (
    *("fit", "data.csv", "--task", "shop", "--target", "sales", "--method", "independent"),
    *("--out", "m.kin", "--report", "r.html"),
)
REPRODUCE = ("reproduce", "synthetic", "--out", "out", "--jobs")


@pytest.fixture(scope="module")
def table():
    return shops(5, 10)


@pytest.fixture(scope="module")
def few_methods(tmp_path_factory):
    """An environment in which the command reproduces little."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "sitecustomize.py").write_text(SMALL)
    return {**ONE_THREAD, "PYTHONPATH": str(folder)}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, few_methods):
    """The tables of a run that nobody stopped."""
    folder = tmp_path_factory.mktemp("undisturbed")
    subprocess.run([COMMAND, *REPRODUCE, "1"], cwd=folder, env=few_methods, check=True, capture_output=True)
    return tables(folder / "out")


def tables(out):
    """All tables by name, without what depends on the clock."""
    found = {}
    for path in sorted((out / "tables").glob("*.csv")):
        rows = list(csv.DictReader(path.read_text().splitlines()))
        found[path.name] = [{name: row[name] for name in row if name != "cpu_seconds"} for row in rows]
    return found


def stopped(arguments, stop, folder, moment, env=ONE_THREAD):
    """Start a command, send a signal at a moment as the terminal does: to all its processes; what it said."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([COMMAND, *arguments], cwd=folder, env=env, start_new_session=True, **pipes) as process:
        while not moment(folder, process):
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.002)
        os.killpg(process.pid, stop)
        said = process.communicate()
    return process.returncode, *said


def first_file(folder, process):
    return len(list(folder.iterdir())) > 1


def model_is_there(folder, process):
    return (folder / "m.kin").exists()


def table_is_read(folder, process):
    """The library that reads tables has started its threads, and no output is there yet."""
    place = Path("/proc", str(process.pid))
    mapped = "polars" in (place / "maps").read_text()
    return mapped and len(list((place / "task").iterdir())) > 2 and not model_is_there(folder, process)


def another_cell(known):
    return lambda folder, process: len(cells(folder)) > known


def cells(folder):
    """The results stored so far, by file."""
    return {path: path.read_text() for path in (folder / "out").rglob("[!.]*.json")}


def files(folder):
    return sorted(p.name for p in folder.iterdir())


def is_whole(folder):
    """Model and report are there whole or not at all."""
    assert not (folder / "m.kin").exists() or load(folder / "m.kin").coef_.shape == (5, 5)
    return not (folder / "r.html").exists() or (folder / "r.html").read_text(encoding="utf-8").endswith("</html>\n")


def test_an_interrupted_fit_says_so_in_one_line_and_leaves_whole_files_alone(table, tmp_path):
    write(tmp_path / "data.csv", table)
    code, out, err = stopped(FIT, signal.SIGINT, tmp_path, model_is_there)
    *notes, last = err.splitlines()
    assert (code, out, last) == (130, "", "kinfolk: interrupted")
    assert all(note.startswith("note: ") for note in notes)
    assert set(files(tmp_path)) <= {"data.csv", "m.kin", "r.html"} and is_whole(tmp_path)


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are seen in /proc")
def test_an_interrupt_while_a_table_is_read_is_one_line(table, tmp_path):
    write(tmp_path / "data.csv", table)
    header, *rows = (tmp_path / "data.csv").read_text().splitlines(keepends=True)
    (tmp_path / "data.csv").write_text(header + "".join(rows) * (300_000 // len(rows)))
    code, out, err = stopped(FIT, signal.SIGINT, tmp_path, table_is_read)
    assert (code, out, err.splitlines()[-1]) == (130, "", "kinfolk: interrupted")
    assert files(tmp_path) == ["data.csv"]


def test_a_killed_fit_leaves_whole_files_and_the_next_one_does_not_mind(table, tmp_path):
    write(tmp_path / "data.csv", table)
    code, out, err = stopped(FIT, signal.SIGKILL, tmp_path, first_file)
    assert (code, out) == (-signal.SIGKILL, "") and "Traceback" not in err
    assert is_whole(tmp_path)
    assert kinfolk(*FIT, cwd=tmp_path).returncode == 0
    assert {"m.kin", "r.html"} <= set(files(tmp_path)) and is_whole(tmp_path)


def test_a_reproduction_stopped_twice_goes_on_and_ends_like_an_undisturbed_one(undisturbed, few_methods, tmp_path):
    said, stored = {}, {}
    for stop, jobs in ((signal.SIGKILL, "1"), (signal.SIGINT, "2")):
        said[stop] = stopped((*REPRODUCE, jobs), stop, tmp_path, another_cell(len(stored)), few_methods)
        before, stored = stored, cells(tmp_path)
        assert len(before) < len(stored) < 12 and stored | before == stored  # what was there is not computed again
        assert all(text.endswith("}") for text in stored.values())
        assert not (tmp_path / "out" / "reproduction.html").exists()
    assert said == {signal.SIGKILL: (-9, "", ""), signal.SIGINT: (130, "", "kinfolk: interrupted\n")}
    subprocess.run([COMMAND, *REPRODUCE, "1"], cwd=tmp_path, env=few_methods, check=True, capture_output=True)
    assert cells(tmp_path) | stored == cells(tmp_path)
    assert tables(tmp_path / "out") == undisturbed and undisturbed


def test_an_interrupt_before_the_command_begins_is_one_line_too(monkeypatch, capsys):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr("kinfolk.cli.build_parser", interrupted)
    assert main(["methods"]) == 130
    assert capsys.readouterr().err == "kinfolk: interrupted\n"
