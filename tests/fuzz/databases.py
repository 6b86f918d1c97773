"""Hostile queries of SQLite and DuckDB, and addresses with secrets.

    python tests/fuzz/databases.py [count], see `campaign`

Whatever a query says, tables and files are afterwards what they were; it gives rows, or an error of one line. Whatever
an address is, its secret is not printed and no file is named after it.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import sqlite3
import sys
import tempfile
import traceback
from functools import cache
from pathlib import Path
from urllib.parse import quote, quote_plus

import duckdb
import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

import campaign

from kinfolk.cli import main
from kinfolk.sources.addresses import Address

FIT = ("--task", "shop", "--target", "sales", "--method", "independent", "--cv", "0", "--quiet", "--out", "m.kin")
ROWS = "select shop, size, sales from sales"
OUTPUTS = ("victim.csv", "new.csv", "new.db", "sub/new.parquet")

# What a query is made of. A word in braces is replaced by one of its lines, at random, at most eight deep.
GRAMMAR = {
    "danger": "vacuum into '{file}'|copy sales to '{file}'|with c as (copy sales to '{file}') {rows}"
    "|select * from enable_logging(storage = 'file', storage_path = '{file}')"
    "|select * from enable_profiling(format = 'json', save_location = 'new.json')",
    "query": "{blank}{danger}{end}|{danger}|{read}{end}"
    "|{read}|{blank}{read}{end}|{blank}{write}{end}|{read};{blank}{write}{end}"
    "|{write};{blank}{read}{end}|({read}){end}|{cte}{end}|{blank}{function}{end}|{noise}",
    "blank": "|| | |\n|\t|-- {word}\n|/* {word} */|/* ; */|-- ;\n|/*!{word}*/ |\ufeff|;|\\",
    "end": "|||||;|; | -- {word}|;;|; |; -- {word}|\n-- {word}|/* {word}|{blank}|'|\"|;{blank}{write}",
    "word": "select|drop table victim|copy|;|'|x|\u00e9|$$|attach",
    "read": "{rows}|{rows}|{rows}|{rows} where size > 0|{rows} union all {rows}|values ('a', 1, 2)|table sales"
    "|from sales|{cte}|select * from ({rows})|select * from ({read}) as q"
    "|select shop, size, sales, {scalar} as more from sales"
    "|pivot sales on shop in ('s1', 's2') using sum(size) group by sales|explain {rows}|describe sales"
    "|{function}",
    "rows": ROWS,
    "write": "drop table victim|delete from victim|insert into victim values (2)|update victim set a = 3"
    "|create table n as {rows}|create temp table n as {rows}|alter table victim add b int"
    "|attach '{file}' as n|detach n|vacuum|vacuum into '{file}'|vacuum main into '{file}'"
    "|copy sales to '{file}'|copy ({rows}) to '{file}' (format {format})|copy victim from 'data.csv'"
    "|export database '{file}'|import database 'sub'|checkpoint|force checkpoint|begin|commit|rollback"
    "|begin exclusive|reindex|analyze|pragma {pragma}|set {pragma}|set global {pragma}"
    "|reset enable_external_access|install httpfs|load httpfs|load '{file}'"
    "|call enable_logging(storage = 'file', storage_path = '{file}')|truncate victim"
    "|replace into victim values (4)|delete from victim returning a"
    "|insert into victim {rows} returning *|create sequence s|use memory|execute x|prepare x as {write}"
    "|create secret s (type s3)|create persistent secret s (type http)"
    "|merge into victim using sales on true when matched then delete|update extensions"
    "|create view v as {rows}|create or replace macro f(x) as x|explain analyze {write}|savepoint a",
    "pragma": "journal_mode = wal|user_version = 7|writable_schema = 1|profiling_output = '{file}'"
    "|enable_profiling|enable_external_access = true|lock_configuration = false|temp_directory = 'sub'"
    "|log_query_path = '{file}'|query_only = off|temp_store_directory = 'sub'|wal_checkpoint(truncate)"
    "|table_info(victim)|optimize|access_mode = 'read_write'|database_list",
    "format": "csv|parquet|json",
    "file": "|".join(OUTPUTS),
    "scalar": "nextval('counter')|load_extension('{file}')|write_log('x')|getvariable('x')|random()"
    "|current_setting('temp_directory')|({rows})|setval('counter', 9)|fts3_tokenizer('x')"
    "|writefile('{file}', 'x')|readfile('data.csv')|getenv('HOME')|'{word}'",
    "function": "select * from read_csv('data.csv')|select * from '{file}'|select * from read_text('/etc/passwd')"
    "|select * from glob('*')|select * from query('{'write}')|select * from query('{'cte}')"
    "|select * from enable_logging(storage = 'file', storage_path = '{file}')"
    "|select * from enable_profiling(format = 'json', save_location = '{file}')"
    "|select * from checkpoint()|select * from force_checkpoint()"
    "|select * from json_execute_serialized_sql(json_serialize_sql('{'cte}'))"
    "|select * from pragma_table_info('victim')|select * from sqlite_scan('new.db', 't')"
    "|select * from read_duckdb('duck.db')|select * from duckdb_settings()"
    "|select * from query_table('victim')|select {scalar} as shop|select * from read_blob('{file}')"
    "|select * from pragma_user_version",
    "cte": "with c as ({rows}) {rows}|with c as ({rows}) {write}|with c as ({write}) {rows}"
    "|with c as materialized ({write}) select * from c|with recursive c as ({write}) {rows}"
    "|with c as (copy sales to '{file}') {rows}"
    "|with c as (copy ({rows}) to '{file}' (return_files)) select * from c"
    "|with c as (with d as ({write}) {rows}) select * from c",
    "noise": "|;|;;|--|/*|'|\"|)|(|select|with|\x00|{word}{word}|{blank}{blank}",
}
DEEPEST = 8

SECRETS = "abcXYZ0189@:/?#%&=+;,. '\"\\$!~\u00e9\u2100\n"
USERS = ("me", "me@server", "a.b-c_d", "")
HOSTS = ("localhost:1", "127.0.0.1:1", "[::1]:1", "", "no such host", "localhost:port")
KINDS = (
    "postgres",
    "postgresql",
    "mysql",
    "POSTGRES",
    "nosuch",
    "jdbc:postgresql",
    "sqlite",
    "duckdb",
    "mssql",
    "snowflake",
)
PARAMETERS = ("password", "PASSWORD", "sslpassword", "token", "motherduck_token", "passfile", "pwd", "api_key", "x")


def one(rng: np.random.Generator) -> str:
    """A query or an address."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "work"
        shutil.copytree(sound(), folder)
        os.chdir(folder)
        try:
            return asked(folder, rng) if rng.random() < 0.6 else addressed(folder, rng)
        finally:
            os.chdir("/")


@cache
def sound() -> Path:
    """A folder with a database of each kind, a victim in it and a victim beside it."""
    folder = Path(tempfile.mkdtemp()) / "sound"
    (folder / "sub").mkdir(parents=True)
    (folder / "data.csv").write_text(
        "shop,size,sales\n" + "".join(f"s{k % 4},{k * 7 % 13},{k * k % 17}\n" for k in range(40))
    )
    (folder / "victim.csv").write_text("precious\n")
    with contextlib.closing(sqlite3.connect(folder / "lite.db")) as lite, lite:
        lite.execute("create table sales (shop text, size real, sales real)")
        lite.executemany(
            "insert into sales values (?, ?, ?)", [(f"s{k % 4}", k * 7 % 13, k * k % 17) for k in range(40)]
        )
        lite.execute("create table victim as select 1 as a")
    with duckdb.connect(str(folder / "duck.db")) as duck:
        duck.execute(f"create table sales as select * from read_csv('{folder}/data.csv')")
        duck.execute("create table victim as select 1 as a")
        duck.execute("create sequence counter")
    return folder


def asked(folder: Path, rng: np.random.Generator) -> str:
    """A query from the grammar; what is there is what was there."""
    kind, file = (("sqlite", "lite.db"), ("duckdb", "duck.db"))[rng.integers(2)]
    more = [option for option in ("--stream", "--allow-files")[: 1 + (kind == "duckdb")] if rng.random() < 0.4]
    query = in_any_case(grown("{query}", rng, DEEPEST), rng)
    before = contents(folder)
    code, said = run(["fit", f"{kind}:///{file}", f"--query={query or ';'}", *FIT, *more])
    assert contents(folder) == before, f"{query!r} {more} changed {changed(before, contents(folder))}"
    assert code in (0, 1) and "Traceback" not in said and "internal error" not in said, f"{query!r} {more}: {said}"
    assert code == 0 or said.count("\n") == 1, f"{query!r}: {said}"
    return f"{kind} {'answered' if code == 0 else 'refused'}"


def grown(text: str, rng: np.random.Generator, depth: int) -> str:
    """A text whose words in braces are replaced by what the grammar has for them, in quotes after an apostrophe."""

    def line(word: re.Match[str]) -> str:
        lines = GRAMMAR[word.group(2)].split("|")
        found = grown(lines[rng.integers(len(lines))], rng, depth - 1)
        return found.replace("'", "''") if word.group(1) else found

    return re.sub(r"\{('?)(\w+)\}", line, text).replace("\x00", "") if depth else ROWS


def in_any_case(text: str, rng: np.random.Generator) -> str:
    """The text, in half of the cases with the case of its letters at random."""
    flips = rng.random(len(text)) < (0.3 if rng.random() < 0.5 else 0)
    return "".join(c.swapcase() if flip and c.isascii() else c for c, flip in zip(text, flips, strict=True))


def contents(folder: Path) -> dict[str, bytes]:
    """Every file but the model, which is to be written, and folders."""
    files = {path for path in folder.rglob("*") if path.name != "m.kin"}
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b"" for path in files}


def changed(before: dict[str, bytes], after: dict[str, bytes]) -> list[str]:
    """Names of what differs."""
    return sorted(name for name in {*before, *after} if before.get(name) != after.get(name))


def addressed(folder: Path, rng: np.random.Generator) -> str:
    """An address with a secret in some place, written in some way."""
    secret = "".join(rng.choice(list(SECRETS), rng.integers(6, 16))) + "Zq7"
    written = (str, quote, quote_plus, lambda text: quote(text, safe=""))[rng.integers(4)](secret)
    text = address(written, (quote, quote_plus)[rng.integers(2)](secret, safe=""), rng)
    more = [option for option in ("--stream", "--json", "--debug") if rng.random() < 0.3]
    code, said = run(["fit", text, "--query", ROWS, *FIT, *more])
    assert code in (1, 2), f"{text!r}: exit {code}"
    told = [said]
    if "://" in text:
        here = Address(text)
        told += [here.reason(ValueError(f"no {way!r} or {way}")) for way in (secret, text)]
        told += [here.name, repr(here)]
    shown = [line for line in told if any(part in line for part in telling(secret))]
    assert not shown, f"{text!r} {more}: {shown}"
    assert set(contents(folder)) == set(contents(sound())), "a file was made"
    return f"address {'used' if code == 1 else 'wrong usage'}"


def address(secret: str, parameter: str, rng: np.random.Generator) -> str:
    """Where the secret is put."""
    kind, user, host = (choices[rng.integers(len(choices))] for choices in (KINDS, USERS, HOSTS))
    user = quote(user, safe="") if rng.random() < 0.5 else user
    key = PARAMETERS[rng.integers(len(PARAMETERS))]
    ways = (
        f"{kind}://{user}:{secret}@{host}/shop",
        f"{kind}://{user}:{secret}@{host}",
        f"{kind}://{user}:{secret}@{host}/shop?sslmode=require",
        f"{kind}://{user}:first@{secret}@{host}/shop",
        f"{kind}://{user}@{host}/shop?{key}={parameter}",
        f"{kind}://{user}@{host}/shop?connect_timeout=1&{key}={parameter}&sslmode=prefer",
        f"{kind}:/{user}:{secret}@{host}/shop",
        f"host=localhost dbname=shop password={secret}",
    )
    return ways[rng.integers(len(ways))]


def telling(secret: str) -> set[str]:
    """The secret, and its pieces that are too long to stand in a message by chance."""
    pieces = {piece for piece in re.split(r"\W+", secret) if len(piece) >= 4}
    return {secret, quote(secret), quote(secret, safe=""), quote_plus(secret), repr(secret)[1:-1], "Zq7"} | pieces


def run(arguments: list[str]) -> tuple[int, str]:
    """The exit code of a command and all that it printed, with the traceback of --debug."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(arguments)
        except SystemExit as end:
            code = int(end.code or 0)
        except Exception as error:
            code = 1
            err.write("".join(traceback.format_exception(error)))
    return code, out.getvalue() + err.getvalue()


if __name__ == "__main__":
    sys.exit(campaign.main("databases", one, count=5000))
