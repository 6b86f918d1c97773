"""A file in the folder of methods is a method: listed, compared, tuned, stored, reproduced and documented."""

import subprocess
import sys
from pathlib import Path

import pytest

import kinfolk

METHOD = '''
"""HalfWay: a method that a test has dropped into the folder."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from kinfolk.methods.method import MultiTaskRegressor
from kinfolk.methods.model import Model
from kinfolk.methods.parameters import number, parameters
from kinfolk.rows.gram import GramStats


@parameters
class HalfWay(MultiTaskRegressor):
    """Ridge per task, pulled to the pooled slopes."""

    shares: ClassVar[str] = "half of the way"
    simplicity: ClassVar[int] = 25
    default_grid: ClassVar[dict[str, tuple[Any, ...]]] = {"penalty": (1.0, 10.0)}

    penalty: float = number(1.0, above=0)

    def learn(self, gram: GramStats) -> Model:
        pooled = np.linalg.lstsq(gram.G.sum(axis=0), gram.b.sum(axis=0), rcond=None)[0]
        H = gram.G + self.penalty * np.eye(gram.n_features)
        return Model.of(gram, np.linalg.solve(H, (gram.b + self.penalty * pooled)[..., None])[..., 0])
'''
USE = """
import numpy as np
from kinfolk import compare, load, tune
from kinfolk.baselines import METHODS, HalfWay
from kinfolk.cli import main
from kinfolk.experiments.reproduction.methods import METHODS as REPRODUCED

rng = np.random.default_rng(0)
X = np.column_stack([np.repeat(np.arange(4), 12), rng.normal(size=(48, 2))])
y = X[:, 1] + 0.1 * rng.normal(size=48)
found = compare(X, y, task=0, methods=["half-way", "task-mean"], cv=3)
assert found.table()[0]["shares"] == "half of the way", found.table()
tuned = tune(HalfWay(task=0), None, X, y)
assert tuned.best_params_["penalty"] in (1.0, 10.0)
tuned.best_estimator_.save("model.kin")
assert (load("model.kin").coef_ == tuned.best_estimator_.coef_).all()
assert "HalfWay" in METHODS and "HalfWay" in REPRODUCED
try:
    HalfWay(penalty=-1.0).fit(X[:, 1:], y)
except ValueError as error:
    assert "penalty=-1.0 must be greater than 0 and finite" in str(error)
main(["methods"])
"""


@pytest.fixture
def copy(tmp_path):
    """The package with one more file, somewhere else."""
    source = Path(kinfolk.__file__).parent
    target = tmp_path / "src" / "kinfolk"
    for path in source.rglob("*"):
        if path.is_file() and path.suffix != ".pyc":
            place = target / path.relative_to(source)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(path.read_bytes())
    (target / "methods" / "half_way.py").write_text(METHOD)
    return tmp_path


def test_a_file_dropped_into_the_folder_shows_everywhere(copy):
    code = f"import sys; sys.path.insert(0, {str(copy / 'src')!r})\n{USE}"
    done = subprocess.run([sys.executable, "-c", code], cwd=copy, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "half-way       half of the way" in done.stdout


def test_the_documentation_lists_what_is_in_the_folder():
    """The list of methods in the reference is written by the build, from the folder."""
    docs = Path(__file__).parents[1] / "docs"
    assert ".. include:: methods.rst" in (docs / "api.rst").read_text()
    assert "for name in METHODS" in (docs / "conf.py").read_text()
