"""A gateway in this process, in front of the local provider."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx

from labrunner.gateway.dialects.speech import Dialect
from labrunner.gateway.metering.pricelist import OwnPrice, PriceList
from labrunner.gateway.metering.purse import Caps, Purse
from labrunner.gateway.recording.calljournal import CallJournal, open_journal, read_bodies, read_calls
from labrunner.gateway.replaying.tape import Tape
from labrunner.gateway.serving.caller import Caller, ProviderEntry
from labrunner.gateway.serving.listening import Callers, Service, listen_on_loopback, serve
from labrunner.gateway.serving.providerlink import ProviderLink, open_link
from labrunner.gateway.serving.wire import ClientPatience
from labrunner.records.encoding.ids import Ids
from labrunner.records.facts.model_call import BodyRow, CallRow
from tests.kit.gateway.callrows import IDS
from tests.kit.gateway.provider import KEY, Provider

TOKEN = "the-attempt's-token"
DIALECTS: tuple[Dialect, ...] = ("openai", "anthropic", "gemini")
MODELS = ("gpt-4o", "gpt-5", "claude-x", "gemini-x", "m")
PRICE = OwnPrice(input=Decimal(1), output=Decimal(10))
"""USD for a million: an answer of the kit, 120 in and 30 out, costs 0.00042."""


@dataclass(frozen=True, kw_only=True)
class Front:
    """Where the gateway is, and what it knows."""

    url: str
    caller: Caller
    purse: Purse
    run: Purse
    folder: Path
    callers: Callers
    links: dict[str, ProviderLink]

    def rows(self) -> list[CallRow]:
        return list(read_calls(self.folder))

    def bodies(self) -> dict[str, BodyRow]:
        return {row.digest: row for row in read_bodies(self.folder)}


def make_entry(dialect: Dialect, url: str, **changes: Any) -> ProviderEntry:
    base = f"{url}/v1" if dialect == "openai" else url
    prices = PriceList(dialect=dialect, base_url=base, own=dict.fromkeys(MODELS, PRICE))
    given = {"first_wait_s": 0.01, "max_retries": 2, "silence_s": 20.0, **changes}
    return ProviderEntry(name=dialect, dialect=dialect, base_url=base, key=KEY, prices=prices, **given)


@asynccontextmanager
async def run_gateway(
    folder: Path,
    provider: Provider,
    *,
    caps: Caps | None = None,
    budget: Caps | None = None,
    journal: CallJournal | None = None,
    patience: ClientPatience | None = None,
    max_clients: int = 256,
    listener: socket.socket | None = None,
    server_tools: frozenset[str] = frozenset(),
    ids: Ids = IDS,
    attempt: int = 1,
    tape: Tape | None = None,
    **entry: Any,
) -> AsyncIterator[Front]:
    folder.mkdir(exist_ok=True)
    purse = Purse(whose="attempt", setting="agent.limits", caps=caps or Caps())
    run = Purse(whose="run", setting="budget", caps=budget or Caps())
    journal = journal or open_journal(folder)
    caller = Caller(
        ids=ids,
        attempt=attempt,
        token=TOKEN,
        providers=frozenset(DIALECTS),
        purses=(purse, run),
        journal=journal,
        tape=tape,
    )
    callers = Callers([caller])
    async with AsyncExitStack() as stack:
        entry = {"server_tools": server_tools, **entry}
        links: dict[str, ProviderLink] = {
            each: await stack.enter_async_context(open_link(make_entry(each, provider.url, **entry)))
            for each in DIALECTS
        }
        service = Service(links=links, patience=patience or ClientPatience(), max_clients=max_clients)
        listener = stack.enter_context(listener or listen_on_loopback())
        group = await stack.enter_async_context(asyncio.TaskGroup())
        serving = group.create_task(serve(listener, callers, service))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        yield Front(url=url, caller=caller, purse=purse, run=run, folder=folder, callers=callers, links=links)
        serving.cancel()
    journal.close()


def make_client(front: Front, **more: Any) -> httpx.AsyncClient:
    headers = {"authorization": f"Bearer {TOKEN}"}
    return httpx.AsyncClient(
        base_url=front.url, headers=headers, timeout=30.0, trust_env=False, verify=False, **more
    )


async def speak(front: Front, *said: bytes) -> bytes:
    """Send bytes over a plain connection; give all that comes back until it is closed."""
    host, port = front.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        for each in said:
            writer.write(each)
            await writer.drain()
        return await asyncio.wait_for(reader.read(), 30)
    except ConnectionError:
        return b""
    finally:
        writer.close()
