"""Which earlier work a new run can judge without running its agent again.

Rules: the agent came to its end, its workspace was kept, and its task asks the same as before. It is judged
anew where only the grader changed, or where grading was all that failed. Python solvers and scorers judge
more than a workspace: those agents run again. Work in a folder of an image is kept as a layer of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from labrunner.experiment.digests import digest_problem
from labrunner.experiment.resolved import Experiment
from labrunner.experiment.schedule import Slot
from labrunner.files.layering.layernote import LAYER
from labrunner.policy.causes import CONSEQUENCES
from labrunner.records.completion import PhaseFact
from labrunner.records.rows import TrialRow
from labrunner.runner.reports.recorded import read_experiment
from labrunner.sandbox.paths import can_be_carried, works_in_image
from labrunner.store.layout import RunPaths
from labrunner.trial.phases import merged_plan

CHANGED: Final = "workspace_changed"
UNREADABLE: Final = "workspace_unreadable"


@dataclass(frozen=True, slots=True, kw_only=True)
class GradeAgain:
    """Earlier work that is judged anew."""

    source: int
    """Which of the sources holds it."""
    trial_id: str
    attempt: int
    agent: PhaseFact
    was_wrapper_killed: bool


class Obstacles:
    """What the tasks of one source asked of agents, whoever judged the answers; read when first needed."""

    def __init__(self, paths: RunPaths) -> None:
        """Take a source; nothing is read yet."""
        self._paths = paths
        self._digests: Mapping[str, str] | None = None

    def is_same(self, task_id: str, experiment: Experiment, slot: Slot) -> bool:
        """Whether a task asked what the one of this slot asks."""
        if self._digests is None:
            self._digests = {task.id: digest_problem(task) for task in read_experiment(self._paths).tasks}
        return self._digests.get(task_id) == digest_problem(experiment.tasks[slot.task_idx])


def has_work_in_image(experiment: Experiment, slot: Slot) -> bool:
    """Whether agents of this slot work in a folder of their image."""
    task, variant = experiment.tasks[slot.task_idx], experiment.variants[slot.variant_idx]
    return works_in_image(merged_plan(task, variant).workdir)


def is_regradable(experiment: Experiment, slot: Slot) -> bool:
    """Whether what is graded of this slot lies in a workspace that can be kept."""
    task, variant = experiment.tasks[slot.task_idx], experiment.variants[slot.variant_idx]
    if variant.program is not None and variant.program.in_process:
        return False
    workdir = merged_plan(task, variant).workdir
    return not works_in_image(workdir) or can_be_carried(workdir)


def is_kept(paths: RunPaths, row: TrialRow, *, in_image: bool) -> bool:
    """Whether what a trial's agent left is still there: also what it left in a folder of its image."""
    folder = paths.attempt(row.ids.trial_id, row.attempt)
    has_work = not in_image or (folder / LAYER).is_file()
    return bool(row.attempts) and (folder / "workspace").is_dir() and has_work


def was_spoilt(row: TrialRow) -> bool:
    """Whether something other than its grader kept a trial from being judged."""
    return row.outcome == "failed" and (row.cause is None or CONSEQUENCES[row.cause].spoils_work)


def was_unfit(row: TrialRow) -> bool:
    """Whether a trial was to judge earlier work and found that it can't be judged any more."""
    return row.reason in {CHANGED, UNREADABLE}


def find_work(paths: RunPaths, number: int, row: TrialRow, *, in_image: bool) -> GradeAgain | None:
    """The work of a trial's agent, where it came to its end and was kept."""
    agent = row.attempts[-1].agent if row.attempts else None
    if agent is None or not is_kept(paths, row, in_image=in_image):
        return None
    return GradeAgain(
        source=number,
        trial_id=row.ids.trial_id,
        attempt=row.attempt,
        agent=agent,
        was_wrapper_killed=row.ended_by == "wrapper_killed",
    )
