"""Databases: the rows of a query, or the query itself as a lazy frame whose statistics the database computes.

Whatever is open behind an address is asked one query that may only read:

| engine | one query, by its own parser | cannot write |
|---|---|---|
| SQLite | its module takes one statement | opened read-only; an authorizer allows to select |
| DuckDB | `extract_statements` | opened read-only, without files and network, with its settings locked |
| PostgreSQL | the query as a table of another, as a prepared statement | one transaction, begun as read-only |
| others, by Ibis | SQLGlot in the dialect of the engine | as far as the engine has read-only sessions |

The first word of a query is looked at too, for the sake of the message alone.
"""

from __future__ import annotations

import contextlib
import json
import re
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any

from kinfolk.sources.addresses import Address
from kinfolk.sources.files import Source, polars
from kinfolk.words import counted

READING = (
    "A query is one SELECT, WITH, VALUES or TABLE that only reads. Change the database with its own program, then ask"
)
FIRST_WORDS = ("select", "with", "values", "table")
BEFORE = re.compile(r"(?:\s|\(|--[^\n]*(?:\n|$)|/\*(?!!).*?\*/)*", re.DOTALL)  # blanks, brackets, comments
FILE_HINT = ". A query may read files with --allow-files (DuckDB only)"
SAFE_PRAGMAS = (
    *("data_version", "page_size", "table_info", "table_xinfo", "table_list"),
    *("index_list", "index_info", "index_xinfo"),
)
# Changes are up to the file, which is opened read-only: tables of texts and places prepare some to be read.
SAFE_ACTIONS = ("SELECT", "READ", "RECURSIVE", "INSERT", "UPDATE", "DELETE")
# Steps of a plan that write a file, or run what the plan does not show.
WRITING_STEPS = re.compile("COPY|EXPORT|INSERT|UPDATE|DELETE|CREATE|ATTACH|JSON_EXECUTE|LOGGING|PROFILING")
# The same in a query as SQLGlot reads it.
WRITING_PARTS = (
    *("insert", "update", "delete", "merge", "truncatetable", "copy", "into", "set", "lock", "command"),
    *("create", "drop", "alter", "grant", "pragma", "attach", "detach", "execute"),
)


class QueryError(ValueError):
    """A query that is not one that only reads."""


@dataclass(frozen=True)
class Fetched(Source):
    """The rows of a query, in memory."""

    table: Any = None

    @property
    def size(self) -> int:
        """Bytes in memory."""
        return int(self.table.estimated_size())

    def names(self) -> list[str]:
        """Columns of the query."""
        return [*self.table.columns, *([] if self.joint is None else [self.joint])]

    def rows(self) -> int:
        """Number of rows."""
        return int(self.table.height)

    def frame(self, columns: Iterable[str], **_: Any) -> Any:
        """Some columns, as a lazy frame."""
        return self.joined(self.table.lazy()).select(list(columns))


def fetch_query(address: Address, query: str | None, *, files: bool = False) -> Fetched:
    """The rows of a query, which may read `files` if the database is DuckDB."""
    with opened(address, files=files) as engine:
        asked = question(address, engine, query)
        try:
            table = engine.rows(engine.checked(asked))
        except Exception as error:  # of whatever database it is
            raise failure(address, error) from None
    decimals = [name for name, kind in table.schema.items() if kind.is_decimal()]
    table = table.cast(dict.fromkeys(decimals, polars().Float64))
    return Fetched(address.table, (), "database", table=table)


@contextlib.contextmanager
def lazy_query(address: Address, query: str | None, *, files: bool = False) -> Iterator[Any]:
    """The query as a lazy frame, as long as the database is open."""
    with opened(address, files=files) as engine:
        yield engine.lazy(engine.checked(question(address, engine, query)))


def question(address: Address, engine: Engine, query: str | None) -> str:
    """What to ask: the query, or all of the one table that a database has; else an error lists the tables."""
    if query:
        return query
    try:
        names = engine.tables()
    except Exception as error:  # of whatever database it is
        raise ValueError(f"{address.name} cannot be read: {address.reason(error)}") from None
    if len(names) != 1:
        listed = ", ".join(sorted(names)[:8]) + (", ..." if len(names) > 8 else "")
        raise ValueError(f'{address.name} has {len(names)} tables ({listed}): ask with --query "select ..."')
    return f"select * from {engine.quoted(names[0])}"


@contextlib.contextmanager
def opened(address: Address, *, files: bool = False) -> Iterator[Engine]:
    """An open database, to be read only; what its driver says meanwhile is passed on without the password."""
    engine = open_engine(address, files=files)
    try:
        yield engine
    except Exception as error:
        ours = type(error).__module__.partition(".")[0] in ("builtins", "kinfolk")
        if ours and not isinstance(error, QueryError):
            raise
        raise failure(address, error) from None
    finally:
        engine.close()


def failure(address: Address, error: Exception) -> ValueError:
    """A query that failed, in one line without the password."""
    why = address.masked(str(error)) if isinstance(error, QueryError) else address.reason(error)
    return ValueError(f"{address.name}: the query fails: {why}")


def open_engine(address: Address, *, files: bool = False) -> Engine:
    """Open a database to be read; queries of DuckDB may read files if `files`."""
    if address.path is not None and not address.exists():
        raise FileNotFoundError(f"there is no database file {address.shown_path!r}")
    if files and address.kind != "duckdb":
        raise ValueError(f"--allow-files is for queries of DuckDB, but {address.name} is {address.kind}: leave it out")
    if address.path is None:
        address.parts  # noqa: B018  (an address that cannot be read is an error here)
    try:
        if address.kind == "duckdb":
            return DuckDB(address, files=files)
        engines: dict[str, type[SQLite | ByIbis]] = {"sqlite": SQLite, "postgres": PostgreSQL}
        return engines.get(address.kind, ByIbis)(address)
    except ImportError as error:
        raise ImportError(f"{address.name} needs {_missing(address, error)}") from None
    except QueryError:
        raise
    except Exception as error:  # of whatever database it is
        raise ValueError(f"{address.name} cannot be opened: {address.reason(error)}") from None


def _missing(address: Address, error: ImportError) -> str:
    """What is to be installed, and how."""
    if address.kind == "postgres" and error.name is None:
        return "the client library of PostgreSQL: pip install 'psycopg[binary]'"
    if address.kind in ("duckdb", "postgres") or (error.name or "").split(".")[0] == "ibis":
        return f"{error.name}: pip install 'kinfolk[sql]'"
    driver = f"its driver {error.name}" if error.name else "a driver that is not installed"
    return f"{driver}: pip install 'ibis-framework[{address.kind}]'"


class Engine(ABC):
    """An open database, whose `connection` reads only."""

    connection: Any

    @abstractmethod
    def tables(self) -> list[str]:
        """Names of its tables."""

    def quoted(self, table: str) -> str:
        """The name of a table as a query has it; most databases quote as the standard has it."""
        return '"' + table.replace('"', '""') + '"'

    @abstractmethod
    def checked(self, query: str) -> str:
        """The query, if it is one that only reads; else an error."""

    @abstractmethod
    def lazy(self, query: str) -> Any:
        """A checked query as a lazy frame."""

    def rows(self, query: str) -> Any:
        """The rows of a checked query, as a frame of polars."""
        return polars().DataFrame(self.lazy(query))

    def close(self) -> None:
        """Close it."""
        self.connection.close()


class SQLite(Engine):
    """A file of SQLite."""

    def __init__(self, address: Address) -> None:
        assert address.path is not None
        # As a URI, in which ?, # and % of the name are quoted: else another file would be opened.
        self.connection = sqlite3.connect(f"{address.path.absolute().as_uri()}?mode=ro", uri=True)
        self.connection.set_authorizer(_may_read)

    def tables(self) -> list[str]:
        """Names of its tables."""
        return [name for (name,) in self.connection.execute("select name from sqlite_master where type = 'table'")]

    def checked(self, query: str) -> str:
        """The query, if it is one that only reads; the rest is up to SQLite itself, as it runs."""
        check_first_word(query)
        return query

    def lazy(self, query: str) -> Any:
        """SQLite is too slow for statistics: its rows are fetched."""
        return self.rows(query).lazy()

    def rows(self, query: str) -> Any:
        """The rows of a checked query."""
        try:
            return polars().read_database(query, self.connection)
        except (sqlite3.Warning, sqlite3.ProgrammingError) as error:
            raise QueryError(f"{error} {READING}") from None
        except sqlite3.DatabaseError as error:
            if re.search("not authorized|authorization denied|prohibited|readonly", str(error)):
                raise QueryError(f"{error}. {READING}") from None
            raise


def _may_read(action: int, name: str | None, value: str | None, *_: str | None) -> int:
    """What SQLite asks before it does anything."""
    allowed = action in {getattr(sqlite3, f"SQLITE_{word}") for word in SAFE_ACTIONS}
    if action == sqlite3.SQLITE_FUNCTION:
        allowed = str(value).lower() != "load_extension"
    if action == sqlite3.SQLITE_PRAGMA:
        allowed = str(name).lower() in SAFE_PRAGMAS
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


class DuckDB(Engine):
    """A file of DuckDB."""

    def __init__(self, address: Address, *, files: bool) -> None:
        import duckdb

        self.parse = duckdb.extract_statements
        self.tokens = duckdb.tokenize
        self.files = files
        settings = {
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "python_enable_replacements": "false",  # a table of this name is no variable of ours
        }
        assert address.path is not None
        self.connection = duckdb.connect(str(address.path.absolute()), read_only=True, config={**settings})
        if not files:  # not before the file is open, or a name with ? would not be found
            self.connection.execute("set enable_external_access = false")
        self.connection.execute("set lock_configuration = true")

    def tables(self) -> list[str]:
        """Names of its tables."""
        return [
            name for (name,) in self.connection.execute("select table_name from information_schema.tables").fetchall()
        ]

    def checked(self, query: str) -> str:
        """The query, if it is one that only reads."""
        statements = self.parse(query)
        kinds = [statement.type.name for statement in statements]
        if kinds != ["SELECT"]:
            shown = f" ({', '.join(kinds)[:80]})" if kinds else ""
            raise QueryError(f"it has {counted(len(kinds), 'statement')}{shown}. {READING}")
        text = statements[0].query.encode()
        ends = [at for at, _ in self.tokens(statements[0].query) if text[at : at + 1] == b";"]
        query = text[: ends[0] if ends else None].decode()  # lazy frames put it into brackets
        if self.files:
            self._check_plan(query)
        return query

    def _check_plan(self, query: str) -> None:
        """Where files may be read they could be written: WITH may hold a COPY, and a text may hold a query."""
        (plan,) = self.connection.execute(f"explain (format json) {query}").fetchall()
        names = set(_steps(json.loads(plan[1])))
        if wrong := sorted(name for name in names if WRITING_STEPS.search(name)):
            raise QueryError(f"its plan has the step {wrong[0]}. {READING}")

    def lazy(self, query: str) -> Any:
        """A checked query as a lazy frame."""
        try:
            return self.connection.sql(query)
        except Exception as error:
            if "disabled by configuration" in str(error):
                raise QueryError(f"{str(error).splitlines()[0]}{FILE_HINT}") from None
            raise


def _steps(plan: Any) -> list[str]:
    """The names of all steps of a plan."""
    steps = plan if isinstance(plan, list) else [plan]
    return [name for step in steps for name in (str(step.get("name", "")).upper(), *_steps(step.get("children", [])))]


class ByIbis(Engine):
    """Any other database that Ibis connects to."""

    def __init__(self, address: Address) -> None:
        import ibis

        known = sorted(point.name for point in entry_points(group="ibis.backends"))
        if address.kind not in known:
            raise QueryError(f"{address.kind}:// is no kind of database that is known: {', '.join(known)}")
        self.connection = ibis.connect(address.text)
        if address.kind == "mysql":
            with contextlib.closing(self.connection.raw_sql("SET SESSION TRANSACTION READ ONLY")):
                pass

    def tables(self) -> list[str]:
        """Names of its tables."""
        return list(self.connection.list_tables())

    def quoted(self, table: str) -> str:
        """The name of a table as a query has it."""
        import sqlglot

        return str(sqlglot.to_identifier(table, quoted=True).sql(self.connection.dialect))

    def checked(self, query: str) -> str:
        """The query, if it is one that only reads, as SQLGlot writes it: without comments, which may be run."""
        check_first_word(query)
        return one_reading_query(query, self.connection.dialect)

    def lazy(self, query: str) -> Any:
        """A checked query as a lazy frame."""
        return self.connection.sql(query)

    def close(self) -> None:
        """Close it."""
        self.connection.disconnect()


TYPE_NAMES = """
select case when t.typtype = 'e' then 'enum' else format_type(c.kind, nullif(c.width, -1)) end
from unnest(%s::oid[], %s::int[]) with ordinality as c (kind, width, place) join pg_type as t on t.oid = c.kind
order by c.place
"""


class PostgreSQL(ByIbis):
    """A PostgreSQL server: everything happens in one transaction, which was begun as read-only.

    Such a transaction cannot be turned into another after its first query, not by a function either. A prepared
    statement holds one command, so that a query cannot end the transaction.
    """

    def __init__(self, address: Address) -> None:
        import ibis
        import psycopg

        user, password, host, port, database, parameters = address.parts
        database, _, schema = database.partition("/")
        given = {"user": user, "password": password, "host": host, "port": port, "dbname": database}
        given = {name: value for name, value in given.items() if value} | parameters
        given["dbname"] = given.pop("database", given.get("dbname", ""))
        schema = given.pop("schema", schema)
        options: dict[str, Any] = {name: value for name, value in given.items() if value}
        self.server: Any = psycopg.connect(**options)
        self.server.read_only = True
        self.server.prepare_threshold = 0  # every statement, from its first time on
        path = "select set_config('search_path', coalesce(%s::text, current_setting('search_path')), false)"
        self.server.execute(path, [schema or None])
        self.connection = ibis.postgres.from_connection(self.server)

    def checked(self, query: str) -> str:
        """The query, if it is one that only reads: as part of another, and without a semicolon at its end."""
        import sqlglot

        check_first_word(query)
        tokens = sqlglot.tokenize(query, read="postgres")
        while tokens and tokens[-1].token_type.name == "SEMICOLON":
            query = query[: tokens.pop().start]
        query = as_select(query)
        self._schema(query)
        return query

    def _schema(self, query: str) -> dict[str, Any]:
        """Names and types of the columns, of the server itself: Ibis would make a view to find out."""
        from psycopg import errors

        with self.server.transaction(), self.server.cursor() as cursor:
            try:
                cursor.execute(f"select * from (\n{query}\n) as asked limit 0", prepare=True)
            except (errors.SyntaxError, errors.FeatureNotSupported) as error:
                raise QueryError(f"{str(error).splitlines()[0]}. {READING}") from None
            columns = cursor.description
            names = [column.name for column in columns]
            if twice := sorted({name for name in names if names.count(name) > 1}):
                raise QueryError(f"two of its columns are called {twice[0]!r}. Name one of them with AS")
            formats = [cursor.pgresult.fmod(k) for k in range(len(columns))]
            types = [column.type_code for column in columns]
            cursor.execute(TYPE_NAMES, [types, formats])
            written = [name for (name,) in cursor.fetchall()]
        return {
            name: self.connection.compiler.type_mapper.from_string(kind)
            for name, kind in zip(names, written, strict=True)
        }

    def lazy(self, query: str) -> Any:
        """A checked query as a lazy frame."""
        return self.connection.sql(query, schema=self._schema(query))

    def close(self) -> None:
        """Close it."""
        self.server.rollback()  # of what a read-only transaction lets pass, as large objects before PostgreSQL 16
        super().close()


def one_reading_query(query: str, dialect: Any) -> str:
    """The one query that SQLGlot finds in a text, if it holds nothing that writes.

    It is returned as SQLGlot writes it, without comments, since some servers run what stands in them.
    """
    import sqlglot

    found = sqlglot.parse(as_select(query), read=dialect)
    trees = [tree for tree in found if tree is not None and tree.key != "semicolon"]  # one with a comment behind it
    if len(trees) != 1 or not isinstance(trees[0], sqlglot.exp.Query):
        raise QueryError(f"it has {counted(len(trees), 'statement')}. {READING}")
    for part in trees[0].walk():
        if part.key in WRITING_PARTS:
            raise QueryError(f"it holds {part.key.upper()}. {READING}")
    return str(trees[0].sql(dialect, comments=False))


def as_select(query: str) -> str:
    """A query that begins with TABLE or VALUES as one that begins with SELECT, which SQLGlot understands.

    Examples
    --------
    >>> as_select("table sales"), as_select("values (1)")
    ('select * from sales', 'select * from (\\nvalues (1)\\n) as asked')
    """
    word = _first_word(query)
    start = BEFORE.match(query).end()  # type: ignore[union-attr]
    if word == "table":
        return f"{query[:start]}select * from{query[start + len(word) :]}"
    return f"select * from (\n{query}\n) as asked" if word == "values" else query


def check_first_word(query: str) -> None:
    """An error if the first word of a query is not that of one that reads."""
    word = _first_word(query)
    if word not in FIRST_WORDS:
        raise QueryError(f"it begins with {word[:40]!r}. {READING}")


def _first_word(query: str) -> str:
    rest = query[BEFORE.match(query).end() :]  # type: ignore[union-attr]
    return (re.match(r"\w*", rest).group() or rest[:1]).lower()  # type: ignore[union-attr]
