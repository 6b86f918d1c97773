"""Spoiled model files: `python tests/fuzz/model_files.py [count]`, see `campaign`.

Every file must load or be refused in one line by a ModelFileError; a model that loads predicts, with standard
deviations where it has them: numbers, or a ValueError. Only statistics and transformers may be found out that late. A
file that hangs for minutes, swells or crashes ends the run.
"""

from __future__ import annotations

import sys
import tempfile
from functools import cache
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

import campaign
from mutations import MUTATIONS
from stored_models import TABLE, Y, fitted, table_for, table_of, with_transformer
from test_earlier import FOLDER as EARLIER
from test_earlier import table_of as earlier_table_of
from test_spoiled import MIXED, STEPS, STEPS_Y

from kinfolk import GAMTLCV, GAMTLClassifier
from kinfolk.store import ModelFileError, load, save

TRANSFORMED = (
    "Pipeline",
    "ColumnTransformer",
    "OneHotEncoder",
    "SplineTransformer",
    "PolynomialFeatures",
    "SimpleImputer",
)
NO_STD = ("MTRL", "MSSL", "TAT", "GFL", "BMSL", "CCMTL")


@cache
def sound_files() -> list[tuple[bytes, object]]:
    """Sound files of all kinds with a table that their models predict."""
    names = ("GAMTL", "GAMTLCV", "RBFGAMTL", "MTRL", "MSSL", "TAT", "GFL", "BMSL")
    models = [(fitted(name), table_of(name)) for name in names]
    models += [(with_transformer(name), table_for(name)) for name in TRANSFORMED]
    small = {"strengths": (1.0,), "ridges": (1.0,), "anchors": (0.0,), "neighbors": (2,), "cv": 2}
    models += [(GAMTLCV(task="who", trunk="auto", **small).fit(TABLE, Y), TABLE)]
    models += [(GAMTLCV(task="who", trunk=None, **small).partial_fit(TABLE, Y), TABLE)]
    kinds = np.arange(len(Y)) % 3
    models += [(GAMTLClassifier(task="who").fit(TABLE, y), TABLE) for y in (kinds > 0, np.array(list("abc"))[kinds])]
    counted = TABLE.assign(hours=1.0 + kinds)
    models += [(GAMTLCV(task="who", family="poisson", exposure="hours", **small).fit(counted, kinds), counted)]
    mixed = np.arange(float(len(MIXED)))
    models += [(GAMTLCV(task="who", trunk=None, **small).fit(MIXED, mixed), MIXED)] * 2
    models += [(GAMTLCV(task="who", trunk="auto", **small).fit(STEPS, STEPS_Y), STEPS)] * 2
    with tempfile.TemporaryDirectory() as folder:
        now = [(save(model, Path(folder) / "sound.kin").read_bytes(), table) for model, table in models]
        private = [
            (save(model, Path(folder) / "private.kin", private=True).read_bytes(), table)
            for model, table in models[-4::2]
        ]
    now += private
    return now + [(path.read_bytes(), earlier_table_of(path.stem)) for path in sorted(EARLIER.glob("*.kin"))]


def one(rng: np.random.Generator) -> str:
    """One file; what became of it."""
    sound = sound_files()
    data, table = sound[rng.integers(len(sound))]
    mutate = MUTATIONS[rng.integers(len(MUTATIONS))]
    spoiled = mutate(data, rng)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "spoiled.kin"
        path.write_bytes(spoiled)
        return outcome(path, table)


def outcome(path: Path, table: object) -> str:
    """What became of a file."""
    try:
        model = load(path)
    except ModelFileError as error:
        assert "\n" not in str(error) and len(str(error)) < 800
        return "refused"
    if of_another_table(model, table):
        return "loaded, of another table"
    try:
        predicted = model.predict(table)
    except ValueError as error:
        assert "transformer" in str(error) or not is_all_ours(model), error
        return "loaded, then refused"
    classes = model.model_.classes
    sensible = np.isfinite(predicted) if classes is None else np.isin(predicted, classes)
    assert sensible.all() or not is_all_ours(model), "predictions that are not finite, or no classes"
    try:
        if classes is not None:
            model.predict_proba(table)  # means over what is uncertain, as standard deviations are
        elif type(model).__name__ not in NO_STD:
            model.predict(table, return_std=True)
    except ValueError:
        return "loaded, predicts, std refused"
    return "loaded, predicts"


def of_another_table(model: object, table: object) -> bool:
    """Whether the columns that a model asks for have other names: it may well be sound."""
    return not {*(model.model_.columns.schema.names or ())} <= {*getattr(table, "columns", ())}


def is_all_ours(model: object) -> bool:
    """Whether all steps from the table to the features are kinfolk's own, so that a load has checked them."""
    return all(type(step).__module__.startswith("kinfolk") for step in model.model_.columns.steps)


if __name__ == "__main__":
    sys.exit(campaign.main("spoiled model files", one, count=20_000))
