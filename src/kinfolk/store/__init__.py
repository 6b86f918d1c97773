"""Model files: arrays and JSON in one checked file, without pickle, so that opening one runs no code.

`archive` is the container, `encode` and `decode` the way there and back, `classes` all that a file may hold, `checks`
what must hold between its parts, `wide` how matrices of many columns are written in few numbers.
"""

from __future__ import annotations

import json
import os
import warnings
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
from sklearn.exceptions import InconsistentVersionWarning

from kinfolk._version import __version__
from kinfolk.methods.given_graph import is_matrix, read_graph
from kinfolk.methods.method import MultiTaskRegressor
from kinfolk.methods.model import as_model
from kinfolk.rows.schema import fact_names
from kinfolk.rows.table import task_name
from kinfolk.store.archive import Archive, ModelFileError, open_archive, path_of, write_archive
from kinfolk.store.checks import check_model
from kinfolk.store.classes import MODELS
from kinfolk.store.decode import Decoder
from kinfolk.store.encode import Encoder
from kinfolk.store.private import private_model

__all__ = ["ModelFileError", "load", "save"]


def save(model: MultiTaskRegressor, path: str | os.PathLike[str], *, private: bool = False) -> Path:
    """Write a fitted model to one file, whole or not at all; the same model gives the same bytes.

    Parameters, all fitted attributes, the statistics and the fitted `features` are kept, so that after `load` predict
    gives the same numbers and `partial_fit` goes on. The callback is not. Transformers are kept if they are on the list
    in `kinfolk.store.classes`; anything else is refused by name.

    With `private` the file holds what predicts, the tasks and their graph, and not what rows could be rebuilt from:
    statistics, the parts of the model, held-out errors, the names and effects of categories with fewer than 5 rows.
    Tasks with too few rows are refused. A model from such a file predicts; standard deviations, contributions,
    partial_fit, adopt, drop, edge_confidence and the report say that they need more. docs/privacy.md tells what every
    file reveals.

    Examples
    --------
    >>> from kinfolk.baselines import Independent
    >>> model = Independent(task=0).fit([[0, 1.0], [0, 2.0], [1, 1.0], [1, 3.0]], [1.0, 2.0, 5.0, 4.0])
    >>> path = save(model, "/tmp/kinfolk-doctest.kin")
    >>> bool((load(path).coef_ == model.coef_).all())
    True
    """
    path = path_of(path, reading=False)
    if type(model) is not MODELS.get(type(model).__name__):
        raise ModelFileError(f"{type(model).__qualname__} is not a model of kinfolk: save one of {', '.join(MODELS)}")
    if "model_" not in vars(model):
        raise ModelFileError(f"this {type(model).__name__} is not fitted yet: call fit before save")
    asked = getattr(model, "trunk", None)
    if not isinstance(asked, str | None):
        raise ModelFileError(
            f'trunk is a {type(asked).__name__}, and model files never hold code: fit with trunk="auto", whose trees '
            "are stored as plain arrays, or with trunk=None"
        )
    encoder = Encoder()
    stored = model.unfitted() if private else copy(model)
    settled = as_model(model).settled()
    graph = getattr(stored, "graph", None)
    if graph is not None and not is_matrix(graph):
        stored.graph = read_graph(graph, task_name(stored.task))
    if hasattr(stored.facts, "columns"):  # the record has them, and new tables may too
        stored.facts = fact_names(stored.facts, settled.columns.schema.task if settled.columns else None)
    stored.model_ = private_model(settled) if private and not settled.private else settled
    header = {
        "written_by": {"kinfolk": __version__, "numpy": np.__version__, "scikit-learn": sklearn.__version__},
        "model": encoder.value(stored, "model"),
    }
    text = json.dumps(header, allow_nan=False, separators=(",", ":"))
    write_archive(path, text.encode("ascii"), encoder.arrays)
    return path


def load(path: str | os.PathLike[str]) -> MultiTaskRegressor:
    """The model in a file written by `save`.

    Opening a file runs no code from it, whoever wrote it. A file that is damaged, cut short, newer than this kinfolk
    or not a model gives a `ModelFileError`, a ValueError of one line.
    """
    path = path_of(path)
    with path.open("rb") as file:
        try:
            model, versions = _read(open_archive(file))
        except (ModelFileError, MemoryError) as error:
            raise ModelFileError(_line(path, error)) from None
        except Exception as error:
            # The one net: whatever NumPy, SciPy or scikit-learn say about parts that make no sense.
            raise ModelFileError(_line(path, f"is damaged: it holds values that make no sense ({error})")) from error
    _warn_of_version(model, versions)
    return model


def _read(archive: Archive) -> tuple[MultiTaskRegressor, Any]:
    header = json.loads(archive.header().decode("ascii"), parse_constant=_refuse_constant)
    model = Decoder(archive).value(header["model"])
    check_model(model)
    model.model_ = replace(model.model_, method=model.unfitted())
    return model, header["written_by"]


def _refuse_constant(name: str) -> None:
    raise ModelFileError(f"its header holds the bare number {name}")


def _warn_of_version(model: MultiTaskRegressor, versions: Any) -> None:
    """As scikit-learn does: the state of its transformers is its own, and may change between versions."""
    written = str(versions.get("scikit-learn")) if isinstance(versions, dict) else "unknown"
    if written.split(".")[:2] == sklearn.__version__.split(".")[:2]:
        return
    columns = as_model(model).columns
    for step in () if columns is None else columns.steps:
        if type(step).__module__.startswith("sklearn"):
            warnings.warn(
                InconsistentVersionWarning(
                    estimator_name=type(step).__name__,
                    current_sklearn_version=sklearn.__version__,
                    original_sklearn_version=written[:40],
                ),
                stacklevel=3,
            )


def _line(path: Path, error: object) -> str:
    return f"{path}: {' '.join(str(error).split())[:500]}"
