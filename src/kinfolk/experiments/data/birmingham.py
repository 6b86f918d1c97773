"""Parking Birmingham: the occupancy rate of 29 car parks half an hour ahead; a car park is a task."""

from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch

from kinfolk.datasets.table import description, split_table
from kinfolk.experiments.data.source import fetch, find
from kinfolk.rows.gram import Array

Series = dict[str, tuple[NDArray[Any], Array]]  # car park -> times and occupancy rates

FIRST_DAY = np.datetime64("2016-10-04")
FIRST_TEST_DAY = np.datetime64("2016-10-11")
SHORTEST = 88  # readings of BHMBRTARC01

_DROPPED = {30: (), 29: ("BHMBRTARC01",), 28: ("BHMBRTARC01", "NIA North")}


def load_birmingham(
    *, lots: int = 29, lags: int = 4, windows: str = "across_nights", data_home: str | os.PathLike[str] | None = None
) -> Bunch:
    """Birmingham's car parks in windows of time: `lags` occupancy rates predict the next.

    Parameters
    ----------
    lots : 30 for all car parks, 29 without BHMBRTARC01 (the paper's), 28 without NIA North too (no training row)
    lags : previous readings in a window; the paper has 4 (two hours) and 8 (four hours)
    windows : "across_nights", or "within_day": no window then runs from one day into the next
    data_home : folder with `birmingham_parking/dataset.csv` and perhaps `birmingham_parking/locations.csv`; None: the
        environment variable KINFOLK_DATA, then the cache, then a download

    Returns
    -------
    Bunch
        `data`, `target` (target in the first week), `test_data`, `test_target` (later), `task` (column `lot`), `tasks`
        (all car parks in the order of the file; without pandas column 0 of `data` counts them from 0), `feature_names`
        (oldest first: `lag_4` .. `lag_1`), `DESCR`; `time`, `test_time` of the targets and `groups`, `test_groups`, the
        days since October 4; `series`, car park -> (times, rates), and `locations`, car park -> (longitude, latitude),
        empty without the file of locations
    """
    if lots not in _DROPPED:
        raise ValueError(f"lots must be 28, 29 or 30, got {lots!r}.")
    if windows not in ("across_nights", "within_day"):
        raise ValueError(f'windows must be "across_nights" or "within_day", got {windows!r}.')
    if not 1 <= lags < SHORTEST:
        raise ValueError(f"lags must be from 1 to {SHORTEST - 1}, got {lags}: one car park has {SHORTEST} readings.")
    series = _read_series(fetch("birmingham", data_home), _DROPPED[lots])
    return Bunch(
        **_rows(series, lags, windows == "within_day"),
        tasks=list(series),
        series=series,
        locations=_read_locations(find("birmingham_locations", data_home), series),
        DESCR=description("birmingham", "kinfolk.experiments.data"),
    )


def _read_series(path: Path, dropped: tuple[str, ...]) -> Series:
    """Times and occupancy rates of every car park, in the order of the file."""
    readings: dict[str, list[tuple[str, float]]] = {}
    with path.open(encoding="ascii", newline="") as file:
        for row in csv.DictReader(file):
            rate = int(row["Occupancy"]) / int(row["Capacity"])
            readings.setdefault(row["SystemCodeNumber"], []).append((row["LastUpdated"], rate))
    series = {}
    for lot in [lot for lot in readings if lot not in dropped]:
        times, rates = zip(*readings[lot], strict=True)
        series[lot] = np.array(times, dtype="datetime64[s]"), np.array(rates)
    return series


def _read_locations(path: Path | None, series: Series) -> dict[str, tuple[float, float]]:
    if path is None:
        return {}
    with path.open(encoding="ascii", newline="") as file:
        rows = list(csv.DictReader(file))
    # The published header spells "longtitude".
    places = {row["SystemCodeNumber"]: (float(row["longtitude"]), float(row["latitude"])) for row in rows}
    return {lot: places[lot] for lot in series if lot in places}


def _rows(series: Series, lags: int, within_day: bool) -> dict[str, Any]:
    """All windows of all series as rows; those with a target in the first week are for training."""
    windows = [_windows(*one, lags, within_day) for one in series.values()]
    time, rates = (np.concatenate(parts) for parts in zip(*windows, strict=True))
    codes = np.repeat(np.arange(len(windows)), [len(times) for times, _ in windows])
    names = [f"lag_{lag}" for lag in range(lags, 0, -1)]
    day = (time.astype("datetime64[D]") - FIRST_DAY).astype(int)
    train = time < FIRST_TEST_DAY
    X = rates[:, :-1]
    return split_table("lot", codes, X, names, train, list(series), target=rates[:, -1], time=time, groups=day)


def _windows(times: NDArray[Any], rates: Array, lags: int, within_day: bool) -> tuple[NDArray[Any], Array]:
    """Times of the targets of one series, and in every row the `lags` previous rates before the target."""
    rows = np.lib.stride_tricks.sliding_window_view(rates, lags + 1)
    if not within_day:
        return times[lags:], rows
    day = times.astype("datetime64[D]")
    keep = day[lags:] == day[:-lags]
    return times[lags:][keep], rows[keep]
