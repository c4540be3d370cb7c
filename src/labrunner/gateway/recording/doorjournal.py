"""What happened at one attempt's door to hosts, on disk: `doors.jsonl`.

Rules: a line is synced before `write` returns. The first events of a kind are lines of their own; what comes
after is counted, and the count is a line whenever it has doubled, and at the end: a million refusals are some
dozen lines. Of hosts beyond the first thousand only the reason is kept apart. A crash loses what was counted
since the last line. What a gateway that died had under way gets its event from whoever opens these next.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Final

from msgspec.structs import replace

from labrunner.files.durable import AppendFile
from labrunner.gateway.recording.linefile import encode_row, open_lines, read_lines
from labrunner.gateway.recording.opendoors import PHASES, OpenDoors, forget_open, has_open_doors, read_open
from labrunner.records.encoding.canonical import stamp
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

    def __init__(self, lines: AppendFile, count: int, under_way: OpenDoors) -> None:
        """Take over an open file, how many lines it has, and where connections under way are noted."""
        self._lines = lines
        self._under_way = under_way
        self._next = count
        self._tallies: dict[_Kind, _Tally] = {}
        self._lock = Lock()

    def begin(self, event: DoorEvent) -> int:
        """Note a connection before anything passes; its place, for `write`. Raises StoreError."""
        return self._under_way.begin(event)

    def write(self, event: DoorEvent, place: int | None = None) -> None:
        """Write or count an event; what is written is durable when this returns. Raises StoreError."""
        self._write(event)
        if place is not None:
            self._under_way.end(place)

    def _write(self, event: DoorEvent) -> None:
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
                self._under_way.close()


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


def open_doors(folder: Path, phase: str = "agent") -> DoorJournal:
    """Go on with the events of an attempt, for one of its phases. Raises DamagedRun, StoreError."""
    settle_doors(folder, (phase,))
    (lines,) = open_lines(folder, DOORS)
    return DoorJournal(lines, _count(folder), OpenDoors(folder, phase))


def settle_doors(folder: Path, phases: tuple[str, ...] = PHASES) -> None:
    """Give connections their events that a gateway had under way when it died.

    Only where no gateway serves these phases. Raises DamagedRun, StoreError.
    """
    if not has_open_doors(folder, phases):
        return
    (lines,) = open_lines(folder, DOORS)
    written, now = {_identify(event) for event in read_doors(folder)}, stamp(datetime.now(UTC))
    lost = [event for event in read_open(folder, phases) if _identify(event) not in written]
    journal = DoorJournal(lines, _count(folder), OpenDoors(folder, ""))
    try:
        for event in lost:
            with suppress(ValueError):  # where nothing is kept from an agent, it may write there, too
                journal.write(replace(event, ended_at=now))
    finally:
        journal.close()
    forget_open(folder, phases)


def _count(folder: Path) -> int:
    return 1 + max((event.ordinal for event in read_doors(folder)), default=-1)


def _identify(event: DoorEvent) -> _Kind:
    return (event.phase, event.way, event.host, event.port, event.started_at)


def read_doors(folder: Path) -> Iterator[DoorEvent]:
    """The events of an attempt, in the order in which they ended. Raises DamagedRun."""
    return read_lines(folder / DOORS, DoorEvent)
