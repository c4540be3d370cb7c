"""The gateway's process: serves the attempts of one run, with its runner or without.

Rules: one per run, by its lock. It ends by itself: when it has no owner and nobody to serve, or has been
without an owner for too long. Its calls are on disk before anybody is told of them, so it may be killed at
any time.
"""

import asyncio
import gc
import logging
import os
import resource
import signal
import sys
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from decimal import Decimal
from pathlib import Path
from typing import Final

import msgspec

from labrunner.errors import AttemptFailed, LabError
from labrunner.gateway.hosts.resolving import open_resolver
from labrunner.gateway.hosts.visitor import HostService
from labrunner.gateway.metering.lentrecord import read_lent, sum_away
from labrunner.gateway.metering.pricelist import OwnPrice, PriceList
from labrunner.gateway.metering.purse import Purse
from labrunner.gateway.process.attendance import Attendance, make_caps
from labrunner.gateway.process.borrowing import Borrowing
from labrunner.gateway.process.channel import Channel, ChannelClosed
from labrunner.gateway.process.control import (
    VERSION,
    Admit,
    Answered,
    Dismiss,
    Done,
    Event,
    Hello,
    Inquiry,
    Lend,
    Listen,
    Message,
    Refused,
    Reply,
    Request,
    Told,
    ToldCaps,
    ToldModel,
    ToldPrice,
)
from labrunner.gateway.process.doorways import Services
from labrunner.gateway.process.place import GatewayPlace
from labrunner.gateway.process.refilling import sum_run
from labrunner.gateway.serving.caller import HOMES, SCRIPT_URL, ProviderEntry
from labrunner.gateway.serving.listening import Service
from labrunner.gateway.serving.providerlink import ProviderLink, open_link
from labrunner.gateway.serving.turnstile import Turnstile

FIRST_OWNER_S: Final = 30.0
"""How long it waits for its first owner."""
ORPHANED_S: Final = 48 * 3600.0
"""How long it serves without any: longer than containers wait for somebody to come back."""
_log: Final = logging.getLogger(__name__)


class Daemon:
    """One run's gateway."""

    def __init__(self, place: GatewayPlace, *, orphaned_s: float = ORPHANED_S) -> None:
        """Serve nobody yet."""
        self._place = place
        self._orphaned_s = orphaned_s
        self._owner: Channel | None = None
        self._had_owner = asyncio.Event()
        self._ownerless_since = 0.0
        self._models: dict[str, ToldModel] = {}
        self._links: dict[str, ProviderLink] = {}
        self._turnstiles: dict[str, Turnstile] = {}
        self._stack = AsyncExitStack()
        self._purse = Purse(whose="run", setting="budget", caps=make_caps(ToldCaps()))
        self._is_recounted = self._is_lent = False
        resolve = self._stack.enter_context(open_resolver())
        services = Services(models=Service(links=self._links), hosts=HostService(resolve=resolve))
        self._attendance = Attendance(services, self._purse, self._tell)
        self._borrowing = Borrowing(place.folder, self._purse, self._tell, lambda: self._attendance.is_empty)
        self._heard: dict[asyncio.Task[None], Channel] = {}
        self._answering: set[asyncio.Task[None]] = set()
        self._in_order = asyncio.Lock()

    async def run(self) -> None:
        """Serve until nobody needs it."""
        loop, stop = asyncio.get_running_loop(), asyncio.Event()
        loop.add_signal_handler(signal.SIGTERM, stop.set)
        self._ownerless_since = loop.time()
        async with self._stack:
            server = await asyncio.start_unix_server(self._attend, sock=self._place.listen())
            try:
                async with asyncio.TaskGroup() as group:
                    needed = group.create_task(self._until_unneeded())
                    stopped = group.create_task(stop.wait())
                    await asyncio.wait([needed, stopped], return_when=asyncio.FIRST_COMPLETED)
                    needed.cancel()
                    stopped.cancel()
            finally:
                server.close()
                self._place.leave()
                await self._hang_up()
                await self._attendance.close()
                self._borrowing.close()

    async def _until_unneeded(self) -> None:
        try:
            async with asyncio.timeout(FIRST_OWNER_S):
                await self._had_owner.wait()
        except TimeoutError:
            return
        while True:
            self._attendance.changed.clear()
            ends_at = self._ownerless_since + self._orphaned_s
            if self._owner is None:
                await self._attendance.dismiss_lost()
            if self._is_unneeded(ends_at):
                return
            try:
                async with asyncio.timeout_at(ends_at if self._owner is None else None):
                    await self._attendance.changed.wait()
            except TimeoutError:
                continue

    def _is_unneeded(self, ends_at: float) -> bool:
        if self._owner is not None or self._answering:
            return False
        return self._attendance.is_empty or asyncio.get_running_loop().time() >= ends_at

    async def _attend(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Hear an owner; the one that came last is the owner."""
        channel, task = Channel(reader, writer), asyncio.current_task()
        assert task is not None
        self._heard[task] = channel
        try:
            while True:
                self._heed(channel, await channel.receive())
        except ChannelClosed:
            if self._owner is channel:
                self._own(None)
            await channel.close()
        finally:
            del self._heard[task]

    async def _hang_up(self) -> None:
        for channel in list(self._heard.values()):
            await channel.close()
        if self._heard:
            await asyncio.wait(list(self._heard))

    def _heed(self, channel: Channel, message: Message) -> None:
        """What was begun for an owner is brought to its end, also when it is gone."""
        if not isinstance(message, Inquiry):
            return
        if isinstance(message.request, Hello):
            self._own(channel)
        task = asyncio.ensure_future(self._answer(channel, message))
        self._answering.add(task)
        task.add_done_callback(self._on_answered)

    def _on_answered(self, task: asyncio.Task[None]) -> None:
        self._answering.discard(task)
        self._attendance.changed.set()

    def _own(self, channel: Channel | None) -> None:
        self._owner = channel
        self._ownerless_since = asyncio.get_running_loop().time()
        self._had_owner.set()
        self._attendance.changed.set()

    async def _answer(self, channel: Channel, asked: Inquiry) -> None:
        try:
            reply = await self._carry_out(asked.request)
        except AttemptFailed as failure:
            reply = Refused(reason=failure.reason, message=str(failure))
        except (LabError, OSError) as error:
            reply = Refused(reason="gateway", message=str(error))
        except Exception as bug:  # noqa: BLE001 - see below
            # Whoever asked waits for an answer, and other attempts are to be served on.
            _log.exception("carrying out %r", asked.request)
            reply = Refused(reason="gateway", message=f"a mistake of ours: {bug!r}")
        channel.send(Answered(number=asked.number, reply=reply))

    async def _carry_out(self, request: Request) -> Reply:
        match request:
            case Hello():
                async with self._in_order:
                    return await self._welcome(request)
            case Listen(host=host, ports=ports):
                return self._attendance.listen(host, ports)
            case Admit():
                await self._attendance.admit(request)
            case Dismiss(visit=visit):
                await self._attendance.dismiss(visit)
                self._borrowing.look()
            case Lend():
                self._borrowing.take(request)
        return Done()

    async def _welcome(self, hello: Hello) -> Reply:
        if hello.version != VERSION:
            return Refused(reason="gateway", message="this gateway is of another version of labrunner")
        self._is_lent = hello.is_lent
        for told in hello.models:
            if self._models.get(told.name) != told:
                link = open_told(told, make_entry(told), self._find_turnstile(told, hello.models))
                self._links[told.name] = await self._stack.enter_async_context(link)
                self._models[told.name] = told
        self._purse.caps, self._purse.reached = make_caps(hello.budget), None
        if hello.is_lent:
            self._borrowing.begin()
        elif not self._is_recounted:
            paid = await asyncio.to_thread(sum_run, Path(hello.trials))
            self._purse.spent = paid.plus(sum_away(read_lent(self._place.folder)))
            self._is_recounted = True
        return Done()

    def _find_turnstile(self, told: ToldModel, others: Sequence[ToldModel]) -> Turnstile:
        """The one of the provider: entries that go to the same address have their places together."""
        place = _find_address(told)
        most = min(each.max_connections for each in (told, *others) if _find_address(each) == place)
        known = self._turnstiles.get(place)
        if known is None or known.most != most:
            # A script's answers come from this process: there is nobody to share them with.
            is_lent = self._is_lent and told.script is None
            slots = self._borrowing.find_slots(place, most) if is_lent else None
            known = self._turnstiles[place] = Turnstile(most, slots)
        return known

    def _tell(self, event: Event) -> None:
        if self._owner is not None:
            self._owner.send(Told(event=event))


def _find_address(told: ToldModel) -> str:
    """Where requests go: the same for entries of the same provider."""
    return told.script or told.base_url or HOMES[told.dialect]


def open_told(
    told: ToldModel, entry: ProviderEntry, turnstile: Turnstile | None = None
) -> AbstractAsyncContextManager[ProviderLink]:
    """The way to a provider, or to the script that stands for one. Raises InputError."""
    if told.script is None:
        return open_link(entry, turnstile=turnstile)
    from labrunner.gateway.scripting.scripted_transport import open_script  # few runs have one

    return open_link(entry, open_script(told.dialect, Path(told.script)), turnstile)


def make_entry(told: ToldModel, *, connect_s: float = 10.0, silence_s: float = 600.0) -> ProviderEntry:
    """An entry, as the server knows it, with how long its provider is waited for."""
    told = told if told.script is None else msgspec.structs.replace(told, base_url=SCRIPT_URL, key=None)
    base = told.base_url or HOMES[told.dialect]
    own = {name: _make_price(price) for name, price in told.prices.items()}
    return ProviderEntry(
        name=told.name,
        dialect=told.dialect,
        base_url=base,
        key=told.key,
        prices=PriceList(dialect=told.dialect, base_url=told.base_url, own=own),
        max_connections=told.max_connections,
        max_retries=told.max_retries,
        server_tools=frozenset(told.server_tools),
        connect_s=connect_s,
        silence_s=silence_s,
    )


def _make_price(told: ToldPrice) -> OwnPrice:
    return OwnPrice(
        input=Decimal(repr(told.input)),
        output=Decimal(repr(told.output)),
        cache_read=None if told.cache_read is None else Decimal(repr(told.cache_read)),
        cache_write=None if told.cache_write is None else Decimal(repr(told.cache_write)),
    )


def main() -> None:
    """Be the gateway of the run whose folder is named, unless another process is."""
    place = GatewayPlace(Path(sys.argv[1]))
    os.chdir("/")
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Many attempts have many connections: what is common for a soft limit, two hostile ones use up.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    gc.freeze()  # what was loaded stays: it need not be looked through again and again
    if place.lock() is not None:
        asyncio.run(Daemon(place).run())
