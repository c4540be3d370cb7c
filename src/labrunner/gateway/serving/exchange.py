"""One request of an attempt, from its head to the end of its answer.

Rules: bytes pass as they come; the last of them wait until the call's row is synced, so that no client
knows of an answer of which no record does. A client that leaves ends the request outside. What was cut
outside is cut inside: it must not look whole.
"""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from labrunner.errors import LabError
from labrunner.gateway.dialects.hearing import Hearing
from labrunner.gateway.dialects.recognising import Inbound, recognise
from labrunner.gateway.dialects.speech import Ask, Declined
from labrunner.gateway.metering.pricelist import Cost
from labrunner.gateway.metering.purse import CapReached, Purse, Taking, Unpriced, reserve
from labrunner.gateway.metering.weighing import bound_tokens
from labrunner.gateway.replaying.tape import TapedCall
from labrunner.gateway.serving.account import Account
from labrunner.gateway.serving.caller import Caller
from labrunner.gateway.serving.errorshape import write_error
from labrunner.gateway.serving.headers import (
    choose_for_client,
    choose_for_provider,
    find,
    read_retry_after,
)
from labrunner.gateway.serving.playback import PLAYABLE, open_recorded
from labrunner.gateway.serving.providerlink import ProviderLink, Unreachable
from labrunner.gateway.serving.upstream import LineBroken, Opened
from labrunner.gateway.serving.wire import MAX_BODY, ClientGone, RequestHead, Wire
from labrunner.gateway.streams.inflating import Unreadable, choose_encodings, inflate
from labrunner.records.facts.model_call import NO_PRICE, CallCap, CallEnd, CallError

_LINGER_S: Final = 2.0
"""How long an answer that said it is over may keep its connection."""
_LONGEST: Final = 2000
_LARGE: Final = 256 << 10
"""Bytes of a request that is read beside the loop: others must not wait for it."""
_BODILESS: Final = frozenset({204, 304})
_FREE: Final = frozenset({"models", "count_tokens"})


class CutOutside(Exception):
    """The provider broke off an answer: the client's connection must break off too."""


async def carry(wire: Wire, head: RequestHead, caller: Caller, links: Mapping[str, ProviderLink]) -> None:
    """Answer one request. Raises ClientGone, BadRequest, CutOutside, StoreError."""
    with caller.allowance.holding() as take:
        body = await wire.read_body(take)
        if find(head.headers, "content-encoding"):
            take(MAX_BODY)  # as much as it may inflate to
        await _carry(wire, head, body, caller, links)


async def _carry(
    wire: Wire, head: RequestHead, body: bytes, caller: Caller, links: Mapping[str, ProviderLink]
) -> None:
    _, _, rest = head.path.partition("/")
    name, slash, path = rest.partition("/")
    if name not in caller.providers or name not in links:
        known = ", ".join(sorted(f"/{each}" for each in caller.providers))
        told = f"there is no model at /{name[:80]}; this attempt may use: {known or 'none'}"
        declined = Declined(status=404, kind="not_found_error", message=told)
        await wire.send_whole(404, write_error("openai", declined))
        return
    link = links[name]
    account = Account(
        caller=caller,
        entry=link.entry,
        ordinal=caller.journal.take_ordinal(),
        started=datetime.now(UTC),
    )
    exchange = _Exchange(wire, head, link, account)
    if len(body) > _LARGE or find(head.headers, "content-encoding"):
        asked = await asyncio.to_thread(_read, head, slash + path, body, exchange)
    else:
        asked = _read(head, slash + path, body, exchange)
    await _race(wire, exchange, asked)


def _read(head: RequestHead, path: str, body: bytes, exchange: "_Exchange") -> Ask | Declined:
    try:
        content = inflate(body, find(head.headers, "content-encoding"), most=MAX_BODY)
    except Unreadable as error:
        return Declined(status=415, kind="invalid_request_error", message=str(error))
    inbound = Inbound(
        method=head.method, path=path, query=head.query, body=content, is_upgrade=head.is_upgrade
    )
    return recognise(exchange.link.entry.dialect, inbound, exchange.link.entry.server_tools)


async def _race(wire: Wire, exchange: "_Exchange", asked: Ask | Declined) -> None:
    """Answer while the client is there."""
    failure: Exception | None = None
    scope = asyncio.timeout(None)
    async with asyncio.TaskGroup() as group:
        watching = group.create_task(_watch(wire, scope))
        try:
            async with scope:
                await exchange.answer(asked)
        except TimeoutError as error:
            if not scope.expired():
                raise
            failure = ClientGone()
            failure.__cause__ = error
        except (ClientGone, CutOutside, LabError) as error:
            failure = error  # kept, because the group would wrap it
        watching.cancel()
    if failure is not None:
        raise failure


async def _watch(wire: Wire, scope: asyncio.Timeout) -> None:
    await wire.watch()
    if not scope.expired():
        scope.reschedule(asyncio.get_running_loop().time())


class _Exchange:
    """The state of one request."""

    def __init__(self, wire: Wire, head: RequestHead, link: ProviderLink, account: Account) -> None:
        self.wire = wire
        self.head = head
        self.link = link
        self.account = account

    async def answer(self, asked: Ask | Declined) -> None:
        """Pass it on, or say why not. However this ends, there is a row."""
        try:
            if isinstance(asked, Declined):
                await self._refuse(asked, "declined")
            else:
                await self._answer(asked)
        finally:
            if not self.account.is_closed:
                await self.account.close()

    async def _answer(self, ask: Ask) -> None:
        self.account.ask = ask
        try:
            if await self._replay(ask):
                return
            bound = await self._reserve(ask, self.account.caller.purses)
            if ask.purpose not in _FREE:
                self.account.begin(bound)
            headers = choose_for_provider(
                self.head.headers,
                self.link.entry.dialect,
                self.link.entry.key,
                choose_encodings(find(self.head.headers, "accept-encoding"), is_plain=ask.hides_usage),
            )
            async with self.link.send(ask, headers, self.account.sending) as opened:
                await self._relay(ask, opened)
        except CapReached as reached:
            await self._refuse_capped(reached)
        except Unpriced as error:
            await self._refuse(Declined(status=402, kind=NO_PRICE, message=str(error)), "declined")
        except Unreachable as error:
            status = 504 if self.account.sending.is_in_flight else 502
            await self._refuse(Declined(status=status, kind="api_error", message=str(error)), "unreachable")

    async def _replay(self, ask: Ask) -> bool:
        """Answer from a recording; False where a provider is to be asked. Raises CapReached, Unpriced."""
        account, tape = self.account, self.account.caller.tape
        if tape is None:
            return False
        taped = tape.take(ask, account.entry.name, account.ordinal)
        if taped is None and tape.mode == "reuse":
            return False
        # The agent's own limits end it where they did then; the run pays nothing.
        await self._reserve(ask, account.caller.purses[:1])
        if taped is None:
            await self._miss(tape.describe_miss(ask, account.entry.name, account.ordinal))
        else:
            await self._play(ask, taped)
        return True

    async def _play(self, ask: Ask, taped: TapedCall) -> None:
        account, row = self.account, taped.row
        if row.end not in PLAYABLE and row.end != "unreachable":
            await self._miss(f"call {account.ordinal + 1} was refused then ({row.end}) and would not be now")
            return
        account.taped = taped
        account.sending.tries += row.tries
        if row.end == "unreachable":
            error = row.error or CallError(kind="api_error", message="no answer came")
            kind = error.kind or "api_error"
            declined = Declined(status=row.status or 502, kind=kind, message=error.message)
            await self._refuse(declined, "unreachable")
            return
        await self._relay(ask, await open_recorded(taped))

    async def _miss(self, told: str) -> None:
        """No recorded call answers, and nobody else may: what the agent does from here on is not replayed."""
        message = f"the recording has no answer: {told}"[:_LONGEST]
        try:
            await self._refuse(Declined(status=404, kind="replay_miss", message=message), "missed")
        finally:
            if (tell := self.account.caller.on_missed) is not None:
                tell()

    async def _refuse_capped(self, reached: CapReached) -> None:
        """The row names whose cap it was, and which: how the agent ended follows from it."""
        self.account.cap = CallCap(limit=reached.limit, whose=reached.whose)
        declined = Declined(status=402, kind="cap_reached", message=str(reached))
        try:
            await self._refuse(declined, "capped")
        finally:
            if (tell := self.account.caller.on_capped) is not None:
                tell(reached)

    async def _refuse(self, declined: Declined, end: CallEnd) -> None:
        account = self.account
        account.end = end
        account.refused_with = declined.status
        account.error = CallError(kind=declined.kind, message=declined.message)
        await account.close()
        await self.wire.send_whole(declined.status, write_error(account.entry.dialect, declined))

    async def _reserve(self, ask: Ask, purses: Sequence[Purse]) -> Cost | None:
        """Set aside what it can take; what it can cost."""
        account, entry = self.account, self.link.entry
        purse = account.caller.purses[0]
        past = purse.spent.tokens + purse.held.tokens
        most = account.most = bound_tokens(ask, past=past, max_output=entry.max_output)
        if ask.purpose in _FREE:
            account.hold = await reserve(purses, Taking())
            return None
        cost = entry.prices.bound(ask.model or "", most, account.started, tier=ask.tier)
        taking = Taking(cost_usd=cost.usd if cost else None, tokens=most.total, requests=1)
        account.hold = await reserve(purses, taking)
        return cost

    async def _relay(self, ask: Ask, opened: Opened) -> None:
        account = self.account
        account.status = opened.status
        hearing = account.hearing = Hearing(
            ask,
            content_type=find(opened.headers, "content-type"),
            encoding=find(opened.headers, "content-encoding"),
        )
        head = opened.status, choose_for_client(opened.headers, is_rewritten=hearing.hides)
        ends_with_head = opened.status in _BODILESS or find(opened.headers, "content-length") == "0"
        if not ends_with_head:
            await self.wire.send_head(*head)
        held: list[bytes] = []
        is_cut = await self._pass_pieces(opened, hearing, held)
        held.append(hearing.finish())
        self._conclude(ask, opened, hearing, is_cut=is_cut)
        await account.close()
        if ends_with_head:
            await self.wire.send_head(*head)
        for piece in held:
            await self.wire.send_data(piece)
        if is_cut:
            raise CutOutside
        await self.wire.end()

    async def _pass_pieces(self, opened: Opened, hearing: Hearing, held: list[bytes]) -> bool:
        """Pass on what comes, but for the end; True if the provider broke off."""
        linger = asyncio.timeout(None)
        try:
            async with linger:
                await self._take_pieces(opened, hearing, held, linger)
        except TimeoutError:
            if not linger.expired():
                raise
        except LineBroken as error:
            self.account.error = CallError(kind="cut", message=str(error))
            return True
        return False

    async def _take_pieces(
        self, opened: Opened, hearing: Hearing, held: list[bytes], linger: asyncio.Timeout
    ) -> None:
        async for piece in opened.pieces():
            self.account.first_byte = self.account.first_byte or datetime.now(UTC)
            held.append(hearing.take(piece))
            if hearing.is_stream and hearing.is_over:
                linger.reschedule(asyncio.get_running_loop().time() + _LINGER_S)
            else:
                await self._flush(hearing, held)
            hearing.catch_up()

    async def _flush(self, hearing: Hearing, held: list[bytes]) -> None:
        """A stream tells when it is over; of anything else the last piece may be the end."""
        kept = 0 if hearing.is_stream else 1
        while len(held) > kept:
            await self.wire.send_data(held.pop(0))

    def _conclude(self, ask: Ask, opened: Opened, hearing: Hearing, *, is_cut: bool) -> None:
        account, heard = self.account, hearing.tell(opened.status)
        if heard.complaint is not None:
            account.error = CallError(
                kind=heard.complaint.kind,
                message=heard.complaint.message[:_LONGEST],
                retry_after_s=read_retry_after(opened.headers, datetime.now(UTC)),
            )
        is_open = hearing.is_stream and ask.purpose == "generate" and not heard.is_over
        if heard.complaint is not None or opened.status >= 400:
            account.end = "error"
        else:
            account.end = "cut" if is_cut or is_open else "answered"
