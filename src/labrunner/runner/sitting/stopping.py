"""How a run is asked to stop, and how urgently."""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

from labrunner.errors import ExitCode
from labrunner.records.run import RunError

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
LEFT_AT_ONCE: Final = "left at once; what was finished is durable; "


@dataclass(frozen=True, slots=True, kw_only=True)
class Interrupted:
    """Somebody asked the run to stop: it ends as `cancelled`."""

    signal_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GaveUp:
    """Too many errors, an outage that took too long, or a used up budget: the run ends as `error`."""

    error: RunError


StopReason = Interrupted | GaveUp


class StopRequest:
    """A request to stop; the first reason stays, later ones only hurry."""

    def __init__(self) -> None:
        """Nobody has asked yet."""
        self.reason: StopReason | None = None
        self.is_interrupted = False
        self.stopped = asyncio.Event()
        self.hurried = asyncio.Event()

    def ask(self, reason: StopReason) -> None:
        """Ask to stop: no new trial starts, those in flight get their grace."""
        if self.reason is None:
            self.reason = reason
        self.is_interrupted |= isinstance(reason, Interrupted)
        self.stopped.set()

    def hurry(self) -> None:
        """End what is in flight now."""
        self.hurried.set()


@contextmanager
def signals_stop(request: StopRequest, name: str = "") -> Iterator[None]:
    """While inside: the first signal asks to stop, the second hurries, the third leaves at once.

    `name` is the run's: what is left at once is to be gone on with, or given up, under it.
    A run that stops of its own accord is hurried by the first.
    Signals come to the main thread alone: a run in another one can't be interrupted by them.
    Whoever started us under `nohup` wants the run to outlive the terminal: an ignored SIGHUP stays ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    count = 0

    def on_signal(number: signal.Signals) -> None:
        nonlocal count
        count += 1
        if count > 2:
            with suppress(OSError):
                sys.stderr.write("\n" if sys.stderr.isatty() else "")
                sys.stderr.write(LEFT_AT_ONCE + _what_next(name))
            os._exit(ExitCode.INTERRUPTED)
        if request.stopped.is_set():
            request.hurry()
        request.ask(Interrupted(signal_name=number.name))

    before = {number: signal.getsignal(number) for number in SIGNALS if not _is_refused(number)}
    for number in before:
        loop.add_signal_handler(number, on_signal, number)
    try:
        yield
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)


def _what_next(name: str) -> str:
    if not name:
        return "nothing was under way\n"
    return f"to go on: lab continue {name}; to give up what was under way: lab clean --abandon {name}\n"


def _is_refused(number: signal.Signals) -> bool:
    return number is signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN
