"""No output destroys an input, another output, or a file that is something else; special files stay what they are."""

import json
import os
import socket
import stat
import subprocess
import threading
from pathlib import Path

import pytest
from tables_for_tests import COMMAND, ONE_THREAD, read, shops, write

from kinfolk.cli import main
from kinfolk.store import load

COLUMNS = ("--task", "shop", "--target", "sales")
FAST = (*COLUMNS, "--method", "mean-shrunk", "--cv", "0")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """The bytes of a model of the shops."""
    folder = tmp_path_factory.mktemp("shops")
    assert main(["fit", str(write(folder / "data.csv", shops())), *FAST, "--quiet"]) == 0
    return (folder / "data.kin").read_bytes()


@pytest.fixture
def folder(tmp_path, monkeypatch, model):
    write(tmp_path / "data.csv", shops())
    (tmp_path / "model.kin").write_bytes(model)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def run(*arguments):
    """The installed command with bytes on both sides."""
    return subprocess.run([COMMAND, *arguments], capture_output=True, check=False, env=ONE_THREAD, timeout=120)


def refused(capsys, *arguments):
    """The error of a command that must fail in one line."""
    capsys.readouterr()
    assert main(list(arguments)) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    return said


FIT = ("fit", "data.csv", *FAST)
PREDICT = ("predict", "model.kin", "data.csv")
REPORT = ("report", "model.kin", "data.csv", "--target", "sales")
ONTO_INPUTS = [
    (*FIT, "--out", "data.csv"),
    (*FIT, "--report", "data.csv"),
    (*PREDICT, "--out", "data.csv"),
    (*PREDICT, "--out", "./../{here}/data.csv"),
    (*PREDICT, "--out", "model.kin"),
    (*PREDICT, "--stream", "--out", "data.csv"),
    (*REPORT, "--out", "data.csv"),
    (*REPORT, "--out", "model.kin"),
    ("graph", "model.kin", "--out", "model.kin"),
]


@pytest.mark.parametrize("command", ONTO_INPUTS, ids=" ".join)
@pytest.mark.parametrize("force", [(), ("--force",)], ids=["", "force"])
def test_an_input_is_never_written_over(command, force, folder, capsys):
    before = contents(folder)
    command = [argument.replace("{here}", folder.name) for argument in command]
    assert "is a file that is read" in refused(capsys, *command, *force)
    assert contents(folder) == before


@pytest.mark.parametrize("link", [os.symlink, os.link], ids=["symbolic", "hard"])
def test_an_input_behind_a_link_is_never_written_over(link, folder, capsys):
    link(folder / "data.csv", folder / "other.csv")
    before = contents(folder)
    assert "is a file that is read (data.csv)" in refused(capsys, *PREDICT, "--out", "other.csv")
    assert "is a file that is read (other.csv)" in refused(capsys, "fit", "other.csv", *FAST, "--out", "data.csv")
    assert contents(folder) == before


def test_where_case_does_not_matter_another_spelling_is_the_same_file(folder, capsys, monkeypatch):
    os.link(folder / "data.csv", folder / "DATA.csv")  # what such a file system shows for either name
    assert "is a file that is read" in refused(capsys, *PREDICT, "--out", "DATA.csv")
    assert "are one file" in refused(capsys, *FIT, "--out", "new.out", "--report", "NEW.out")
    assert not Path("new.out").exists()


def test_two_outputs_are_two_files(folder, capsys):
    (folder / "there").symlink_to(folder / "x.html")
    for other in ("x.html", "./x.html", "there"):
        assert "are one file: name two" in refused(capsys, *FIT, "--out", "x.html", "--report", other)
    assert not (folder / "x.html").exists()


OTHERS = [
    (*FIT, "--out"),
    (*FIT, "--report"),
    (*PREDICT, "--out"),
    (*REPORT, "--out"),
    ("graph", "model.kin", "--out"),
]


@pytest.mark.parametrize("command", OTHERS, ids=" ".join)
def test_a_file_of_another_kind_is_replaced_only_by_force(command, folder, capsys, monkeypatch):
    (folder / "thesis.txt").write_text("years of work")
    before = contents(folder)
    assert "thesis.txt exists and is not a " in refused(capsys, *command, "thesis.txt")
    assert contents(folder) == before


def test_a_file_of_the_same_kind_or_an_empty_one_is_replaced(folder):
    (folder / "empty").touch()
    for _ in range(2):
        assert main([*FIT, "--out", "empty", "--report", "page.html", "--quiet"]) == 0
        assert main([*PREDICT, "--out", "predictions.csv", "--quiet"]) == 0
        assert main([*REPORT, "--out", "page.html", "--quiet"]) == 0
    assert load("empty").tasks_.tolist() == [f"{k:03d}" for k in range(1, 7)]


def test_force_replaces_what_is_there(folder):
    (folder / "thesis.txt").write_text("years of work")
    assert main([*PREDICT, "--out", "thesis.txt", "--force", "--quiet"]) == 0
    assert len(read((folder / "thesis.txt").read_text())) == 72


@pytest.mark.parametrize("command", ["demo", "reproduce"])
def test_folders_of_results_are_checked_too(command, folder, capsys):
    assert "data.csv is not a folder" in refused(capsys, command, "--out", "data.csv")
    for name in ("report.html", "reproduction.html"):
        (folder / name).write_text("mine")
    assert "exists and is not a page" in refused(capsys, command, "--out", ".")
    assert (folder / "report.html").read_text() == "mine"


def test_a_write_protected_file_stays(folder, capsys, monkeypatch):
    # Root may write everywhere, so the answer is given here.
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != "model.kin")
    assert "write-protected" in refused(capsys, *FIT, "--out", "model.kin")


def test_a_link_stays_a_link(folder):
    (folder / "latest.kin").symlink_to("model.kin")
    assert main([*FIT, "--out", "latest.kin", "--quiet"]) == 0
    assert (folder / "latest.kin").is_symlink() and load("model.kin").tasks_.size == 6


def test_a_pipe_is_written_to_and_stays_a_pipe(folder):
    pipe = folder / "pipe"
    os.mkfifo(pipe)
    received = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_bytes()), daemon=True)
    reader.start()
    assert main([*PREDICT, "--out", "pipe", "--quiet"]) == 0
    reader.join(10)
    assert len(read(received[0].decode())) == 72
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_the_null_device_takes_everything_and_stays_a_device(folder):
    before = Path(os.devnull).stat()
    assert main([*FIT, "--out", os.devnull, "--report", os.devnull, "--quiet"]) == 0
    after = Path(os.devnull).stat()
    assert (after.st_mode, after.st_ino, after.st_rdev) == (before.st_mode, before.st_ino, before.st_rdev)


def test_a_socket_stays_a_socket(folder, capsys):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        assert "is a socket" in refused(capsys, *PREDICT, "--out", "socket")
        assert (folder / "socket").is_socket()


def test_a_dash_is_stdout(folder, model):
    result = run(*FIT, "--out", "-")
    assert result.stdout == model and b"\nfitted mean-shrunk on 72 rows" in result.stderr
    page = run(*REPORT, "--out", "-")
    assert page.stdout.startswith(b"<!DOCTYPE html") and b"report: /dev/stdout" in page.stderr
    assert run(*PREDICT, "--out", "-").stdout == run(*PREDICT).stdout
    assert not (folder / "-").exists()


def test_a_file_behind_stdout_is_written_in_place(folder, model):
    """A shell that sends stdout to a file makes /dev/stdout a link to that file; it must stay one."""
    with Path("out.kin").open("wb") as file:
        subprocess.run([COMMAND, *FIT, "--out", "/dev/stdout", "--quiet"], stdout=file, check=True, env=ONE_THREAD)
    assert (folder / "out.kin").read_bytes() == model
    assert Path("/dev/stdout").is_symlink()


def test_stdout_holds_one_thing(folder, capsys):
    assert "--json writes to stdout" in refused(capsys, *FIT, "--out", "-", "--json")
    assert "are one file" in refused(capsys, *FIT, "--out", "-", "--report", "-")
    capsys.readouterr()
    assert main([*PREDICT, "--out", "-", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 72


def test_a_table_is_written_in_the_format_that_its_name_promises(folder, capsys):
    polars = pytest.importorskip("polars")
    assert main(["predict", "model.kin", "data.csv", "--out", "p.parquet"]) == 0
    assert main(["predict", "model.kin", "data.csv", "--out", "p.csv"]) == 0
    written = polars.read_parquet("p.parquet")
    assert written.equals(polars.read_csv("p.csv", schema_overrides=written.schema))
    for name in ("p.xlsx", "p.csv.gz", "p.arrow"):
        assert main(["predict", "model.kin", "data.csv", "--out", name]) == 1
        assert "predictions are written as CSV or Parquet" in capsys.readouterr().err
        assert not Path(name).exists()
