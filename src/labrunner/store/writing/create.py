"""Making a run's directory: whole or not at all.

It is built and synced under a name that listings ignore, then renamed into place. A folder that a
killed process left half built is removed by a later create, when it is a day old and nobody's.
"""

import fcntl
import hashlib
import os
import secrets
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from labrunner.errors import InputError, StoreError
from labrunner.experiment.options.table import flag
from labrunner.files.descriptors import sync, write_file
from labrunner.files.durable import storing, sync_folder
from labrunner.files.filesystem import spread_below
from labrunner.files.points import reach
from labrunner.records import schema
from labrunner.records.encoding import canonical
from labrunner.records.run import RunRecord
from labrunner.records.seals import seal
from labrunner.store.buffering.buffer import create_buffer
from labrunner.store.layout import RunPaths

UNFINISHED: Final = ".new-"
_STALE_S: Final = 24 * 3600


def create_run(
    runs_dir: Path,
    record: RunRecord,
    tasks: Iterable[bytes],
    schedule: Iterable[bytes],
    earlier: Iterable[bytes] = (),
) -> RunPaths:
    """Make the directory of a new run, from lines as `canonical.encode_line` makes them.

    Raises InputError when a run with this id exists.
    """
    paths = RunPaths(runs_dir / record.run_id)
    refuse_existing(paths)
    data = canonical.encode_line(seal(record))
    schema.validate("run_v1", data)
    with storing("creating a run in", runs_dir):
        runs_dir.mkdir(parents=True, exist_ok=True)
        remove_leftovers(runs_dir, before=time.time() - _STALE_S)
        with _building(runs_dir, record.run_id) as draft:
            write_file(draft.run, data)
            _write_lines(draft.tasks, tasks, record.digests.tasks)
            _write_lines(draft.schedule, schedule, record.digests.schedule)
            _fill(draft)
            if record.digests.earlier is not None:
                _write_lines(draft.earlier, earlier, record.digests.earlier)
                sync_folder(draft.earlier.parent)
            reach("create.written")
            _rename(draft, paths)
        reach("create.renamed")
        sync_folder(runs_dir)
    reach("create.done")
    return paths


def refuse_existing(paths: RunPaths) -> None:
    """Raise InputError when the run is there already."""
    if paths.root.exists():
        raise InputError(
            "run id", f"{paths.root} exists already; choose another {flag('run_id')}, or continue that run"
        )


def remove_leftovers(runs_dir: Path, *, before: float) -> None:
    """Remove half-built runs last touched before a time (seconds since 1970), unless somebody builds them."""
    for folder in runs_dir.glob(f"{UNFINISHED}*"):
        try:
            is_stale = folder.stat().st_mtime < before
        except FileNotFoundError:
            continue
        if is_stale and not _is_being_built(folder):
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _building(runs_dir: Path, run_id: str) -> Iterator[RunPaths]:
    """A locked folder under a temporary name, removed when building it fails."""
    draft = RunPaths(runs_dir / f"{UNFINISHED}{run_id}-{secrets.token_hex(4)}")
    draft.root.mkdir()
    reach("create.begun")
    fd = os.open(draft.lock, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield draft
    except BaseException:
        shutil.rmtree(draft.root, ignore_errors=True)
        raise
    finally:
        os.close(fd)


def _is_being_built(folder: Path) -> bool:
    try:
        fd = os.open(RunPaths(folder).lock, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def _write_lines(path: Path, lines: Iterable[bytes], digest: str) -> None:
    """Write a file line by line, so that a long one needs no memory, and check what its run record says."""
    state = hashlib.sha256()
    with path.open("xb") as file:
        for line in lines:
            if not line.endswith(b"\n") or line.count(b"\n") != 1:
                raise ValueError(f"{path.name}: not one line: {line[:80]!r}")
            state.update(line)
            file.write(line)
        file.flush()
        sync(file.fileno())
    if f"sha256:{state.hexdigest()}" != digest:
        raise StoreError(f"creating {path}: its lines do not have the digest that the run record names")


def _fill(draft: RunPaths) -> None:
    for folder in (draft.scores.parent, draft.trials.parent, draft.trial_folders):
        folder.mkdir()
    spread_below(draft.trial_folders)
    rows = (draft.predictions, draft.scores, draft.trials, draft.timings)
    for path in (draft.commits, *rows, draft.buffered):
        write_file(path, b"")
    create_buffer(draft.buffer)
    for folder in (draft.scores.parent, draft.trials.parent, draft.trial_folders, draft.root):
        sync_folder(folder)


def _rename(draft: RunPaths, paths: RunPaths) -> None:
    try:
        draft.root.rename(paths.root)
    except OSError:
        # Another process may have made the same run meanwhile; rename refuses to replace a folder in use.
        refuse_existing(paths)
        raise
