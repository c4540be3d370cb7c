"""What the runs before a new one did for each of its slots, so that a lineage is told as one story.

Rules: an attempt is known by its number and when it began: a result that was taken over is in several runs,
and told once. What the new run takes over stands in its own rows and not among what came before.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import msgspec

from labrunner.errors import StoreError
from labrunner.experiment.resolved import Experiment
from labrunner.records import schema
from labrunner.records.completion import AttemptFact, AttemptTiming, Completion, Failed
from labrunner.records.encoding import canonical
from labrunner.records.encoding.ids import Ids, make_trial_id
from labrunner.records.facts.earlier import EarlierAttempt, EarlierRow, Standing
from labrunner.records.rows import SlotRows, TrialRow
from labrunner.records.run import RunRecord
from labrunner.runner.reuse.regradable import Obstacles
from labrunner.runner.reuse.reuse import ReusePlan, ReuseSource, SlotFinder
from labrunner.store.buffering.buffer import read_live
from labrunner.store.reading.earlier_file import read_earlier_rows
from labrunner.store.reading.run_state import iter_finished
from labrunner.store.rows.single_records import read_run

_completions = msgspec.json.Decoder(Completion)
Key: TypeAlias = tuple[int, str]
"""What tells attempts of a slot apart, in whatever run they stand: number and beginning."""


@dataclass(slots=True)
class _Past:
    """One slot's attempts in earlier runs."""

    attempts: dict[Key, EarlierAttempt] = field(default_factory=dict)
    own: set[Key] = field(default_factory=set)
    """Those of the result that is taken over."""
    judged_anew: dict[Key, str | None] = field(default_factory=dict)
    """Those whose work is judged once more, by the run that is named; None: by the new one."""


def gather_history(experiment: Experiment, reuse: ReusePlan, run_id: str) -> tuple[EarlierRow, ...]:
    """The earlier attempts of every slot that has some, in schedule order."""
    finder = SlotFinder(experiment)
    slots = _find_slots(finder)
    pasts: dict[int, _Past] = {}
    for number in range(len(reuse.sources)):
        if number not in reuse.unusable:
            _HistoryReader(finder, slots, reuse, number, pasts).read()
    rows = (_make_row(finder, idx, pasts[idx], run_id) for idx in sorted(pasts))
    return tuple(row for row in rows if row.attempts)


def encode_earlier(rows: Sequence[EarlierRow]) -> list[bytes]:
    """The lines of a new run's `facts/earlier.jsonl`."""
    lines = []
    for row in rows:
        line = canonical.encode_line(row)
        schema.validate("earlier_attempts_v1", line)
        lines.append(line)
    return lines


def digest_earlier(lines: Sequence[bytes]) -> str | None:
    """What a run's record says of these lines; None where there are none."""
    return canonical.digest_stream(lines) if lines else None


class _HistoryReader:
    """Takes in what one source knows; sources come the newest first."""

    def __init__(
        self,
        finder: SlotFinder,
        slots: Mapping[str, int],
        reuse: ReusePlan,
        number: int,
        pasts: dict[int, _Past],
    ) -> None:
        self._finder = finder
        self._slots_by_trial = slots
        self._reuse = reuse
        self._number = number
        self._source: ReuseSource = reuse.sources[number]
        self._pasts = pasts
        self._record: RunRecord = read_run(self._source.paths)
        self._problems = Obstacles(self._source.paths)

    def read(self) -> None:
        finished: set[int] = set()
        for rows in iter_finished(self._source.paths, self._find_wanted().__contains__):
            idx = self._finder.find(rows.trial)
            if idx is not None and rows.trial.outcome != "cancelled":
                finished.add(idx)
                self._take_rows(idx, rows)
        for idx, attempt in self._unfinished():
            if idx not in finished:
                self._pasts.setdefault(idx, _Past()).attempts[_key(attempt)] = attempt
        self._read_earlier()

    def _find_wanted(self) -> set[str]:
        """Trials of which this source has something to tell.

        Of the usual ones, which are taken over from it, only where older sources may hold the same results.
        """
        is_oldest = self._number == len(self._reuse.sources) - 1
        return {
            trial_id
            for trial_id, idx in self._slots_by_trial.items()
            if not is_oldest or self._reuse.taken[idx] != self._number + 1
        }

    def _take_rows(self, idx: int, rows: SlotRows) -> None:
        attempts = list(zip(rows.trial.attempts, rows.timing.attempts, strict=True))
        keys = [(timing.attempt, timing.started_at) for _, timing in attempts]
        past = self._pasts.setdefault(idx, _Past())
        if self._reuse.taken[idx] == self._number + 1:
            past.own.update(keys)
            return
        for key, (fact, timing) in zip(keys, attempts, strict=True):
            if not timing.host and fact.outcome == "failed":
                continue  # a regrading that found no work to judge: nothing was done, on no machine
            told = self._tell(self._standing(idx, rows.trial, fact), fact, timing)
            if fact.outcome == "graded":
                trial = rows.trial
                told = msgspec.structs.replace(
                    told, verdict=trial.verdict, primary_metric_value=trial.primary_metric_value
                )
            past.attempts[key] = told
        if self._is_judged_anew(idx):
            past.judged_anew[keys[-1]] = None

    def _tell(self, standing: Standing, fact: AttemptFact, timing: AttemptTiming) -> EarlierAttempt:
        return EarlierAttempt(
            run_id=self._record.run_id,
            attempt=fact.attempt,
            standing=standing,
            outcome=fact.outcome,
            cause=fact.cause,
            reason=fact.reason,
            agent=fact.agent,
            started_at=timing.started_at,
            ended_at=timing.ended_at,
            phases_s=timing.phases_s,
            usage=timing.usage,
            message=timing.message,
        )

    def _is_judged_anew(self, idx: int) -> bool:
        again = self._reuse.again.get(idx)
        return again is not None and again.source == self._number

    def _unfinished(self) -> Iterator[tuple[int, EarlierAttempt]]:
        """Failed attempts of trials that were to be tried again when the run ended."""
        try:
            notes, _ = read_live(self._source.paths.buffer)
        except StoreError:
            return  # what is lost of a buffer is told with its run
        for note in notes:
            idx = self._slots_by_trial.get(note.trial_id)
            if note.failure is None or idx is None:
                continue
            try:
                done = _completions.decode(note.failure)
            except (ValueError, RecursionError):
                continue  # the same holds for one of its notes
            if isinstance(done.end, Failed):
                fact = AttemptFact(
                    attempt=done.attempt,
                    outcome="failed",
                    cause=done.end.cause,
                    reason=done.end.reason,
                    agent=done.agent,
                )
                yield idx, self._tell("failed", fact, done.timing)

    def _read_earlier(self) -> None:
        for row in read_earlier_rows(self._source.paths, self._record):
            idx = self._finder.find_ids(row.ids)
            if idx is None:
                continue
            past = self._pasts.setdefault(idx, _Past())
            is_again = self._is_judged_anew(idx)
            is_ours = self._reuse.taken[idx] == self._number + 1 or is_again
            for attempt in row.attempts:
                if attempt.standing == "graded_again" and is_ours:
                    past.judged_anew[_key(attempt)] = None if is_again else attempt.judged_in
                past.attempts.setdefault(_key(attempt), self._seen_from_here(idx, row, attempt))

    def _seen_from_here(self, idx: int, row: EarlierRow, attempt: EarlierAttempt) -> EarlierAttempt:
        if attempt.standing == "graded_again":
            return msgspec.structs.replace(attempt, standing="replaced", judged_in=None)
        if attempt.standing != "changed" and not self._asks_the_same(idx, row.ids.task_id):
            return msgspec.structs.replace(attempt, standing="changed")
        return attempt

    def _standing(self, idx: int, row: TrialRow, fact: AttemptFact) -> Standing:
        slot = self._finder.schedule.slot(idx)
        if row.variant_digest != self._finder.tried(slot):
            return "changed"
        is_same_task = row.task_digest == self._finder.experiment.tasks[slot.task_idx].digest
        if fact.outcome == "failed":
            return "failed" if is_same_task or self._asks_the_same(idx, row.ids.task_id) else "changed"
        if not is_same_task:
            return "changed"
        return "invalidated" if row.ids.trial_id in self._source.invalidated else "replaced"

    def _asks_the_same(self, idx: int, task_id: str) -> bool:
        return self._problems.is_same(task_id, self._finder.experiment, self._finder.schedule.slot(idx))


def _find_slots(finder: SlotFinder) -> dict[str, int]:
    """Every slot by the id of its trial."""
    slots, experiment = {}, finder.experiment
    for idx in range(len(finder.schedule)):
        slot = finder.schedule.slot(idx)
        variant, task = experiment.variants[slot.variant_idx].id, experiment.tasks[slot.task_idx].id
        slots[make_trial_id(variant, task, slot.repl_idx)] = idx
    return slots


def _make_row(finder: SlotFinder, idx: int, past: _Past, run_id: str) -> EarlierRow:
    slot = finder.schedule.slot(idx)
    variant = finder.experiment.variants[slot.variant_idx].id
    task = finder.experiment.tasks[slot.task_idx].id
    told = [
        _judged_anew(attempt, past.judged_anew[key] or run_id) if key in past.judged_anew else attempt
        for key, attempt in past.attempts.items()
        if key not in past.own
    ]
    return EarlierRow(
        schema_version="earlier_attempts_v1",
        schedule_idx=idx,
        ids=Ids(
            run_id=run_id,
            trial_id=make_trial_id(variant, task, slot.repl_idx),
            variant_id=variant,
            task_id=task,
            repl_idx=slot.repl_idx,
        ),
        attempts=tuple(sorted(told, key=lambda attempt: (attempt.started_at, attempt.attempt))),
    )


def _judged_anew(attempt: EarlierAttempt, run_id: str) -> EarlierAttempt:
    return msgspec.structs.replace(attempt, standing="graded_again", judged_in=run_id)


def _key(attempt: EarlierAttempt) -> Key:
    return attempt.attempt, attempt.started_at
