"""What is checked of the run that a new one replays, before anything is started: are all recordings there?

Rules: every trial of the new run is looked for by its task, variant and replication; what is not there, or
not as it was written, is refused by the trial's name. Where answers are only reused, what is missing is no
problem: then the provider is asked.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from labrunner.errors import LabError
from labrunner.experiment.options.table import flag
from labrunner.experiment.resolved import Experiment
from labrunner.experiment.schedule import Schedule
from labrunner.gateway.replaying.spoken import find_flaw, join_spoken
from labrunner.records.encoding.ids import make_trial_id
from labrunner.records.facts.model_call import PYTHON, CallRow
from labrunner.records.facts.transcript_events import Event
from labrunner.records.rows import SlotRows
from labrunner.sandbox.door import Check
from labrunner.store.layout import RunPaths
from labrunner.store.reading.recordings import (
    read_attempt_bodies,
    read_attempt_calls,
    read_attempt_transcript,
)
from labrunner.store.reading.run_state import iter_finished

NAMED: Final = 3
_NAME: Final = "replay"


def check_replay(experiment: Experiment) -> Iterator[Check]:
    """Whether a run can answer the calls of this experiment; nothing where none is to."""
    policy = experiment.policy
    if policy.replay is None:
        return
    if not any(variant.models or variant.program is not None for variant in experiment.variants):
        told = f"no agent has a model, so {flag('replay')} answers nothing"
        yield Check(name=_NAME, passed=False, message=told)
    else:
        yield _check_recordings(experiment, RunPaths(Path(policy.replay)))


def _check_recordings(experiment: Experiment, paths: RunPaths) -> Check:
    problems: dict[str, str] = {}
    owed, calls = set(_name_trials(experiment)), 0
    try:
        for rows in iter_finished(paths, owed.__contains__):
            owed.discard(rows.trial_id)
            try:
                calls += _count_playable(paths, rows)
            except LabError as error:
                problems[rows.trial_id] = str(error)
    except LabError as error:
        return Check(name=_NAME, passed=False, message=f"{paths.root} can't be read: {error}")
    if experiment.policy.replay_mode == "reuse":
        told = f"{paths.root.name} has {calls:,} recorded calls; what is not among them is asked for"
        return Check(name=_NAME, passed=True, message=told)
    problems |= dict.fromkeys(sorted(owed), "it is not among the finished trials of that run")
    if problems:
        return Check(name=_NAME, passed=False, message=_tell(paths, problems))
    return Check(name=_NAME, passed=True, message=f"{paths.root.name} answers: {calls:,} recorded calls")


def _count_playable(paths: RunPaths, rows: SlotRows) -> int:
    """How many calls can be answered as they were. Raises LabError."""
    folder = paths.attempt(rows.trial_id, rows.attempt)
    logs = rows.timing.attempts[-1].logs
    calls = read_attempt_calls(folder, logs)
    if any(call.protocol == PYTHON for call in calls):
        return _count_spoken(calls, read_attempt_transcript(folder, logs))
    bodies = read_attempt_bodies(folder, logs)
    for call in calls:
        for digest in (call.request, call.answer):
            if digest is not None and digest not in bodies:
                raise LabError(f"a body of call {call.ordinal + 1} is not kept")
        if call.answer is not None and bodies[call.answer].masked:
            raise LabError(f"a secret was masked in the answer of call {call.ordinal + 1}")
    return len(calls)


def _count_spoken(calls: Sequence[CallRow], events: Sequence[Event]) -> int:
    """The same for calls of a Python task. Raises LabError."""
    spoken = join_spoken(calls, events)
    for flaw in filter(None, map(find_flaw, spoken)):
        raise LabError(flaw)
    return len(spoken)


def _name_trials(experiment: Experiment) -> Iterator[str]:
    for slot in Schedule.of(experiment):
        variant, task = experiment.variants[slot.variant_idx], experiment.tasks[slot.task_idx]
        if variant.models or variant.program is not None:
            yield make_trial_id(variant.id, task.id, slot.repl_idx)


def _tell(paths: RunPaths, problems: dict[str, str]) -> str:
    named = [f"{trial}: {why}" for trial, why in list(problems.items())[:NAMED]]
    more = f"; and {len(problems) - NAMED:,} more" if len(problems) > NAMED else ""
    return (
        f"{paths.root.name} can't answer {len(problems):,} of the trials: {'; '.join(named)}{more}; "
        f"choose fewer trials, or ask the provider for what is missing: {flag('replay_mode')} reuse"
    )
