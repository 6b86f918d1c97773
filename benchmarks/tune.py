"""Tuning: GAMTLCV and RBFGAMTL on the Parkinson data beside a loop of GridSearchCV(Ridge) over patients, in one run."""

from __future__ import annotations

import time
import warnings

import numpy as np
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler

from kinfolk import GAMTLCV, RBFGAMTL
from kinfolk.datasets import load_parkinsons


def grid_loop(data):
    """What a user writes today: ten penalties, five folds, one search per patient."""
    X = data.data.drop(columns=data.task).to_numpy()
    X = StandardScaler().fit_transform(X)
    for patient in data.tasks:
        own = (data.data[data.task] == patient).to_numpy()
        GridSearchCV(Ridge(), {"alpha": np.logspace(-3, 3, 10)}, cv=5).fit(X[own], data.target[own])


def seconds(function):
    """Processor time: other work on the machine hardly changes it."""
    started = time.process_time()
    function()
    return time.process_time() - started


def main():
    warnings.simplefilter("ignore")
    data = load_parkinsons(inputs="voice+time", demographics=True)
    linear = GAMTLCV(task=data.task)
    curved = RBFGAMTL(task=data.task, features=StandardScaler())
    print("42 patients, 5,875 rows, 19 features, 5 folds")
    loop = min(seconds(lambda: grid_loop(data)) for _ in range(2))
    print(f"loop of GridSearchCV(Ridge, 10 penalties)  {loop:7.1f} s")
    ours = min(seconds(lambda: linear.fit(data.data, data.target)) for _ in range(2))
    print(f"GAMTLCV                                    {ours:7.1f} s  {ours / loop:.2f} times the loop")
    rbf = seconds(lambda: curved.fit(data.data, data.target))
    print(f"RBFGAMTL                                   {rbf:7.1f} s")


if __name__ == "__main__":
    main()
