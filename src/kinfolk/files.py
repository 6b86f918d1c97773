"""Files that are there whole or not at all."""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

STDOUT = Path("/dev/stdout")
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # no room: on the disk, for the user, in one file


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path beside `path`; on leaving without an error it takes the place of `path`, at once.

    Whoever reads `path` meets the old file or the new one, also after a kill or a power cut. An error or an interrupt
    leaves the old file and removes the temporary one. Missing folders are made. A link stays: the file behind it is
    replaced. A device, pipe or socket stays too: the finished file is copied into it.

    Examples
    --------
    >>> with replacing("/tmp/kinfolk-doctest.txt") as partial:
    ...     _ = partial.write_text("whole")
    >>> Path("/tmp/kinfolk-doctest.txt").read_text()
    'whole'
    """
    if is_special(path):
        with tempfile.TemporaryDirectory() as folder:
            partial = Path(folder) / Path(path).name
            partial.touch()
            with naming_full_disk(path):
                yield partial
                _copy_into(Path(path), partial)
        return
    path = Path(os.path.realpath(path))
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: give the path of a file")
    path.parent.mkdir(parents=True, exist_ok=True)
    # Named before it is made, unlike a file of `tempfile`: an interrupt as it is made must find it.
    partial = path.parent / f".{path.name[:20]}.{secrets.token_hex(8)}{path.suffix[:20]}"
    try:
        os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        with naming_full_disk(path):
            yield partial
            with partial.open("rb") as file:
                os.fsync(file.fileno())
        partial.chmod(0o666 & ~_umask())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def naming_full_disk(path: str | os.PathLike[str]) -> Iterator[None]:
    """The error of a full disk names the file to be written, which libraries leave out; some name a temporary one."""
    try:
        yield
    except Exception as error:
        said = re.search(r"\(os error ([0-9]+)\)", str(error))  # of libraries in Rust
        code = getattr(error, "errno", None) or (int(said.group(1)) if said else None)
        if code in FULL:
            raise OSError(code, f"{os.strerror(code)}. Make room, or name another place", str(path)) from error
        raise


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text as it is, in UTF-8, whole or not at all."""
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8", newline="")


def is_special(path: str | os.PathLike[str]) -> bool:
    """Whether a path is a device, pipe or socket, or stands for an open one: such a node must not be renamed over."""
    path = Path(path)
    # Links to whatever the shell has opened, which may well be a file.
    if path.absolute().as_posix().startswith(("/dev/std", "/dev/fd/", "/proc/")):
        return True
    return path.exists() and not path.is_file() and not path.is_dir()


def same_file(one: Path, two: Path) -> bool:
    """Whether two paths lead to one file: by another spelling, a link, a hard link, or where case does not matter."""
    if one.exists() and two.exists():
        return one.samefile(two)
    return os.path.realpath(one) == os.path.realpath(two)


def _copy_into(path: Path, finished: Path) -> None:
    target: int | Path = path
    if path == STDOUT:
        sys.stdout.flush()
        target = 1  # opened by its name, a socket or another user's terminal would be refused
    with finished.open("rb") as source, open(target, "wb", closefd=target is path) as out:
        shutil.copyfileobj(source, out)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
