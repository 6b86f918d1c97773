"""Parkinsons Telemonitoring: the motor score of 42 patients from their voice; a patient is a task."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch

from kinfolk.datasets.source import fetch
from kinfolk.datasets.table import task_table
from kinfolk.rows.gram import Array

_DESCR = """Parkinsons Telemonitoring: 5,875 voice recordings of 42 people with early Parkinson's disease.

To predict: motor_UPDRS. A patient is a task, with 101 to 168 rows.

Source: UCI Machine Learning Repository, data set 189, https://doi.org/10.24432/C5ZS3N, A. Tsanas and M.
Little. Licence: CC BY 4.0. Cite: Tsanas, Little, McSharry, Ramig, "Accurate telemonitoring of Parkinson's
disease progression by non-invasive speech tests", IEEE Transactions on Biomedical Engineering 57(4), 2010.

Quirks
- age and sex are constant within a patient: inside one task they carry nothing but an intercept. They are
  left out unless asked for (demographics=True), which gives the 18 inputs named in the paper, or 19 with
  test_time.
- Recordings come in sittings (patient and day), nearly always six together, all with the same score to within
  0.006. A random split of rows puts the same sitting, hence the same label, on both sides: hand `groups` to a
  group-aware splitter.
- The score was rated a few times per patient and interpolated linearly in time in between. A model that
  sees test_time (inputs="voice+time") solves an interpolation: errors near 1.0 need it, and voice alone
  gives about 2.
- Rows are not in time order within a patient. test_time is in days; 12 values are negative.

Say which inputs and which split are used whenever an error is quoted.
"""

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
        DESCR=_DESCR,
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
