"""Where the public data files are: a folder of yours, the cache, or the archive they come from.

No data file is part of the package. `fetch` looks, in this order,

1. in `data_home`, or if that is None in the folder that the environment variable KINFOLK_DATA names;
2. in the cache: the folder that the environment variable KINFOLK_CACHE names, or `~/.cache/kinfolk`;
3. at the UCI Machine Learning Repository, and keeps the file in the cache.

In these folders a file is called `<folder>/<file>` of `SOURCES`. It must have the published SHA-256, so that results
never depend on a copy that someone has edited.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from dataclasses import dataclass
from http.client import HTTPException, IncompleteRead
from io import BytesIO
from pathlib import Path, PurePosixPath
from urllib.request import urlopen
from zipfile import BadZipFile, ZipFile

from kinfolk.files import replacing

TIMEOUT = 60.0  # seconds without an answer before a download is given up
MOST_BYTES = 2**26  # of a download and of the file in it; the published ones are below 2 MB


@dataclass(frozen=True)
class PublishedFile:
    """One published file: its place below a data folder, its checksum, and the zip archive it comes in."""

    folder: str
    file: str
    sha256: str
    url: str | None


_UCI = "https://archive.ics.uci.edu/static/public"

SOURCES = {
    "parkinsons": PublishedFile(
        "parkinsons_telemonitoring",
        "parkinsons_updrs.data",
        "f2c7d5025dec4e92e7feae367a5f7ccf58789a10ac6b54bdf15976c599f9dd39",
        f"{_UCI}/189/parkinsons+telemonitoring.zip",
    ),
    "birmingham": PublishedFile(
        "birmingham_parking",
        "dataset.csv",
        "f1e28b9c697769a1a05cd20148241b60b1a73fee4907611163efc6fd9d12770a",
        f"{_UCI}/482/parking+birmingham.zip",
    ),
    "birmingham_locations": PublishedFile(
        "birmingham_parking", "locations.csv", "d8a2e6169fc31252e5d57a7efcf5f703cd0e6e41cabb6c1d4e3a669313513277", None
    ),
}


def cache_home() -> Path:
    """Folder of downloaded files."""
    return Path(os.environ.get("KINFOLK_CACHE") or "~/.cache/kinfolk").expanduser()


def find(name: str, data_home: str | os.PathLike[str] | None = None) -> Path | None:
    """Path of a file of `SOURCES`, its checksum verified, or None if it is not on this machine."""
    source = SOURCES[name]
    own = data_home or os.environ.get("KINFOLK_DATA")
    homes = [Path(own).expanduser()] if own else []
    for home in [*homes, cache_home()]:
        path = home / source.folder / source.file
        if path.is_file():
            _verify(path.read_bytes(), source, f"{path}", "Delete or replace it")
            return path
    return None


def fetch(name: str, data_home: str | os.PathLike[str] | None = None) -> Path:
    """Path of a file of `SOURCES`, downloaded into the cache if it is not on this machine.

    A file that cannot be downloaded raises FileNotFoundError, one that is not the published file ValueError.
    """
    path = find(name, data_home)
    if path is not None:
        return path
    source = SOURCES[name]
    content = _unpack(_download(source), source)
    _verify(content, source, f"{source.file} of {source.url}", _by_hand(source))
    path = cache_home() / source.folder / source.file
    with replacing(path) as partial:
        partial.write_bytes(content)
    return path


def _by_hand(source: PublishedFile) -> str:
    return (
        f"Get {source.url or source.file} by other means, put the file at "
        f"<folder>/{source.folder}/{source.file}, and set KINFOLK_DATA=<folder> or pass data_home=<folder>"
    )


def _verify(content: bytes, source: PublishedFile, where: str, remedy: str) -> None:
    digest = hashlib.sha256(content).hexdigest()
    if digest != source.sha256:
        raise ValueError(
            f"{where} is not the published file: its SHA-256 is {digest} ({len(content)} bytes), "
            f"but {source.sha256} is expected. {remedy}."
        )


def _download(source: PublishedFile) -> bytes:
    if source.url is None:
        raise FileNotFoundError(f"{source.file} is not offered for download. {_by_hand(source)}.")
    try:
        with urlopen(source.url, timeout=TIMEOUT) as answer:
            content: bytes = answer.read(MOST_BYTES + 1)
            if len(content) > MOST_BYTES:
                raise OSError(f"more than {MOST_BYTES:,} bytes, far more than the file has")
            if answer.length:  # with a limit, read does not say that the connection broke off
                raise IncompleteRead(content, answer.length)
            return content
    except (OSError, HTTPException) as error:
        raise FileNotFoundError(
            f"{source.file} is not on this machine and {source.url} cannot be downloaded ({error!r}). "
            f"Try again with a network connection. Or: {_by_hand(source)}."
        ) from error


def _unpack(archive: bytes, source: PublishedFile) -> bytes:
    try:
        with ZipFile(BytesIO(archive)) as files:
            members = {PurePosixPath(path).name: path for path in files.namelist()}
            if files.getinfo(members[source.file]).file_size > MOST_BYTES:
                raise BadZipFile(f"{source.file} is larger than {MOST_BYTES:,} bytes")
            return files.read(members[source.file])
    except (BadZipFile, KeyError, EOFError, zlib.error) as error:
        raise ValueError(
            f"{source.url} gave {len(archive)} bytes that are not a zip archive with {source.file} in it "
            f"({error!r}). Try again. Or: {_by_hand(source)}."
        ) from error
