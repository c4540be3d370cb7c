"""Checking what is committed, slot by slot: the journal's line, its rows, their timing, their files."""

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TypeVar

import msgspec

from labrunner.errors import DamagedRun
from labrunner.records.commit import NO_ROWS, CommitLine, EndOffsets, RowCounts, chain_next, chain_start, seal
from labrunner.records.encoding import canonical
from labrunner.records.rows import TimingRow, TrialRow
from labrunner.records.run import RunRecord
from labrunner.store.checking.evidence import check_evidence
from labrunner.store.checking.findings import Findings
from labrunner.store.layout import RunPaths
from labrunner.store.rows.journal import Placed, decode_line, find_damage
from labrunner.store.rows.rowfiles import RowFiles, open_rows
from labrunner.store.rows.timings import find_wrong_timing
from labrunner.store.rows.witness import find_orphans
from labrunner.store.rows.written import open_file

Row = TypeVar("Row", TrialRow, TimingRow)


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """How far a check has come: sums over all slots before."""

    committed: int
    chain: str
    ends: EndOffsets
    rows: RowCounts


def check_committed(paths: RunPaths, record: RunRecord, findings: Findings) -> Position:
    """Check every committed slot; go on after a problem as far as lines can be told apart."""
    at = Position(
        committed=0,
        chain=chain_start(record.digests.experiment, record.digests.schedule),
        ends=NO_ROWS,
        rows=RowCounts(predictions=0, scores=0, trials=0),
    )
    with ExitStack() as stack:
        commits = stack.enter_context(open_file(paths.commits))
        timings = stack.enter_context(open_file(paths.timings))
        rows = stack.enter_context(open_rows(paths))
        for text in commits:
            line = _check_line(paths, record, findings, at, text)
            if line is None:
                break
            trial = _check_rows(paths, findings, at, rows, line)
            timing = _check_timing(paths, findings, timings, line)
            if trial and timing:
                _check_files(paths, record, findings, trial, timing)
            at = _advance(at, line)
        _check_trailing(paths, findings, at, timings.tell())
    return at


def _check_line(
    paths: RunPaths, record: RunRecord, findings: Findings, at: Position, text: bytes
) -> CommitLine | None:
    """A line to go on from, or None when nothing after it can be told."""
    line, number = decode_line(text), at.committed + 1
    if line is None:
        if (problem := find_damage(text, record.run_id, at.committed)) is not None:
            findings.report(paths.commits, f"{problem}; what follows was not looked at", line=number)
        else:
            findings.report_unfinished(paths.commits, f"ends with {len(text)} bytes of an unfinished line")
        return None
    chain = chain_next(at.chain, line)
    for is_wrong, what in (
        (line.run_id != record.run_id, f"belongs to run {line.run_id}, not to {record.run_id}"),
        (line.schedule_idx != at.committed, f"slot {line.schedule_idx}, not {at.committed}"),
        (line.chain != chain, f"its chain is {line.chain}, but what it covers gives {chain}"),
        (canonical.encode_line(line) != text, "not in the form in which it was written"),
        (line.seal != seal(line), f"its seal is {line.seal}, but its content gives {seal(line)}"),
    ):
        if is_wrong:
            findings.report(paths.commits, what, line=number)
    return line


def _check_rows(
    paths: RunPaths, findings: Findings, at: Position, rows: RowFiles, line: CommitLine
) -> TrialRow | None:
    try:
        lines = rows.read(Placed(line=line, offset=0, starts=at.ends))
    except DamagedRun as error:
        findings.report(paths.commits, findings.shorten(paths.commits, error), line=at.committed + 1)
        return None
    if not lines.has_digest(line.run_id, line.rows_digest):
        found = lines.digest(line.run_id)
        what = (
            f"the rows of slot {line.schedule_idx} (here, in scores.jsonl, in predictions.jsonl) have digest "
            f"{found}, but {line.rows_digest} was committed"
        )
        findings.report(paths.trials, what, line=at.rows.trials + 1)
    for path, kind, before, texts in (
        (paths.predictions, "benchmark_prediction_record_v1", at.rows.predictions, lines.predictions),
        (paths.scores, "benchmark_score_record_v1", at.rows.scores, lines.scores),
        (paths.trials, "trial_record_v1", at.rows.trials, lines.trials),
    ):
        for number, text in enumerate(texts, before + 1):
            findings.validate(path, kind, text, line=number)
    trial = _decode(lines.trials[0], TrialRow) if lines.trials else None
    if trial and (trial.schedule_idx, trial.ids.trial_id) != (line.schedule_idx, line.trial_id):
        findings.report(paths.trials, f"not the row of {line.trial_id}", line=at.rows.trials + 1)
    return trial


def _check_timing(
    paths: RunPaths, findings: Findings, timings: BinaryIO, line: CommitLine
) -> TimingRow | None:
    text, number = timings.readline(), line.schedule_idx + 1
    if (problem := find_wrong_timing(text, line)) is not None:
        findings.report(paths.timings, problem, line=number)
    else:
        findings.validate(paths.timings, "trial_timing_v1", text, line=number)
    return _decode(text, TimingRow)


def _check_files(
    paths: RunPaths, record: RunRecord, findings: Findings, trial: TrialRow, timing: TimingRow
) -> None:
    keep = record.experiment.get("policy", {}).get("keep", {}).get("logs", "always")
    for path, what in check_evidence(paths, trial, timing, are_logs_kept=keep == "always"):
        findings.report(path, what)


def _advance(at: Position, line: CommitLine) -> Position:
    return Position(
        committed=at.committed + 1,
        chain=line.chain,
        ends=line.ends,
        rows=RowCounts(
            predictions=at.rows.predictions + line.rows.predictions,
            scores=at.rows.scores + line.rows.scores,
            trials=at.rows.trials + line.rows.trials,
        ),
    )


def _check_trailing(paths: RunPaths, findings: Findings, at: Position, timings_end: int) -> None:
    ends: tuple[tuple[Path, int], ...] = (
        (paths.predictions, at.ends.predictions),
        (paths.scores, at.ends.scores),
        (paths.trials, at.ends.trials),
        (paths.timings, timings_end),
    )
    if (problem := find_orphans(paths, at.ends.trials)) is not None:
        findings.report(paths.commits, problem)
    for path, end in ends:
        extra = path.stat().st_size - end
        if extra > 0:
            findings.report_unfinished(path, f"{extra} bytes after the last committed row")


def _decode(text: bytes, kind: type[Row]) -> Row | None:
    try:
        return msgspec.json.decode(text, type=kind)
    except (ValueError, RecursionError):
        return None
