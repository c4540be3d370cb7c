"""Which trial, or task, somebody wants to look around in; what is missing is said with what to do."""

from collections.abc import Iterator
from pathlib import Path

from labrunner.errors import InputError
from labrunner.experiment.authoring.problems import listed, nearest
from labrunner.experiment.folders import digest_folder
from labrunner.experiment.options.table import find_option, flag
from labrunner.experiment.resolved import Experiment
from labrunner.experiment.schedule import Schedule, Slot
from labrunner.files.layering.layernote import LAYER
from labrunner.records.completion import PhaseFact
from labrunner.records.encoding.ids import make_trial_id
from labrunner.records.rows import SlotRows
from labrunner.runner.reports.recorded import read_experiment
from labrunner.runner.reports.trialname import find_meant
from labrunner.runner.reports.unfinished import Unfinished, find_any
from labrunner.runner.visiting.visit import ENDED, Role, Whereabouts
from labrunner.sandbox.paths import can_be_carried, works_in_image
from labrunner.store.layout import RunPaths
from labrunner.store.rows.single_records import read_run
from labrunner.trial.classification import tell_ending
from labrunner.trial.phases import merged_plan


def visit_task(experiment: Experiment, task_id: str, variant_id: str | None, role: Role) -> Whereabouts:
    """A task of an experiment, as a trial of it begins. Raises InputError."""
    _refuse_python(experiment)
    tasks, variants = [task.id for task in experiment.tasks], [each.id for each in experiment.variants]
    if task_id not in tasks:
        raise InputError("TASK", f"there is no task '{task_id}'; nearest: {nearest(task_id, tasks)}")
    if variant_id is not None and variant_id not in variants:
        raise InputError(flag("variant"), f"there is no variant '{variant_id}'; known: {listed(variants)}")
    variant_idx = 0 if variant_id is None else variants.index(variant_id)
    slot = Slot(schedule_idx=0, variant_idx=variant_idx, task_idx=tasks.index(task_id), repl_idx=0)
    return Whereabouts(experiment=experiment, slot=slot, role=role)


def visit_trial(paths: RunPaths, text: str, attempt: int | None, role: Role) -> Whereabouts:
    """A trial of a run, with what its agent left. Raises InputError."""
    record = read_run(paths)
    experiment = read_experiment(paths, record)
    _refuse_python(experiment)
    found = find_any(paths, find_meant(paths, text).text)
    slot = _find_slot(experiment, found.trial_id)
    number = attempt or (found.trial.attempt if isinstance(found, SlotRows) else found.attempt)
    agent = _find_end(found, number)
    place = Whereabouts(
        experiment=experiment,
        slot=slot,
        role=role,
        run_id=record.run_id,
        attempt=number,
        work=_find_work(paths, found, number),
        ending=ENDED if agent is None else tell_ending(agent),
    )
    _refuse_gone(place)
    return place


def tell_changed(place: Whereabouts) -> Iterator[str]:
    """Folders that a trial's phase would see, and that are not what they were when its run was made."""
    task = place.experiment.tasks[place.slot.task_idx]
    agent = place.experiment.variants[place.slot.variant_idx].agent
    folder = task.grader.dir if place.role == "grader" else agent.dir
    if place.work is None or folder is None or not Path(folder.path).is_dir():
        return
    if digest_folder(Path(folder.path)) != folder.digest:
        yield f"{folder.path} is not what it was when the run was made"


def _refuse_python(experiment: Experiment) -> None:
    if experiment.variants[0].program is not None:
        told = "is a task written in Python: its solver and scorers run outside of sandboxes"
        raise InputError(experiment.name, f"{told}; look at what was said and left by: lab show RUN TRIAL")


def _find_slot(experiment: Experiment, trial_id: str) -> Slot:
    for slot in Schedule.of(experiment):
        variant, task = experiment.variants[slot.variant_idx], experiment.tasks[slot.task_idx]
        if make_trial_id(variant.id, task.id, slot.repl_idx) == trial_id:
            return slot
    raise InputError("TRIAL", f"{trial_id} is in no slot of this run's schedule")


def _find_work(paths: RunPaths, found: SlotRows | Unfinished, number: int) -> Path:
    """The folder of an attempt."""
    trial = paths.trial(found.trial_id)
    folder = (
        found.folder if isinstance(found, Unfinished) and found.attempt == number else trial / str(number)
    )
    if not folder.is_dir():
        known = sorted(each.name for each in trial.iterdir() if each.is_dir()) if trial.is_dir() else []
        told = f"nothing is left of attempt {number} of {found.trial_id}"
        raise InputError("--attempt", f"{told}; there are: {listed(known) or 'none'}")
    return folder


def _refuse_gone(place: Whereabouts) -> None:
    """Refuse where what the agent left is not there any more."""
    task = place.experiment.tasks[place.slot.task_idx]
    variant = place.experiment.variants[place.slot.variant_idx]
    fresh = f"the task as it begins: lab shell {place.experiment.source} {task.id}"
    workdir = merged_plan(task, variant).workdir
    if works_in_image(workdir) and not can_be_carried(workdir):
        told = f"its agent worked in {workdir} of the image, among the system's files, which is not kept"
        raise InputError(place.trial_id, f"{told}. {fresh}")
    parts = ("workspace", LAYER) if works_in_image(workdir) else ("workspace",)
    if place.work is None or not all((place.work / part).exists() for part in parts):
        keep = place.experiment.policy.keep.workspace
        always = find_option("keep_workspace").spell("always")
        told = f"its workspace was not kept (keep.workspace is {keep}, and a run can be told {always})"
        raise InputError(place.trial_id, f"{told}. {fresh}")


def _find_end(found: SlotRows | Unfinished, number: int) -> PhaseFact | None:
    """How an attempt's agent ended, where that is known."""
    if isinstance(found, Unfinished):
        return None
    return next((each.agent for each in found.trial.attempts if each.attempt == number), None)
