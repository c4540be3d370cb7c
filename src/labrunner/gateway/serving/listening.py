"""Listeners: sockets on which attempts find their models.

Rules: no connection brings down another one, and each attempt has only so many. A disk that takes no rows
ends the service: an answer without a record is none.
"""

import asyncio
import logging
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from labrunner.errors import LabError
from labrunner.gateway.dialects.speech import Declined
from labrunner.gateway.holders import UNSERVED, Holders, TooManyConnections, may_be_served_later
from labrunner.gateway.reception import MAX_UNHEARD, Unheard, receive
from labrunner.gateway.serving.caller import Caller
from labrunner.gateway.serving.errorshape import write_error
from labrunner.gateway.serving.exchange import CutOutside, carry
from labrunner.gateway.serving.headers import find_tokens
from labrunner.gateway.serving.providerlink import ProviderLink
from labrunner.gateway.serving.wire import BadRequest, ClientGone, ClientPatience, RequestHead, Wire

_log: Final = logging.getLogger(__name__)
_LINE: Final = 1024


class Callers(Holders[Caller]):
    """Attempts that a listener serves: one where it is planted, all of a run where it is shared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """What listeners share."""

    links: Mapping[str, ProviderLink]
    patience: ClientPatience = field(default_factory=ClientPatience)
    max_clients: int = 256
    """Connections of one attempt at once; more are refused."""
    max_unheard: int = MAX_UNHEARD
    """Connections of one listener that have not said whose they are."""


def listen_on_loopback(port: int = 0) -> socket.socket:
    """A listener on a loopback port of this network namespace."""
    return socket.create_server(("127.0.0.1", port), backlog=_LINE)


async def serve(listener: socket.socket, callers: Callers, service: Service) -> None:
    """Serve a listener until it is cancelled. Raises StoreError, in a group."""

    async def attend(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, unheard: Unheard) -> None:
        wire, is_cut = Wire(reader, writer, service.patience), True
        try:
            await _converse(wire, callers, service, unheard)
            is_cut = False
        except (ClientGone, CutOutside):
            pass  # what there was to say is in the call's row
        except LabError:
            raise
        except Exception:  # noqa: BLE001 - see below
            # One connection's trouble, whatever it is, must not end those of all other attempts.
            _log.exception("a connection of an attempt ended by a mistake of ours")
        finally:
            await wire.close(is_cut=is_cut)

    await receive(listener, attend, most_unheard=service.max_unheard)


async def _converse(wire: Wire, callers: Callers, service: Service, unheard: Unheard) -> None:
    try:
        head = await wire.read_head()
        caller = callers.find(find_tokens(head.headers, head.query))
        if caller is None:
            await _turn_away(wire, head, service)
            return
        unheard.leave()
        with callers.attending(caller, service.max_clients):
            await _carry_all(wire, head, caller, callers, service)
    except TooManyConnections as error:
        await _refuse(wire, Declined(status=503, kind="overloaded_error", message=str(error)))
    except BadRequest as error:
        if wire.has_answered:
            raise ClientGone from error
        await _refuse(wire, Declined(status=error.status, kind="invalid_request_error", message=str(error)))


async def _carry_all(
    wire: Wire, head: RequestHead, caller: Caller, callers: Callers, service: Service
) -> None:
    """All requests of a connection: those of one attempt."""
    await carry(wire, head, caller, service.links)
    while wire.is_reusable:
        head = await wire.read_head()
        if callers.find(find_tokens(head.headers, head.query)) is not caller:
            await _turn_away(wire, head, service)
            return
        await carry(wire, head, caller, service.links)


async def _refuse(wire: Wire, declined: Declined) -> None:
    await wire.send_whole(declined.status, write_error("openai", declined), closes=True)


async def _turn_away(wire: Wire, head: RequestHead, service: Service) -> None:
    link = service.links.get(head.path.split("/")[1])
    told = "the key is not this attempt's token: use the one in the environment of the agent"
    declined = Declined(status=401, kind="authentication_error", message=told)
    if may_be_served_later(find_tokens(head.headers, head.query)):
        declined = Declined(status=503, kind="overloaded_error", message=UNSERVED)
    dialect = link.entry.dialect if link else "openai"
    await wire.send_whole(declined.status, write_error(dialect, declined), closes=True)
