"""The way to one provider, shared by all attempts of a run.

Rules: never more than `max_connections` requests at once, from the first byte sent to the last byte read.
A provider that asks to be left alone for a while (`Retry-After`) is left alone by all. Only what has
brought nothing to the client is tried again; a provider that was silent for too long is not: it may still
be at work on the request.
"""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final

import msgspec

from labrunner.gateway.dialects.hearing import Hearing
from labrunner.gateway.dialects.speech import Ask
from labrunner.gateway.serving.caller import ProviderEntry
from labrunner.gateway.serving.headers import Headers, find, read_retry_after
from labrunner.gateway.serving.turnstile import Turnstile
from labrunner.gateway.serving.upstream import LineBroken, LineSilent, Opened, Upstream, Wait, open_client
from labrunner.policy.backoff import heed, wait_s
from labrunner.records.encoding.canonical import stamp
from labrunner.records.facts.model_call import CallTry

_TRANSIENT: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529})
_FINAL_KINDS: Final = frozenset({"insufficient_quota", "billing_not_active"})
"""Errors that no waiting mends, whatever their status."""
_ERROR_BODY: Final = 1 << 20
_LONGEST: Final = 500


class Unreachable(Exception):
    """No answer came."""


@dataclass(slots=True, kw_only=True)
class Sending:
    """What happened to a request outside."""

    tries: list[CallTry] = field(default_factory=list)
    """Those that failed, but for the last one."""
    is_in_flight: bool = False
    """Whether the provider may have worked on it, and may bill it."""


class ProviderLink:
    """Sends requests to one provider. See `open_link`."""

    def __init__(self, entry: ProviderEntry, upstream: Upstream, turnstile: Turnstile) -> None:
        """Take over who answers."""
        self.entry = entry
        self._upstream = upstream
        self._turnstile = turnstile

    @asynccontextmanager
    async def send(self, ask: Ask, headers: Headers, sending: Sending) -> AsyncIterator[Opened]:
        """Send a request, again if need be, and note failed tries. Raises Unreachable."""
        async with AsyncExitStack() as stack:
            yield await self._find_answer(ask, headers, sending, stack)

    async def _find_answer(
        self, ask: Ask, headers: Headers, sending: Sending, stack: AsyncExitStack
    ) -> Opened:
        """An answer for the client; its place and its connection are the stack's."""
        while True:
            started = datetime.now(UTC)
            async with AsyncExitStack() as trying:
                await trying.enter_async_context(self._turnstile.slots)
                await self._turnstile.wait_turn()
                found = await self._try(ask, headers, sending, started)
                if isinstance(found, Opened):
                    trying.callback(found.close)
                    await stack.enter_async_context(trying.pop_all())
                    return found
            await asyncio.sleep(found)

    async def _try(self, ask: Ask, headers: Headers, sending: Sending, started: datetime) -> Opened | float:
        """An answer for the client, or seconds to wait before another try. Raises Unreachable."""
        is_last = len(sending.tries) >= self.entry.max_retries
        failed = CallTry(started_at=stamp(started), waited_s=0.0)
        sending.is_in_flight = True
        try:
            opened = await self._upstream.send(ask, headers)
        except LineSilent as error:
            told = f"{self.entry.name} sent nothing for {self.entry.silence_s:g} s"
            raise Unreachable(told) from error
        except LineBroken as error:
            told = str(error)
            sending.is_in_flight = False
            if is_last:
                raise Unreachable(f"{self.entry.name} can't be reached: {told}") from error
            return self._note(sending, msgspec.structs.replace(failed, error=told[:_LONGEST]))
        return await self._judge(ask, opened, sending, failed, is_last=is_last)

    async def _judge(
        self, ask: Ask, opened: Opened, sending: Sending, failed: CallTry, *, is_last: bool
    ) -> Opened | float:
        asked = read_retry_after(opened.headers, datetime.now(UTC))
        if asked is not None and opened.status in {429, 503, 529}:
            self._turnstile.pause(min(asked, self.entry.longest_wait_s))
        if opened.status not in _TRANSIENT or find(opened.headers, "x-should-retry") == "false":
            return opened
        if is_last or (asked or 0.0) > self.entry.longest_wait_s:
            return opened
        try:
            body = await _read_error(opened)
        except LineBroken as error:
            body = str(error).encode()
        hearing = Hearing(ask, content_type="", encoding=find(opened.headers, "content-encoding"))
        hearing.take(body)
        told = hearing.tell(opened.status).complaint
        if told is not None and told.kind in _FINAL_KINDS:
            return replace(opened, first=body)
        opened.close()
        sending.is_in_flight = False
        message = told.message[:_LONGEST] if told else ""
        known = msgspec.structs.replace(failed, status=opened.status, error=message, retry_after_s=asked)
        return self._note(sending, known)

    def _note(self, sending: Sending, failed: CallTry) -> float:
        entry, jitter = self.entry, random.random()
        if failed.retry_after_s is not None:
            wait = heed(failed.retry_after_s, jitter=jitter)
        else:
            wait = wait_s(
                len(sending.tries), first_s=entry.first_wait_s, longest_s=entry.longest_wait_s, jitter=jitter
            )
        sending.tries.append(msgspec.structs.replace(failed, waited_s=round(wait, 3)))
        return wait


async def _read_error(opened: Opened) -> bytes:
    body = bytearray()
    async for piece in opened.rest:
        body += piece
        if len(body) > _ERROR_BODY:
            break
    return bytes(body)


@asynccontextmanager
async def open_link(
    entry: ProviderEntry, upstream: Upstream | None = None, turnstile: Turnstile | None = None
) -> AsyncIterator[ProviderLink]:
    """Connect to a provider when there is something to send; `upstream` stands for one.

    `turnstile` is shared with other entries of the same provider.
    """
    turnstile = turnstile or Turnstile(entry.max_connections)
    if upstream is not None:
        yield ProviderLink(entry, upstream, turnstile)
        return
    client = open_client(entry.base_url, Wait(connect_s=entry.connect_s, silence_s=entry.silence_s))
    async with client.session:
        yield ProviderLink(entry, client, turnstile)
