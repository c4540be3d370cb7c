"""The experiment that a run recorded, held to its digests before anything is made of it."""

from labrunner.experiment import codec
from labrunner.experiment.resolved import Experiment
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
