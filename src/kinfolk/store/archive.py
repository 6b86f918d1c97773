"""The container of a model file: a zip of `header.json` and `arrays/0.npy`, `arrays/1.npy`, ..., sealed by a checksum.

Members are stored, not compressed, so that no file can grow when it is read. The comment of the archive, its last
bytes, names the format, its version and the SHA-256 of all bytes before the digest:

    kinfolk model 3 sha256 <64 hexadecimal digits>

NumPy opens the file too: `numpy.load(path)["arrays/0"]`. Files are written to the letter of this form and read by it:
whatever differs is refused.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
import struct
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.files import replacing
from kinfolk.memory import check_memory

VERSION = 3
HEADER = "header.json"
MOST_HEADER = 32 * 2**20  # bytes; a parsed header takes some twenty times as much memory
MOST_MEMBERS = 10_000
SEAL = re.compile(rb"kinfolk model (\d{1,9}) sha256 ([0-9a-f]{64})\Z")
SEAL_BYTES = 128  # more than a seal takes
DIGEST = 64
LOCAL_HEADER, LARGE_RECORD = 30, 20  # bytes before the name and the data of a member
EPOCH = (1980, 1, 1, 0, 0, 0)  # members carry no time: the same model gives the same bytes
# Types of numbers and texts.
DTYPE = r"[<|](?:b1|[iu][1248]|f[248]|c8|c16|[US]\d{1,9}|[mM]8(?:\[\d{0,9}[a-zA-Z]{1,2}\])?)"
BRIEF: Any = {"max_header_size": 1000}  # characters that may say type and shape of an array


class ModelFileError(ValueError):
    """A model that cannot be stored, or a file that is not a sound model file of this or an earlier version."""


def array_name(index: int) -> str:
    """Name of the member that holds an array."""
    return f"arrays/{index}.npy"


def write_archive(path: str | os.PathLike[str], header: bytes, arrays: Sequence[NDArray[Any]]) -> None:
    """Write header and arrays to `path`, whole or not at all."""
    if len(header) > MOST_HEADER or len(arrays) >= MOST_MEMBERS:
        raise ModelFileError(
            f"the model has {len(arrays)} arrays and {len(header)} bytes of other values, more than a model file holds "
            f"({MOST_MEMBERS - 1} and {MOST_HEADER}): give its labels and attributes as arrays of numbers or strings"
        )
    with replacing(path) as partial:
        with zipfile.ZipFile(partial, "w", zipfile.ZIP_STORED) as archive:
            archive.writestr(zipfile.ZipInfo(HEADER, EPOCH), header)
            for index, array in enumerate(arrays):
                info = zipfile.ZipInfo(array_name(index), EPOCH)
                with archive.open(info, "w", force_zip64=array.nbytes > 2**30) as member:
                    np.lib.format.write_array(member, array, version=(1, 0), allow_pickle=False)
            archive.comment = b"kinfolk model %d sha256 " % VERSION + b"0" * DIGEST
        with partial.open("r+b") as file:
            digest = _digest(file, partial.stat().st_size - DIGEST)
            file.seek(-DIGEST, os.SEEK_END)
            file.write(digest)


@dataclass(eq=False)
class Archive:
    """An open model file whose checksum and table of contents have been checked."""

    zip: zipfile.ZipFile
    count: int
    size: int
    read: dict[int, NDArray[Any]] = field(default_factory=dict)

    def header(self) -> bytes:
        """The bytes of the header."""
        return self.zip.read(HEADER)

    def array(self, index: Any) -> NDArray[Any]:
        """An array by number; asked for twice it is the same one."""
        if type(index) is not int or not 0 <= index < self.count:
            raise ModelFileError(f"array {index!r} is not among the {self.count} in the file")
        if index not in self.read:
            name = array_name(index)
            with self.zip.open(name) as member:
                self.read[index] = _read_array(member, self.zip.getinfo(name).file_size, name)
        return self.read[index]


def open_archive(file: IO[bytes]) -> Archive:
    """Check seal, version, checksum and table of contents, in this order."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(size - SEAL_BYTES, 0))
    seal = SEAL.search(file.read(SEAL_BYTES))
    if seal is None:
        raise ModelFileError("is not a kinfolk model, or its end is missing: save the model again, or copy it again")
    _check_version(int(seal[1]))
    if _digest(file, size - DIGEST) != seal[2]:
        raise ModelFileError("is damaged (its checksum does not match): save the model again, or copy it again")
    check_memory(size, "the arrays of the model file", "Load it on a machine with more memory.")
    _check_directory(file, size - len(seal[0]))
    archive = zipfile.ZipFile(file)
    count = _checked_members(archive.infolist(), size)
    _check_no_gaps(archive)
    return Archive(archive, count, size)


def _check_version(version: int) -> None:
    if version < 1:
        raise ModelFileError("names format 0, which no kinfolk has written: save the model again, or copy it again")
    if version == 1:
        raise ModelFileError(
            "was written by kinfolk 0.1 (format 1), and only that version reads it (pip install 'kinfolk<0.2'): fit "
            "again with this one"
        )
    if version > VERSION:
        raise ModelFileError(
            f"was written by a newer kinfolk (format {version}, this one reads up to {VERSION}): upgrade kinfolk"
        )


def _digest(file: IO[bytes], size: int) -> bytes:
    """SHA-256 of the first `size` bytes, in hexadecimal digits."""
    file.seek(0)
    state = hashlib.sha256()
    while size > 0 and (block := file.read(min(2**20, size))):
        state.update(block)
        size -= len(block)
    return state.hexdigest().encode()


def _check_directory(file: IO[bytes], end: int) -> None:
    """The table of contents is small, by its own account: reading a huge one would take memory before any check.

    The archive ends with a record of 22 bytes, which says how long the table is; before it large archives have a record
    of 56 bytes that says it again, and one of 20 that points to that.
    """
    file.seek(max(end - 98, 0))
    tail = file.read(min(end, 98)).rjust(98, b"\0")
    sizes = [struct.unpack_from("<I", tail, 76 + 12)[0]]
    if tail[56:].startswith(b"PK\x06\x07"):
        sizes.append(struct.unpack_from("<Q", tail, 40)[0])
    if not tail[76:].startswith(b"PK\x05\x06") or max(sizes) > 128 * MOST_MEMBERS:
        raise ModelFileError("its table of contents is missing or too long")


def _checked_members(members: list[zipfile.ZipInfo], size: int) -> int:
    """The number of arrays, if the members are the header and numbered arrays, plain and within the file."""
    expected = [HEADER, *(array_name(k) for k in range(len(members) - 1))]
    if [m.filename for m in members] != expected:
        raise ModelFileError("its members are not a header and numbered arrays")
    for m in members:
        if m.compress_type != zipfile.ZIP_STORED or m.flag_bits & 0x1 or m.file_size != m.compress_size:
            raise ModelFileError(f"member {m.filename} is compressed or encrypted")
    if sum(m.file_size for m in members) > size or members[0].file_size > MOST_HEADER:
        raise ModelFileError("its members claim more bytes than the file has, or than a header may have")
    return len(members) - 1


def _check_no_gaps(archive: zipfile.ZipFile) -> None:
    """The members fill the file from its first byte to the table of contents: nothing else hides in it."""
    at = 0
    for m in archive.infolist():
        # Large members have a record of 20 more bytes before their data.
        if m.header_offset - at not in (0, LARGE_RECORD) or (m.header_offset and not at):
            raise ModelFileError(f"bytes that belong to no member stand before {m.filename}")
        at = m.header_offset + LOCAL_HEADER + len(m.filename) + m.file_size
    if archive.start_dir - at not in (0, LARGE_RECORD):
        raise ModelFileError("bytes that belong to no member stand before its table of contents")


def _read_array(member: IO[bytes], size: int, name: str) -> NDArray[Any]:
    """One array, after its type and shape have been compared with the bytes that are there."""
    try:
        if np.lib.format.read_magic(member) != (1, 0):
            raise ValueError("another version of the format")
        shape, _, dtype = np.lib.format.read_array_header_1_0(member, **BRIEF)
        announced = math.prod(shape) * dtype.itemsize
        if not re.fullmatch(DTYPE, dtype.str) or min(shape, default=0) < 0 or not dtype.itemsize:
            raise ValueError(f"type {dtype}, shape {shape}")
        if announced != size - member.tell():
            raise ValueError(f"shape {shape} is not the size of its data")
        member.seek(0)
        array = np.lib.format.read_array(member, allow_pickle=False, **BRIEF)
    except Exception as error:  # whatever NumPy and zipfile say about bytes that are not an array
        raise ModelFileError(f"member {name} is not an array as models have it: {str(error)[:200]}") from None
    _check_content(array, name)
    return np.asarray(array, dtype.newbyteorder("="))


def _check_content(array: NDArray[Any], name: str) -> None:
    """Bytes that NumPy takes on trust: truth values are 0 or 1, characters exist."""
    flat = array.ravel(order="K")
    if flat.dtype.kind == "b" and flat.size and flat.view(np.uint8).max() > 1:
        raise ModelFileError(f"member {name} holds truth values other than 0 and 1")
    if flat.dtype.kind == "U" and flat.size and flat.view("<u4").max() > 0x10FFFF:
        raise ModelFileError(f"member {name} holds characters that do not exist")


def path_of(path: str | os.PathLike[str], *, reading: bool = True) -> Path:
    """The path of a model file; folders are refused by name, and for reading pipes and devices, which may never end."""
    path = Path(path)
    if path.is_dir():
        raise ModelFileError(f"{path} is a folder: give the path of a file, e.g. {path / 'model.kin'}")
    if reading and not path.exists():
        raise FileNotFoundError(f"there is no model file {str(path)!r}: write one with save, or kinfolk fit")
    if reading and not path.is_file():
        raise ModelFileError(f"{path} is a pipe or a device: give the path of a file")
    return path
