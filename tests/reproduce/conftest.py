"""A reproduction small enough for tests: three cheap methods."""

import os
from pathlib import Path

import pytest

from kinfolk.reproduce.methods import METHODS

CHEAP = ("TAT", "Independent", "task mean", "row-space oracle")


@pytest.fixture
def few_methods(monkeypatch):
    for name in set(METHODS) - set(CHEAP):
        monkeypatch.delitem(METHODS, name)
    return METHODS


@pytest.fixture
def published_data(monkeypatch):
    beside = Path(__file__).parents[3] / "shared" / "data"
    folder = Path(os.environ.get("KINFOLK_DATA") or beside).resolve()
    if not folder.is_dir():
        pytest.skip(f"needs the published data files: {folder} is not a folder; set KINFOLK_DATA")
    monkeypatch.setenv("KINFOLK_DATA", str(folder))
    return folder
