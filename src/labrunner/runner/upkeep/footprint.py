"""How much disk a run is expected to take, as far as that is known before it starts.

Sizes are those on a disk with blocks of 4 KiB. What agents write is not known; what their limits allow is.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from labrunner.errors import InputError
from labrunner.experiment.resolved import Experiment, TaskSpec, WorkspaceFile
from labrunner.experiment.schedule import Schedule
from labrunner.files.strangers.usage import measure
from labrunner.trial.phases import merged_plan

RECORDED: Final = 64 * 1024
"""What stays of a trial that says little: rows, inputs, logs, and the folders of these."""
BLOCK: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """Bytes on disk."""

    records: int
    """What stays of all trials, workspaces apart."""
    workspaces: int
    """The workspaces of all trials as they start: what stays of them if all are kept."""
    at_once: int
    """The workspaces of those trials that run at once, as they start; the largest ones."""
    limit: int
    """What the limits of the trials that run at once allow them together."""


def estimate_footprint(experiment: Experiment, concurrency: int) -> Footprint:
    """Look at every workspace once."""
    measured: dict[str, int] = {}
    sizes = [_workspace(task, measured) for task in experiment.tasks]
    repeats = len(experiment.variants) * experiment.replications
    trials = len(Schedule.of(experiment))
    starting = sorted((size for size in sizes for _ in range(min(repeats, concurrency))), reverse=True)
    limits = [
        merged_plan(task, variant).disk_mb
        for task in experiment.tasks
        for variant in experiment.variants
        if not variant.sandbox.is_none
    ]
    return Footprint(
        records=trials * RECORDED,
        workspaces=sum(sizes) * repeats,
        at_once=sum(starting[:concurrency]),
        limit=min(concurrency, trials) * max(limits, default=0) * 2**20,
    )


def _workspace(task: TaskSpec, measured: dict[str, int]) -> int:
    """What a task's workspace takes when its agent starts."""
    total = 0
    if task.workspace is not None:
        if task.workspace.digest not in measured:
            measured[task.workspace.digest] = _unpacked(Path(task.workspace.path))
        total += measured[task.workspace.digest]
    return total + sum(map(_put, task.files))


def _put(file: WorkspaceFile) -> int:
    if file.source is None:
        return _blocks(len((file.content or "").encode()))
    path = Path(file.source.path)
    return measure([path]) if path.is_dir() else _blocks(path.stat().st_size)


def _unpacked(path: Path) -> int:
    """What a folder takes, or what is in an archive."""
    if path.is_dir():
        return measure([path])
    import tarfile  # here, because few workspaces are archives
    import zipfile
    import zlib

    try:
        if path.suffix == ".zip":
            with zipfile.ZipFile(path) as zipped:
                return sum(_blocks(member.file_size) for member in zipped.infolist())
        with tarfile.open(path) as archive:
            return sum(_blocks(member.size) for member in archive)
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, OSError) as error:
        raise InputError(str(path), f"is no archive that can be read: {error}") from error


def _blocks(size: int) -> int:
    return -(-size // BLOCK) * BLOCK
