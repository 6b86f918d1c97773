"""Small tables as files, and the installed command."""

import csv
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np

COMMAND = shutil.which("kinfolk", path=str(Path(sys.executable).parent)) or shutil.which("kinfolk")
ONE_THREAD = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


def kinfolk(*arguments, cwd=None, **more):
    """Run the installed command and return what it said."""
    command = [COMMAND, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False, env=ONE_THREAD, **more)


def shops(n_tasks=6, rows=12, *, seed=0, noise=0.1):
    """Sales of shops: a number, a text and a truth column; shops are called 001, 002, ..."""
    rng = np.random.default_rng(seed)
    table = [["shop", "region", "open", "size", "sales"]]
    for shop in range(1, n_tasks + 1):
        for size in rng.normal(size=rows).round(4):
            region, is_open = rng.choice(["north", "south", "west"]), bool(rng.integers(2))
            sales = 2 * size + shop + 3 * (region == "north") - is_open + noise * rng.normal()
            table.append([f"{shop:03d}", str(region), str(is_open).lower(), size, round(sales, 4)])
    return table


def write(path, table, delimiter=",", encoding="utf-8"):
    """Write rows as CSV; returns the path."""
    with path.open("w", newline="", encoding=encoding) as file:
        csv.writer(file, delimiter=delimiter).writerows(table)
    return path


def read(text):
    """Rows of CSV text as dicts."""
    return list(csv.DictReader(text.splitlines()))
