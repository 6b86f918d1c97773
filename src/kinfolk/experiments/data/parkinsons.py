"""Parkinsons Telemonitoring: the motor score of 42 patients from their voice; a patient is a task."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch

from kinfolk.datasets.table import description, task_table
from kinfolk.experiments.data.source import fetch
from kinfolk.rows.gram import Array

_INPUTS = {"voice": (), "voice+time": ("test_time",)}


def load_parkinsons(
    *, inputs: str = "voice", demographics: bool = False, data_home: str | os.PathLike[str] | None = None
) -> Bunch:
    """Recordings of the Parkinsons Telemonitoring study; the target is `motor_UPDRS`.

    Parameters
    ----------
    inputs : "voice", 16 measures of the voice, or "voice+time", these and `test_time`, days since recruitment
    demographics : whether to add `age` and `sex`, which are constant within a patient
    data_home : folder with `parkinsons_telemonitoring/parkinsons_updrs.data`; None: the environment variable
        KINFOLK_DATA, then the cache, then a download

    Returns
    -------
    Bunch
        `data` (5875 rows and a column `patient`, in the order of the file), `target`, `task`, `tasks`, `feature_names`,
        `DESCR`; `groups`, the sitting of every row (0..989), and `time`, its `test_time`
    """
    if inputs not in _INPUTS:
        raise ValueError(f'inputs must be "voice" or "voice+time", got {inputs!r}.')
    columns = _read(fetch("parkinsons", data_home))
    names = [*(["age", "sex"] if demographics else []), *_INPUTS[inputs], *list(columns)[6:]]
    patient = columns["subject#"].astype(int)
    data, task = task_table("patient", patient, np.column_stack([columns[name] for name in names]), names)
    return Bunch(
        data=data,
        target=columns["motor_UPDRS"],
        task=task,
        tasks=np.unique(patient).tolist(),
        feature_names=names,
        groups=_sittings(patient, columns["test_time"]),
        time=columns["test_time"],
        DESCR=description("parkinsons", "kinfolk.experiments.data"),
    )


def _read(path: Path) -> dict[str, Array]:
    """The columns of the file by name, in their order."""
    with path.open(encoding="ascii") as file:
        names = file.readline().strip().split(",")
        values = np.loadtxt(file, delimiter=",")
    return {name: values[:, j].copy() for j, name in enumerate(names)}


def _sittings(patient: NDArray[np.intp], time: Array) -> NDArray[np.intp]:
    """Number of the pair of patient and day."""
    days = np.column_stack([patient, np.floor(time)])
    return np.unique(days, axis=0, return_inverse=True)[1].reshape(-1)
