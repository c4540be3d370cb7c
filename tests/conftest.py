"""What holds for all tests."""

import signal


def pytest_configure() -> None:
    """Hear signals as a terminal's program does, whoever started us: under nohup some would be ignored."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
