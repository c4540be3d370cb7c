"""A run's owner, its gateway's real process, and what is asked of it."""

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from labrunner.gateway.process.control import Admit, Halting, Hello, Stated, ToldCaps, ToldModel, ToldPrice
from labrunner.gateway.process.owner import GatewayOwner
from labrunner.gateway.process.place import GatewayPlace
from tests.kit.gateway.callrows import IDS
from tests.kit.gateway.provider import KEY

TOKEN = "the-attempt's-token"
LOOPBACK = "127.0.0.1"
BODY = {"model": "gpt-4o", "messages": [], "max_tokens": 5}
PRICE = ToldPrice(input=1.0, output=10.0)


def make_hello(run: Path, url: str, *, budget: ToldCaps | None = None, **changes: Any) -> Hello:
    given = {"prices": {"gpt-4o": PRICE}, "base_url": f"{url}/v1", "key": KEY, **changes}
    model = ToldModel(name="main", dialect="openai", **given)
    return Hello(models=(model,), budget=budget or ToldCaps(), trials=str(run / "trials"))


def make_admit(run: Path, visit: str = "one", **changes: Any) -> Admit:
    folder = run / "trials" / visit / "1"
    folder.mkdir(parents=True, exist_ok=True)
    given = {"token": TOKEN, "host": LOOPBACK, "models": ("main",), **changes}
    return Admit(visit=visit, ids=IDS, attempt=1, folder=str(folder), **given)


@asynccontextmanager
async def own(
    run: Path, hello: Hello, on_stated: Callable[[Stated], None] | None = None
) -> AsyncIterator[GatewayOwner]:
    owner = GatewayOwner(GatewayPlace(run / "gateway"), hello, on_stated)
    try:
        yield owner
    finally:
        await owner.close()


def ignore(halting: Halting) -> None:
    del halting


def find_daemons(run: Path) -> list[int]:
    """Processes that are gateways of this run."""
    found = []
    for each in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{each}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if os.fsencode(run / "gateway") in words:
            found.append(int(each))
    return found


async def ask(port: int, *, token: str = TOKEN, model: str = "main", **more: Any) -> httpx.Response:
    headers = {"authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(trust_env=False, timeout=30.0) as client:
        url = f"http://{LOOPBACK}:{port}/{model}/v1/chat/completions"
        return await client.post(url, json={**BODY, **more}, headers=headers)
