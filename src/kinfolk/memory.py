"""Work that will not fit into memory is refused before it is tried, with the number."""

from __future__ import annotations

import os
from pathlib import Path

SMALL = 64 * 2**20  # bytes that are not worth a look
CGROUP = Path("/sys/fs/cgroup")


def check_memory(needed: float, what: str, remedy: str) -> None:
    """Raise a MemoryError if `what` takes more bytes than there are; nothing happens where that is not known.

    Examples
    --------
    >>> check_memory(8 * 1e15, "statistics of 1000000 tasks", "Use fewer features.")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    MemoryError: statistics of 1000000 tasks need about 8.0 PB of memory, but ... is free. Use fewer features.
    """
    if not fits_into_memory(needed):
        free = in_words(available_memory() or 0)
        raise MemoryError(f"{what} need about {in_words(needed)} of memory, but {free} is free. {remedy}")


def check_limit(needed: float, what: str) -> None:
    """Raise a MemoryError if the limit of this process (ulimit -v) leaves less: libraries end there without a word."""
    free = _of_process()
    if free is not None and needed > free:
        raise MemoryError(
            f"{what} takes about {in_words(needed)} of address space, but the limit of this process (ulimit -v) leaves "
            f"{in_words(max(free, 0))}. Raise it"
        )


def fits_into_memory(needed: float) -> bool:
    """Whether there are so many bytes; yes where that is not known."""
    if needed <= SMALL:
        return True
    free = available_memory()
    return free is None or needed <= free


def available_memory() -> int | None:
    """Bytes that can still be taken: of the machine, the container and the limit of the process; None if not known."""
    limits = [size for size in (_of_machine(), _of_container(), _of_process()) if size is not None]
    return max(min(limits), 0) if limits else None


def in_words(size: float) -> str:
    """A number of bytes with its unit.

    >>> in_words(12_300_000_000)
    '12.3 GB'
    """
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if size < 1000:
            return f"{size:.{0 if unit == 'bytes' else 1}f} {unit}"
        size /= 1000
    return f"{size:.1f} PB"


def _of_machine() -> int | None:
    """What Linux counts as available; elsewhere all memory, as nothing better is known."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def _of_container() -> int | None:
    """The limit of the control group minus what it holds, file cache aside; version 2, then 1."""
    for limit, used, cached in (
        ("memory.max", "memory.current", "inactive_file"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "total_inactive_file"),
    ):
        try:
            most, now = (CGROUP / limit).read_text().strip(), int((CGROUP / used).read_text())
            stat = dict(line.split() for line in (CGROUP / limit).with_name("memory.stat").read_text().splitlines())
            if most.isdigit():
                return int(most) - now + int(stat.get(cached, 0))
        except (OSError, ValueError):
            continue
    return None


def _of_process() -> int | None:
    """The limit of the address space of this process (ulimit -v) minus what it has; None without a limit."""
    try:
        import resource

        most = resource.getrlimit(resource.RLIMIT_AS)[0]
        if most == resource.RLIM_INFINITY:
            return None
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        return most - pages * os.sysconf("SC_PAGE_SIZE")
    except (ImportError, OSError, ValueError):
        return None
