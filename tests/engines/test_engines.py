"""Spark, PostgreSQL and Ibis give the statistics and coefficients of the rows in memory: run by `make engines`."""

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

if not os.environ.get("KINFOLK_ENGINES"):
    pytest.skip("needs Spark and PostgreSQL: make engines", allow_module_level=True)

import ibis
from pyspark.sql import SparkSession
from sklearn.preprocessing import StandardScaler

from kinfolk import GAMTL
from kinfolk.cli import main
from large.tables import assert_same, by_numpy, folds_of_frame, gram_of_frame, sales

pytestmark = pytest.mark.filterwarnings("default")  # of engines, which are not ours
X = ["x0", "shop", "x1", "x2"]


@pytest.fixture(scope="module")
def rows():
    frame = sales(n=500, tasks=6, label=lambda s: f"no. {s}")
    frame[["x0", "x1", "x2", "sales"]] += 1e6
    return frame.assign(day=[f"day {k % 23}" for k in range(500)])


@pytest.fixture(scope="module")
def spark(rows):
    options = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2", "spark.log.level": "ERROR"}
    session = SparkSession.builder.master("local[1]").config(map=options).getOrCreate()
    yield session.createDataFrame(rows)
    session.stop()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A PostgreSQL server of our own; its address."""
    folder = tmp_path_factory.mktemp("postgres")
    binaries = sorted(Path("/usr/lib/postgresql").glob("*/bin"))[-1]
    # The server refuses to run as root.
    user = ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []
    if user:
        for parent in (folder, *list(folder.parents)[:3]):
            parent.chmod(0o755)
        shutil.chown(folder, "postgres")
    port = str(20_000 + os.getpid() % 20_000)
    options = f"-p {port} -k {folder} -c listen_addresses=''"
    run = {"check": True, "capture_output": True, "cwd": "/"}
    subprocess.run([*user, binaries / "initdb", "-D", folder / "data", "-A", "trust", "-U", "me"], **run)
    log = ["-l", folder / "log", "-w"]
    subprocess.run([*user, binaries / "pg_ctl", "-D", folder / "data", "-o", options, *log, "start"], **run)
    yield {"host": str(folder), "port": int(port), "user": "me", "database": "postgres"}
    subprocess.run([*user, binaries / "pg_ctl", "-D", folder / "data", "-m", "immediate", "-w", "stop"], **run)


@pytest.fixture(scope="module")
def postgres(server, rows):
    connection = ibis.postgres.connect(**server)
    yield connection.create_table("sales", ibis.memtable(rows))
    connection.disconnect()


@pytest.mark.parametrize("name", ["spark", "postgres"])
def test_the_engine_gives_statistics_folds_coefficients_and_predictions_of_the_rows(name, rows, request):
    frame = request.getfixturevalue(name)
    assert_same(gram_of_frame(frame, task="shop", target="sales", drop="day"), by_numpy(rows), rtol=1e-10)
    folds = folds_of_frame(frame, task="shop", target="sales", groups="day", cv=3)
    assert_same(folds.total, by_numpy(rows), rtol=1e-10)
    model = GAMTL(task="shop", features=StandardScaler(), tol=1e-12)
    here = model.fit(rows[X], rows["sales"]).coef_
    numbers = frame.drop("day")
    there = model.fit(numbers, "sales").coef_
    np.testing.assert_allclose(there, here, rtol=1e-8, atol=1e-8 * np.abs(here).max())
    predicted = model.predict(frame)
    table = predicted.toPandas() if name == "spark" else predicted.to_pandas()
    both = table.merge(rows.assign(expected=model.predict(rows[X])), on=["x0", "shop", "day"])
    assert len(both) == len(rows)
    np.testing.assert_allclose(both["prediction"], both["expected"], rtol=1e-9)


@pytest.mark.parametrize("how", [[], ["--stream"]], ids=["in memory", "in the database"])
def test_the_command_line_fits_a_query_of_postgres(how, server, postgres, tmp_path, capsys):
    address = f"postgres://me@/postgres?host={server['host']}&port={server['port']}"
    query = "select shop, x0, x1, x2, sales from sales"
    options = [
        "--task",
        "shop",
        "--target",
        "sales",
        "--method",
        "gamtl",
        "--cv",
        "0",
        "--out",
        str(tmp_path / "m.kin"),
    ]
    assert main(["fit", address, "--query", query, *options, *how]) == 0, capsys.readouterr().err
    assert "fitted gamtl on 500 rows, 6 tasks, 3 feature columns" in capsys.readouterr().out
