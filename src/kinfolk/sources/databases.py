"""Databases: the rows of a query, or the query itself as a lazy frame whose statistics the database computes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from kinfolk.sources.addresses import Address
from kinfolk.sources.engines import Engine, QueryError, open_engine
from kinfolk.sources.files import Source, polars


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
    pl = polars()
    with opened(address, files=files) as engine:
        asked = question(address, engine, query)
        try:
            table = engine.rows(engine.checked(asked))
        except QueryError:
            raise
        except Exception as error:  # of whatever database it is
            raise ValueError(f"{address.name}: the query fails: {address.reason(error)}") from None
    decimals = [name for name, kind in table.schema.items() if kind.is_decimal()]
    table = table.cast(dict.fromkeys(decimals, pl.Float64))
    return Fetched(address.table, (), "database", table=table)


@contextmanager
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


@contextmanager
def opened(address: Address, *, files: bool = False) -> Iterator[Engine]:
    """An open database, to be read only; what its driver says meanwhile is passed on without the password."""
    engine = open_engine(address, files=files)
    try:
        yield engine
    except QueryError as error:
        raise ValueError(f"{address.name}: the query fails: {address.masked(str(error))}") from None
    except Exception as error:
        if type(error).__module__.partition(".")[0] in ("builtins", "kinfolk"):
            raise
        raise ValueError(f"{address.name}: the query fails: {address.reason(error)}") from None
    finally:
        engine.close()
