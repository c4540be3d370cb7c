"""What a container's wrapper tells of itself, read as what it is: files that an agent may have forged.

A note below `phase-NONCE` is the wrapper's own: nothing else knew the name before the agent was gone. A note
in `phase` is believed for nothing that matters.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from labrunner.files.strangers.hostile import open_plain
from labrunner.sandbox.door import PhaseEnd, PhaseName

LARGEST_NOTE: Final = 64 * 1024
OPENING: Final = frozenset({"setup", "gate", "agent"})
"""What may stand in the note that can be forged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """How far a wrapper says it is."""

    phase: str = "none"
    is_certain: bool = False
    facts: Mapping[str, str] = field(default_factory=dict)

    def number(self, name: str) -> int | None:
        """A whole number among the facts; None when it is not there."""
        text = self.facts.get(name, "")
        return int(text) if text.isdecimal() and len(text) < 16 else None

    def seconds(self, name: str) -> float | None:
        """A time among the facts."""
        try:
            return float(self.facts[name])
        except (KeyError, ValueError):
            return None

    @property
    def tries(self) -> int:
        """How many graders this start of the container has seen."""
        return self.number("try") or 0


def read_note(ctl: Path, nonce: str) -> Note:
    """Read how far the wrapper is: its own word where it has given it, else what may be forged."""
    certain = _parse(_read(ctl / f"phase-{nonce}"))
    if certain is not None:
        return Note(phase=certain.get("phase", "none"), is_certain=True, facts=certain)
    opening = _parse(_read(ctl / "phase")) or {}
    phase = opening.get("phase", "none")
    return Note(phase=phase if phase in OPENING else "none", facts=opening)


def phase_end(note: Note, name: PhaseName) -> PhaseEnd | None:
    """How a phase ended, as its wrapper saw it; None when it has not."""
    status = note.number(name)
    if status is None:
        return None
    is_late = note.facts.get(f"{name}_late") == "1"
    began, ended = note.seconds(f"{name}_began"), note.seconds(f"{name}_ended")
    return PhaseEnd(
        exit_status=None if is_late else status,
        timed_out=is_late,
        oom_killed=note.facts.get(f"{name}_oom") == "1",
        seconds=max(0.0, ended - began) if began is not None and ended is not None else 0.0,
        usage=_usage(note, name),
    )


def _usage(note: Note, name: PhaseName) -> dict[str, float]:
    """What a phase used, where the kernel tells."""
    cpu, peak = note.number(f"{name}_cpu_us"), note.number(f"{name}_peak")
    found = {"cpu_s": cpu and cpu / 1e6, "max_memory_mb": peak and peak / 2**20}
    return {what: value for what, value in found.items() if value is not None}


def _read(path: Path) -> bytes | None:
    try:
        with open_plain(path) as file:
            return file.read(LARGEST_NOTE)
    except OSError:
        return None


def _parse(data: bytes | None) -> dict[str, str] | None:
    if data is None:
        return None
    lines = data.decode("ascii", errors="replace").splitlines()
    return {name: value for name, found, value in (line.partition("=") for line in lines) if found}
