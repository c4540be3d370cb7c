"""The outer end of a line to a terminal in a sandbox: a socket in a folder that is seen inside.

Rule: one caller is heard, the first: it is ours, since nothing else runs inside before it.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from importlib import resources
from pathlib import Path
from typing import Final

from labrunner.sandbox.terminals.inner_end import HEAD, NAME, PIECE, SIZE
from labrunner.sandbox.terminals.person import Person, TerminalCall

SETTLED_S: Final = 5.0
"""How long what was shown may take to arrive, once its command has ended."""


def inner_command(call: TerminalCall) -> tuple[str, ...]:
    """What is started inside: the inner end, which starts the command."""
    source = resources.files("labrunner.sandbox.terminals").joinpath("inner_end.py").read_text("utf-8")
    return (call.python, "-I", "-S", "-c", source, *call.argv)


@asynccontextmanager
async def hold_line(folder: Path, person: Person) -> AsyncIterator[None]:
    """Have a line to whoever calls from this folder; all that was shown is told on leaving."""
    line = _OuterEnd(person)
    fd = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        # Through the descriptor, because a socket's address is short and a folder's path may not be.
        server = await asyncio.start_unix_server(line.take, f"/proc/self/fd/{fd}/{NAME}")
    finally:
        os.close(fd)
    try:
        yield
        await line.settle()
    finally:
        server.close()
        line.cut()


class _OuterEnd:
    """A line that nobody has called on yet."""

    def __init__(self, person: Person) -> None:
        self._person = person
        self._carrying: asyncio.Task[None] | None = None

    def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._carrying is not None:
            writer.close()
            return
        # Awaited by `settle`, or ended by `cut`.
        self._carrying = asyncio.ensure_future(self._carry(reader, writer))

    async def settle(self) -> None:
        if self._carrying is not None:
            await asyncio.wait([self._carrying], timeout=SETTLED_S)
            if self._carrying.done():
                self._carrying.result()

    def cut(self) -> None:
        if self._carrying is not None:
            self._carrying.cancel()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._tell_size(writer)  # before anything else: the command is born with it
        beside = [
            asyncio.ensure_future(self._tell_typed(writer)),
            asyncio.ensure_future(self._tell_sizes(writer)),
        ]
        try:
            with suppress(ConnectionError):
                while data := await reader.read(PIECE):
                    self._person.show(data)
        finally:
            for task in beside:
                task.cancel()
            await asyncio.wait(beside)
            writer.close()

    async def _tell_typed(self, writer: asyncio.StreamWriter) -> None:
        while data := await self._person.typed():
            await self._send(writer, b"d", data)

    async def _tell_sizes(self, writer: asyncio.StreamWriter) -> None:
        while True:
            await self._person.resized()
            await self._tell_size(writer)

    async def _tell_size(self, writer: asyncio.StreamWriter) -> None:
        await self._send(writer, b"w", SIZE.pack(*self._person.size()))

    async def _send(self, writer: asyncio.StreamWriter, kind: bytes, data: bytes) -> None:
        with suppress(ConnectionError):  # its reader finds out
            writer.write(HEAD.pack(kind, len(data)) + data)
            await writer.drain()
