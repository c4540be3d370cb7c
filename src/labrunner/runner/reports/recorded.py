"""The experiment that a run recorded, held to its digests before anything is made of it."""

from labrunner.errors import InputError
from labrunner.experiment import codec
from labrunner.experiment.resolved import Experiment, TaskSpec
from labrunner.files.durable import storing
from labrunner.records.run import RunRecord
from labrunner.store.layout import RunPaths
from labrunner.store.rows.single_records import read_run
from labrunner.store.rows.written import open_file, refuse_altered


def read_experiment(paths: RunPaths, record: RunRecord | None = None) -> Experiment:
    """The experiment that a run carries out. Raises DamagedRun when its tasks are not those it began with."""
    record = record or read_run(paths)
    refuse_altered(paths.tasks, record.digests.tasks)
    with open_file(paths.tasks) as lines, storing("reading", paths.tasks):
        return codec.from_record(record.experiment, lines)


def read_outline(paths: RunPaths) -> tuple[Experiment, tuple[str, ...]]:
    """The experiment without its tasks, and their ids: what a long run is quickly known by."""
    record = read_run(paths)
    refuse_altered(paths.tasks, record.digests.tasks)
    with open_file(paths.tasks) as lines, storing("reading", paths.tasks):
        return codec.from_record(record.experiment, ()), codec.read_ids(lines)


def read_task(paths: RunPaths, task_id: str) -> TaskSpec:
    """One task of a run, without the others. Raises InputError where there is none of that id."""
    refuse_altered(paths.tasks, read_run(paths).digests.tasks)
    with open_file(paths.tasks) as lines, storing("reading", paths.tasks):
        found = codec.find_task(lines, task_id)
    if found is None:
        raise InputError("task", f"this run has no task {task_id!r}")
    return found
