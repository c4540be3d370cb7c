"""The door to what outlived its run: sandboxes that somebody may clean away.

A sandbox is left behind when nothing can come of it any more: its run has ended well, its attempt can't be
taken up, or it was kept for a look. One that `lab continue` would adopt is paid work, and is not.
Where it can't be known what is there (no engine answers), nothing is found.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from labrunner.sandbox.marks import RunMark

NETWORK: Final = "network:"
"""How the names begin of what is no sandbox but a network that a run had for its sandboxes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Strays:
    """Sandboxes of one run."""

    ids: tuple[str, ...]
    """Those that can go, by the names that their kind has for them."""
    waiting: int = 0
    """How many others wait for `lab continue`: paid work, which only giving the run up removes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Orphans:
    """Ended sandboxes of a run whose folder is gone from this machine."""

    whose: str
    ids: tuple[str, ...]


class Sweeper(Protocol):
    """Finds and removes what is left of sandboxes of one kind."""

    async def find_strays(self, runs: Mapping[RunMark, bool]) -> Mapping[RunMark, Strays]:
        """Find what is left of these runs; true for one that can't be gone on with."""
        ...

    async def find_orphans(self, *, ended_before: float) -> tuple[Orphans, ...]:
        """Find ended ones of runs of this machine that are not there any more."""
        ...

    async def remove(self, ids: tuple[str, ...]) -> None:
        """Remove these."""
        ...

    async def remove_all_of(self, run: RunMark) -> int:
        """Remove every one of a run that is given up; how many there were."""
        ...
