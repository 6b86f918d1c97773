"""Every example runs as a person would run it, without a warning."""

import doctest
import os
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("plot_*.py"))


def test_there_are_examples():
    assert len(EXAMPLES) >= 6


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_runs_and_prints_its_numbers(path, tmp_path):
    environment = {**os.environ, "MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "error", str(path)], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert any(character.isdigit() for character in done.stdout)
    assert list(tmp_path.iterdir()) == []  # examples leave nothing behind


def test_the_method_that_the_guide_adds_does_what_it_says(monkeypatch):
    code = re.search(r"```python\n(.*?)```", (ROOT / "docs" / "adding-a-method.md").read_text(), re.DOTALL)[1]
    guide = types.ModuleType("guide")
    monkeypatch.setitem(sys.modules, "guide", guide)  # where parameters look for the names of their types
    exec(compile(code, "adding-a-method.md", "exec"), guide.__dict__)
    result = doctest.testmod(guide)
    assert result.attempted >= 2 and result.failed == 0
