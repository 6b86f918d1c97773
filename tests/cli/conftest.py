"""Makes the tables of these tests importable; nothing else."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
