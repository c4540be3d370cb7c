"""What an author has to decide: where setup and agent may both change the system that a grader trusts."""

from labrunner.experiment.resolved import Experiment, TaskSpec, Variant
from labrunner.experiment.resolving.gathering import Reading
from labrunner.experiment.sandbox_kinds import has_images

FIELD = "on_system_change"
REMEDY = (
    "setup may change the container's system, and a fresh container, in which a trial is judged whose agent "
    f"changed it too, has nothing of that; write {FIELD}: afresh (graders need nothing that setup does "
    "outside the workspace), flag (judged in place and flagged: the agent may have replaced what the grader "
    "uses) or refuse (such a trial fails ungraded); or write sandbox.read_only: true, or bring what setup "
    "installs in the image"
)


def refuse_unsaid(experiment: Experiment, reading: Reading) -> None:
    """Refuse a setup in a container where nobody says what follows from a changed system."""
    if FIELD in reading.file.model_fields_set or experiment.trust == "strict":
        return
    for variant in experiment.variants:
        if variant.sandbox.read_only or not has_images(variant.sandbox.kind):
            continue
        task = next((task for task in experiment.tasks if _has_setup(task, variant)), None)
        if task is not None:
            told = f"is not written down, and task '{task.id}' has a setup command: {REMEDY}"
            reading.problems.add(reading.document.where((FIELD,)), told)
            return


def _has_setup(task: TaskSpec, variant: Variant) -> bool:
    """Whether a setup comes before a grader that is not in a fresh container anyway."""
    setup = task.setup if task.setup is not None else variant.setup
    return bool(setup.command) and task.grader.where == "same"
