import hashlib
import threading
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import pytest

from kinfolk.datasets import load_birmingham, load_parkinsons
from kinfolk.experiments.data import source
from kinfolk.experiments.data.source import SOURCES, fetch, find

CONTENT = b"subject#,age\n" + bytes(range(256)) * 20
OTHER = b"an edited copy"


def zipped(content, name="inner folder/parkinsons_updrs.data"):
    buffer = BytesIO()
    with ZipFile(buffer, "w", ZIP_DEFLATED) as archive:
        archive.writestr("readme.txt", "not this one")
        archive.writestr(name, content)
    return buffer.getvalue()


class Handler(BaseHTTPRequestHandler):
    """Answer every request with the server's body, and count it."""

    def do_GET(self):
        self.server.requests += 1
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(self.server.body) + self.server.missing))
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, *args):
        pass


@pytest.fixture
def server(empty_machine, monkeypatch):
    """Serve the Parkinson archive from this machine, with a small file in place of the published one."""
    monkeypatch.setenv("no_proxy", "*")
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    httpd.body, httpd.status, httpd.missing, httpd.requests = zipped(CONTENT), 200, 0, 0
    url = f"http://127.0.0.1:{httpd.server_port}/parkinsons.zip"
    small = replace(SOURCES["parkinsons"], sha256=hashlib.sha256(CONTENT).hexdigest(), url=url)
    monkeypatch.setitem(SOURCES, "parkinsons", small)
    thread = threading.Thread(target=partial(httpd.serve_forever, poll_interval=0.01))
    thread.start()
    yield httpd
    httpd.shutdown()
    thread.join()
    httpd.server_close()


def files(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


def put(home, content, name="parkinsons"):
    path = home / SOURCES[name].folder / SOURCES[name].file
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    return path


def test_download_is_unpacked_into_the_cache(server, empty_machine):
    path = fetch("parkinsons")
    assert path == empty_machine / "parkinsons_telemonitoring" / "parkinsons_updrs.data"
    assert path.read_bytes() == CONTENT
    assert files(empty_machine) == [path]


def test_second_fetch_is_a_cache_hit(server):
    assert fetch("parkinsons") == fetch("parkinsons")
    assert server.requests == 1


def test_data_home_comes_before_the_environment_and_the_cache(server, monkeypatch, tmp_path):
    cached = fetch("parkinsons")
    named = put(tmp_path / "named", CONTENT)
    given = put(tmp_path / "given", CONTENT)
    monkeypatch.setenv("KINFOLK_DATA", str(tmp_path / "named"))
    assert fetch("parkinsons", tmp_path / "given") == given
    assert fetch("parkinsons") == named
    monkeypatch.delenv("KINFOLK_DATA")
    assert fetch("parkinsons") == cached


def test_folder_without_the_file_falls_back_to_the_download(server, empty_machine, tmp_path):
    assert empty_machine in fetch("parkinsons", tmp_path).parents


def test_archive_with_another_file_is_refused(server, empty_machine):
    server.body = zipped(OTHER)
    with pytest.raises(ValueError, match=r"is not the published file: its SHA-256 is .* is expected") as error:
        fetch("parkinsons")
    assert hashlib.sha256(OTHER).hexdigest() in str(error.value)
    assert hashlib.sha256(CONTENT).hexdigest() in str(error.value)
    assert files(empty_machine) == []


@pytest.mark.parametrize(
    "damage",
    [
        lambda body: body[: len(body) // 2],
        lambda body: b"",
        lambda body: body.replace(b"\x00\x01\x02\x03", b"\x03\x02\x01\x00").replace(CONTENT[:4], b"SUBJ"),
        lambda body: b"<html>maintenance</html>",
        lambda body: zipped(CONTENT, "another.data"),
    ],
    ids=["truncated", "empty", "flipped bytes", "a web page", "without the file"],
)
def test_damaged_archive_is_refused_and_leaves_nothing(server, empty_machine, damage):
    buffer = BytesIO()
    with ZipFile(buffer, "w") as archive:  # stored: bytes can be damaged without harming the directory
        archive.writestr("parkinsons_updrs.data", CONTENT)
    server.body = damage(buffer.getvalue())
    with pytest.raises(ValueError, match=r"bytes that are not a zip archive with parkinsons_updrs.data in it"):
        fetch("parkinsons")
    assert files(empty_machine) == []


def test_connection_that_breaks_off_is_reported(server, empty_machine):
    server.missing = 1000
    with pytest.raises(FileNotFoundError, match=r"cannot be downloaded .*IncompleteRead"):
        fetch("parkinsons")
    assert files(empty_machine) == []


def test_an_endless_download_is_given_up(server, empty_machine, monkeypatch):
    monkeypatch.setattr(source, "MOST_BYTES", len(server.body) - 1)
    with pytest.raises(FileNotFoundError, match="more than .* bytes, far more than the file has"):
        fetch("parkinsons")
    assert not files(empty_machine)


def test_an_archive_that_swells_is_refused(server, empty_machine, monkeypatch):
    server.body = zipped(b"0" * 1_000_000)
    monkeypatch.setattr(source, "MOST_BYTES", 999_999)
    with pytest.raises(ValueError, match="is larger than 999,999 bytes"):
        fetch("parkinsons")
    assert not files(empty_machine)


def test_server_error_is_reported(server):
    server.status = 503
    with pytest.raises(FileNotFoundError, match=r"cannot be downloaded .*503"):
        fetch("parkinsons")


def test_failed_download_can_be_repeated(server):
    good, server.body = server.body, b""
    with pytest.raises(ValueError, match="not a zip archive"):
        fetch("parkinsons")
    server.body = good
    assert fetch("parkinsons").read_bytes() == CONTENT


def test_interrupted_write_leaves_nothing(server, empty_machine, monkeypatch):
    def fail(self, target):
        raise OSError("disk full")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        fetch("parkinsons")
    assert files(empty_machine) == []


def test_edited_file_in_data_home_is_refused(server, tmp_path):
    path = put(tmp_path / "own", OTHER)
    with pytest.raises(ValueError, match=r"is not the published file.*Delete or replace it") as error:
        fetch("parkinsons", tmp_path / "own")
    assert str(path) in str(error.value)
    assert server.requests == 0


@pytest.mark.parametrize(
    ("load", "url", "place"),
    [
        (
            load_parkinsons,
            "https://archive.ics.uci.edu/static/public/189/parkinsons+telemonitoring.zip",
            "<folder>/parkinsons_telemonitoring/parkinsons_updrs.data",
        ),
        (
            load_birmingham,
            "https://archive.ics.uci.edu/static/public/482/parking+birmingham.zip",
            "<folder>/birmingham_parking/dataset.csv",
        ),
    ],
)
def test_offline_error_names_the_address_and_the_folder(empty_machine, monkeypatch, load, url, place):
    def unreachable(address, timeout):
        raise OSError("no route to host")

    monkeypatch.setattr(source, "urlopen", unreachable)
    with pytest.raises(FileNotFoundError) as error:
        load()
    for text in (url, place, "KINFOLK_DATA=<folder>", "data_home=<folder>", "no route to host"):
        assert text in str(error.value)


def test_file_without_address_is_none_or_an_error(empty_machine):
    assert find("birmingham_locations") is None
    with pytest.raises(FileNotFoundError, match=r"locations.csv is not offered for download\. .*KINFOLK_DATA"):
        fetch("birmingham_locations")


def test_cache_is_below_the_home_folder_by_default(monkeypatch):
    monkeypatch.delenv("KINFOLK_CACHE", raising=False)
    assert source.cache_home() == Path.home() / ".cache" / "kinfolk"


@pytest.mark.parametrize(
    ("name", "size"), [("parkinsons", 911_261), ("birmingham", 1_479_909), ("birmingham_locations", 843)]
)
def test_published_files_have_the_checksums_of_the_table(data_home, name, size):
    content = fetch(name, data_home).read_bytes()
    assert len(content) == size
    assert hashlib.sha256(content).hexdigest() == SOURCES[name].sha256
