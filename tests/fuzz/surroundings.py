"""Full disks, missing permission, files that change while they are read, hostile tables, two writers at once.

    python tests/fuzz/surroundings.py [count], see `campaign`

Whatever happens around a command: it ends with whole outputs and exit 0, or with one line and exit 1, the old outputs
as they were and nothing left behind.
"""

from __future__ import annotations

import os
import resource
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

import campaign
from children import FIT, end, run, start, whole, words, write_table

NOBODY = 65534
WITH_REPORT = (*FIT, "--report", "r.html")
PREDICT = ("predict", "old.kin", "t.csv", "--out", "p.csv")
REPORT = ("report", "old.kin", "t.csv", "--target", "sales", "--out", "r.html")
KINDS = ("parquet", "arrow", "xlsx", "csv", "ndjson")
MAKE = """
import polars as pl
table = pl.read_csv("t.csv")
table.write_parquet("t.parquet")
table.write_ipc("t.arrow")
table.write_ndjson("t.ndjson")
"""
SHEET = """
import openpyxl, csv
book = openpyxl.Workbook()
for row in csv.reader(open("t.csv")):
    book.active.append([float(v) if v.replace(".", "").replace("-", "").isdigit() else v for v in row])
book.save("t.xlsx")
"""


def one(rng: np.random.Generator) -> str:
    """One mishap; which, and how it ended."""
    mishap = MISHAPS[rng.integers(len(MISHAPS))]
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)  # another user must get this far
        folder = Path(place) / "work"
        folder.mkdir()
        for name, data in sound().items():
            (folder / name).write_bytes(data)
        code = mishap(folder, rng)
        assert code in (0, 1), f"{mishap.__name__}: exit {code}, said {words(folder)}"
    return f"{mishap.__name__.replace('_', ' ')} {'survived' if code == 0 else 'refused'}"


@cache
def sound() -> dict[str, bytes]:
    """A table in every form, and a model of it; made in other processes, since this one only forks."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "sound"
        folder.mkdir()
        write_table(folder / "t.csv", np.random.default_rng(0))
        subprocess.run([sys.executable, "-c", MAKE + (SHEET if has_sheets() else "")], cwd=folder, check=True)
        assert run(*FIT[:-1], "old.kin", folder=folder) == 0, words(folder)
        return {path.name: path.read_bytes() for path in folder.iterdir()}


@cache
def has_sheets() -> bool:
    """Whether spreadsheets can be written here."""
    return subprocess.run([sys.executable, "-c", "import openpyxl"], capture_output=True, check=False).returncode == 0


def checked(folder: Path, code: int, old: dict[str, bytes], *, tag: str = "") -> int:
    """One line if it failed; the old files as they were unless replaced by whole ones; nothing else."""
    said = words(folder, tag)
    assert len(said) == (code != 0), f"exit {code}, said {said}"
    for path in folder.iterdir():
        assert not path.name.startswith("."), f"left behind: {path.name}"
        assert path.is_dir() or path.read_bytes() == old.get(path.name) or whole(path), f"not whole: {path.name}"
    return code


def full_disk(folder: Path, rng: np.random.Generator) -> int:
    """No file may grow beyond some size."""
    arguments = (WITH_REPORT, PREDICT, REPORT)[rng.integers(3)]
    most = int(10 ** rng.uniform(3, 5))  # room for the line that says so
    output = folder / arguments[-1]
    shutil.copy(folder / "old.kin", folder / "m.kin")
    before = (folder / "m.kin").read_bytes()
    code = run(*arguments, folder=folder, before=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most)))
    assert code == 1 or output.exists()
    names = {Path(name).name for name in arguments if name.endswith((".kin", ".html", ".csv"))}
    assert code == 0 or any(name in line for line in words(folder) for name in names), words(folder)
    return checked(folder, code, sound() | {"m.kin": before})


def no_permission(folder: Path, rng: np.random.Generator) -> int:
    """Another user, who may not write the folder, or not read the table or the model."""
    forbidden = ("folder", "table", "model")[rng.integers(3)]
    arguments = PREDICT if forbidden == "model" else (WITH_REPORT, PREDICT, REPORT)[rng.integers(3)]
    folder.chmod(0o755 if forbidden == "folder" else 0o777)
    closed = {"table": folder / "t.csv", "model": folder / "old.kin"}.get(forbidden)
    if closed is not None:
        closed.chmod(stat.S_IRUSR)
    code = run(*arguments, folder=folder, before=become_nobody)
    assert code == 1, "what is forbidden was done"
    return checked(folder, code, sound())


def become_nobody() -> None:
    """Give up being root, for good."""
    if os.getuid() == 0:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)


def swapped_table(folder: Path, rng: np.random.Generator) -> int:
    """The table is replaced, by turns, by another and by a broken one while it is read."""
    arguments = (WITH_REPORT, PREDICT, REPORT)[rng.integers(3)]
    other = write_table(folder / "other.csv", rng).read_bytes()
    (folder / "other.csv").unlink()
    child = start(arguments, folder)
    for k in range(rng.integers(1, 40)):
        fresh = Path(f"{folder}.fresh")
        fresh.write_bytes((other, other[: len(other) // 2], b"shop,size\n1", sound()["t.csv"])[k % 4])
        fresh.replace(folder / "t.csv")
        time.sleep(rng.uniform(0, 0.01))
    code = end(child)
    (folder / "t.csv").write_bytes(sound()["t.csv"])
    return checked(folder, code, sound())


def hostile_table(folder: Path, rng: np.random.Generator) -> int:
    """A table in some form with bytes changed, cut or put in."""
    kind = KINDS[rng.integers(len(KINDS))]
    name = f"t.{kind}" if f"t.{kind}" in sound() else "t.parquet"
    data = bytearray(sound()[name])
    for _ in range(rng.integers(1, 4)):
        at = int(rng.integers(len(data)))
        length = int(rng.integers(1, 4))
        data[at : at + length] = rng.bytes(length if rng.random() < 0.7 else int(rng.integers(0, 9)))
    cut = rng.random() < 0.1
    (folder / name).write_bytes(bytes(data[: int(rng.integers(len(data)))] if cut else data))
    before = (folder / name).read_bytes()
    code = run("fit", name, *FIT[2:], folder=folder)
    assert (folder / name).read_bytes() == before, "the input changed"
    return checked(folder, code, sound() | {name: before})


def two_writers(folder: Path, rng: np.random.Generator) -> int:
    """Two fits with one output, nearly at once."""
    first = start(FIT, folder)
    time.sleep(rng.uniform(0, 0.05))
    second = start(FIT, folder, tag="2")
    codes = [end(first), end(second)]
    assert codes == [0, 0] and whole(folder / "m.kin"), codes
    words(folder, "2")
    return checked(folder, 0, sound())


MISHAPS = (full_disk, no_permission, swapped_table, hostile_table, hostile_table, two_writers)

if __name__ == "__main__":
    sys.exit(campaign.main("surroundings", one, count=600, limit_memory=False))
