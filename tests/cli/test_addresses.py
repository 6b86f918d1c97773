"""No password of an address is ever printed, and no file is named after one."""

import json
import re
import sys
import traceback

import pytest
from tables_for_tests import shops, write

import kinfolk.sources.databases as databases
from kinfolk.cli import main
from kinfolk.sources.addresses import Address, without_addresses

SECRET = "s3cr3t"
# The secret in every place and way in which it was met; of those split by separators both halves are secret.
ADDRESSES = [
    "postgres://me:s3cr3t@localhost:1/shop",
    "postgresql://me:s3cr3t@localhost:1/shop",
    "POSTGRES://me:s3cr3t@localhost:1/shop",
    "postgres://me:s3cr3t@localhost:1/shop?sslmode=require",
    "postgres://localhost:1/shop?user=me&password=s3cr3t",
    "postgres://localhost:1/shop?user=me&PASSWORD=s3cr3t",
    "postgres://localhost:1/shop?user=me&p%61ssword=s3cr3t",
    "postgres://localhost:1/shop?user=me;password=s3cr3t",
    "postgres://localhost:1/shop&password=s3cr3t",
    "postgres://localhost:1/shop password=s3cr3t",
    "postgres://localhost:1/shop%20password=s3cr3t",
    "postgres://me@localhost:1/shop?sslpassword=s3cr3t&sslmode=verify-full",
    "postgres://me@localhost:1/shop?options=-c%20app.token=s3cr3t",
    "postgres://me@localhost:1/shop?passfile=/home/me/s3cr3t",
    "postgres://me@localhost:1/shop?unheard_of=s3cr3t",
    "postgres://me@localhost:1/shop?connect_timeout=s3cr3t&password=s3cr3t",
    "postgres://me:s3cr3t@x9@localhost:1/shop",
    "postgres://me:x9@s3cr3t@localhost:1/shop",
    "postgres://me:@s3cr3t@@localhost:1/shop",
    "postgres://me:s3cr3t/x9@localhost:1/shop",
    "postgres://me:x9/s3cr3t@localhost:1/shop",
    "postgres://me:12/s3cr3t@localhost:1/shop",
    "postgres://me:s3cr3t?x9@localhost:1/shop",
    "postgres://me:x9?s3cr3t@localhost:1/shop",
    "postgres://me:12?a=s3cr3t@localhost:1/shop",
    "postgres://me:s3cr3t#x9@localhost:1/shop",
    "postgres://me:x9#s3cr3t@localhost:1/shop",
    "postgres://me:s3cr3t:x9@localhost:1/shop",
    "postgres://me:s3cr3t",
    "postgres://me:s3cr3t/shop",
    "postgres://:s3cr3t@/shop",
    "postgres://me:s3cr3t@",
    "postgres://me:s3cr3t@[::1]:1/shop",
    "postgres://me:s3cr3t@[::1/shop",
    "postgres://me:s3cr3t@localhost:port/shop",
    "postgres://me:s3cr3t@local host/shop",
    "postgres://me:s3cr3t%40x9@localhost:1/shop",
    "postgres://me:%73%33%63%72%33%74@localhost:1/shop",
    "postgres://me:s3cr3t%0Asecond@localhost:1/shop",
    "postgres://me:s3cr3t%ZZ@localhost:1/shop",
    "postgres://me:s3cr3t\u2100@localhost:1/shop",
    "mysql://me:s3cr3t@localhost:1/shop",
    "mssql://sa:s3cr3t@localhost:1/shop?driver=x",
    "mssql://localhost;user=sa;password=s3cr3t/shop",
    "snowflake://me:s3cr3t@account/db/schema?warehouse=w",
    "databricks://token:s3cr3t@host:443/default",
    "clickhouse://me:s3cr3t@localhost:1/shop?token=s3cr3t",
    "nosuch://me:s3cr3t@localhost:1/shop",
    "jdbc:postgresql://localhost/shop?password=s3cr3t",
    "me:s3cr3t@postgres://localhost/shop",
    "sqlite://me:s3cr3t@localhost/shop.db",
    "sqlite:///shop.db?password=s3cr3t",
    "duckdb:///shop.db?motherduck_token=s3cr3t",
    "duckdb:///md:shop?motherduck_token=s3cr3t",
    "host=localhost dbname=shop password=s3cr3t",
    "host=localhost PASSWORD = 's3cr3t'",
    "postgres:/me:s3cr3t@localhost/shop",
    "postgres:me:s3/cr3t@localhost/shop",
    "Server=localhost;Database=shop;Uid=me;Pwd=s3cr3t",
]
FIT = ("--query", "select 1 as one", "--task", "shop", "--target", "sales", "--method", "independent", "--cv", "0")


def shows_it(text):
    """Whether the secret, or a half of it, stands in a text, written in any way."""
    return bool(re.search(r"s3cr3t|s3/cr3t|cr3t|%73|x9", text, flags=re.IGNORECASE))


def said(arguments, capfd):
    """What a command prints, and its exit code."""
    capfd.readouterr()
    try:
        code = main(list(arguments))
    except SystemExit as end:
        code = end.code
    except Exception as error:  # of --debug, which Python itself would print
        code = 1
        sys.stderr.write("".join(traceback.format_exception(error)))
    out, err = capfd.readouterr()
    return code, out + err


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PGPASSWORD", raising=False)
    return tmp_path


@pytest.mark.parametrize("more", [[], ["--json"], ["--stream"], ["--debug"], ["--report", "r.html"]], ids=" ".join)
@pytest.mark.parametrize("address", ADDRESSES)
def test_no_command_prints_a_password(address, more, folder, capfd):
    code, text = said(["fit", address, *FIT, *more], capfd)
    assert code in (1, 2) and text and not shows_it(text)
    assert not list(folder.iterdir())


@pytest.mark.parametrize(
    "arguments",
    [
        ["predict", "{}", "model.kin"],
        ["report", "{}", "data.csv", "--target", "sales"],
        ["graph", "{}"],
        ["fit", "data.csv", *FIT, "--out", "{}"],
        ["fit", "data.csv", "{}", *FIT],
        ["fit", "data.csv", *FIT, "--report", "{}"],
        ["predict", "model.kin", "data.csv", "--{}"],
        ["{}"],
    ],
)
@pytest.mark.parametrize("address", ADDRESSES[:3])
def test_an_address_at_another_place_is_not_repeated(address, arguments, folder, capfd):
    code, text = said([argument.format(address) for argument in arguments], capfd)
    assert code in (1, 2) and not shows_it(text)


@pytest.mark.parametrize("address", ADDRESSES)
def test_whatever_a_driver_says_is_passed_on_without_the_password(address):
    here = Address(address) if "://" in address else Address(f"postgres://me:{SECRET}@h/shop")
    for echo in (here.text, repr(here.text), json.dumps(here.text), f"no password {SECRET!r}", f"[{SECRET.upper()}]"):
        assert not shows_it(here.reason(ValueError(f"cannot connect: {echo}")))
    assert SECRET not in repr(here) and SECRET not in str(here) and SECRET not in f"{here}"


@pytest.mark.parametrize(
    ("password", "echo"),
    [
        ("p%40ss+w%2Frd", 'auth failed for "p@ss+w/rd"'),
        ("p%40ss+w%2Frd", "auth failed for p%40ss+w%2Frd"),
        ("p%40ss%20w%2Frd", "auth failed for p%40ss+w%2Frd"),
        ("it%27s%20mine", "password 'it''s mine'"),
        ("a%5Cb%22c1", r'{"password": "a\\b\"c1"}'),
        ("%C3%A4%C3%B6%C3%BC1", "password 'äöü1'"),
        ("%C3%A4%C3%B6%C3%BC1", r'"\u00e4\u00f6\u00fc1"'),
        ("first%0Asecond", "first\nsecond"),
        ("x&s3c\n\nr3t\u2100", "netloc 'me:x&s3cr3t\u2100@server' contains invalid characters"),
        ("long" * 200, f"{'.' * 290}{'long' * 200}"),
        ("abc", 'user "me" with abc, abcde'),
    ],
)
def test_a_password_is_masked_in_every_way_of_writing_it(password, echo):
    here = Address(f"postgres://me:{password}@server/shop")
    text = here.reason(ValueError(echo))
    assert "***" in text
    assert not re.search(r"p@ss|p%40ss|w/rd|mine|a\\|c1|äöü|u00e4|first|second|s3c|long|abc(?!de)", text)


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("postgres://me:pw@server:5432/shop?sslmode=require", "postgres://me@server/shop"),
        ("postgresql://server/shop", "postgres://server/shop"),
        ("postgres://me:pw@[::1]:5432/shop", "postgres://me@::1/shop"),
        ("postgres://me@/shop?host=/tmp", "postgres://me@/shop"),
        ("postgres://me:a@b@server/shop", "postgres://me@server/shop"),
        ("mysql://server", "mysql://server"),
        ("duckdb:///folder/shop.db", "shop.db"),
        ("sqlite:////folder/shop.db", "shop.db"),
    ],
)
def test_the_name_of_a_database_is_user_host_and_database(address, name):
    assert Address(address).name == name


@pytest.mark.parametrize(
    ("address", "table"),
    [
        ("postgres://me:pw@server:5432/shop?password=pw", "shop"),
        ("postgres://me:pw@server/shop/sales", "shop"),
        ("postgres://me:pw@server", "server"),
        ("postgres://me:pw@/..", "postgres"),
        ("postgres://me:pw@/", "postgres"),
        ("sqlite:////folder/shop.db", "/folder/shop.db"),
    ],
)
def test_a_model_is_called_after_the_database(address, table):
    assert str(Address(address).table) == table


def test_special_characters_of_a_login_reach_the_server_decoded():
    parts = Address("postgres://m%40e:a%2Fb+c%25d@server:5432/shop?sslmode=require&x=%26").parts
    assert parts == ("m@e", "a/b+c%d", "server", "5432", "shop", {"sslmode": "require", "x": "&"})


@pytest.mark.parametrize(
    ("address", "error"),
    [
        ("postgres://me:a/b@server/shop", "%2F for /, %3F for ?, %23 for #"),
        ("postgres://me:ab@server:here/shop", "a port, which is a number"),
    ],
)
def test_an_address_that_cannot_be_read_says_what_to_write(address, error, capfd):
    code, text = said(["fit", address, *FIT], capfd)
    assert code == 1 and error in text and text.count("\n") == 1


@pytest.mark.parametrize(
    ("kind", "missing", "error"),
    [
        ("mysql", None, "needs a driver that is not installed: pip install 'ibis-framework[mysql]'"),
        ("mysql", "MySQLdb", "needs its driver MySQLdb: pip install 'ibis-framework[mysql]'"),
        ("mysql", "ibis", "needs ibis: pip install 'kinfolk[sql]'"),
        ("postgres", "psycopg", "needs psycopg: pip install 'kinfolk[sql]'"),
        ("postgres", None, "needs the client library of PostgreSQL: pip install 'psycopg[binary]'"),
        ("duckdb", "duckdb", "needs duckdb: pip install 'kinfolk[sql]'"),
    ],
)
def test_a_missing_driver_is_named_with_what_installs_it(kind, missing, error, folder, monkeypatch, capfd):
    def refuse(*_, **__):
        raise ImportError("Failed to import", name=missing)

    (folder / "shop.db").touch()
    for name in ("ByIbis", "PostgreSQL", "DuckDB"):
        monkeypatch.setattr(databases, name, refuse)
    address = "duckdb:///shop.db" if kind == "duckdb" else f"{kind}://me:{SECRET}@server/shop"
    code, text = said(["fit", address, *FIT], capfd)
    assert code == 1 and error in text and text.count("\n") == 1 and not shows_it(text)


def test_words_that_hold_no_secret_are_left_as_they_are():
    assert without_addresses("unrecognized arguments: --fast data.csv") == "unrecognized arguments: --fast data.csv"


def test_a_folder_without_a_name_asks_for_the_name_of_the_model(folder, capfd):
    write(folder / "data.csv", shops())
    fit = ["--task", "shop", "--target", "sales", "--method", "independent", "--cv", "0"]
    for name in (".", "../" + folder.name + "/."):
        code, text = said(["fit", name, *fit], capfd)
        assert (code, list(folder.iterdir())) in ((1, [folder / "data.csv"]), (0, [folder / "data.csv"]))
    code, text = said(["fit", ".", *fit], capfd)
    assert code == 1 and "the folder '.' has no name for the model" in text and "--out ../model.kin" in text
