import subprocess
import sys
from pathlib import Path

import pytest

from kinfolk import __version__


def kinfolk(*arguments, cwd=None):
    command = Path(sys.executable).with_name("kinfolk")
    return subprocess.run([command, *arguments], capture_output=True, text=True, cwd=cwd, check=False)


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


def test_demo_draws_the_graph_and_leaves_nothing_half_written(demo):
    _, folder = demo
    assert [p.name for p in (folder / "kinfolk-demo").iterdir()] == ["graph.png"]
    assert (folder / "kinfolk-demo" / "graph.png").read_bytes().startswith(b"\x89PNG")


def test_an_error_is_one_line_without_a_traceback(tmp_path):
    (tmp_path / "file").write_text("")
    result = kinfolk("demo", "--out", "file/below", cwd=tmp_path)
    assert result.returncode == 1
    assert result.stderr.startswith("kinfolk: ") and "Traceback" not in result.stderr
    assert "Traceback" in kinfolk("demo", "--out", "file/below", "--debug", cwd=tmp_path).stderr


def test_without_a_command_help_is_shown():
    result = kinfolk()
    assert result.returncode == 2 and "demo" in result.stdout


def test_version():
    assert kinfolk("--version").stdout == f"kinfolk {__version__}\n"


def test_methods_lists_ours_and_all_competitors():
    listed = [line.split()[0] for line in kinfolk("methods").stdout.splitlines()]
    assert {"GAMTL", "GAMTLCV", "RBFGAMTL", "MTRL", "MSSL", "BMSL", "TAT", "GFL", "CCMTL", "RandomSlopes"} <= set(
        listed
    )
