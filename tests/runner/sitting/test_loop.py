"""The loop of a run: what counts as running, what may happen meanwhile, and when an outage ends it."""

import asyncio
import gc
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec
import pytest

from labrunner.executor.door import Discard
from labrunner.experiment import codec
from labrunner.experiment.resolved import Experiment
from labrunner.experiment.run_policy import BreakerPolicy
from labrunner.experiment.schedule import Schedule
from labrunner.policy.pace import PACE, RunPace
from labrunner.records.cause import Cause
from labrunner.records.completion import AttemptTiming, Completion, Evaluator, Failed, Graded
from labrunner.runner.leftovers.resumption import Resumption
from labrunner.runner.newrun import make_record
from labrunner.runner.plan import Plan
from labrunner.runner.sitting.course import Course, Tallies
from labrunner.runner.sitting.loop import MOST_UNLOOKED, RunLoop
from labrunner.runner.sitting.stopping import GaveUp, Interrupted, StopRequest
from labrunner.sandbox.door import Check, Survivor
from labrunner.store.writing.create import create_run
from labrunner.store.writing.writer import open_writer
from labrunner.trial.assignment import Assignment, Notes
from tests.kit.builders import make_policy
from tests.kit.runner.running import make_sums


@dataclass
class Collectors:
    """An executor whose attempts run at once, and whose files are collected only when somebody says so."""

    concurrency: int
    may_collect: asyncio.Event = field(default_factory=asyncio.Event)
    begun: list[int] = field(default_factory=list)
    running: int = 0
    most_running: int = 0
    wake: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def preflight(self) -> tuple[Check, ...]:
        return ()

    def outlives_runner(self, assignment: Assignment) -> bool:
        return False

    async def carry_out(
        self, assignment: Assignment, notes: Notes, survivor: Survivor | None = None
    ) -> Completion:
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        await asyncio.sleep(0)
        self.running -= 1
        notes.sandbox_gone(assignment.token)
        async with self.wake:
            self.begun.append(assignment.slot.schedule_idx)
            self.wake.notify_all()
        await self.may_collect.wait()
        return complete(assignment)

    async def until_begun(self, count: int) -> None:
        async with self.wake:
            await self.wake.wait_for(lambda: len(self.begun) >= count)

    async def release(self, assignment: Assignment, drop: Discard) -> None:
        return

    async def survivors(self) -> tuple[Survivor, ...]:
        return ()

    async def reap(self, keep: frozenset[str]) -> int:
        return 0

    async def close(self) -> None:
        return


def complete(assignment: Assignment) -> Completion:
    return Completion(
        token=assignment.token,
        schedule_idx=assignment.slot.schedule_idx,
        trial_id=assignment.trial_id,
        attempt=assignment.attempt,
        end=Graded(
            verdict="pass",
            primary_metric_name="pass",
            primary_metric_value=1.0,
            evaluator=Evaluator(name="grader"),
        ),
        timing=AttemptTiming(
            attempt=assignment.attempt,
            started_at="2026-01-01T00:00:00.000Z",
            ended_at="2026-01-01T00:00:01.000Z",
            host="here",
            sandbox="fake",
        ),
    )


@dataclass
class Outage(Collectors):
    """An executor whose provider fails every attempt at once; after some, attempts hang."""

    hangs_after: int = 1000

    async def carry_out(
        self, assignment: Assignment, notes: Notes, survivor: Survivor | None = None
    ) -> Completion:
        self.begun.append(assignment.slot.schedule_idx)
        if len(self.begun) > self.hangs_after:
            await asyncio.Event().wait()
        notes.sandbox_gone(assignment.token)
        failed = Failed(cause=Cause.PROVIDER, reason="down", message="no answer")
        return msgspec.structs.replace(complete(assignment), end=failed)


class TurnTallies(Tallies):
    """Counts how often the loop looked whether it may go on."""

    turns = 0

    def __setattr__(self, name: str, value: object) -> None:
        self.__dict__["turns"] = self.turns + (name == "pause")
        super().__setattr__(name, value)


@dataclass
class Sitting:
    """A new run, and how much of it became durable."""

    folder: Path
    experiment: Experiment
    executor: Collectors
    stop: StopRequest = field(default_factory=StopRequest)
    pace: RunPace = PACE
    turns: int = 0
    committed: int = 0

    async def carry_out(self) -> None:
        schedule = Schedule.of(self.experiment)
        paths = create_run(
            self.folder,
            make_record(self.experiment, run_id="the-run"),
            codec.task_lines(self.experiment),
            schedule.lines(self.experiment),
        )
        async with open_writer(paths) as writer:
            plan = Plan(
                experiment=self.experiment,
                schedule=schedule,
                run_id="the-run",
                paths=paths,
                concurrency=self.executor.concurrency,
                grace_s=0.0,
                pace=self.pace,
            )
            tallies = TurnTallies(planned=len(schedule))
            course = Course(tallies=tallies, stop=self.stop)
            await RunLoop(plan, self.executor, writer, course, Resumption()).run()
            await writer.settle()
            self.turns = tallies.turns
            self.committed = writer.counts().committed


async def test_the_next_attempt_starts_while_files_are_collected_but_not_without_bound(
    tmp_path: Path,
) -> None:
    executor = Collectors(concurrency=1)
    sitting = Sitting(tmp_path, make_sums(tasks=5, variants=1, replications=1), executor)
    async with asyncio.TaskGroup() as group:
        group.create_task(sitting.carry_out())
        await executor.until_begun(2)
        for _ in range(20):
            await asyncio.sleep(0)
        waiting = list(executor.begun)
        executor.may_collect.set()
    assert waiting == [0, 1]
    assert executor.most_running == 1
    assert sitting.committed == 5


async def test_what_is_being_collected_when_a_run_is_stopped_becomes_durable(tmp_path: Path) -> None:
    executor = Collectors(concurrency=2)
    sitting = Sitting(tmp_path, make_sums(tasks=9, variants=1, replications=1), executor)
    async with asyncio.TaskGroup() as group:
        group.create_task(sitting.carry_out())
        await executor.until_begun(2)
        sitting.stop.ask(Interrupted(signal_name="SIGINT"))
        for _ in range(20):
            await asyncio.sleep(0)
        executor.may_collect.set()
    assert sitting.committed == len(executor.begun) < 9


def make_outage(folder: Path, executor: Outage, *, give_up_s: float, first_probe_s: float) -> Sitting:
    breaker = BreakerPolicy(after=3, give_up_after_s=give_up_s)
    policy = make_policy(max_concurrency=1, fail_on_error=False, breaker=breaker)
    experiment = replace(make_sums(tasks=9, variants=1, replications=1), policy=policy)
    return Sitting(folder, experiment, executor, pace=RunPace(first_probe_s=first_probe_s))


async def give_up(sitting: Sitting) -> str:
    """Carry out until the run gives up; what it says."""
    async with asyncio.timeout(20):
        await sitting.carry_out()
    assert isinstance(sitting.stop.reason, GaveUp)
    return sitting.stop.reason.error.message


async def test_a_run_that_gives_up_an_outage_starts_no_probe_for_nothing(tmp_path: Path) -> None:
    executor = Outage(concurrency=1)
    said = await give_up(make_outage(tmp_path, executor, give_up_s=0.2, first_probe_s=0.2))
    assert executor.begun == [0, 1, 2]
    assert said == (
        "provider kept failing for 0 s (breaker.give_up_after_s=0.2); once that is over: lab continue"
    )


async def test_an_outage_is_given_up_in_time_while_its_probe_hangs(tmp_path: Path) -> None:
    executor = Outage(concurrency=1, hangs_after=3)
    await give_up(make_outage(tmp_path, executor, give_up_s=0.3, first_probe_s=0.01))
    assert len(executor.begun) == 4


async def test_a_loop_that_waits_for_an_outage_to_end_rests(tmp_path: Path) -> None:
    sitting = make_outage(tmp_path, Outage(concurrency=1), give_up_s=0.5, first_probe_s=60.0)
    await give_up(sitting)
    assert sitting.turns < 50


@dataclass
class Threshold(Collectors):
    """Looks how often Python is to search for garbage while attempts run."""

    seen: set[int] = field(default_factory=set)

    async def carry_out(
        self, assignment: Assignment, notes: Notes, survivor: Survivor | None = None
    ) -> Completion:
        self.seen.add(gc.get_threshold()[0])
        return complete(assignment)


@pytest.mark.parametrize(("places", "threshold"), [(4, 700), (1_000, 10_000), (64_000, MOST_UNLOOKED)])
async def test_garbage_is_searched_for_less_often_the_more_is_in_flight(
    tmp_path: Path, places: int, threshold: int
) -> None:
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    try:
        executor = Threshold(concurrency=places)
        sitting = Sitting(tmp_path, make_sums(tasks=2, variants=1, replications=1), executor)
        await sitting.carry_out()
        assert (executor.seen, gc.get_threshold()) == ({threshold}, (700, 10, 10))
    finally:
        gc.set_threshold(*before)
