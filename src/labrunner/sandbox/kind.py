"""One kind of sandbox: what is known of it before a maker is made, and how one is made."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from labrunner.experiment.sandbox_kinds import SandboxFacts
from labrunner.sandbox.door import Check, SandboxMaker
from labrunner.sandbox.sweeper import Sweeper


class MakesMaker(Protocol):
    """Makes a maker; nothing is started or probed by this."""

    def __call__(self, *, anew: bool) -> SandboxMaker:
        """Make one; `anew` lets its preflight try everything, whatever has been proven before."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxKind(SandboxFacts):
    """What stands behind a kind's name."""

    make: MakesMaker
    is_isolated: bool = True
    """Whether what runs inside is kept from the host."""
    open_files: int = 2
    """Files that `lab` has open for each attempt in it."""
    examine: Callable[[], Awaitable[tuple[Check, ...]]] | None = None
    """Tries it without an experiment, for `lab doctor`; the first check says whether it works here."""
    make_sweeper: Callable[[], Sweeper] | None = None
    """Makes what finds and removes sandboxes that outlived their runs, where they can: `lab clean`."""
