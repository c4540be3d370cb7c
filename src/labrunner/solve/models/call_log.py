"""Calls of a Python task's attempt, as rows: the same as those that the gateway writes of any other agent's.

Rules: filled in the home loop, written with the transcript when the attempt has ended. What was said stands
in the transcript: of requests and answers rows have the digests alone. A call that was given up while it
waited for a provider is one that its client left.
"""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from labrunner.errors import AccountRefused, ProviderFailed
from labrunner.files.strangers.masking import Masker
from labrunner.gateway.replaying.spoken import SpokenCall, digest_said
from labrunner.policy.call_blame import NOT_FOUND, is_refusal
from labrunner.records.encoding import canonical
from labrunner.records.encoding.canonical import stamp
from labrunner.records.encoding.ids import Ids, make_token
from labrunner.records.facts.model_call import PYTHON, CallEnd, CallError, CallRow, CallTokens, CallTry
from labrunner.records.facts.transcript_events import Event
from labrunner.solve.models.backend import QUOTA, ProviderTrouble
from labrunner.solve.models.modelname import MOCK
from labrunner.solve.values.messages import (
    ChatMessageAssistant,
    ModelOutput,
    ModelUsage,
    from_plain,
    to_plain,
)

_SILENT: Final = frozenset({"connection", "timeout"})
"""Reasons of trouble that are no answer."""


@dataclass(slots=True, kw_only=True)
class OpenCall:
    """One call, from its first try to its end."""

    ordinal: int
    name: str
    """`provider/model`."""
    purpose: str
    request: str | None = None
    """Digest of what was asked."""
    call_id: str = field(default_factory=make_token)
    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    ended: datetime | None = None
    tried: datetime = field(default_factory=lambda: datetime.now(UTC))
    tries: list[CallTry] = field(default_factory=list)
    end: CallEnd = "client_gone"
    """How it ends if nothing else is noted."""
    output: ModelOutput | None = None
    error: CallError | None = None
    status: int | None = None
    replayed: str | None = None
    """The recorded call that answers it."""

    @property
    def answer(self) -> str | None:
        """Digest of what the model said."""
        return digest_said(to_plain(self.output.message)) if self.output is not None else None

    def note_miss(self, told: str) -> None:
        """Take in that a recording should have answered, and can't."""
        self.end, self.error = "missed", CallError(kind="replay_miss", message=told)

    def note_try(self, trouble: ProviderTrouble, wait_s: float) -> None:
        """Take in a try that failed and is followed by another one."""
        failed = CallTry(
            started_at=stamp(self.tried),
            status=read_status(trouble.reason),
            error=str(trouble),
            retry_after_s=trouble.retry_after_s,
            waited_s=wait_s,
        )
        self.tries.append(failed)

    def begin_try(self) -> None:
        """Another try begins."""
        self.tried = datetime.now(UTC)

    def note_answer(self, output: ModelOutput) -> None:
        """Take in the answer."""
        self.end, self.output, self.status = "answered", output, 200

    def note_failure(self, trouble: ProviderTrouble) -> None:
        """Take in the trouble that no other try followed."""
        self.end = "unreachable" if trouble.reason in _SILENT else "error"
        self.status = read_status(trouble.reason)
        self.error = CallError(kind=trouble.reason, message=str(trouble), retry_after_s=trouble.retry_after_s)


@dataclass(slots=True)
class CallLog:
    """All calls of one attempt."""

    calls: list[OpenCall] = field(default_factory=list)

    @contextmanager
    def open(self, name: str, *, is_scoring: bool, request: str | None = None) -> Iterator[OpenCall]:
        """While inside, a call goes on."""
        purpose = "score" if is_scoring else "generate"
        call = OpenCall(ordinal=len(self.calls), name=name, purpose=purpose, request=request)
        self.calls.append(call)
        try:
            yield call
        finally:
            call.ended = datetime.now(UTC)

    def count_unpriced(self) -> int:
        """Answers whose price nobody knows; a mock's cost what its script says."""
        asked = [call for call in self.calls if not call.replayed and not call.name.startswith(f"{MOCK}/")]
        used = [call.output.usage for call in asked if call.output and call.output.usage]
        return sum(usage.total_tokens > 0 and usage.cost_usd is None for usage in used)

    def find_miss(self) -> CallError | None:
        """What a recording had no answer for."""
        return next((call.error for call in self.calls if call.end == "missed"), None)

    def sum_replayed(self) -> tuple[int, ModelUsage]:
        """How many calls a recording answered, and what they took then."""
        answered = [call.output for call in self.calls if call.replayed and call.output]
        used = (output.usage for output in answered if output.usage)
        return len(answered), sum(used, ModelUsage())

    def rows(self, ids: Ids, attempt: int) -> list[CallRow]:
        """The rows of all calls, whoever made them."""
        return [_make_row(call, ids, attempt) for call in self.calls]


async def play(taped: SpokenCall, call: OpenCall) -> ModelOutput:
    """What a model said then, or what went wrong; what was given up is never over. Raises ProviderFailed."""
    row, event = taped.row, taped.event
    if event is not None and taped.answer is not None:
        return _revive(taped, event, taped.answer)
    error = row.error if row is not None else None
    if row is None or error is None:
        await asyncio.get_running_loop().create_future()  # until somebody gives it up, as then
        raise AssertionError("nobody answers")
    call.end, call.status, call.error = row.end, row.status, error
    call.tries += row.tries
    raise make_failure(error.kind or row.end, f"asking {call.name}: {error.message}")


def _revive(taped: SpokenCall, event: Event, answer: Mapping[str, Any]) -> ModelOutput:
    message, row = from_plain(answer), taped.row
    assert isinstance(message, ChatMessageAssistant)  # models say nothing else
    used = event.get("usage")
    return ModelOutput(
        model=(row.answered_by if row else message.model) or "",
        message=message,
        stop_reason=event["stop_reason"],
        usage=ModelUsage(**used) if used else None,
        time=event["seconds"],
        price_source=row.price_source if row else None,
        priced_on=row.priced_on if row else None,
    )


def write_rows(rows: list[CallRow], masker: Masker) -> bytes:
    """Rows as `calls.jsonl` holds them, without secrets."""
    return b"".join(masker.mask_document(canonical.encode_line(row))[0] for row in rows)


def make_failure(reason: str, message: str) -> ProviderFailed:
    """What a call that came to nothing ends its attempt with, unless the task's code knows better."""
    status = read_status(reason)
    if reason == QUOTA or status == NOT_FOUND or is_refusal(status, reason):
        return AccountRefused(reason, message)
    return ProviderFailed(reason, message)


def read_status(reason: str) -> int | None:
    """The HTTP status that trouble came with."""
    word = reason.removeprefix("http_")
    return int(word) if word != reason and word.isdecimal() else None


def _make_row(call: OpenCall, ids: Ids, attempt: int) -> CallRow:
    provider, _, model = call.name.partition("/")
    output = call.output
    usage = output.usage if output else None
    return CallRow(
        schema_version="model_call_v1",
        call_id=call.call_id,
        ids=ids,
        attempt=attempt,
        ordinal=call.ordinal,
        provider=provider,
        protocol=PYTHON,
        purpose=call.purpose,
        model=model or None,
        answered_by=(output.model or None) if output else None,
        started_at=stamp(call.started),
        ended_at=stamp(call.ended or datetime.now(UTC)),
        end=call.end,
        status=call.status,
        stop_reason=output.stop_reason if output else None,
        tokens=_make_tokens(usage) if usage else None,
        cost_usd=usage.cost_usd if usage else None,
        price_source=output.price_source if output else None,
        priced_on=output.priced_on if output else None,
        request=call.request,
        answer=call.answer,
        tries=tuple(call.tries),
        error=call.error,
        replayed=call.replayed,
    )


def _make_tokens(usage: ModelUsage) -> CallTokens:
    return CallTokens(
        input=max(0, usage.input_tokens),
        output=max(0, usage.output_tokens),
        cache_read=max(0, usage.input_tokens_cache_read),
        cache_write=max(0, usage.input_tokens_cache_write),
        reasoning=max(0, usage.reasoning_tokens),
    )
