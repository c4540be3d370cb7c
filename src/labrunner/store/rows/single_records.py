"""Reading single records of a run's directory: strictly, and never of a version that is not known.

Rules: a record is taken only as it was written, with its seal. `status.json` is a view, and crash notes are
for people: where these are damaged they are left out, with a warning, and nothing else is refused for it.
"""

import logging
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from labrunner.errors import DamagedRun, StoreError
from labrunner.files.durable import say
from labrunner.records.run import CrashRecord, RunRecord, StatusRecord
from labrunner.records.seals import is_as_written
from labrunner.store.layout import RunPaths

Record = TypeVar("Record", bound=msgspec.Struct)

ALTERED: Final = "not as it was written: its seal does not fit its content"


_log: Final = logging.getLogger(__name__)


class _Versioned(msgspec.Struct):
    schema_version: str


class _Named(msgspec.Struct):
    run_id: str


def read_run(paths: RunPaths) -> RunRecord:
    """Read `run.json`. Raises DamagedRun when it is not as it was written."""
    record, problem = load_run(paths)
    if problem is not None:
        raise DamagedRun(f"{paths.run}: {problem}; undo what changed it: all else of the run rests on it")
    return record


def load_run(paths: RunPaths) -> tuple[RunRecord, str | None]:
    """Read `run.json`, with what is wrong with it though it can be read."""
    data = _read(paths.run)
    if data is None:
        raise StoreError(f"reading {paths.run}: there is no such file, so this is no run's directory")
    record = decode(paths.run, data, RunRecord, "run_v1")
    return record, None if is_as_written(record, data) else ALTERED


def read_status(paths: RunPaths) -> StatusRecord | None:
    """Read `status.json`; None when the run's first owner died before writing one, and when it is damaged."""
    try:
        return load_status(paths)
    except DamagedRun as error:
        _warn(f"{error}; it is a view: left out here, and written anew when the run goes on")
        return None


def load_status(paths: RunPaths) -> StatusRecord | None:
    """Read `status.json`; None when there is none. Raises DamagedRun when it is not as written."""
    data = _read(paths.status)
    if data is None:
        return None
    status = decode(paths.status, data, StatusRecord, "status_v1")
    if not is_as_written(status, data):
        raise DamagedRun(f"{paths.status}: {ALTERED}")
    if status.run_id != (owner := _read_id(paths)):
        raise DamagedRun(f"{paths.status}: belongs to run {status.run_id}, not to {owner}")
    return status


def read_crashes(paths: RunPaths) -> list[CrashRecord]:
    """Read the notes of all crashes that were found, the oldest first; damaged ones are left out."""
    found: list[CrashRecord] = []
    for path in iter_crash_files(paths):
        try:
            found.append(load_crash(paths, path))
        except DamagedRun as error:
            _warn(f"{error}; left out")
    return found


def iter_crash_files(paths: RunPaths) -> Iterator[Path]:
    """The files of crash notes, the oldest first."""
    number = 1
    while paths.crash(number).exists():
        yield paths.crash(number)
        number += 1


def load_crash(paths: RunPaths, path: Path) -> CrashRecord:
    """Read one note. Raises DamagedRun when it is not this run's, as written."""
    data = _read(path) or b""
    note = decode(path, data, CrashRecord, "crash_v1")
    if not is_as_written(note, data):
        raise DamagedRun(f"{path}: {ALTERED}")
    if note.run_id != (owner := _read_id(paths)):
        raise DamagedRun(f"{path}: belongs to run {note.run_id}, not to {owner}")
    return note


def _read_id(paths: RunPaths) -> str:
    """The run's id, without looking at the rest of `run.json`."""
    try:
        return msgspec.json.decode(_read(paths.run) or b"", type=_Named).run_id
    except (ValueError, RecursionError) as error:
        raise DamagedRun(f"reading {paths.run}: not a run_v1: {error}") from error


@lru_cache(maxsize=256)
def _warn(text: str) -> None:
    """Say it once, however often a command looks."""
    _log.warning("%s", text)


def decode(path: Path, data: bytes, kind: type[Record], version: str) -> Record:
    """Decode a record, refusing another version with a sentence."""
    try:
        found = msgspec.json.decode(data, type=_Versioned).schema_version
        if found == version:
            return msgspec.json.decode(data, type=kind)
    except (ValueError, RecursionError) as error:
        raise DamagedRun(f"reading {path}: not a {version}: {error}") from error
    raise StoreError(
        f"reading {path}: its schema_version is {found!r}, and this program knows {version!r}; "
        "use the labrunner that wrote it, or a newer one"
    )


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"reading {path}: {say(error)}") from error
