"""The docstrings of kinfolk are written for the eye; this makes them reStructuredText before numpydoc reads them.

`code` in single backticks becomes code, indented formulas become literal blocks, and bars, stars and trailing
underscores in prose mean themselves.
"""

import re

CODE = re.compile(r"``[^`]+``|:\w+:`[^`]+`|`[^`]+`")
SPECIAL = re.compile(r"[|*]|(?<=\w)_(?!\w)")


def as_rst(lines):
    """The lines of one docstring, in place of those given."""
    result, section, inside = [], None, False
    for k, line in enumerate(lines):
        below = lines[k + 1] if k + 1 < len(lines) else ""
        if line and set(below.strip()) == {"-"} and len(below.strip()) >= 3:
            section = line.strip()
        formula = section is None and line.startswith("    ")
        if formula and not inside and (not result or not result[-1].strip()):
            result += [".. code-block:: text", ""]
            inside = True
        inside = inside and (formula or not line.strip())
        result.append(line if inside or section == "Examples" else prose(line))
    return result


def prose(line):
    """One line outside formulas and examples."""
    parts, end = [], 0
    for code in CODE.finditer(line):
        parts += [SPECIAL.sub(r"\\\g<0>", line[end : code.start()]), _literal(code.group())]
        end = code.end()
    return "".join([*parts, SPECIAL.sub(r"\\\g<0>", line[end:])])


def _literal(code):
    return code if code.startswith(("``", ":")) else f"`{code}`"


def process(app, what, name, obj, options, lines):
    """What Sphinx calls for every docstring."""
    if str(name).startswith("kinfolk"):
        lines[:] = as_rst(lines)
