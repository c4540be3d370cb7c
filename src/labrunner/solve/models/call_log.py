"""Calls of a Python task's attempt, as rows: the same as those that the gateway writes of any other agent's.

Rules: filled in the home loop, written with the transcript when the attempt has ended. What was said stands
in the transcript, so rows name no bodies. A call that was given up while it waited for a provider is one that
its client left.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from labrunner.files.strangers.masking import Masker
from labrunner.records.encoding import canonical
from labrunner.records.encoding.canonical import stamp
from labrunner.records.encoding.ids import Ids, make_token
from labrunner.records.facts.model_call import CallEnd, CallError, CallRow, CallTokens, CallTry
from labrunner.solve.models.backend import ProviderTrouble
from labrunner.solve.models.modelname import MOCK
from labrunner.solve.values.messages import ModelOutput, ModelUsage

PROTOCOL: Final = "python"
"""A call from a task's own code; which protocol it takes is the client's matter."""
_SILENT: Final = frozenset({"connection", "timeout"})
"""Reasons of trouble that are no answer."""


@dataclass(slots=True, kw_only=True)
class OpenCall:
    """One call, from its first try to its end."""

    ordinal: int
    name: str
    """`provider/model`."""
    purpose: str
    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    ended: datetime | None = None
    tried: datetime = field(default_factory=lambda: datetime.now(UTC))
    tries: list[CallTry] = field(default_factory=list)
    end: CallEnd = "client_gone"
    """How it ends if nothing else is noted."""
    output: ModelOutput | None = None
    error: CallError | None = None
    status: int | None = None

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
    def open(self, name: str, *, is_scoring: bool) -> Iterator[OpenCall]:
        """While inside, a call goes on."""
        call = OpenCall(ordinal=len(self.calls), name=name, purpose="score" if is_scoring else "generate")
        self.calls.append(call)
        try:
            yield call
        finally:
            call.ended = datetime.now(UTC)

    def count_unpriced(self) -> int:
        """Answers whose price nobody knows; a mock's cost what its script says."""
        asked = [call for call in self.calls if not call.name.startswith(f"{MOCK}/")]
        used = [call.output.usage for call in asked if call.output and call.output.usage]
        return sum(usage.total_tokens > 0 and usage.cost_usd is None for usage in used)

    def rows(self, ids: Ids, attempt: int) -> list[CallRow]:
        """The rows of all calls, whoever made them."""
        return [_make_row(call, ids, attempt) for call in self.calls]


def write_rows(rows: list[CallRow], masker: Masker) -> bytes:
    """Rows as `calls.jsonl` holds them, without secrets."""
    return b"".join(masker.mask_document(canonical.encode_line(row))[0] for row in rows)


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
        call_id=make_token(),
        ids=ids,
        attempt=attempt,
        ordinal=call.ordinal,
        provider=provider,
        protocol=PROTOCOL,
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
        tries=tuple(call.tries),
        error=call.error,
    )


def _make_tokens(usage: ModelUsage) -> CallTokens:
    return CallTokens(
        input=max(0, usage.input_tokens),
        output=max(0, usage.output_tokens),
        cache_read=max(0, usage.input_tokens_cache_read),
        cache_write=max(0, usage.input_tokens_cache_write),
        reasoning=max(0, usage.reasoning_tokens),
    )
