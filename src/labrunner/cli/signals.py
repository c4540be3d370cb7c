"""What Ctrl-C, SIGTERM and SIGHUP do to a command, from its first line to its last.

Rules: while code is loaded, and after everything is done, a signal ends the process at once and quietly:
nothing is under way that would have to be put in order, and an exception inside a half-loaded library can
crash the interpreter. In between it is a KeyboardInterrupt. What the process was told to ignore stays
ignored. Light to import: this is loaded before anything else.
"""

import os
import signal
import sys
from contextlib import suppress
from types import FrameType
from typing import NoReturn

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
INTERRUPTED = 130


class _Leave:
    """Ends the process, with an exit code that is known already."""

    def __init__(self, code: int) -> None:
        self._code = code

    def __call__(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        leave(self._code)


def leave(code: int) -> NoReturn:
    """End the process without a word more: threads that are still at work in some library are not asked."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # a stream that is gone, or in use by what was interrupted
            stream.flush()
    os._exit(code)


def leave_at_once(code: int = INTERRUPTED) -> None:
    """From now on a signal ends the process, with this exit code."""
    for number in _SIGNALS:
        if _is_ours(number):
            signal.signal(number, _Leave(code))


def raise_interrupts() -> None:
    """From now on a signal is a KeyboardInterrupt, or what an event loop makes of it."""
    for number in _SIGNALS:
        if _is_ours(number):
            signal.signal(number, signal.default_int_handler if number is signal.SIGINT else _interrupt)


def _is_ours(number: signal.Signals) -> bool:
    """Whether nobody else has a say in what the signal does."""
    found = signal.getsignal(number)
    first = signal.default_int_handler if number is signal.SIGINT else signal.SIG_DFL
    return found in (first, _interrupt) or isinstance(found, _Leave)


def _interrupt(number: int, frame: FrameType | None) -> None:
    on_interrupt = signal.getsignal(signal.SIGINT)
    if callable(on_interrupt):
        # An event loop puts its own here: it ends its task in order.
        on_interrupt(number, frame)
    else:
        # Shells start background jobs deaf to Ctrl-C alone.
        raise KeyboardInterrupt
