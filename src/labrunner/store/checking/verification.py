"""Recomputing everything a run claims: digests, journal, chain, rows, files, buffer, views.

Rules: only reads; names file, line and what is wrong, and goes on. What a crash or a live owner leaves
(an unfinished tail, slots still owed) is a note, not a problem: such a run is sound and unfinished.
The chain shows accidents and careless edits, not a forger who computes it anew.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from labrunner.errors import StoreError
from labrunner.files.durable import say
from labrunner.records.run import RunRecord
from labrunner.store.buffering.buffer import BufferedSlot, snapshot
from labrunner.store.buffering.loss import find_loss
from labrunner.store.checking.besides import (
    check_buffered,
    check_crashes,
    check_marks,
    check_outages,
    check_status,
    check_summary,
    note_foreign,
)
from labrunner.store.checking.committed import Position, check_committed
from labrunner.store.checking.findings import Findings, Problem
from labrunner.store.layout import RunPaths
from labrunner.store.reading.run_state import RunState, read_state
from labrunner.store.rows.single_records import load_run
from labrunner.store.rows.slot_bytes import decode_payload
from labrunner.store.rows.witness import find_floor, find_lost_lines
from labrunner.store.rows.written import find_altered, open_file, written_once


class _Scheduled(msgspec.Struct):
    trial_id: str


_scheduled: Final = msgspec.json.Decoder(_Scheduled)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyReport:
    """What a run's files add up to."""

    run_id: str
    state: RunState | None
    """None when the run's own records can't be read."""
    planned: int
    committed: int
    buffered: int
    chain: str
    """The run's digest, computed anew."""
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]

    @property
    def is_sound(self) -> bool:
        """Whether nothing contradicts what was committed."""
        return not self.problems

    @property
    def is_complete(self) -> bool:
        """Whether every planned slot is committed."""
        return self.state is not None and self.committed == self.planned


def verify(paths: RunPaths) -> VerifyReport:
    """Recompute a run. Whatever it finds in the run's files is in the report, never an exception."""
    findings = Findings(paths)
    try:
        return _verify(paths, findings)
    except StoreError as error:
        findings.report(paths.root, str(error))
    except OSError as error:
        findings.report(Path(error.filename or paths.root), say(error))
    return VerifyReport(
        run_id=paths.root.name,
        state=None,
        planned=0,
        committed=0,
        buffered=0,
        chain="",
        problems=tuple(findings.problems),
        notes=tuple(findings.notes),
    )


def _verify(paths: RunPaths, findings: Findings) -> VerifyReport:
    (record, problem), state = load_run(paths), _read_state(paths, findings)
    if problem is not None:
        findings.report(paths.run, problem)
    if record.run_id != paths.root.resolve().name:
        findings.notes.append(f"run.json: it is run {record.run_id}, but the folder has another name")
    findings.is_ended = state not in {"started", "crashed", None}
    _check_written_once(paths, record, findings)
    with ExitStack() as stack:
        waiting, floor = _open_buffer(paths, findings, stack), find_floor(paths)
        end = check_committed(paths, record, findings)
        if (lost := find_lost_lines(floor, end.committed)) is not None:
            findings.report(paths.commits, lost)
        buffered = _check_buffer(paths, record, findings, end, waiting)
    check_status(paths, findings, end)
    check_summary(paths, record.run_id, findings, end)
    check_crashes(paths, findings)
    check_outages(paths, findings)
    if problem is None:
        check_marks(paths, findings)
        _check_loss(paths, findings)
    check_buffered(paths, record.run_id, findings)
    note_foreign(paths, _trial_ids(paths), findings)
    return VerifyReport(
        run_id=record.run_id,
        state=state,
        planned=record.planned,
        committed=end.committed,
        buffered=buffered,
        chain=end.chain,
        problems=tuple(findings.problems),
        notes=tuple(findings.notes),
    )


def _read_state(paths: RunPaths, findings: Findings) -> RunState | None:
    try:
        return read_state(paths)
    except StoreError as error:
        findings.report(paths.status, str(error))
        return None


def _open_buffer(paths: RunPaths, findings: Findings, stack: ExitStack) -> Iterator[BufferedSlot]:
    """The buffer's rows as they are before the journal is read; a broken buffer is a finding."""
    try:
        return stack.enter_context(snapshot(paths.buffer))
    except StoreError as error:
        findings.report(paths.buffer, str(error))
        return iter(())


def _check_written_once(paths: RunPaths, record: RunRecord, findings: Findings) -> None:
    findings.validate(paths.run, "run_v1", paths.run.read_bytes())
    for path, digest in written_once(paths, record):
        try:
            problem = find_altered(path, digest)
        except StoreError as error:
            problem = findings.shorten(path, error)
        if problem is not None:
            findings.report(path, problem)


def _check_buffer(
    paths: RunPaths, record: RunRecord, findings: Findings, end: Position, waiting: Iterator[BufferedSlot]
) -> int:
    buffered = 0
    try:
        for kept in waiting:
            problem = _judge(kept, record)
            if problem is not None:
                findings.report(paths.buffer, f"slot {kept.schedule_idx}: {problem}")
            buffered += problem is None and kept.schedule_idx >= end.committed
    except StoreError as error:
        findings.report(paths.buffer, str(error))
    if buffered:
        findings.notes.append(f"{buffered} finished slots wait in the buffer for one before them")
    return buffered


def _judge(kept: BufferedSlot, record: RunRecord) -> str | None:
    try:
        slot = decode_payload(kept.payload, record.run_id)
    except (ValueError, RecursionError) as error:
        return str(error)
    if slot.digest != kept.digest or slot.schedule_idx != kept.schedule_idx:
        return "its rows do not have the digest that was stored with them"
    return None if slot.schedule_idx < record.planned else "it is not in the schedule"


def _check_loss(paths: RunPaths, findings: Findings) -> None:
    """Report finished results that are lost with the buffer; that of an ended run may be removed."""
    try:
        loss = find_loss(paths)
    except StoreError:
        return  # the journal can't be read, which is reported already
    if loss is not None:
        findings.report(paths.buffer, loss)


def _trial_ids(paths: RunPaths) -> Iterator[str]:
    """Trials of the schedule, as far as it can be read."""
    try:
        with open_file(paths.schedule) as lines:
            yield from (_scheduled.decode(text).trial_id for text in lines)
    except (StoreError, ValueError, RecursionError):
        return
