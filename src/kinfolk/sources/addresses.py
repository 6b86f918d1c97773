"""Addresses of databases, which may hold a password: read without guessing, shown without it.

    postgres://user:password@host:5432/database?sslmode=require

A message shows `postgres://user@host/database` and nothing else, and what a driver says is shown without the password,
in whatever way the driver writes it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, quote_plus, unquote, unquote_plus

from kinfolk.words import shortened

KIND = "[a-z][a-z0-9+.-]*"
FILES = ("duckdb", "sqlite")  # kinds of databases that are a file
ALIASES = {"postgresql": "postgres"}
# Parameters whose values are no secret; those of all others are.
PLAIN = ("host", "port", "user", "dbname", "database", "schema", "sslmode", "connect_timeout", "charset")
SECRETS = "(?:password|passwd|pwd|token|secret)"  # names of parameters, anywhere
UNREADABLE = "the address"
SHORT = 4  # characters: shorter secrets are masked as whole words only, or the text could not be read any more
LINE = 300  # characters of what a driver says


class Parts(NamedTuple):
    """What the address of a server says, decoded."""

    user: str
    password: str
    host: str
    port: str
    database: str
    parameters: dict[str, str]


@dataclass(frozen=True)
class Address:
    """Where a database is: duckdb:///shop.db, sqlite:///shop.db, postgres://user@host/name."""

    text: str = field(repr=False)

    @property
    def kind(self) -> str:
        """What speaks there."""
        kind = self.text.split("://")[0].lower()
        return ALIASES.get(kind, kind)

    @property
    def path(self) -> Path | None:
        """The file of a database that is one; four slashes begin an absolute path."""
        rest = self.text.split("://", 1)[1]
        return Path(rest.removeprefix("/")) if self.kind in FILES else None

    @cached_property
    def parts(self) -> Parts:
        """User, host and the rest of the address of a server; one that can be read in two ways is an error."""
        authority, tail = _cut(self._rest, "[/?#]")
        if not re.fullmatch(KIND, self.kind):
            raise ValueError(f"{self._kind} does not begin with a kind of database: write postgres://user@host/name")
        if "@" in tail or "#" in tail:
            raise ValueError(
                f"{self._kind}: an @ or # after the first / or ? makes it unclear where the password ends. In a "
                "password, user or parameter write %2F for /, %3F for ?, %23 for #, %40 for @ and %25 for %"
            )
        login, _, server = authority.rpartition("@")
        user, _, password = login.partition(":")
        host, port = _cut(server, ":(?![^[]*])")  # colons in brackets belong to a host of IPv6
        if not re.fullmatch("(:[0-9]*)?", port):
            raise ValueError(f"{self._kind}: what follows the host and a colon must be a port, which is a number")
        path = tail.partition("?")[0]
        parameters = {unquote(key): unquote(value) for key, value in self._parameters()}
        user, password, host, database = map(unquote, (user, password, host.strip("[]"), path[1:]))
        return Parts(user, password, host, port[1:], database, parameters)

    @property
    def name(self) -> str:
        """How it is called in messages: user, host and database, without a password and without parameters."""
        if self.path is not None:
            return self.path.name if self.exists() else Path(self.shown_path).name
        try:
            user, _, host, _, database, _ = self.parts
        except ValueError:
            return self._kind
        login = f"{_plain(user)}@" if user else ""
        return f"{self.kind}://{login}{_plain(host, ':')}" + (f"/{_plain(database)}" if database else "")

    @property
    def _kind(self) -> str:
        return f"{self.kind}://..." if re.fullmatch(KIND, self.kind) else UNREADABLE

    @property
    def _rest(self) -> str:
        return self.text.split("://", 1)[1]

    def _parameters(self) -> list[tuple[str, str]]:
        """What follows the question mark, as it is written."""
        pairs = (pair.partition("=") for pair in self._rest.partition("?")[2].split("&") if pair)
        return [(key, value) for key, _, value in pairs]

    def exists(self) -> bool:
        """Whether the file of a database is there."""
        try:
            return self.path is not None and self.path.exists()
        except (OSError, ValueError):  # a name that no file can have
            return False

    @property
    def shown_path(self) -> str:
        """The file of a database that is not there, without what may be a password."""
        path = str(self.path).split("?")[0]
        return "..." if is_connection_string(path) else path

    @property
    def table(self) -> Path:
        """What a table from here is called as a file: the model is written beside it, or here."""
        if self.path is not None:
            return self.path
        word = _plain(self.parts.database.split("/")[0]) or _plain(self.parts.host)
        return Path(word if word.strip(".") else self.kind)

    def reason(self, error: object) -> str:
        """The first line of what a driver says, without the password."""
        error = _first_of(error)
        lines = self.masked(str(error)).strip().splitlines()
        return shortened(lines[0] if lines else type(error).__name__, LINE)

    def masked(self, text: str) -> str:
        """A text of somebody else's, without what is secret in the address."""
        for secret in self._secrets:
            whole = (r"(?<!\w)", r"(?!\w)") if len(secret) < SHORT else ("", "")
            text = re.sub(re.escape(secret).join(whole), "***", text, flags=re.IGNORECASE)
        return text

    @cached_property
    def _secrets(self) -> list[str]:
        """What must not be shown, in every way in which it may be written, the longest first."""
        words = {word for secret in self._hidden() for word in (secret, *_pieces(secret))}
        found = {way for word in (self.text, *words) for way in _ways(word)}
        return sorted(filter(str.strip, found), key=lambda way: (-len(way), way))

    def _hidden(self) -> Iterator[str]:
        """The password and the values of parameters; what looks like them, whatever the address is."""
        yield from (value for key, value in self._parameters() if unquote(key).lower() not in PLAIN)
        yield from re.findall(rf"(?i){SECRETS}\w*\s*=\s*([^&;,\s]+)", unquote(self.text))
        yield from re.findall(r"(?s)[^/:]*:(?!//)(.*)@", self.text if self._kind == UNREADABLE else self._rest)
        try:
            yield "" if self.path is not None else self.parts.password
        except ValueError:  # nobody knows where the password is
            yield self._rest


def without_addresses(text: str) -> str:
    """A text that quotes what a user has typed, cut where it may be an address or a password.

    Examples
    --------
    >>> without_addresses("unrecognized arguments: postgres://me:secret@host/shop")
    'unrecognized arguments: postgres://...'
    """
    return re.sub(rf"(?is)(:/+(?=.*[@=])|\b{SECRETS}\s*=).*", r"\1...", text)


def is_connection_string(text: str) -> bool:
    """Whether a text that names no file looks like another way to write the address of a database.

    Examples
    --------
    >>> is_connection_string("host=server password=secret"), is_connection_string("sales=2.csv")
    (True, False)
    """
    return bool(re.search(rf"(?is)\b{SECRETS}\s*=|:.*@", text))


def _plain(word: str, also: str = "") -> str:
    """The beginning of a word that is nothing but a name: a password may follow a wrong separator."""
    return _cut(word, rf"[^\w.$+{also}-]")[0]


def _cut(text: str, pattern: str) -> tuple[str, str]:
    """What stands before the first match, and the rest."""
    found = re.search(pattern, text)
    at = found.start() if found else len(text)
    return text[:at], text[at:]


def _first_of(error: object) -> object:
    """What went wrong first: the clearing up after an error of a library may fail in its turn."""
    before = getattr(error, "__context__", None)
    same = before is not None and _library(before) == _library(error) != "builtins"
    return _first_of(before) if same else error


def _library(error: object) -> str:
    return type(error).__module__.partition(".")[0]


def _ways(secret: str) -> Iterator[str]:
    """A secret as drivers may write it; Python's reader of addresses leaves line breaks and tabs out."""
    read = [secret, unquote(secret), unquote_plus(secret)]
    for plain in (*read, *(re.sub(r"[\t\r\n]", "", word) for word in read)):
        yield from (plain, quote(plain), quote(plain, safe=""), quote_plus(plain))
        yield from (repr(plain)[1:-1], json.dumps(plain)[1:-1], plain.replace("'", "''"), plain.strip())


def _pieces(secret: str) -> list[str]:
    """The longer pieces of a secret, of which a driver that splits it elsewhere may print one."""
    tails = [secret[at.end() :] for at in re.finditer("[@:]", secret)]
    pieces = [*tails, *re.split("[@:/?&]", secret), *re.split(r"\W+", unquote(secret))]
    return [piece for piece in pieces if len(piece) >= SHORT]
