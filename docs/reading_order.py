"""Every module in reading order, with the first line of its docstring: `python docs/reading_order.py` writes the page.

The order is that of `reading-order.toml`. Inside a rank a module stands below those that it imports.
"""

import ast
import tomllib
from pathlib import Path

DOCS = Path(__file__).parent
SOURCE = DOCS.parent / "src" / "kinfolk"
PAGE = DOCS / "reading-order.md"
MARKER = "<!-- below: written by `python docs/reading_order.py` -->"
ROOMS = tomllib.loads((DOCS / "reading-order.toml").read_text())["room"]
RANKS = [rank.split() for room in ROOMS for rank in room["ranks"]]
RANK = {name: k for k, names in enumerate(RANKS) for name in names}


def module_name(path):
    """The name below `kinfolk`: "rows.gram"; that of a package is the name of its folder."""
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")


def rank(name):
    """Rank of a module: that of the longest listed name that it is or belongs to."""
    parts = name.split(".")
    prefixes = [".".join(parts[:k]) for k in range(len(parts), 0, -1)]
    return next(RANK[prefix] for prefix in prefixes if prefix in RANK)


def imports(path):
    """Modules of the package that a file imports at its top level."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("kinfolk."):
            yield node.module.removeprefix("kinfolk.")
        if isinstance(node, ast.Import):
            yield from (n.name.removeprefix("kinfolk.") for n in node.names if n.name.startswith("kinfolk."))


def ordered():
    """Paths of all modules by rank; inside a rank a module comes after those that it imports."""
    paths = {module_name(path): path for path in sorted(SOURCE.rglob("*.py"))}
    placed = {}

    def place(name):
        if name in paths and name not in placed:
            path = paths[name]
            placed[name] = None  # seen, which ends a cycle of a package and its parts
            for other in sorted(imports(path)):
                if rank(other) == rank(name):
                    place(other)
            del placed[name]
            placed[name] = path

    for name in sorted(paths, key=lambda name: (rank(name), name)):
        place(name)
    return list(placed.values())


def listing():
    """The generated part of the page."""
    lines = []
    room_of = [k for k, room in enumerate(ROOMS) for _ in room["ranks"]]
    last = None
    for path in ordered():
        room = room_of[rank(module_name(path))]
        if room != last:
            lines += ["", f"## {ROOMS[room]['title']}", "", ROOMS[room]["text"], ""]
            last = room
        name = str(path.relative_to(SOURCE)).replace("/__init__.py", "/")
        lines.append(f"- `{name}`: {ast.get_docstring(ast.parse(path.read_text())).splitlines()[0]}")
    return "\n".join(lines) + "\n"


def page():
    """The page as it should be: its hand-written beginning, then the list."""
    return PAGE.read_text().partition(MARKER)[0] + MARKER + "\n" + listing()


if __name__ == "__main__":
    PAGE.write_text(page())
