"""Statistics of a Parquet file beside merely reading it and summing its columns per task, each in its own process.

The engines print what a user would write: one group-by sum. Ours is `gram_of_file`, which keeps all second moments
too, and `folds_of_file` with five folds; `lazy_polars` and `lazy_duckdb` have the engine compute the same. Time is the
best of some runs, peak memory that of the whole process.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np


def write(path, rows, tasks, columns, seed=0, group=2**20):
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(seed)
    W = rng.normal(size=(tasks, columns))
    names = [f"x{j}" for j in range(columns)]
    schema = pa.schema([("task", pa.int64()), *((name, pa.float64()) for name in names), ("y", pa.float64())])
    with pq.ParquetWriter(path, schema) as out:
        for start in range(0, rows, group):
            n = min(group, rows - start)
            task, X = rng.integers(tasks, size=n), rng.normal(5.0, 1.0, size=(n, columns))
            y = np.einsum("nd,nd->n", X, W[task]) + rng.normal(size=n)
            out.write_table(pa.table([task, *X.T, y], schema=schema))


def polars_streaming(path):
    import polars as pl

    return pl.scan_parquet(path).group_by("task").sum().collect(engine="streaming")


def polars_in_memory(path):
    import polars as pl

    return pl.scan_parquet(path).group_by("task").sum().collect(engine="in-memory")


def pyarrow_group_by(path):
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    return table.group_by("task").aggregate([(name, "sum") for name in table.column_names if name != "task"])


def pyarrow_read_only(path):
    import pyarrow.parquet as pq

    for batch in pq.ParquetFile(path, pre_buffer=False).iter_batches(batch_size=2**18):
        batch.num_rows  # noqa: B018


def gram_of_file(path):
    from kinfolk.large import gram_of_file

    return gram_of_file(path, task="task", target="y")


def gram_of_frame(frame):
    import narwhals as nw

    from kinfolk.sources.frames import sum_frame
    from kinfolk.sources.roles import choose_roles

    lazy = nw.from_native(frame)
    return sum_frame(lazy, choose_roles(list(lazy.collect_schema()), "the table", task="task", target="y"))[0]


def lazy_polars(path):
    import polars as pl

    return gram_of_frame(pl.scan_parquet(path))


def lazy_duckdb(path):
    import duckdb

    with duckdb.connect() as connection:
        return gram_of_frame(connection.sql(f"select * from '{path}'"))


def folds_of_file(path):
    from kinfolk.large import folds_of_file

    return folds_of_file(path, task="task", target="y")


SUMS = [polars_streaming, polars_in_memory, pyarrow_group_by]
OURS = [gram_of_file, folds_of_file, lazy_polars, lazy_duckdb]
RUNS = {function.__name__: function for function in [pyarrow_read_only, *SUMS, *OURS]}
WARM_UP = {"polars": "polars", "pyarrow": "pyarrow.parquet"}


def run(name, path):
    """One run in this process: imports are not counted, memory is."""
    for module in (WARM_UP.get(name.split("_")[0], "kinfolk.large"), "polars", "duckdb"):
        __import__(module)
    wall, cpu = time.perf_counter(), time.process_time()
    RUNS[name](path)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e9 if sys.platform == "darwin" else 1e6)
    print(json.dumps([wall, cpu, peak]))


def measured(path, repeats):
    """Least wall and CPU seconds, greatest peak memory in GB; in turn, so that other work disturbs all alike."""
    runs = {name: [] for name in RUNS}
    for _ in range(repeats):
        for name, results in runs.items():
            command = [sys.executable, __file__, "--run", name, "--file", str(path)]
            results.append(json.loads(subprocess.run(command, check=True, capture_output=True).stdout))
            print(name, *(f"{value:.2f}" for value in results[-1]), file=sys.stderr, flush=True)
    columns = {name: list(zip(*results, strict=True)) for name, results in runs.items()}
    return {name: (min(wall), min(cpu), max(peak)) for name, (wall, cpu, peak) in columns.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=float, default=1e6, help="1e7 is the size in docs/scaling.md")
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--file", type=Path, help="a file written before; made anew by default")
    parser.add_argument("--run", choices=RUNS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        run(options.run, options.file)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = options.file or Path(folder) / "rows.parquet"
        if not path.exists():
            write(path, int(options.rows), options.tasks, options.columns)
        print(
            f"{options.rows:,.0f} rows, {options.columns} features, {options.tasks:,} tasks, "
            f"{path.stat().st_size / 1e9:.2f} GB of Parquet\n"
        )
        results = measured(path, options.repeats)
        print("| | seconds | CPU seconds | peak GB | times the fastest sum |\n|---|---|---|---|---|")
        fastest = min(results[function.__name__][1] for function in SUMS)  # CPU seconds: others may be at work
        for name, (wall, cpu, peak) in results.items():
            print(f"| {name.replace('_', ' ')} | {wall:.2f} | {cpu:.2f} | {peak:.2f} | {cpu / fastest:.2f} |")


if __name__ == "__main__":
    main()
