"""Signals at random moments of fit, predict, report, compare and reproduce: `python tests/fuzz/signals.py [count]`.

Whatever the moment: inputs are as they were, outputs are whole, old or absent, nothing else is left (but by kill -9,
which nobody can clean up after), and a command that can still speak says one line. See `campaign`.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

import campaign
from children import FIT, end, run, start, whole, words, write_table

COMMANDS = {
    "fit": (*FIT, "--report", "r.html"),
    "predict": ("predict", "old.kin", "t.csv", "--out", "p.csv", "--std"),
    "report": ("report", "old.kin", "t.csv", "--target", "sales", "--out", "r.html"),
    "compare": ("compare", "t.csv", "--task", "shop", "--target", "sales", "--methods", "independent", "pooled"),
    "reproduce": ("reproduce", "synthetic", "--quick", "--out", "out", "--jobs", "1"),
}
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
ALLOWED = {signal.SIGINT: {130}, signal.SIGTERM: {130, 143, -15}, signal.SIGKILL: {-9}}
INPUTS = ("t.csv", "old.kin")
OUTPUTS = (*INPUTS, "m.kin", "r.html", "p.csv", "out")
_lengths: dict[str, float] = {}


def one(rng: np.random.Generator) -> str:
    """One signal; which command it met."""
    name = list(COMMANDS)[rng.integers(len(COMMANDS))]
    stop = SIGNALS[rng.integers(len(SIGNALS))]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "work"
        prepare(folder, rng)
        before = {path: (folder / path).read_bytes() for path in INPUTS}
        moment = rng.uniform(0, length_of(name, folder, Path(place)))
        child = start(COMMANDS[name], folder)
        time.sleep(moment)
        os.killpg(child, stop) if alive(child) else None
        code = end(child)
        said = words(folder)
        assert {path: (folder / path).read_bytes() for path in INPUTS} == before, "an input changed"
        assert code in {0} | ALLOWED[stop], f"{name}: exit {code} after {stop.name}, said {said}"
        assert len(said) <= 1, said
        check_outputs(folder, killed=code == -9)
    return f"{name} {'finished' if code == 0 else 'stopped'}"


def alive(child: int) -> bool:
    """Whether a child still runs, so that its group exists."""
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None


def prepare(folder: Path, rng: np.random.Generator) -> None:
    """A table, and a model of it."""
    folder.mkdir()
    write_table(folder / "t.csv", rng)
    assert run(*FIT[:-1], "old.kin", folder=folder) == 0, words(folder)


def length_of(name: str, folder: Path, place: Path) -> float:
    """Seconds that a command takes undisturbed, measured once."""
    if name not in _lengths:
        copy = place / "copy"
        copy.mkdir()
        for path in INPUTS:
            (copy / path).write_bytes((folder / path).read_bytes())
        begin = time.monotonic()
        assert run(*COMMANDS[name], folder=copy) == 0, words(copy)
        _lengths[name] = time.monotonic() - begin
    return _lengths[name]


def check_outputs(folder: Path, *, killed: bool) -> None:
    """All files are whole; temporary ones stay after kill -9 alone."""
    for path in folder.rglob("*"):
        temporary = path.name.startswith(".")
        assert killed or not temporary, f"left behind: {path.name}"
        assert temporary or path.relative_to(folder).parts[0] in OUTPUTS, f"left behind: {path.name}"
        assert temporary or path.is_dir() or whole(path), f"not whole: {path.name}"


if __name__ == "__main__":
    sys.exit(campaign.main("signals", one, count=300, limit_memory=False))
