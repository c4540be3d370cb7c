"""The terminal that `lab` was started at, lent to a sandbox: what is typed, what is shown, how large it is.

Rule: a terminal is given back as it was, whatever happened.
"""

import asyncio
import os
import signal
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager

from labrunner.sandbox.terminals.person import WindowSize

_PIECE = 65536


class OwnTerminal:
    """Whoever started `lab`."""

    def __init__(self) -> None:
        """Nobody has typed anything yet."""
        self._typed: asyncio.Queue[bytes] = asyncio.Queue()
        self._resized = asyncio.Event()

    def size(self) -> WindowSize:
        """How large the window is."""
        columns, rows = os.get_terminal_size(sys.stdin.fileno())
        return WindowSize(rows or 24, columns or 80)

    async def resized(self) -> None:
        """Wait for another size."""
        await self._resized.wait()
        self._resized.clear()

    async def typed(self) -> bytes:
        """Wait for what is typed."""
        return await self._typed.get()

    def show(self, data: bytes) -> None:
        """Show it, whole."""
        while data:
            data = data[os.write(sys.stdout.fileno(), data) :]

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Have the terminal hand every key on, Ctrl-C included."""
        stdin, loop = sys.stdin.fileno(), asyncio.get_running_loop()
        usual = termios.tcgetattr(stdin)
        try:
            tty.setraw(stdin, termios.TCSADRAIN)  # what was typed ahead is not lost
            loop.add_reader(stdin, self._read, stdin)
            loop.add_signal_handler(signal.SIGWINCH, self._resized.set)
            yield
        finally:
            loop.remove_signal_handler(signal.SIGWINCH)
            loop.remove_reader(stdin)
            termios.tcsetattr(stdin, termios.TCSADRAIN, usual)

    def _read(self, stdin: int) -> None:
        try:
            data = os.read(stdin, _PIECE)
        except OSError:  # the terminal is gone
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(stdin)
        self._typed.put_nowait(data)
