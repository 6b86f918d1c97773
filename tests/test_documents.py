"""Every command and code block of README and the pages in docs/printed.py runs and prints what it says."""

import operator
import re
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "docs"))

from printed import DOCUMENTS, ROOT, checked, differs, steps


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.stem)
def test_the_document_prints_what_it_says(path):
    wrong = [f"{code}\n{said}" for code, said, _, _ in checked(path) if said]
    assert not wrong, "\n\n".join([*wrong, "python docs/printed.py writes what is printed"])


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.stem)
def test_every_extra_that_is_installed_exists(path):
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    asked = {
        name
        for found in re.findall(r"pip install '(?:\.|kinfolk)\[([\w,]+)\]'", path.read_text())
        for name in found.split(",")
    }
    assert asked <= set(extras)


PAGES = sorted([*(ROOT / "docs").glob("*.md"), *ROOT.glob("*.md")])


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_files_and_tests_that_a_document_names_exist(path):
    named = re.findall(r"`([\w/]+\.py)`", path.read_text())
    missing = [f for f in named if not any((ROOT / place / f).exists() for place in (".", "src/kinfolk", "docs"))]
    assert not missing
    tests = "".join(file.read_text() for file in (ROOT / "tests").rglob("test_*.py"))
    assert not [name for name in re.findall(r"`(test_\w+)`", path.read_text()) if f"def {name}(" not in tests]


def test_a_session_is_commands_and_what_they_print():
    session = "```\n$ kinfolk fit a \\\n    b\nnote: x\n$ kinfolk methods\ny\n```\n"
    text = session + "```python\nprint(1)\n```\n\nprints\n\n```\n1\n```\n"
    found = [(kind, code, expected) for _, kind, code, expected in steps(text)]
    assert found == [
        ("command", "kinfolk fit a      b", "note: x\n"),
        ("command", "kinfolk methods", "y\n"),
        ("python", "print(1)\n", "1\n"),
    ]


def test_numbers_may_differ_by_a_little_and_words_may_not():
    assert not differs("error 11.08 in 4 s\n", "error 11.10 in 19 s\n")
    assert differs("error 11.08\n", "error 12.1\n") and differs("helps\n", "hurts\n") and differs("a\n", "a b\n")
    assert not differs("a 1\n...\nz\n", "a 1\nb\nc\nz\n")


def test_how_good_quotes_only_what_is_printed_elsewhere():
    def decimals(name):
        return set(re.findall(r"\d+\.\d+|\d+,\d{3}", (ROOT / "docs" / name).read_text()))

    printed = decimals("benchmarks.md") | decimals("scaling.md") | decimals("reliability.md")
    assert decimals("how-good.md") - printed <= {"1.64"}  # standard deviations of a 90 % interval


HOW = ROOT / "docs" / "how-a-fit-works.md"


def test_every_function_that_how_a_fit_works_names_exists():
    named = re.findall(r"`([\w.]+):([\w.]+)`", HOW.read_text())
    assert len(named) > 10
    for module, function in named:
        if (module, function) != ("module", "function"):
            operator.attrgetter(function)(import_module(f"kinfolk.{module}"))


def test_how_a_fit_works_fits_on_a_screen_and_every_step_names_its_function():
    lines = [line for line in HOW.read_text().splitlines() if line.strip()]
    assert len(lines) <= 40
    steps = re.split(r"^\d+\. ", "\n".join(lines), flags=re.MULTILINE)[1:]
    assert steps and all(re.search(r"`[\w.]+:[\w.]+`", step) for step in steps)
