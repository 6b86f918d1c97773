"""Files that the commands are given: options of reading, and models."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any


def read_options(options: argparse.Namespace) -> dict[str, Any]:
    """How to read CSV, as asked."""
    mark = {"\\t": "\t", "tab": "\t"}.get(options.delimiter, options.delimiter)
    if mark is not None and len(mark) != 1:
        raise ValueError(f"--delimiter {mark!r}: give one character, or tab")
    return {"delimiter": mark, "encoding": options.encoding, "decimal": options.decimal}


def load_model(path: Path) -> Any:
    """The model in a file."""
    from kinfolk.store import load

    if not path.exists():
        raise FileNotFoundError(f"there is no model file {str(path)!r}: write one with kinfolk fit")
    return load(path)
