"""One attempt whose runner can be killed: commands that say where they are and wait for a word to go on."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from labrunner.executor.door import Discard
from labrunner.executor.local import LocalExecutor
from labrunner.experiment.resolved import Experiment, Setup
from labrunner.experiment.schedule import Slot
from labrunner.records.completion import Completion
from labrunner.records.encoding.ids import make_token, make_trial_id
from labrunner.sandbox import registry
from labrunner.sandbox.door import AttemptFolders, Phase, Survivor
from labrunner.trial.assignment import Assignment, TrialContext
from tests.kit.builders import (
    make_agent,
    make_experiment,
    make_grader,
    make_sandbox,
    make_task,
    make_variant,
)
from tests.kit.trial.attempting import HeardNotes

TRIAL = make_trial_id("baseline", "t1", 0)


def step(name: str, then: str) -> tuple[str, ...]:
    """A command that tells that it runs, waits for `go-NAME`, and then does something."""
    wait = f"while [ ! -e /agentlab/in/go-{name} ]; do sleep 0.05; done"
    return ("/bin/sh", "-c", f"echo {name} >> /agentlab/state/started; {wait}; {then}")


@dataclass
class Lonely:
    """An attempt and the run directory it lies in."""

    run_dir: Path
    image: str
    trust: str = "standard"
    where: str = "same"
    retries: int = 0
    grade: str = 'echo "{\\"verdict\\": \\"pass\\"}" > /agentlab/out/benchmark_score.json'
    agent: str = "echo done > answer; exit 4"
    setup: str = ":"
    policy: str = "flag"
    """What follows from a changed system."""
    repeatable: bool = False
    user: str | None = None
    workdir: str | None = None
    token: str = field(default_factory=make_token)

    @property
    def assignment(self) -> Assignment:
        slot = Slot(schedule_idx=0, variant_idx=0, task_idx=0, repl_idx=0)
        return Assignment(token=self.token, slot=slot, trial_id=TRIAL, attempt=1)

    @property
    def folders(self) -> AttemptFolders:
        return AttemptFolders(root=self.run_dir / "trials" / TRIAL / "1")

    def experiment(self) -> Experiment:
        grader = make_grader(
            command=step("grader", self.grade),
            where=self.where,
            retries=self.retries,
            repeatable=self.repeatable,
        )
        variant = make_variant(
            agent=make_agent(command=step("agent", self.agent), user=self.user),
            setup=Setup(command=step("setup", self.setup)),
            sandbox=make_sandbox(kind="docker", image=self.image, memory_mb=256, workdir=self.workdir),
        )
        return make_experiment(
            tasks=(make_task(grader=grader),),
            variants=(variant,),
            trust=self.trust,
            on_system_change=self.policy,
        )

    def executor(self) -> LocalExecutor:
        context = TrialContext(
            experiment=self.experiment(),
            run_id="the-run",
            trials_dir=self.run_dir / "trials",
            host="here",
            secrets={},
        )
        return LocalExecutor(context, registry.make)

    def go(self, *names: str) -> None:
        for name in names:
            (self.folders.inputs / f"go-{name}").touch()

    def started(self) -> list[str]:
        """What has been started in the attempt, in order."""
        path = self.folders.state / "started"
        return path.read_text().split() if path.exists() else []

    async def until(self, *started: str) -> None:
        async with asyncio.timeout(30):
            while self.started() != list(started):
                await asyncio.sleep(0.02)

    def start_runner(self, stop: str = "", die_at: str = "") -> "subprocess.Popen[bytes]":
        """Carry the attempt out in a process of its own; it stops where it is told, and says so, or dies."""
        self.run_dir.mkdir(parents=True, exist_ok=True)
        (self.run_dir / "trials").mkdir(exist_ok=True)
        settings = {**self.__dict__, "run_dir": str(self.run_dir), "stop": stop}
        argv = [sys.executable, "-m", "tests.kit.docker.lonely", json.dumps(settings)]
        env = {**os.environ, **({"LAB_DIE_AT": die_at} if die_at else {})}
        return subprocess.Popen(argv, cwd=Path(__file__).parents[3], stdout=subprocess.PIPE, env=env)

    async def adopt(self, survivor: Survivor) -> Completion:
        """Go on with the attempt, and remove what is left of it."""
        executor = self.executor()
        try:
            return await executor.carry_out(self.assignment, HeardNotes(), survivor)
        finally:
            await executor.release(self.assignment, Discard(workspace=False, logs=False))
            await executor.close()


def kill(runner: "subprocess.Popen[bytes]") -> None:
    runner.send_signal(signal.SIGKILL)
    runner.communicate()


def wait_for_word(runner: "subprocess.Popen[bytes]") -> None:
    """Wait until the runner says that it has stopped."""
    assert runner.stdout is not None
    assert runner.stdout.readline() == b"stopped\n"


def stop_at(place: str) -> None:
    """Make the runner stand still at a place where nobody outside can see it."""
    from labrunner.sandbox.docker.attempt.container import Container
    from labrunner.sandbox.docker.attempt.grader_side import GraderSide
    from labrunner.sandbox.docker.attempt.stage import Stage
    from labrunner.trial.ledger import Ledger

    async def stand_still(*_: object, **__: object) -> None:
        sys.stdout.write("stopped\n")
        sys.stdout.flush()
        await asyncio.sleep(600)

    def stand(*_: object, **__: object) -> None:
        sys.stdout.write("stopped\n")
        sys.stdout.flush()
        time.sleep(600)

    if place == "before_plan":
        Container.tell = stand_still  # type: ignore[method-assign]
    elif place == "barrier":
        GraderSide.run = stand_still  # type: ignore[assignment,method-assign]
    elif place in {"made_afresh", "started_afresh"}:
        start = Stage.start

        async def start_until(stage: Stage, plan: str, first: Phase) -> None:
            if stage.is_renewed and place == "made_afresh":
                await stand_still()
            if stage.is_renewed:
                Container.tell = stand_still  # type: ignore[method-assign]
            await start(stage, plan, first)

        Stage.start = start_until  # type: ignore[assignment,method-assign]
    elif place == "collected":
        Ledger._timing = stand  # type: ignore[assignment,method-assign]


def stop_when_put() -> None:
    """Make it stand still when what an agent had removed is gone, and what it had added is not there yet."""
    from labrunner.sandbox.docker.engine.client import Engine

    async def stand_still(*_: object) -> None:
        sys.stdout.write("stopped\n")
        sys.stdout.flush()
        await asyncio.sleep(600)

    Engine.unpack = stand_still  # type: ignore[assignment,method-assign]


async def main(settings: dict[str, str]) -> None:
    stop = settings.pop("stop")
    stop_at(stop)
    if stop == "half_put":
        stop_when_put()
    lonely = Lonely(**{**settings, "run_dir": Path(settings["run_dir"])})  # type: ignore[arg-type]
    executor = lonely.executor()
    try:
        await executor.carry_out(lonely.assignment, HeardNotes())
        sys.stdout.write("stopped\n")
        sys.stdout.flush()
        await asyncio.sleep(600)
    finally:
        await executor.close()


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
