"""A cell is one method in one run of one setting; finished, it is one JSON file, there whole or not at all."""

from __future__ import annotations

import hashlib
import json
import time
import warnings
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from kinfolk.experiments.reproduction.methods import METHODS, ORACLE, PLANE_ORACLE, Fitted, Method
from kinfolk.experiments.reproduction.recovery import recovered
from kinfolk.experiments.reproduction.referee import score
from kinfolk.experiments.reproduction.settings import VERSION, Setting
from kinfolk.experiments.reproduction.splits import Split, split
from kinfolk.files import write_text
from kinfolk.methods.structures import Structure
from kinfolk.words import plain

Results = dict[str, dict[str, dict[int, dict[str, Any]]]]  # setting -> method -> run -> result
LIGHT_WITHOUT = ("LightGBM",)
FEW = ("GAMTL", "GAMTLCV", "Independent", ORACLE)
QUICK_SECONDS = 30.0
DIGITS = 8  # of the numbers in a file
TRACE = 100  # test rows of the first task that are kept for a figure


@dataclass(frozen=True)
class Cell:
    """One method in one run of one setting."""

    setting: Setting
    method: str
    run: int

    @property
    def key(self) -> dict[str, Any]:
        """Everything the result depends on; another version, grid or option is another cell."""
        return {
            "version": VERSION,
            "setting": self.setting.key,
            "source": self.setting.source,
            "options": self.setting.options,
            "metric": self.setting.metric,
            "method": self.method,
            "method_settings": METHODS[self.method].settings,
            "run": self.run,
        }

    def path(self, folder: Path) -> Path:
        """Its file."""
        digest = hashlib.sha256(json.dumps(self.key, sort_keys=True).encode()).hexdigest()[:10]
        name = self.method.replace(" ", "_")
        return folder / "cells" / self.setting.key / f"{name}-{self.run}-{digest}.json"

    @property
    def seconds(self) -> float:
        """About how long it takes."""
        return METHODS[self.method].seconds[self.setting.part]


def cells_of(setting: Setting, *, quick: bool = False) -> list[Cell]:
    """All cells of a setting; the small version has one run, and no cell that takes long."""
    cells = []
    for method in METHODS.values():
        if takes_part(method, setting):
            runs = min(setting.runs, *(method.runs.get(key, setting.runs) for key in (setting.part, setting.methods)))
            cells += [Cell(setting, method.name, run) for run in range(runs)]
    return [cell for cell in cells if not quick or (cell.run == 0 and cell.seconds <= QUICK_SECONDS)]


def takes_part(method: Method, setting: Setting) -> bool:
    """Whether a method is in a setting's table."""
    if not _installed(method) or setting.part not in method.parts:
        return False
    if method.name == ORACLE and not setting.options["shared_inputs"]:
        return False
    if method.name == PLANE_ORACLE and setting.source != "syn2":
        return False
    if setting.methods == "few":
        return method.name in FEW
    return setting.methods == "all" or method.name not in LIGHT_WITHOUT


def left_out() -> list[str]:
    """Methods whose library is not installed, and how to install it."""
    return [f"{m.name} is not in these tables: pip install '{m.extra}'" for m in METHODS.values() if not _installed(m)]


def _installed(method: Method) -> bool:
    return not method.library or find_spec(method.library) is not None


def stored(cells: list[Cell], folder: Path) -> Results:
    """The results that have been computed."""
    results: Results = {}
    for cell in cells:
        path = cell.path(folder)
        if path.exists():
            results.setdefault(cell.setting.key, {}).setdefault(cell.method, {})[cell.run] = json.loads(
                path.read_text()
            )
    return results


def compute_cell(cell: Cell, folder: Path) -> dict[str, Any]:
    """Fit, let the referee score, store; the method sees training rows only."""
    rows = split(cell.setting, cell.run)
    training = replace(rows, X_test=rows.X_test[:0], y_test=rows.y_test[:0])
    cpu = time.process_time()
    wall = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted = METHODS[cell.method].fit(training, cell.setting.metric, cell.run)
    cpu = time.process_time() - cpu
    wall = time.perf_counter() - wall
    messages = dict.fromkeys([*fitted.messages, *(str(w.message) for w in caught)])
    result = {"key": cell.key, **_judged(cell, rows, fitted), "cpu_seconds": cpu, "wall_seconds": wall}
    result |= {"params": fitted.params, "messages": list(messages)[:3]}
    write_text(cell.path(folder), json.dumps(plain(result, DIGITS)))
    return result


def _judged(cell: Cell, rows: Split, fitted: Fitted) -> dict[str, Any]:
    """Errors on the test rows, structure recovery, and what the figures need."""
    prediction = np.asarray(fitted.predict(rows.X_test))
    codes = rows.X_test[:, 0].astype(int)
    result = score(rows.y_test, prediction, codes, len(rows.tasks))
    result |= {"tasks_named": rows.tasks, "fixed_split": cell.setting.part == "birmingham"}
    structure = getattr(fitted.model, "structure_", None)
    if "edges" in rows.truth and fitted.model is not None:
        coef = None if cell.method == "RBF-GAMTL" else fitted.model.coef_
        result["recovery"] = recovered(structure, coef, rows.truth)
    if cell.run == 0 and cell.setting.figure:
        first = np.flatnonzero(codes == 0)[:TRACE]
        result["trace"] = {"target": rows.y_test[first], "prediction": prediction[first]}
    if cell.setting.figure and structure is not None:
        codes_of_tasks = structure.labels.astype(int).tolist()
        result["structure"] = {**structure.to_dict(), "labels": codes_of_tasks}
    return result


def structure_from_dict(stored: dict[str, Any], names: list[Any]) -> Structure:
    """The structure again, with the tasks' own names."""
    labels = np.array([str(names[k]) for k in stored["labels"]], dtype=object)
    return Structure.from_dict({**stored, "labels": labels})
