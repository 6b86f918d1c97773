"""Makes the tables of these tests importable, and says how they ended; in the long run failures at once."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from random_tables import LONG, SEEN


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if LONG and report.failed:
        item.config.get_terminal_writer().line(f"\n{report.longreprtext}")
    return report


def pytest_terminal_summary(terminalreporter):
    if SEEN:
        ends = ", ".join(f"{count:,} {end}" for end, count in SEEN.most_common())
        terminalreporter.write_line(f"{SEEN.total():,} random tables: {ends}")
