"""No room for an output, and errors longer than a screen: one line that says which file, or what was left out."""

import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tables_for_tests import kinfolk, shops, write

from kinfolk.cli import main

FIT = ("--task", "shop", "--target", "sales", "--method", "independent", "--cv", "0")
FULL = pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "data.csv", shops(rows=400))
    assert main(["fit", "data.csv", *FIT, "--quiet", "--out", "model.kin"]) == 0
    return tmp_path


def no_room():
    """No file may grow beyond a few kilobytes."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))


@pytest.mark.parametrize(
    ("arguments", "output"),
    [
        (["predict", "model.kin", "data.csv", "--out", "new.csv"], "new.csv"),
        (["predict", "model.kin", "data.csv", "--out", "new.csv", "--stream"], "new.csv"),
        (["predict", "model.kin", "data.csv", "--out", "new.parquet", "--keep"], "new.parquet"),
        (["predict", "model.kin", "data.csv", "--out", "new.parquet", "--stream"], "new.parquet"),
        (["fit", "data.csv", *FIT, "--out", "new.kin"], "new.kin"),
        (["report", "model.kin", "data.csv", "--target", "sales", "--out", "new.html"], "new.html"),
        (["demo", "--table", "new.csv"], "new.csv"),
    ],
)
def test_the_file_that_finds_no_room_is_named(arguments, output, folder):
    before = sorted(folder.iterdir())
    done = kinfolk(*arguments, cwd=folder, preexec_fn=no_room)
    lines = [line for line in done.stderr.splitlines() if not line.startswith("note: ")]
    assert done.returncode == 1 and len(lines) == 1
    assert f"{folder / output}: " in lines[0] and "Make room, or name another place" in lines[0]
    assert sorted(folder.iterdir()) == before


@FULL
@pytest.mark.parametrize("more", [[], ["--json"]], ids=["text", "json"])
def test_standard_output_that_finds_no_room_is_named(more, folder):
    with Path("/dev/full").open("w") as full:
        done = kinfolk_into(full, "predict", "model.kin", "data.csv", *more, cwd=folder)
    assert done.returncode == 1 and done.stderr.splitlines()[-1].startswith("kinfolk: standard output: No space left")
    assert "Traceback" not in done.stderr and "Exception" not in done.stderr


def kinfolk_into(file, *arguments, cwd):
    command = [sys.executable, "-c", "import sys; from kinfolk.cli import main; sys.exit(main())", *arguments]
    return subprocess.run(command, stdout=file, stderr=subprocess.PIPE, text=True, cwd=cwd, check=False)


@FULL
def test_a_device_that_is_full_is_named(folder, capsys):
    assert main(["predict", "model.kin", "data.csv", "--out", "/dev/full"]) == 1
    assert "/dev/full: No space left on device" in capsys.readouterr().err


@pytest.mark.parametrize("more", [[], ["--json"]], ids=["text", "json"])
def test_an_error_of_fifty_thousand_characters_is_cut_and_says_so(more, folder, capsys):
    assert main(["fit", "data.csv", "--task", "shop", "--target", "x" * 50_000, *more]) == 1
    out, err = capsys.readouterr()
    assert "has no column 'xxx" in err and "Its columns are" in err  # the beginning and the end
    assert "characters left out ...]" in err and len(err) < 5_000 and len(out) < 5_000


def test_with_debug_an_error_is_whole(folder):
    with pytest.raises(ValueError, match="x" * 50_000):
        main(["fit", "data.csv", "--task", "shop", "--target", "x" * 50_000, "--debug"])
