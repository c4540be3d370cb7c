"""Where the engine listens, and how a connection to it is made.

Understood: `unix:///path`, `tcp://host:port` (and `http://`, `https://`). With DOCKER_TLS_VERIFY an engine at
a port is spoken to through TLS, with `ca.pem`, `cert.pem` and `key.pem` of the folder DOCKER_CERT_PATH.
"""

import asyncio
import os
import ssl
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import aiohttp
from yarl import URL

from labrunner.sandbox.docker.engine.engine_errors import EngineGone

DEFAULT_SOCKET: Final = Path("/var/run/docker.sock")
_UNIX: Final = "unix://"
_PORTS: Final = {"tcp": 2375, "http": 80, "https": 443}


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineAddress:
    """A socket, or a port of a host."""

    told: str
    """As people write it."""
    socket: Path | None = None
    host: str = "localhost"
    port: int = 0
    tls: ssl.SSLContext | None = None

    @property
    def base(self) -> str:
        """What the paths of calls are added to."""
        if self.socket is not None:
            return "http://localhost"
        return str(URL.build(scheme="https" if self.tls else "http", host=self.host, port=self.port))

    def make_connector(self) -> aiohttp.BaseConnector:
        """For calls. Each attempt holds a connection for its streams: no bound.

        No connection is used twice: an engine that was restarted would refuse the first call on each old one.
        """
        if self.socket is not None:
            return aiohttp.UnixConnector(str(self.socket), limit=0, force_close=True)
        return aiohttp.TCPConnector(ssl=self.tls or True, limit=0, force_close=True)

    async def open_streams(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """One connection for bytes in both directions."""
        if self.socket is not None:
            return await asyncio.open_unix_connection(str(self.socket))
        return await asyncio.open_connection(self.host, self.port, ssl=self.tls)


def find_address(url: str | None, default: Path = DEFAULT_SOCKET) -> EngineAddress:
    """Understand an address; without one, find the usual socket. Raises EngineGone where there is none."""
    if not url:
        if not _is_socket(default):
            raise _missing(f"DOCKER_HOST is not set and there is no {default}")
        return EngineAddress(told=f"{_UNIX}{default}", socket=default)
    if url.startswith(_UNIX):
        socket = Path(url.removeprefix(_UNIX))
        if not _is_socket(socket):
            raise _missing(f"{socket} is no socket")
        return EngineAddress(told=url, socket=socket)
    try:
        return _find_port(url)
    except (ValueError, OSError) as error:
        raise _missing(f"DOCKER_HOST is {url!r}: {error}") from error


def _find_port(url: str) -> EngineAddress:
    address = URL(url)
    if address.scheme not in _PORTS or not address.host:
        raise ValueError("write unix:///path/of/socket or tcp://host:port")
    port = address.explicit_port
    if port == 0:
        raise ValueError("port 0 is no port")
    verified = os.environ.get("DOCKER_TLS_VERIFY", "") not in {"", "0"}
    tls = _make_tls() if verified else ssl.create_default_context() if address.scheme == "https" else None
    return EngineAddress(told=url, host=address.host, port=port or _PORTS[address.scheme], tls=tls)


def _make_tls() -> ssl.SSLContext:
    folder = os.environ.get("DOCKER_CERT_PATH")
    if not folder:
        raise ValueError("DOCKER_TLS_VERIFY is set, and DOCKER_CERT_PATH is not")
    context = ssl.create_default_context(cafile=str(Path(folder) / "ca.pem"))
    context.load_cert_chain(certfile=str(Path(folder) / "cert.pem"), keyfile=str(Path(folder) / "key.pem"))
    return context


def _missing(problem: str) -> EngineGone:
    return EngineGone("engine_gone", f"no Docker engine: {problem}")


def _is_socket(path: Path) -> bool:
    try:
        return stat.S_ISSOCK(path.stat().st_mode)
    except OSError:
        return False
