"""How the code reads, in numbers: short functions, few arguments, one fact per line, reasons beside the mathematics."""

import ast
import io
import tokenize
from pathlib import Path

import pytest

import kinfolk

SOURCE = Path(kinfolk.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
TREES = {path: ast.parse(path.read_text()) for path in FILES}
NOT_CODE = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
MOST_LINES = 40
MOST_ARGUMENTS = 8
# Functions whose arguments are part of the interface.
MANY_ARGUMENTS = {"compare": 15, "compare_rows": 9, "tune": 11, "fit_file": 9, "graph_of_weights": 9}
MANY_ARGUMENTS |= {"summarize": 9, "write_report": 9}


def of_kind(kind):
    return [(path, node) for path, tree in TREES.items() for node in ast.walk(tree) if isinstance(node, kind)]


def docstring_lines(node):
    first = node.body[0] if node.body else None
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        return set(range(first.lineno, first.end_lineno + 1))
    return set()


def code_and_comments(path):
    """Lines of a file that hold code, docstrings left out, and those with a comment."""
    tokens = list(tokenize.generate_tokens(io.StringIO(path.read_text()).readline))
    code = {line for t in tokens if t.type not in NOT_CODE for line in range(t.start[0], t.end[0] + 1)}
    for node in ast.walk(TREES[path]):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            code -= docstring_lines(node)
    return code, {t.start[0] for t in tokens if t.type == tokenize.COMMENT}


def test_functions_are_short():
    code = {path: code_and_comments(path)[0] for path in FILES}
    lines = {
        f"{path.name}:{node.name}": len(code[path] & set(range(node.lineno, node.end_lineno + 1)))
        for path, node in of_kind(ast.FunctionDef)
    }
    assert not {name: count for name, count in lines.items() if count > MOST_LINES}


def test_functions_take_few_arguments():
    counts = [
        (node.name, len([a for a in (*node.args.args, *node.args.kwonlyargs) if a.arg not in ("self", "cls")]))
        for _, node in of_kind(ast.FunctionDef)
    ]
    assert sorted((name, count) for name, count in counts if count > MOST_ARGUMENTS) == sorted(MANY_ARGUMENTS.items())


def test_one_fact_per_line():
    assignments = of_kind((ast.Assign, ast.AnnAssign, ast.AugAssign))
    plain = [node for _, node in assignments if isinstance(node, ast.Assign)]
    parallel = [n for n in plain if isinstance(n.targets[0], ast.Tuple) and isinstance(n.value, ast.Tuple)]
    assert len(parallel) < 0.03 * len(assignments)


def test_a_constant_of_a_module_has_one_value():
    for path, tree in TREES.items():
        targets = [node.targets[0] for node in tree.body if isinstance(node, ast.Assign)]
        targets += [node.target for node in tree.body if isinstance(node, (ast.AnnAssign, ast.AugAssign))]
        names = [target.id for target in targets if isinstance(target, ast.Name)]
        assert not {name for name in names if names.count(name) > 1}, path


def test_no_choice_inside_a_choice():
    nested = [
        f"{path.name}:{node.lineno}"
        for path, node in of_kind(ast.IfExp)
        if any(isinstance(part, ast.IfExp) for part in ast.walk(node) if part is not node)
    ]
    assert not nested


@pytest.mark.parametrize("folder", ["methods", "solvers", "diagnostics", "explain"])
def test_the_mathematics_has_reasons_beside_it(folder):
    counts = [code_and_comments(path) for path in FILES if path.relative_to(SOURCE).parts[0] == folder]
    code = sum(len(lines) for lines, _ in counts)
    assert sum(len(comments) for _, comments in counts) >= 0.05 * code
