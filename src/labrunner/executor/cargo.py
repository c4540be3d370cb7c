"""What a run brings along whose attempts are carried out elsewhere, by code that is not this room's.

Rules: whoever has such code hands it to an executor that takes it; there it is given to the one who carries
the attempts out: its carrier, which is named by module and attribute, as this room knows none. What the
carrier is told is bytes that only the two ends of it read.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Protocol, TypeAlias, cast, runtime_checkable

from labrunner.executor.door import Executor
from labrunner.sandbox.door import SandboxMaker
from labrunner.trial.assignment import TrialContext


@dataclass(frozen=True, slots=True, kw_only=True)
class Cargo:
    """What goes where the attempts are carried out."""

    carrier: str
    """module:attribute of what makes an executor there."""
    words: bytes
    """What it is told."""
    files: Mapping[str, Path]
    """Files of this machine, by where each lies in the folder that the carrier is given."""
    secrets: Mapping[str, str]
    """Besides those of the run: in memory only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """What came of it, as a carrier has it."""

    words: bytes
    folder: Path
    """Where the files are: this carrier's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnCode:
    """Code of its own, as an executor is handed it."""

    pack: Callable[[], Awaitable[Cargo]]
    """Gathers what has to go elsewhere: it takes a while. Raises InputError where that can't be."""
    make_here: Callable[[], Executor]
    """Makes who carries such attempts out on this machine."""


MakesCarrier: TypeAlias = Callable[[TrialContext, Callable[[str], SandboxMaker], Delivered], Executor]


@runtime_checkable
class TakesOwnCode(Protocol):
    """An executor that carries out, elsewhere, attempts whose code is not its own."""

    def take_code(self, code: OwnCode) -> None:
        """Carry all attempts out by this. Called once, before anything else."""
        ...


@runtime_checkable
class LendsConnections(Protocol):
    """Notes of an attempt whose requests count together with those of attempts elsewhere."""

    def lend(self, provider: str, most: int) -> AbstractAsyncContextManager[None]:
        """While inside, one of so many connections to a provider, which the whole run shares."""
        ...


def make_carrier(
    name: str, context: TrialContext, make: Callable[[str], SandboxMaker], delivered: Delivered
) -> Executor:
    """Make the carrier of that name."""
    module, _, attribute = name.partition(":")
    found = cast("MakesCarrier", getattr(import_module(module), attribute))
    return found(context, make, delivered)
