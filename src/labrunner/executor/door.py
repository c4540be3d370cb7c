"""The door to whoever carries attempts out: this machine, or others.

Rules: a completion names files by digest and size; the executor has synced them and delivered them into
the attempt's directory on the coordinator's disk before it returns. It decides nothing: no retry, no
commit. Cancelling a call ends everything of the attempt before the call returns.
"""

from dataclasses import dataclass
from typing import Protocol

from labrunner.records.completion import Completion
from labrunner.sandbox.door import Check
from labrunner.trial.assignment import Assignment, Notes


@dataclass(frozen=True, slots=True, kw_only=True)
class Leavings:
    """What may be thrown away of an attempt whose result is durable."""

    workspace: bool
    logs: bool


class Executor(Protocol):
    """Carries out attempts."""

    async def preflight(self) -> tuple[Check, ...]:
        """Prove that attempts can be carried out, before anything is spent."""
        ...

    async def carry_out(self, assignment: Assignment, notes: Notes) -> Completion:
        """Carry out one attempt and say how it ended."""
        ...

    async def release(self, assignment: Assignment, drop: Leavings) -> None:
        """Throw away what the policy does not keep. Called after the result is durable."""
        ...
