"""Somebody at a real terminal who has started `lab`."""

import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.kit.cli.calling import LAB, environment


class Typist:
    """A process at a terminal of its own, and what it has shown so far."""

    def __init__(self, pid: int, terminal: int) -> None:
        self.pid = pid
        self.terminal = terminal
        self.shown = ""
        self.status: int | None = None

    def see(self, text: str, within_s: float = 60) -> None:
        """Wait until something is shown; what was shown up to its end is forgotten."""
        until = time.monotonic() + within_s
        while text not in self.shown:
            assert self._has_more(max(0.0, until - time.monotonic())), (
                f"{text!r} was not shown: {self.shown!r}"
            )
            read = self._read()
            assert read, f"it ended without showing {text!r}: {self.shown!r}"
            self.shown += read
        self.shown = self.shown.partition(text)[2]

    def type(self, text: str) -> None:
        os.write(self.terminal, text.encode())

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def end(self) -> int:
        """Wait for its end; its exit status, negative for a signal."""
        while self.status is None:
            found, status = os.waitpid(self.pid, os.WNOHANG)
            if found:
                self.status = os.waitstatus_to_exitcode(status)
            elif self._has_more(0.05):
                self._read()
        return self.status

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        os.kill(self.pid, number)

    def _has_more(self, within_s: float) -> bool:
        poll = select.poll()  # not select: its own numbers end at 1024, and a test process may have more
        poll.register(self.terminal, select.POLLIN)
        return bool(poll.poll(within_s * 1000))

    def _read(self) -> str:
        try:
            return os.read(self.terminal, 65536).decode(errors="replace")
        except OSError:  # nobody is at its other side any more
            return ""


@contextmanager
def at_terminal(*words: str | Path, cwd: Path, rows: int = 31, columns: int = 97) -> Iterator[Typist]:
    """Start `lab` at a terminal of this size."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(cwd)
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        env = {name: value for name, value in environment().items() if name != "COLUMNS"}
        os.execve(LAB, ["lab", *map(str, words)], {**env, "TERM": "dumb"})
    typist = Typist(pid, terminal)
    try:
        yield typist
    finally:
        if typist.status is None:
            typist.kill()
            os.waitpid(pid, 0)
        os.close(terminal)


def is_running(word: str) -> bool:
    """Whether a process of this host has a word in its command line."""
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if word.encode() in line.read_bytes().split(b"\0"):
                return True
        except OSError:
            continue  # ended meanwhile
    return False
