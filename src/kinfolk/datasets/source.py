"""Where the public data files are: a folder of yours, the cache, or the archive they come from.

No data file is part of the package. :func:`fetch` looks, in this order,

1. in ``data_home``, or if that is None in the folder named by the environment variable ``KINFOLK_DATA``;
2. in the cache: the environment variable ``KINFOLK_CACHE``, or ``~/.cache/kinfolk``;
3. at the UCI Machine Learning Repository, and keeps what it got in the cache.

In each folder the file has the name ``<folder>/<file>`` of :data:`SOURCES`. Whatever is found must have the
published SHA-256, so results never depend on a copy that someone has edited.
"""

import hashlib
import os
import tempfile
import zlib
from dataclasses import dataclass
from http.client import HTTPException
from io import BytesIO
from pathlib import Path, PurePosixPath
from urllib.request import urlopen
from zipfile import BadZipFile, ZipFile

TIMEOUT = 60.0  # seconds without an answer before a download is given up


@dataclass(frozen=True)
class Source:
    """One published file: its place below a data folder, its checksum, and the zip archive it comes in."""

    folder: str
    file: str
    sha256: str
    url: str | None


_UCI = "https://archive.ics.uci.edu/static/public"

SOURCES = {
    "parkinsons": Source(
        "parkinsons_telemonitoring",
        "parkinsons_updrs.data",
        "f2c7d5025dec4e92e7feae367a5f7ccf58789a10ac6b54bdf15976c599f9dd39",
        f"{_UCI}/189/parkinsons+telemonitoring.zip",
    ),
    "birmingham": Source(
        "birmingham_parking",
        "dataset.csv",
        "f1e28b9c697769a1a05cd20148241b60b1a73fee4907611163efc6fd9d12770a",
        f"{_UCI}/482/parking+birmingham.zip",
    ),
    "birmingham_locations": Source(
        "birmingham_parking",
        "locations.csv",
        "d8a2e6169fc31252e5d57a7efcf5f703cd0e6e41cabb6c1d4e3a669313513277",
        None,
    ),
}


def cache_home() -> Path:
    """Return the folder of downloaded files: ``KINFOLK_CACHE``, or ``~/.cache/kinfolk``."""
    return Path(os.environ.get("KINFOLK_CACHE") or "~/.cache/kinfolk").expanduser()


def find(name: str, data_home: str | os.PathLike[str] | None = None) -> Path | None:
    """Return the path of the data file `name`, its checksum verified, or None if it is not here."""
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
    """Return the path of the data file `name`, downloaded into the cache if it is nowhere on this machine.

    Parameters
    ----------
    name : str
        A key of :data:`SOURCES`.
    data_home : path, optional
        Folder to look in first; None means the environment variable ``KINFOLK_DATA``.

    Raises
    ------
    FileNotFoundError
        The file is not here and cannot be downloaded.
    ValueError
        The file, or the archive that was downloaded, is not the published one.
    """
    path = find(name, data_home)
    if path is not None:
        return path
    source = SOURCES[name]
    content = _unpack(_download(source), source)
    _verify(content, source, f"{source.file} of {source.url}", _by_hand(source))
    return _write(content, cache_home() / source.folder / source.file)


def _by_hand(source: Source) -> str:
    return (
        f"Get {source.url or source.file} by other means, put the file at "
        f"<folder>/{source.folder}/{source.file}, and set KINFOLK_DATA=<folder> or pass data_home=<folder>"
    )


def _verify(content: bytes, source: Source, where: str, remedy: str) -> None:
    found = hashlib.sha256(content).hexdigest()
    if found != source.sha256:
        raise ValueError(
            f"{where} is not the published file: its SHA-256 is {found} ({len(content)} bytes), "
            f"but {source.sha256} is expected. {remedy}."
        )


def _download(source: Source) -> bytes:
    if source.url is None:
        raise FileNotFoundError(f"{source.file} is not offered for download. {_by_hand(source)}.")
    try:
        with urlopen(source.url, timeout=TIMEOUT) as answer:
            content: bytes = answer.read()
    except (OSError, HTTPException) as error:
        raise FileNotFoundError(
            f"{source.file} is not on this machine and {source.url} cannot be downloaded ({error!r}). "
            f"Try again with a network connection. Or: {_by_hand(source)}."
        ) from error
    return content


def _unpack(archive: bytes, source: Source) -> bytes:
    try:
        with ZipFile(BytesIO(archive)) as files:
            members = {PurePosixPath(path).name: path for path in files.namelist()}
            return files.read(members[source.file])
    except (BadZipFile, KeyError, EOFError, zlib.error) as error:
        raise ValueError(
            f"{source.url} gave {len(archive)} bytes that are not a zip archive with {source.file} in it "
            f"({error!r}). Try again. Or: {_by_hand(source)}."
        ) from error


def _write(content: bytes, path: Path) -> Path:
    """Write so that `path` exists either complete or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    draft = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    return path
