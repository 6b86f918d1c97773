"""The bar and the words."""

import io
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from kinfolk.cli import main
from kinfolk.cli.console import Console
from kinfolk.progress import Bar, Progress, duration


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def bar_after(*steps):
    """What stands on the screen after steps (seconds, progress)."""
    clock, stream = Clock(), io.StringIO()
    bar = Bar(stream, clock)
    for seconds, progress in steps:
        clock.now += seconds
        bar(progress)
    return stream.getvalue().split("\r\x1b[K")[-1]


def test_the_bar_tells_the_time_left_at_the_pace_so_far():
    assert bar_after((10, Progress("folds", 1, 4))) == "folds [######..................] 1/4, 30 s left"
    assert bar_after((10, Progress("folds", 1, 4)), (50, Progress("folds", 2, 4))).endswith("2/4, 1 min 0 s left")
    assert bar_after((10, Progress("folds", 4, 4))) == "folds [########################] 4/4"


def test_a_new_stage_has_a_pace_of_its_own():
    steps = (100, Progress("one", 1, 1)), (1, Progress("two", 1, 3))
    assert bar_after(*steps).endswith("1/3, 2 s left")
    again = (100, Progress("folds", 5, 5)), (2, Progress("folds", 1, 5))
    assert bar_after(*again).endswith("1/5, 8 s left")


def test_the_bar_is_drawn_at_most_ten_times_a_second():
    shown = bar_after((1, Progress("s", 1, 9)), (0.01, Progress("s", 2, 9)), (0.01, Progress("s", 3, 9)))
    assert " 1/9" in shown


def test_a_cleared_bar_leaves_nothing():
    stream = io.StringIO()
    bar = Bar(stream, Clock())
    bar(Progress("s", 1, 2))
    bar.clear()
    assert stream.getvalue().endswith("\r\x1b[K")


def test_a_notice_is_said_once_and_in_one_line(capsys):
    console = Console()
    console.note("two\n  lines")
    console.note("two lines")
    assert capsys.readouterr().err == "note: two lines\n"


@pytest.mark.parametrize(("seconds", "words"), [(0.2, "0 s"), (59.4, "59 s"), (61, "1 min 1 s"), (3700, "1 h 1 min")])
def test_durations(seconds, words):
    assert duration(seconds) == words


def test_json_has_null_for_what_is_not_a_number(capsys):
    Console(as_json=True).result(
        {"gain_se": np.inf, "rmse": np.array([1.0, np.nan]), "path": Path("x"), "n": np.int64(3)}
    )
    found = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert found == {"gain_se": None, "rmse": [1.0, None], "path": "x", "n": 3, "notes": []}


def test_no_message_moves_the_cursor(capsys):
    console = Console()
    console.note("task \x1b[2J\x9b1m\u202e is odd")
    console.say("task \x1b]0;title\x07 \ud800 zoë 日本")
    assert main(["fit", "\x1b[31mabsent.csv", "--task", "a", "--target", "b"]) == 1
    said = capsys.readouterr()
    shown = (said.out + said.err).replace("\n", "")
    assert shown.isprintable() and "zoë 日本" in shown and "\\x1b[31mabsent.csv" in shown


PANIC = """
import os, sys, types
from kinfolk.cli import main
class PanicException(BaseException): pass
def run(options, console):
    console.note("kept")
    os.write(2, b"thread 'main' panicked at here\\n")
    raise PanicException("no such\\nbuffer")
sys.modules["kinfolk.cli.methods"] = types.SimpleNamespace(run=run)
sys.exit(main(["methods", *sys.argv[1:]]))
"""


def test_a_panic_of_a_library_is_one_line_and_its_noise_is_for_debugging():
    said = subprocess.run([sys.executable, "-c", PANIC], capture_output=True, text=True, check=False)
    assert said.returncode == 1
    note, error = said.stderr.splitlines()
    assert note == "note: kept" and error.startswith("kinfolk: internal error (PanicException: no such buffer)")
    said = subprocess.run([sys.executable, "-c", PANIC, "--debug"], capture_output=True, text=True, check=False)
    assert "panicked at here" in said.stderr and "Traceback" in said.stderr


class Display:
    """What IPython's display does: the outputs of a cell, each of which may be replaced."""

    def __init__(self):
        self.outputs = []

    def __call__(self, data, *, raw, display_id):
        self.outputs.append(data["text/plain"])
        return self

    def update(self, data, *, raw):
        self.outputs[-1] = data["text/plain"]


def test_in_a_notebook_the_bar_is_one_output_that_is_empty_at_the_end(monkeypatch):
    display = Display()
    kernel = SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=1), display=SimpleNamespace(display=display))
    monkeypatch.setitem(sys.modules, "IPython", kernel)
    bar = Bar()
    for done in (1, 2):
        bar(Progress("folds", done, 2))
    assert display.outputs == ["folds [########################] 2/2"]
    bar.clear()
    assert display.outputs == [""]
