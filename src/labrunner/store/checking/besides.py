"""Checking what stands beside the committed rows: views, crash notes, marks, and files that are no run's.

Rule: a file whose name nobody here knows is foreign: a note, not a problem.
"""

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from labrunner.errors import StoreError
from labrunner.files.durable import say
from labrunner.records.seals import seal_summary
from labrunner.records.summary import SummaryRecord
from labrunner.store.buffering.buffered import find_bad_lines
from labrunner.store.checking.committed import Position
from labrunner.store.checking.findings import Findings
from labrunner.store.checking.invalidations import examine_marks
from labrunner.store.layout import RunPaths
from labrunner.store.rows.outages import load_outages
from labrunner.store.rows.single_records import iter_crash_files, load_crash, load_status

_SHOWN: Final = 5
_summaries: Final = msgspec.json.Decoder(SummaryRecord)


def check_status(paths: RunPaths, findings: Findings, end: Position) -> None:
    """Hold `status.json` to its seal and, where the run has ended, to the journal."""
    try:
        status = load_status(paths)
    except StoreError as error:
        findings.report(paths.status, findings.shorten(paths.status, error))
        return
    if status is None:
        if end.committed:
            findings.notes.append(f"{paths.name(paths.status)}: the file is gone; it is a view")
        return
    if not findings.is_ended:
        return
    if status.chain != end.chain:
        findings.report(paths.status, f"its chain is {status.chain}, but the journal's is {end.chain}")
    if status.counts.committed != end.committed:
        what = f"{status.counts.committed} slots committed, but the journal has {end.committed}"
        findings.report(paths.status, what)


def check_summary(paths: RunPaths, run_id: str, findings: Findings, end: Position) -> None:
    """Hold `summary.json` to its seal and to what it was made from; that of a run under way has no basis."""
    if not paths.summary.exists():
        if findings.is_ended:
            findings.notes.append(f"{paths.name(paths.summary)}: the file is gone; it is a view")
        return
    try:
        data = paths.summary.read_bytes()
        summary = _summaries.decode(data)
    except OSError as error:
        findings.report(paths.summary, f"can't be read: {say(error)}")
        return
    except (ValueError, RecursionError) as error:
        findings.report(paths.summary, f"not a benchmark_summary_v1: {error}")
        return
    findings.validate(paths.summary, "benchmark_summary_v1", data)
    if summary.run_id != run_id:
        findings.report(paths.summary, f"belongs to run {summary.run_id}, not to {run_id}")
    elif "seal" not in summary.ext:
        findings.report(paths.summary, "not as it was written: it has no seal")
    elif seal_summary(summary) != summary:
        findings.report(paths.summary, "not as it was written: its seal does not fit its content")
    elif findings.is_ended and end.committed and _chain_of(summary) != end.chain:
        what = f"made from a journal that ended with {_chain_of(summary)}, but it ends with {end.chain}"
        findings.report(paths.summary, what)


def check_crashes(paths: RunPaths, findings: Findings) -> None:
    """Hold crash notes to their seals; they are numbered without a gap."""
    for path in iter_crash_files(paths):
        try:
            load_crash(paths, path)
        except StoreError as error:
            findings.report(path, findings.shorten(path, error))
    known = len(list(iter_crash_files(paths)))
    for path in paths.root.glob("crash-*.json"):
        if (number := _number(path)) is not None and number > known:
            findings.report(paths.crash(known + 1), f"the file is gone: {path.name} comes after it")
            return


def check_outages(paths: RunPaths, findings: Findings) -> None:
    """Hold what is noted of outages to its seal."""
    try:
        load_outages(paths)
    except StoreError as error:
        findings.report(paths.outages, findings.shorten(paths.outages, error))


def check_marks(paths: RunPaths, findings: Findings) -> None:
    """Hold marks on trials to their chain and their number."""
    marks = examine_marks(paths)
    if marks.problem is not None:
        findings.report(paths.invalidations, marks.problem)
    elif len(marks.rows) > marks.counted:
        extra = len(marks.rows) - marks.counted
        findings.notes.append(f"{paths.name(paths.marks)}: {extra} marks are not counted in it; they hold")


def check_buffered(paths: RunPaths, run_id: str, findings: Findings) -> None:
    """Look for lines of `buffered.jsonl` that nobody wrote so."""
    for number in find_bad_lines(paths, run_id)[:_SHOWN]:
        findings.report(paths.buffered, "not a line of this run", line=number)


def note_foreign(paths: RunPaths, trial_ids: Iterable[str], findings: Findings) -> None:
    """Note files and folders that are not a run's."""
    known = {path.relative_to(paths.root).as_posix() for path in _files(paths)}
    found = _entries(paths.root, paths.scores.parent, paths.trials.parent)
    foreign = [name for path in found if (name := paths.name(path)) not in known and not _is_ours(name)]
    if paths.trial_folders.is_dir():
        strangers = {entry.name for entry in os.scandir(paths.trial_folders)} - set(trial_ids)
        foreign += [f"trials/{name}" for name in strangers]
    if foreign:
        more = f" and {len(foreign) - _SHOWN} more" if len(foreign) > _SHOWN else ""
        named = ", ".join(sorted(foreign)[:_SHOWN])
        findings.notes.append(f"not of this run, and not looked at: {named}{more}")


def _chain_of(summary: SummaryRecord) -> object:
    basis = summary.ext.get("basis")
    return basis.get("chain") if isinstance(basis, dict) else None


def _number(path: Path) -> int | None:
    found = re.fullmatch(r"crash-([1-9][0-9]*)\.json", path.name)
    return int(found[1]) if found else None


def _files(paths: RunPaths) -> tuple[Path, ...]:
    buffer = tuple(paths.buffer.with_name(paths.buffer.name + end) for end in ("", "-wal", "-shm"))
    rows = (paths.predictions, paths.scores, paths.trials, paths.timings)
    once = (paths.run, paths.tasks, paths.schedule, paths.earlier, paths.lock)
    views = (paths.status, paths.summary, paths.outages, paths.buffered, paths.reserve)
    marks = (paths.invalidations, paths.marks)
    folders = (paths.salvage, paths.trial_folders, paths.scores.parent, paths.trials.parent, paths.gateway)
    return (*buffer, *rows, *once, *views, *marks, *folders, paths.commits)


def _entries(*folders: Path) -> Iterator[Path]:
    for folder in folders:
        if folder.is_dir():
            yield from [Path(entry.path) for entry in os.scandir(folder)]


def _is_ours(name: str) -> bool:
    """Whether it is a numbered note, or what a killed process left of a file that it was replacing."""
    return bool(re.fullmatch(r"crash-[1-9][0-9]*\.json|(?:.*/)?\.[^/]+\.tmp", name))
