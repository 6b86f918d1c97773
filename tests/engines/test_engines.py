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
from source_tables import assert_same, by_numpy, folds_of_frame, gram_of_frame, sales

from kinfolk import GAMTL
from kinfolk.cli import main

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


@pytest.fixture
def victim(server, postgres):
    """Asks what is left of a table that hostile queries are after."""
    psycopg = pytest.importorskip("psycopg")
    login = {"host": server["host"], "port": server["port"], "user": "me", "dbname": "postgres"}
    with psycopg.connect(**login, autocommit=True) as connection:
        connection.execute("drop table if exists victim")
        connection.execute("create table victim as select 1 as a")
        connection.execute(
            "create or replace function spoil() returns int language plpgsql as "
            "$$ begin delete from victim; return 1; end $$"
        )
        tables = (
            "select array_agg(table_name::text order by 1) from information_schema.tables where table_schema = 'public'"
        )
        yield lambda: [connection.execute(text).fetchall() for text in ("select a from victim", tables)]


def fit_query(server, query, tmp_path, capsys, *more, parameters=""):
    """Exit code and errors of a fit of a query."""
    address = f"postgres://me@/postgres?host={server['host']}&port={server['port']}{parameters}"
    options = ["--task", "shop", "--target", "sales", "--method", "gamtl", "--cv", "0", "--quiet"]
    code = main(["fit", address, "--query", query, *options, "--out", str(tmp_path / "m.kin"), *more])
    return code, capsys.readouterr().err


ROWS = "select shop, x0, x1, sales from sales"
OFF = "set_config('{}transaction_read_only', 'off', false)"
WRITES = [
    f"{ROWS}; drop table victim",
    f"{ROWS}; commit; drop table victim",
    f"{ROWS}) as asked; commit; drop table victim; select * from ({ROWS}",
    "select shop, x0, spoil() as x1, sales from sales",
    f"with d as (delete from victim returning a) {ROWS}, d",
    f"with d as (insert into victim values (2) returning a) {ROWS}, d",
    f"{ROWS.replace('from', 'into stolen from')}",
    f"select shop, spoil() as x0, case when {OFF.format('')} = 'off' then 1 else 0 end as x1, sales from sales",
    f"select shop, case when {OFF.format('default_')} = 'off' then 1 else 0 end as x0, spoil() as x1, sales from sales",
    "select shop, x0, ascii(query_to_xml('drop table victim', true, true, '')::text) as x1, sales from sales",
    f"{ROWS} for update",
    "drop table victim",
    "copy sales to program 'true'",
    "do $$ begin delete from victim; end $$",
    "call spoil()",
    "explain analyze delete from victim",
    "/* select */ delete from victim",
    "begin; delete from victim; commit",
    "set session characteristics as transaction read write",
]


@pytest.mark.parametrize("query", WRITES)
@pytest.mark.parametrize("how", [[], ["--stream"]], ids=["in memory", "in the database"])
def test_a_query_of_postgres_that_would_write_is_refused_and_writes_nothing(
    how, query, server, victim, tmp_path, capsys
):
    before = victim()
    writable = "&options=-c%20default_transaction_read_only%3Doff"
    for parameters in ("", writable):
        code, err = fit_query(server, query, tmp_path, capsys, *how, parameters=parameters)
        assert code == 1 and ": the query fails: " in err and err.count("\n") == 1
        assert victim() == before


def test_what_a_read_only_transaction_lets_pass_is_rolled_back(server, postgres, victim, tmp_path, capsys):
    import psycopg

    fit_query(server, "select shop, lo_create(0)::int as x0, x1, sales from sales", tmp_path, capsys)
    fit_query(server, "select shop, lo_create(0)::int as x0, x1, sales from sales", tmp_path, capsys, "--stream")
    with psycopg.connect(host=server["host"], port=server["port"], user="me", dbname="postgres") as connection:
        assert connection.execute("select count(*) from pg_largeobject_metadata").fetchall() == [(0,)]


READS = [
    f"{ROWS};",
    f"{ROWS} /* ; drop */ ;; -- and a last ; word",
    f"with s as ({ROWS} where shop <> ';' and shop <> $a$;$a$ and shop <> E'\\';') select * from s",
    "table numbers",
    "select * from (values ('a', 1.5, 3), ('a', 2, 4), ('b', 1, 3), ('b', 7, 9)) as v (shop, x0, sales)",
]


@pytest.mark.parametrize("query", READS)
@pytest.mark.parametrize("how", [[], ["--stream"]], ids=["in memory", "in the database"])
def test_a_query_of_postgres_that_reads_is_fitted(how, query, server, postgres, victim, tmp_path, capsys):
    import psycopg

    with psycopg.connect(host=server["host"], port=server["port"], user="me", dbname="postgres") as connection:
        connection.execute(f"create or replace view numbers as {ROWS}")
    assert fit_query(server, query, tmp_path, capsys, *how) == (0, "")


def test_columns_of_postgres_keep_their_kinds(server, postgres, victim):
    from kinfolk.sources.addresses import Address
    from kinfolk.sources.databases import fetch_query

    query = (
        "select 1::int2 as a, 1.5::numeric(6, 2) as b, 'x'::varchar(9) as c, now() as d, current_date as e, true as f"
    )
    here = Address(f"postgres://me@/postgres?host={server['host']}&port={server['port']}")
    table = fetch_query(here, query).table
    assert [str(kind).split("(")[0] for kind in table.dtypes] == [
        "Int16",
        "Float64",
        "String",
        "Datetime",
        "Date",
        "Boolean",
    ]


@pytest.mark.parametrize("dialect", ["mysql", "tsql", "snowflake", "trino", "clickhouse"])
@pytest.mark.parametrize(
    "query",
    [
        "select 1; drop table t",
        "with a as (select 1 as b) delete from t",
        "with a as (select 1 as b) insert into t select * from a",
        "select * into x from t",
        "select * from t into outfile 'x'",
        "delete from t",
        "call p()",
        "",
    ],
)
def test_queries_of_other_engines_are_one_statement_that_reads(query, dialect):
    from kinfolk.sources.databases import one_reading_query

    with pytest.raises(Exception, match="only reads|Invalid expression"):
        one_reading_query(query, dialect)
    assert one_reading_query("select a /*! into outfile 'x' */ from t; -- x", dialect).lower() == "select a from t"


def test_postgres_runs_no_two_commands_at_once_wherever_they_come_from(server, postgres, victim):
    from kinfolk.sources.addresses import Address
    from kinfolk.sources.databases import open_engine

    before = victim()
    engine = open_engine(Address(f"postgres://me@/postgres?host={server['host']}&port={server['port']}"))
    with pytest.raises(Exception, match="multiple commands"):
        engine.connection.raw_sql("commit; drop table victim")
    engine.close()
    assert victim() == before


def test_a_kind_of_database_that_nobody_knows_is_an_error(capsys):
    address = "nosuch://me@server/shop"
    assert main(["fit", address, "--query", "select 1", "--task", "a", "--target", "b"]) == 1
    assert "nosuch:// is no kind of database that is known" in capsys.readouterr().err
