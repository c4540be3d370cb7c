"""Coordinators of a run on a made-up cluster, one after another."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from labrunner.executor.cluster.cluster_executor import RayExecutor
from labrunner.executor.cluster.members.node import NodePace
from labrunner.executor.registry import RAY
from labrunner.experiment.resolved import Experiment
from labrunner.experiment.run_policy import ExecutorPlan
from labrunner.experiment.schedule import Slot
from labrunner.records.barrier import BarrierNote
from labrunner.records.completion import Completion, PhaseFact
from labrunner.records.encoding.ids import make_token, make_trial_id
from labrunner.sandbox import registry
from labrunner.sandbox.door import Survivor
from labrunner.trial.assignment import Assignment, TrialContext
from labrunner.trial.ledger import stand_at_barrier
from tests.kit.builders import make_sandbox
from tests.kit.executor.madenodes import MadeCluster
from tests.kit.runner.running import make_sums

QUICK = NodePace(look_s=0.005, again_s=0.01, latest_s=0.02, close_s=1.0, rejoin_s=5.0)
NO_WATCH = replace(QUICK, look_s=3600.0)
IMPATIENT = replace(QUICK, start_s=1.0, ping_s=0.02, silence_s=0.2, cancel_s=0.1)
"""With those whose workers hang."""
TASKS = 30


class Quiet:
    """Notes that nobody keeps."""

    def placed(self, token: str, node: str) -> None:
        return

    async def barrier_held(self, token: str, note: BarrierNote) -> None:
        return

    async def grader_starting(self, token: str) -> None:
        return

    def sandbox_gone(self, token: str) -> None:
        return

    def add_event(self, assignment: Assignment, seq: int, line: bytes) -> None:
        return


def make_clustered(tasks: int = TASKS) -> Experiment:
    made = make_sums(tasks=tasks, variants=1, replications=1, concurrency=100)
    variants = tuple(replace(each, sandbox=make_sandbox(kind="docker", image="i")) for each in made.variants)
    policy = replace(made.policy, executor=ExecutorPlan(kind=RAY, address="made"))
    return replace(made, variants=variants, policy=policy)


class Owners:
    """One run's coordinators, one after another."""

    def __init__(self, folder: Path, cluster: MadeCluster) -> None:
        self.folder, self.cluster, self.experiment = folder, cluster, make_clustered(4)
        (folder / "trials").mkdir(parents=True)
        self.made: list[RayExecutor] = []

    def make(self, pace: NodePace = QUICK) -> RayExecutor:
        context = TrialContext(
            experiment=self.experiment,
            run_id="r",
            trials_dir=self.folder / "trials",
            host="here",
            secrets={},
        )
        self.made.append(RayExecutor(context, registry.make, port=self.cluster, pace=pace))
        return self.made[-1]

    def assign(self, number: int) -> Assignment:
        slot = Slot(schedule_idx=number, variant_idx=0, task_idx=number, repl_idx=0)
        trial_id = make_trial_id(self.experiment.variants[0].id, self.experiment.tasks[number].id, 0)
        return Assignment(token=make_token(), slot=slot, trial_id=trial_id, attempt=1)

    def keep(self, assignment: Assignment) -> Survivor:
        """Have the work of an agent that ended lie here, whole."""
        folder = self.folder / "trials" / assignment.trial_id / str(assignment.attempt) / "workspace"
        folder.mkdir(parents=True)
        (folder / "answer").write_text("an answer")
        return stand_at_barrier(assignment, BarrierNote(agent=PhaseFact(exit_status=0)))

    def begin(self, executor: RayExecutor, assignment: Assignment) -> "asyncio.Task[Completion]":
        return asyncio.ensure_future(executor.carry_out(assignment, Quiet()))

    async def leave(self, assignment: Assignment) -> None:
        """Have an owner begin an attempt, and be gone."""
        first = self.make()
        await first.open(lambda: None)
        work = self.begin(first, assignment)
        await until(lambda: bool(self.cluster.begun[assignment.trial_id]))
        for node in self.cluster.nodes.values():
            node.kill_worker()
        work.cancel()
        await asyncio.wait([work])
        await first.close()
        self.made.remove(first)


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not is_so():
            await asyncio.sleep(0.001)
