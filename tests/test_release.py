"""What is released: wheel and sdist are complete, work without the repository, and promise what is tested."""

import importlib
import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

import kinfolk
from kinfolk.baselines import METHODS

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
FOR_USERS = ("files", "plots", "boosting", "large", "onnx")  # the extras whose lower bounds are promised
FOR_TABLES = ("pandas", "polars")  # no extra of ours asks for them, but their tables are read


def run(*command, cwd):
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([str(part) for part in command], cwd=cwd, env=clean, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The sdist of the repository, and the wheel built from the unpacked sdist."""
    folder = tmp_path_factory.mktemp("built")
    run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", folder, cwd=ROOT)
    (sdist,) = folder.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    source = folder / sdist.name.removesuffix(".tar.gz")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=source)
    (wheel,) = folder.glob("*.whl")
    return source, wheel


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory):
    """A new environment with the wheel; the libraries it needs are borrowed, the repository is not on its path."""
    folder = tmp_path_factory.mktemp("clean")
    venv.create(folder, with_pip=False, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    run(sys.executable, "-m", "pip", "--python", folder, "install", "--no-deps", "--quiet", built[1], cwd=folder)
    borrowed = Path(importlib.import_module("numpy").__file__).parents[1]
    (site / "borrowed.pth").write_text(f"{borrowed}\n")  # its own .pth files, the editable kinfolk, are not read
    return folder


def test_the_wheel_has_every_file_of_the_package(built):
    package = ROOT / "src" / "kinfolk"
    wanted = {
        path.relative_to(package.parent).as_posix()
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    inside = set(zipfile.ZipFile(built[1]).namelist())
    assert not wanted - inside
    suffixes = {Path(name).suffix for name in inside}
    assert {".html", ".css", ".js"} <= suffixes and "kinfolk/py.typed" in inside


def test_the_sdist_has_tests_documentation_and_examples(built):
    for name in ("LICENSE", "README.md", "Makefile", "tests/oldest.txt", "docs/conf.py", "examples/README.rst"):
        assert (built[0] / name).is_file()


def test_the_wheel_runs_without_the_repository(installed, tmp_path):
    kin, python = installed / "bin" / "kinfolk", installed / "bin" / "python"
    home = run(python, "-c", "import kinfolk; print(kinfolk.__file__)", cwd=tmp_path)
    assert Path(home.strip()).is_relative_to(installed)
    assert json.loads(run(kin, "methods", "--json", cwd=tmp_path))["methods"]
    run(kin, "demo", "--out", "here", cwd=tmp_path)
    assert "</html>" in (tmp_path / "here" / "report.html").read_text(encoding="utf-8")


def test_the_version_is_said_once(built):
    assert built[1].name.split("-")[1] == kinfolk.__version__ == version("kinfolk")
    assert PROJECT["dynamic"] == ["version"]
    cited = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert cited is None or cited[1].strip("\"'") == kinfolk.__version__


def test_the_oldest_versions_that_are_tested_are_those_promised():
    extras = PROJECT["optional-dependencies"]
    asked = [Requirement(text) for text in PROJECT["dependencies"] + [r for e in FOR_USERS for r in extras[e]]]
    asked = [r for r in asked if r.name != "kinfolk"]
    asked += [r for r in map(Requirement, extras["test"]) if r.name in FOR_TABLES]
    promised = {r.name: Version(min(s.version for s in r.specifier if s.operator == ">=")) for r in asked}
    lines = (ROOT / "tests" / "oldest.txt").read_text().splitlines()
    tested = dict(line.split("==") for line in lines if not line.startswith("#"))
    # A promise of 2.1 is kept by 2.1.1: some first releases were withdrawn.
    kept = {name: Version(tested[name]).release[: len(low.release)] == low.release for name, low in promised.items()}
    assert all(kept.values()), kept


@pytest.mark.parametrize(
    "module",
    [
        "",
        ".baselines",
        ".datasets",
        ".diagnostics",
        ".explain",
        ".export",
        ".large",
        ".plots",
        ".report",
        ".reproduce",
        ".store",
    ],
)
def test_the_reference_lists_every_public_name(module):
    text = (ROOT / "docs" / "api.rst").read_text()
    # The build writes the methods of the folder: docs/conf.py.
    names = "".join(f"   {name}\n" for name in METHODS)
    text = text.replace(".. include:: methods.rst", f".. currentmodule:: kinfolk.baselines\n\n{names}")
    sections = re.split(r"\.\. currentmodule:: ", text)[1:]
    listed = {
        name for s in sections if s.split()[0] == f"kinfolk{module}" for name in re.findall(r"^   (\w+)$", s, re.M)
    }
    constants = {"METHODS", "OUTLIER", "PALETTE", "__version__", "load"}
    assert set(importlib.import_module(f"kinfolk{module}").__all__) - constants <= listed
