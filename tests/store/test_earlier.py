"""Files of kinfolk 0.1 (format 1), written by its last commit with that format: they load and predict as they did."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from kinfolk import load

FOLDER = Path(__file__).parent / "format1"
EXPECTED = np.load(FOLDER / "expected.npz")
TABLE = pd.DataFrame(EXPECTED["X"], columns=["a", "b"]).assign(task=EXPECTED["task"])
NAMES = sorted(path.stem for path in FOLDER.glob("*.kin"))
WITH_STD = ("GAMTL", "GAMTLfree", "Independent", "MeanShrunk", "Pooled")

# The state of transformers belongs to scikit-learn, which warns when it is another version's.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.InconsistentVersionWarning")


def table_of(name):
    return EXPECTED["X"] if name == "GFL" else TABLE


@pytest.mark.parametrize("name", NAMES)
def test_an_earlier_file_predicts_as_it_did_and_can_be_saved_again(name, tmp_path):
    model = load(FOLDER / f"{name}.kin")
    predicted = model.predict(table_of(name))
    # The numbers come from another processor, whose exponential may differ in the last bit.
    np.testing.assert_allclose(predicted, EXPECTED[f"{name}_mean"], rtol=1e-13, atol=1e-13)
    again = load(model.save(tmp_path / "again.kin"))
    np.testing.assert_array_equal(again.predict(table_of(name)), predicted)


@pytest.mark.parametrize("name", WITH_STD)
def test_an_earlier_file_has_standard_deviations_by_the_law_of_today(name, tmp_path):
    model = load(FOLDER / f"{name}.kin")
    std = model.predict(TABLE, return_std=True)[1]
    again = load(model.save(tmp_path / "again.kin"))
    np.testing.assert_allclose(again.predict(TABLE, return_std=True)[1], std, rtol=1e-9)
    # Those of kinfolk 0.1 came from the penalties of each model: other numbers of the same size.
    ratio = std / EXPECTED[f"{name}_std"]
    assert 1 / 3 < np.median(ratio) < 3


@pytest.mark.parametrize("name", ["GAMTLCV", "RBFGAMTL", "RandomSlopes"])
def test_what_an_earlier_file_did_not_keep_asks_for_a_new_fit(name):
    with pytest.raises(ValueError, match=r"files of kinfolk 0.1 must be fitted again"):
        load(FOLDER / f"{name}.kin").predict(TABLE, return_std=True)


def test_an_earlier_graph_is_reported_and_goes_on_learning(tmp_path):
    model = load(FOLDER / "GAMTL.kin")
    y = EXPECTED["GAMTL_mean"]
    assert model.report(TABLE, y, tmp_path / "r.html").read_text(encoding="utf-8").endswith("</html>\n")
    assert model.graph_.labels.tolist() == ["t0", "t1", "t2", "t3"]
    assert np.isfinite(model.partial_fit(TABLE, y).coef_).all()
