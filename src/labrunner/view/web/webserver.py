"""Serves the pages: one shell for every address, its files, and what the pages ask for.

Rules: every request is judged before it is looked at (`guard`). The pages' files are read once, at the start,
by their own names: no request names a file.
"""

import asyncio
import errno
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Middleware

from labrunner.errors import InputError
from labrunner.view.pagefiles import TYPES, read_pages
from labrunner.view.seen.lookout import Lookout
from labrunner.view.web.feed import Feed
from labrunner.view.web.guard import HEADERS, LEAST_TOKEN, LOOPBACK, Guard, Request
from labrunner.view.web.routes import make_routes

FIRST_PORT: Final = 7575
TRIED_PORTS: Final = 100
EVERYWHERE: Final = frozenset({"0.0.0.0", "::"})
"""Names of all addresses of this machine at once."""
LAST_WORDS_S: Final = 0.05
_Answering = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """Where pages are served."""

    host: str
    port: int
    token: str | None
    feed: Feed | None = None
    """Through which pages listen."""

    def address(self, path: str = "/") -> str:
        """What to open; with the token, which the server takes out of the address again."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        shown = "127.0.0.1" if self.host in EVERYWHERE else name
        return f"http://{shown}:{self.port}{path}" + (f"?token={self.token}" if self.token else "")


def make_guard(host: str, token: str | None) -> Guard:
    """Decide who may ask of a server on this address. Raises InputError where that needs a token."""
    if token is not None and (len(token) < LEAST_TOKEN or not token.isascii() or not token.isprintable()):
        raise InputError("--token", f"must be at least {LEAST_TOKEN} plain letters or digits")
    if host not in LOOPBACK and token is None:
        raise InputError("--host", f"{host} can be reached by others, so it needs a token")
    own = {socket.gethostname().lower(), socket.getfqdn().lower()} if host not in LOOPBACK else set()
    return Guard(names=LOOPBACK | own | {host.lower()}, takes_any_address=host in EVERYWHERE, token=token)


@asynccontextmanager
async def serving(
    runs_dir: Path, *, host: str = "127.0.0.1", port: int | None = None, token: str | None = None
) -> AsyncIterator[Served]:
    """Serve the pages of a folder of runs until the context ends."""
    guard, lookout = make_guard(host, token), Lookout(runs_dir)
    feed = Feed(lookout)
    door = _listen(host, port)
    place = Served(host=host, port=door.getsockname()[1], token=token, feed=feed)
    app = make_app(lookout, feed, guard, place.port)
    # Whoever listens to the feed is let go when its page is gone, and when this ends.
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=LAST_WORDS_S)
    await runner.setup()
    async with asyncio.TaskGroup() as group:
        watching = group.create_task(feed.watch())
        try:
            await web.SockSite(runner, door).start()
            yield place
        finally:
            watching.cancel()
            await runner.cleanup()


def make_app(lookout: Lookout, feed: Feed, guard: Guard, port: int) -> web.Application:
    """The server's routes behind its guard."""
    app = web.Application(middlewares=[_guarding(guard, cookie_name(port))])
    app.on_response_prepare.append(_add_headers)
    app.add_routes(make_routes(lookout, feed))

    def may_ask(request: web.Request) -> bool:
        return guard.judge(replace(_words_of(request, cookie_name(port)), is_data=True)) is None

    pages = read_pages()
    shell = pages.pop("index.html")
    for name, data in pages.items():
        app.router.add_get(f"/pages/{name}", _file(name, data))
    app.router.add_get("/run/{run}{tail:.*}", _warming(lookout, may_ask, _file("index.html", shell)))
    for path in ("/", "/compare", "/query"):
        app.router.add_get(path, _file("index.html", shell))
    return app


def cookie_name(port: int) -> str:
    """The name of the cookie: cookies know no ports, so that two servers of one machine need two names."""
    return f"lab-view-{port}"


def _file(name: str, data: bytes) -> _Answering:
    async def answer(request: web.Request) -> web.StreamResponse:
        del request
        return web.Response(body=data, content_type=TYPES[Path(name).suffix], charset="utf-8")

    return answer


def _warming(lookout: Lookout, may_ask: Callable[[web.Request], bool], answer: _Answering) -> _Answering:
    """The shell of a run's pages; the run is read while a browser loads them, for whoever may ask for it."""

    async def answer_and_read(request: web.Request) -> web.StreamResponse:
        if may_ask(request):
            threading.Thread(target=lookout.warm, args=(request.match_info["run"],), daemon=True).start()
        return await answer(request)

    return answer_and_read


def _guarding(guard: Guard, cookie: str) -> Middleware:
    @web.middleware
    async def judge(request: web.Request, handler: _Answering) -> web.StreamResponse:
        refused = guard.judge(_words_of(request, cookie))
        if refused is not None:
            return web.Response(status=refused.status, text=f"{refused.why}\n")
        if (token := request.query.get("token")) is not None:
            return _exchange(guard, request, cookie, token)
        try:
            return await handler(request)
        except web.HTTPException as error:
            return web.Response(status=error.status, text=f"{error.reason}\n")

    return judge


async def _add_headers(request: web.Request, response: web.StreamResponse) -> None:
    """Put the headers on an answer that is about to be sent, however it is sent."""
    del request
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)


def _words_of(request: web.Request, cookie: str) -> Request:
    return Request(
        method=request.method,
        host=request.headers.get("Host", ""),
        origin=request.headers.get("Origin"),
        site=request.headers.get("Sec-Fetch-Site"),
        mode=request.headers.get("Sec-Fetch-Mode"),
        cookie=request.cookies.get(cookie),
        is_data=request.path.startswith("/api/"),
    )


def _exchange(guard: Guard, request: web.Request, cookie: str, token: str) -> web.Response:
    """Give the cookie for the token, and the address without it: it must not stay in anybody's history."""
    if not guard.accepts(token):
        return web.Response(status=403, text="that is not the token of this server\n")
    response = web.Response(status=303, headers={"Location": request.rel_url.with_query(None).raw_path})
    response.set_cookie(cookie, guard.session, httponly=True, samesite="Strict", path="/")
    return response


def _listen(host: str, port: int | None) -> socket.socket:
    """A socket on the port that was asked for, else on the first free one."""
    tried = [port] if port is not None else [*range(FIRST_PORT, FIRST_PORT + TRIED_PORTS), 0]
    for each in tried:
        try:
            return _bind(host, each)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or port is not None:
                raise InputError("--port", f"listening on {host}, port {each}: {error.strerror}") from error
    raise InputError("--port", f"no port of {host} is free")


def _bind(host: str, port: int) -> socket.socket:
    try:
        ((family, kind, proto, _, address), *_) = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except socket.gaierror as error:
        raise InputError("--host", f"{host}: {error.strerror}") from error
    door = socket.socket(family, kind, proto)
    try:
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        door.bind(address)
        door.listen()
    except OSError:
        door.close()
        raise
    return door
