"""The long runs of tests/fuzz, a few cases of each: they run, count, go on where they were, and find nothing."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "fuzz"
PRESENT = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}


def campaign(name, *arguments, cwd):
    """Run a script; its exit code and what it printed."""
    command = [sys.executable, str(FOLDER / name), *map(str, arguments)]
    done = subprocess.run(command, cwd=cwd, env=PRESENT, capture_output=True, text=True, check=False, timeout=600)
    return done.returncode, done.stdout + done.stderr


ROOT = pytest.mark.skipif(os.getuid() != 0, reason="becoming another user takes root")
FEW = [
    ("tables.py", 150),
    ("model_files.py", 150),
    ("units.py", 30),
    ("futures.py", 2),
    ("verdicts.py", 3),
    ("databases.py", 60),
    ("sizes.py", 150),
    ("signals.py", 8),
    pytest.param("surroundings.py", 24, marks=ROOT),
]


@pytest.mark.parametrize(("name", "count"), FEW)
def test_a_few_cases_of_every_campaign(name, count, tmp_path):
    code, said = campaign(name, count, "--seed", 7, cwd=tmp_path)
    assert code == 0 and f"| {count} |" in said, said


def test_a_stopped_campaign_goes_on_where_it_was(tmp_path):
    campaign("tables.py", 3, cwd=tmp_path)
    campaign("tables.py", 6, cwd=tmp_path)
    (state,) = (tmp_path / ".fuzz").glob("*.json")
    assert json.loads(state.read_text())["next"] == 6
    code, said = campaign("tables.py", "--row", cwd=tmp_path)
    assert code == 0 and said.startswith("| random tables | 6 |")
