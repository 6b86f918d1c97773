"""Makes the tables of the tests of sources importable; nothing else."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "sources"))
