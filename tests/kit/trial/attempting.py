"""One attempt on the fake sandbox, for tests of the trial room."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labrunner.experiment.resolved import Experiment
from labrunner.experiment.schedule import Slot
from labrunner.records.barrier import BarrierNote
from labrunner.records.completion import Completion
from labrunner.records.encoding.ids import make_trial_id
from labrunner.sandbox.door import AttemptFolders, Phase, PhaseEnd, SandboxMaker, Survivor
from labrunner.sandbox.fake import FakeMaker
from labrunner.trial.assignment import Assignment, TrialContext
from labrunner.trial.attempt import carry_out

Step = Callable[[Phase, AttemptFolders], PhaseEnd]


def ok(phase: Phase, folders: AttemptFolders) -> PhaseEnd:
    return PhaseEnd(exit_status=0)


def exits(status: int | None, **facts: Any) -> Step:
    return lambda phase, folders: PhaseEnd(exit_status=status, **facts)


def scores(text: str | bytes) -> Step:
    data = text if isinstance(text, bytes) else text.encode()

    def step(phase: Phase, folders: AttemptFolders) -> PhaseEnd:
        (folders.out / "benchmark_score.json").write_bytes(data)
        return PhaseEnd(exit_status=0)

    return step


@dataclass
class HeardNotes:
    heard: list[str] = field(default_factory=list)
    barrier: BarrierNote | None = None

    def placed(self, token: str, node: str) -> None:
        self.heard.append(f"placed {node}")

    async def barrier_held(self, token: str, note: BarrierNote) -> None:
        self.heard.append("barrier")
        self.barrier = note

    async def grader_starting(self, token: str) -> None:
        self.heard.append("grader")

    def sandbox_gone(self, token: str) -> None:
        self.heard.append("gone")

    def add_event(self, assignment: Assignment, seq: int, line: bytes) -> None:
        self.heard.append("event")


@dataclass
class Attempt:
    experiment: Experiment
    trials_dir: Path
    steps: dict[str, Step]
    secrets: dict[str, str] = field(default_factory=dict)
    node: str | None = None
    phases: list[Phase] = field(default_factory=list)
    notes: HeardNotes = field(default_factory=HeardNotes)

    @property
    def folders(self) -> AttemptFolders:
        trial_id = make_trial_id("baseline", self.experiment.tasks[0].id, 0)
        return AttemptFolders(root=self.trials_dir / trial_id / "1")

    async def carry_out(
        self, maker: SandboxMaker | None = None, survivor: Survivor | None = None
    ) -> Completion:
        def script(phase: Phase, folders: AttemptFolders) -> PhaseEnd:
            self.phases.append(phase)
            return self.steps.get(phase.name, ok)(phase, folders)

        context = TrialContext(
            experiment=self.experiment,
            run_id="run-1",
            trials_dir=self.trials_dir,
            host="here",
            secrets=self.secrets,
            node=self.node,
        )
        assignment = Assignment(
            token="token",
            slot=Slot(schedule_idx=0, variant_idx=0, task_idx=0, repl_idx=0),
            trial_id=make_trial_id("baseline", self.experiment.tasks[0].id, 0),
            attempt=1,
        )
        return await carry_out(context, assignment, maker or FakeMaker(script=script), self.notes, survivor)
