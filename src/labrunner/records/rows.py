"""The rows that a commit publishes, as they lie in the run's JSONL files.

`predictions`, `scores` and `trials` hold nothing that depends on time, machine or concurrency;
`timings` holds everything that does.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final, Literal

import msgspec

from labrunner.records.cause import Cause
from labrunner.records.completion import (
    ArtifactRef,
    AttemptFact,
    AttemptTiming,
    EndedBy,
    Evaluator,
    FileRef,
    Prediction,
    Verdict,
)
from labrunner.records.encoding import canonical
from labrunner.records.encoding.ids import Ids, Index, Name, Ordinal

BLANK_RUN_ID: Final = ""
MAX_ROW_BYTES: Final = 64 * 1024


class Benchmark(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Which benchmark a row belongs to."""

    adapter_id: str
    name: str
    split: str
    version: str | None = None


class PredictionRow(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """One line of `benchmark/predictions.jsonl`."""

    schema_version: Literal["benchmark_prediction_record_v1"]
    schedule_idx: Index
    slot_commit_id: Name
    attempt: Ordinal
    row_seq: Index
    ids: Ids
    benchmark: Benchmark
    prediction: Prediction
    ext: dict[str, Any] = {}  # any JSON: the grader's own


class ScoreRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One line of `benchmark/scores.jsonl`: a graded trial's judgement. Failed slots have none."""

    schema_version: Literal["benchmark_score_record_v1"]
    schedule_idx: Index
    slot_commit_id: Name
    attempt: Ordinal
    row_seq: Index
    ids: Ids
    benchmark: Benchmark
    verdict: Literal["pass", "fail", "missing", "error"]
    primary_metric_name: Name
    primary_metric_value: float
    evaluator: Evaluator
    metrics: dict[str, float | int | str | bool | None] = {}
    artifacts: tuple[ArtifactRef, ...] = ()
    ext: dict[str, Any] = {}  # any JSON: the grader's own


class TrialRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line of `facts/trials.jsonl`: a committed trial."""

    schema_version: Literal["trial_record_v1"]
    schedule_idx: Index
    slot_commit_id: Name
    attempt: Ordinal
    ids: Ids
    task_digest: str
    variant_digest: str
    outcome: Literal["graded", "failed", "cancelled"]
    """`cancelled` stands only in a recovered report, for a slot that was never finished."""
    verdict: Verdict | None
    primary_metric_name: str | None
    primary_metric_value: float | None
    cause: Cause | None
    reason: str | None
    ended_by: EndedBy | None
    flags: tuple[str, ...]
    barrier: str
    attempts: tuple[AttemptFact, ...]
    files: tuple[FileRef, ...]


class TimingRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One line of `facts/timings.jsonl`: what depends on clock or machine about a committed trial."""

    schema_version: Literal["trial_timing_v1"]
    schedule_idx: Index
    ids: Ids
    attempts: tuple[AttemptTiming, ...]
    cut_off: tuple[str, ...] = ()
    """Folders of attempts that a crash cut off, below the trial's folder."""
    cut_off_usage: dict[str, float | int] = {}
    """What the recorded calls of those attempts used: it was paid, and is in no attempt's own `usage`."""
    edited: bool = False
    """Whether it was taken over though the code that made it was edited since: somebody vouched for it."""
    seal: str = ""
    """Short digest of the line without it: no chain covers what depends on the clock."""


class SlotRows(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A final slot, ready to be buffered or committed: complete rows."""

    schedule_idx: Index
    trial_id: str
    attempt: Ordinal
    slot_commit_id: Name
    predictions: tuple[PredictionRow, ...]
    scores: tuple[ScoreRow, ...]
    trial: TrialRow
    timing: TimingRow


def slot_commit_id(experiment_digest: str, trial_id: str, attempt: int) -> str:
    """Name one slot's publication: the same in every run of the experiment."""
    return canonical.digest((experiment_digest, trial_id, attempt))[7:39]


def lines_digest(lines: Iterable[bytes], run_id: str) -> str:
    """Digest of a slot's rows with the run's id blanked, from their lines: predictions, scores, trial.

    The same in every run with these results: timings are not in it. Raises ValueError for a line that is
    no row of the run, or not in canonical form.
    """
    return canonical.digest_bytes(*(_blank_line(line, run_id) for line in lines))


def have_digest(lines: Iterable[bytes], run_id: str, digest: str) -> bool:
    """Whether a slot's lines are rows of the run with this digest."""
    given, spelt = tuple(lines), _spell(run_id)
    # Blanked as text, an id that stands in its usual place gives the very bytes that were hashed. Lines for
    # which that is not so are taken apart below: many times slower, and hardly ever needed.
    if all(spelt in line for line in given):
        blanked = (line.replace(spelt, _spell(BLANK_RUN_ID), 1) for line in given)
        if canonical.digest_stream(blanked) == digest:
            return True
    try:
        return lines_digest(given, run_id) == digest
    except (ValueError, RecursionError):
        return False


def seal_timing(line: bytes) -> bytes:
    """Seal a timing row, given as its canonical line without a seal and without its end."""
    return b'%b,"seal":"%b"}' % (line[:-1], _seal_of(line))


def is_sealed_timing(line: bytes) -> bool:
    """Whether a line of `timings.jsonl`, its end included, is as it was written."""
    body, mark, rest = line.rpartition(b',"seal":"')
    return bool(mark) and rest == b'%b"}\n' % _seal_of(body + b"}")


def _seal_of(line: bytes) -> bytes:
    return canonical.digest_bytes(line)[7:23].encode()


def blank_row(row: object, line: bytes, run_id: str) -> bytes:
    """The line to be hashed for a row, given as plain JSON and as it lies in the file; blanks the row too.

    Raises ValueError for what is no row of the run, or not in canonical form.
    """
    match row:
        case {"ids": {"run_id": str() as found} as ids}:
            if found != run_id:
                raise ValueError(f"a row of run {found!r}, not of {run_id!r}")
        case _:
            raise ValueError("a row must be an object with ids")
    ids["run_id"] = BLANK_RUN_ID
    blanked = canonical.encode(row)
    # The digest leaves out the run's id and how a value was spelt: what it can't show is checked here.
    # A line that becomes the canonical one by blanking its id was canonical before.
    if line.replace(_spell(run_id), _spell(BLANK_RUN_ID), 1).removesuffix(b"\n") != blanked:
        ids["run_id"] = run_id
        if canonical.encode(row) != line.removesuffix(b"\n"):
            raise ValueError("a row that is not in canonical form")
    return blanked + b"\n"


def blank_new_row(row: object, line: bytes, run_id: str) -> bytes:
    """The same for a row of this run whose line was encoded a moment ago, so that it is canonical."""
    spelt = _spell(run_id)
    if line.count(spelt) == 1:
        return line.replace(spelt, _spell(BLANK_RUN_ID)) + b"\n"
    return blank_row(row, line, run_id)


@lru_cache(maxsize=16)
def _spell(run_id: str) -> bytes:
    """A run's id as it stands in a line."""
    return b'"run_id":' + canonical.encode(run_id)


def _blank_line(line: bytes, run_id: str) -> bytes:
    return blank_row(canonical.decode_plain(line), line, run_id)
