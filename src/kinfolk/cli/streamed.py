"""Tables too large for memory: one pass over the file makes statistics, and the model is fitted from them."""

from __future__ import annotations

import argparse
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from kinfolk.cli.columns import Roles
from kinfolk.cli.console import Console
from kinfolk.memory import in_words
from kinfolk.readers import FORMATS
from kinfolk.readers.lines import PROBE, checked_lines, open_text

LARGE = 200 * 2**20  # bytes of a file


def wants_stream(path: Path, options: argparse.Namespace) -> bool:
    """Whether the table is to be read in blocks: because it is large, or because it was asked for."""
    return bool(options.stream) or path.stat().st_size > LARGE


def check_head(path: Path, encoding: str) -> None:
    """Look at the first lines of a text file, so that something else than a table is found out at once."""
    if path.suffix.lower() not in FORMATS:
        with open_text(path, encoding) as file:
            if not list(islice(checked_lines(file, path.name, encoding), PROBE)):
                raise ValueError(f"{path.name} is empty: the first line must name the columns")


def fit_streamed(path: Path, roles: Roles, recipe: Any, console: Console) -> tuple[Any, float | None]:
    """The model fitted from the file's statistics, and its cross-validated error if it has one."""
    from kinfolk.cli.encoding import transformer
    from kinfolk.large import fit_file

    console.note(f"{path.name} ({in_words(path.stat().st_size)}) is read in blocks: all inputs must be numbers")
    if roles.categorical or roles.drop_missing:
        raise ValueError(
            "--categorical and --drop-missing need the rows in memory: prepare the file, or fit a part of it"
        )
    if recipe.grid():
        console.note(f"{recipe.method} takes the parameters that are not --set as they are by default")
    features = transformer([], (), scale=not recipe.scales_itself)
    model = recipe.estimator(roles.task, features, console.callback)
    columns: dict[str, Any] = {"target": roles.target, "drop": roles.drop, "groups": roles.groups}
    fit_file(model, path, n_jobs=max(2, recipe.jobs), callback=console.callback, **columns)
    held_out = model.model_.held_out
    return model, None if held_out is None else float(np.nanmean(held_out.errors))


def predict_streamed(model: Any, path: Path, options: argparse.Namespace, console: Console) -> None:
    """Predictions for every row of the file, written block by block."""
    from kinfolk.large import predict_file

    if not options.out:
        raise ValueError(f"{path.name} is read in blocks ({in_words(path.stat().st_size)}): name a file with --out")
    if options.safe_csv:
        raise ValueError("--safe-csv needs the rows in memory: predict a part of them, or leave the option out")
    if options.keep == [] or options.drop_missing:
        raise ValueError("--drop-missing and --keep without names need the rows in memory: name the columns to keep")
    predict_file(
        model, path, options.out, keep=options.keep or (), return_std=options.std, callback=console.callback, n_jobs=1
    )
