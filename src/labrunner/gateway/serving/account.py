"""What is known of one call while it goes on, and the row that is made of it.

Rule: the reservation is settled and the row is written exactly once, however the call ends.
"""

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Final

from msgspec.structs import replace

from labrunner.files.uninterrupted import wait_out
from labrunner.gateway.dialects.hearing import Hearing
from labrunner.gateway.dialects.speech import Ask, Heard, Tokens
from labrunner.gateway.metering.pricelist import Cost
from labrunner.gateway.metering.purse import Hold, Taking
from labrunner.gateway.metering.weighing import Weighed, weigh
from labrunner.gateway.recording.bodies import KeptBody, keep_bytes, keep_request
from labrunner.gateway.replaying.tape import TapedCall
from labrunner.gateway.serving.caller import Caller, ProviderEntry
from labrunner.gateway.serving.providerlink import Sending
from labrunner.records.encoding.canonical import stamp
from labrunner.records.encoding.ids import make_token
from labrunner.records.facts.model_call import (
    GATEWAY_ENDED,
    CallCap,
    CallEnd,
    CallError,
    CallRow,
    CallTokens,
)

_SMALL: Final = 64 << 10
"""Bytes that a call may have to be written beside the others' work."""


@dataclass(slots=True, kw_only=True)
class Account:
    """One call, from its arrival to its row."""

    caller: Caller
    entry: ProviderEntry
    ordinal: int
    started: datetime
    ask: Ask | None = None
    hold: Hold | None = None
    most: Tokens = field(default_factory=Tokens)
    sending: Sending = field(default_factory=Sending)
    status: int | None = None
    """What the provider answered."""
    refused_with: int | None = None
    """What the client got where the provider's answer, if any, was not passed on."""
    hearing: Hearing | None = None
    first_byte: datetime | None = None
    end: CallEnd = "client_gone"
    """How it ends if nothing else is noted."""
    error: CallError | None = None
    cap: CallCap | None = None
    taped: TapedCall | None = None
    """The recorded call that answers it: what that one took is what this one is said to have taken."""
    is_closed: bool = False
    call_id: str = field(default_factory=make_token)

    @property
    def heard(self) -> Heard | None:
        """What the answer said so far."""
        return None if self.hearing is None or self.status is None else self.hearing.tell(self.status)

    def begin(self, bound: Cost | None) -> None:
        """Note a call before it is sent, as it stands if nobody writes its end. Raises StoreError."""
        self.caller.journal.begin(
            replace(
                self._write_known("cut", self.started),
                tokens=_write_tokens(Weighed(tokens=self.most, basis="reserved")),
                cost_usd=float(bound.usd) if bound else None,
                price_source=bound.source if bound else None,
                priced_on=bound.priced_on if bound else None,
                error=CallError(
                    kind=GATEWAY_ENDED, message="the gateway ended while this call was under way"
                ),
            )
        )

    async def close(self) -> None:
        """Settle what was held and write the row; durable when this returns. Raises StoreError."""
        self.is_closed = True
        ended, heard = datetime.now(UTC), self.heard
        weighed, cost = self._weigh(heard)
        cancelled: asyncio.CancelledError | None = None
        try:
            if self._is_small and self.caller.journal.is_quick:
                self._write(heard, weighed, cost, ended)  # a thread would take longer
            else:
                writing = asyncio.ensure_future(asyncio.to_thread(self._write, heard, weighed, cost, ended))
                cancelled = await wait_out(writing)  # whoever is let go still has its row
                writing.result()
        finally:
            if self.hold is not None:
                self.hold.settle(_make_taking(self.hold, weighed, cost))
        if cancelled is not None:
            raise cancelled

    @property
    def _is_small(self) -> bool:
        said = self.hearing.size if self.hearing is not None else 0
        return said + (len(self.ask.body) if self.ask is not None else 0) <= _SMALL

    def _write(
        self, heard: Heard | None, weighed: Weighed | None, cost: Cost | None, ended: datetime
    ) -> None:
        row, kept = self._make_row(heard, weighed, cost, ended)
        self.caller.journal.write(row, [each for body in kept for each in body.rows])

    def _weigh(self, heard: Heard | None) -> tuple[Weighed | None, Cost | None]:
        if self.taped is not None:
            return _recall(self.taped.row)
        if self.ask is None or not self.sending.is_in_flight:
            return None, None
        weighed = weigh(self.ask, self.most, self.status, heard)
        if weighed is None:
            return None, None
        tier = (heard.tier if heard else None) or self.ask.tier
        names = [name for name in (self.ask.model, heard.model if heard else None) if name]
        costs = (self.entry.prices.price(name, weighed.tokens, self.started, tier=tier) for name in names)
        return weighed, next((cost for cost in costs if cost is not None), None)

    def _make_row(
        self, heard: Heard | None, weighed: Weighed | None, cost: Cost | None, ended: datetime
    ) -> tuple[CallRow, list[KeptBody]]:
        ask, hearing = self.ask, self.hearing
        request = keep_request(ask.body) if ask is not None and ask.body else None
        answer = keep_bytes(hearing.content) if hearing is not None and hearing.content else None
        row = replace(
            self._write_known(self.end, ended),
            answered_by=heard.model if heard else None,
            first_byte_at=stamp(self.first_byte) if self.first_byte else None,
            status=self.status if self.refused_with is None else self.refused_with,
            stop_reason=heard.stop_reason if heard else None,
            tokens=_write_tokens(weighed) if weighed else None,
            cost_usd=float(cost.usd) if cost else None,
            price_source=cost.source if cost else None,
            priced_on=cost.priced_on if cost else None,
            request=request.digest if request else None,
            answer=answer.digest if answer else None,
            tries=tuple(self.sending.tries),
            error=self.error,
            cap=self.cap,
            trouble=hearing.trouble if hearing else None,
            replayed=self.taped.origin if self.taped else None,
        )
        return row, [body for body in (request, answer) if body is not None]

    def _write_known(self, end: CallEnd, ended: datetime) -> CallRow:
        """A row with what is known before anything was sent."""
        ask = self.ask
        return CallRow(
            schema_version="model_call_v1",
            call_id=self.call_id,
            ids=self.caller.ids,
            attempt=self.caller.attempt,
            ordinal=self.ordinal,
            provider=self.entry.name,
            protocol=ask.protocol if ask else self.entry.dialect,
            purpose=ask.purpose if ask else "unknown",
            model=ask.model if ask else None,
            streaming=ask is not None and ask.is_streaming,
            started_at=stamp(self.started),
            ended_at=stamp(ended),
            end=end,
            taken_out=ask.taken_out if ask else (),
        )


def _recall(row: CallRow) -> tuple[Weighed | None, Cost | None]:
    """What a recorded call took."""
    told = row.tokens
    if told is None:
        return None, None
    tokens = Tokens(
        input=told.input,
        output=told.output,
        cache_read=told.cache_read,
        cache_write=told.cache_write,
        cache_write_1h=told.cache_write_1h,
        reasoning=told.reasoning,
    )
    cost = None
    if row.cost_usd is not None:
        usd = Decimal(repr(row.cost_usd))
        cost = Cost(usd=usd, source=row.price_source or "", priced_on=row.priced_on or "")
    return Weighed(tokens=tokens, basis=told.basis), cost


def _write_tokens(weighed: Weighed) -> CallTokens:
    tokens = weighed.tokens
    return CallTokens(
        input=tokens.input,
        output=tokens.output,
        cache_read=tokens.cache_read,
        cache_write=tokens.cache_write,
        cache_write_1h=tokens.cache_write_1h,
        reasoning=tokens.reasoning,
        basis=weighed.basis,
    )


def _make_taking(hold: Hold, weighed: Weighed | None, cost: Cost | None) -> Taking:
    """What is paid: a call that was priced when it was let through stays priced, whatever name answers."""
    if weighed is None:
        return Taking(cost_usd=Decimal(), requests=hold.taking.requests)
    usd = hold.taking.cost_usd if cost is None else cost.usd
    return Taking(cost_usd=usd, tokens=weighed.tokens.total, requests=hold.taking.requests)
