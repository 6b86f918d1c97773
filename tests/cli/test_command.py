"""The installed command, from a table to a report."""

import json
import os
import pty
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from tables_for_tests import COMMAND, ONE_THREAD, kinfolk, read, shops, write

from kinfolk import __version__
from kinfolk.cli.demo import run_demo


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A fitted model with its report, its table and some new rows."""
    folder = tmp_path_factory.mktemp("shops")
    write(folder / "data.csv", shops())
    new = [row[:4] for row in shops(seed=1, rows=2)]
    write(folder / "new.csv", new)
    result = kinfolk(
        *("fit", "data.csv", "--task", "shop", "--target", "sales", "--out", "model.kin", "--report", "report.html"),
        cwd=folder,
    )
    (folder / "said.txt").write_text(f"{result.returncode}\n{result.stdout}\n{result.stderr}")
    return folder


def test_fit_writes_a_model_and_a_report_and_says_what_it_did(folder):
    said = (folder / "said.txt").read_text()
    assert said.startswith("0\nfitted gamtlcv on 72 rows, 6 tasks, 3 feature columns in ")
    assert "column 'region' is text and is one-hot encoded (3 categories)" in said
    assert "true and false become 1 and 0: 'open'" in said
    assert "model:  model.kin (" in said and "report: report.html" in said
    assert "<html" in (folder / "report.html").read_text(encoding="utf-8")
    assert sorted(p.name for p in folder.iterdir()) == ["data.csv", "model.kin", "new.csv", "report.html", "said.txt"]


def test_predict_gives_every_row_its_task_prediction_and_std(folder):
    result = kinfolk("predict", "model.kin", "new.csv", "--std", cwd=folder)
    assert result.returncode == 0 and result.stderr == ""
    rows = read(result.stdout)
    assert list(rows[0]) == ["shop", "prediction", "std"]
    assert [row["shop"] for row in rows] == [row[0] for row in shops(seed=1, rows=2)[1:]]
    truth = np.array([row[4] for row in shops(seed=1, rows=2)[1:]])
    error = np.array([float(row["prediction"]) for row in rows]) - truth
    assert np.abs(error / np.array([float(row["std"]) for row in rows])).max() < 5


def test_predict_to_a_file_gives_what_it_gives_to_stdout(folder, tmp_path):
    out = tmp_path / "deeper" / "predictions.csv"
    result = kinfolk("predict", "model.kin", "new.csv", "--out", out, cwd=folder)
    assert result.stdout == f"12 predictions in {out}\n"
    assert out.read_text() == kinfolk("predict", "model.kin", "new.csv", cwd=folder).stdout


def test_report_of_a_model_and_a_table(folder, tmp_path):
    out = tmp_path / "page.html"
    result = kinfolk("report", "model.kin", "data.csv", "--target", "sales", "--out", out, "--json", cwd=folder)
    assert json.loads(result.stdout) == {"report": str(out), "rows": 72, "notes": []}, result.stderr
    assert "sales by shop, data.csv" in out.read_text(encoding="utf-8")


def test_nobody_reading_the_output_is_not_an_error_message(folder):
    command = [COMMAND, "predict", "model.kin", "new.csv"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


def test_an_interrupt_ends_with_130_and_leaves_nothing(tmp_path):
    write(tmp_path / "data.csv", shops(3))
    options = ["--task", "shop", "--target", "sales", "--method", "bmsl", "--set", "n_samples=10000000", "--cv", "0"]
    command = [COMMAND, "fit", "data.csv", *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=tmp_path, env=ONE_THREAD) as process:
        process.stderr.readline()  # a notice, when the rows have been read
        time.sleep(2)
        process.send_signal(signal.SIGINT)
        *_, last = process.stderr.read().splitlines()
    assert (process.returncode, last) == (130, "kinfolk: interrupted")
    assert [p.name for p in tmp_path.iterdir()] == ["data.csv"]


def test_a_terminal_shows_a_bar_with_the_time_left(folder, tmp_path):
    ours, theirs = pty.openpty()
    options = ["--task", "shop", "--target", "sales", "--method", "mtrl", "--out", tmp_path / "model.kin"]
    process = subprocess.Popen(
        [COMMAND, "fit", "data.csv", *options], stderr=theirs, stdout=subprocess.DEVNULL, cwd=folder, env=ONE_THREAD
    )
    os.close(theirs)
    shown = b""
    try:
        while piece := os.read(ours, 65536):
            shown += piece
    except OSError:  # Linux says so when the other side has closed
        pass
    assert process.wait() == 0
    assert b"tune [" in shown and b"/12" in shown and b" left" in shown


def test_an_error_is_one_line_without_a_traceback_unless_asked_for(tmp_path):
    wrong = ("fit", "absent.csv", "--task", "a", "--target", "b")
    result = kinfolk(*wrong, cwd=tmp_path)
    assert result.returncode == 1
    assert result.stderr.startswith("kinfolk: ") and result.stderr.count("\n") == 1
    assert "Traceback" in kinfolk(*wrong, "--debug", cwd=tmp_path).stderr


def test_without_a_command_help_is_shown():
    result = kinfolk()
    assert result.returncode == 2 and "kinfolk fit data.csv" in result.stdout


def test_wrong_usage_ends_with_2():
    assert kinfolk("fit", "data.csv").returncode == 2


def test_version():
    assert kinfolk("--version").stdout == f"kinfolk {__version__}\n"


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    return kinfolk("demo", cwd=folder), folder


def test_demo_tells_groups_outliers_and_the_gain(demo):
    result, _ = demo
    assert result.returncode == 0, result.stderr
    assert "group 1: tasks 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12\n" in result.stdout
    assert "group 2: tasks 13, 14, 15, 16, 17, 18\n" in result.stdout
    assert "outliers: tasks 19, 20\n" in result.stdout


def test_demo_without_matplotlib_writes_its_report(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    said = list(run_demo(tmp_path))
    assert "There is no picture, since plots need matplotlib: pip install 'kinfolk[plots]'" in said
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_demo_writes_a_picture_and_a_report_and_leaves_nothing_half_written(demo):
    _, folder = demo
    assert sorted(p.name for p in (folder / "kinfolk-demo").iterdir()) == ["graph.png", "report.html"]
    assert (folder / "kinfolk-demo" / "graph.png").read_bytes().startswith(b"\x89PNG")
