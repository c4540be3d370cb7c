"""What an executor needs to carry out attempts: the shared context, and one assignment per attempt."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from labrunner.experiment.resolved import Experiment, TaskSpec, Variant
from labrunner.experiment.schedule import Slot
from labrunner.records.barrier import BarrierNote
from labrunner.records.encoding.ids import Ids
from labrunner.sandbox.door import AttemptFolders
from labrunner.sandbox.marks import RunMark

BENCHMARK_ADAPTER: Final = "labrunner"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialContext:
    """What all attempts of a run share on one machine."""

    experiment: Experiment
    run_id: str
    trials_dir: Path
    host: str
    secrets: Mapping[str, str]
    """Values of the declared secrets: in memory only, never written."""
    node: str | None = None
    """This machine, where it is a node of a cluster: as the cluster calls it, by a name or an address."""
    tapes: Path | None = None
    """Where recorded calls were delivered to, on a machine that has not the run which is replayed."""

    def mark(self) -> RunMark:
        """The run, by its very directory."""
        return RunMark.of(self.trials_dir.parent, self.run_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """One attempt to be carried out: small, so that it can travel."""

    token: str
    slot: Slot
    trial_id: str
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptScene:
    """An assignment joined with what it refers to."""

    context: TrialContext
    assignment: Assignment
    task: TaskSpec
    variant: Variant
    ids: Ids
    folders: AttemptFolders

    @property
    def agent_dir(self) -> Path | None:
        """The agent's own folder on the host, if it has one."""
        if self.variant.agent.runs_solution:
            folder = None if self.task.solution is None else self.task.solution.dir
            return None if folder is None else Path(folder)
        return Path(self.variant.agent.dir.path) if self.variant.agent.dir else None


class Notes(Protocol):
    """What the coordinator wants to know while an attempt runs, made durable where it must be."""

    def placed(self, token: str, node: str) -> None:
        """This node of a cluster carries the attempt out. Where there is no cluster nobody calls it."""
        ...

    async def barrier_held(self, token: str, note: BarrierNote) -> None:
        """The agent has ended with these facts; no grader has started."""
        ...

    async def grader_starting(self, token: str) -> None:
        """From here on the workspace may have been seen by a grader."""
        ...

    def sandbox_gone(self, token: str) -> None:
        """Nothing of the attempt runs any more; what is left to do is to collect its files."""
        ...

    def add_event(self, assignment: Assignment, seq: int, line: bytes) -> None:
        """Keep an event of an attempt under way, so that a crash leaves it. May be called from any thread."""
        ...


def set_scene(context: TrialContext, assignment: Assignment) -> AttemptScene:
    """Join an assignment with its task, variant, identity and folders."""
    task = context.experiment.tasks[assignment.slot.task_idx]
    variant = context.experiment.variants[assignment.slot.variant_idx]
    ids = Ids(
        run_id=context.run_id,
        trial_id=assignment.trial_id,
        variant_id=variant.id,
        task_id=task.id,
        repl_idx=assignment.slot.repl_idx,
    )
    folders = AttemptFolders(root=context.trials_dir / assignment.trial_id / str(assignment.attempt))
    return AttemptScene(
        context=context, assignment=assignment, task=task, variant=variant, ids=ids, folders=folders
    )
