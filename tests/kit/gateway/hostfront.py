"""The door to hosts in this process, on a loopback port."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from labrunner.experiment.allowlist import Address, parse_list
from labrunner.gateway.hosts.hostdoor import serve_hosts
from labrunner.gateway.hosts.visitor import HostService, Visitor, Visitors
from labrunner.gateway.recording.doorjournal import DoorJournal, open_doors, read_doors
from labrunner.gateway.serving.listening import listen_on_loopback
from labrunner.records.facts.door_event import DoorEvent
from tests.kit.gateway.callrows import IDS

TOKEN = "the-attempt's-token"


@dataclass(kw_only=True)
class Names:
    """A DNS of our own: each name has answers, the last of which stays."""

    answers: Mapping[str, Sequence[Sequence[str]]]
    asked: list[str] = field(default_factory=list)
    before: Callable[[str], Awaitable[None]] | None = None
    """Awaited before an answer."""

    async def resolve(self, name: str) -> Sequence[Address]:
        self.asked.append(name)
        if self.before is not None:
            await self.before(name)
        if name not in self.answers:
            raise OSError(f"no such name: {name}")
        known = self.answers[name]
        return [ip_address(each) for each in known[min(self.asked.count(name), len(known)) - 1]]


@dataclass(frozen=True, kw_only=True)
class HostFront:
    """Where the door is, and what it knows."""

    port: int
    folder: Path
    visitors: Visitors
    visitor: Visitor
    names: Names
    journal: DoorJournal

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def events(self) -> list[DoorEvent]:
        return list(read_doors(self.folder))

    async def wait_events(self, count: int) -> list[DoorEvent]:
        """Events of connections are written when those end, which clients don't see."""
        async with asyncio.timeout(20):
            while len(events := self.events()) < count:
                await asyncio.sleep(0.01)
        return events

    async def speak(self, *said: bytes) -> bytes:
        """Send bytes; give all that comes back until the connection is closed."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            for each in said:
                writer.write(each)
            return await asyncio.wait_for(reader.read(), 20)
        except ConnectionResetError:
            return b""
        finally:
            writer.close()


def make_visitor(folder: Path, allow: Sequence[str], token: str = TOKEN) -> Visitor:
    folder.mkdir(exist_ok=True)
    return Visitor(
        ids=IDS, attempt=1, phase="agent", token=token, allow=parse_list(allow), journal=open_doors(folder)
    )


@asynccontextmanager
async def run_hosts(
    folder: Path,
    allow: Sequence[str],
    names: Mapping[str, Sequence[Sequence[str]]] | None = None,
    *,
    needs_token: bool = False,
    **service: Any,
) -> AsyncIterator[HostFront]:
    known = Names(answers=names or {})
    visitor = make_visitor(folder, allow)
    visitors = Visitors([visitor])
    with listen_on_loopback() as listener:
        async with asyncio.TaskGroup() as group:
            serving = group.create_task(
                serve_hosts(
                    listener, visitors, HostService(resolve=known.resolve, **service), needs_token=needs_token
                )
            )
            yield HostFront(
                port=listener.getsockname()[1],
                folder=folder,
                visitors=visitors,
                visitor=visitor,
                names=known,
                journal=visitor.journal,
            )
            serving.cancel()
    visitor.journal.close()
