"""The owner's side of a run's gateway: found or started, spoken to, and started again when it dies.

Rules: whoever is served is served again by the next process, with the same listeners and the same token. It
is started when somebody first needs it. Nothing of ours ends it: it ends by itself once we are gone and
nobody is left.
"""

import asyncio
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import msgspec

from labrunner.errors import SandboxFailed, StoreError
from labrunner.gateway.process.borrowing import state_nobody
from labrunner.gateway.process.channel import Channel, ChannelClosed
from labrunner.gateway.process.control import (
    Admit,
    Answered,
    Broken,
    Capped,
    Dismiss,
    Event,
    Halting,
    Hello,
    Inquiry,
    Lend,
    Listen,
    Listening,
    Message,
    Missed,
    Refused,
    Reply,
    Request,
    Stated,
    Told,
)
from labrunner.gateway.process.place import GatewayPlace
from labrunner.gateway.process.ports import ANY_PORTS
from labrunner.gateway.process.starting import start_daemon

START_S: Final = 30.0
"""How long a process may take until it answers."""
END_S: Final = 5.0
"""How long the end of one that was started here is waited for."""
_LOOK_S: Final = 0.005
_LONGEST_LOOK_S: Final = 0.1
_REST_S: Final = 0.5
"""Before another one is started where the last one did not come to answer."""
_TAIL: Final = 1000
_REASON: Final = "gateway"


@dataclass(slots=True, kw_only=True)
class Admitted:
    """A phase that is served, as its attempt holds it."""

    admit: Admit
    on_halted: Callable[[Halting], None]
    broken: str = ""


@dataclass(slots=True, kw_only=True)
class _Line:
    """A connection that works."""

    channel: Channel
    waiting: dict[int, asyncio.Future[Reply]] = field(default_factory=dict)
    number: int = 0


class GatewayOwner:
    """Speaks to one run's gateway. Used in one event loop; `close` lets go of it."""

    def __init__(
        self, place: GatewayPlace, hello: Hello, on_stated: Callable[[Stated], None] | None = None
    ) -> None:
        """Start nothing yet; `on_stated` is told by whoever has borrowed how it stands."""
        self._place = place
        self._hello = msgspec.structs.replace(hello, is_lent=on_stated is not None)
        self._on_stated = on_stated
        self._line: _Line | None = None
        self._admitted: dict[str, Admitted] = {}
        self._shared: dict[str, Listening] = {}
        self._connecting = asyncio.Lock()
        self._hearing: asyncio.Task[None] | None = None
        self._reviving: asyncio.Task[None] | None = None
        self._pid = 0
        self._is_closed = False

    async def listen(self, host: str, ports: tuple[int, int] = ANY_PORTS) -> Listening:
        """Have an address that several attempts share; its ports stay the same. Raises SandboxFailed."""
        if host not in self._shared:
            reply = await self._ask(Listen(host=host, ports=ports))
            assert isinstance(reply, Listening)
            self._shared[host] = reply
        return self._shared[host]

    async def admit(self, admit: Admit, on_halted: Callable[[Halting], None]) -> None:
        """Have a phase served where it is now; also by every process after this one. Raises SandboxFailed."""
        known = self._admitted.get(admit.visit)
        if known is not None and known.admit == admit and self._line is not None:
            return
        self._admitted[admit.visit] = Admitted(admit=admit, on_halted=on_halted)
        try:
            await self._ask(admit)
        except BaseException:
            self._admitted.pop(admit.visit, None)
            raise

    async def dismiss(self, visit: str) -> None:
        """Have a phase served no longer; its calls are on disk on return. Raises StoreError.

        Also one whose admission was not waited for: it may have been let in all the same.
        """
        known = self._admitted.pop(visit, None)
        # Where none answers there is nobody who could still write.
        with suppress(ChannelClosed):
            if self._line is not None:
                await self._ask_on(self._line, Dismiss(visit=visit))
        if known is not None and known.broken:
            raise StoreError(known.broken)

    async def dismiss_inherited(self, visit: str) -> None:
        """Have a phase that an owner before us let in served no longer, by whichever process may do so.

        Its calls are on disk on return. Raises SandboxFailed.
        """
        await self._ask(Dismiss(visit=visit))

    async def find(self) -> None:
        """Speak to the process that is there, or to one that is started. Raises SandboxFailed."""
        await self._connect()

    async def lend(self, lend: Lend) -> None:
        """Tell whoever answers now how the run's funds stand; who comes later says first how it stands."""
        async with self._connecting:  # one that is still told what to serve may have said so already
            line = self._line
        if line is not None:
            with suppress(ChannelClosed):
                await self._ask_on(line, lend)

    async def close(self) -> None:
        """Let go. The process ends when nobody is left; one that was started here is seen to end."""
        self._is_closed = True
        for task in (self._reviving, self._hearing):
            if task is not None:
                task.cancel()
                await asyncio.wait([task])
        if self._line is not None:
            await self._line.channel.close()
            self._line = None
        if not self._admitted and self._is_ours_alive():
            await _wait_for_end(self._pid)
            self._is_ours_alive()

    async def _ask(self, request: Request) -> Reply:
        """Ask whoever answers, once more if that one dies meanwhile. Raises SandboxFailed."""
        for is_last in (False, True):
            line = await self._connect()
            try:
                return await self._ask_on(line, request)
            except ChannelClosed as error:
                if is_last:
                    raise self._fail("its process dies when it is asked something") from error
        raise AssertionError

    async def _ask_on(self, line: _Line, request: Request) -> Reply:
        line.number += 1
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        line.waiting[line.number] = future
        line.channel.send(Inquiry(number=line.number, request=request))
        reply = await future
        if isinstance(reply, Refused):
            raise SandboxFailed(reply.reason, reply.message)
        return reply

    async def _connect(self) -> _Line:
        """A connection on which everything was told that has to be. Raises SandboxFailed."""
        async with self._connecting:
            if self._line is not None:
                return self._line
            line = _Line(channel=await self._find())
            self._hearing = asyncio.ensure_future(self._hear(line))
            try:
                await self._introduce(line)
            except ChannelClosed as error:
                raise self._fail("its process died when it was told what to serve") from error
            self._line = line
            return line

    async def _introduce(self, line: _Line) -> None:
        await self._ask_on(line, self._hello)
        for host, listening in self._shared.items():
            await self._ask_on(line, Listen(host=host, ports=listening.ports))
        for each in list(self._admitted.values()):
            # A sandbox that has ended meanwhile has nobody to serve: its attempt finds that out by itself.
            with suppress(SandboxFailed):
                await self._ask_on(line, each.admit)

    async def _find(self) -> Channel:
        """Speak to the process that is there, or to one that is started. Raises SandboxFailed."""
        deadline, look_s = time.monotonic() + START_S, _LOOK_S
        while True:
            try:
                return Channel(*await self._place.connect())
            except OSError as error:
                if time.monotonic() > deadline:
                    raise self._fail(f"its process does not answer: {error}") from error
            if not self._is_ours_alive():
                with SandboxFailed.during(_REASON, f"starting the gateway in {self._place.folder}"):
                    self._pid = start_daemon(self._place)
            await asyncio.sleep(look_s)
            look_s = min(2 * look_s, _LONGEST_LOOK_S)

    def _is_ours_alive(self) -> bool:
        """Whether the process that was started here last is there; reaps it when it has ended."""
        if self._pid:
            try:
                if os.waitpid(self._pid, os.WNOHANG)[0]:
                    self._pid = 0
            except ChildProcessError:  # somebody else has reaped it
                self._pid = 0
        return self._pid != 0

    async def _hear(self, line: _Line) -> None:
        """Take in what comes, until nothing more does."""
        try:
            while True:
                self._take_in(line, await line.channel.receive())
        except ChannelClosed as closed:
            for future in line.waiting.values():
                if not future.done():
                    future.set_exception(closed)
            await line.channel.close()
            if self._line is line and not self._is_closed:
                self._line = None
                self._reviving = asyncio.ensure_future(self._revive())

    def _take_in(self, line: _Line, message: Message) -> None:
        match message:
            case Answered(number=number, reply=reply):
                future = line.waiting.pop(number)
                if not future.done():
                    future.set_result(reply)
            case Told(event=event):
                self._heed(event)
            case Inquiry():
                pass  # a gateway asks nothing

    def _heed(self, event: Event) -> None:
        if isinstance(event, Stated):
            if self._on_stated is not None:
                self._on_stated(event)
            return
        known = self._admitted.get(event.visit)
        match event:
            case Capped() | Missed() if known is not None:
                known.on_halted(event)
            case Broken(message=message) if known is not None:
                known.broken = message
            case _:
                pass  # of a phase that has been let go

    async def _revive(self) -> None:
        """Have those served again that were served by a process that died. Where nobody is, none follows."""
        while self._admitted and self._line is None:
            try:
                await self._connect()
            except SandboxFailed:
                await asyncio.sleep(_REST_S)  # who is asked for something new is told why
        async with self._connecting:  # who is about to connect to another one hears from that one
            if self._line is None and self._on_stated is not None:
                self._on_stated(state_nobody(self._place.folder))

    def _fail(self, problem: str) -> SandboxFailed:
        told = f"the gateway of this run can't be reached: {problem}"
        with suppress(OSError):
            if said := self._place.log.read_text("utf-8", "replace").strip():
                told += f"; its log ({self._place.log}) ends with: {said[-_TAIL:]}"
        return SandboxFailed(_REASON, told)


async def _wait_for_end(pid: int) -> None:
    """Wait for a child's end, for a while."""
    ended, loop, fd = asyncio.Event(), asyncio.get_running_loop(), os.pidfd_open(pid)
    loop.add_reader(fd, ended.set)
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(END_S):
                await ended.wait()
    finally:
        loop.remove_reader(fd)
        os.close(fd)
