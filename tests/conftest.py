"""What holds for all tests."""

import os
import signal
from collections.abc import Generator

import pytest


def pytest_configure() -> None:
    """Hear signals as a terminal's program does, whoever started us: under nohup some would be ignored."""
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
