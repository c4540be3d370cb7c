"""What a task's workspace begins with, laid out anew as every attempt's was, for as long as it is looked at.

Rules: sources are held to the digests that the run recorded, so that only what the task was made of is shown,
and never another file of this machine whose path a run names. Nothing is written but into a place of our own,
wherever the run says that its files belong.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from labrunner.errors import InputError, LabError, SandboxFailed
from labrunner.experiment.folders import Contents
from labrunner.experiment.resolved import TaskSpec
from labrunner.files.strangers.masking import Masker
from labrunner.files.strangers.sealing import TreeEntry, list_entries
from labrunner.files.strangers.usage import TooMany, count
from labrunner.runner.reports.recorded import read_task
from labrunner.runner.reports.unfinished import find_masker
from labrunner.store.layout import RunPaths
from labrunner.trial.preparation import fill_workspace

MOST_BYTES: Final = 256 * 1024 * 1024
MOST_ENTRIES: Final = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LaidOut:
    """A workspace as its agent found it, before setup."""

    folder: Path
    entries: dict[str, TreeEntry]


@dataclass(slots=True)
class Beginnings:
    """Workspaces of one run's tasks, the last one laid out."""

    paths: RunPaths
    place: Path
    _last: tuple[str, LaidOut | str] | None = None
    _masker: Masker | None = None

    def of(self, task_id: str) -> LaidOut | str:
        """What a task's workspace begins with, or why that can't be told."""
        if self._last is None or self._last[0] != task_id:
            if self._last is not None and isinstance(self._last[1], LaidOut):
                shutil.rmtree(self._last[1].folder)
            self._last = (task_id, self._lay_out(task_id))
        return self._last[1]

    def mask(self, data: bytes) -> bytes:
        """Data of a source, without secrets whose values are known here: kept files have none, either."""
        self._masker = self._masker or find_masker(self.paths)
        return self._masker.mask(data)[0]

    def _lay_out(self, task_id: str) -> LaidOut | str:
        try:
            task = read_task(self.paths, task_id)
            check_sources(task)
            folder = Path(tempfile.mkdtemp(dir=self.place))
            with SandboxFailed.during("prepare", "laying out what it began with"):
                fill_workspace(task, folder, MOST_BYTES)
            return LaidOut(folder=folder, entries={each.path: each for each in list_entries(folder)})
        except LabError as error:
            return error.describe()
        except (OSError, TooMany) as error:
            return f"laying out what it began with: {str(error) or 'it is too large'}"


def check_sources(task: TaskSpec) -> None:
    """Hold what a workspace is made from to its digests. Raises InputError where that is another now."""
    contents = Contents()
    sources = [*([task.workspace] if task.workspace else []), *(each.source for each in task.files)]
    for number, source in enumerate(sources):
        if source is None:
            continue
        path = Path(source.path)
        if _measure(path) > MOST_BYTES:
            raise InputError("workspace", f"{path} is too large to be compared with")
        take = contents.workspace if task.workspace is not None and number == 0 else contents.source
        if take(path).digest != source.digest:
            raise InputError("workspace", f"{path} is not any more what it was when the run began")


def _measure(path: Path) -> int:
    """Bytes of a folder or file; none where it is gone, which its digest will tell."""
    if path.is_dir():
        return count([path], MOST_ENTRIES)[0]
    return path.stat().st_size if path.exists() else 0


@contextmanager
def beginnings(paths: RunPaths) -> Iterator[Beginnings]:
    """Workspaces of a run's tasks, until the context ends."""
    with tempfile.TemporaryDirectory(prefix="lab-view-") as place:
        yield Beginnings(paths, Path(place))
