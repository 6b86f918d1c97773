"""The table that comes with the package: how full 28 car parks of Birmingham are at eight times of the week."""

from __future__ import annotations

import csv
from importlib.resources import files
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from kinfolk.datasets.table import description

FILE = files("kinfolk.datasets").joinpath("car_parks.csv")


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
    return Bunch(data=cells, target=target, task=task, path=str(FILE), DESCR=description("car_parks"))
