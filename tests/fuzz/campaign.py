"""Long runs of numbered cases that can be stopped and go on, and end in a row of the table in docs/reliability.md.

    python tests/fuzz/tables.py 20000                  all cases up to number 20,000
    python tests/fuzz/tables.py 20000 --seconds 600    as many as fit into ten minutes of processor time; then go on
    python tests/fuzz/tables.py --case 1234            one of them, with its traceback
    python tests/fuzz/tables.py --row                  what is known so far

Case k follows from the seed and k alone. What is known stands in `.fuzz/<name>.json` of the working folder, replaced
after every hundredth case; it belongs to one version of the source, by the checksum of its files.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import faulthandler
import hashlib
import json
import resource
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

import kinfolk
from kinfolk.files import replacing

sys.path[:0] = [str(Path(__file__).parents[1] / name) for name in ("", "store", "hardening", "cli")]

MEMORY = 6 * 2**30
WAIT = 300  # seconds for one case, on a machine that others use too
MOST_FAILURES = 10  # of which the traceback is kept

Case = Callable[[np.random.Generator], str]  # what became of it, in a word; anything wrong is raised


def main(name: str, one: Case, *, count: int, limit_memory: bool = True) -> int:
    """Run the cases of a campaign as the command line says."""
    options = _options(name, count)
    warnings.simplefilter("ignore")
    if limit_memory:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    if options.case is not None:
        sys.stdout.write(one(np.random.default_rng([options.seed, options.case])) + "\n")
        return 0
    path = Path(".fuzz") / f"{name.replace(' ', '-')}.json"
    known = _known(path, options.seed)
    if not options.row:
        _run(one, known, path, options)
    sys.stdout.write(row(name, known) + "\n")
    for failure in known["failures"]:
        sys.stdout.write(f"case {failure['case']}:\n{failure['traceback']}\n")
    return 1 if known["failed"] else 0


def _run(one: Case, known: dict, path: Path, options: argparse.Namespace) -> None:
    end = known["seconds"] + options.seconds
    outcomes = collections.Counter(known["outcomes"])
    while known["next"] < options.count and known["seconds"] < end:
        start = _processor_seconds()
        faulthandler.dump_traceback_later(WAIT, exit=True)
        try:
            outcomes[one(np.random.default_rng([options.seed, known["next"]]))] += 1
        except Exception:
            outcomes["failed"] += 1
            known["failed"] += 1
            if len(known["failures"]) < MOST_FAILURES:
                known["failures"].append({"case": known["next"], "traceback": traceback.format_exc()[-3000:]})
        faulthandler.cancel_dump_traceback_later()
        known["next"] += 1
        known["seconds"] += _processor_seconds() - start
        known["outcomes"] = dict(outcomes)
        if known["next"] % 100 == 0:
            _keep(path, known)
    _keep(path, known)


def row(name: str, known: dict) -> str:
    """A row of the table: what, cases, outcomes, failures, seconds."""
    outcomes = ", ".join(f"{count:,} {word}" for word, count in sorted(known["outcomes"].items()))
    return f"| {name} | {known['next']:,} | {outcomes} | {known['failed']} | {known['seconds']:,.0f} |"


def _options(name: str, count: int) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=f"Fuzz: {name}.")
    parser.add_argument("count", type=int, nargs="?", default=count)
    parser.add_argument("--seconds", type=float, default=np.inf, help="of processor time in this run")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", type=int, help="run one case alone")
    parser.add_argument("--row", action="store_true", help="print what is known and run nothing")
    return parser.parse_args()


def _known(path: Path, seed: int) -> dict:
    fresh = {"source": _source(), "seed": seed, "next": 0, "failed": 0, "failures": [], "outcomes": {}, "seconds": 0.0}
    with contextlib.suppress(FileNotFoundError):
        known = json.loads(path.read_text())
        if (known["source"], known["seed"]) == (fresh["source"], seed):
            return known
    return fresh


def _keep(path: Path, known: dict) -> None:
    with replacing(path) as partial:
        partial.write_text(json.dumps(known))


def _source() -> str:
    """A checksum of the package as it is."""
    state = hashlib.sha256()
    for file in sorted(Path(kinfolk.__file__).parent.rglob("*.py")):
        state.update(file.read_bytes())
    return state.hexdigest()[:16]


def _processor_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)
