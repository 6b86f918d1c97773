"""One name, one meaning: a public function or class is defined in one module only, with the exceptions listed here."""

import ast
from collections import defaultdict
from pathlib import Path

import kinfolk

SOURCE = Path(kinfolk.__file__).parent
# Names that two modules define, with the reason why; docs/glossary.md proposes names for those marked "two meanings".
REASONS = {
    "Setting": "two meanings: of the reproduction, of RBF features",
    "alternate": "the same verb: GAMTL's loop and MSSL's loop",
    "graph_of": "the same verb: of a model file, of a model",
    "listed": "two meanings: columns of a file, names in a sentence",
    "minimise": "the same verb of two solvers",
    "nearest": "the same verb: names in a table, tasks",
    "objective": "the same word: each solver has its own",
    "run": "every command has one; that of reproduce is public",
}


def homes():
    """Modules that define each public function or class."""
    found = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
                found[node.name].append(str(path.relative_to(SOURCE)))
    return found


def constants(path):
    """Names that a module gives values to at its top level."""
    assigned = [node.targets[0] for node in ast.parse(path.read_text()).body if isinstance(node, ast.Assign)]
    return {target.id for target in assigned if isinstance(target, ast.Name)}


# Words that have had many meanings, and the files that give them the one of docs/glossary.md.
MEANINGS = {
    "spread": {"explain/coefficients.py"},
    "pull": {"solvers/weights/system.py"},
    "contender": set(),
    "letters": set(),
}


def named(path):
    """Everything that a module names: variables, arguments, fields, functions and classes."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
        if isinstance(node, ast.arg):
            yield node.arg


def test_a_word_of_many_meanings_keeps_the_one_of_the_glossary():
    used = {str(path.relative_to(SOURCE)): set(named(path)) for path in SOURCE.rglob("*.py")}
    found = {word: {file for file, names in used.items() if word in names} for word in MEANINGS}
    assert found == MEANINGS


def test_a_common_tolerance_has_one_value():
    home = SOURCE / "solvers" / "tolerances.py"
    elsewhere = {path.stem: constants(path) & constants(home) for path in SOURCE.rglob("*.py") if path != home}
    assert not {name: found for name, found in elsewhere.items() if found}


def test_a_public_name_is_defined_once():
    twice = {name: modules for name, modules in homes().items() if len(modules) > 1 and name not in REASONS}
    assert not twice, f"rename one of each, or give a reason in {Path(__file__).name}: {twice}"


def test_no_reason_outlives_its_name():
    found = homes()
    once = [name for name in REASONS if len(found[name]) < 2]
    assert not once, f"no longer defined twice, remove from the list: {once}"
