"""What `lab show RUN TRIAL` prints: judgement, attempts with phases and exit facts, causes, tails of logs.

Rule: logs, messages and tracebacks come from sandboxes: they pass through `safetext`, always.
"""

import json
import signal
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from rich.console import RenderableType
from rich.text import Text

from labrunner.display.text.console import indent, make_fields, make_hints, make_line, make_table, stack
from labrunner.display.text.quantities import format_count, format_seconds
from labrunner.display.text.safetext import clip, sanitise, take_tail
from labrunner.display.trials.conversation import PARTLY, Extent, show_conversation
from labrunner.display.trials.hosts_asked import show_hosts
from labrunner.display.trials.lineage import show_earlier
from labrunner.experiment.options.table import flag
from labrunner.records.barrier import FRESH, explain_barrier
from labrunner.records.completion import AttemptFact, AttemptTiming, PhaseFact
from labrunner.records.facts.door_event import DoorEvent
from labrunner.records.facts.earlier import EarlierAttempt
from labrunner.records.facts.exit_status import NOT_EXECUTABLE, NOT_FOUND
from labrunner.records.facts.invalidation import InvalidationRow
from labrunner.records.rows import PredictionRow, ScoreRow, TimingRow, TrialRow

TAIL_LINES: Final = 20
PATCH_LINES: Final = 60
SHOWN_PATHS: Final = 8
"""Of the paths that an agent changed outside its folders."""
TRANSCRIPT: Final = "transcript.jsonl"
_PHASES: Final = ("prepare", "setup", "agent", "barrier", "bring_grader", "grader", "collect")
"""Phases in the order in which they happen; records have them by name."""
_SHELL_SAYS: Final = {NOT_EXECUTABLE: "can't be executed?", NOT_FOUND: "no such command?"}
"""What these statuses mean by custom; a program may use them for something else."""


def show_trial(  # noqa: PLR0913 - what a page is made of
    row: TrialRow,
    timing: TimingRow | None,
    *,
    logs: Mapping[str, str],
    judged: Sequence[PredictionRow | ScoreRow] = (),
    earlier: Sequence[EarlierAttempt] = (),
    hints: Sequence[tuple[str, str]] = (),
    extent: Extent = PARTLY,
    doors: Sequence[DoorEvent] = (),
    mark: InvalidationRow | None = None,
) -> RenderableType:
    """Show a trial; `logs` are texts of the last attempt by name, `hints` say where to look next.

    `mark` is there where somebody marked it as not to be used.
    """
    times = {each.attempt: each for each in timing.attempts} if timing else {}
    return stack(
        make_line(verdict_line(row), "bold"),
        make_line(describe_mark(mark), "yellow") if mark else None,
        make_fields([*_identity(row, timing), *(field for each in judged for field in _describe(each))]),
        *(block for each in judged for block in _show_patch(each)),
        show_earlier(earlier),
        *(_show_attempt(fact, times.get(fact.attempt)) for fact in row.attempts),
        show_hosts(doors),
        *(show_log(name, text, extent) for name, text in logs.items() if text),
        make_hints(hints),
    )


def verdict_line(row: TrialRow) -> str:
    """Say in one line how a trial ended."""
    if row.outcome == "cancelled":
        return f"{row.ids.trial_id}: never finished, owed"
    if row.outcome == "failed":
        return f"{row.ids.trial_id}: no grade, cause {row.cause} ({row.reason})"
    told = f"{row.ids.trial_id}: {row.verdict}, {row.primary_metric_name} = {row.primary_metric_value:g}"
    return f"{told}, ended by {row.ended_by}" if row.ended_by else told


def describe_mark(mark: InvalidationRow) -> str:
    """Say that a trial is not to be used, who says so, and why."""
    return f"marked as not to be used by {mark.who} at {mark.at}, so no figure holds it: {mark.reason}"


def describe_phase(fact: PhaseFact) -> str:
    """Say how a phase ended."""
    reasons = [
        word
        for word, holds in (
            ("timed out", fact.timed_out),
            ("out of memory", fact.oom_killed),
            ("over its disk limit", fact.over_disk),
        )
        if holds
    ]
    if fact.exit_status is not None:
        reasons.append(_describe_exit(fact.exit_status))
    return ", ".join(reasons) or "ended by the runner"


def _describe_exit(status: int) -> str:
    if status in _SHELL_SAYS:
        return f"exit {status} ({_SHELL_SAYS[status]})"
    if status > 128:
        try:
            return f"exit {status} ({signal.Signals(status - 128).name})"
        except ValueError:
            return f"exit {status}"
    return f"exit {status}"


def _identity(row: TrialRow, timing: TimingRow | None) -> list[tuple[str, str]]:
    fields = [
        ("task", row.ids.task_id),
        ("variant", row.ids.variant_id),
        ("replication", str(row.ids.repl_idx)),
        ("slot", str(row.schedule_idx)),
        ("barrier", explain_barrier(row.barrier)),
    ]
    if row.barrier == FRESH and "system_changed" in row.flags:
        fields.append(("judged", "in a fresh container, because the agent changed the system of its own"))
    if row.flags:
        fields.append(("flags", ", ".join(row.flags)))
    if timing and timing.cut_off:
        fields.append(("cut off", ", ".join(timing.cut_off)))
    if timing and timing.edited:
        fields.append(("code", f"an earlier version, taken over with {flag('reuse_edited')}"))
    fields.extend(("file", f"{file.path}  {file.size} B  {file.digest}") for file in row.files)
    return fields


def _describe(judged: PredictionRow | ScoreRow) -> Iterator[tuple[str, str]]:
    """What was predicted, and the figures that the verdict does not tell."""
    if isinstance(judged, PredictionRow):
        if _patch_of(judged):
            return
        value = judged.prediction.artifact_ref or judged.prediction.value
        yield "prediction", clip(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
        return
    told = [
        f"{name} = {value}" for name, value in judged.metrics.items() if name != judged.primary_metric_name
    ]
    if told:
        yield "metrics", clip(", ".join(told))


def _patch_of(judged: PredictionRow | ScoreRow) -> str:
    """A prediction of several lines, such as a patch; empty for any other."""
    value = judged.prediction.value if isinstance(judged, PredictionRow) else None
    return value if isinstance(value, str) and "\n" in value.strip() else ""


def _show_patch(judged: PredictionRow | ScoreRow) -> Iterator[RenderableType]:
    """Show a prediction of several lines as it is."""
    if patch := _patch_of(judged):
        lines = sanitise(patch).rstrip("\n").split("\n")
        left_out = len(lines) - PATCH_LINES
        yield make_line("")
        yield make_line("prediction:", "dim")
        yield indent(Text("\n".join(clip(line) for line in lines[:PATCH_LINES])))
        if left_out > 0:
            yield indent(make_line(f"({left_out:,} more lines; {flag('json')} has them)", "dim"))


def _show_attempt(fact: AttemptFact, timing: AttemptTiming | None) -> RenderableType:
    told = f"attempt {fact.attempt}: {fact.outcome}"
    if fact.cause is not None:
        told += f", cause {fact.cause} ({fact.reason})"
    if timing is not None:
        told += f"; {timing.started_at}, {timing.sandbox} on {timing.node or timing.host}"
    return stack(
        make_line(""),
        make_line(told, "red" if fact.cause else ""),
        indent(make_table(("phase", "took", "ended"), _phase_rows(fact, timing), numbers=("took",))),
        *_show_words(timing),
        indent(make_fields(fields)) if (fields := _agent_fields(timing)) else None,
    )


def _agent_fields(timing: AttemptTiming | None) -> list[tuple[str, str]]:
    """What the agent said of itself, and what it left or changed where nobody would look."""
    if timing is None:
        return []
    fields = []
    if timing.agent_outcome is not None:
        fields.append(("agent says", timing.agent_outcome))
    if timing.agent_error is not None:
        fields.append(("its error", clip(timing.agent_error)))
    if timing.left_nothing:
        fields.append(("agent left", "nothing: it changed and handed in nothing"))
    changed = str(timing.barrier.get("changed", "")).splitlines()
    if changed:
        more = int(timing.barrier.get("system_changes", 0)) - SHOWN_PATHS
        fields.append(
            ("changed", ", ".join(changed[:SHOWN_PATHS]) + (f", and {more:,} more" if more > 0 else ""))
        )
    return [*fields, *_layer_fields(timing)]


def _layer_fields(timing: AttemptTiming) -> list[tuple[str, str]]:
    """What was taken of work in a folder of the image."""
    facts, fields = timing.barrier, []
    if "layer_entries" in facts:
        told = f"{int(facts['layer_entries']):,} files and folders written, "
        told += f"{int(facts['layer_removed']):,} removed"
        left_out = facts.get("layer_left_out")
        fields.append(("layer", f"{told}; left out: {left_out}" if left_out else told))
    elif "layer" in facts:
        fields.append(("layer", f"none: {facts['layer']}"))
    if "patch" in facts:
        fields.append(("patch", str(facts["patch"])))
    return fields


def _phase_rows(fact: AttemptFact, timing: AttemptTiming | None) -> list[tuple[str, str, str]]:
    known = {"setup": fact.setup, "agent": fact.agent, "grader": fact.grader}
    seconds = timing.phases_s if timing else {}
    met = {*seconds, *(name for name, phase in known.items() if phase is not None)}
    names = [*(name for name in _PHASES if name in met), *sorted(met.difference(_PHASES))]
    rows = []
    for name in names:
        phase = known.get(name)
        took = format_seconds(seconds[name]) if name in seconds else ""
        ended = describe_phase(phase) if phase is not None else ""
        if name == "grader" and fact.grader_tries > 1:
            ended += f", at try {fact.grader_tries}"
        rows.append((name, took, ended))
    return rows


def _show_words(timing: AttemptTiming | None) -> list[RenderableType]:
    if timing is None:
        return []
    texts = [text for text in (timing.message, timing.traceback) if text]
    notes = [f"{format_count(count, 'secret')} masked in {path}" for path, count in timing.masked.items()]
    notes += [f"{path} was not kept: {why}" for path, why in timing.dropped.items()]
    return [
        *(indent(Text(take_tail(text, TAIL_LINES))) for text in texts),
        *(indent(make_line(note, "yellow")) for note in notes),
    ]


def show_log(name: str, text: str, extent: Extent = PARTLY) -> RenderableType:
    """Show the end of a log, or a transcript as a conversation."""
    shown = show_conversation(text, extent) if name == TRANSCRIPT else None
    heading = "conversation" if shown is not None else name
    return stack(
        make_line(""), make_line(f"{heading}:", "dim"), indent(shown or Text(take_tail(text, TAIL_LINES)))
    )
