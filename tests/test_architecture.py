"""The package holds to its own design: one direction of imports, few dependencies, honest names."""

import ast
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "docs"))

import kinfolk
from kinfolk.baselines import METHODS
from reading_order import PAGE, RANK, imports, module_name, page, rank

SOURCE = Path(kinfolk.__file__).parent
ALL_FILES = sorted(SOURCE.rglob("*.py"))
FILES = [path for path in ALL_FILES if path.name != "__init__.py"]


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_imports_point_one_way(path):
    name = module_name(path)
    package = name.split(".")[0]
    outside = [m for m in imports(path) if m.split(".")[0] != package or m in RANK]
    wrong = [m for m in outside if rank(m) > rank(name) or (rank(m) == rank(name) and m.split(".")[0] != package)]
    assert not wrong


def imported(path, modules):
    """Modules of the package that a file imports anywhere, also inside functions."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {part.name for part in node.names}
        if isinstance(node, ast.ImportFrom):
            # Of `from kinfolk.rows import gram` the module is the last name, if it is one.
            whole = {f"{node.module}.{part.name}" for part in node.names}
            found |= {name for name in whole if name.removeprefix("kinfolk.") in modules} or {node.module}
    return {name.removeprefix("kinfolk.") for name in found if name.startswith("kinfolk.")} & modules


def test_no_modules_import_each_other_late_imports_counted():
    paths = {module_name(path): path for path in ALL_FILES}
    links = {name: imported(path, set(paths)) - {name} for name, path in paths.items()}
    TopologicalSorter(links).prepare()  # raises a CycleError that names the cycle


def test_nothing_in_the_core_imports_the_papers_competitors_and_experiments():
    paths = {module_name(path): path for path in ALL_FILES}
    apart = {name for name in paths if name.split(".")[0] in ("rivals", "experiments")}
    faces = {"datasets", "diagnostics", "reproduce"}  # public names of experiments
    links = {name: imported(paths[name], set(paths)) for name in set(paths) - apart - faces}
    assert not {name: some & apart for name, some in links.items() if some & apart}


def test_modules_are_looked_up_by_name_for_attributes_of_classes_alone():
    """A `Face` in a function would be a late import that the test above does not see."""
    for path in ALL_FILES:
        tree = ast.parse(path.read_text())
        calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and getattr(n.func, "id", "") == "Face"]
        classes = [n for n in tree.body if isinstance(n, ast.ClassDef)]
        attributes = [part.value for node in classes for part in node.body if isinstance(part, ast.Assign)]
        assert set(calls) <= set(attributes), f"{path.name}: a function looks a module up by name"


def test_the_reading_order_names_every_module_as_it_is_now():
    assert PAGE.read_text() == page(), "run: python docs/reading_order.py"


STRUCTURES = {"Structure", "TaskGraph", "TaskCovariance", "TaskPrecision", "TaskTree"}
ESTIMATORS = {"GAMTL", "GAMTLCV", "RBFGAMTL", *METHODS}


def asked_classes(path):
    """Names in the second argument of every isinstance and issubclass of a file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("isinstance", "issubclass"):
            yield from (getattr(part, "id", getattr(part, "attr", "")) for part in ast.walk(node.args[1]))


@pytest.mark.parametrize("path", [p for p in ALL_FILES if "methods" not in p.parts], ids=module_name)
def test_nobody_outside_the_methods_asks_for_the_class_of_a_structure_or_an_estimator(path):
    assert not (STRUCTURES | ESTIMATORS) & set(asked_classes(path))


OPTIONAL = {"pandas", "polars", "pyarrow", "matplotlib", "networkx", "dask", "lightgbm", "statsmodels"}


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_the_estimator_loads_no_optional_library_that_scikit_learn_does_not():
    loaded = "; import sys; print(*{m.split('.')[0] for m in sys.modules})"
    ours = set(run(f"from kinfolk import GAMTL{loaded}").split())
    theirs = set(run(f"import sklearn.linear_model, sklearn.metrics{loaded}").split())
    assert not OPTIONAL & (ours - theirs)


def test_the_command_line_starts_without_the_numerical_libraries():
    loaded = run("import sys; sys.argv = ['kinfolk']; import kinfolk.cli; print(*sys.modules)").split()
    assert "kinfolk.estimators.gamtl" not in loaded and "sklearn" not in loaded


def test_public_names_are_what_the_package_says():
    assert {"GAMTL", "GAMTLCV", "RBFFeatures", "RBFGAMTL", "TaskGraph", "GramStats"} <= set(kinfolk.__all__)
    assert all(hasattr(kinfolk, name) for name in kinfolk.__all__)


def test_no_file_is_a_grab_bag():
    assert not {p.stem for p in SOURCE.rglob("*.py")} & {"utils", "util", "helpers", "common", "misc"}
