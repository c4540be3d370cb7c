"""Opening a run that nobody owns: back to a sound state, whatever the last owner's death left behind.

Rules: first look, and refuse damage before anything is changed. Then: keep what will be cut, cut it,
write and sync again what may be only in the page cache, and only then drop from the buffer what is
committed. Every step may be killed and done again; doing all of it twice changes nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from labrunner.files.durable import cut, replace, storing, sync_folder, write_again
from labrunner.files.host import boot_id
from labrunner.files.points import reach
from labrunner.records import schema
from labrunner.records.encoding import canonical
from labrunner.records.rows import is_sealed_timing
from labrunner.records.run import CrashRecord, InFlight, LockNote, RunRecord
from labrunner.records.seals import seal
from labrunner.store.buffering.attempts import AttemptNote
from labrunner.store.buffering.buffer import (
    BrokenBuffer,
    Buffer,
    BufferedSlot,
    Changes,
    create_buffer,
    open_buffer,
)
from labrunner.store.buffering.buffered import write_buffered
from labrunner.store.buffering.loss import describe_loss
from labrunner.store.committing.committer import Committer, open_files
from labrunner.store.committing.reserve import hold
from labrunner.store.layout import RunPaths
from labrunner.store.opening import tail
from labrunner.store.rows.finished import FinishedSlots
from labrunner.store.rows.journal import GROUP_LIMIT, Journal, scan
from labrunner.store.rows.lock import RunLock
from labrunner.store.rows.single_records import iter_crash_files, read_crashes, read_run, read_status
from labrunner.store.rows.slot_bytes import decode_payload
from labrunner.store.rows.witness import find_floor, refuse_shortened
from labrunner.store.rows.written import refuse_altered_question


@dataclass(frozen=True, slots=True, kw_only=True)
class OpeningReport:
    """What was found and mended. All empty for a run that was left in order."""

    is_crash: bool
    """Whether the last owner died without saying how the run ended."""
    has_rebooted: bool
    """Whether the machine was, or may have been, started again since the last owner."""
    cut_bytes: Mapping[str, int]
    """Unfinished writes that were cut, by file; kept in `salvage/`."""
    restored: int
    """Slots committed from the buffer."""
    dropped_slots: tuple[int, ...]
    """Finished slots whose rows in the buffer could not be used: owed again."""
    lost_buffer: str | None
    """Why the buffer could not be used, and how much it may have held."""
    in_flight: tuple[AttemptNote, ...]
    """Attempts that were under way."""
    failed: tuple[AttemptNote, ...]
    """Failed attempts of trials that are not final."""


def open_run(lock: RunLock) -> tuple[Committer, OpeningReport]:
    """Bring an owned run to a sound state. Raises DamagedRun, having changed nothing, if it can't be."""
    reach("open.locked")
    paths = lock.paths
    record, journal, tails = _look(paths)
    buffer, problem = _open_buffer(paths)
    usable, unusable = _sort_completions(buffer, record, journal)
    lost = describe_loss(paths, record.run_id, journal.committed, usable.keys(), problem)
    unfinished = _find_unfinished(buffer, journal, usable)
    in_flight = tuple(note for note in unfinished if note.state != "failed")
    cuts = {paths.name(part.path): part.size - part.keep for part in tails if part.size > part.keep}
    is_crash = _note_crash(
        lock,
        _Crash(
            record=record, journal=journal, buffered=len(usable), in_flight=in_flight, cuts=cuts, lost=lost
        ),
    )
    _mend_files(paths, tails)
    _mend_buffer(paths, buffer, journal, unusable)
    write_buffered(paths, record.run_id, usable.items())
    committer = _make_committer(paths, record, journal, buffer, usable)
    restored = _drain(committer)
    reach("open.done")
    return committer, OpeningReport(
        is_crash=is_crash,
        has_rebooted=_has_rebooted(lock.last_owner)
        is not False,  # nobody knows: what was not synced may be lost
        cut_bytes=cuts,
        restored=restored,
        dropped_slots=tuple(bad.schedule_idx for bad in unusable),
        lost_buffer=lost,
        in_flight=in_flight,
        failed=tuple(note for note in unfinished if note.state == "failed"),
    )


def refuse_damaged(paths: RunPaths) -> None:
    """Raise DamagedRun where opening would, without owning or changing anything."""
    _look(paths)


def _look(paths: RunPaths) -> tuple[RunRecord, Journal, tuple[tail.Tail, ...]]:
    record = read_run(paths)
    refuse_altered_question(paths, record)
    floor = find_floor(paths)
    journal = scan(paths.commits, record)
    refuse_shortened(paths, floor, journal.recent[-1].line if journal.recent else None)
    return record, journal, tail.examine(paths, record.run_id, journal)


def _open_buffer(paths: RunPaths) -> tuple[Buffer, str | None]:
    """Open the buffer, or set a broken one aside and begin a new one."""
    if not paths.buffer.exists():
        problem = "it is gone"
    else:
        try:
            return open_buffer(paths.buffer), None
        except BrokenBuffer as error:
            problem = f"it can't be read: {error}"
    _set_buffer_aside(paths)
    create_buffer(paths.buffer)
    sync_folder(paths.root)
    return open_buffer(paths.buffer), problem


def _set_buffer_aside(paths: RunPaths) -> None:
    # The log goes first: beside a new database, an old log would be taken for a part of it.
    paths.salvage.mkdir(exist_ok=True)
    number = len(list(paths.salvage.glob("buffer-*")))
    for suffix in ("-wal", "-shm", ""):
        old = paths.buffer.with_name(paths.buffer.name + suffix)
        if old.exists():
            with storing("setting aside", old):
                old.rename(paths.salvage / f"buffer-{number}.sqlite{suffix}")
    sync_folder(paths.salvage)
    sync_folder(paths.root)


def _sort_completions(
    buffer: Buffer, record: RunRecord, journal: Journal
) -> tuple[dict[int, str], list[BufferedSlot]]:
    """Slots of the buffer that can be committed later, with their trials; and rows that can't be used."""
    usable: dict[int, str] = {}
    unusable: list[BufferedSlot] = []
    slots = [idx for idx in buffer.slots() if idx >= journal.committed]
    for first in range(0, len(slots), GROUP_LIMIT):
        group = slots[first : first + GROUP_LIMIT]
        for kept in buffer.completions(group[0], group[-1] + 1):
            if (trial_id := _find_trial(kept, record)) is not None:
                usable[kept.schedule_idx] = trial_id
            else:
                unusable.append(kept)
    return usable, unusable


def _find_trial(kept: BufferedSlot, record: RunRecord) -> str | None:
    """The trial of a slot whose rows can be used; None when they can't."""
    try:
        slot = decode_payload(kept.payload, record.run_id)
        schema.validate("trial_record_v1", slot.trial)
    except (ValueError, RecursionError):
        return None
    is_same = slot.digest == kept.digest and slot.schedule_idx == kept.schedule_idx
    is_usable = is_same and slot.schedule_idx < record.planned and is_sealed_timing(slot.timing + b"\n")
    return slot.trial_id if is_usable else None


def _find_unfinished(buffer: Buffer, journal: Journal, usable: Iterable[int]) -> tuple[AttemptNote, ...]:
    finished = set(usable)
    return tuple(
        note
        for note in buffer.attempts()
        if note.schedule_idx >= journal.committed and note.schedule_idx not in finished
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Crash:
    record: RunRecord
    journal: Journal
    buffered: int
    in_flight: tuple[AttemptNote, ...]
    cuts: Mapping[str, int]
    lost: str | None


def _note_crash(lock: RunLock, crash: _Crash) -> bool:
    """Whether the last owner died; leaves a note of it, once, however often the run is opened after that."""
    status = read_status(lock.paths)
    if status is None or status.status != "started":
        return False
    known = read_crashes(lock.paths)
    if known and known[-1].status_updated_at == status.updated_at:
        return True
    note = CrashRecord(
        schema_version="crash_v1",
        run_id=crash.record.run_id,
        found_at=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        last_owner=lock.last_owner,
        rebooted=_has_rebooted(lock.last_owner),
        status_updated_at=status.updated_at,
        committed=crash.journal.committed,
        buffered=crash.buffered,
        in_flight=tuple(
            InFlight(
                schedule_idx=note.schedule_idx,
                trial_id=note.trial_id,
                attempt=note.attempt,
                state=note.state,
            )
            for note in crash.in_flight
            if note.state != "failed"
        ),
        cut_bytes=dict(crash.cuts),
        lost=crash.lost,
    )
    number = len(list(iter_crash_files(lock.paths))) + 1
    replace(lock.paths.crash(number), canonical.encode_line(seal(note)), point="open.crash_note")
    return True


def _has_rebooted(last_owner: LockNote | None) -> bool | None:
    here = boot_id()
    if last_owner is None or not last_owner.boot_id or not here:
        return None
    return last_owner.boot_id != here


def _mend_files(paths: RunPaths, tails: Sequence[tail.Tail]) -> None:
    for part in tails:
        if part.size > part.keep:
            _salvage(paths, part)
    for part in tails:
        if part.size > part.keep:
            cut(part.path, part.keep)
            reach("open.cut")
    for part in tails:
        if part.size > 0:
            write_again(part.path, part.unsure)
            reach("open.synced")


def _salvage(paths: RunPaths, part: tail.Tail) -> None:
    """Keep what will be cut, under a name made from its content: done twice, it is the same file."""
    with storing("reading", part.path), part.path.open("rb") as file:
        file.seek(part.keep)
        data = file.read()
    paths.salvage.mkdir(exist_ok=True)
    mark = canonical.digest_bytes(data)[7:15]
    replace(paths.salvage / f"{part.path.name}.{part.keep}.{mark}", data, point="open.salvage")
    sync_folder(paths.root)


def _mend_buffer(paths: RunPaths, buffer: Buffer, journal: Journal, unusable: Sequence[BufferedSlot]) -> None:
    for bad in unusable:
        paths.salvage.mkdir(exist_ok=True)
        mark = canonical.digest_bytes(bad.payload)[7:15]
        name = f"completion.{bad.schedule_idx}.{mark}"
        replace(paths.salvage / name, bad.payload, point="open.salvage")
        buffer.drop(bad.schedule_idx)
    finished = {*buffer.slots()}
    over = [
        note.token
        for note in buffer.attempts()
        if note.schedule_idx < journal.committed or note.schedule_idx in finished
    ]
    if over or any(idx < journal.committed for idx in finished):
        buffer.write(Changes(gone_tokens=over, committed=journal.committed), synced=True)
    reach("open.buffer_dropped")


def _make_committer(
    paths: RunPaths, record: RunRecord, journal: Journal, buffer: Buffer, usable: Iterable[int]
) -> Committer:
    finished = FinishedSlots(planned=record.planned, committed=journal.committed)
    for idx in usable:
        finished.buffer(idx)
    reserve = hold(paths.reserve)
    buffer.spend = reserve.spend
    return Committer(
        run_id=record.run_id,
        chain=journal.chain,
        finished=finished,
        files=open_files(paths, reserve),
        buffer=buffer,
        reserve=reserve,
    )


def _drain(committer: Committer) -> int:
    before = committer.finished.committed
    while committer.has_backlog:
        committer.drain()
    committer.flush(synced=True)
    return committer.finished.committed - before
