"""The door between a sandbox and somebody who sits at a terminal and looks around in it.

A terminal of the sandbox's own stands inside; what is typed outside goes there, and what it shows comes back.
Nothing inside ever holds the person's own terminal, into which a hostile program could type.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, runtime_checkable

from labrunner.sandbox.execution import ExecEnd, ExecSandbox


class WindowSize(NamedTuple):
    """How much a terminal shows."""

    rows: int
    columns: int


class Person(Protocol):
    """Somebody at a terminal."""

    def size(self) -> WindowSize:
        """How large the window is now."""
        ...

    async def resized(self) -> None:
        """Wait until the window has another size. May be cancelled."""
        ...

    async def typed(self) -> bytes:
        """Wait for what is typed; nothing when there is no more to come. May be cancelled."""
        ...

    def show(self, data: bytes) -> None:
        """Show something."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminalCall:
    """A command to be run at a terminal."""

    argv: tuple[str, ...]
    python: str
    """An interpreter inside, for sandboxes that need one to have a terminal."""
    env: Mapping[str, str] = field(default_factory=dict)
    """On top of the phase's."""


@runtime_checkable
class TerminalSandbox(ExecSandbox, Protocol):
    """A sandbox that a person can look around in."""

    async def attend(self, call: TerminalCall, person: Person) -> ExecEnd:
        """Run a command at a terminal until it ends; what it showed is not in the answer."""
        ...
