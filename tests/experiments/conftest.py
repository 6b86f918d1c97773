"""Where the tests of the paper's experiments find the published data files."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def data_home():
    """Return the folder of the published data: ``KINFOLK_DATA``, or ``shared/data`` beside the repository."""
    beside = Path(__file__).resolve().parents[3] / "shared" / "data"
    folder = Path(os.environ.get("KINFOLK_DATA") or beside).resolve()
    if not folder.is_dir():
        pytest.skip(f"needs the published data files: {folder} is not a folder; set KINFOLK_DATA")
    return folder


@pytest.fixture
def empty_machine(monkeypatch, tmp_path):
    """Hide every data file of this machine; return the folder that serves as the cache."""
    monkeypatch.delenv("KINFOLK_DATA", raising=False)
    monkeypatch.setenv("KINFOLK_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"
