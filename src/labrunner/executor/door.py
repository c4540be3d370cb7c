"""The door to whoever carries attempts out: this machine, or others.

Rules: a completion names files by digest and size; the executor has synced them and delivered them into
the attempt's directory on the coordinator's disk before it returns. It decides nothing: no retry, no
commit. Cancelling a call ends everything of the attempt before the call returns.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

from labrunner.records.completion import Completion
from labrunner.sandbox.door import Check, Survivor
from labrunner.trial.assignment import Assignment, Notes

PREFLIGHT: Final = "preflight"
"""What a run is called that will never be: its executor only looks whether one could."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Discard:
    """What may be thrown away of an attempt whose result is durable."""

    workspace: bool
    logs: bool
    sandbox: bool = True
    """What is left of the sandbox itself: a stopped container."""


@runtime_checkable
class Executor(Protocol):
    """Carries out attempts."""

    async def preflight(self) -> tuple[Check, ...]:
        """Prove that attempts can be carried out, before anything is spent."""
        ...

    def outlives_runner(self, assignment: Assignment) -> bool:
        """Whether an attempt goes on when we are gone: then notes about it must be durable before it acts."""
        ...

    async def carry_out(
        self, assignment: Assignment, notes: Notes, survivor: Survivor | None = None
    ) -> Completion:
        """Carry out one attempt, or go on with one that a crashed runner left; say how it ended."""
        ...

    async def release(self, assignment: Assignment, drop: Discard) -> None:
        """Throw away what the policy does not keep. Called for each attempt, once its end is durable."""
        ...

    async def survivors(self) -> tuple[Survivor, ...]:
        """Find what a crashed runner of this run left. Raises while that can't be known."""
        ...

    async def reap(self, keep: frozenset[str]) -> int:
        """Remove every sandbox of this run but those of these tokens; how many there were."""
        ...

    async def close(self) -> None:
        """Let go of everything but what was not released: that stays for the next owner."""
        ...


@runtime_checkable
class HasPlaces(Protocol):
    """An executor with places of its own: elsewhere than on this machine, and not always as many."""

    @property
    def places(self) -> int:
        """How many attempts it can carry out at once, now."""
        ...

    @property
    def trouble(self) -> str:
        """Why there are none, or fewer than there should be, in words for people; empty when all is well."""
        ...

    @property
    def end(self) -> str:
        """Why there will never be any again, in words for people; empty while there may be.

        What is carried out then does not return any more: it is cancelled, and what lives of it is the next
        owner's to find.
        """
        ...

    def expect(self, nodes: frozenset[str]) -> None:
        """Told before `survivors` where it is known: attempts are under way there, and nowhere else."""
        ...

    async def open(self, changed: Callable[[], None]) -> None:
        """Come to have the places; from now on `changed` is called when there are more, or fewer."""
        ...


@runtime_checkable
class StandsInFront(Protocol):
    """An executor that hands on what it does not do itself."""

    @property
    def inner(self) -> Executor:
        """Who stands behind it."""
        ...


def find_places(executor: Executor) -> HasPlaces | None:
    """Who has places of its own, behind whatever stands in front; None where this machine has them."""
    while not isinstance(executor, HasPlaces):
        if not isinstance(executor, StandsInFront):
            return None
        executor = executor.inner
    return executor
