"""Looking at a run that somebody else wrote: its experiment, its summary, one of its trials."""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from typing import Final

from labrunner.records.barrier import CHOSEN
from labrunner.records.run import Counts, RunRecord, ScheduleProgress, StatusRecord
from labrunner.records.summary import SummaryRecord
from labrunner.runner.reports.results import Results, read_results
from labrunner.runner.reports.summaries import read_summary
from labrunner.store.layout import RunPaths
from labrunner.store.reading.run_state import RunState, iter_trials, read_state
from labrunner.store.rows.single_records import read_run, read_status

NAMED: Final = 5
LOOKED_THROUGH: Final = 2000
"""How many trials are looked through for one to suggest: a suggestion may not cost what a summary costs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPicture:
    """A run as it stands now, buffered results included."""

    paths: RunPaths
    record: RunRecord
    state: RunState
    status: StatusRecord
    summary: SummaryRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInFull(RunPicture):
    """A run with what its summary was made from."""

    results: Results


def picture(paths: RunPaths) -> RunPicture:
    """Look at a run, live or dead. Its summary is taken as written while it holds; nothing is written."""
    summary = read_summary(paths)
    if summary is None:
        return read_in_full(paths)
    record, state = read_run(paths), read_state(paths)
    return RunPicture(
        paths=paths, record=record, state=state, status=read_standing(paths, record), summary=summary
    )


def read_in_full(paths: RunPaths) -> RunInFull:
    """Look at a run and compute everything from its rows."""
    record, state = read_run(paths), read_state(paths)
    results = read_results(paths, record)
    return RunInFull(
        paths=paths,
        record=record,
        state=state,
        status=read_standing(paths, record),
        results=results,
        summary=results.summarise(),
    )


def read_standing(paths: RunPaths, record: RunRecord | None = None) -> StatusRecord:
    """The status as written, or what it would have said of a run whose owner died before its first one."""
    if (status := read_status(paths)) is not None:
        return status
    record = record or read_run(paths)
    return StatusRecord(
        schema_version="status_v1",
        run_id=record.run_id,
        status="started",
        counts=Counts(
            planned=record.planned, committed=0, buffered=0, running=0, passed=0, failed=0, errors=0
        ),
        schedule_progress=ScheduleProgress(next_schedule_idx=0, total=record.planned),
        error=None,
        started_at=record.created_at,
        updated_at=record.created_at,
        ended_at=None,
        chain=None,
    )


def find_telling_trial(paths: RunPaths, status: StatusRecord) -> str | None:
    """The trial to look at first: what ended the run, else an error, else a fail, else any."""
    if status.error is not None and status.error.trial_id is not None:
        return status.error.trial_id
    found: dict[str, str] = {}
    for row in islice(iter_trials(paths), LOOKED_THROUGH):
        found.setdefault(row.verdict or row.outcome, row.ids.trial_id)
        if "failed" in found:
            break
    return next((found[kind] for kind in ("failed", "fail", "pass") if kind in found), None)


def find_barriers(paths: RunPaths) -> dict[str, list[str]]:
    """How barriers are held, where that depends on the experiment: each way, and the variants it is for."""
    found: dict[str, list[str]] = {}
    for row in islice(iter_trials(paths), LOOKED_THROUGH):
        variants = found.setdefault(row.barrier, [])
        if row.barrier in CHOSEN and row.ids.variant_id not in variants:
            variants.append(row.ids.variant_id)
    return {word: variants for word, variants in found.items() if variants}


def describe_several(text: str, names: Sequence[str]) -> str:
    """Say which trials somebody may have meant."""
    named = ", ".join(names[:NAMED]) + (", ..." if len(names) > NAMED else "")
    return f"{len(names)} trials have {text!r} in their name: {named}; be more exact"


def describe_unknown(paths: RunPaths, text: str) -> str:
    """Say that there is no such trial, and which are near."""
    told = f"no finished trial of this run has {text!r} in its name"
    known = [row.ids.trial_id for row in islice(iter_trials(paths), LOOKED_THROUGH)]
    return f"{told}; nearest: {', '.join(get_close_matches(text, known, 3, 0.0))}" if known else told
