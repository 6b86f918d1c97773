"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path beside `path`; on leaving without an error it takes the place of `path`, at once.

    Whoever reads `path` meets the old file or the new one, also after a kill or a power cut. An error or an interrupt
    leaves the old file and removes the temporary one. Missing folders are made.

    Examples
    --------
    >>> with replacing("/tmp/kinfolk-doctest.txt") as partial:
    ...     _ = partial.write_text("whole")
    >>> Path("/tmp/kinfolk-doctest.txt").read_text()
    'whole'
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.", suffix=path.suffix)
    os.close(descriptor)
    partial = Path(name)
    try:
        yield partial
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        partial.chmod(0o666 & ~_umask())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
