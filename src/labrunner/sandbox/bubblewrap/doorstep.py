"""Where a launch waits until the doors of its phase are open: bwrap says which process is inside.

Rule: its words come in pieces, and not at all where no sandbox could be made.
"""

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import msgspec


class _Info(msgspec.Struct, rename="kebab"):
    child_pid: int


@dataclass(slots=True, kw_only=True)
class Doorstep:
    """One launch's."""

    reading: int
    writing: int

    @property
    def fds(self) -> tuple[int, ...]:
        """What the launch gets for it."""
        return (self.writing,)

    async def find_pid(self) -> int | None:
        """The first process inside, as this side numbers it; None when there came to be none."""
        self._close(self.writing)  # else nobody would hear that the other end is closed
        self.writing = -1
        text = b""
        while not text.rstrip().endswith(b"}"):
            piece = await self._read()
            if not piece:
                return None
            text += piece
        return msgspec.json.decode(text, type=_Info).child_pid

    async def _read(self) -> bytes:
        ready, loop = asyncio.Event(), asyncio.get_running_loop()
        loop.add_reader(self.reading, ready.set)
        try:
            await ready.wait()
        finally:
            loop.remove_reader(self.reading)
        return os.read(self.reading, 4096)

    def close(self) -> None:
        """Let go."""
        self._close(self.reading)
        self._close(self.writing)

    def _close(self, fd: int) -> None:
        if fd >= 0:
            os.close(fd)


@contextmanager
def make_doorstep() -> Iterator[Doorstep]:
    """Make the descriptors of one launch."""
    reading, writing = os.pipe()
    doorstep = Doorstep(reading=reading, writing=writing)
    try:
        yield doorstep
    finally:
        doorstep.close()
