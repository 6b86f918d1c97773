"""A reproduction small enough for tests: three cheap methods."""

import pytest

from kinfolk.experiments.reproduction.methods import METHODS

CHEAP = ("TAT", "Independent", "task mean", "row-space oracle")


@pytest.fixture
def few_methods(monkeypatch):
    for name in set(METHODS) - set(CHEAP):
        monkeypatch.delitem(METHODS, name)
    return METHODS


@pytest.fixture
def published_data(monkeypatch, data_home):
    monkeypatch.setenv("KINFOLK_DATA", str(data_home))
    return data_home
