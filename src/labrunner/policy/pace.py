"""How long a run waits before it tries or looks again: all of it in one place, in seconds."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPace:
    """The waits of a run."""

    first_wait_s: float = 2.0
    """Before the first retry of a trial; each one after waits twice as long."""
    longest_wait_s: float = 300.0
    first_probe_s: float = 30.0
    """Before the first attempt that is let through in an outage; each one after waits twice as long."""
    longest_probe_s: float = 600.0
    look_at_disk_s: float = 2.0
    """Between two looks at the free space of the disk."""


PACE: Final = RunPace()
