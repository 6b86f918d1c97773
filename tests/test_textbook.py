"""Tables as textbooks have them run with the defaults, in Python and on the command line, to the same predictions."""

import numpy as np
import pytest

from textbook import LOOK_ALIKES, fitted_by_both_doors


@pytest.mark.filterwarnings("ignore::UserWarning")  # what was done with the columns: told, and tested elsewhere
@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_a_textbook_table_is_fitted_alike_by_both_doors(name, tmp_path):
    make, task, target = LOOK_ALIKES[name]
    table = make(np.random.default_rng(0))
    model, in_python, other, by_command = fitted_by_both_doors(table, task, target, tmp_path)
    np.testing.assert_allclose(in_python, by_command, rtol=1e-6)
    assert list(model.tasks_) == list(other.tasks_) == sorted(table[task].unique())
    known = table[target].notna()
    assert model.score(table[known], table.loc[known, target]) > 0.5
