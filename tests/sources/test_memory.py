"""Memory of fits in memory: a small multiple of the table, whatever is tried on the folds."""

import subprocess
import sys

import numpy as np
import pytest

from kinfolk.methods.rbf import RBFFeatures
from kinfolk.methods.splines import SplineFeatures
from kinfolk.search.rbf_search import InBasis, block_by_block

FIT = """
import resource, sys, warnings
import numpy as np
import pandas as pd
from kinfolk import GAMTLCV

warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
n = 100_000
table = pd.DataFrame(rng.normal(size=(n, 9))).add_prefix("x").assign(task=rng.integers(0, 20, n))
y = table.x0 * (1 + table.task / 10) + np.sin(table.x1) + rng.normal(size=n)
small = {"trunk": None, "strengths": (1.0,), "ridges": (1.0,), "anchors": (0.0,), "metrics": ("identity",), "cv": 3}
GAMTLCV(task="task", **small).fit(table[:2_000], y[:2_000])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
model = GAMTLCV(task="task", **small).fit(table, y)
assert model.nonlinear_helps_
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 / n)
"""


def test_curves_take_memory_for_a_block_of_rows_and_not_for_all_of_every_fold():
    done = subprocess.run([sys.executable, "-c", FIT], capture_output=True, text=True, check=True)
    # 99 features of 8 bytes each would be 800 bytes per row, and their cubes twice that.
    assert float(done.stdout) < 1500, f"{done.stdout} bytes per row"


@pytest.mark.parametrize("basis", [SplineFeatures(), RBFFeatures(5, random_state=0)], ids=["splines", "bumps"])
def test_features_made_block_by_block_are_those_made_at_once(basis, monkeypatch):
    X = np.random.default_rng(1).normal(size=(500, 3))
    whole = basis.fit(X).transform(X)
    monkeypatch.setattr("kinfolk.methods.splines.AT_ONCE", 64)
    monkeypatch.setattr("kinfolk.search.rbf_search.BLOCK_BYTES", 800)
    made = InBasis(basis, X, whole.shape[1])
    np.testing.assert_allclose(block_by_block(made, lambda part, _: part), whole, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(made.some(X[:, 0] > 0)[:7], whole[X[:, 0] > 0][:7], rtol=1e-13, atol=1e-13)
