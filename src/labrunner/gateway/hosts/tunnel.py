"""A tunnel: bytes both ways, once the first of them have been looked at.

Rules: on 443, and wherever the list names no port, only TLS passes, and the name in its greeting must be the
one that was asked for. Where the list names another port any bytes pass, but a greeting of TLS must name the
right host there too. Nothing reaches the host before that. A slow reader holds up its writer, nothing else.
"""

import asyncio
from dataclasses import dataclass
from typing import Final

from labrunner.experiment.allowlist import DEFAULT_PORTS, AllowedHost, parse_host
from labrunner.gateway.hosts.clienthello import (
    ALERT,
    HANDSHAKE,
    MAX_GREETING,
    Greeting,
    GreetingReader,
    NotTls,
)
from labrunner.gateway.hosts.destination import Destination
from labrunner.gateway.hosts.outside import Outside, at_client, at_host
from labrunner.gateway.hosts.passage import Passage, Turned
from labrunner.gateway.hosts.pulse import Pulse
from labrunner.gateway.hosts.visitor import HostService
from labrunner.gateway.serving.wire import ClientGone

_CHUNK: Final = 64 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Inside:
    """A client's connection, and what came of it before."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    first: bytes


class Tunnel:
    """Joins a client's connection with a host's."""

    def __init__(
        self, target: Destination, line: AllowedHost, passage: Passage, service: HostService
    ) -> None:
        """Carry what a line of the list allows."""
        self._target = target
        self._visit = passage
        self._service = service
        self._is_tls_only = line.port in (None, DEFAULT_PORTS["tunnel"])
        self._pulse = Pulse(service.idle_s)

    async def carry(self, inside: Inside, outside: Outside) -> None:
        """Until both have ended, or one broke off. Raises Turned, ClientGone."""
        try:
            async with self._pulse.kept(), asyncio.TaskGroup() as group:
                group.create_task(self._go_up(inside, outside))
                group.create_task(self._come_down(inside, outside))
        except Turned as turned:
            if turned.reason == "other_name":
                inside.writer.write(ALERT)
            raise

    async def _go_up(self, inside: Inside, outside: Outside) -> None:
        try:
            with at_client():
                data = await self._screen(inside)
            while data:
                self._visit.sent += len(data)
                with at_host():
                    await self._pass_on(data, outside.writer)
                with at_client():
                    data = await inside.reader.read(_CHUNK)
            with at_host():
                outside.writer.write_eof()
        except (Turned, ClientGone) as error:
            self._pulse.halt(error)

    async def _come_down(self, inside: Inside, outside: Outside) -> None:
        try:
            while data := await self._read_host(outside):
                self._visit.received += len(data)
                with at_client():
                    await self._pass_on(data, inside.writer)
            with at_client():
                inside.writer.write_eof()
        except (Turned, ClientGone) as error:
            self._pulse.halt(error)

    async def _read_host(self, outside: Outside) -> bytes:
        with at_host():
            return await outside.reader.read(_CHUNK)

    async def _pass_on(self, data: bytes, writer: asyncio.StreamWriter) -> None:
        self._pulse.touch()
        writer.write(data)
        await writer.drain()
        self._pulse.touch()

    async def _screen(self, inside: Inside) -> bytes:
        """The first bytes, once they may pass; none where the client ended before. Raises Turned, OSError."""
        if self._is_tls_only:
            return await self._read_greeting(inside, inside.first)
        first = inside.first or await inside.reader.read(_CHUNK)
        return await self._read_greeting(inside, first) if first[:1] == bytes([HANDSHAKE]) else first

    async def _read_greeting(self, inside: Inside, data: bytes) -> bytes:
        try:
            async with asyncio.timeout(self._service.greeting_s):
                greeting, data = await _take_greeting(inside.reader, data)
        except NotTls as error:
            raise Turned("not_tls", 403, f"only TLS may pass to {self._target}: {error}") from error
        except TimeoutError as error:
            told = f"{self._target} was not greeted within {self._service.greeting_s:g} s"
            raise Turned("timeout", 408, told, end="failed") from error
        if greeting is None:
            return b""
        self._check(greeting)
        return data

    def _check(self, greeting: Greeting) -> None:
        self._visit.hides_name = greeting.hides_name
        name, host = greeting.name, self._target.host
        if name is None and not isinstance(host, str):
            return
        try:
            is_same = name is not None and parse_host(name) == host
        except ValueError:
            is_same = False
        if not is_same:
            said = "no name" if name is None else f"the name '{name[:253]}'"
            raise Turned("other_name", 403, f"a tunnel to {self._target} was asked for; TLS in it has {said}")


async def _take_greeting(reader: asyncio.StreamReader, data: bytes) -> tuple[Greeting | None, bytes]:
    """A greeting, none where the client ended before, and all that was read. Raises NotTls, OSError."""
    taking, piece = GreetingReader(), data
    while (greeting := taking.take(piece)) is None:
        piece = await reader.read(MAX_GREETING - len(data))
        if not piece:
            break
        data += piece
    return greeting, data
