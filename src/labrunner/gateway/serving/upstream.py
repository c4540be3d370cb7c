"""Connections to one provider: requests out, answers in.

Rules: bytes come as they are, not inflated. No redirect is followed, no cookie kept, and no header added but
what HTTP itself needs. A provider is reached as the environment says: its proxy, its certificates.
"""

import asyncio
import io
import os
import socket
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Final, Protocol
from urllib.parse import unquote, urlencode, urlsplit
from urllib.request import getproxies_environment, proxy_bypass

import aiohttp
from yarl import URL

from labrunner.gateway.dialects.speech import Ask
from labrunner.gateway.serving.headers import Headers

_KEPT_S: Final = 60.0
"""How long a connection is kept that nobody uses."""
_LONGEST_LINE: Final = 64 << 10
_LARGE: Final = 1 << 20
"""Bytes of a request that are written in pieces: others must not wait for it."""
_ADDED: Final = ("accept", "accept-encoding", "content-type", "user-agent")
"""Headers that the library would add."""


class LineBroken(Exception):
    """A connection could not be made, or broke."""


class LineSilent(LineBroken):
    """Nothing came for too long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """An answer that has begun."""

    status: int
    headers: Headers
    rest: AsyncIterator[bytes]
    """What is still to come of it. Raises LineBroken."""
    close: Callable[[], None] = lambda: None
    """Let go of it, read or not."""
    first: bytes = b""
    """What was read of it already."""

    def pieces(self) -> AsyncIterator[bytes]:
        """All of it, as it comes. Raises LineBroken."""
        return self._begin() if self.first else self.rest

    async def _begin(self) -> AsyncIterator[bytes]:
        yield self.first
        async for piece in self.rest:
            yield piece


class Upstream(Protocol):
    """Who answers requests for a provider."""

    async def send(self, ask: Ask, headers: Headers) -> Opened:
        """Send a request, and have the head of its answer. Raises LineBroken."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """How long a provider is waited for, in seconds."""

    connect_s: float
    silence_s: float


@dataclass(slots=True)
class ProviderClient:
    """Speaks HTTP with one provider. See `open_client`."""

    session: aiohttp.ClientSession
    origin: str
    path: str
    wait: Wait
    proxy: str | None
    own_headers: Headers = field(default_factory=list, repr=False)
    """Of a user and a password that stand in its address."""

    async def send(self, ask: Ask, headers: Headers) -> Opened:
        """Send a request, and have the head of its answer. Raises LineBroken."""
        is_read_only = ask.purpose == "models"
        query = f"?{urlencode(ask.query)}" if ask.query else ""
        body = ask.body if len(ask.body) <= _LARGE else io.BytesIO(ask.body)
        own = {name for name, _ in self.own_headers}
        try:
            # Longer than what is waited for an answer: a provider may stop to read, too.
            async with asyncio.timeout(self.wait.connect_s + self.wait.silence_s):
                response = await self.session.request(
                    "GET" if is_read_only else "POST",
                    URL(f"{self.origin}{self.path}{ask.path}{query}", encoded=True),
                    headers=[*(each for each in headers if each[0] not in own), *self.own_headers],
                    data=None if is_read_only else body,
                    proxy=self.proxy,
                    allow_redirects=False,
                )
        except aiohttp.ConnectionTimeoutError as error:
            raise LineBroken(f"no connection within {self.wait.connect_s:g} s") from error
        except TimeoutError as error:
            raise LineSilent(f"it sent nothing for {self.wait.silence_s:g} s") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise LineBroken(describe_trouble(error)) from error
        given = [
            (name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in response.raw_headers
        ]
        return Opened(status=response.status, headers=given, rest=_read(response), close=response.close)


async def _read(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    content = response.content
    try:
        while piece := await content.readany():
            yield piece
    except TimeoutError as error:
        raise LineSilent("it stopped to send, and did not say why") from error
    except (aiohttp.ClientError, OSError) as error:
        raise LineBroken(describe_trouble(error)) from error


def open_client(base_url: str, wait: Wait) -> ProviderClient:
    """Connect to a provider when there is something to send. To be closed: its session."""
    address = URL(base_url)
    is_plain = address.scheme == "http"
    connector = aiohttp.TCPConnector(
        limit=0,  # whoever sends waits for its turn elsewhere
        keepalive_timeout=_KEPT_S,
        # Certificates take a tenth of a second to load, and a plain address has none.
        ssl=True if is_plain else _trust(),
    )
    session = aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        skip_auto_headers=_ADDED,
        auto_decompress=False,
        max_line_size=_LONGEST_LINE,
        max_field_size=_LONGEST_LINE,
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=wait.connect_s, sock_read=wait.silence_s),
    )
    return ProviderClient(
        session=session,
        origin=str(address.origin()),
        path=address.raw_path.rstrip("/"),
        wait=wait,
        proxy=find_proxy(base_url),
        own_headers=_authorise(base_url),
    )


def find_proxy(url: str) -> str | None:
    """Through whom an address is reached, by the variables of the environment."""
    parts, known = urlsplit(url), getproxies_environment()
    found = known.get(parts.scheme) or known.get("all")
    if not found or proxy_bypass(parts.netloc.rpartition("@")[2]):
        return None
    return found if "://" in found else f"http://{found}"


def _trust() -> ssl.SSLContext:
    """The certificates that the environment names, else those that come with Python's packages."""
    if os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR"):
        return ssl.create_default_context()
    import certifi  # only for TLS

    return ssl.create_default_context(cafile=certifi.where())


def _authorise(base_url: str) -> Headers:
    parts = urlsplit(base_url)
    if not parts.username and not parts.password:
        return []
    told = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
    return [("authorization", f"Basic {b64encode(told.encode()).decode()}")]


def describe_trouble(error: BaseException) -> str:
    """Say in words why no answer came."""
    for each in _go_back(error):
        if isinstance(each, aiohttp.ClientError):
            continue  # some look like the error that they were raised from, and lack what that one has
        if isinstance(each, ssl.SSLCertVerificationError):
            told = each.verify_message or "it can't be verified"
            return f"its certificate is not trusted here ({told}); is SSL_CERT_FILE set where that is needed?"
        if isinstance(each, ssl.SSLError):
            return f"it speaks no TLS that we understand ({each.reason or each}); is it http:// perhaps?"
        if isinstance(each, socket.gaierror):
            return f"nobody knows this host ({each.strerror})"
        if isinstance(each, ConnectionRefusedError):
            return "nothing listens there; is the server started?"
    if isinstance(error, LineBroken):
        return str(error)
    return f"{type(error).__name__}: {error}".rstrip(": ")


def _go_back(error: BaseException | None) -> list[BaseException]:
    """An error, and what led to it."""
    found: list[BaseException] = []
    while error is not None and error not in found:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found
