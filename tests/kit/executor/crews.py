"""Every executor with a small run to carry out; another one joins the contract by a line in CREWS."""

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import ClassVar, Literal

import msgspec
import pytest

from labrunner.executor.door import Executor
from labrunner.executor.local import LocalExecutor
from labrunner.executor.registry import RAY, make_named_executor
from labrunner.experiment.options.overrides import Overrides
from labrunner.experiment.resolved import Experiment
from labrunner.experiment.run_policy import LOCAL, ExecutorPlan, KeepPolicy
from labrunner.experiment.schedule import Slot
from labrunner.records.completion import PhaseFact
from labrunner.records.encoding.ids import make_token, make_trial_id
from labrunner.runner.reuse.keptwork import KeptWork, KeptWorkExecutor
from labrunner.sandbox import registry
from labrunner.sandbox.door import AttemptFolders
from labrunner.solve.authoring.command import command_scorer
from labrunner.solve.authoring.solver import Generate
from labrunner.solve.models.environment import sandbox
from labrunner.solve.origin import PythonTasks
from labrunner.solve.resolving.task import Task
from labrunner.solve.values.sample import Sample
from labrunner.solve.values.state import TaskState
from labrunner.store.layout import RunPaths
from labrunner.trial.assignment import Assignment, TrialContext
from tests.kit.builders import (
    make_agent,
    make_experiment,
    make_grader,
    make_policy,
    make_sandbox,
    make_task,
    make_variant,
)
from tests.kit.executor.forwarding import ForwardingExecutor
from tests.kit.executor.rayclusters import ADDRESS, NODES_DIR, share_cluster
from tests.kit.made_runs import Told, write_run

PhaseName = Literal["agent", "grader"]
PASS = 'echo \'{"verdict": "pass"}\' > $$AGENTLAB_BENCHMARK_SCORE_PATH'
RUN_ID = "the-run"
KEEPS_ALL = KeepPolicy(workspace="always", logs="always")


@dataclass(frozen=True, kw_only=True)
class Work:
    """What an attempt does, as text for `sh` in the workspace. What agents do holds no dollar sign."""

    agent: str = "echo an answer > answer; echo said"
    grader: str = PASS

    def with_phase(self, phase: PhaseName, text: str) -> "Work":
        """The same, but for one phase."""
        return replace(self, agent=text) if phase == "agent" else replace(self, grader=text)


@dataclass(frozen=True, kw_only=True)
class Crew:
    """A run of one trial, and who carries it out on this machine in sandboxes of a kind."""

    run_dir: Path
    work: Work = Work()
    kind: str = "process"
    image: str | None = None
    token: str = field(default_factory=make_token)
    phases: ClassVar[tuple[PhaseName, ...]] = ("agent", "grader")
    """Those that it runs."""
    node: ClassVar[str | None] = None
    """The node that it is told to be at."""

    @property
    def leaves_survivors(self) -> bool:
        """Whether an attempt lives on without its runner, and can be taken up."""
        return self.kind == "docker"

    def experiment(self) -> Experiment:
        variant = make_variant(
            agent=make_agent(command=("/bin/sh", "-c", self.work.agent)),
            sandbox=make_sandbox(kind=self.kind, image=self.image, memory_mb=256),
        )
        task = make_task(grader=make_grader(command=("/bin/sh", "-c", self.work.grader)))
        return make_experiment(
            tasks=(task,), variants=(variant,), policy=make_policy(retry_on_error=3, keep=KEEPS_ALL)
        )

    def executor(self) -> Executor:
        """A new one, as every owner of the run makes its own."""
        return LocalExecutor(self.context(), registry.make)

    def context(self) -> TrialContext:
        self.trials_dir.mkdir(parents=True, exist_ok=True)
        return TrialContext(
            experiment=self.experiment(), run_id=RUN_ID, trials_dir=self.trials_dir, host="here", secrets={}
        )

    @property
    def trials_dir(self) -> Path:
        return self.run_dir / "trials"

    @property
    def assignment(self) -> Assignment:
        slot = Slot(schedule_idx=0, variant_idx=0, task_idx=0, repl_idx=0)
        return Assignment(token=self.token, slot=slot, trial_id=self.trial_id, attempt=1)

    @property
    def trial_id(self) -> str:
        experiment = self.experiment()
        return make_trial_id(experiment.variants[0].id, experiment.tasks[0].id, 0)

    @property
    def folders(self) -> AttemptFolders:
        return AttemptFolders(root=self.trials_dir / self.trial_id / "1")

    @property
    def at_work(self) -> AttemptFolders:
        """Where the attempt lies while it is under way."""
        return self.folders


@dataclass(frozen=True, kw_only=True)
class RayCrew(Crew):
    """The nodes of a Ray cluster: one, which all tests of this process share."""

    node: ClassVar[str | None] = "one"

    def __post_init__(self) -> None:
        share_cluster()  # before a process of its own is started, which else has another

    def experiment(self) -> Experiment:
        experiment = super().experiment()
        plan = ExecutorPlan(kind=RAY, address=os.environ[ADDRESS], per_node=2)
        return replace(experiment, policy=replace(experiment.policy, executor=plan))

    def executor(self) -> Executor:
        return make_named_executor(RAY, self.context(), registry.make)

    @property
    def at_work(self) -> AttemptFolders:
        place = hashlib.sha256(self.context().mark().place.encode()).hexdigest()[:16]
        run = Path(os.environ[NODES_DIR]) / "one" / "runs" / f"{RUN_ID}-{place}"
        return AttemptFolders(root=run / "trials" / self.trial_id / "1")


@dataclass(frozen=True, kw_only=True)
class PythonCrew(Crew):
    """A Python task: its solver works in the sandbox, and a command judges there."""

    @property
    def leaves_survivors(self) -> bool:
        return False

    def experiment(self) -> Experiment:
        return self.resolve(PythonTasks())

    def executor(self) -> Executor:
        tasks = PythonTasks()
        self.resolve(tasks)
        return tasks.executor(LOCAL, self.context(), registry.make)

    def resolve(self, tasks: PythonTasks) -> Experiment:
        task = Task(
            name="contract",
            dataset=[Sample(id="t1", input="x")],
            solver=self._solve,
            scorer=command_scorer(["/bin/sh", "-c", self.work.grader]),
            sandbox=self.kind if self.image is None else (self.kind, self.image),
        )
        return tasks.resolve(task, Overrides())

    async def _solve(self, state: TaskState, generate: Generate) -> TaskState:
        done = await sandbox().exec(["/bin/sh", "-c", self.work.agent])
        if not done.success:
            raise RuntimeError(f"the agent exited with {done.returncode}")
        return state


@dataclass(frozen=True, kw_only=True)
class KeptCrew(Crew):
    """Work that an agent of an earlier run left: only its grader runs."""

    phases: ClassVar[tuple[PhaseName, ...]] = ("grader",)

    @property
    def leaves_survivors(self) -> bool:
        return False

    def executor(self) -> Executor:
        kept = KeptWork(folder=self._earlier(), agent=PhaseFact(exit_status=0), was_wrapper_killed=False)
        return KeptWorkExecutor(super().executor(), {self.trial_id: kept}.get, RunPaths(self.run_dir))

    def _earlier(self) -> Path:
        """What an earlier run has of the trial."""
        folder = self.run_dir.parent / "earlier" / "trials" / self.trial_id / "1"
        if not folder.exists():
            write_run(self.run_dir.parent, self.experiment(), lambda _: Told(value=1.0), run_id="earlier")
            for name in ("in", "workspace", "out", "state"):
                (folder / name).mkdir(parents=True)
            (folder / "workspace" / "answer").write_text("an answer\n")
        return folder


@dataclass(frozen=True, kw_only=True)
class ForwardedCrew(Crew):
    """Another package's executor, that hands everything on."""

    def executor(self) -> Executor:
        return ForwardingExecutor(super().executor())


CREWS: Mapping[str, Callable[..., Crew]] = {
    "local, process": Crew,
    "local, bubblewrap": partial(Crew, kind="bubblewrap"),
    "python, process": PythonCrew,
    "python, bubblewrap": partial(PythonCrew, kind="bubblewrap"),
    "kept work, process": KeptCrew,
    "forwarding, process": ForwardedCrew,
    "ray, process": RayCrew,
    "ray, bubblewrap": partial(RayCrew, kind="bubblewrap"),
    "local, docker": partial(Crew, kind="docker"),
    "python, docker": partial(PythonCrew, kind="docker"),
    "kept work, docker": partial(KeptCrew, kind="docker"),
    "ray, docker": partial(RayCrew, kind="docker"),
}
NEED_ENGINE = [name for name in CREWS if "docker" in name]
NEED_NONE = [
    pytest.param(name, marks=pytest.mark.bwrap) if "bubblewrap" in name else name
    for name in CREWS
    if name not in NEED_ENGINE
]


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """A crew as it is told to a process of its own."""

    name: str
    run_dir: str
    agent: str
    grader: str
    token: str
    image: str | None

    def crew(self) -> Crew:
        work = Work(agent=self.agent, grader=self.grader)
        return CREWS[self.name](run_dir=Path(self.run_dir), work=work, token=self.token, image=self.image)
