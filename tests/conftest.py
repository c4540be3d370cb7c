"""What holds for all tests."""

import os
import signal
import sqlite3
from collections.abc import Generator
from pathlib import Path

import pytest

from labrunner.store.buffering import buffer

pytest.register_assert_rewrite("tests.kit")  # what is asserted there is told like in a test

TASTES = ("COLUMNS", "FORCE_COLOR", "LINES", "NO_COLOR")
"""Variables of a person's shell that change what is printed."""


def pytest_configure() -> None:
    """Be the same whoever starts us: under nohup signals are ignored, and shells have variables."""
    for name in TASTES:
        os.environ.pop(name, None)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With CI set everything is tested: what would be skipped for want of something fails."""
    report = yield
    if report.skipped and os.environ.get("CI") and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"with CI set nothing may be skipped: {report.longrepr}"
    return report


@pytest.fixture
def unsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that open hundreds of runs and are not about durability."""
    # Hundreds of runs take minutes on a disk, and a moment without one.
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    monkeypatch.setattr(os, "fdatasync", lambda fd: None)

    def connect(path: Path) -> sqlite3.Connection:
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("PRAGMA synchronous = OFF")
        return connection

    # SQLite syncs by itself.
    monkeypatch.setattr(buffer, "_connect", connect)
