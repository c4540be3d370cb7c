"""Hosts that a phase may reach: what the lines of `network.allow` mean.

Rules: names are compared without case, without a last dot and in the form that DNS knows (punycode). A name
allows no address, and an address no name, whatever DNS says of them. What looks like an address written in a
way of its own (`127.1`, `0x7f.0.0.1`) is no name.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final, Literal

Address = IPv4Address | IPv6Address
Way = Literal["tunnel", "http"]
"""How a client asks: for a tunnel (CONNECT), or with a plain http request."""

DEFAULT_PORTS: Final[dict[Way, int]] = {"tunnel": 443, "http": 80}
"""What a line without a port allows."""
LOCAL: Final = "localhost"
"""The one name that stands for addresses: those of the loopback of the host that runs lab."""
_LOOPBACK: Final = (IPv4Address("127.0.0.1"), IPv6Address("::1"))
_LABEL: Final = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)\Z")
_NUMBER: Final = re.compile(r"(0x[0-9a-f]*|[0-9]+)\Z")
_PORT: Final = re.compile(r"[0-9]{1,5}\Z")
_LONGEST_NAME: Final = 253


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowedHost:
    """One line of the list."""

    host: str | Address
    """A name, or an address."""
    port: int | None = None
    """None for the one that goes with the way of asking."""
    is_wildcard: bool = False
    """Whether names below it are meant, and it itself is not."""

    def has_port(self, port: int, way: Way) -> bool:
        """Whether it allows a port."""
        return port == (DEFAULT_PORTS[way] if self.port is None else self.port)

    def has_host(self, host: str | Address) -> bool:
        """Whether it allows a name or an address, as `parse_host` gives it."""
        if self.is_wildcard:
            return isinstance(host, str) and host.endswith(f".{self.host}")
        if self.host == LOCAL and not isinstance(host, str):
            return host in _LOOPBACK
        return self.host == host


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowList:
    """All lines of a phase."""

    lines: tuple[AllowedHost, ...]
    texts: tuple[str, ...]
    """As they were written."""

    def find(self, host: str | Address, port: int, way: Way) -> AllowedHost | None:
        """The line that allows this; one that names the port before one that does not."""
        found = [each for each in self.lines if each.has_host(host) and each.has_port(port, way)]
        return min(found, key=lambda each: each.port is None, default=None)

    def knows(self, host: str | Address) -> bool:
        """Whether some line has the host, be it for other ports."""
        return any(each.has_host(host) for each in self.lines)


def parse_list(texts: Iterable[str]) -> AllowList:
    """Understand a whole list. Raises ValueError."""
    kept = tuple(texts)
    return AllowList(lines=tuple(map(parse_line, kept)), texts=kept)


def parse_line(text: str) -> AllowedHost:
    """Understand one line: `host`, `host:port`, `*.host`, an address, `[v6]:port`. Raises ValueError."""
    told = f"'{text[:_LONGEST_NAME]}' can't be allowed"
    if "/" in text or "@" in text:
        raise ValueError(f"{told}: write a host and, if need be, a port; no address of a page, no network")
    if text == "*":
        raise ValueError(f"{told}: to reach every host, write `network: full`")
    rest, port = _split(text, told)
    is_wildcard = rest.startswith("*.")
    try:
        host = parse_host(rest.removeprefix("*."))
    except ValueError as error:
        raise ValueError(f"{told}: {error}") from error
    if is_wildcard and not isinstance(host, str):
        raise ValueError(f"{told}: `*.` goes before names only")
    return AllowedHost(host=host, port=port, is_wildcard=is_wildcard)


def _split(text: str, told: str) -> tuple[str, int | None]:
    """Take the port off; more than one colon without brackets is an address of version 6."""
    if text.count(":") > 1 and not text.startswith("["):
        return text, None
    host, bracket, rest = text.rpartition("]") if text.startswith("[") else ("", "", text)
    name, colon, port = rest.partition(":")
    if colon and parse_port(port) is None:
        raise ValueError(f"{told}: the port must be a number from 1 to 65535, found '{port[:20]}'")
    return host + bracket + name, parse_port(port) if colon else None


def parse_port(text: str) -> int | None:
    """A port's number; None for what is none."""
    number = int(text) if text.isascii() and _PORT.match(text) else 0
    return number if 1 <= number <= 65535 else None


def parse_host(text: str) -> str | Address:
    """A name in its one form, or an address; 4 inside of version 6 is version 4. Raises ValueError."""
    if text.startswith("[") or ":" in text:
        bare = text[1:-1] if text.startswith("[") and text.endswith("]") else text
        if "%" in bare:
            raise ValueError("an address with a zone is known on its own network only")
        address = IPv6Address(bare)
        return address.ipv4_mapped or address
    return _parse_name(text if text.isascii() else _encode(text))


def _parse_name(text: str) -> str | Address:
    name = text.lower().removesuffix(".")
    labels = name.split(".")
    if _NUMBER.match(labels[-1]):
        return ip_address(name)
    if len(name) > _LONGEST_NAME or not all(map(_LABEL.match, labels)):
        raise ValueError("a name is made of letters, digits, '-' and '_', in parts of 1 to 63 between dots")
    return name


def _encode(text: str) -> str:
    import idna  # only few names need it

    try:
        return idna.encode(text, uts46=True).decode("ascii")
    except idna.IDNAError as error:
        raise ValueError(f"no name of DNS: {error}") from error
