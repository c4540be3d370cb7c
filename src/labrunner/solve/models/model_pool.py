"""Between trials and providers: places per provider over a whole run, retries with patience, one client each.

Lives in the home loop. A place is held while a request is under way, never while waiting to try again.
"""

import asyncio
import logging
import random
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final

from labrunner.errors import ReplayMissed
from labrunner.executor.cargo import LendsConnections
from labrunner.gateway.replaying.spoken import SpokenTape, digest_asked
from labrunner.policy import backoff
from labrunner.policy.capacity import CONNECTIONS, RETRIES
from labrunner.solve.models.backend import Askable, Backend, ModelRequest, ProviderTrouble
from labrunner.solve.models.call_log import CallLog, OpenCall, make_failure, play
from labrunner.solve.values.messages import ModelOutput, mend
from labrunner.solve.values.meter import Meter
from labrunner.solve.values.transcript import Transcript

DEFAULT_TIMEOUT_S: Final = 600.0
FIRST_WAIT_S: Final = 1.0
LONGEST_WAIT_S: Final = 60.0
LONGEST_ASKED_S: Final = 600.0
"""A provider that asks for more patience than this is not waited for."""
TELL_EVERY_S: Final = 30.0
"""How often people hear that a provider makes requests wait."""
_log: Final = logging.getLogger("labrunner")


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How requests are made, unless a model's own settings say otherwise."""

    max_connections: int | None = None
    max_retries: int | None = None
    timeout_s: float | None = None
    first_wait_s: float = FIRST_WAIT_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """The attempt that asks."""

    meter: Meter
    transcript: Transcript
    calls: CallLog = field(default_factory=CallLog)
    tape: SpokenTape | None = None
    """Recorded calls that answer in a provider's place."""
    lender: LendsConnections | None = None
    """Who counts connections, where attempts elsewhere share them."""


class ModelPool:
    """All models of one run."""

    def __init__(
        self, patience: Patience | None = None, *, jitter: Callable[[], float] = random.random
    ) -> None:
        """Connect to nobody yet."""
        self._patience = patience or Patience()
        self._jitter = jitter
        self._backends: dict[object, Backend] = {}
        self._places: dict[str, asyncio.Semaphore] = {}
        self._waiting: Counter[str] = Counter()
        self._told_at: dict[str, float] = {}

    async def ask(self, model: Askable, request: ModelRequest, asker: Asker) -> OpenCall:
        """Ask until there is an answer; the call, which has it.

        Raises ProviderFailed when patience has run out, ReplayMissed.
        """
        asked, is_scoring = digest_asked(request.describe()), asker.meter.is_scoring
        with asker.calls.open(model.name, is_scoring=is_scoring, request=asked) as call:
            output = await _replay(request, asker, call) or await self._ask(model, request, asker, call)
            mend(output.message)
            call.note_answer(output)
            return call

    async def bound_cost(self, model: Askable, request: ModelRequest) -> Decimal | None:
        """What a request can cost, by its backend's word."""
        return self._backend(model).bound_cost(request)

    async def _ask(self, model: Askable, request: ModelRequest, asker: Asker, call: OpenCall) -> ModelOutput:
        retries = _first(request.config.max_retries, self._patience.max_retries, RETRIES)
        for number in range(int(retries) + 1):
            try:
                call.begin_try()
                return await self._try(model, request, asker)
            except ProviderTrouble as trouble:
                wait_s = self._wait_s(trouble, number)
                if number >= retries or wait_s is None:
                    call.note_failure(trouble)
                    told = f"asking {model.name}: {trouble}{_explain_end(trouble)}"
                    raise make_failure(trouble.reason, told) from trouble
                call.note_try(trouble, wait_s)
                asker.transcript.add("retry", reason=trouble.reason, message=str(trouble), wait_s=wait_s)
                with asker.meter.waiting():
                    await self._wait(model.provider, wait_s, f"{trouble.reason}: {trouble}")
        raise AssertionError("the last try returns or raises")

    async def _wait(self, provider: str, wait_s: float, why: str) -> None:
        self._waiting[provider] += 1
        now = time.monotonic()
        if now - self._told_at.get(provider, -TELL_EVERY_S) >= TELL_EVERY_S:
            self._told_at[provider] = now
            count = self._waiting[provider]
            told = "a request waits" if count == 1 else f"{count} requests wait"
            _log.warning("%s: %s; %s, this one for %.0f s", provider, why, told, wait_s)
        try:
            await asyncio.sleep(wait_s)
        finally:
            self._waiting[provider] -= 1

    async def close(self) -> None:
        """Let go of every connection."""
        for backend in self._backends.values():
            await backend.close()
        self._backends.clear()

    async def _try(self, model: Askable, request: ModelRequest, asker: Asker) -> ModelOutput:
        async with AsyncExitStack() as held:
            with asker.meter.waiting():
                await held.enter_async_context(self._place(model, request, asker))
            return await self._try_once(model, request, asker)

    async def _try_once(self, model: Askable, request: ModelRequest, asker: Asker) -> ModelOutput:
        started = time.monotonic()
        limit = asyncio.timeout(_first(request.config.timeout, self._patience.timeout_s, DEFAULT_TIMEOUT_S))
        try:
            async with limit:
                output = await self._backend(model).request(request)
        except ProviderTrouble:
            asker.meter.add_waited(time.monotonic() - started)
            raise
        except TimeoutError as error:
            if not limit.expired():
                raise
            asker.meter.add_waited(time.monotonic() - started)
            raise ProviderTrouble(
                "timeout", f"no answer in {time.monotonic() - started:.0f} s", is_transient=True
            ) from error
        output.time = time.monotonic() - started
        return output

    def _wait_s(self, trouble: ProviderTrouble, number: int) -> float | None:
        """How long to wait before the next try; None when none will help."""
        if not trouble.is_transient:
            return None
        if trouble.retry_after_s is not None:
            asked = trouble.retry_after_s
            return backoff.heed(asked, jitter=self._jitter()) if asked <= LONGEST_ASKED_S else None
        first_s = self._patience.first_wait_s
        return backoff.wait_s(number, first_s=first_s, longest_s=LONGEST_WAIT_S, jitter=self._jitter())

    def _backend(self, model: Askable) -> Backend:
        key = model.key
        if key not in self._backends:
            self._backends[key] = model.make_backend()
        return self._backends[key]

    def _place(
        self, model: Askable, request: ModelRequest, asker: Asker
    ) -> AbstractAsyncContextManager[None]:
        most = int(_first(self._patience.max_connections, request.config.max_connections, CONNECTIONS))
        if asker.lender is not None:
            return asker.lender.lend(model.provider, most)
        return self._places.setdefault(model.provider, asyncio.Semaphore(most))


async def _replay(request: ModelRequest, asker: Asker, call: OpenCall) -> ModelOutput | None:
    """The recorded answer; None where a provider is to be asked. Raises ProviderFailed, ReplayMissed."""
    tape = asker.tape
    if tape is None:
        return None
    taped = tape.take(call.name, call.request or "", call.ordinal)
    if taped is not None:
        call.replayed = taped.origin
        return await play(taped, call)
    if tape.mode == "reuse":
        return None
    told = tape.describe_miss(call.name, request.describe(), call.ordinal)
    call.note_miss(told)
    raise ReplayMissed("replay_miss", f"the recording has no answer: {told}")


def _explain_end(trouble: ProviderTrouble) -> str:
    """Why no more was tried, where that is not plain from the trouble itself."""
    asked = trouble.retry_after_s
    if asked is None or asked <= LONGEST_ASKED_S or not trouble.is_transient:
        return ""
    return f" (it asks to wait {asked:,.0f} s, and nobody is waited for longer than {LONGEST_ASKED_S:.0f} s)"


def _first(*values: float | None) -> float:
    return next(value for value in values if value is not None)
