"""What the code of a trial can reach while it runs: its model, sandbox, meter and transcript.

User code runs in a loop of its own (`labrunner.solve.running.lane`); connections, sandboxes and timers live
in the home loop. `Running.call_home` is the way from one to the other.
"""

from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from labrunner.executor.cargo import LendsConnections
from labrunner.gateway.replaying.spoken import SpokenTape
from labrunner.sandbox.door import AgentRun
from labrunner.solve.models.backend import Askable
from labrunner.solve.models.call_log import CallLog
from labrunner.solve.models.mailbox import Mailbox, call
from labrunner.solve.models.model_pool import ModelPool
from labrunner.solve.values.meter import Meter
from labrunner.solve.values.state import TaskState
from labrunner.solve.values.transcript import Transcript

T = TypeVar("T")


class Environment(Protocol):
    """The trial's sandbox, as whoever opened it sees it."""

    async def end_all(self) -> AgentRun:
        """End whatever still runs in it."""
        ...

    async def leave(self) -> None:
        """Refuse calls from now on, and see those under way end."""
        ...


@dataclass(slots=True, kw_only=True)
class Running:
    """One attempt under way."""

    trial_id: str
    home: Mailbox
    transcript: Transcript
    meter: Meter
    pool: ModelPool
    model: Askable | None
    state: TaskState
    """As it stands: what is scored when a limit ends the solver."""
    calls: CallLog = field(default_factory=CallLog)
    tape: SpokenTape | None = None
    """Recorded calls that answer in a provider's place."""
    lender: LendsConnections | None = None
    """Who counts connections, where attempts elsewhere share them."""
    environment: Environment | None = None

    async def call_home(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Have something done in the home loop, and wait for it. Cancelling passes on."""
        return await call(self.home, make)


_current: ContextVar[Running | None] = ContextVar("labrunner_running", default=None)


def running() -> Running:
    """The attempt that this code belongs to."""
    found = _current.get()
    if found is None:
        raise RuntimeError("this can only be used while a task runs: inside a solver, a tool or a scorer")
    return found


def maybe_running() -> Running | None:
    """The attempt that this code belongs to, if it belongs to one."""
    return _current.get()


@contextmanager
def as_current(attempt: Running) -> Iterator[None]:
    """While inside, code belongs to this attempt."""
    token = _current.set(attempt)
    try:
        yield
    finally:
        _current.reset(token)
