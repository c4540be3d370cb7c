"""Who may ask: decided from a request's words alone, before anything is looked at.

Rules: a name in `Host` that is not ours is a page that made its own name lead here (DNS rebinding), on every
request, whatever it asks for. Pages of other sites get nothing but the way in: the shell, without data, as
the address of a new page. Where a token is needed, data is given for the cookie alone, which no page of
another site can make a browser send. Nothing but GET exists.
"""

import hmac
import ipaddress
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""On every answer."""
RAW_HEADERS: Final[Mapping[str, str]] = {
    **HEADERS,
    "Content-Security-Policy": "sandbox; default-src 'none'; frame-ancestors 'none'",
    "Content-Type": "application/octet-stream",
}
"""On what a sandbox wrote: bytes to be kept, never a page."""
LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
LEAST_TOKEN: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The words of a request that decide."""

    method: str
    host: str
    origin: str | None = None
    site: str | None = None
    """`Sec-Fetch-Site`: whose page asks, as the browser says."""
    mode: str | None = None
    """`Sec-Fetch-Mode`."""
    cookie: str | None = None
    is_data: bool = False
    """Whether it asks for anything of runs; else for what is the same for everybody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnedAway:
    """Why a request gets nothing."""

    status: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """Decides who may ask."""

    names: frozenset[str] = LOOPBACK
    """What this server may be called."""
    takes_any_address: bool = False
    """Whether it listens on every address of this machine; a number can't be made to lead here by a name."""
    token: str | None = None
    session: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    """What the cookie holds: not the token, and gone with this process."""

    def judge(self, asked: Request) -> TurnedAway | None:
        """Why a request gets nothing; None where it may go on."""
        if not self._knows(asked.host):
            return TurnedAway(status=421, why=f"this server is not called {asked.host!r}")
        if asked.method != "GET":
            return TurnedAway(status=405, why="there is nothing here but GET")
        if asked.origin is not None and not _is_same(asked.origin, asked.host):
            return TurnedAway(status=403, why="a page of another origin asks")
        if asked.site not in {None, "none", "same-origin"} and (asked.is_data or asked.mode != "navigate"):
            return TurnedAway(status=403, why="a page of another site asks")
        if asked.is_data and self.token is not None and not _equal(asked.cookie or "", self.session):
            return TurnedAway(status=401, why="open the address with its token, as `lab view` printed it")
        return None

    def accepts(self, token: str) -> bool:
        """Whether this is the token."""
        return self.token is not None and _equal(token, self.token)

    def _knows(self, host: str) -> bool:
        name = name_in(host)
        if name in self.names:
            return True
        return self.takes_any_address and _is_address(name)


def name_in(host: str) -> str:
    """The name in a `Host` header without its port, which tunnels change; empty where it is none."""
    try:
        found = urlsplit(f"//{host}")
        if found.port == 0 or found.username is not None or found.path or found.query or found.fragment:
            return ""
        return (found.hostname or "").lower()
    except ValueError:
        return ""


def _is_same(origin: str, host: str) -> bool:
    return origin.lower() == f"http://{host.lower()}"


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _equal(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.encode())
