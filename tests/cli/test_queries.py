"""A query only reads: whatever it says, tables, files and settings are afterwards what they were."""

import sqlite3

import duckdb
import pytest
from tables_for_tests import shops, write

from kinfolk.cli import main
from kinfolk.sources.addresses import Address
from kinfolk.sources.databases import QueryError, open_engine

FIT = ("--task", "shop", "--target", "sales", "--method", "mean-shrunk", "--cv", "3", "--quiet", "--out", "model.kin")
ROWS = "select shop, size, sales from sales"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "data.csv", shops())
    (tmp_path / "victim.csv").write_text("precious\n")
    header, *rows = shops()
    with sqlite3.connect("lite.db") as lite:
        lite.execute("create table sales (shop text, region text, open text, size real, sales real)")
        lite.executemany("insert into sales values (?, ?, ?, ?, ?)", rows)
        lite.execute("create table victim as select 1 as a")
        lite.execute("create virtual table notes using fts5(shop, size, sales)")
        lite.execute(f"insert into notes {ROWS}")
        lite.execute("create virtual table places using rtree(id, low, high)")
        lite.execute("insert into places select rowid, size, size + 1 from sales")
    lite.close()
    with duckdb.connect("duck.db") as duck:
        duck.sql("create table sales as select * from read_csv('data.csv', types = {'shop': 'varchar'})")
        duck.sql("create table victim as select 1 as a")
        duck.sql("create sequence counter")
    return tmp_path


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != "model.kin"}


def fit(address, query, capsys, *more):
    code = main(["fit", address, "--query", query, *FIT, *more])
    return code, capsys.readouterr().err


READING = [
    f"{ROWS};",
    f" -- first; a word\n{ROWS} /* and; another */ ; -- and a last",
    "select shop, size, sales from sales where shop <> '\u00e9;' ; -- x;",
    "with s as (select * from sales) select shop, size, sales from s where region <> ';'",
    f"WITH s AS ({ROWS}) SELECT * FROM s UNION ALL SELECT * FROM s",
]


@pytest.mark.parametrize("query", READING)
@pytest.mark.parametrize("address", ["sqlite:///lite.db", "duckdb:///duck.db"])
@pytest.mark.parametrize("more", [[], ["--stream"]], ids=["", "stream"])
def test_one_statement_that_reads_is_fitted(address, query, more, folder, capsys):
    before = contents(folder)
    code, err = fit(address, query, capsys, *more, "--method", "gamtl", "--cv", "0")
    assert (code, err) == (0, "")
    assert contents(folder) == before


def test_sqlite_reads_tables_of_texts_and_places_and_duckdb_pivots(folder, capsys):
    assert fit("sqlite:///lite.db", "select shop, size, sales from notes", capsys) == (0, "")
    query = "select shop, low, high, sales from places join sales on id = sales.rowid"
    assert fit("sqlite:///lite.db", query, capsys) == (0, "")
    query = (
        "pivot (select shop, size, sales, open from sales) on open in (true, false) using count(*) group by shop, sales"
    )
    assert fit("duckdb:///duck.db", query, capsys) == (0, "")


HOSTILE = [
    f"{ROWS}; drop table victim",
    f"{ROWS};\n-- x\ndelete from victim",
    "drop table victim",
    "/* select */ delete from victim returning a as shop, 1 as sales",
    "insert into victim values (2) returning a as shop, 1 as sales",
    "attach 'new.db' as n",
    f"attach 'new.db' as n; {ROWS}",
    "explain select 1",
]
OF_SQLITE = [
    "vacuum into 'new.db'",
    "VACUUM",
    "pragma user_version = 7",
    "pragma journal_mode = wal",
    "begin exclusive",
    "with d as (select 1) delete from victim",
    "with d as (select 1) insert into victim select 5",
    "select load_extension('victim.csv')",
    "reindex",
    "create temp table x as select 1",
]
OF_DUCKDB = [
    f"copy sales to 'victim.csv'; {ROWS}",
    "copy sales to 'victim.csv'",
    f"with c as (copy sales to 'victim.csv') {ROWS}",
    f"with c as (copy (from sales) to 'new.parquet' (return_files)) {ROWS}",
    "with c as (insert into victim values (3) returning a) select a as shop, 1 as size, 2 as sales from c",
    "export database 'new'",
    f"pragma profiling_output = 'new.json'; {ROWS}",
    f"set profiling_output = 'new.json'; {ROWS}",
    "select * from enable_logging(storage = 'file', storage_path = 'logs')",
    "select * from enable_profiling(format = 'json', save_location = 'new.json')",
    "select * from query('copy sales to ''victim.csv''')",
    "select * from json_execute_serialized_sql(json_serialize_sql("
    "'with c as (copy sales to ''victim.csv'') select 1 as shop, 2 as size, 3 as sales'))",
    "select nextval('counter') as size, shop, sales from sales",
    "install httpfs",
    f"load httpfs; {ROWS}",
    "checkpoint",
    "call enable_logging(storage = 'file', storage_path = 'logs')",
]


@pytest.mark.parametrize(
    ("address", "query"),
    [("sqlite:///lite.db", query) for query in HOSTILE + OF_SQLITE]
    + [("duckdb:///duck.db", query) for query in HOSTILE + OF_DUCKDB],
)
@pytest.mark.parametrize("more", [[], ["--stream"], ["--allow-files"]], ids=["", "stream", "files"])
def test_a_query_that_would_write_is_refused_and_writes_nothing(address, query, more, folder, capsys):
    if more == ["--allow-files"]:
        more = more[: address.startswith("duckdb")]
    before = contents(folder)
    code, err = fit(address, query, capsys, *more)
    assert code == 1 and ": the query fails: " in err and err.count("\n") == 1
    assert contents(folder) == before


@pytest.mark.parametrize("address", ["sqlite:///lite.db", "duckdb:///duck.db"])
@pytest.mark.parametrize("query", [";", " ", "-- nothing"])
def test_a_query_without_a_statement_is_refused(address, query, folder, capsys):
    code, err = fit(address, query, capsys)
    assert code == 1 and "the query fails" in err and "that only reads" in err


@pytest.mark.parametrize(
    "query",
    [
        "select * from read_csv('data.csv')",
        "select * from 'data.csv'",
        "select s.* from sales s, read_text('/etc/hostname')",
        "select * from glob('*')",
    ],
)
@pytest.mark.parametrize("more", [[], ["--stream"]], ids=["", "stream"])
def test_a_query_of_duckdb_reads_no_file_unless_files_are_allowed(query, more, folder, capsys):
    code, err = fit("duckdb:///duck.db", query, capsys, *more)
    assert code == 1 and "--allow-files" in err


@pytest.mark.parametrize("query", ["select * from read_csv('data.csv')", "select * from 'data.csv' -- here;"])
def test_with_allow_files_a_query_of_duckdb_reads_a_file(query, folder, capsys):
    before = contents(folder)
    assert fit("duckdb:///duck.db", query, capsys, "--allow-files") == (0, "")
    assert contents(folder) == before


def test_allow_files_is_refused_where_it_has_no_meaning(folder, capsys):
    code, err = fit("sqlite:///lite.db", ROWS, capsys, "--allow-files")
    assert code == 1 and "--allow-files is for queries of DuckDB, but lite.db is sqlite" in err
    assert main(["fit", "data.csv", *FIT, "--allow-files"]) == 1
    assert "--allow-files is for queries of DuckDB, but data.csv is a file" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["compare", "predict", "report"])
def test_every_command_that_asks_reads_only(command, folder, capsys):
    assert fit("duckdb:///duck.db", ROWS, capsys) == (0, "")
    options = {
        "compare": ["compare", "duckdb:///duck.db", *FIT[:4]],
        "predict": ["predict", "model.kin", "duckdb:///duck.db"],
        "report": ["report", "model.kin", "duckdb:///duck.db", "--target", "sales", "--out", "r.html"],
    }
    before = contents(folder)
    code = main([*options[command], "--query", f"with c as (copy sales to 'victim.csv') {ROWS}", "--allow-files"])
    assert code == 1 and "COPY" in capsys.readouterr().err
    assert contents(folder) == before


@pytest.mark.parametrize("name", ["a#b.db", "a%41b.db", "a?mode=rwc.db", "a b.db", "x?y#z%2F.db"])
@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
def test_the_file_of_a_database_may_have_any_name(kind, name, folder, capsys):
    (folder / {"sqlite": "lite.db", "duckdb": "duck.db"}[kind]).rename(folder / name)
    before = contents(folder)
    assert fit(f"{kind}:///{name}", ROWS, capsys) == (0, "")
    assert contents(folder) == before


@pytest.mark.parametrize(
    "name", ["absent.db", "a#b.db", "a%41b.db", "lite.db?mode=rwc", "file:lite.db?mode=rwc", "%6Cite.db"]
)
@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
def test_a_database_that_is_not_there_is_not_made(kind, name, folder, capsys):
    before = contents(folder)
    code, err = fit(f"{kind}:///{name}", ROWS, capsys)
    assert code == 1 and "there is no database file" in err
    assert contents(folder) == before


@pytest.mark.parametrize("query", ["vacuum into 'new.db'", "attach 'new.db' as n", "pragma temp_store_directory = 'x'"])
def test_sqlite_itself_refuses_what_the_first_word_would_have_given_away(query, folder):
    before = contents(folder)
    engine = open_engine(Address("sqlite:///lite.db"))
    with pytest.raises(QueryError, match="not authorized|authorization denied"):
        engine.rows(query)
    engine.close()
    assert contents(folder) == before
