"""No file does more than fail in one line: cut short, flipped, forged or written to do harm."""

import io
import json
import os
import resource
import signal
import struct
import sys
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from mutations import MUTATIONS, archived, flipped, members, sealed, unsealed
from stored_models import TABLE, fitted, with_transformer

from kinfolk.store import ModelFileError, load, save
from kinfolk.store.archive import write_archive

FEW = 30  # of every kind of mutation and model; the long run is tests/fuzz/model_files.py


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sound")
    models = {name: fitted(name) for name in ("GAMTL", "MTRL", "TAT")} | {"Pipeline": with_transformer("Pipeline")}
    return {name: save(model, folder / f"{name}.kin").read_bytes() for name, model in models.items()}


@pytest.fixture
def bounded():
    """Two seconds and 4 GB more than now for a test, or it fails: no file may hang or swell."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (used + 4 * 2**30, before[1]))
    signal.signal(signal.SIGALRM, lambda *_: pytest.fail("reading took too long"))
    signal.alarm(20)
    yield
    signal.alarm(0)
    resource.setrlimit(resource.RLIMIT_AS, before)


def loads(data, tmp_path):
    path = tmp_path / "spoiled.kin"
    path.write_bytes(data)
    return load(path)


def outcome(data, tmp_path):
    """ "refused" or "loaded"; anything but a ModelFileError of one line is raised on."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            loads(data, tmp_path)
        except ModelFileError as error:
            assert "\n" not in str(error) and str(error).startswith(str(tmp_path)) and len(str(error)) < 800
            return "refused"
    return "loaded"


@pytest.mark.parametrize("mutate", dict.fromkeys(MUTATIONS), ids=lambda m: m.__name__)
@pytest.mark.parametrize("name", ["GAMTL", "MTRL", "TAT", "Pipeline"])
def test_spoiled_files_are_refused_in_one_line_or_hold_a_model(name, mutate, files, tmp_path, bounded):
    rng = np.random.default_rng(7)
    seen = {outcome(mutate(files[name], rng), tmp_path) for _ in range(FEW)}
    assert "refused" in seen


def test_no_flipped_bit_goes_unnoticed(files, tmp_path, bounded):
    data, rng = files["GAMTL"], np.random.default_rng(1)
    assert {outcome(flipped(data, rng), tmp_path) for _ in range(300)} == {"refused"}


def test_every_length_short_of_the_whole_is_refused(files, tmp_path, bounded):
    data = files["GAMTL"]
    lengths = [*range(0, len(data), 97), *range(len(data) - 120, len(data))]
    assert {outcome(data[:n], tmp_path) for n in lengths} == {"refused"}


def with_header(data, change):
    content = members(data)
    header = json.loads(content["header.json"])
    change(header["model"]["estimator"])
    content["header.json"] = json.dumps(header).encode()
    return archived(content.items())


def record(model):
    """The fields of the fitted model in a header."""
    return model["state"]["model_"]["record"][1]


def refused(data, tmp_path, match):
    with pytest.raises(ModelFileError, match=match):
        loads(data, tmp_path)


def test_a_newer_file_asks_for_an_upgrade(files, tmp_path):
    refused(sealed(unsealed(files["GAMTL"]), version=4), tmp_path, "newer kinfolk .format 4.*upgrade kinfolk")


def test_a_format_that_never_was_is_refused(files, tmp_path):
    refused(sealed(unsealed(files["GAMTL"]), version=0), tmp_path, "names format 0, which no kinfolk has written")


@pytest.mark.parametrize("before", [b"#!/bin/sh\n", b"PK\x03\x04", b"\0" * 4096], ids=["script", "zip", "zeros"])
def test_bytes_before_the_archive_are_refused(before, files, tmp_path):
    refused(sealed(before + unsealed(files["GAMTL"])), tmp_path, "bytes that belong to no member stand before header")


def test_bytes_between_members_are_refused(files, tmp_path):
    data = unsealed(files["GAMTL"])
    start = data.index(b"PK\x01\x02")
    at = struct.pack("<I", start + len(b"hidden"))  # the last number of the record that ends an archive
    refused(sealed(data[:start] + b"hidden" + data[start:-4] + at), tmp_path, "stand before its table of contents")


def test_other_files_are_not_models(tmp_path):
    for data in (b"", b"x", b"a,b\n1,2\n", archived([])[:-10]):
        refused(data, tmp_path, "is not a kinfolk model")


def test_pipes_and_devices_are_not_read():
    with pytest.raises(ModelFileError, match="pipe or a device"):
        load("/dev/zero")


def test_a_missing_file_is_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none.kin")


def test_a_zip_bomb_is_refused_by_its_compression(files, tmp_path, bounded):
    content = members(files["GAMTL"]) | {"arrays/0.npy": b"\0" * 50_000_000}
    refused(archived(content.items(), zipfile.ZIP_DEFLATED), tmp_path, "compressed")


@pytest.mark.parametrize("name", ["../../etc/passwd", "/tmp/x", "arrays/../0.npy", "arrays/00.npy", "C:\\x"])
def test_paths_that_lead_elsewhere_are_refused(name, files, tmp_path):
    refused(archived([*members(files["GAMTL"]).items(), (name, b"")]), tmp_path, "not a header and numbered arrays")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_members_that_come_twice_are_refused(files, tmp_path):
    content = list(members(files["GAMTL"]).items())
    refused(archived([*content, content[-1]]), tmp_path, "not a header and numbered arrays")


def npy(header, data=b""):
    text = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '|O', 'fortran_order': False, 'shape': (3,), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (-1,), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (nan,), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (999999999999,), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (999999999999999, 999999999999999), }",
        "{'descr': '<U0', 'fortran_order': False, 'shape': (999999999999,), }",
        "{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (1,), }",
        "{'descr': __import__('os').system('touch /tmp/owned'), 'fortran_order': False, 'shape': (1,), }",
        "(" * 5000,
        "{'descr': '<f8', 'fortran_order': False, 'shape': (" + "1" * 3000 + "x), }",
    ],
)
def test_arrays_that_lie_about_themselves_are_refused(header, files, tmp_path, bounded):
    content = members(files["GAMTL"]) | {"arrays/0.npy": npy(header, b"\0" * 8)}
    refused(archived(content.items()), tmp_path, "arrays/0.npy")


@pytest.mark.parametrize(
    "text",
    [
        b"[" * 500_000,
        b'{"model":' * 100_000,
        b'{"model": {"tuple": [' * 500 + b"1" + b"]}}" * 500,
        b'{"model": NaN}',
        b'{"model": ' + b"9" * 100_000 + b"}",
        b'\xff\xfe{"model": 1}',
        b"",
        b'{"model": {"dict": [' + b",".join(b"[%d,0]" % (k * (2**61 - 1)) for k in range(30_000)) + b"]}}",
    ],
    ids=["lists", "objects", "tuples", "NaN", "digits", "utf-8", "empty", "collisions"],
)
def test_headers_that_are_not_headers_are_refused(text, files, tmp_path, bounded):
    content = members(files["GAMTL"]) | {"header.json": text}
    refused(archived(content.items()), tmp_path, "spoiled.kin")


def test_a_table_of_contents_of_a_million_entries_is_refused_before_it_is_read(tmp_path, bounded):
    entry = struct.pack("<4s6H3I5H2I", b"PK\x01\x02", *[0] * 9, 0, 0, 0, 0, 0, 0, 0)
    directory = entry * 1_000_000
    end = struct.pack("<4s4H2I", b"PK\x05\x06", 0, 0, 65535, 65535, len(directory), 0)
    refused(sealed(directory + end), tmp_path, "table of contents")


def test_only_listed_classes_are_made(files, tmp_path):
    def change(model):
        model["params"]["features"] = {"estimator": {"class": "os.system", "params": {}, "state": {}}}

    refused(with_header(files["GAMTL"], change), tmp_path, "the class 'os.system', which this version .* does not load")


def test_methods_are_not_overwritten(files, tmp_path):
    refused(
        with_header(files["GAMTL"], lambda m: m["state"].update(predict=1)), tmp_path, "no fitted attribute 'predict'"
    )


def test_a_cache_on_disk_is_not_taken_over(files, tmp_path):
    def change(model):
        columns = record(model)["columns"]["record"][1]
        columns["transformer"]["estimator"]["params"]["memory"] = "/tmp/cache"

    refused(with_header(files["Pipeline"], change), tmp_path, "cache on disk")


def test_graphs_that_point_outside_themselves_are_refused(files, tmp_path):
    def change(model):
        record(model)["structure"]["record"][1]["adjacency"]["sparse"]["shape"] = [6, 2]

    refused(with_header(files["GAMTL"], change), tmp_path, "spoiled.kin")


@pytest.mark.parametrize("rows", [[0, 1, 10**6, 9, 0, 0, 0], [1, 1, 1, 1, 1, 1, 1], [0, 0, 0]])
def test_rows_of_sparse_matrices_that_point_outside_are_refused(rows, tmp_path, files):
    content = members(files["GAMTL"])
    header = json.loads(content["header.json"])
    matrix = record(header["model"]["estimator"])["structure"]["record"][1]["adjacency"]["sparse"]
    for part, values in (("indptr", np.array(rows)), ("indices", np.zeros(0, np.int64)), ("data", np.zeros(0))):
        buffer = io.BytesIO()
        np.lib.format.write_array(buffer, values, version=(1, 0))
        matrix[part] = {"array": len(content) - 1}
        content[f"arrays/{len(content) - 1}.npy"] = buffer.getvalue()
    content["header.json"] = json.dumps(header).encode()
    refused(archived(content.items()), tmp_path, "the rows of a sparse matrix do not follow each other")


def test_coefficients_of_other_tasks_are_refused(files, tmp_path):
    def change(model):
        record(model)["intercept"] = record(model)["population"]["record"][1]["coef"]

    refused(with_header(files["GAMTL"], change), tmp_path, "the intercept of a Model is of shape .4,., expected T = 6")


def test_repeated_arrays_cannot_stand_for_huge_ones(files, tmp_path, bounded):
    def change(model):
        record(model)["coef"] = {"broadcast": [record(model)["coef"], [10**12, 4]]}

    refused(with_header(files["GAMTL"], change), tmp_path, "spoiled.kin")


@pytest.mark.parametrize(
    "node",
    [
        {"rows": {"objects": [[1], [1]]}},
        {"rows": {"array": 0}},
        {"entries": [[8000, 8000], {"array": 0}, {"array": 0}]},
        {"entries": [[10**9, 10**9], {"array": 0}, {"array": 0}]},
        {"broadcast": [{"rows": {"array": 0}}, [10**6, 10**6, 10**6]]},
    ],
    ids=str,
)
def test_matrices_of_few_numbers_cannot_stand_for_huge_or_strange_ones(node, files, tmp_path, bounded):
    def change(model):
        record(model)["gram"]["record"][1]["G"] = node

    refused(with_header(files["GAMTL"], change), tmp_path, "is damaged")


def test_few_bytes_do_not_become_gigabytes(tmp_path, bounded):
    rows = np.ones((2, 1, 8192))
    written = {"model": {"record": ["GramStats", {"G": {"rows": {"array": 0}}}]}, "written_by": {}}
    write_archive(tmp_path / "small.kin", json.dumps(written).encode(), [rows])
    with pytest.raises(ModelFileError, match="1.1 GB for a matrix of shape .2, 8192, 8192. are too much for its size"):
        load(tmp_path / "small.kin")


def test_a_sound_file_still_loads_after_being_taken_apart_and_put_together(files, tmp_path):
    data = archived(members(files["GAMTL"]).items())
    np.testing.assert_array_equal(loads(data, tmp_path).predict(TABLE), fitted("GAMTL").predict(TABLE))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("held_out",), {"dict": []}),
        (("parts", "tuple", 0, "record", 1, "name"), 1),
        (("parts", "tuple", 0, "record", 1, "coupling", "record", 1, "penalty", "record", 1, "anchor"), [[0.5]]),
        (("parts", "tuple", 0, "record", 1, "coupling", "record", 1, "recipe", "record", 1, "metric"), None),
    ],
)
def test_a_field_of_another_kind_than_its_class_says_is_refused(path, value, files, tmp_path):
    def change(model):
        *way, last = path
        node = record(model)
        for step in way:
            node = node[step]
        assert last in node
        node[last] = value

    refused(with_header(files["GAMTL"], change), tmp_path, f"the {path[-1]} of a [A-Z]")


def test_a_transformer_whose_values_make_no_sense_to_it_is_a_value_error(files, tmp_path):
    def change(model):
        pipeline = record(model)["columns"]["record"][1]["transformer"]["estimator"]
        scaler = pipeline["params"]["steps"][0]["tuple"][1]["estimator"]
        scaler["state"]["mean_"] = {"dict": []}

    model = loads(with_header(files["Pipeline"], change), tmp_path)
    with pytest.raises(ValueError, match=r"transformer Pipeline cannot take X \(\w+Error: ") as caught:
        model.predict(TABLE)
    assert "\n" not in str(caught.value)
