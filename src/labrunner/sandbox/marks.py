"""Whose a sandbox is: the marks by which a runner knows its own again after a crash.

A run is known by its very directory (device and inode), not by its name: neither a copy of a run nor
another user's run of the same name is ever taken for it.
"""

from dataclasses import dataclass
from pathlib import Path

from labrunner.files.host import machine_id


@dataclass(frozen=True, slots=True, kw_only=True)
class RunMark:
    """One run's directory on one machine."""

    run_id: str
    machine: str
    device: int
    inode: int

    @classmethod
    def of(cls, root: Path, run_id: str) -> "RunMark":
        """Mark the run whose directory this is."""
        found = root.stat()
        return cls(run_id=run_id, machine=machine_id(), device=found.st_dev, inode=found.st_ino)

    @property
    def place(self) -> str:
        """The directory, in one word."""
        return f"{self.machine}:{self.device}:{self.inode}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """One dispatch of one attempt of a run."""

    run: RunMark
    trial_id: str
    attempt: int
    token: str
