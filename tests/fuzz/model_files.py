"""Spoil model files many times and load them: `python tests/fuzz/model_files.py [count] [seed]`.

Every file must load or be refused in one line by a ModelFileError; a model that loads must predict or raise an ordinary
error. A file that hangs for a minute, swells or crashes ends the run with its seed.
"""

from __future__ import annotations

import collections
import faulthandler
import resource
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "store"))

from mutations import MUTATIONS
from stored_models import fitted, table_for, table_of, with_transformer

from kinfolk.store import ModelFileError, load, save

TRANSFORMED = (
    "Pipeline",
    "ColumnTransformer",
    "OneHotEncoder",
    "SplineTransformer",
    "PolynomialFeatures",
    "SimpleImputer",
)
MEMORY = 6 * 2**30
WAIT = 60  # seconds for one file


def main(count: int = 20_000, seed: int = 0) -> int:
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    seen: collections.Counter[str] = collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        sound = sound_files(Path(folder))
        path, start = Path(folder) / "spoiled.kin", time.perf_counter()
        for k in range(count):
            rng = np.random.default_rng([seed, k])
            data, table = sound[rng.integers(len(sound))]
            mutate = MUTATIONS[rng.integers(len(MUTATIONS))]
            path.write_bytes(mutate(data, rng))
            faulthandler.dump_traceback_later(WAIT, exit=True)
            try:
                seen[outcome(path, table)] += 1
            except BaseException:
                traceback.print_exc()
                sys.stderr.write(f"\nfile {k} of seed {seed} ({mutate.__name__}) did this\n")
                return 1
            faulthandler.cancel_dump_traceback_later()
    seconds = time.perf_counter() - start
    sys.stdout.write(f"{count} spoiled files in {seconds:.0f} s: {dict(seen)}\n")
    return 0


def sound_files(folder: Path) -> list[tuple[bytes, object]]:
    """Sound files of all kinds with a table that their models predict."""
    names = ("GAMTL", "GAMTLCV", "RBFGAMTL", "MTRL", "MSSL", "TAT", "GFL", "BMSL")
    models = [(fitted(name), table_of(name)) for name in names]
    models += [(with_transformer(name), table_for(name)) for name in TRANSFORMED]
    return [(save(model, folder / "sound.kin").read_bytes(), table) for model, table in models]


def outcome(path: Path, table: object) -> str:
    """What became of one file."""
    try:
        model = load(path)
    except ModelFileError as error:
        assert "\n" not in str(error) and len(str(error)) < 800
        return "refused"
    try:
        model.predict(table)
    except MemoryError:
        raise
    except Exception as error:
        return f"loaded, then {type(error).__name__}"
    return "loaded, predicts"


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
