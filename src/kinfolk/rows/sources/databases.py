"""Databases: the rows of a query, or the query itself as a lazy frame whose statistics the database computes.

DuckDB by its own module, SQLite by Python's, PostgreSQL and whatever else Ibis connects to by Ibis.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kinfolk.rows.sources.files import Source, polars
from kinfolk.rows.sources.lines import first_line


class Address(str):
    """Where a database is: duckdb:///shop.db, sqlite:///shop.db, postgres://user@host/name."""

    @property
    def kind(self) -> str:
        """What speaks there."""
        return self.split("://")[0].lower()

    @property
    def path(self) -> Path | None:
        """The file of a database that is one; four slashes begin an absolute path."""
        rest = self.split("://", 1)[1]
        return Path(rest.removeprefix("/")) if self.kind in ("duckdb", "sqlite") else None

    @property
    def name(self) -> str:
        """How it is called in messages, without a password."""
        return re.sub(r"//[^/@]*@", "//", self) if self.path is None else self.path.name


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


def fetch_query(address: Address, query: str | None) -> Fetched:
    """The rows of a query."""
    pl = polars()
    with connected(address) as connection:
        asked = question(address, connection, query)
        try:
            table = (
                pl.read_database(asked, connection) if address.kind == "sqlite" else pl.DataFrame(connection.sql(asked))
            )
        except Exception as error:  # of whatever database it is
            raise ValueError(f"{address.name}: the query fails: {first_line(error)}") from None
    decimals = [name for name, kind in table.schema.items() if kind.is_decimal()]
    table = table.cast(dict.fromkeys(decimals, pl.Float64))
    return Fetched(address.path or Path(address.name.split("/")[-1]), (), "database", table=table)


def question(address: Address, connection: Any, query: str | None) -> str:
    """What to ask: the query, or all of the one table that a database has; else an error lists the tables."""
    if query:
        return query
    try:
        if address.kind == "sqlite":
            names = [name for (name,) in connection.execute("select name from sqlite_master where type = 'table'")]
        elif address.kind == "duckdb":
            names = [name for (name,) in connection.sql("select table_name from information_schema.tables").fetchall()]
        else:
            names = list(connection.list_tables())
    except Exception as error:  # of whatever database it is
        raise ValueError(f"{address.name} cannot be read: {first_line(error)}") from None
    if len(names) != 1:
        listed = ", ".join(sorted(names)[:8]) + (", ..." if len(names) > 8 else "")
        raise ValueError(f'{address.name} has {len(names)} tables ({listed}): ask with --query "select ..."')
    return 'select * from "' + names[0].replace('"', '""') + '"'


@contextmanager
def connected(address: Address) -> Iterator[Any]:
    """An open connection, to be read only."""
    if address.path is not None and not address.path.exists():
        raise FileNotFoundError(f"there is no database file {str(address.path)!r}")
    connection = _connect(address)
    try:
        yield connection
    finally:
        close = getattr(connection, "close", None) or connection.disconnect
        close()


def _connect(address: Address) -> Any:
    try:
        if address.kind == "sqlite":
            return sqlite3.connect(f"file:{address.path}?mode=ro", uri=True)
        if address.kind == "duckdb":
            import duckdb

            return duckdb.connect(str(address.path), read_only=True)
        import ibis

        return ibis.connect(str(address))
    except ImportError as error:
        raise ImportError(f"{address.name} needs {error.name}: pip install 'kinfolk[sql]'") from None
    except Exception as error:  # of whatever database it is
        raise ValueError(f"{address.name} cannot be opened: {first_line(error)}") from None
