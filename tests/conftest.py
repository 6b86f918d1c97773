"""Makes the shared problems importable; nothing else."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
