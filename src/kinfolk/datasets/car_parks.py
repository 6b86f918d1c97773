"""The table that comes with the package: how full 28 car parks of Birmingham are at eight times of the week."""

from __future__ import annotations

import csv
from importlib.resources import files
from typing import Any

import numpy as np
from sklearn.utils import Bunch

FILE = files("kinfolk.datasets").joinpath("car_parks.csv")
DESCR = """\
How full 28 car parks of Birmingham (UK) were, in per cent of their capacity, at 40 random readings each between October
and December 2016. `when` is the part of the week: early (before 9:30), morning, noon (11 to 13), afternoon and late
(from 15:00) on weekdays; morning, noon (11 to 14) and afternoon at weekends.

Drawn from "Parking Birmingham", UCI Machine Learning Repository, DOI 10.24432/C51K5Z, D. Stolfi; CC BY 4.0. Raw data:
Birmingham City Council, UK Open Government Licence. Left out: repeated readings, and two car parks with few days.
"""


def load_car_parks() -> Bunch:
    """The table `car_parks.csv`: 1,120 rows, 28 tasks, one text column.

    Returns
    -------
    Bunch with `data` (columns `car_park` and `when`; a pandas frame, or an array without pandas), `target` (per cent
    full), `task` (the task column of `data`), `path` (the CSV file) and `DESCR`

    Examples
    --------
    >>> parks = load_car_parks()
    >>> len(parks.target), len(set(np.asarray(parks.data)[:, 0]))
    (1120, 28)
    """
    lines = list(csv.reader(FILE.read_text("utf-8").splitlines()))
    cells: Any = np.array([line[:2] for line in lines[1:]], dtype=object)
    target = np.array([float(line[2]) for line in lines[1:]])
    task: str | int = 0
    try:
        import pandas as pd

        cells = pd.DataFrame(cells, columns=lines[0][:2])
        task = lines[0][0]
    except ImportError:
        pass
    return Bunch(data=cells, target=target, task=task, path=str(FILE), DESCR=DESCR)
