"""A run with everything in it: passes, fails, errors, retries, limits, events, marks, owed slots."""

from dataclasses import replace
from pathlib import Path

from labrunner.experiment.schedule import Slot
from labrunner.records.cause import Cause
from labrunner.records.completion import FileRef
from labrunner.records.encoding import canonical
from labrunner.records.encoding.ids import make_trial_id
from labrunner.runner.reports.lookup import RunInFull, read_in_full
from labrunner.store.layout import RunPaths
from tests.kit.builders import make_experiment, make_policy, make_task, make_variant
from tests.kit.made_runs import Told, mark, write_run

EVENTS = FileRef(path="state/events.jsonl", digest="sha256:" + "0" * 64, size=1)
HOSTILE = "</script><b>&\"'|`\x1b[2J\x00 ]]> end"
TASKS = ("plain", "odd/<task> & 'more'", "t2")


def script(slot: Slot) -> Told | None:
    """Replication 1 of the last task of the second variant is owed; the rest ended in different ways."""
    match (slot.variant_idx, slot.task_idx, slot.repl_idx):
        case (1, 2, 1):
            return None
        case (0, 1, 0):
            return Told(value=None, errors=(Cause.SANDBOX, Cause.GRADE_ERROR))
        case (0, 2, 0):
            return Told(value=0.25, passes=False, ended_by="timeout", metric="share", usage={"tokens": 10})
        case (1, 0, 0):
            return Told(value=1.0, metric="share", errors=(Cause.PROVIDER,), logs=(EVENTS,), prediction="42")
        case _:
            return Told(
                value=1.0,
                metric="share",
                prediction=HOSTILE,
                metrics={"steps": 3},
                usage={"tokens": 100, "cost_usd": 0.5},
                agent_s=2.0,
                logs=(EVENTS,),
            )


def make_run(folder: Path) -> RunPaths:
    tasks = (
        make_task(TASKS[0], prompt="what is 6 x 7?", target="42", has_target=True),
        make_task(TASKS[1], input={"question": "?"}, target={"any": ["json"]}, has_target=True),
        make_task(TASKS[2], tags=("x",), metadata={"level": 3, "barrier": "the author's"}),
    )
    experiment = make_experiment(
        name="export & <test>",
        tasks=tasks,
        variants=(make_variant("base"), make_variant("new", bindings={"model": "openai/big"})),
        replications=2,
        policy=make_policy(fail_on_error=False, retry_on_error=1),
    )
    paths = write_run(
        folder, replace(experiment, tags=("nightly",)), script, run_id="exported", status="cancelled"
    )
    leave_events(paths)
    mark(paths, make_trial_id("base", TASKS[2], 1), 8, f"leaked {HOSTILE}")
    return paths


def leave_events(paths: RunPaths) -> None:
    events = [
        {"type": "step", "n": 1},
        {
            "event": "message",
            "at": "2026-01-01T00:00:05.000Z",
            "message": {"role": "user", "content": "6 x 7?"},
        },
        {
            "event": "message",
            "message": {
                "role": "assistant",
                "content": "let me see",
                "tool_calls": [{"id": "c1", "function": "bash", "arguments": {"cmd": "bc"}}],
            },
        },
        {"event": "message", "message": {"role": "tool", "content": "42", "tool_call_id": "c1"}},
        {"role": "assistant", "content": "42"},
    ]
    trial = make_trial_id("new", TASKS[0], 0)
    for attempt, told in ((1, events[:1]), (2, events)):
        state = paths.attempt(trial, attempt) / "state"
        state.mkdir(parents=True)
        (state / "events.jsonl").write_bytes(b"".join(canonical.encode_line(event) for event in told))


def make_picture(folder: Path) -> RunInFull:
    return read_in_full(make_run(folder))
