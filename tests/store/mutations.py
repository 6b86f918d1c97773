"""Ways to spoil a model file: bytes at random, and contents changed with the checksum put right again."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import struct
import zipfile

import numpy as np

WORDS = [
    *(
        None,
        True,
        0,
        -1,
        1,
        2**31,
        2**63,
        10**30,
        0.5,
        -1e308,
        "",
        "x",
        "coef_",
        "GAMTL",
        "__class__",
        [],
        {},
        [[]],
        [0, 1],
    ),
    *({"array": 0}, {"array": -1}, {"array": 10**9}, {"tuple": [1]}, {"dict": [[[], 1]]}, {"type": "object"}),
    *({"broadcast": [{"array": 1}, [10**14, 3]]}, {"objects": [[10**12], []]}, {"slice": [0, 10**12, 1]}),
    *({"float": "nan"}, {"scalar": ["<f8", "00"]}, {"scalar": ["|O", "0" * 16]}, {"ufunc": "frompyfunc"}),
    *({"record": ["Gain", {}]}, {"record": ["os.system", {}]}, {"decimal": "1e999999999"}, {"date": "9"}),
    {"estimator": {"class": "Pipeline", "params": {"steps": [], "memory": "/tmp"}, "state": {}}},
    {"estimator": {"class": "PolynomialFeatures", "params": {"degree": 10**6}, "state": {}}},
    {
        "sparse": {
            "class": "array",
            "shape": [2, 2],
            "data": {"array": 1},
            "indices": {"array": 1},
            "indptr": {"array": 1},
        }
    },
]


INSIDE = ("rules_", "trunk", "report", "extras", "columns", "population")
FLOATS = (np.nan, np.inf, -np.inf, 0.0, -1.0, 1e300, -1e300, 1e100, 1e-300, 0.5)


def sealed(body: bytes, version: int = 3) -> bytes:
    """An archive with the right checksum, whatever it holds; `body` ends before the comment's length."""
    head = body + struct.pack("<H", len(b"kinfolk model 1 sha256 ") + 64) + b"kinfolk model %d sha256 " % version
    return head + hashlib.sha256(head).hexdigest().encode()


def unsealed(data: bytes) -> bytes:
    """The archive up to the length of its comment."""
    return data[: -(64 + len(b"kinfolk model 1 sha256 ") + 2)]


def members(data: bytes) -> dict[str, bytes]:
    """All members of an archive."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def archived(content, compression=zipfile.ZIP_STORED) -> bytes:
    """A sealed archive of (name, bytes) pairs, names repeated if they are."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, data in content:
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data, compress_type=compression)
    return sealed(buffer.getvalue()[:-2])


def flipped(data: bytes, rng: np.random.Generator) -> bytes:
    """A few bits turned over."""
    spoiled = bytearray(data)
    for position in rng.integers(len(data), size=rng.integers(1, 4)):
        spoiled[position] ^= 1 << int(rng.integers(8))
    return bytes(spoiled)


def cut(data: bytes, rng: np.random.Generator) -> bytes:
    """The end missing."""
    return data[: rng.integers(len(data))]


def spliced(data: bytes, rng: np.random.Generator) -> bytes:
    """A stretch repeated, removed or filled with noise."""
    start, stop = np.sort(rng.integers(len(data), size=2))
    middle = [b"", data[start:stop] * 2, rng.bytes(min(int(stop - start), 4096))][rng.integers(3)]
    return data[:start] + middle + data[stop:]


def resealed(data: bytes, rng: np.random.Generator) -> bytes:
    """Bits of the archive turned over, checksum put right: the zip reader has to cope."""
    return sealed(flipped(unsealed(data), rng))


def directory_changed(data: bytes, rng: np.random.Generator) -> bytes:
    """Bits of the table of contents turned over, checksum put right."""
    body = unsealed(data)
    start = body.index(b"PK\x01\x02")
    return sealed(body[:start] + flipped(body[start:], rng))


def arrays_changed(data: bytes, rng: np.random.Generator) -> bytes:
    """Bytes of one array's header or values changed, archive and checksum right."""
    content = members(data)
    name = str(rng.choice([n for n in content if n != "header.json"]))
    head = content[name][:128]
    content[name] = (flipped(head, rng) + content[name][128:]) if rng.random() < 0.7 else flipped(content[name], rng)
    return archived(content.items())


def header_changed(data: bytes, rng: np.random.Generator) -> bytes:
    """Values of the header replaced, removed or renamed, archive and checksum right."""
    content = members(data)
    header = json.loads(content["header.json"])
    for _ in range(rng.integers(1, 4)):
        places = list(_places(header)) or [({"left": 0}, "left")]
        where, key = places[rng.integers(len(places))]
        _spoil(where, key, rng)
    content["header.json"] = json.dumps(header).encode()
    return archived(content.items())


def header_text_changed(data: bytes, rng: np.random.Generator) -> bytes:
    """Characters of the header changed, archive and checksum right."""
    content = members(data)
    content["header.json"] = flipped(content["header.json"], rng)
    return archived(content.items())


def parts_changed(data: bytes, rng: np.random.Generator) -> bytes:
    """Rules of columns, trees, the report of a search or a private model: a few of their values spoiled."""
    content = members(data)
    header = json.loads(content["header.json"])
    named = [place for key in INSIDE for place in _named(header, key)]
    if not named:
        return header_changed(data, rng)
    places = list(_places(named[rng.integers(len(named))]))
    for _ in range(rng.integers(1, 3)):
        where, key = places[rng.integers(len(places))]
        if (isinstance(where, dict) and key in where) or (isinstance(where, list) and key < len(where)):
            _spoil(where, key, rng)
    content["header.json"] = json.dumps(header).encode()
    return archived(content.items())


def numbers_changed(data: bytes, rng: np.random.Generator) -> bytes:
    """A few numbers of one array replaced by others that an array can hold, of the right type and shape."""
    content = members(data)
    name = str(rng.choice([n for n in content if n != "header.json"]))
    array = np.load(io.BytesIO(content[name])).copy()
    if array.dtype.kind not in "fiub" or not array.size:
        return arrays_changed(data, rng)
    words = {"f": FLOATS, "i": (-1, 0, 1, 10**6), "u": (0, 1, 2**31, 2**63), "b": (True, False)}[array.dtype.kind]
    flat = array.reshape(-1)
    for position in rng.integers(array.size, size=rng.integers(1, 4)):
        with contextlib.suppress(OverflowError):
            flat[position] = words[rng.integers(len(words))]
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, version=(1, 0))
    return archived((content | {name: buffer.getvalue()}).items())


def preceded(data: bytes, rng: np.random.Generator) -> bytes:
    """Bytes before the archive, checksum right."""
    return sealed(rng.bytes(int(rng.integers(1, 200))) + unsealed(data))


def another_format(data: bytes, rng: np.random.Generator) -> bytes:
    """The number of another format, checksum right."""
    return sealed(unsealed(data), version=int(rng.choice([0, 1, 3, 7])))


def _named(node, name):
    """Every container that stands under a name in a JSON value; pairs of a dict are names too."""
    for where, key in _places(node):
        pair = isinstance(where, list) and len(where) == 2 and where[0] == name and key == 1
        if (key == name or pair) and isinstance(where[key], (dict, list)) and where[key]:
            yield where[key]


def _places(node):
    """Every container of a JSON value with every key or position in it."""
    keys = list(node) if isinstance(node, dict) else range(len(node))
    for key in keys:
        yield node, key
        if isinstance(node[key], (dict, list)):
            yield from _places(node[key])


def _spoil(where, key, rng):
    action = rng.integers(4)
    if action == 0 and isinstance(where, dict):
        where[str(rng.choice(["array", "tuple", "predict", "__init__", "x_", "n_jobs", "estimator"]))] = where.pop(key)
    elif action == 1:
        del where[key]
    else:
        where[key] = json.loads(json.dumps(WORDS[rng.integers(len(WORDS))]))


MUTATIONS = [
    *(flipped, cut, spliced, resealed, directory_changed),
    *(arrays_changed, header_changed, header_changed, header_changed, header_text_changed),
    *(parts_changed, parts_changed, parts_changed, numbers_changed, numbers_changed, preceded, another_format),
]
