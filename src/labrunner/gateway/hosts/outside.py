"""Connections to hosts that are allowed.

Rules: a name is looked up once, and the connection goes to an address that was checked: nobody asks DNS
again. By a name only public addresses are reached, and never this machine, whatever its address is; others
must stand in the list as addresses.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address

from labrunner.experiment.allowlist import LOCAL, Address, AllowedHost
from labrunner.gateway.cut import cut
from labrunner.gateway.hosts.destination import Destination, write_host
from labrunner.gateway.hosts.internet import is_public, read_address
from labrunner.gateway.hosts.passage import Passage, Turned
from labrunner.gateway.hosts.visitor import HostService, Visitor
from labrunner.gateway.serving.wire import ClientGone

_LOOPBACK = (IPv4Address("127.0.0.1"), IPv6Address("::1"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """A connection to a host."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


@contextmanager
def at_host() -> Iterator[None]:
    """Trouble in here is the host's. Raises Turned."""
    try:
        yield
    except OSError as error:
        raise Turned("cut", 502, f"the host broke off: {error}", end="failed") from error


@contextmanager
def at_client() -> Iterator[None]:
    """Trouble in here is the client's. Raises ClientGone."""
    try:
        yield
    except OSError as error:
        raise ClientGone from error


def find_line(target: Destination, visitor: Visitor) -> AllowedHost:
    """The line of the list that allows a target. Raises Turned."""
    line = visitor.allow.find(target.host, target.port, target.way)
    if line is not None:
        return line
    listed = ", ".join(visitor.allow.texts[:10]) or "nothing"
    told = f"{target} is not allowed: `{visitor.phase}.network.allow` has {listed}"
    if visitor.allow.knows(target.host):
        raise Turned(
            "port_not_allowed", 403, f"{told}; without a port, 443 by CONNECT and 80 by http are meant"
        )
    if isinstance(target.host, str):
        raise Turned("not_allowed", 403, told)
    raise Turned("address_not_allowed", 403, f"{told}; an address must stand there itself")


@asynccontextmanager
async def reach(target: Destination, passage: Passage, service: HostService) -> AsyncIterator[Outside]:
    """Connect to a target that a line allows. Raises Turned."""
    addresses = await _find_addresses(target, passage.visitor, service)
    admitted = [each for each in addresses if _is_admitted(each, target, passage.visitor)]
    if not admitted:
        raise _refuse_private(target, addresses[0])
    connected = await _connect(target, admitted, passage, service)
    reader, writer = await asyncio.open_connection(sock=connected)
    is_over = False
    try:
        passage.begin()
        yield Outside(reader=reader, writer=writer)
        is_over = True
    finally:
        if not is_over:
            cut(writer)
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


def _is_admitted(address: Address, target: Destination, visitor: Visitor) -> bool:
    return is_public(address) or visitor.allow.find(address, target.port, target.way) is not None


def _refuse_private(target: Destination, address: Address) -> Turned:
    place = f"{write_host(address)}:{target.port}"
    told = f"{target} is at {address}, which is no public address of another machine"
    return Turned("private_address", 403, f"{told}; to allow it all the same, add '{place}' to the list")


async def _find_addresses(target: Destination, visitor: Visitor, service: HostService) -> Sequence[Address]:
    if not isinstance(target.host, str):
        return [target.host]
    if target.host == LOCAL:
        return _LOOPBACK
    told = f"looking up {target.host}"
    try:
        async with asyncio.timeout(service.lookup_s), visitor.lookups:
            found = await service.resolve(target.host)
    except TimeoutError as error:
        raise Turned("timeout", 504, f"{told}: nobody answered", end="failed") from error
    except (OSError, UnicodeError) as error:
        raise Turned("unknown_name", 502, f"{told}: {error}", end="failed") from error
    if not found:
        raise Turned("unknown_name", 502, f"{told}: it has no address", end="failed")
    return found


async def _connect(
    target: Destination, addresses: Sequence[Address], passage: Passage, service: HostService
) -> socket.socket:
    """To the first address that answers. Raises Turned."""
    try:
        async with asyncio.timeout(service.connect_s):
            connected = await _open_first(addresses, target.port, passage)
    except TimeoutError as error:
        told = f"connecting to {target}: no answer in {service.connect_s:g} s"
        raise Turned("timeout", 504, told, end="failed") from error
    except OSError as error:
        raise Turned("unreachable", 502, f"connecting to {target}: {error}", end="failed") from error
    _refuse_own(connected, target, passage.visitor)
    return connected


async def _open_first(addresses: Sequence[Address], port: int, passage: Passage) -> socket.socket:
    trouble = OSError("no address")
    for address in addresses:
        passage.address = str(address)
        try:
            return await _open(address, port)
        except OSError as error:
            trouble = error
    raise trouble


async def _open(address: Address, port: int) -> socket.socket:
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    connecting = socket.socket(family, socket.SOCK_STREAM)
    try:
        connecting.setblocking(False)
        connecting.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.get_running_loop().sock_connect(connecting, (str(address), port))
    except BaseException:
        connecting.close()
        raise
    return connecting


def _refuse_own(connected: socket.socket, target: Destination, visitor: Visitor) -> None:
    """A public address may be this machine's: then both ends are the same."""
    ours, address = (read_address(str(end[0])) for end in (connected.getsockname(), connected.getpeername()))
    if ours == address and visitor.allow.find(address, target.port, target.way) is None:
        connected.close()
        raise _refuse_private(target, address)
