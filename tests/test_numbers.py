"""Every number that decides something in the search stands in one table of docs/maths.md, with its reason."""

import ast
import re
from importlib import import_module
from numbers import Real
from pathlib import Path

import numpy as np
import pytest

import kinfolk

SOURCE = Path(kinfolk.__file__).parent
MATHS = SOURCE.parents[1] / "docs" / "maths.md"
MODULES = [*sorted((SOURCE / "search").glob("*.py")), SOURCE / "estimators" / "gamtlcv.py"]
TITLE = "## Every number that decides something"
HEAD = ["number", "where", "value", "reason", "worth"]


def section():
    return MATHS.read_text().split(f"{TITLE}\n")[1].split("\n## ")[0]


def table():
    """The rows of the table, as dicts by the names of its columns."""
    lines = [line for line in section().splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert cells[0] == HEAD
    return [dict(zip(HEAD, row, strict=True)) for row in cells[2:]]


def address(row):
    return re.fullmatch(r"`([a-z_.]+)\.([A-Z_0-9]+)`", row["where"]).groups()


def is_number(value):
    """Whether a value is a number or a plain tuple of numbers."""
    values = value if type(value) is tuple else (value,)
    return bool(values) and all(isinstance(one, Real | np.number) and not isinstance(one, bool) for one in values)


def constants(path):
    """Upper-case names of numbers that a module gives values to at its top level, with these values."""
    name = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
    module = import_module(f"kinfolk.{name}")
    body = ast.parse(path.read_text()).body
    targets = [node.target for node in body if isinstance(node, ast.AnnAssign)]
    targets += [target for node in body if isinstance(node, ast.Assign) for target in node.targets]
    names = [target.id for target in targets if isinstance(target, ast.Name) and target.id.isupper()]
    return {(name, one): getattr(module, one) for one in names if is_number(getattr(module, one))}


@pytest.mark.parametrize("row", table(), ids=lambda row: row["where"].strip("`"))
def test_a_number_of_the_table_is_that_of_the_code(row):
    module, name = address(row)
    value = getattr(import_module(f"kinfolk.{module}"), name)
    stated = ast.literal_eval(row["value"].strip("`"))
    np.testing.assert_allclose(stated, value, rtol=1e-3)
    assert np.shape(stated) == np.shape(value)


@pytest.mark.parametrize("row", table(), ids=lambda row: row["where"].strip("`"))
def test_a_number_of_the_table_has_a_name_and_a_reason(row):
    assert row["number"] and len(row["reason"].split()) > 2 and row["worth"]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_every_number_of_the_search_is_in_the_table(path):
    assert set(constants(path)) <= {address(row) for row in table()}


def test_no_number_is_in_the_table_twice():
    stated = [row["where"] for row in table()]
    assert len(stated) == len(set(stated))
