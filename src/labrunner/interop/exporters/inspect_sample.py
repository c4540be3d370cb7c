"""One trial as a sample of an `.eval` log: messages, scores, errors, retries, events."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryFile
from types import MappingProxyType
from typing import Any, Final

import msgspec

from labrunner.analysis.sums.measure import PASS
from labrunner.experiment.resolved import TaskSpec, Variant
from labrunner.interop.exporters.chat import find_messages
from labrunner.interop.exporters.inspect_transcript import Conversation, make_score
from labrunner.interop.exporters.inspect_usage import add_usage, sum_usage
from labrunner.interop.exporters.jsonlist import JsonList
from labrunner.records.completion import AttemptFact, AttemptTiming
from labrunner.records.encoding import canonical
from labrunner.records.facts.earlier import EarlierAttempt
from labrunner.records.rows import SlotRows, TrialRow
from labrunner.runner.reports.gaps import newest_attempt
from labrunner.runner.reports.lookup import RunInFull
from labrunner.store.checking.invalidations import read_invalidations
from labrunner.store.reading.conversations import read_said
from labrunner.store.reading.earlier_file import read_earlier
from labrunner.store.reading.events import read_agent_events
from labrunner.store.reading.fullscores import read_scores

Plain = dict[str, Any]  # JSON, as that format has it
Write = Callable[[str, object], None]

NOTHING: Final[Mapping[int, bytes]] = MappingProxyType({})
LONGEST_INPUT: Final = 5_000
"""Characters of an input that a summary shows."""
LONGEST_VALUE: Final = 1_000
"""Characters of a value of metadata that a summary shows."""
_LIMITS: Final = {
    "timeout": "time",
    "time": "time",
    "working_time": "working",
    "messages": "message",
    "tokens": "token",
    "cost": "cost",
}


class SampleWriter:
    """Writes samples, and keeps of each what the log's summaries need."""

    def __init__(
        self, seen: RunInFull, variant: Variant, measure: str, write: Write, stack: ExitStack
    ) -> None:
        """Write with `write`, which takes a member's name and its content; `stack` closes what was opened."""
        self.summaries = JsonList(stack.enter_context(TemporaryFile()))  # noqa: SIM115 - the stack closes it
        self.usage: Plain = {}
        self._seen = seen
        self._model = model_name(variant)
        self._variant = variant
        self._measure = measure
        self._write = write
        self._tasks = {task.id: task for task in seen.results.experiment.tasks}
        self._earlier = read_earlier(seen.paths, seen.record)
        self._marks = {mark.trial_id: mark for mark in read_invalidations(seen.paths)}

    def add(self, rows: SlotRows, live: Mapping[int, bytes] = NOTHING) -> None:
        """Write one trial; `live` holds transcripts that no file holds yet, by attempt."""
        sample = self._make(rows if rows.trial.attempts else self._fill(rows), live)
        self.summaries.append(_summarise(sample))
        for model, used in sample["model_usage"].items():
            add_usage(self.usage.setdefault(model, {}), used)
        self._write(f"samples/{sample['id']}_epoch_{sample['epoch']}.json", sample)

    def _fill(self, rows: SlotRows) -> SlotRows:
        """Give a trial that was cut off the attempt that no row tells of."""
        name = newest_attempt(rows.timing.cut_off) or "1"
        number, began = int(name.partition(".")[0]), self._seen.status.started_at
        fact = AttemptFact(attempt=number, outcome="failed", reason="cancelled")
        timing = AttemptTiming(
            attempt=number,
            started_at=began,
            ended_at=self._seen.status.updated_at,
            host="",
            sandbox=self._variant.sandbox.kind,
            message="the run ended before the trial did",
        )
        return msgspec.structs.replace(
            rows,
            trial=msgspec.structs.replace(rows.trial, attempts=(fact,)),
            timing=msgspec.structs.replace(rows.timing, attempts=(timing,)),
        )

    def _make(self, rows: SlotRows, live: Mapping[int, bytes]) -> Plain:
        trial, times = rows.trial, rows.timing.attempts
        before = self._earlier.get(rows.schedule_idx, ())
        earlier = [attempt for attempt in before if attempt.standing != "changed"]
        task = self._tasks[trial.ids.task_id]
        spoken = [self._read_transcript(rows, fact.attempt, live) for fact in trial.attempts]
        own = [self._events(rows, fact.attempt) for fact in trial.attempts]
        events = [[*talk.events(), *left] for talk, left in zip(spoken, own, strict=True)]
        messages = spoken[-1].messages() or _messages(task, rows, own[-1])
        answer = spoken[-1].answer() or _answer(rows)  # a row has no room for a long one
        closing = [] if spoken[-1].tells_its_end else self._closing(rows, answer)
        sample: Plain = {
            "id": trial.ids.task_id,
            "epoch": trial.ids.repl_idx + 1,
            "input": _input(task),
            "target": _text(task.target) if task.has_target else "",
            "sandbox": {"type": self._variant.sandbox.kind, "config": task.image},
            "files": [file.path for file in task.files],
            "messages": messages,
            "output": self._output(answer),
            "scores": self._scores(trial, rows, answer),
            "metadata": _metadata(rows, task),
            "store": {},
            "events": [*self._opening(task, times[0]), *events[-1], *closing],
            "model_usage": sum_usage(self._model, [*earlier, *times], spoken),
            "role_usage": {},
            "started_at": to_utc(times[0].started_at),
            "completed_at": to_utc(times[-1].ended_at),
            "total_time": sum(sum(attempt.phases_s.values()) for attempt in times),
            "working_time": times[-1].phases_s.get("agent", 0.0),
            "uuid": canonical.digest((trial.ids.run_id, trial.ids.trial_id))[7:29],
            "error_retries": [*_earlier_retries(earlier), *_retries(trial.attempts, times, events)],
            "attachments": {name: text for talk in spoken for name, text in talk.attachments.items()},
        }
        return sample | self._ending(trial, times[-1])

    def _ending(self, trial: TrialRow, last: AttemptTiming) -> Plain:
        """What only some samples have."""
        told: Plain = {}
        if trial.outcome != "graded":
            told["error"] = _error(trial.attempts[-1], last)
        if trial.ended_by is not None:
            told["limit"] = {"type": _LIMITS.get(trial.ended_by, "custom"), "limit": -1.0}
        mark = self._marks.get(trial.ids.trial_id)
        if mark is not None:
            told["invalidation"] = {"timestamp": to_utc(mark.at), "author": mark.who, "reason": mark.reason}
        return told

    def _output(self, answer: str | None) -> Plain:
        if answer is None:
            return {"model": self._model, "choices": [], "completion": ""}
        message = {"role": "assistant", "content": answer, "source": "generate", "model": self._model}
        choice = {"message": message, "stop_reason": "stop"}
        return {"model": self._model, "choices": [choice], "completion": answer}

    def _scores(self, trial: TrialRow, rows: SlotRows, answer: str | None) -> Plain:
        if trial.outcome != "graded":
            return {}
        main = _score(self._measure, trial, rows, answer)
        recorded = read_scores(self._seen.paths, rows)
        told = {name: make_score(plain) for name, plain in recorded.items()}
        if self._measure in told:  # as its scorer gave it
            own = told.pop(self._measure)
            kept = {name: value for name, value in own.items() if value is not None}
            main |= kept | {"metadata": {**main["metadata"], **kept.get("metadata", {})}}
        return {self._measure: main, **told}

    def _events(self, rows: SlotRows, attempt: int) -> list[Plain]:
        """An attempt's own events, as information in the transcript."""
        times = next(each for each in rows.timing.attempts if each.attempt == attempt)
        folder = self._folder(rows, attempt)
        return [_info(canonical.decode_plain(bytes(event)), times) for event in read_agent_events(folder)]

    def _folder(self, rows: SlotRows, attempt: int) -> Path:
        """Where an attempt's files lie; one that was cut off may have been set aside."""
        cut = newest_attempt(rows.timing.cut_off) if rows.trial.outcome == "cancelled" else None
        return self._seen.paths.trial(rows.trial_id) / (cut or str(attempt))

    def _read_transcript(self, rows: SlotRows, attempt: int, live: Mapping[int, bytes]) -> Conversation:
        times = next(each for each in rows.timing.attempts if each.attempt == attempt)
        named = None if rows.trial.outcome == "cancelled" else times.logs
        told = read_said(self._folder(rows, attempt), named)
        if not told:
            lines = map(canonical.decode_plain, live.get(attempt, b"").splitlines())
            told = [event for event in lines if isinstance(event, dict) and "event" in event]
        return Conversation(told, lambda at: to_utc(at if isinstance(at, str) else times.started_at))

    def _opening(self, task: TaskSpec, first: AttemptTiming) -> list[Plain]:
        sample = {
            "id": task.id,
            "input": _input(task),
            "target": _text(task.target) if task.has_target else "",
        }
        return [
            {
                "event": "sample_init",
                "timestamp": to_utc(first.started_at),
                "working_start": 0.0,
                "sample": sample,
                "state": {},
            }
        ]

    def _closing(self, rows: SlotRows, answer: str | None) -> list[Plain]:
        trial, last = rows.trial, rows.timing.attempts[-1]
        common = {"timestamp": to_utc(last.ended_at), "working_start": last.phases_s.get("agent", 0.0)}
        if trial.outcome != "graded":
            return [common | {"event": "error", "error": _error(trial.attempts[-1], last)}]
        score = _score(self._measure, trial, rows, answer)
        return [common | {"event": "score", "score": score, "scorer": self._measure}]


def _info(event: object, times: AttemptTiming) -> Plain:
    at = event.get("at") if isinstance(event, dict) else None
    return {
        "event": "info",
        "timestamp": to_utc(at if isinstance(at, str) else times.started_at),
        "working_start": 0.0,
        "source": "agent",
        "data": event,
    }


def make_error(message: str, traceback: str | None = None) -> Plain:
    """An error as that format has it."""
    return {"message": message, "traceback": traceback or "", "traceback_ansi": traceback or ""}


def model_name(variant: Variant) -> str:
    """What stands where that format names a model: a Python task's, the binding `model`, else the variant."""
    if variant.program is not None and variant.program.model:
        return variant.program.model
    model = variant.bindings.get("model")
    return model if isinstance(model, str) and model else f"labrunner/{variant.id}"


def reduce_scores(seen: RunInFull, variant: Variant, measure: str) -> list[Plain]:
    """Each task's mean over its epochs."""
    means = mean_scores(seen, variant, measure)
    samples = [{"value": value, "sample_id": task_id} for task_id, value in means.items()]
    return [{"scorer": measure, "reducer": "mean", "samples": samples}] if samples else []


def mean_scores(seen: RunInFull, variant: Variant, measure: str) -> dict[str, float]:
    """Each graded task's mean over its epochs, by id."""
    tally = seen.results.tally.variants.get(variant.id)
    return {
        task_id: (cell.passed if measure == PASS else cell.total) / cell.graded
        for task_id, cell in (tally.cells if tally else {}).items()
        if cell.graded
    }


def to_utc(stamp: str) -> str:
    """A time as that format writes it; the beginning of 1970 where ours is none."""
    try:
        moment = datetime.fromisoformat(stamp)
    except ValueError:
        moment = datetime.fromtimestamp(0, UTC)
    return moment.astimezone(UTC).isoformat()


def _summarise(sample: Plain) -> Plain:
    """The thin copy of a sample that lists show."""
    kept = ("id", "epoch", "target", "scores", "model_usage", "role_usage", "started_at", "completed_at")
    thin = {name: sample[name] for name in (*kept, "total_time", "working_time", "uuid")}
    told = thin | {
        "input": sample["input"][:LONGEST_INPUT],
        "metadata": _thin(sample["metadata"]),
        "retries": len(sample["error_retries"]),
        "completed": True,
        "message_count": len(sample["messages"]),
    }
    if "error" in sample:
        told["error"] = sample["error"]["message"]
    if "limit" in sample:
        told["limit"] = sample["limit"]["type"]
    return told


def _thin(metadata: Plain) -> Plain:
    """What a list can show of metadata: words and numbers."""
    return {
        name: value
        for name, value in metadata.items()
        if isinstance(value, int | float | bool) or (isinstance(value, str) and len(value) <= LONGEST_VALUE)
    }


def _score(measure: str, trial: TrialRow, rows: SlotRows, answer: str | None) -> Plain:
    value = float(trial.verdict == "pass") if measure == PASS else trial.primary_metric_value
    score = rows.scores[0] if rows.scores else None
    return {
        "value": value,
        "answer": answer,
        "explanation": f"verdict: {trial.verdict}",
        "metadata": {
            "verdict": trial.verdict,
            "primary_metric_name": trial.primary_metric_name,
            "metrics": score.metrics if score else {},
            "evaluator": score.evaluator.name if score else None,
        },
    }


def _metadata(rows: SlotRows, task: TaskSpec) -> Plain:
    """The author's own, and what has no place elsewhere; where names meet, ours stand under `labrunner`."""
    ours, own = _own_metadata(rows, task), dict(task.metadata)
    met = {name: value for name, value in ours.items() if name in own}
    return {**ours, **own, **({"labrunner": met} if met else {})}


def _own_metadata(rows: SlotRows, task: TaskSpec) -> Plain:
    trial = rows.trial
    named = {"tags": task.tags, "group": task.group}
    return {name: value for name, value in named.items() if value} | {
        "trial_id": trial.ids.trial_id,
        "variant_id": trial.ids.variant_id,
        "schedule_idx": trial.schedule_idx,
        "attempts": len(trial.attempts),
        "verdict": trial.verdict,
        "cause": trial.cause,
        "reason": trial.reason,
        "ended_by": trial.ended_by,
        "flags": trial.flags,
        "barrier": trial.barrier,
        "task_digest": trial.task_digest,
        "phases_s": rows.timing.attempts[-1].phases_s,
        "usage": rows.timing.attempts[-1].usage,
    }


def _messages(task: TaskSpec, rows: SlotRows, events: Sequence[Plain]) -> list[Plain]:
    """The conversation: messages among the agent's events, else the input and what was predicted."""
    told = [message for event in events for message in find_messages(event["data"])]
    if told:
        return told
    answer = _answer(rows)
    asked: Plain = {"role": "user", "content": _input(task), "source": "input"}
    return (
        [asked] if answer is None else [asked, {"role": "assistant", "content": answer, "source": "generate"}]
    )


def _earlier_retries(attempts: Sequence[EarlierAttempt]) -> Iterator[Plain]:
    """Errors in earlier runs of the lineage; their transcripts are theirs."""
    for attempt in attempts:
        if attempt.cause is not None:
            told = f"{attempt.cause} ({attempt.reason}) in {attempt.run_id}: {attempt.message or ''}"
            yield make_error(told.rstrip(": ")) | {"events": []}


def _retries(
    facts: Sequence[AttemptFact], times: Sequence[AttemptTiming], events: Sequence[list[Plain]]
) -> Iterator[Plain]:
    for fact, time, told in list(zip(facts, times, events, strict=True))[:-1]:
        yield _error(fact, time) | {"events": told}


def _error(fact: AttemptFact, time: AttemptTiming) -> Plain:
    why = f"{fact.cause} ({fact.reason})" if fact.cause is not None else fact.reason
    return make_error(f"{why}: {time.message or ''}".rstrip(": "), time.traceback)


def _answer(rows: SlotRows) -> str | None:
    return _text(rows.predictions[0].prediction.value) if rows.predictions else None


def _input(task: TaskSpec) -> str:
    return task.prompt if task.prompt is not None else _text(task.input)


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)
