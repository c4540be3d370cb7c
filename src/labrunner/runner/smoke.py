"""An attempt whose agent does nothing: its doors are opened for real, and no grader may pass it."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from labrunner.executor.door import Discard, Executor, find_places
from labrunner.experiment.resolved import Experiment
from labrunner.experiment.schedule import Slot
from labrunner.files.scraps import SMOKE, scrap_folder
from labrunner.files.uninterrupted import wait_out
from labrunner.records.barrier import BarrierNote
from labrunner.records.completion import Completion, Failed, Graded
from labrunner.records.encoding.ids import make_token, make_trial_id
from labrunner.runner.start import RunOptions, make_executor
from labrunner.runner.upkeep.preflight import way_to
from labrunner.sandbox.door import Check
from labrunner.sandbox.ways import tell_way
from labrunner.trial.assignment import Assignment

UNREACHED: Final = frozenset({"network", "gateway", "gateway_not_planted"})
"""Reasons of attempts whose doors could not be opened."""


class Deaf:
    """Hears of an attempt, and does nothing about it: nobody will ever go on with this one."""

    def placed(self, token: str, node: str) -> None:
        """Nothing to note."""

    async def barrier_held(self, token: str, note: BarrierNote) -> None:
        """Nothing to note."""

    async def grader_starting(self, token: str) -> None:
        """Nothing to note."""

    def sandbox_gone(self, token: str) -> None:
        """Nothing to do."""

    def add_event(self, assignment: Assignment, seq: int, line: bytes) -> None:
        """Nothing to keep."""


async def smoke(experiment: Experiment, options: RunOptions) -> list[Check]:
    """Grade the first task after an agent that does nothing, and say how it would have reached its models."""
    idle = _idle(experiment)
    task, variant = idle.tasks[0], idle.variants[0]
    assignment = Assignment(
        token=make_token(),
        slot=Slot(schedule_idx=0, variant_idx=0, task_idx=0, repl_idx=0),
        trial_id=make_trial_id(variant.id, task.id, 0),
        attempt=1,
    )
    place = next(folder for folder in way_to(options.runs_dir) if folder.is_dir())
    with scrap_folder(SMOKE, place) as folder:
        trials = folder.resolve() / "trials"
        trials.mkdir()
        executor = make_executor(idle, options, "smoke", trials)
        try:
            completion = await _carry_out(executor, assignment)
            if isinstance(completion, str):
                return [Check(name="grader", passed=False, message=f"was not tried: {completion}")]
            await executor.release(assignment, Discard(workspace=True, logs=True))
        finally:
            await executor.close()
    return [*judge_reach(completion), judge(completion, task.id)]


async def _carry_out(executor: Executor, assignment: Assignment) -> Completion | str:
    """How an attempt ended; where its places are gone for good it never does: why."""
    places = find_places(executor)
    if places is None:
        return await executor.carry_out(assignment, Deaf())
    changed = asyncio.Event()
    await places.open(changed.set)
    work = asyncio.ensure_future(executor.carry_out(assignment, Deaf()))
    work.add_done_callback(lambda _: changed.set())
    try:
        while not work.done() and not places.end:
            changed.clear()
            await changed.wait()
        return work.result() if work.done() else places.end
    finally:
        work.cancel()
        if (cancelled := await wait_out(work)) is not None:
            raise cancelled


def judge_reach(completion: Completion) -> Iterator[Check]:
    """Say how the doors of the gateway were opened in the sandbox, if it has any."""
    way, end = completion.timing.limits.get("reach"), completion.end
    if isinstance(end, Failed) and end.reason in UNREACHED:
        yield Check(name="reach", passed=False, message=completion.timing.message or end.reason)
    elif isinstance(way, str):
        yield tell_way(way)


def judge(completion: Completion, task_id: str) -> Check:
    """Say what the grader made of nothing."""
    told = f"on an untouched workspace of task '{task_id}'"
    match completion.end:
        case Graded(verdict="pass"):
            message = f"the grader passes {told}: it does not look at what an agent did"
            return Check(name="grader", passed=False, message=message)
        case Graded():
            return Check(name="grader", passed=True, message=f"fails {told}, as it should")
        case Failed() as failure:
            why = completion.timing.message or failure.reason
            message = f"the grader gives no verdict {told} ({why}): agents that do nothing "
            message += "will count as errors, not as failures; let it write a score file in any case"
            return Check(name="grader", passed=False, severity="warning", message=message)
        case _:
            return Check(name="grader", passed=False, severity="warning", message=f"was not tried {told}")


def _idle(experiment: Experiment) -> Experiment:
    """The experiment's first task, with an agent that does nothing."""
    variant = experiment.variants[0]
    agent = replace(variant.agent, command=(), runs="nothing", secrets=(), stdin="none", require_result=False)
    return replace(
        experiment,
        tasks=experiment.tasks[:1],
        variants=(replace(variant, agent=agent),),
        grade_on_agent_failure=True,
        collect=(),
    )
