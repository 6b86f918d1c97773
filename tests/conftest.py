"""Makes the shared problems importable, and skips nothing where everything must run."""

import os
import signal
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

# A shell without a terminal starts background jobs deaf to interrupts, and the commands that tests interrupt with them.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def no_pandas(monkeypatch):
    """Make ``import pandas`` fail."""
    monkeypatch.setitem(sys.modules, "pandas", None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """In CI a test that lacks its data, its browser or a library fails."""
    report = yield
    if os.environ.get("CI") and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"in CI nothing may be skipped: {call.excinfo.value}"
    return report
