"""Files of format 2, by an early state of kinfolk 0.2: they load and predict as they did, whatever has changed."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from kinfolk import load
from kinfolk.store import ModelFileError

FOLDER = Path(__file__).parent / "format2"
EXPECTED = np.load(FOLDER / "expected.npz")
# Names of fitted attributes, and the sum of absolute values of those that are numbers.
ATTRIBUTES = json.loads((FOLDER / "attributes.json").read_text())
TABLE = pd.DataFrame(EXPECTED["X"], columns=["a", "b"]).assign(task=EXPECTED["task"])
# What these models predict: a table with columns of every kind, one with jumps, and one ordered in time.
TABLES = {"rules": "mixed", "private": "mixed", "trees": "steps", "panel": "panel", "later": "panel"}
NAMES = sorted(path.stem for path in FOLDER.glob("*.kin"))
WITH_STD = [name for name in NAMES if f"{name}_std" in EXPECTED]

# The state of transformers belongs to scikit-learn, which warns when it is another version's.
pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.InconsistentVersionWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),  # what the rules do with columns
]


def table_of(name):
    if name in TABLES:
        return pd.read_csv(FOLDER / f"{TABLES[name]}.csv")
    return EXPECTED["X"] if name == "GFL" else TABLE


@pytest.mark.parametrize("name", NAMES)
def test_an_earlier_file_predicts_as_it_did_and_can_be_saved_again(name, tmp_path):
    model = load(FOLDER / f"{name}.kin")
    predicted = model.predict(table_of(name))
    # The numbers may come from another processor, whose exponential may differ in the last bit.
    np.testing.assert_allclose(predicted, EXPECTED[f"{name}_mean"], rtol=1e-10, atol=1e-10)
    again = load(model.save(tmp_path / "again.kin"))
    np.testing.assert_array_equal(again.predict(table_of(name)), predicted)


@pytest.mark.parametrize("name", NAMES)
def test_an_earlier_file_has_the_attributes_that_it_had(name, tmp_path):
    again = load(load(FOLDER / f"{name}.kin").save(tmp_path / "again.kin"))
    for attribute, size in ATTRIBUTES[name].items():
        value = getattr(again, attribute)
        if size is not None:
            assert np.nansum(np.abs(np.asarray(value, dtype=float))) == pytest.approx(size, rel=1e-9)


@pytest.mark.parametrize("name", WITH_STD)
def test_an_earlier_file_has_standard_deviations(name, tmp_path):
    std = load(FOLDER / f"{name}.kin").predict(table_of(name), return_std=True)[1]
    assert std.shape == EXPECTED[f"{name}_std"].shape
    # The law of standard deviations may change: other numbers of the same size.
    assert 1 / 3 < np.median(std / EXPECTED[f"{name}_std"]) < 3


@pytest.mark.parametrize("name", ["GAMTLCV", "RBFGAMTL", "trees", "panel"])
def test_an_earlier_search_still_says_what_it_found(name):
    model = load(FOLDER / f"{name}.kin")
    assert len(str(model.summary())) > 100


def test_an_earlier_graph_is_reported_and_goes_on_learning(tmp_path):
    model = load(FOLDER / "GAMTL.kin")
    y = EXPECTED["GAMTL_mean"]
    assert model.report(TABLE, y, tmp_path / "r.html").read_text(encoding="utf-8").endswith("</html>\n")
    assert model.graph_.labels.tolist() == ["t0", "t1", "t2", "t3"]
    assert np.isfinite(model.partial_fit(TABLE, y).coef_).all()


def test_statistics_of_an_earlier_search_go_on_learning():
    model = load(FOLDER / "partial.kin")
    assert np.isfinite(model.partial_fit(TABLE, EXPECTED["GAMTL_mean"]).coef_).all()


def test_a_file_of_version_0_1_says_which_version_reads_it(tmp_path):
    path = tmp_path / "old.kin"
    data = (FOLDER / "Pooled.kin").read_bytes()
    path.write_bytes(data.replace(b"kinfolk model 2 sha256", b"kinfolk model 1 sha256"))
    with pytest.raises(ModelFileError, match=r"by kinfolk 0.1 \(format 1\).*kinfolk<0.2.*fit again") as caught:
        load(path)
    assert "\n" not in str(caught.value)
