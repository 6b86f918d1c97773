"""Runs every command and code block of the documents, and compares what is printed with what they say.

    python docs/printed.py            # writes what is printed into the documents
    python -m pytest tests/test_documents.py

The blocks of a document run in order in one folder. A block of Python is followed by what it prints, if that is shown.
A block with lines that begin with $ is a session: commands, and what each prints. `...` stands for lines left out.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = ("quickstart.md", "classes-and-counts.md", "cli.md", "coming-from.md", "interoperability.md")
DOCUMENTS = [ROOT / "README.md", *(ROOT / "docs" / name for name in PAGES)]
NOT_RUN = ("pip ", "make ", "git ", "kinfolk fit postgres:", "kinfolk reproduce")  # installs, builds, a server, hours
BLOCK = re.compile(r"```(\w*)\n(.*?)```", re.DOTALL)
NUMBER = re.compile(r"[-+]?\d[\d,]*\.?\d*(?:e[-+]?\d+)?")
VARIES = re.compile(r"(in (less than )?\d+ s\b)|(\d+(\.\d)? s$)|(\(\d+(\.\d)? [kM]?B\))", re.MULTILINE)
TOLERANCE = 0.02  # of every number: the last digits differ between machines


def steps(text):
    """(place of the expected text or None, kind, code or command, expected text) of every block that runs."""
    found = []
    last = None
    for block in BLOCK.finditer(text):
        kind, body = block[1], block[2]
        if kind == "python":
            found.append([None, "python", body, None])
        elif kind == "" and body.startswith("$ "):
            found += _session(block.start(2), body)
        elif kind == "" and last and last[1] == "python" and text[last.end() : block.start()].strip() in ("", "prints"):
            found[-1][0] = (block.start(2), block.end(2))
            found[-1][3] = body
        elif kind == "" and body.split(" ")[0] in ("kinfolk", "pip", "make"):
            commands = body.replace("\\\n", " ").splitlines()
            found += [[None, "command", line.split("  #")[0], None] for line in commands if line.strip()]
        last = block
    return found


def _session(start, body):
    parts = re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]
    at = start
    found = []
    for part in parts:
        command = re.match(r"(?:.*\\\n)*.*\n", part)[0]
        begin = at + 2 + len(command)
        at += 2 + len(part)
        found.append([(begin, at), "command", command.replace("\\\n", " ").strip(), part[len(command) :]])
    return found


def run(kind, code, folder):
    """What a block or command prints, notices included."""
    tools = folder / "bin"
    tools.mkdir(exist_ok=True)
    (tools / "kinfolk").write_text(f"#!{sys.executable}\nimport sys\nfrom kinfolk.cli import main\nsys.exit(main())\n")
    (tools / "kinfolk").chmod(0o755)
    source = str(ROOT / "src")
    environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "PYTHONPATH": source, "MPLBACKEND": "Agg"}
    environment |= {"OPENBLAS_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    # Notices of a command belong to what is shown; beside a block of Python other libraries log what they like.
    command, notices = (
        ([sys.executable, "-c", code], subprocess.PIPE)
        if kind == "python"
        else (["bash", "-c", code], subprocess.STDOUT)
    )
    done = subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=notices, text=True)
    if done.returncode:
        raise RuntimeError(f"{code}\n{done.stdout}{done.stderr or ''}")
    return done.stdout


def differs(expected, printed):
    """The first difference in words, or nothing; numbers may differ by a little, times and sizes by anything."""
    pieces = [VARIES.sub("~", part).split() for part in re.split(r"^\.\.\.$", expected, flags=re.MULTILINE)]
    words = VARIES.sub("~", printed).split()
    if len(pieces) > 1:  # lines were left out: the beginning, and what stands after them at the end
        words = words[: len(pieces[0])] + (words[-len(pieces[-1]) :] if pieces[-1] else [])
    wanted = [word for piece in pieces for word in piece]
    for one, two in zip(wanted, words, strict=False):
        if NUMBER.sub("#", one) != NUMBER.sub("#", two) or not _close(one, two):
            return f"{one!r} is printed as {two!r}"
    return "" if len(wanted) == len(words) else f"{len(wanted)} words are printed as {len(words)}:\n{printed}"


def _close(one, two):
    pairs = zip(NUMBER.findall(one), NUMBER.findall(two), strict=True)
    values = [(float(a.replace(",", "")), float(b.replace(",", ""))) for a, b in pairs]
    return all(abs(a - b) <= TOLERANCE * max(abs(a), abs(b)) + 0.06 for a, b in values)


def prepare(folder):
    """A database for the examples that ask one."""
    import duckdb

    with duckdb.connect(str(folder / "parks.db")) as database:
        table = ROOT / "src" / "kinfolk" / "datasets" / "car_parks.csv"
        database.sql(f"create table parks as select * from read_csv('{table}')")


def checked(path):
    """Run a document; yield every command with the difference, its place, and what was printed."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder)
        for place, kind, code, expected in steps(path.read_text()):
            if kind == "command" and code.startswith(NOT_RUN):
                continue
            printed = run(kind, code, folder)
            yield code, "" if expected is None else differs(expected, printed), place, printed


def rewrite(path):
    """Put what is printed into a document; shortened outputs (...) stay as they are."""
    text = path.read_text()
    changes = [(place, printed) for _, wrong, place, printed in checked(path) if wrong]
    for (begin, end), printed in reversed(changes):
        if "\n...\n" not in text[begin:end]:
            text = text[:begin] + "".join(f"{line.rstrip()}\n" for line in printed.splitlines()) + text[end:]
    path.write_text(text)


if __name__ == "__main__":
    for document in [Path(name) for name in sys.argv[1:]] or DOCUMENTS:
        rewrite(document)
