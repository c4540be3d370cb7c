"""A sample as Python users read it: its rows joined with its transcript."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from labrunner.experiment.resolved import TaskSpec
from labrunner.records.completion import AttemptFact, AttemptTiming
from labrunner.records.facts.earlier import EarlierAttempt
from labrunner.records.facts.transcript_events import (
    known_messages,
    last_call,
    read_conversation,
    read_events,
)
from labrunner.records.rows import SlotRows
from labrunner.runner.reports.gaps import newest_attempt
from labrunner.solve.resolving.sample_rows import read_sample
from labrunner.solve.values.messages import (
    ChatMessage,
    ChatMessageAssistant,
    ModelOutput,
    ModelUsage,
    from_plain,
)
from labrunner.solve.values.score import Score
from labrunner.store.buffering.transcripts import TRANSCRIPT
from labrunner.store.layout import RunPaths
from labrunner.store.reading.fullscores import read_scores


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleError:
    """Why an attempt has no score."""

    message: str
    cause: str
    reason: str
    traceback: str | None = None
    attempt: int = 1
    run_id: str = ""
    """The run that the attempt was made in, where that is an earlier one of the lineage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleLimit:
    """The limit that an attempt ran into."""

    type: str
    limit: float | int | None


class EvalSample:
    """A sample. Rows are at hand; the transcript is read when it is asked for."""

    def __init__(
        self,
        *,
        rows: SlotRows,
        task: TaskSpec,
        paths: RunPaths,
        live: Mapping[int, bytes] | None = None,
        earlier: Sequence[EarlierAttempt] = (),
    ) -> None:
        """Join a sample's rows with what they refer to, and with what earlier runs tried.

        `live` holds what no file holds yet, by attempt.
        """
        self._rows = rows
        self._live = live or {}
        self._earlier = [attempt for attempt in earlier if attempt.standing != "changed"]
        self._paths = paths
        given = read_sample(task)
        self.id = rows.trial.ids.task_id
        self.epoch = rows.trial.ids.repl_idx + 1
        self.input = given.input
        self.choices = given.choices
        self.target = given.target
        self.metadata: Mapping[str, Any] = given.metadata or {}  # any JSON: the author's own
        self.trial_id = rows.trial_id
        self.attempts = len(rows.trial.attempts) + sum(attempt.is_reroll for attempt in self._earlier)

    @property
    def scores(self) -> dict[str, Score] | None:
        """Scores by scorer; None for a sample that failed."""
        if not self._rows.scores:
            return None
        row = self._rows.scores[0]
        scores = {name: _score(plain) for name, plain in read_scores(self._paths, self._rows).items()}
        if "command" in row.metrics or not scores:
            scores.setdefault("command", Score(row.primary_metric_value))
        return scores

    @property
    def score(self) -> Score | None:
        """The first scorer's score: the one that decides."""
        scores = self.scores
        if not scores:
            return None
        return scores.get(self._rows.scores[0].primary_metric_name) or next(iter(scores.values()))

    @property
    def error(self) -> SampleError | None:
        """Why the sample failed, if it did."""
        trial = self._rows.trial
        if trial.outcome == "graded":
            return None
        if not trial.attempts:
            return SampleError(message="the run ended before the sample did", cause="", reason=trial.outcome)
        return _error(trial.attempts[-1], self._timing(trial.attempts[-1].attempt))

    @property
    def error_retries(self) -> list[SampleError]:
        """Errors of the attempts before the last one, those of earlier runs of the lineage first."""
        before = [_earlier_error(attempt) for attempt in self._earlier if attempt.cause is not None]
        return before + [_error(fact, self._timing(fact.attempt)) for fact in self._rows.trial.attempts[:-1]]

    @property
    def limit(self) -> SampleLimit | None:
        """The limit that ended the solver, if one did."""
        kind = self._rows.trial.ended_by
        if kind is None:
            return None
        names = {"time": "time_s", "working_time": "working_s", "cost": "cost_usd"}
        limits = self._timing(self._rows.attempt).limits
        value = limits.get(names.get(kind, kind))
        return SampleLimit(type=kind, limit=value if isinstance(value, int | float) else None)

    @property
    def model_usage(self) -> ModelUsage:
        """What all attempts took, those of earlier runs of the lineage included."""
        total = ModelUsage()
        before = [attempt.usage for attempt in self._earlier]
        for usage in before + [timing.usage for timing in self._rows.timing.attempts]:
            cost = usage.get("cost_usd")
            total = total + ModelUsage(
                input_tokens=int(usage.get("input_tokens", 0)),
                output_tokens=int(usage.get("output_tokens", 0)),
                total_tokens=int(usage.get("tokens", 0)),
                cost_usd=None if cost is None else float(cost),
            )
        return total

    @property
    def total_time(self) -> float:
        """Seconds that all attempts took."""
        return sum(
            (datetime.fromisoformat(each.ended_at) - datetime.fromisoformat(each.started_at)).total_seconds()
            for each in self._rows.timing.attempts
        )

    @property
    def working_time(self) -> float:
        """Seconds that all attempts worked."""
        return sum(float(each.usage.get("working_s", 0.0)) for each in self._rows.timing.attempts)

    @cached_property
    def events(self) -> list[dict[str, Any]]:
        """The last attempt's transcript; of a sample that was cut off, as far as it came."""
        folder = newest_attempt(self._rows.timing.cut_off) if not self._rows.timing.attempts else None
        return self._read_events(folder or str(self._rows.attempt))

    def attempt_events(self, attempt: int) -> list[dict[str, Any]]:
        """An attempt's transcript; empty where there is none."""
        return self._read_events(str(attempt))

    def _read_events(self, folder: str) -> list[dict[str, Any]]:
        path = self._paths.trial(self.trial_id) / folder / TRANSCRIPT
        if path.is_file():
            return read_events(path.read_bytes())
        return read_events(self._live.get(int(folder), b"")) if folder.isdecimal() else []

    @property
    def messages(self) -> list[ChatMessage]:
        """The conversation as the solver left it; of an attempt that failed, as far as it came."""
        return [from_plain(message) for message in read_conversation(self.events)]

    @property
    def output(self) -> ModelOutput:
        """The last answer, as the solver left it."""
        known = known_messages(self.events)
        solved = next((event for event in self.events if event["event"] == "scoring"), None)
        last = solved or last_call(self.events)
        if last is None:
            return ModelOutput()
        message = from_plain(known[last["output"]])
        assert isinstance(message, ChatMessageAssistant)
        return ModelOutput(model=last["model"], message=message, stop_reason=last["stop_reason"])

    def __repr__(self) -> str:
        """Id, epoch and score."""
        return f"EvalSample(id={self.id!r}, epoch={self.epoch}, score={self.score!r}, error={self.error!r})"

    def _timing(self, attempt: int) -> AttemptTiming:
        return next(each for each in self._rows.timing.attempts if each.attempt == attempt)


def _score(plain: Mapping[str, Any]) -> Score:
    answer = plain.get("answer")
    return Score(plain["value"], answer, plain.get("explanation", answer), plain.get("metadata"))


def _earlier_error(attempt: EarlierAttempt) -> SampleError:
    return SampleError(
        message=attempt.message or "",
        cause=str(attempt.cause),
        reason=attempt.reason or "",
        attempt=attempt.attempt,
        run_id=attempt.run_id,
    )


def _error(fact: AttemptFact, timing: AttemptTiming) -> SampleError:
    return SampleError(
        message=timing.message or "",
        cause=str(fact.cause) if fact.cause is not None else "",
        reason=fact.reason or "",
        traceback=timing.traceback,
        attempt=fact.attempt,
    )
