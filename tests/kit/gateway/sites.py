"""Real web sites on loopback addresses of their own, with TLS on 443 and http on 80."""

import asyncio
import random
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest
from aiohttp import web

NAMES = ("site.test", "*.site.test", "other.test", "xn--bcher-kva.test")
PIECE = b"x" * (64 << 10)


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A request that came."""

    scheme: str
    method: str
    target: str
    headers: list[tuple[str, str]]
    size: int
    sni: str | None


@dataclass(kw_only=True)
class Site:
    """Where it is, whom its certificate names, and what it has seen."""

    address: str
    certificate: Path
    seen: list[Seen] = field(default_factory=list)
    connections: int = 0
    peak: int = 0
    begun: asyncio.Event = field(default_factory=asyncio.Event)


def find_address() -> str:
    """An address of the loopback that nobody else has."""
    return f"127.{random.randint(128, 255)}.{random.randint(0, 255)}.{random.randint(1, 254)}"


def make_certificate(folder: Path, address: str) -> Path:
    """A certificate and its key, in one file."""
    names = ",".join([*(f"DNS:{name}" for name in NAMES), f"IP:{address}"])
    path = folder / f"{address}.pem"
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    made += ["-days", "2", "-subj", "/CN=site.test", "-addext", f"subjectAltName={names}"]
    subprocess.run(
        [*made, "-keyout", path, "-out", path.with_suffix(".crt")], check=True, capture_output=True
    )
    path.write_bytes(path.read_bytes() + path.with_suffix(".crt").read_bytes())
    return path


async def handle(site: Site, request: web.Request) -> web.StreamResponse:
    size = 0
    async for piece in request.content.iter_any():
        size += len(piece)
    assert request.transport is not None
    tls = request.transport.get_extra_info("ssl_object")
    site.seen.append(
        Seen(
            scheme="https" if tls else "http",
            method=request.method,
            target=request.raw_path,
            headers=[(name.lower(), value) for name, value in request.headers.items()],
            size=size,
            sni=getattr(tls, "asked_for", None),
        )
    )
    return await answer(site, request, size)


async def answer(site: Site, request: web.Request, size: int) -> web.StreamResponse:
    match request.path:
        case "/big":
            return await send_much(request, int(request.query["size"]))
        case "/redirect":
            return web.Response(status=302, headers={"location": request.query["to"]})
        case "/hang":
            site.begun.set()
            await asyncio.get_running_loop().create_future()
        case "/cut":
            return await cut(request)
        case "/hops":
            hops = {"connection": "x-hop", "x-hop": "1", "proxy-authenticate": "x", "x-kept": "2"}
            return web.Response(text="hello", headers=hops)
        case _:
            pass
    return web.Response(text=f"hello {size}")


async def send_much(request: web.Request, size: int) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    for _ in range(size // len(PIECE)):
        await response.write(PIECE)
    await response.write_eof()
    return response


async def cut(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"content-length": "1000"})
    await response.prepare(request)
    await response.write(b"half")
    assert request.transport is not None
    request.transport.abort()
    return response


def note_name(tls: ssl.SSLObject | ssl.SSLSocket, name: str | None, _: ssl.SSLContext) -> None:
    tls.asked_for = name  # type: ignore[union-attr]


def make_context(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    context.sni_callback = note_name
    return context


@asynccontextmanager
async def run_site(folder: Path) -> AsyncIterator[Site]:
    address = find_address()
    site = Site(address=address, certificate=make_certificate(folder, address))
    app = web.Application(client_max_size=1 << 40)
    app.router.add_route("*", "/{tail:.*}", partial(handle, site))
    runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, address, 80).start()
            await web.TCPSite(runner, address, 443, ssl_context=make_context(site.certificate)).start()
        except PermissionError:
            pytest.skip("this user may not listen on ports below 1024")
        yield site
    finally:
        await runner.cleanup()
