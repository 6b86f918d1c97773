"""Tables in databases are the tables in files."""

import json
import sqlite3

import duckdb
import pytest
from tables_for_tests import read, shops, write

from kinfolk.cli import main
from kinfolk.store import load

FAST = ("--method", "mean-shrunk", "--cv", "3", "--json", "--out", "model.kin")
COLUMNS = ("--task", "shop", "--target", "sales")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    write(tmp_path / "data.csv", shops())
    monkeypatch.chdir(tmp_path)
    header, *rows = shops()
    with sqlite3.connect("shop.sqlite") as lite:
        lite.execute("create table sales (shop text, region text, open text, size real, sales real)")
        lite.executemany("insert into sales values (?, ?, ?, ?, ?)", rows)
    lite.close()
    with duckdb.connect("shop.db") as duck:
        duck.sql("create table sales as select * from read_csv('data.csv', types = {'shop': 'varchar'})")
        duck.sql("create table other as select 1 as one")
    return tmp_path


def run(capsys, *arguments):
    capsys.readouterr()
    code = main([str(argument) for argument in arguments])
    said = capsys.readouterr()
    return code, said.out, said.err


@pytest.mark.parametrize(
    "table",
    [["sqlite:///shop.sqlite"], ["duckdb:///shop.db", "--query", "select * from sales"]],
    ids=["sqlite", "duckdb"],
)
def test_a_table_in_a_database_gives_the_model_of_the_file(table, folder, capsys):
    _, out, _ = run(capsys, "fit", "data.csv", *COLUMNS, *FAST)
    expected, coef = json.loads(out), load("model.kin").coef_
    code, out, err = run(capsys, "fit", *table, *COLUMNS, *FAST)
    assert code == 0, err
    found = json.loads(out)
    assert (found["rows"], found["inputs"], found["encoded"]) == (72, expected["inputs"], ["region"])
    assert load("model.kin").coef_ == pytest.approx(coef, abs=1e-10)
    _, file, _ = run(capsys, "predict", "model.kin", "data.csv")
    code, base, err = run(capsys, "predict", "model.kin", *table)
    assert code == 0 and [r["shop"] for r in read(base)] == [r["shop"] for r in read(file)]
    assert [float(r["prediction"]) for r in read(base)] == pytest.approx([float(r["prediction"]) for r in read(file)])


@pytest.mark.parametrize(
    ("table", "error"),
    [
        (["duckdb:///shop.db"], 'shop.db has 2 tables (other, sales): ask with --query "select ..."'),
        (["duckdb:///shop.db", "--query", "select * from sale"], "shop.db: the query fails: "),
        (["duckdb:///absent.db"], "there is no database file 'absent.db'"),
        (["sqlite:///data.csv"], "data.csv cannot be read: file is not a database"),
        (
            ["data.csv", "--query", "select 1"],
            "--query asks a database, e.g. duckdb:///shop.db, but data.csv",
        ),
    ],
)
def test_what_a_database_cannot_give_is_told_in_one_line(table, error, folder, capsys):
    code, _, err = run(capsys, "fit", *table, *COLUMNS, "--quiet")
    assert code == 1 and error in err and err.count("\n") == 1


def test_with_stream_the_database_computes_the_statistics(folder, capsys):
    asked = ("--query", "select shop, size, sales from sales")
    options = (*COLUMNS, "--method", "gamtl", "--set", "ridge=0.5", "--cv", "0", "--json", "--out", "model.kin")
    _, out, err = run(capsys, "fit", "duckdb:///shop.db", *asked, *options)
    coef = load("model.kin").coef_
    code, out, err = run(capsys, "fit", "duckdb:///shop.db", *asked, *options, "--stream")
    assert code == 0 and "shop.db computes the statistics: all features must be numbers" in json.loads(out)["notes"], (
        err
    )
    assert load("model.kin").coef_ == pytest.approx(coef, rel=1e-6)


def test_a_database_is_never_written_over(folder, capsys):
    code, _, err = run(capsys, "fit", "sqlite:///shop.sqlite", *COLUMNS, "--out", "shop.sqlite", "--quiet")
    assert code == 1 and "is a file that is read" in err
