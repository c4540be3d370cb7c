"""A run's slots as other formats list them: one case each, owed ones included."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from labrunner.experiment.schedule import Schedule
from labrunner.records.encoding.ids import make_trial_id
from labrunner.records.rows import SlotRows
from labrunner.runner.reports.lookup import RunInFull
from labrunner.store.checking.invalidations import read_invalidations
from labrunner.store.layout import RunPaths
from labrunner.store.reading.fullscores import read_scores
from labrunner.store.reading.run_state import iter_finished

LONGEST_SAID: Final = 2_000
"""Characters of one thing that a grader said."""
Ending = Literal["pass", "fail", "error", "owed", "invalidated"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """How one slot ended."""

    variant_id: str
    task_id: str
    repl_idx: int
    trial_id: str
    ending: Ending
    metric: str | None = None
    value: float | None = None
    cause: str | None = None
    reason: str | None = None
    """A machine-readable word; why, for an invalidated trial."""
    message: str | None = None
    ended_by: str | None = None
    flags: tuple[str, ...] = ()
    attempts: int = 0
    time_s: float | None = None
    tokens: float | None = None
    cost_usd: float | None = None
    said: tuple[str, ...] = ()
    """What the grader said about a fail, a line each."""


def list_cases(seen: RunInFull) -> dict[str, list[Case]]:
    """Every slot by variant, in schedule order."""
    experiment = seen.results.experiment
    marks = {mark.trial_id: mark.reason for mark in read_invalidations(seen.paths)}
    finished = {
        rows.schedule_idx: _case(rows, marks.get(rows.trial_id), seen.paths)
        for rows in iter_finished(seen.paths)
        if rows.trial.outcome != "cancelled"
    }
    cases: dict[str, list[Case]] = {variant.id: [] for variant in experiment.variants}
    for slot in Schedule.of(experiment):
        variant, task = experiment.variants[slot.variant_idx].id, experiment.tasks[slot.task_idx].id
        case = finished.get(slot.schedule_idx)
        cases[variant].append(case or _owed(variant, task, slot.repl_idx))
    return cases


def iter_cases(seen: RunInFull) -> Iterator[Case]:
    """Every slot, variant by variant."""
    for cases in list_cases(seen).values():
        yield from cases


def _owed(variant_id: str, task_id: str, repl_idx: int) -> Case:
    trial_id = make_trial_id(variant_id, task_id, repl_idx)
    return Case(variant_id=variant_id, task_id=task_id, repl_idx=repl_idx, trial_id=trial_id, ending="owed")


def _case(rows: SlotRows, why_not: str | None, paths: RunPaths) -> Case:
    trial, attempts = rows.trial, rows.timing.attempts
    return Case(
        variant_id=trial.ids.variant_id,
        task_id=trial.ids.task_id,
        repl_idx=trial.ids.repl_idx,
        trial_id=trial.ids.trial_id,
        ending="invalidated" if why_not is not None else trial.verdict or "error",
        metric=trial.primary_metric_name,
        value=trial.primary_metric_value,
        cause=trial.cause.value if trial.cause else None,
        reason=why_not or trial.reason,
        message=attempts[-1].message,
        ended_by=trial.ended_by,
        flags=trial.flags,
        attempts=len(trial.attempts),
        time_s=sum(sum(attempt.phases_s.values()) for attempt in attempts),
        tokens=_sum([attempt.usage.get("tokens") for attempt in attempts]),
        cost_usd=_sum([attempt.usage.get("cost_usd") for attempt in attempts]),
        said=tuple(_say(rows, paths)) if trial.verdict == "fail" else (),
    )


def _say(rows: SlotRows, paths: RunPaths) -> Iterator[str]:
    """What the grader said: its metrics, its scorers' explanations, what else; and what was predicted."""
    scores = read_scores(paths, rows)
    for score in rows.scores[:1]:
        yield from (f"{name} = {_shorten(value)}" for name, value in score.metrics.items())
        yield from (f"{name}: {_shorten(value)}" for name, value in score.ext.items() if name != "scores")
    for name, plain in scores.items():
        for field in ("answer", "explanation"):
            if plain.get(field):
                yield f"{name}, {field}: {_shorten(plain[field])}"
    for row in rows.predictions[:1]:
        if not scores and row.prediction.value is not None:
            yield f"predicted: {_shorten(row.prediction.value)}"


def _shorten(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST_SAID else f"{text[:LONGEST_SAID]}…"


def _sum(amounts: list[float | int | None]) -> float | None:
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if known else None
