"""What happened at one attempt's door to hosts, on disk: `doors.jsonl`.

Rules: a line is synced before `write` returns. The first events of a kind are lines of their own; what comes
after is counted, and the count is a line whenever it has doubled, and at the end: a million refusals are some
dozen lines. Of hosts beyond the first thousand only the reason is kept apart. A crash loses what was counted
since the last line.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Final

from msgspec.structs import replace

from labrunner.files.durable import AppendFile
from labrunner.gateway.recording.linefile import encode_row, open_lines, read_lines
from labrunner.records.facts.door_event import DoorEvent

DOORS: Final = "doors.jsonl"
_WHOLE: Final = 32
"""Events of a kind that are lines of their own."""
_MOST_KINDS: Final = 1000
_Kind = tuple[object, ...]


@dataclass(slots=True, kw_only=True)
class _Tally:
    """How often a kind of event happened, and what is not written of it."""

    seen: int = 0
    waiting: DoorEvent | None = None
    next_line: int = _WHOLE * 2


class DoorJournal:
    """Appends events, from any thread. See `open_doors`."""

    def __init__(self, lines: AppendFile, count: int) -> None:
        """Take over an open file, and how many lines it has."""
        self._lines = lines
        self._next = count
        self._tallies: dict[_Kind, _Tally] = {}
        self._lock = Lock()

    def write(self, event: DoorEvent) -> None:
        """Write or count an event; what is written is durable when this returns. Raises StoreError."""
        with self._lock:
            tally, event = self._find(event)
            tally.seen += 1
            if tally.seen <= _WHOLE:
                self._append([event])
                return
            tally.waiting = event if tally.waiting is None else _add(tally.waiting, event)
            if tally.seen >= tally.next_line:
                tally.next_line *= 2
                self._append([tally.waiting])
                tally.waiting = None

    def _find(self, event: DoorEvent) -> tuple[_Tally, DoorEvent]:
        kind: _Kind = (event.phase, event.way, event.host, event.port, event.end, event.reason)
        if kind not in self._tallies and len(self._tallies) >= _MOST_KINDS:
            event = replace(event, host=None, port=None, address=None, message=None)
            kind = (event.phase, event.way, None, None, event.end, event.reason)
        return self._tallies.setdefault(kind, _Tally()), event

    def _append(self, events: list[DoorEvent]) -> None:
        numbered = [replace(event, ordinal=self._next + at) for at, event in enumerate(events)]
        self._next += len(events)
        self._lines.append(b"".join(encode_row("door_event_v1", each) for each in numbered))
        self._lines.sync()

    def close(self) -> None:
        """Write what was counted, and give the descriptor back. Raises StoreError."""
        with self._lock:
            try:
                waiting = [each.waiting for each in self._tallies.values() if each.waiting is not None]
                if waiting:
                    self._append(waiting)
            finally:
                self._lines.close()


def _add(earlier: DoorEvent, later: DoorEvent) -> DoorEvent:
    return replace(
        earlier,
        ended_at=later.ended_at,
        seconds=round(earlier.seconds + later.seconds, 6),
        sent=earlier.sent + later.sent,
        received=earlier.received + later.received,
        hides_name=earlier.hides_name or later.hides_name,
        times=earlier.times + later.times,
    )


def open_doors(folder: Path) -> DoorJournal:
    """Open the events of an attempt, made anew where there are none. Raises StoreError."""
    (lines,) = open_lines(folder, DOORS)
    return DoorJournal(lines, 1 + max((event.ordinal for event in read_doors(folder)), default=-1))


def read_doors(folder: Path) -> Iterator[DoorEvent]:
    """The events of an attempt, in the order in which they ended. Raises DamagedRun."""
    return read_lines(folder / DOORS, DoorEvent)
