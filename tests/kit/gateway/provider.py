"""A local server that speaks the protocols of all providers, and misbehaves as a test tells it to."""

import asyncio
import gzip
import json
from collections import deque
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, Literal

from aiohttp import web

from tests.kit.gateway import answers

KEY = "sk-the-real-key"


@dataclass(frozen=True, kw_only=True)
class Fail:
    """Answer with an error."""

    status: int
    retry_after: str | None = None
    kind: str | None = None


@dataclass(frozen=True, kw_only=True)
class Redirect:
    """Send the client elsewhere."""

    to: str


@dataclass(frozen=True, kw_only=True)
class Bomb:
    """Answer with little that inflates to much."""

    size: int


Behaviour = Fail | Redirect | Bomb | Literal["answer", "hang", "cut", "hang_midway", "drop"]


@dataclass(frozen=True, kw_only=True)
class Got:
    """A request that came."""

    path: str
    query: str
    headers: dict[str, str]
    body: Any
    at: float


@dataclass(kw_only=True)
class Provider:
    """What the server has seen, and what it will do: the next behaviour of `plan`, then answers."""

    url: str = ""
    plan: deque[Behaviour] = field(default_factory=deque)
    got: list[Got] = field(default_factory=list)
    packs: bool = False
    dice: Random | None = None
    """Answers take up to a twentieth of a second, by chance."""
    gate: asyncio.Event | None = None
    """Awaited before the second half of a stream, and before a whole answer."""
    peak: int = 0
    active: int = 0
    left: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a request was cancelled by who made it."""
    begun: asyncio.Event = field(default_factory=asyncio.Event)


def protocol_of(path: str) -> str:
    if path.endswith("/chat/completions"):
        return "openai_chat"
    if path.endswith("/responses"):
        return "openai_responses"
    return "anthropic" if path.endswith("/messages") else "gemini"


async def handle(provider: Provider, request: web.Request) -> web.StreamResponse:
    raw = await request.read()
    now = asyncio.get_running_loop().time()
    body = json.loads(raw) if raw else None
    got = Got(path=request.path, query=request.query_string, headers=dict(request.headers), body=body, at=now)
    provider.got.append(got)
    provider.active += 1
    provider.peak = max(provider.peak, provider.active)
    try:
        return await behave(provider, request, got)
    except asyncio.CancelledError:
        provider.left.set()
        raise
    finally:
        provider.active -= 1


async def behave(provider: Provider, request: web.Request, got: Got) -> web.StreamResponse:
    behaviour: Behaviour = provider.plan.popleft() if provider.plan else "answer"
    provider.begun.set()
    if provider.dice is not None:
        await asyncio.sleep(provider.dice.uniform(0, 0.05))
    if isinstance(behaviour, Fail):
        told = answers.ERRORS[protocol_of(got.path)]
        if behaviour.kind:
            told = {"error": {"message": "no", "type": behaviour.kind}}
        headers = {"retry-after": behaviour.retry_after} if behaviour.retry_after else {}
        return web.json_response(told, status=behaviour.status, headers=headers)
    if isinstance(behaviour, Redirect | Bomb):
        return trick(behaviour)
    if behaviour == "hang":
        await asyncio.get_running_loop().create_future()
    if behaviour == "drop":
        drop(request)
    if (fixed := FIXED.get(got.path.rpartition("/")[2])) is not None:
        return web.json_response(fixed)
    if (got.body or {}).get("stream") or "streamGenerateContent" in got.path:
        return await stream(provider, request, got, behaviour)
    if provider.gate is not None:
        await provider.gate.wait()
    return await send(
        provider, request, [json.dumps(answers.WHOLE[protocol_of(got.path)]).encode()], "application/json"
    )


FIXED: dict[str, answers.Json] = {
    "models": {"object": "list", "data": [{"id": "m", "object": "model"}]},
    "count_tokens": {"input_tokens": 9},
    "embeddings": {
        "object": "list",
        "model": "e",
        "data": [{"object": "embedding", "index": 0, "embedding": [0.5]}],
        "usage": {"prompt_tokens": 8, "total_tokens": 8},
    },
}


def trick(behaviour: Redirect | Bomb) -> web.Response:
    if isinstance(behaviour, Redirect):
        return web.Response(status=307, headers={"location": behaviour.to})
    headers = {"content-encoding": "gzip", "content-type": "application/json"}
    return web.Response(body=gzip.compress(b"x" * behaviour.size, 1), headers=headers)


def chunks_for(got: Got) -> list[bytes]:
    match protocol_of(got.path):
        case "openai_chat":
            asked = (got.body.get("stream_options") or {}).get("include_usage", False)
            return list(answers.stream_chat(with_usage=asked))
        case "openai_responses":
            return list(answers.stream_responses())
        case "anthropic":
            return list(answers.stream_messages())
        case _:
            return list(answers.stream_gemini(is_sse="alt=sse" in got.query))


async def stream(
    provider: Provider, request: web.Request, got: Got, behaviour: Behaviour
) -> web.StreamResponse:
    kind = (
        "application/json" if "Generate" in got.path and "alt=sse" not in got.query else "text/event-stream"
    )
    return await send(provider, request, chunks_for(got), kind, behaviour)


async def send(
    provider: Provider,
    request: web.Request,
    chunks: Iterable[bytes],
    kind: str,
    behaviour: Behaviour = "answer",
) -> web.StreamResponse:
    pieces = list(chunks)
    headers = {"content-type": kind, "x-request-id": "req_1", "set-cookie": "a=b"}
    if provider.packs and "gzip" in request.headers.get("accept-encoding", ""):
        headers["content-encoding"] = "gzip"
        packed = gzip.compress(b"".join(pieces))
        pieces = [packed[:100], packed[100:]]
    response = web.StreamResponse(headers=headers)
    await response.prepare(request)
    half = len(pieces) // 2
    for at, piece in enumerate(pieces):
        if at == half and len(pieces) > 1:
            await turn(provider, request, behaviour)
        await response.write(piece)
    await response.write_eof()
    return response


async def turn(provider: Provider, request: web.Request, behaviour: Behaviour) -> None:
    """What happens in the middle of a stream."""
    if behaviour == "cut":
        drop(request)
    if behaviour == "hang_midway":
        await asyncio.get_running_loop().create_future()
    if provider.gate is not None:
        await provider.gate.wait()


def drop(request: web.Request) -> None:
    assert request.transport is not None
    request.transport.abort()
    raise ConnectionResetError("as the test wants it")


@asynccontextmanager
async def run_provider() -> AsyncIterator[Provider]:
    provider = Provider()
    app = web.Application(client_max_size=1 << 26)
    app.router.add_route("*", "/{tail:.*}", partial(handle, provider))
    runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    provider.url = f"http://{host}:{port}"
    try:
        yield provider
    finally:
        await runner.cleanup()
