"""What is known about a crash, from the run's files alone: when, what was finished, under way, owed."""

from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime

from labrunner.errors import StoreError
from labrunner.files.host import boot_id
from labrunner.records.encoding.canonical import stamp
from labrunner.store.buffering.attempts import AttemptNote
from labrunner.store.buffering.buffer import read_live
from labrunner.store.buffering.loss import find_loss
from labrunner.store.layout import RunPaths
from labrunner.store.reading.run_state import iter_beyond, open_waiting
from labrunner.store.rows.journal import read_last_line
from labrunner.store.rows.lock import last_owner
from labrunner.store.rows.single_records import read_run, read_status


@dataclass(frozen=True, slots=True, kw_only=True)
class Postmortem:
    """A crashed run, as far as can be known."""

    last_sign_at: str
    """The newest thing that its owner wrote."""
    has_rebooted: bool | None
    """Whether the machine was started anew since; None when nobody can tell."""
    committed: int
    buffered: int
    in_flight: tuple[AttemptNote, ...]
    owed: int
    """Slots without a result, those in flight included."""
    lost: str | None
    """What was finished and is lost with the buffer."""


def examine_crash(paths: RunPaths) -> Postmortem:
    """Look at a run whose owner is gone; nothing is changed."""
    record = read_run(paths)
    line = read_last_line(paths.commits, record.run_id)
    committed = line.schedule_idx + 1 if line is not None else 0
    with ExitStack() as stack:
        waiting = iter_beyond(open_waiting(paths, stack), committed, record.run_id)
        buffered = {kept.schedule_idx for kept in waiting}
    try:
        notes, _ = read_live(paths.buffer)
    except StoreError:
        notes = []  # what is lost with such a buffer is told below
    in_flight = [
        note
        for note in notes
        if note.state != "failed" and note.schedule_idx >= committed and note.schedule_idx not in buffered
    ]
    owner = last_owner(paths)
    return Postmortem(
        last_sign_at=find_last_sign(paths),
        has_rebooted=None if owner is None or not owner.boot_id else owner.boot_id != boot_id(),
        committed=committed,
        buffered=len(buffered),
        in_flight=tuple(sorted(in_flight, key=lambda note: note.schedule_idx)),
        owed=record.planned - committed - len(buffered),
        lost=find_loss(paths),
    )


def find_last_sign(paths: RunPaths) -> str:
    """When a run's owner was alive for sure: the newest of what its files say, status, journal, buffer."""
    status = read_status(paths)
    wal = paths.buffer.with_name(f"{paths.buffer.name}-wal")
    times = [
        stamp(datetime.fromtimestamp(path.stat().st_mtime, UTC))
        for path in (paths.commits, paths.buffer, wal)
        if path.exists()
    ]
    return max([*times, status.updated_at] if status else times)
