"""What a client asks a proxy for: a tunnel to a host, or an address of http. Pure.

Rules: a target is read in one way only; what could be read in two (a user, a fragment, a zone, a percent sign
in a name) is refused. The head that goes out is made anew from what was read.
"""

import re
from dataclasses import dataclass
from typing import Final

from labrunner.experiment.allowlist import DEFAULT_PORTS, Address, Way, parse_host, parse_port

_ABSOLUTE: Final = re.compile(r"http://([^/?#]*)([^#]*)\Z", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """Where a client wants to go."""

    host: str | Address
    port: int
    way: Way
    path: str = ""
    """Of a plain request: with its query, and at least `/`."""

    @property
    def authority(self) -> str:
        """For the header `Host`."""
        host = write_host(self.host)
        return host if self.port == DEFAULT_PORTS["http"] else f"{host}:{self.port}"

    def __str__(self) -> str:
        """For people."""
        return f"{write_host(self.host)}:{self.port}"


def write_host(host: str | Address) -> str:
    """A host as it stands in addresses."""
    return f"[{host}]" if not isinstance(host, str) and host.version == 6 else str(host)


def parse_authority(text: str, way: Way, *, default: int | None = None) -> Destination:
    """Understand `host:port`. Raises ValueError."""
    host, port = _split(text)
    number = default if port is None else parse_port(port)
    if number is None:
        raise ValueError("a port from 1 to 65535 must stand after the host")
    if "@" in host:
        raise ValueError("no user may stand before the host")
    if host.count(":") and not (host.startswith("[") and host.endswith("]")):
        raise ValueError("an address of version 6 stands in brackets")
    return Destination(host=parse_host(host), port=number, way=way)


def _split(text: str) -> tuple[str, str | None]:
    """Host and port; None for no port."""
    if text.endswith("]") or ":" not in text:
        return text, None
    host, _, port = text.rpartition(":")
    return host, port


def parse_absolute(text: str) -> Destination:
    """Understand `http://host/path`. Raises ValueError."""
    found = _ABSOLUTE.match(text)
    if found is None:
        raise ValueError(
            "a proxy is asked for whole addresses that begin with http://, without #; https takes CONNECT"
        )
    place = parse_authority(found[1], "http", default=DEFAULT_PORTS["http"])
    path = found[2] if found[2].startswith("/") else f"/{found[2]}"
    return Destination(host=place.host, port=place.port, way="http", path=path)


def parse_path(text: str, base: Destination) -> Destination:
    """Understand a path asked for inside a tunnel that speaks http. Raises ValueError."""
    if not text.startswith("/") or "#" in text:
        raise ValueError("inside a tunnel only paths are asked for")
    return Destination(host=base.host, port=base.port, way="http", path=text)
