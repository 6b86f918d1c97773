"""Files that the commands are given: options of reading, models, and whether there is room to write."""

from __future__ import annotations

import argparse
import os
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


def check_writable(path: Path | None) -> None:
    """Find out before the work, not after it, that a file cannot be written."""
    if path is None:
        return
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: give the path of a file")
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if not folder.is_dir():
        raise NotADirectoryError(f"{path} cannot be written: {folder} is not a folder")
    if not os.access(folder, os.W_OK):
        raise PermissionError(f"{path} cannot be written: no permission for {folder}")
